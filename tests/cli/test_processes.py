"""The command line as a process of its own: signals, kills, two at once, full and read-only disks, imports."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers.commands import PATIENCE, PROGRAM, eventually, living, rows

pytestmark = pytest.mark.process

SMALL = ("--suite", "planted", "--limit", "40")
PART = (*SMALL, "--estimators", "truth", "--seeds", "1", "--workers", "1")
RUNS = 1 + 2 * 2 * 5  # untouched images; truth and random under ROAR and KAR at five levels


def start(*words: object, stderr: Path | None = None) -> subprocess.Popen:
    """Start a command in a session of its own, so that its workers can be found."""
    with (stderr or Path(os.devnull)).open("wb") as file:
        command = [PROGRAM, *map(str, words)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, start_new_session=True)


def call(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE)


def tables(store: Path) -> list[str]:
    found = [
        call("table", *SMALL, "--store", store, "--protocol", name, "--format", "json") for name in ("roar", "kar")
    ]
    assert [answer.returncode for answer in found] == [0, 0]
    return [answer.stdout for answer in found]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A store that was filled by one command, never disturbed."""
    store = tmp_path_factory.mktemp("whole")
    answer = call("run", *PART, "--store", store)
    assert answer.returncode == 0, answer.stderr
    assert "truth" in answer.stdout
    assert "Traceback" not in answer.stderr
    assert rows(store) == RUNS
    return store


# --- interrupted, killed, twice at once


def test_ended_at_any_moment_it_goes_on_and_ends_with_the_same_table(whole, tmp_path):
    store, log = tmp_path / "store", tmp_path / "log"
    moments = [
        (signal.SIGKILL, (store / "rankings").exists),
        (signal.SIGTERM, lambda: rows(store) >= 2),
        (signal.SIGINT, lambda: rows(store) >= RUNS // 2),
        (signal.SIGKILL, lambda: rows(store) >= RUNS - 6),
    ]
    for number, reached in moments:
        process = start("run", *PART, "--store", store, stderr=log)
        assert eventually(lambda reached=reached, process=process: reached() or process.poll() is not None)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # a terminal sends Ctrl-C to the command and its workers
        else:
            process.send_signal(number)
        assert process.wait(PATIENCE) == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[number]
        assert eventually(lambda process=process: not living(process.pid))
        assert "Traceback" not in log.read_text()
        if number == signal.SIGINT:
            said = log.read_text().splitlines()[-1]
            assert said == "roarbench: interrupted; finished runs are kept, the same command goes on"
    kept = rows(store)
    assert 0 < kept < RUNS
    status = json.loads(call("status", *SMALL, "--store", store, "--format", "json").stdout)
    assert (status["done"], status["running"], status["failed"]) == (kept, 0, 0)
    assert call("run", *PART, "--store", store).returncode == 0
    assert rows(store) == RUNS
    assert tables(store) == tables(whole)


def test_two_at_once_share_the_work(whole, tmp_path):
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    store = tmp_path / "store"
    processes = [start("run", *PART, "--store", store, stderr=log) for log in logs]
    assert [process.wait(PATIENCE) for process in processes] == [0, 0]
    assert rows(store) == RUNS
    with closing(sqlite3.connect(store / "results.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM failures").fetchone() == (0,)
        assert database.execute("SELECT count(*) FROM leases").fetchone() == (0,)
    assert tables(store) == tables(whole)


def test_a_reader_that_leaves_early_is_no_trouble(whole):
    for words in (("table", *SMALL, "--store", str(whole), "--format", "json"), ("suites",)):
        with subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode in (0, 1)


# --- disks


@pytest.fixture
def small_disk(tmp_path, require) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system of its own, or mounts it anew with other options."""
    mount, folder = require("mount", "part of util-linux"), tmp_path / "disk"
    folder.mkdir()

    def make(options: str) -> Path:
        again = ["-o", f"remount,{options}"] if folder.is_mount() else ["-t", "tmpfs", "-o", options, "none"]
        found = subprocess.run([mount, *again, str(folder)], capture_output=True, text=True)
        if found.returncode and os.environ.get("CI") == "true":
            pytest.fail(f"cannot mount a small disk: {found.stderr}")
        if found.returncode:
            pytest.skip(f"cannot mount a small disk: {found.stderr}")
        return folder

    yield make
    if folder.is_mount():
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def complaint(answer: subprocess.CompletedProcess) -> str:
    """The one line of a mistake, after whatever was printed about the work."""
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert "Traceback" not in answer.stderr
    (line,) = [line for line in answer.stderr.splitlines() if line.startswith("roarbench: ")]
    assert line == answer.stderr.splitlines()[-1]
    return line


def test_a_full_disk_is_one_line_and_with_room_the_same_command_goes_on(whole, small_disk):
    store = small_disk("size=160k") / "store"
    assert "the disk is full" in complaint(call("run", *PART, "--store", store))  # for the tables of the results
    small_disk("size=300k")
    assert "no space left in" in complaint(call("run", *PART, "--store", store))  # for the decoded images
    small_disk("size=600k")
    full = complaint(call("run", *PART, "--store", store))  # for a ranking or for the results, by the size of both
    assert "; the plan needs " in full or "No space left on device; free space or choose another --store" in full
    small_disk("size=8m")
    assert call("run", *PART, "--store", store).returncode == 0
    assert tables(store) == tables(whole)


def test_a_read_only_store_can_be_read_and_not_run(whole, small_disk):
    disk = small_disk("size=8m")
    store = disk / "store"
    subprocess.run(["cp", "-r", str(whole), str(store)], check=True)
    small_disk("ro")
    assert tables(store) == tables(whole)
    line = complaint(call("run", *SMALL, "--store", store))
    assert "cannot be written" in line or "cannot be opened" in line


# --- imports


MODULES = """
import sys
from roarbench.cli.main import main
heavy = {"torch", "torchvision", "captum", "datasets", "scipy", "sqlalchemy", "matplotlib", "numpy"}
for words in %r:
    sys.argv = ["roarbench", *words]
    try:
        main()
    except SystemExit as stop:
        print(stop.code, *sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


def test_reading_commands_do_not_wait_for_torch(whole):
    reading = [
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("run", "--suite", "quikc"),
        ("suites",),
        ("estimators",),
        ("status", *SMALL, "--store", str(whole)),
        ("keys", *SMALL, "--store", str(whole)),
        ("show", "nothing", "--store", str(whole)),
        ("table", *SMALL, "--store", str(whole)),
        ("validity", *SMALL, "--store", str(whole)),
        ("plot", *SMALL, "--store", str(whole), "-o", str(whole / "curves.svg")),
    ]
    found = subprocess.run([sys.executable, "-c", MODULES % (reading,)], capture_output=True, text=True, check=True)
    lines = [line for line in found.stderr.splitlines() if not line.startswith(("roarbench", "drawn"))]
    assert lines[:3] == ["0", "0", "0"]  # nothing heavy at all
    assert lines[3].startswith("2")  # a store may know a suite of this name
    assert [line.split()[0] for line in lines[6:]] == ["0", "0", "2", "0", "0", "0"]
    assert not any("torch" in line or "captum" in line or "datasets" in line for line in lines)
    assert [line for line in lines if "matplotlib" in line] == lines[-1:]

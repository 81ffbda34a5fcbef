"""The command line as a process of its own: signals, kills, a full disk, imports."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import forked
from tests.helpers.command_line import RUNS, Call
from tests.helpers.commands import LARGER, PART, PATIENCE, PROGRAM, eventually, living, rows

pytestmark = pytest.mark.process


def tables(call: Call, store: Path) -> list[str]:
    asked = ("table", *LARGER, "--store", store, "--format", "json", "--protocol")
    return [call(*asked, name).out for name in ("roar", "kar")]


def test_ended_at_any_moment_it_goes_on_and_ends_with_the_same_table(whole, call, tmp_path):
    store, log, run = tmp_path / "store", tmp_path / "log", ("run", *PART, "--store", tmp_path / "store")
    moments = [
        (signal.SIGKILL, -9, (store / "rankings").exists),
        (signal.SIGTERM, 143, lambda: rows(store) >= 2),
        (signal.SIGINT, 130, lambda: rows(store) >= RUNS // 2),
        (signal.SIGKILL, -9, lambda: rows(store) >= RUNS - 6),
    ]
    for number, code, reached in moments:
        process = forked.start(run, log)
        assert eventually(lambda reached=reached, process=process: reached() or process.exitcode is not None)
        # a terminal sends Ctrl-C to the command and its workers
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        process.join(PATIENCE)
        assert process.exitcode == code, log.read_text()
        assert eventually(lambda process=process: not living(process.pid))
        assert "Traceback" not in log.read_text()
        if number == signal.SIGINT:
            said = log.read_text().splitlines()[-1]
            assert said == "roarbench: interrupted; finished runs are kept, the same command goes on"
    kept = rows(store)
    assert 0 < kept < RUNS
    status = json.loads(call("status", *LARGER, "--store", store, "--format", "json").out)
    assert (status["done"], status["running"], status["failed"]) == (kept, 0, 0)
    assert call(*run).code == 0
    assert rows(store) == RUNS
    assert tables(call, store) == tables(call, whole)


def test_a_reader_that_leaves_early_is_no_trouble(whole):
    for words in (("table", *LARGER, "--store", str(whole), "--format", "json"), ("suites",)):
        with subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode in (0, 1)


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


def test_a_full_disk_is_one_line_and_with_room_the_same_command_goes_on(whole, call, small_disk, tmp_path):
    run, log = ("run", *PART, "--store", small_disk("size=160k") / "store"), tmp_path / "log"

    def complaint():
        """The one line of a mistake, after whatever was printed about the work."""
        process = forked.start(run, log)
        process.join(PATIENCE)
        line = log.read_text().splitlines()[-1]
        assert (process.exitcode, line.startswith("roarbench: "), "Traceback" in log.read_text()) == (2, True, False)
        return line

    assert "the disk is full" in complaint()  # for the tables of the results
    small_disk("size=300k")
    assert "no space left in" in complaint()  # for the decoded images
    small_disk("size=600k")
    full = complaint()  # for a ranking or for the results, by the size of both
    assert "; the plan needs " in full or "No space left on device; free space or choose another --store" in full
    small_disk("size=8m")
    assert call(*run).code == 0
    assert tables(call, run[-1]) == tables(call, whole)


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
        ("status", *LARGER, "--store", str(whole)),
        ("keys", *LARGER, "--store", str(whole)),
        ("show", "nothing", "--store", str(whole)),
        ("table", *LARGER, "--store", str(whole)),
        ("validity", *LARGER, "--store", str(whole)),
        ("plot", *LARGER, "--store", str(whole), "-o", str(whole / "curves.svg")),
    ]
    found = subprocess.run([sys.executable, "-c", MODULES % (reading,)], capture_output=True, text=True, check=True)
    lines = [line for line in found.stderr.splitlines() if not line.startswith(("roarbench", "drawn"))]
    assert lines[:3] == ["0", "0", "0"]  # nothing heavy at all
    assert lines[3].startswith("2")  # a store may know a suite of this name
    assert [line.split()[0] for line in lines[6:]] == ["0", "0", "2", "0", "0", "0"]
    assert not any("torch" in line or "captum" in line or "datasets" in line for line in lines)
    assert [line for line in lines if "matplotlib" in line] == lines[-1:]

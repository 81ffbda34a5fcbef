"""The command line as a process of its own: signals, kills, a database that goes away, imports."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import select

from roarbench.errors import StoreError
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.schema import leases
from tests.helpers import forked
from tests.helpers.command_line import RUNS, Call
from tests.helpers.commands import LARGER, PART, PATIENCE, PROGRAM, eventually, living, outcomes, rows
from tests.helpers.postgres import PrivateServer

pytestmark = pytest.mark.process


def lessees(store: Path) -> set[int]:
    """The numbers of the processes that hold leases, dead or alive."""
    with ResultsStore.open(default_url(store), read_only=True) as results, results.database.read() as connection:
        return set(connection.scalars(select(leases.c.pid)))


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
        assert number == signal.SIGKILL or process.pid not in lessees(store), "it gave them up"
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


def rows_of(url: str) -> int:
    try:
        return len(outcomes(url))
    except StoreError:  # no tables yet
        return 0


@pytest.mark.postgres
@pytest.mark.parametrize("seconds", [3.0, pytest.param(60.0, marks=pytest.mark.soak)])
def test_the_database_is_killed_twice_and_nothing_is_lost(own_server: PrivateServer, whole, tmp_path, seconds: float):
    log, url = tmp_path / "log", own_server.url
    process = forked.start(("run", *PART, "--store", tmp_path / "store", "--db", url), log)
    for least in (1, 10):
        assert eventually(lambda least=least: rows_of(url) >= least)
        own_server.stop()
        time.sleep(seconds)
        own_server.start()
    process.join(PATIENCE)
    assert process.exitcode == 0, log.read_text()
    assert "until then this command waits, and nothing is lost" in log.read_text()
    assert "it is back after" in log.read_text()
    assert outcomes(url) == outcomes(default_url(whole))
    with ResultsStore.open(url, read_only=True) as store:
        assert store.running() == []
        assert store.failures.stopped(store.keys("")) == {}


def test_a_reader_that_leaves_early_is_no_trouble(whole):
    for words in (("table", *LARGER, "--store", str(whole), "--format", "json"), ("suites",)):
        with subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode in (0, 1)


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

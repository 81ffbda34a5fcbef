"""Commands as separate processes: signals, kills, database restarts, logs, imports."""

import json
import os
import signal
import subprocess
import time

import pytest
from sqlalchemy import select

from roarbench.common.errors import StoreError
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.schema import leases
from tests.helpers import forked
from tests.helpers.command_line import RUNS
from tests.helpers.processes import (
    LARGER,
    PART,
    PATIENCE,
    PROGRAM,
    call_in_new_process,
    list_living_processes,
    read_outcomes,
    rows,
    wait_until,
)
from tests.helpers.store_rows import list_result_keys

pytestmark = pytest.mark.process


def read_lease_process_ids(store):
    """Read the numbers of processes that hold leases, dead or alive."""
    with (
        ResultsStore.open(make_default_url(store), read_only=True) as results,
        results.database.begin_read() as connection,
    ):
        return set(connection.scalars(select(leases.c.pid)))


def read_tables(call, store):
    asked = ("table", *LARGER, "--store", store, "--format", "json", "--protocol")
    return [call(*asked, name).out for name in ("roar", "kar")]


def test_run_resumed_after_signals_gives_same_table(whole, call, tmp_path):
    store, log, run = tmp_path / "store", tmp_path / "log", ("run", *PART, "--store", tmp_path / "store")
    moments = [
        (signal.SIGKILL, -9, (store / "rankings").exists),
        (signal.SIGTERM, 143, lambda: rows(store) >= 2),
        (signal.SIGINT, 130, lambda: rows(store) >= RUNS // 2),
        (signal.SIGKILL, -9, lambda: rows(store) >= RUNS - 6),
    ]
    for number, code, reached in moments:
        process = forked.start(run, log)
        assert wait_until(lambda reached=reached, process=process: reached() or process.exitcode is not None)
        # a terminal sends Ctrl-C to the command and its workers
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        process.join(PATIENCE)
        assert process.exitcode == code, log.read_text()
        assert wait_until(lambda process=process: not list_living_processes(process.pid))
        assert number == signal.SIGKILL or process.pid not in read_lease_process_ids(store), (
            "an ended process must release its leases"
        )
        assert "Traceback" not in log.read_text()
        if number == signal.SIGINT:
            said = log.read_text().splitlines()[-1]
            assert said == "roarbench: interrupted; finished runs are stored, and the same command resumes the work"
    kept = rows(store)
    assert 0 < kept < RUNS
    status = json.loads(call("status", *LARGER, "--store", store, "--format", "json").out)
    assert (status["done"], status["running"], status["failed"]) == (kept, 0, 0)
    assert call(*run).code == 0
    assert rows(store) == RUNS
    assert read_tables(call, store) == read_tables(call, whole)


def count_stored_rows(url):
    try:
        return len(read_outcomes(url))
    except StoreError:  # no tables yet
        return 0


@pytest.mark.postgres
@pytest.mark.parametrize("seconds", [3.0, pytest.param(60.0, marks=pytest.mark.soak)])
def test_run_survives_database_restarts_without_storing_password(own_server, whole, tmp_path, seconds):
    log, folder = tmp_path / "log", tmp_path / "store"
    url = own_server.url.replace("postgres@", "postgres:hush@")  # the server accepts any password
    process = forked.start(("run", *PART, "--store", folder, "--db", url), log)
    for least in (1, 10):
        assert wait_until(lambda least=least: count_stored_rows(url) >= least)
        own_server.stop()
        time.sleep(seconds)
        own_server.start()
    process.join(PATIENCE)
    assert process.exitcode == 0, log.read_text()
    assert "this command waits for the server, and nothing is lost" in log.read_text()
    assert "the server is back after" in log.read_text()
    assert read_outcomes(url) == read_outcomes(make_default_url(whole))
    files = [log, *(path for path in folder.rglob("*") if path.is_file())]
    assert [path for path in files if b"hush" in path.read_bytes()] == []
    with ResultsStore.open(url, read_only=True) as store, store.database.begin_read() as connection:
        assert store.list_leases() == []
        assert store.failures.find_stop_reasons(list_result_keys(store)) == {}
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        for table in connection.exec_driver_sql(tables).scalars().all():
            assert "hush" not in repr(connection.exec_driver_sql(f'SELECT * FROM "{table}"').all()), table


def test_table_tolerates_closed_output_pipe(whole):
    words = (PROGRAM, "table", *LARGER, "--store", str(whole), "--format", "json")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 1)


def test_reading_commands_do_not_import_torch_or_pyarrow(whole):
    here = (*LARGER, "--store", whole)
    light = [("--help",), ("--version",), ("run", "--help")]
    known = [("run", "--suite", "quikc"), ("suites",), ("estimators",)]  # the store is searched for such a suite
    stored = [(word, *here) for word in ("status", "runs", "table", "diagnose")]
    drawn = ("plot", *here, "-o", whole / "curves.svg")
    shown = ("runs", "nothing", "--store", whole)
    found = call_in_new_process([(words, {}) for words in (*light, *known, *stored, shown, drawn)])
    assert [code for code, _, _ in found] == [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 0]
    assert [heavy for _, _, heavy in found[:3]] == [[], [], []]
    assert [
        heavy for _, _, heavy in found if {"torch", "torchvision", "captum", "datasets", "pyarrow"} & {*heavy}
    ] == []
    assert ["matplotlib" in heavy for _, _, heavy in found] == [False] * 11 + [True]

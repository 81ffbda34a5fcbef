"""Several processes on one store, some of them killed: no run lost, none done twice."""

import multiprocessing
import os
import signal
import sqlite3
import time
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from roarbench.store.leases import Owner
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.leasing import lease
from tests.helpers.store_rows import make_result, make_run

pytestmark = pytest.mark.process

PROCESSES = 4
SPAWN = multiprocessing.get_context("spawn")


def open_once(url: str, barrier: Barrier) -> None:
    barrier.wait()
    with ResultsStore.open(url) as store:
        lease(store, [make_run().key], Owner.here())


def start(count: int, function, *arguments) -> list[BaseProcess]:
    processes = [
        SPAWN.Process(target=function, args=[part(number) if callable(part) else part for part in arguments])
        for number in range(count)
    ]
    for process in processes:
        process.start()
    return processes


def test_processes_that_make_the_store_at_the_same_time(store_url: str, tmp_path: Path):
    barrier = SPAWN.Barrier(PROCESSES)
    processes = start(PROCESSES, open_once, store_url, barrier)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES


def test_the_file_is_sound_after_a_kill_in_a_transaction(tmp_path: Path):
    barrier = SPAWN.Barrier(2)
    process = SPAWN.Process(target=_die_in_a_transaction, args=(default_url(tmp_path), barrier))
    process.start()
    barrier.wait()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with ResultsStore.open(default_url(tmp_path)) as store:
        assert store.done([make_run(0).key, make_run(1).key]) == {make_run(0).key}
        assert store.add(make_result(make_run(1)))
    connection = sqlite3.connect(tmp_path / "results.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def _die_in_a_transaction(url: str, barrier: Barrier) -> None:
    with ResultsStore.open(url) as store:
        store.add(make_result(make_run(0)))
        with store._database.write() as connection:
            connection.exec_driver_sql("UPDATE results SET seed = 7")
            barrier.wait()
            time.sleep(600)

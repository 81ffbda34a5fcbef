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

RUNS = 200
PROCESSES = 4
SPAWN = multiprocessing.get_context("spawn")


def work(url: str, log: str, barrier: Barrier | None = None, hold: float = 0.0) -> None:
    """Do whatever is free until nothing is missing, and note each run that was done."""
    runs = {run.key: run for run in map(make_run, range(RUNS))}
    if barrier:
        barrier.wait()
    owner = Owner.here()
    with ResultsStore.open(url) as store, Path(log).open("a", buffering=1) as notes:
        while missing := sorted(set(runs) - store.done(runs)):
            mine = lease(store, missing, owner)
            store.release(sorted(mine)[8:], owner)  # leave some to the others
            for key in sorted(mine)[:8]:
                time.sleep(hold)
                assert store.add(make_result(runs[key], total=100))
                notes.write(f"{key}\n")
            store.beat(owner)
            time.sleep(0.001)


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


def finished(folder: Path) -> list[str]:
    """The keys that were done, once for each time, from what the processes noted."""
    return [line for log in folder.glob("*.log") for line in log.read_text().splitlines()]


def test_each_run_is_done_once(store_url: str, tmp_path: Path):
    barrier = SPAWN.Barrier(PROCESSES)
    processes = start(PROCESSES, work, store_url, lambda number: str(tmp_path / f"{number}.log"), barrier)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert sorted(finished(tmp_path)) == sorted(run.key for run in map(make_run, range(RUNS)))
    with ResultsStore.open(store_url, read_only=True) as store:
        assert len(store.keys("")) == RUNS
        assert store.running() == []


def test_killed_processes_lose_nothing_and_block_nothing(store_url: str, tmp_path: Path):
    """Ten processes are killed one after the other while others work; what each had stored is there at the end."""
    arguments = (work, store_url, lambda number: str(tmp_path / f"{time.monotonic_ns()}.log"), None, 0.005)
    workers = start(2, *arguments)
    for _ in range(5):
        victim = workers.pop(0)
        _wait_for(lambda victim=victim: not victim.is_alive() or len(finished(tmp_path)) % 7 == 0)
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        workers += start(1, *arguments)
    for process in workers:
        process.join()
        assert process.exitcode == 0
    wanted = {run.key: make_result(run, total=100) for run in map(make_run, range(RUNS))}
    with ResultsStore.open(store_url, read_only=True) as store:
        found = store.results(wanted)
        assert store.running() == []
    assert set(found) == set(wanted)
    assert all(found[key].bits == wanted[key].bits for key in wanted)
    assert len(finished(tmp_path)) == len(set(finished(tmp_path))), "a run was done twice"
    assert set(finished(tmp_path)) <= set(found)


def _wait_for(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_the_heir_of_a_killed_process_waits_for_nothing(store_url: str):
    keys = [make_run().key]
    barrier = SPAWN.Barrier(2)
    process = SPAWN.Process(target=_claim_and_stay, args=(store_url, keys, barrier))
    process.start()
    barrier.wait()
    with ResultsStore.open(store_url) as store:
        assert lease(store, keys, Owner.here()) == set()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert lease(store, keys, Owner.here()) == set(keys)


def _claim_and_stay(url: str, keys: list[str], barrier: Barrier) -> None:
    with ResultsStore.open(url) as store:
        lease(store, keys, Owner.here())
        barrier.wait()
        time.sleep(600)


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

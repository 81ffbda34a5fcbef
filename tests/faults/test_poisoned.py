"""One broken worker of eight in a whole command: no run fails."""

import os
from pathlib import Path

import pytest

from roarbench.execution import local_workers
from roarbench.store.results import ResultsStore, default_url
from roarbench.workers import local
from tests.helpers import forked
from tests.helpers.commands import PATIENCE
from tests.helpers.poisoned import do_unless_poisoned

PART = ("--suite", "planted", "--limit", "8", "--estimators", "truth", "--seeds", "1")
RUNS = 1 + 2 * 2 * 5  # untouched images; truth and random under ROAR and KAR at five levels
SHOWN = "CUDA_VISIBLE_DEVICES"


def poison_one() -> None:
    """Let the second worker, and whatever replaces it, die of every job."""
    local_workers.PER_CORE = 8  # of a machine with one core, too
    start, perform = local.LocalEngine._start, local.perform

    def started(engine: local.LocalEngine, number: int) -> object:
        os.environ[SHOWN] = str(number)
        return start(engine, number)

    def performed(job: local.Job) -> object:
        do_unless_poisoned(0)
        return perform(job)

    local.LocalEngine._start, local.perform = started, performed


@pytest.mark.process
def test_one_poisoned_worker_of_eight_fails_no_run(tmp_path: Path):
    store, log = tmp_path / "store", tmp_path / "log"
    process = forked.start(("run", *PART, "--workers", 8, "--store", store), log, poison_one)
    process.join(PATIENCE)
    assert process.exitcode == 0, log.read_text()
    assert len(forked.stored(log)) == RUNS
    with ResultsStore.open(default_url(store), read_only=True) as results:
        keys = results.keys("")
        assert len(keys) == RUNS
        assert (results.failures.history(keys), results.failures.stopped(keys), results.running()) == ({}, {}, [])
    assert "its process died (exit code 9); tried 2 times" in log.read_text()

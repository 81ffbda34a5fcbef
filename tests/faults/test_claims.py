"""Many processes on one database: each run is given to one of them, and every result that they write is there."""

import time

import pytest

from roarbench.store.leases import Owner, Wanted
from roarbench.store.results import ResultsStore
from tests.helpers.commands import PATIENCE
from tests.helpers.forked import CONTEXT
from tests.helpers.leasing import lease
from tests.helpers.store_rows import make_result, make_run

pytestmark = pytest.mark.process


def take_all(barrier, url, noted, estimator, count):
    """Claim runs, eight at a time, and store their results until none is left; note those that were given."""
    runs = {run.key: run for run in (make_run(seed, estimator=estimator) for seed in range(count))}
    owner, mine, missing = Owner.here(), [], sorted(runs)
    with ResultsStore.open(url) as store:
        barrier.wait(PATIENCE)
        while missing:
            answer = store.claim([Wanted((key,)) for key in missing], owner, 8)
            for wish, number in answer.granted.items():
                mine.append(wish.keys[0])
                assert store.add(make_result(runs[mine[-1]], total=8), number)
            missing = [key for key in missing if key not in answer.done and key not in mine]
            time.sleep(0 if answer.granted else 0.01)
    noted.write_text("\n".join(mine))


def at_once(call, each):
    """Call a function in a process for each of these arguments; the first one is a barrier."""
    barrier = CONTEXT.Barrier(len(each))
    processes = [CONTEXT.Process(target=call, args=(barrier, *arguments)) for arguments in each]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
    assert [process.exitcode for process in processes] == [0] * len(each)


@pytest.mark.parametrize("claimers, runs, repetitions", [(4, 40, 1), pytest.param(8, 500, 20, marks=pytest.mark.soak)])
def test_no_run_is_given_twice_and_none_is_left(store_url, tmp_path, claimers, runs, repetitions):
    logs = [tmp_path / f"{claimer}.log" for claimer in range(claimers)]
    for repetition in range(repetitions):
        at_once(take_all, [(store_url, log, f"repetition-{repetition}", runs) for log in logs])
        given = [key for log in logs for key in log.read_text().splitlines()]
        assert len(given) == len(set(given)) == runs
    with ResultsStore.open(store_url, read_only=True) as store:
        assert len(store.keys("")) == repetitions * runs
        assert store.running() == []


def open_once(barrier, url):
    barrier.wait(PATIENCE)
    with ResultsStore.open(url) as store:
        lease(store, [make_run().key], Owner.here())


def test_processes_that_make_the_store_at_the_same_time(store_url):
    at_once(open_once, [(store_url,)] * 4)
    with ResultsStore.open(store_url) as store:
        lease(store, [make_run().key], Owner.here())
        assert [each.key for each in store.running()] == [make_run().key]

"""Concurrent processes on one store, and SIGKILL of processes and database: each result is stored exactly once."""

import os
import random
import signal
import time
from collections import Counter
from contextlib import closing

import pytest

from roarbench.store.leases import LeaseRequest, Owner
from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers import forked
from tests.helpers.processes import PATIENCE, list_living_processes, read_outcomes
from tests.helpers.store_rows import list_result_keys, make_result, make_run

pytestmark = pytest.mark.process


def take_all(barrier, url, noted, estimator, count):
    """Claim runs, eight at a time, store their results until none is left, and write the claimed keys to a file."""
    runs = {run.key: run for run in (make_run(seed, estimator=estimator) for seed in range(count))}
    owner, mine, missing = Owner.of_this_process(), [], sorted(runs)
    barrier.wait(PATIENCE)
    with ResultsStore.open(url) as store:  # all processes create the store at the same time
        barrier.wait(PATIENCE)
        while missing:
            answer = store.claim_leases([LeaseRequest((key,)) for key in missing], owner, 8)
            for wish, number in answer.granted.items():
                mine.append(wish.keys[0])
                assert store.add_results([make_result(runs[mine[-1]], total=8)], number)
            missing = [key for key in missing if key not in answer.done and key not in mine]
            time.sleep(0 if answer.granted else 0.01)
    noted.write_text("\n".join(mine))


@pytest.mark.parametrize("claimers, runs, repetitions", [(4, 40, 1), pytest.param(8, 500, 20, marks=pytest.mark.soak)])
def test_concurrent_processes_create_one_store_and_do_each_run_once(store_url, tmp_path, claimers, runs, repetitions):
    logs = [tmp_path / f"{claimer}.log" for claimer in range(claimers)]
    for repetition in range(repetitions):
        shared, rest = (forked.CONTEXT.Barrier(claimers), store_url), (f"repetition-{repetition}", runs)
        processes = [forked.CONTEXT.Process(target=take_all, args=(*shared, log, *rest)) for log in logs]
        for process in processes:
            process.start()
        for process in processes:
            process.join(PATIENCE)
        assert [process.exitcode for process in processes] == [0] * claimers
        given = [key for log in logs for key in log.read_text().splitlines()]
        assert len(given) == len(set(given)) == runs
    with ResultsStore.open(store_url, read_only=True) as store:
        assert len(list_result_keys(store)) == repetitions * runs
        assert store.list_leases() == []


SMALL = ("--suite", "planted", "--max-images", "40")
RUN = ("run", *SMALL, "--seeds", "1", "--estimators", "truth", "--workers", "2")
PAUSE = 0.8  # seconds between two kills, on average
KINDS = ("worker",) * 6 + ("command",) * 3 + ("database",)


class Commands:
    """Two commands at work on one store; commands that die are restarted."""

    def __init__(self, place, folder):
        self._place, self._folder, self._logs = place, folder, []
        self._running = [self._start(), self._start()]
        self._stored, self._since = 0, time.monotonic()

    def close(self):
        for command in self._running:
            command.kill()
            command.join()

    @property
    def acknowledged(self):
        """The keys reported as stored by the commands, once per report."""
        return [key for log in self._logs if log.exists() for key in forked.stored(log)]

    def go_on(self):
        """Restart commands that ended too early, and return whether any command is at work.

        Fail if no row is stored for long, because commands end or stand still.
        """
        if (stored := len(self.acknowledged)) > self._stored:
            self._stored, self._since = stored, time.monotonic()
        said = [log.read_text()[-500:] for log in self._logs[-4:] if log.exists()]
        assert time.monotonic() - self._since <= PATIENCE, f"no row for long; the commands said {said}"
        if any(command.exitcode == 1 for command in self._running):
            forked.start(("retry", *SMALL, *self._place), self._folder / "retry.txt").join(PATIENCE)
        self._running = [each if each.exitcode in (None, 0) else self._start() for each in self._running]
        return any(command.exitcode is None for command in self._running)

    def victims(self, kind):
        commands = [command.pid for command in self._running if command.is_alive()]
        workers = [pid for command in commands for pid in list_living_processes(command) if pid != command]
        return commands if kind == "command" else workers

    def _start(self):
        self._logs.append(self._folder / f"{len(self._logs) + 1}.log")
        return forked.start((*RUN, *self._place), self._logs[-1])


def disturb(commands, server, generator, most):
    """Kill at random moments, at most `most` times; a row is stored between two kills of workers, so the loop ends."""
    kills: Counter[str] = Counter()
    kind, rows = generator.choice(KINDS), -1
    while commands.go_on():
        time.sleep(generator.expovariate(1 / PAUSE))
        if kills.total() == most:
            continue
        stored, victims = len(commands.acknowledged), commands.victims(kind)
        if kind == "database":
            server.kill()
            time.sleep(generator.uniform(0, 1))
            server.start()
        elif not victims or (kind == "worker" and stored == rows):
            continue
        else:
            try:
                os.kill(generator.choice(victims), signal.SIGKILL)
            except ProcessLookupError:  # it has just ended
                continue
        kills[kind] += 1
        kind, rows = generator.choice(KINDS), stored
    return kills


def collect_outputs(folder, url, place):
    """Return correctness, rankings and the bytes of the tables of a store."""
    words = (*SMALL, *place, "--protocol")
    return read_outcomes(url), [forked.table(folder / f"{name}.json", *words, name) for name in ("roar", "kar")]


@pytest.mark.postgres
@pytest.mark.parametrize("wanted", [5, pytest.param(150, marks=pytest.mark.soak)])
def test_results_survive_kills_at_random_moments(own_server, tmp_path, wanted):
    """The suite runs again in an empty store until the wanted number of kills is reached."""
    place = ("--store", tmp_path / "store")
    process = forked.start((*RUN, *place), tmp_path / "calm.log")
    process.join(PATIENCE)
    assert process.exitcode == 0, (tmp_path / "calm.log").read_text()
    calm = collect_outputs(tmp_path, make_default_url(tmp_path / "store"), place)
    generator, kills, rounds = random.Random(wanted), Counter(), 0
    while kills.total() < wanted:
        rounds += 1
        folder, url = tmp_path / str(rounds), own_server.add_database(f"round{rounds}")
        folder.mkdir()
        place = ("--store", folder / "store", "--db", url)
        with closing(Commands(place, folder)) as commands:
            kills += disturb(commands, own_server, generator, wanted - kills.total())
        print(f"round {rounds}: {dict(kills)}", flush=True)
        assert sorted(commands.acknowledged) == sorted(set(commands.acknowledged)), "a row was stored twice"
        assert set(commands.acknowledged) <= read_outcomes(url).keys()
        assert collect_outputs(folder, url, place) == calm
        with ResultsStore.open(url, read_only=True) as store:
            assert (store.list_leases(), store.failures.find_stop_reasons(list_result_keys(store))) == ([], {})

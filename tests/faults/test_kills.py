"""SIGKILL at random moments, of workers, of commands and of the database: no acknowledged result is lost or doubled."""

import os
import random
import signal
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from roarbench.store.results import ResultsStore, default_url
from tests.helpers import forked
from tests.helpers.commands import PATIENCE, living, outcomes

pytestmark = [pytest.mark.process, pytest.mark.postgres]

SMALL = ("--suite", "planted", "--limit", "40")
SUITE = (*SMALL, "--seeds", "1", "--estimators", "truth")
PAUSE = 0.8  # seconds between two kills, on average
COMMANDS, WORKERS = 2, 2
KINDS = ("worker",) * 6 + ("command",) * 3 + ("database",)


class Commands:
    """Commands at work on one store; one that dies is started again."""

    def __init__(self, place, folder):
        self._place, self._folder = place, folder
        self._logs: list[Path] = []
        self._running: list[BaseProcess] = []
        self._stored, self._since = 0, time.monotonic()

    def __enter__(self):
        self._running = [self._start() for _ in range(COMMANDS)]
        return self

    def __exit__(self, *_):
        for command in self._running:
            command.kill()
            command.join()

    @property
    def acknowledged(self):
        """The keys that any of them was told are stored, once for each time."""
        return [key for log in self._logs if log.exists() for key in forked.stored(log)]

    def go_on(self):
        """Start a command for every one that ended too early, as when a run was lost three times; is any at work?"""
        self._look_for_rows()
        if any(command.exitcode == 1 for command in self._running):
            forked.start(("retry", *SMALL, *self._place), self._folder / "retry.txt").join(PATIENCE)
        self._running = [each if each.exitcode in (None, 0) else self._start() for each in self._running]
        return any(command.exitcode is None for command in self._running)

    def victims(self, kind):
        """Return the processes of this kind that live."""
        commands = [command.pid for command in self._running if command.is_alive()]
        workers = [pid for command in commands for pid in living(command) if pid != command]
        return commands if kind == "command" else workers

    def _look_for_rows(self):
        """Fail where commands end one after the other, or stand still, and no row is stored."""
        if (stored := len(self.acknowledged)) > self._stored:
            self._stored, self._since = stored, time.monotonic()
        said = [log.read_text()[-500:] for log in self._logs[-2 * COMMANDS :] if log.exists()]
        assert time.monotonic() - self._since <= PATIENCE, f"no row for long; the commands said {said}"

    def _start(self):
        self._logs.append(self._folder / f"{len(self._logs) + 1}.log")
        return forked.start(("run", *SUITE, "--workers", WORKERS, *self._place), self._logs[-1])


def disturb(commands, server, generator, most):
    """Kill now and then, `most` times at most; between two workers' ends a row is stored, so that it ends."""
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
        elif not victims or (kind == "worker" and stored == rows) or not kill(generator.choice(victims)):
            continue
        kills[kind] += 1
        kind, rows = generator.choice(KINDS), stored
    return kills


def kill(pid):
    """Kill a process; False if it has just ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def tables(folder, *place):
    """Return the bytes of the tables of a store."""
    words = (*SMALL, *place, "--protocol")
    return [forked.table(folder / f"{protocol}.json", *words, protocol) for protocol in ("roar", "kar")]


@pytest.fixture
def calm(tmp_path):
    """What one command makes of the suite that nothing disturbs."""
    folder = tmp_path / "calm"
    folder.mkdir()
    process = forked.start(("run", *SUITE, "--workers", WORKERS, "--store", folder / "store"), folder / "1.log")
    process.join(PATIENCE)
    assert process.exitcode == 0, (folder / "1.log").read_text()
    return outcomes(default_url(folder / "store")), tables(folder, "--store", folder / "store")


@pytest.mark.parametrize("wanted", [5, pytest.param(500, marks=pytest.mark.soak)])
def test_kills_at_random_moments(calm, own_server, tmp_path, wanted):
    """Whenever the suite is through, it begins anew in an empty store, until there were enough kills."""
    generator, kills, rounds = random.Random(wanted), Counter(), 0
    while kills.total() < wanted:
        rounds += 1
        folder, url = tmp_path / str(rounds), own_server.add_database(f"round{rounds}")
        folder.mkdir()
        place = ("--store", folder / "store", "--db", url)
        with Commands(place, folder) as commands:
            kills += disturb(commands, own_server, generator, wanted - kills.total())
        print(f"round {rounds}: {dict(kills)}", flush=True)
        assert sorted(commands.acknowledged) == sorted(set(commands.acknowledged)), "a row was stored twice"
        assert set(commands.acknowledged) <= outcomes(url).keys()
        assert (outcomes(url), tables(folder, *place)) == calm
        with ResultsStore.open(url, read_only=True) as store:
            assert (store.running(), store.failures.stopped(store.keys(""))) == ([], {})

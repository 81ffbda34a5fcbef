import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from roarbench.store.leases import SILENCE, Owner, is_alive
from roarbench.store.results import ResultsStore
from roarbench.store.schema import leases
from tests.helpers.store_rows import make_result, make_run

RUNS = [make_run(seed) for seed in range(6)]
KEYS = [run.key for run in RUNS]
ELSEWHERE = Owner("e15e", "another host", 1, "1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(store_url: str):
    with ResultsStore.open(store_url) as store:
        yield store


def age(store: ResultsStore, owner: Owner, seconds: float) -> None:
    """Pretend that an owner was last heard of so long ago."""
    with store._database.write() as connection:
        (beat,) = set(connection.execute(select(leases.c.beat).where(leases.c.owner == owner.id)).scalars())
        older = beat - timedelta(seconds=seconds)
        connection.execute(update(leases).where(leases.c.owner == owner.id).values(beat=older))


def beat_of(store: ResultsStore, owner: Owner) -> datetime:
    with store._database.read() as connection:
        return max(connection.execute(select(leases.c.beat).where(leases.c.owner == owner.id)).scalars())


def dead_process() -> Owner:
    """An owner on this host whose process has ended."""
    program = "from roarbench.store.leases import Owner; owner = Owner.here(); print(owner.pid, owner.start)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    return Owner("dead", Owner.here().host, int(printed[0]), printed[1])


def test_each_run_has_one_owner(store: ResultsStore):
    one, two = Owner.here(), Owner.here()
    assert store.lease(KEYS[:4], one) == set(KEYS[:4])
    assert store.lease(KEYS, two) == set(KEYS[4:])
    assert store.lease(KEYS, one) == set(), "its own leases are not given twice"
    assert {(lease.key, lease.owner) for lease in store.running()} == {
        (key, one if number < 4 else two) for number, key in enumerate(KEYS)
    }
    assert all(abs(datetime.now(UTC) - lease.since) < timedelta(minutes=5) for lease in store.running())


def test_a_done_run_is_not_leased(store: ResultsStore):
    store.add(make_result(RUNS[2]))
    assert store.lease(KEYS, Owner.here()) == set(KEYS) - {KEYS[2]}


def test_a_result_ends_the_lease(store: ResultsStore):
    store.lease(KEYS, Owner.here())
    store.add(make_result(RUNS[0]))
    store.add_all(make_result(run) for run in RUNS[1:3])
    assert {lease.key for lease in store.running()} == set(KEYS[3:])
    assert store.lease(KEYS, Owner.here()) == set()


def test_a_failure_keeps_the_lease_until_it_is_released(store: ResultsStore):
    owner = Owner.here()
    store.lease(KEYS, owner)
    store.add_failure(RUNS[0], "no")
    assert store.lease(KEYS, Owner.here()) == set()
    store.release([KEYS[0]], owner)
    assert store.lease(KEYS, Owner.here()) == {KEYS[0]}


def test_only_the_owner_releases(store: ResultsStore):
    store.lease(KEYS, Owner.here())
    store.release(KEYS, Owner.here())
    assert len(store.running()) == len(KEYS)


@pytest.mark.process
def test_the_leases_of_a_dead_process_are_free_at_once(store: ResultsStore):
    assert store.lease(KEYS, dead_process()) == set(KEYS)
    assert store.running() == []
    heir = Owner.here()
    assert store.lease(KEYS, heir) == set(KEYS)
    assert {lease.owner for lease in store.running()} == {heir}


def test_an_owner_elsewhere_is_dead_when_it_falls_silent(store: ResultsStore):
    store.lease(KEYS, ELSEWHERE)
    age(store, ELSEWHERE, SILENCE.total_seconds() - 30)
    assert store.lease(KEYS, Owner.here()) == set()
    assert len(store.running()) == len(KEYS)
    age(store, ELSEWHERE, 31)
    assert store.running() == []
    assert store.lease(KEYS, Owner.here()) == set(KEYS)


def test_a_heartbeat_keeps_the_leases(store: ResultsStore):
    store.lease(KEYS, ELSEWHERE)
    age(store, ELSEWHERE, SILENCE.total_seconds() - 30)
    store.beat(ELSEWHERE)
    age(store, ELSEWHERE, SILENCE.total_seconds() - 30)
    assert store.lease(KEYS, Owner.here()) == set()


def test_heartbeats_in_quick_succession_are_not_written(store: ResultsStore):
    store.lease(KEYS, ELSEWHERE)
    age(store, ELSEWHERE, 10)
    before = beat_of(store, ELSEWHERE)
    store.beat(ELSEWHERE)
    assert beat_of(store, ELSEWHERE) == before
    age(store, ELSEWHERE, 20)
    store.beat(ELSEWHERE)
    assert beat_of(store, ELSEWHERE) > before


@pytest.mark.slow
def test_many_leases_at_once(store: ResultsStore):
    keys = [f"{number:032x}" for number in range(25_000)]
    assert store.lease(keys, Owner.here()) == set(keys)
    assert store.lease(keys, Owner.here()) == set()
    assert store.lease([], Owner.here()) == set()


def test_a_living_process_is_known_by_number_and_start():
    here = Owner.here()
    long_ago = NOW - timedelta(days=9)
    assert is_alive(here, long_ago, NOW)
    assert not is_alive(Owner("x", here.host, here.pid, "1"), NOW, NOW), "the number went to a later process"
    assert not is_alive(Owner("x", here.host, 2**22 + 1, "1"), NOW, NOW), "above the largest number there is"


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError])  # hidepid=2 and hidepid=1
def test_a_process_that_the_kernel_hides_lives_while_it_is_heard_of(monkeypatch, error):
    """Its number may have gone to a later process meanwhile, since when is not to be seen."""
    owner = Owner("x", Owner.here().host, 1234567, "77")
    seen, sent = Path.read_text, []

    def hidden(path, *rest, **more):
        if path == Path("/proc/1234567/stat"):
            raise error(path)
        return seen(path, *rest, **more)

    def kill(pid, number):
        sent.append((pid, number))
        raise answer

    monkeypatch.setattr(Path, "read_text", hidden)
    monkeypatch.setattr(os, "kill", kill)
    answer = PermissionError("another user's")
    assert is_alive(owner, NOW - SILENCE / 2, NOW)
    assert not is_alive(owner, NOW - 2 * SILENCE, NOW)
    answer = ProcessLookupError("nobody's")
    assert not is_alive(owner, NOW, NOW), "nobody has this number, whatever was heard"
    assert set(sent) == {(1234567, 0)}


def test_no_process_has_a_number_that_is_too_large():
    assert not is_alive(Owner("x", Owner.here().host, 2**70, "1"), NOW, NOW)


def test_a_zombie_is_dead():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    owner = Owner("x", Owner.here().host, process.pid, start)
    assert is_alive(owner, NOW, NOW)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, though nobody has asked how
    assert not is_alive(owner, NOW, NOW)
    process.stdin.close()
    process.wait()


@pytest.mark.parametrize("owner", [ELSEWHERE, Owner("x", Owner.here().host, os.getpid(), "")])
def test_where_no_kernel_can_be_asked_the_heartbeat_counts(owner: Owner):
    assert is_alive(owner, NOW - timedelta(seconds=119), NOW)
    assert not is_alive(owner, NOW - timedelta(seconds=121), NOW)


def test_owners_are_told_apart():
    one, two = Owner.here(), Owner.here()
    assert one != two
    assert (one.host, one.pid, one.start) == (two.host, os.getpid(), two.start)

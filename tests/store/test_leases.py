"""Leases: one owner for each step, heartbeats, and takeover of the leases of dead owners."""

import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
from sqlalchemy import select, text, update

from roarbench.common.errors import LostLease, StoreError
from roarbench.store import database as database_module
from roarbench.store import leases as leases_module
from roarbench.store import results as results_module
from roarbench.store.leases import MAX_SILENCE, LeaseRequest, Owner, is_alive
from roarbench.store.results import ResultsStore
from roarbench.store.schema import leases
from tests.helpers.store_rows import lease, make_result, make_run

RUNS = [make_run(seed) for seed in range(6)]
KEYS = tuple(run.key for run in RUNS)
ELSEWHERE = Owner("e15e", "another host", 1, "1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def store(store_url, monkeypatch):
    """A store whose database server counts as started long ago."""
    make_columns = leases_module._make_now_and_startup_columns

    def make_now_and_old_startup(connection):
        return make_columns(connection)[0], leases.c.beat.label("up")

    monkeypatch.setattr(leases_module, "_make_now_and_startup_columns", make_now_and_old_startup)
    with ResultsStore.open(store_url) as store:
        yield store


def set_age(store, owner, age):
    older = update(leases).where(leases.c.owner == owner.id).values(beat=datetime.now(UTC) - age)
    store.database.run_write(lambda connection: connection.execute(older))


def claim_run(store, key, owner):
    """Lease a run and return the number of the lease."""
    (number,) = store.claim_leases([LeaseRequest((key,))], owner, 1).granted.values()
    return number


def test_claimed_run_has_one_owner_until_owner_releases(store):
    one, two = Owner.of_this_process(), Owner.of_this_process()
    store.add_results([make_result(RUNS[5])])
    assert lease(store, KEYS[:3], one) == set(KEYS[:3])
    answer = store.claim_leases([LeaseRequest((key,)) for key in KEYS], two, 1)
    assert [wish.keys for wish in answer.granted] == [(KEYS[3],)], "no more than can be done"
    assert (answer.done, answer.leased) == ({KEYS[5]}, set(KEYS[:3]))
    assert lease(store, KEYS, two) == {KEYS[4]}, "its own leases are not given twice"
    owners = dict(zip(KEYS[:5], [one] * 3 + [two] * 2, strict=True))
    assert {lease.key: lease.owner for lease in store.list_leases()} == owners
    assert all(abs(datetime.now(UTC) - lease.since) < timedelta(minutes=5) for lease in store.list_leases())
    store.release_leases(KEYS, two)
    assert {lease.owner for lease in store.list_leases()} == {one}


def test_stored_result_ends_lease_and_clears_failures(store):
    lease(store, KEYS, Owner.of_this_process())
    store.failures.record_runs_failed_until_retry([RUNS[0]], "no")
    counts = [store.failures.record_interruption(key, "killed") for key in (KEYS[0], KEYS[1], KEYS[0])]
    assert counts == [1, 1, 2], "whoever tried"
    store.add_results([make_result(RUNS[0])])
    store.add_results(make_result(run) for run in RUNS[1:3])
    assert {lease.key for lease in store.list_leases()} == set(KEYS[3:])
    assert lease(store, KEYS, Owner.of_this_process()) == set()
    assert store.failures.find_stop_reasons(KEYS) == {}
    assert store.failures.record_interruption(KEYS[0], "killed") == 1, "it counts from the beginning"


def test_failed_run_loses_lease_and_is_blocked_until_retry(store):
    owner = Owner.of_this_process()
    number = claim_run(store, KEYS[0], owner)
    store.failures.record_interruption(KEYS[0], "killed")
    store.failures.record_runs_failed_until_retry([RUNS[0]], "\x1b[31mred\r\n\tleft\u202eright\ud800", number)
    reason = "[31mred left right"  # one clean line
    assert store.list_leases() == []
    answer = store.claim_leases([LeaseRequest((key,)) for key in KEYS[:2]], owner, 9)
    assert (answer.stopped, [wish.keys for wish in answer.granted]) == ({KEYS[0]: reason}, [(KEYS[1],)])
    assert store.failures.allow_retry_of_runs_and_steps(KEYS, RUNS[0].data) == {KEYS[0]}
    assert lease(store, KEYS[:1], owner) == {KEYS[0]}
    assert [failure.reason for failure in store.failures.read_history(KEYS)[KEYS[0]]] == [reason], "its history stays"
    assert store.failures.record_interruption(KEYS[0], "killed") == 1


def test_step_with_several_keys_is_leased_whole_and_blocked_until_retry(store):
    one, two = Owner.of_this_process(), Owner.of_this_process()
    first = LeaseRequest(KEYS[:1], "a")
    both, shard = LeaseRequest(KEYS[:3], "b", "da7a"), LeaseRequest(KEYS[3:5], "c", "da7a")
    assert list(store.claim_leases([first], one, 1).granted) == [first]
    answer = store.claim_leases([both, shard], two, 9)
    assert (list(answer.granted), answer.leased) == ([shard], {KEYS[0]})
    leased = [(lease.key, lease.step_name) for lease in store.list_leases() if lease.owner == two]
    assert leased == [(key, "c") for key in sorted(shard.keys)]
    store.failures.record_step_failed_until_retry(shard, "x" * 501, two)
    assert {lease.owner for lease in store.list_leases()} == {one}
    assert store.claim_leases([shard], two, 1).stopped == dict.fromkeys(shard.keys, "x" * 499 + "…")
    assert store.failures.allow_retry_of_runs_and_steps([], "other images") == set()
    assert not store.claim_leases([shard], two, 1).granted
    store.failures.allow_retry_of_runs_and_steps([], "da7a")
    assert store.claim_leases([shard], two, 1).granted


def test_claim_leases_respects_concurrent_claims_and_results(store, monkeypatch):
    """On a server claims overlap: another process takes a key, finishes a run or renumbers a lease in between."""
    owner, insert, done = Owner.of_this_process(), leases_module.insert_new, iter([set(), {KEYS[0]}])
    one_alone = lambda connection, table, rows, same: insert(connection, table, rows[:1], same)  # noqa: E731
    monkeypatch.setattr(leases_module, "insert_new", one_alone)
    assert store.claim_leases([LeaseRequest(KEYS[:2])], owner, 1).granted == {}
    monkeypatch.setattr(leases_module, "insert_new", insert)
    monkeypatch.setattr(leases_module, "find_stored_keys", lambda connection, table, keys: next(done))
    assert (lease(store, KEYS[:1], owner), store.list_leases()) == (set(), [])
    monkeypatch.undo()
    number = claim_run(store, KEYS[0], owner)
    with store.database.begin_exclusive_write() as connection:
        owner_columns = {"owner": ELSEWHERE.id, "host": ELSEWHERE.host, "pid": ELSEWHERE.pid, "start": ELSEWHERE.start}
        row = {"number": 7, **owner_columns, "what": "", "data": ""}
        assert not leases_module._take_over_lease(connection, KEYS[0], number + 1, row)
        assert leases_module._take_over_lease(connection, KEYS[0], number, row)


def test_owner_of_expired_lease_writes_nothing(store):
    """A lease expires while its worker still computes, on a machine that slept or was cut off."""
    numbers = [claim_run(store, key, ELSEWHERE) for key in KEYS[:2]]
    set_age(store, ELSEWHERE, MAX_SILENCE + SECOND)
    heir = Owner.of_this_process()
    later = claim_run(store, KEYS[0], heir)
    again = claim_run(store, KEYS[1], ELSEWHERE)
    assert store.renew_leases(ELSEWHERE) == {KEYS[1]: again}, "it is told at its next heartbeat"
    for run, number in zip(RUNS, numbers, strict=False):
        with pytest.raises(LostLease):
            store.add_results([make_result(run)], number)
        with pytest.raises(LostLease):
            store.failures.record_runs_failed_until_retry([run], "no", number)
    assert store.find_done_keys(KEYS) == set()
    assert store.failures.read_history(KEYS) == store.failures.find_stop_reasons(KEYS) == {}
    assert store.renew_leases(heir) == {KEYS[0]: later}
    assert store.add_results([make_result(RUNS[0])], later) and store.add_results([make_result(RUNS[1])], again)
    assert not store.add_results([make_result(RUNS[0])], numbers[0]), "it is there, though not by this lease"


@pytest.mark.parametrize("hours", [-1, 1])
def test_leases_ignore_clock_of_host(store, monkeypatch, hours):
    """All times are those of the database."""
    skewed = Mock(now=lambda zone=None: datetime.now(zone) + timedelta(hours=hours))
    number = claim_run(store, KEYS[0], ELSEWHERE)
    for module in (leases_module, results_module, database_module):
        monkeypatch.setattr(module, "datetime", skewed, raising=False)
    assert lease(store, KEYS, Owner.of_this_process()) == set(KEYS[1:])
    store.renew_leases(ELSEWHERE)
    monkeypatch.undo()
    assert store.claim_leases([LeaseRequest(KEYS[:1])], Owner.of_this_process(), 1).leased == {KEYS[0]}
    assert store.add_results([make_result(RUNS[0])], number)


@pytest.mark.postgres
def test_lease_expiry_excludes_downtime_of_database(postgres_url):
    with ResultsStore.open(postgres_url) as store:
        lease(store, KEYS, ELSEWHERE)
        with store.database.begin_read() as connection:
            statement = text("SELECT pg_postmaster_start_time() AT TIME ZONE 'utc'")
            start = connection.execute(statement).scalar_one().replace(tzinfo=UTC)
            columns = leases_module._make_now_and_startup_columns(connection)
            row = connection.execute(select(leases.c.beat, *columns).limit(1)).one()
        assert row.up == start <= row.now
        older = update(leases).values(beat=start - timedelta(hours=1))
        store.database.run_write(lambda connection: connection.execute(older))
        assert lease(store, KEYS, Owner.of_this_process()) == (set(KEYS) if row.now - start > MAX_SILENCE else set())


def test_lease_expires_at_process_end_here_and_after_silence_elsewhere(store):
    lease(store, KEYS, replace(Owner.of_this_process(), pid=2**22 + 1))  # above the largest number there is
    assert store.list_leases() == []
    assert lease(store, KEYS, ELSEWHERE) == set(KEYS)
    set_age(store, ELSEWHERE, MAX_SILENCE - 30 * SECOND)
    assert lease(store, KEYS, Owner.of_this_process()) == set()
    assert len(store.list_leases()) == len(KEYS)
    set_age(store, ELSEWHERE, MAX_SILENCE + SECOND)
    store.renew_leases(Owner.of_this_process())  # renews no lease of another owner
    assert store.list_leases() == []
    assert lease(store, KEYS, Owner.of_this_process()) == set(KEYS)


def test_is_alive_checks_pid_and_start_here_and_heartbeat_elsewhere():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        start = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        here = replace(Owner.of_this_process(), pid=process.pid, start=start)
        assert is_alive(here, NOW - timedelta(days=9), NOW)
        assert not is_alive(replace(here, start="1"), NOW, NOW), "the number went to a later process"
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(here, NOW, NOW), "it has ended, though nobody has asked how"
    for owner in (ELSEWHERE, replace(here, start="")):  # no kernel can be asked
        assert is_alive(owner, NOW - 119 * SECOND, NOW)
        assert not is_alive(owner, NOW - 121 * SECOND, NOW)
        assert is_alive(owner, NOW + 119 * SECOND, NOW)
        assert not is_alive(owner, NOW + 121 * SECOND, NOW), "the database's clock was set back"


def test_is_alive_relies_on_heartbeat_for_hidden_process(monkeypatch):
    """The kernel hides the start time, so a later process may have the same number."""
    kill = Mock(side_effect=PermissionError("another user's"))
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(Path, "read_text", Mock(side_effect=FileNotFoundError))  # as with hidepid=2
    owner = replace(Owner.of_this_process(), pid=1234567, start="77")
    assert is_alive(owner, NOW - MAX_SILENCE / 2, NOW)
    assert not is_alive(owner, NOW - 2 * MAX_SILENCE, NOW)
    kill.side_effect = ProcessLookupError("nobody's")
    assert not is_alive(owner, NOW, NOW), "nobody has this number, whatever was heard"
    kill.assert_called_with(1234567, 0)


def test_sqlite_store_in_use_on_another_machine_is_refused(store):
    here = Owner.of_this_process()
    lease(store, KEYS[:1], here)
    lease(store, KEYS[1:2], Owner("c0", f"box {here.host.split()[1]} pid:[1]", 1, "1"))  # a container of this machine
    store.refuse_sqlite_on_two_machines()
    lease(store, KEYS[2:], Owner("e15e", "node7 0b007-1d pid:[1]", 1, "1"))
    refused = pytest.raises(StoreError, match="node7 is using it; for several machines use --db postgresql://")
    with refused if store.database.is_sqlite else nullcontext():
        store.refuse_sqlite_on_two_machines()

"""Lease steps to processes, so that two processes of one store never do the same step, and record failed steps.

A step is a run, or a job that prepares runs. A lease is a database row. A process, the lease's owner, inserts the row
before it starts a step, and the row is deleted when the step's result is stored. Another process may take over the
lease of a dead owner. An owner on this host is alive if the kernel lists its process; an owner on another host counts
as alive if the owner has sent a heartbeat lately. An owner without heartbeats may still be running, so every lease has
a number, and a result is stored only in a transaction that finds the lease with this number.

Every process inserts its leases in the order of keys. Therefore, two processes never wait for each other: the second
process waits milliseconds for the transaction of the first.

The table `failures` keeps all failures of runs; the table `stopped` keeps the reasons of failed runs and steps until a
user retries them. If a machine interrupts a step, the step has not failed: a process tries the step again, and the
interruptions are counted until the step is done or fails.
"""

import os
import secrets
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, type_coerce, update

from roarbench.common.errors import LostLease
from roarbench.common.identity import encode_canonically, make_json_record
from roarbench.common.text import fit_on_one_line
from roarbench.plan.cells_and_runs import Run
from roarbench.store.database import Database
from roarbench.store.run_result import Failure, read_code_version, read_run
from roarbench.store.schema import (
    UtcDateTime,
    delete_rows,
    failures,
    find_stored_keys,
    insert_new,
    leases,
    results,
    select_matching,
    stopped,
    tries,
)

MAX_SILENCE = timedelta(seconds=120)  # an owner on another host counts as dead after so long without a heartbeat
HEARTBEAT_INTERVAL = 30.0  # seconds
MAX_REASON_LENGTH = 500  # maximum characters of a failure's reason


@dataclass(frozen=True)
class Owner:
    """Process that holds leases."""

    id: str  # random id, which no other process ever has
    host: str  # machine name, with boot and container identifiers
    pid: int  # process id on that host
    start: str  # start of the process in kernel ticks; empty if unknown

    @classmethod
    def of_this_process(cls) -> "Owner":
        return cls(uuid4().hex, _identify_host(), os.getpid(), _read_start_time(os.getpid()) or "")


class Lease(NamedTuple):
    """Lease of a step in progress."""

    key: str  # key of the run, or of a part of a step without runs
    owner: Owner
    since: datetime  # start of the lease, UTC
    step_name: str = ""  # empty for a run
    data: str = ""  # fingerprint of the step's images


class LeaseRequest(NamedTuple):
    """Request for the leases of one step."""

    keys: tuple[str, ...]  # a process gets the leases of all keys or none
    step_name: str = ""  # empty for a run
    data: str = ""  # fingerprint of the step's images


class LeaseReply(NamedTuple):
    """Granted requests, and the reasons why other requests were not granted."""

    granted: Mapping[LeaseRequest, int]  # from each granted request to the number of its leases
    done: set[str]  # keys of runs that have a result
    stopped: Mapping[str, str]  # from the keys of failed steps, which wait for `retry`, to the reasons
    leased: set[str]  # keys that a living owner, perhaps this process, has leased


def _identify_host() -> str:
    """Return the host's name, boot id and process namespace; process ids are unique only within all three."""
    parts = [socket.gethostname()]
    with suppress(OSError):  # on systems without /proc, `_read_start_time` returns None, and only heartbeats count
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


def _read_start_time(pid: int) -> str | None:
    """Return a process's start in ticks since boot; empty if it is a zombie, None if it has ended or is hidden."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the process name before `)` may contain spaces and brackets; see proc(5)
    state, *rest = stat.rpartition(")")[2].split()
    # a zombie has ended, although its parent has not collected its exit status
    return "" if state in "ZX" else rest[18]


def is_alive(owner: Owner, last_heartbeat: datetime, now: datetime) -> bool:
    """Return whether the process that holds a lease is still running.

    A process on this host is alive if a process with the same id has the same start time. A process on another host is
    alive if its last heartbeat is recent; `last_heartbeat` and `now` are times of the same clock. The kernel may hide
    the start times of other users' processes (`hidepid`, proc(5)); then the heartbeat decides if the id exists.
    """
    if owner.start and owner.host == _identify_host():
        start = _read_start_time(owner.pid)
        if start is not None:
            return start == owner.start
        try:
            os.kill(owner.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:  # the process belongs to another user
            pass
    # a heartbeat far in the future was sent before the clock was set back; it would keep a dead owner alive for long
    return abs(now - last_heartbeat) < MAX_SILENCE


def claim_leases(connection: Connection, requests: Sequence[LeaseRequest], owner: Owner, limit: int) -> LeaseReply:
    """Lease the first `limit` requests that are neither done, nor stopped, nor held by a living owner."""
    keys = {key for request in requests for key in request.keys}
    done = find_stored_keys(connection, results, keys)
    reasons = {row.key: row.reason for row in select_matching(connection, select(stopped), stopped.c.key, keys)}
    statement = select(leases, *_make_now_and_startup_columns(connection))
    rows = list(select_matching(connection, statement, leases.c.key, keys))
    living = _find_living_owners(rows)
    leased = {row.key for row in rows if row.owner in living}
    dead = {row.key: row.number for row in rows if row.owner not in living}
    unavailable = done | leased | reasons.keys()
    free = [request for request in requests if unavailable.isdisjoint(request.keys)][:limit]
    numbers = {request: secrets.randbits(62) for request in free}
    owner_columns = {"owner": owner.id, "host": owner.host, "pid": owner.pid, "start": owner.start}
    new_rows: dict[str, dict[str, Any]] = {
        key: {"number": number, **owner_columns, "what": request.step_name, "data": request.data}
        for request, number in numbers.items()
        for key in request.keys
    }
    from_dead = [key for key in sorted(new_rows) if key in dead]
    taken = {key for key in from_dead if _take_over_lease(connection, key, dead[key], new_rows[key])}
    now = make_clock_expression(connection)
    rows = [{"key": key, **new_rows[key]} for key in sorted(new_rows) if key not in dead]
    taken |= insert_new(connection, leases, rows, {"since": now, "beat": now})
    late = find_stored_keys(connection, results, taken)  # keys whose runs the previous owner has finished meanwhile
    own = taken - late
    granted = {request: number for request, number in numbers.items() if own.issuperset(request.keys)}
    delete_leases(connection, taken - {key for request in granted for key in request.keys}, owner)
    return LeaseReply(granted, done | late, reasons, leased | new_rows.keys() - taken)


def _take_over_lease(connection: Connection, key: str, number: int, row: dict[str, Any]) -> bool:
    """Take over the lease of a dead owner; return False if the lease has changed."""
    now = make_clock_expression(connection)
    dead = update(leases).where(leases.c.key == key, leases.c.number == number)
    return connection.execute(dead.values(**row, since=now, beat=now)).rowcount == 1


def renew_leases(connection: Connection, owner: Owner) -> dict[str, int]:
    """Record an owner's heartbeat; return a dict from the keys of the owner's leases to their numbers."""
    statement = update(leases).where(leases.c.owner == owner.id).values(beat=make_clock_expression(connection))
    return {row.key: row.number for row in connection.execute(statement.returning(leases.c.key, leases.c.number))}


def delete_leases(connection: Connection, keys: Collection[str], owner: Owner | None = None) -> None:
    """Delete the leases on these keys that one owner holds, or that any owner holds if `owner` is None."""
    delete_rows(connection, leases, keys, *([leases.c.owner == owner.id] if owner else []))


def release_lease(connection: Connection, key: str, number: int) -> bool:
    """Delete the lease with this number; return False if it is gone."""
    return connection.execute(delete(leases).where(leases.c.key == key, leases.c.number == number)).rowcount == 1


def read_leases_of_living_owners(connection: Connection) -> list[Lease]:
    """Return the leases of living owners, oldest first."""
    statement = select(leases, *_make_now_and_startup_columns(connection)).order_by(leases.c.since, leases.c.key)
    rows = connection.execute(statement).all()
    living = _find_living_owners(rows)
    return [Lease(row.key, _read_owner(row), row.since, row.what, row.data) for row in rows if row.owner in living]


def read_boot_id(owner: Owner) -> str:
    """Return the id of the boot of the owner's machine, which is the same in all containers of the machine."""
    return owner.host.split()[1] if " " in owner.host else owner.host


def _find_living_owners(rows: Iterable[Any]) -> set[str]:
    """Return the ids of the lease owners that are still running.

    The timeout of an owner does not include the time before the database started, because the database could not record
    heartbeats then.
    """
    owners = {row.owner: row for row in rows}
    return {owner for owner, row in owners.items() if is_alive(_read_owner(row), max(row.beat, row.up), row.now)}


def _read_owner(row: Any) -> Owner:
    return Owner(row.owner, row.host, row.pid, row.start)


def _make_now_and_startup_columns(connection: Connection) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Return two columns: the current time, and the time at which the database server started."""
    up: ColumnElement[Any] = leases.c.beat  # SQLite has no server that can be down
    if connection.dialect.name == "postgresql":
        up = func.timezone("utc", func.pg_postmaster_start_time())
    return make_clock_expression(connection).label("now"), type_coerce(up, UtcDateTime).label("up")


def make_clock_expression(connection: Connection) -> ColumnElement[Any]:
    """Return an SQL expression for the time on the database's clock, because the clocks of hosts may differ."""
    if connection.dialect.name == "postgresql":
        return type_coerce(func.timezone("utc", func.statement_timestamp()), UtcDateTime)
    return type_coerce(func.strftime("%Y-%m-%d %H:%M:%f000", "now"), UtcDateTime)


class Failures:
    """Failures of runs and steps in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record_runs_failed_until_retry(self, runs: Sequence[Run], reason: str, lease: int | None = None) -> None:
        """Record that runs failed, and delete their leases with the number `lease`, if given.

        Only a user's request retries the runs. If a run succeeds later, the record of its failure stays.

        Raises:
            LostLease: One of the leases is gone; nothing is written.
        """
        reason = fit_on_one_line(reason, MAX_REASON_LENGTH)
        shared = {"reason": reason, "code_version": read_code_version()}
        rows = [{"key": run.key, "record": encode_canonically(make_json_record(run)), **shared} for run in runs]

        def work(connection: Connection) -> None:
            for run in runs:
                if lease is not None and not release_lease(connection, run.key, lease):
                    raise LostLease(f"another process took over the lease on {run.key}")
            connection.execute(insert(failures), rows)
            _replace_stopped_rows(connection, [run.key for run in runs], "", runs[0].data, reason)

        self._database.run_write(work)

    def record_step_failed_until_retry(self, step: LeaseRequest, reason: str, owner: Owner) -> None:
        """Record that a step that is no run failed, and delete its leases; only a user's request retries the step."""
        reason = fit_on_one_line(reason, MAX_REASON_LENGTH)

        def work(connection: Connection) -> None:
            _replace_stopped_rows(connection, step.keys, step.step_name, step.data, reason)
            delete_leases(connection, step.keys, owner)

        self._database.run_write(work)

    def find_stop_reasons(self, keys: Collection[str]) -> dict[str, str]:
        """Return a dict from the keys of runs and steps that failed, and were not retried since, to the reasons."""
        return {row.key: row.reason for row in self._database.read(select(stopped), stopped.c.key, keys)}

    def list_stop_reasons_on(self, data: str) -> dict[str, str]:
        """Return the reasons of `find_stop_reasons` by key for all runs and steps on the images `data`."""
        statement = select(stopped.c.key, stopped.c.reason).where(stopped.c.data == data)
        return {row.key: row.reason for row in self._database.read(statement)}

    def allow_retry_of_runs_and_steps(self, keys: Collection[str], data: str) -> set[str]:
        """Allow processes to do these failed runs, and all failed steps on the images `data`; return the runs' keys."""

        def work(connection: Connection) -> set[str]:
            failed = find_stored_keys(connection, stopped, keys)
            mark_not_failed_or_interrupted(connection, failed)
            is_failed_step = and_(stopped.c.what != "", stopped.c.data == data)
            connection.execute(delete(tries).where(tries.c.key.in_(select(stopped.c.key).where(is_failed_step))))
            connection.execute(delete(stopped).where(is_failed_step))
            return failed

        return self._database.run_write(work)

    def record_interruption(self, key: str, reason: str) -> int:
        """Record that a machine interrupted a step; return the step's number of interruptions."""
        row = {"key": key, "reason": fit_on_one_line(reason, MAX_REASON_LENGTH), "host": socket.gethostname()}

        def work(connection: Connection) -> int:
            connection.execute(insert(tries), row)
            return connection.scalar(select(func.count()).where(tries.c.key == key)) or 0

        return self._database.run_write(work)

    def read_history(self, keys: Collection[str]) -> dict[str, list[Failure]]:
        """Return a dict from keys of runs to all failures, oldest first, also of runs that succeeded later."""
        history: dict[str, list[Failure]] = {}
        with self._database.begin_read() as connection:
            for row in select_matching(connection, select(failures).order_by(failures.c.id), failures.c.key, keys):
                failure = Failure(read_run(row.key, row.record), row.reason, row.code_version, row.created)
                history.setdefault(row.key, []).append(failure)
        return history

    def list_data_and_limits_of_failed_runs(self, dataset: str, model: str) -> list[tuple[str, int | None]]:
        """Return pairs of fingerprint and images per split for the image sets of failed runs, oldest first."""
        records = select(failures.c.key, failures.c.record).order_by(failures.c.id)
        with self._database.begin_read() as connection:
            runs = [read_run(*row) for row in connection.execute(records)]
        failed = [run for run in runs if (run.cell.dataset, run.cell.model) == (dataset, model)]
        return list(dict.fromkeys((run.data, run.limit) for run in failed))


def mark_not_failed_or_interrupted(connection: Connection, keys: Collection[str]) -> None:
    """Mark these runs or steps as neither failed nor interrupted; the history of their failures stays."""
    for table in (stopped, tries):
        delete_rows(connection, table, keys)


def _replace_stopped_rows(connection: Connection, keys: Collection[str], step: str, data: str, reason: str) -> None:
    mark_not_failed_or_interrupted(connection, keys)
    rows = [{"key": key, "what": step, "data": data, "reason": reason} for key in sorted(keys)]
    insert_new(connection, stopped, rows)

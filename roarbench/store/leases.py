"""Leases: who does which run, so that processes that share a store never do one twice.

A lease is a row that its owner takes before a run and that goes with the run's result. The lease of a dead owner is
free: on the same host one asks the kernel whether the process lives, from elsewhere one listens for its heartbeat.
"""

import os
import socket
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, delete, extract, func, insert, select, update

from roarbench.store.database import chunks, matching
from roarbench.store.schema import leases, results

SILENCE = timedelta(seconds=120)  # after which an owner on another host counts as dead
PULSE = timedelta(seconds=20)  # heartbeats closer than this are not written


@dataclass(frozen=True)
class Owner:
    """A process that does runs.

    Attributes:
        id: Its own, never used again.
        host: Name of the machine, with what tells containers and restarts of it apart.
        pid: Process number on that host.
        start: When the process started, in the kernel's ticks; empty where the kernel does not say.
    """

    id: str
    host: str
    pid: int
    start: str

    @classmethod
    def here(cls) -> "Owner":
        """Make a new owner: this process."""
        return cls(uuid4().hex, _host(), os.getpid(), _start_time(os.getpid()) or "")


class Lease(NamedTuple):
    """A run that is under way.

    Attributes:
        key: Of the run.
        owner: Who does it.
        since: When it was leased, in UTC.
    """

    key: str
    owner: Owner
    since: datetime


def _host() -> str:
    """Return the host: process numbers mean the same only within one boot of one kernel and one process namespace."""
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:  # no Linux: `_start_time` knows nothing either, so that heartbeats alone count
        pass
    return " ".join(parts)


def _start_time(pid: int) -> str | None:
    """Read when a process started, in ticks since boot; empty if it has ended, None if it cannot be seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()  # the name before may hold spaces and brackets; see proc(5)
    return "" if state in "ZX" else rest[18]  # a zombie has ended, though nobody has asked how


def _exists(pid: int) -> bool:
    """Return whether there is a process of this number, whosever it is."""
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def is_alive(owner: Owner, beat: datetime, now: datetime) -> bool:
    """Return whether an owner still works.

    The kernel may hide other users' processes (`hidepid`, proc(5)). It then still tells that a process has this number,
    but not since when: that may be a later one, so that the heartbeat has to tell.

    Args:
        owner: Who.
        beat: Its last heartbeat.
        now: The present, by the same clock.
    """
    if owner.start and owner.host == _host():
        start = _start_time(owner.pid)
        if start is not None:
            return start == owner.start
        if not _exists(owner.pid):
            return False
    return now - beat < SILENCE


def take(connection: Connection, keys: Collection[str], owner: Owner) -> set[str]:
    """Lease those of the runs that are neither done nor held by a living owner, `owner` itself included."""
    now = _now(connection)
    done = {row.key for row in matching(connection, select(results.c.key), results.c.key, keys)}
    leased = list(matching(connection, select(leases), leases.c.key, keys))
    living = _living(leased, now)
    free = set(keys) - done - {row.key for row in leased if row.owner in living}
    drop(connection, {row.key for row in leased} & free)
    mark = {"owner": owner.id, "host": owner.host, "pid": owner.pid, "start": owner.start, "since": now, "beat": now}
    if free:
        connection.execute(insert(leases), [{"key": key, **mark} for key in sorted(free)])
    return free


def renew(connection: Connection, owner: Owner) -> None:
    """Say that an owner still works."""
    now = _now(connection)
    connection.execute(update(leases).where(leases.c.owner == owner.id, leases.c.beat < now - PULSE).values(beat=now))


def drop(connection: Connection, keys: Collection[str], owner: Owner | None = None) -> None:
    """Give up the leases on these runs: those of `owner`, or of anybody."""
    for chunk in chunks(keys):
        mine = [leases.c.owner == owner.id] if owner else []
        connection.execute(delete(leases).where(leases.c.key.in_(chunk), *mine))


def under_way(connection: Connection) -> list[Lease]:
    """Return the leases of living owners, oldest first."""
    rows = connection.execute(select(leases).order_by(leases.c.since, leases.c.key)).all()
    living = _living(rows, _now(connection))
    return [Lease(row.key, _owner(row), row.since) for row in rows if row.owner in living]


def _living(rows: Collection[Any], now: datetime) -> set[str]:
    """Return the ids of the owners that still work; each is asked for once."""
    owners = {row.owner: row for row in rows}
    return {owner for owner, row in owners.items() if is_alive(_owner(row), row.beat, now)}


def _owner(row: Any) -> Owner:
    return Owner(row.owner, row.host, row.pid, row.start)


def _now(connection: Connection) -> datetime:
    """Return the database's clock: hosts need not agree on theirs."""
    seconds = connection.execute(select(extract("epoch", func.now()))).scalar_one()
    return datetime.fromtimestamp(float(seconds), UTC)

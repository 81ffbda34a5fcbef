"""Who works on a suite at the moment, how fast, and how long the rest will take."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table

from roarbench.analysis.boards import SuiteResults
from roarbench.plan.points import describe
from roarbench.report.status import status_table
from roarbench.store.leases import Lease
from roarbench.store.results import ResultsStore
from roarbench.text import MISSING, counted, duration

_NOBODY = "nothing under way yet, or a command is starting"  # which takes no job before it has read its images
_WINDOW = timedelta(hours=1)  # that the pace is taken from: rows differ, and machines come and go


def activity_record(suite_results: SuiteResults, store: ResultsStore, left: int, now: datetime) -> dict[str, Any]:
    """Return who works on a suite's images, at what pace, and the seconds left.

    Returns:
        `workers`, each with the `command` that it is of, what it `does` and since how many `seconds`; `per_hour`, rows
        that came in an hour, and `seconds_left` at that pace: None with fewer than two rows in the last hour.
    """
    names = {key: describe(point, suite_results.suite) for point, key in suite_results.keys.items()}
    leases = [lease for lease in store.running() if lease.data == suite_results.data]
    pace = _pace([result.created for result in suite_results.results.values()], now)
    # a shard of images has a lease for each of its batches, and one worker
    each = {(lease.owner.id, lease.what or lease.key): _worker(lease, names, now) for lease in reversed(leases)}
    return {
        "workers": list(each.values())[::-1],
        "per_hour": None if pace is None else 3600 * pace,
        "seconds_left": None if pace is None else left / pace,
    }


def _pace(ends: Iterable[datetime], now: datetime) -> float | None:
    """Return rows a second since the first one of the last hour; None with fewer than two."""
    recent = sorted(end for end in ends if end > now - _WINDOW)
    passed = (now - recent[0]).total_seconds() if recent else 0.0
    return (len(recent) - 1) / passed if len(recent) > 1 and passed > 0 else None


def _worker(lease: Lease, names: Mapping[str, str], now: datetime) -> dict[str, Any]:
    command = f"{lease.owner.host.split()[0]}:{lease.owner.pid}"
    does = lease.what or names.get(lease.key, f"run {lease.key[:8]} of another suite")
    return {"command": command, "does": does, "seconds": max(0.0, (now - lease.since).total_seconds())}


def activity_line(status: Mapping[str, Any]) -> str:
    """Return in a line how far a suite is and how fast it goes."""
    workers = status["workers"]
    commands = {worker["command"] for worker in workers}
    who = f"{counted(len(workers), 'worker')} of {counted(len(commands), 'command')}" if workers else _NOBODY
    runs = sum(status[state] for state in ("done", "running", "missing", "failed"))
    pace = MISSING if status["per_hour"] is None else f"{status['per_hour']:,.0f}"
    left = MISSING if status["seconds_left"] is None else f"about {duration(status['seconds_left'])}"
    done = f"{status['done']:,} of {runs:,} runs done, {status['failed']:,} failed"
    return f"{done}; {who}; runs an hour: {pace}; time left: {left}"


def activity_view(status: dict[str, Any], below: Iterable[str]) -> RenderableType:
    """Return the whole picture for a terminal, with lines below the status; the workers, who may be many, last."""
    shown = Table(box=SIMPLE_HEAD)
    for heading in ("command", "does", "since"):
        shown.add_column(heading, justify="right" if heading == "since" else "left", no_wrap=True)
    for worker in status["workers"]:
        shown.add_row(worker["command"], worker["does"], duration(worker["seconds"]))
    lines = [activity_line(status), *below]
    return Group(status_table(status), *lines, *([shown] if status["workers"] else []))

"""Report the status of a suite: done, running, missing and failed runs, and active workers."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table

from roarbench.analysis.provenance_consistency import UnrankedRow
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import Hint
from roarbench.common.text import MISSING, format_count, format_duration
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.planned_runs import PlannedRun, describe_run, find_protocol_name
from roarbench.plan.protocols import PROTOCOLS
from roarbench.plan.suite import SuiteSpec
from roarbench.store.leases import Lease
from roarbench.store.results import ResultsStore
from roarbench.submissions.faults import SubmissionFault

_STATES = ("done", "running", "missing", "failed")
_NOBODY = "no worker is running yet, or a command is starting"  # a command reads its images before its first job
_WINDOW = timedelta(hours=1)  # period of the rate; short, because the cost of runs and the number of machines vary


def make_status_record(suite_results: SuiteResults, store: ResultsStore) -> dict[str, Any]:
    """Count done, running, missing and failed runs by protocol and in total, with rows that have no rank."""
    states = find_run_states(suite_results, store)
    protocols = {name: Counter() for name in PROTOCOLS}  # type: dict[str, Counter[str]]
    for point, (state, _) in states.items():
        protocols[find_protocol_name(point.cell, suite_results.suite)][state] += 1
    counts = {name: {state: count[state] for state in _STATES} for name, count in protocols.items() if count}
    total = Counter(state for state, _ in states.values())
    return {
        **suite_results.identity,
        "title": suite_results.title,
        **{state: total[state] for state in _STATES},
        "preparing": any(lease.what and lease.data == suite_results.data for lease in store.list_leases()),
        "protocols": counts,
        "seeds": count_complete_seeds_by_protocol(states, suite_results.suite),
        "failures": _list_failures(states, suite_results.suite),
        "mixed": [row._asdict() for row in suite_results.unranked_rows],
    }


def list_run_failures(suite_results: SuiteResults, store: ResultsStore) -> list[dict[str, str]]:
    """Return each failed run that waits for a retry, with estimator and reason."""
    return _list_failures(find_run_states(suite_results, store), suite_results.suite)


def _list_failures(states: Mapping[PlannedRun, tuple[str, str]], suite: SuiteSpec) -> list[dict[str, str]]:
    return [
        {"run": describe_run(point, suite), "estimator": point.cell.estimator, "reason": reason}
        for point, (_, reason) in states.items()
        if reason
    ]


def count_complete_seeds_by_protocol(
    states: Mapping[PlannedRun, tuple[str, str]], suite: SuiteSpec
) -> dict[str, dict[str, int]]:
    """Count, by protocol, the seeds for which all rows have complete curves."""
    missing = defaultdict[str, Counter[int]](Counter)
    for point, (state, _) in states.items():
        missing[find_protocol_name(point.cell, suite)][point.seed] += state != "done"
    return {
        name: {"complete": sum(count == 0 for count in seeds.values()), "of": len(seeds)}
        for name, seeds in missing.items()
    }


def describe_unranked_rows(unranked: Iterable[UnrankedRow]) -> list[str]:
    """Describe each row without a rank, with the reason."""
    boards = defaultdict[tuple[str, str], list[str]](list)
    for row in unranked:
        boards[row.estimator, row.reason].append(f"{row.protocol} {row.unit}")
    return [f"{name} has no rank ({', '.join(where)}): {reason}." for (name, reason), where in boards.items()]


def format_status_lines(status: dict[str, Any], unranked: Iterable[UnrankedRow]) -> list[str | Hint]:
    """Return the lines below the status table: preparation, rows without a rank, failures."""
    preparing = ["running: the reference is trained, or rankings are made"] if status["preparing"] else []
    return [*preparing, *describe_unranked_rows(unranked), *format_failures(status["failures"])]


def format_failures(failures: Iterable[dict[str, str]]) -> list[str | Hint]:
    """Return failures, a line per reason, with advice."""
    failures = list(failures)
    runs: defaultdict[str, list[str]] = defaultdict(list)
    for failure in failures:
        runs[failure["reason"]].append(failure["run"])
    more = {reason: f" and {len(names) - 1} more" if len(names) > 1 else "" for reason, names in runs.items()}
    lines = (f"failed: {names[0]}{more[reason]}: {reason}" for reason, names in runs.items())
    return [*lines, *format_failure_advice(failures)]


def format_failure_advice(failures: Iterable[dict[str, str]]) -> list[Hint]:
    """Return advice on failures: a faulty submission fails again, a run on a busy machine may succeed."""
    blamed = {failure["estimator"]: _is_submission_fault(failure["reason"]) for failure in failures}
    entries = sorted({find_estimator(name).untwinned_id for name, blame in blamed.items() if blame})
    words = "the same file would fail again; submit a corrected file as a new row, and take this row off the board"
    lines = [Hint(f"{words}: `{{}}`", "archive", (entry, "--why", "faulty")) for entry in entries]
    due = Hint("failed runs are repeated only after `{}`", "retry")
    return lines if all(blamed.values()) else [*lines, due]


_CHANCE = (SubmissionFault.TIME, SubmissionFault.MEMORY, SubmissionFault.DIED)


def _is_submission_fault(reason: str) -> bool:
    kinds = "|".join(kind for kind in SubmissionFault if kind not in _CHANCE)
    return re.match(rf"rank \S+@\S+ .*?failed: ({kinds}): ", reason) is not None


def find_run_states(suite_results: SuiteResults, store: ResultsStore) -> dict[PlannedRun, tuple[str, str]]:
    """Return the state of every planned run, with the reason if a failure blocks the run."""
    keys = suite_results.keys
    running = {lease.key for lease in store.list_leases()}
    unfinished = [key for point, key in keys.items() if point not in suite_results.results]
    stopped = store.failures.find_stop_reasons(unfinished)
    states = {}
    for point, key in keys.items():
        if point in suite_results.results:
            states[point] = "done", ""
        elif key in running:
            states[point] = "running", ""
        else:
            states[point] = ("failed", stopped[key]) if stopped.get(key) else ("missing", "")
    return states


def make_status_table(status: dict[str, Any]) -> Table:
    """Format the status for a terminal."""
    shown = Table(box=SIMPLE_HEAD, title=status["title"])
    for heading in ("protocol", *_STATES, "complete seeds"):
        shown.add_column(heading, justify="left" if heading == "protocol" else "right")
    for name, counts in status["protocols"].items():
        seeds = status["seeds"][name]
        shown.add_row(name, *(str(counts[state]) for state in _STATES), f"{seeds['complete']} of {seeds['of']}")
    shown.add_section()
    shown.add_row("all", *(str(status[state]) for state in _STATES), "")
    return shown


def measure_progress(suite_results: SuiteResults, store: ResultsStore, runs_left: int, now: datetime) -> dict[str, Any]:
    """Return the active workers, the rate of finished runs, and the seconds left.

    Returns:
        `workers` has each worker's `command`, its current work as `does`, and the `seconds` since this work began.
        `per_hour` is the rate of finished runs, measured since the first run of the last hour ended. `seconds_left` is
        the time left at this rate. The rate and the time are None if fewer than two runs ended in the last hour.
    """
    names = {key: describe_run(point, suite_results.suite) for point, key in suite_results.keys.items()}
    leases = [lease for lease in store.list_leases() if lease.data == suite_results.data]
    pace = _compute_pace([result.created for result in suite_results.results.values()], now)
    # a shard has one lease per batch, but only one worker
    by_owner = {
        (lease.owner.id, lease.what or lease.key): _make_worker_record(lease, names, now) for lease in reversed(leases)
    }
    return {
        "workers": list(by_owner.values())[::-1],
        "per_hour": None if pace is None else 3600 * pace,
        "seconds_left": None if pace is None else runs_left / pace,
    }


def _compute_pace(ends: Iterable[datetime], now: datetime) -> float | None:
    """Return the runs per second since the first run of the last hour ended; None for fewer than two runs."""
    recent = sorted(end for end in ends if end > now - _WINDOW)
    passed = (now - recent[0]).total_seconds() if recent else 0.0
    return (len(recent) - 1) / passed if len(recent) > 1 and passed > 0 else None


def _make_worker_record(lease: Lease, names: Mapping[str, str], now: datetime) -> dict[str, Any]:
    command = f"{lease.owner.host.split()[0]}:{lease.owner.pid}"
    does = lease.what or names.get(lease.key, f"run {lease.key[:8]} of another suite")
    return {"command": command, "does": does, "seconds": max(0.0, (now - lease.since).total_seconds())}


def format_progress(status: Mapping[str, Any]) -> str:
    """Describe in one line how many runs of a suite are done, and how fast runs end."""
    workers = status["workers"]
    commands = {worker["command"] for worker in workers}
    who = f"{format_count(len(workers), 'worker')} of {format_count(len(commands), 'command')}" if workers else _NOBODY
    runs = sum(status[state] for state in _STATES)
    pace = MISSING if status["per_hour"] is None else f"{status['per_hour']:,.0f}"
    left = MISSING if status["seconds_left"] is None else f"about {format_duration(status['seconds_left'])}"
    done = f"{status['done']:,} of {runs:,} runs done, {status['failed']:,} failed"
    return f"{done}; {who}; runs an hour: {pace}; time left: {left}"


def render_progress(status: dict[str, Any], below: Iterable[str]) -> RenderableType:
    """Format status and workers for a terminal, with extra lines below the status."""
    shown = Table(box=SIMPLE_HEAD)
    for heading in ("command", "does", "since"):
        shown.add_column(heading, justify="right" if heading == "since" else "left", no_wrap=True)
    for worker in status["workers"]:
        shown.add_row(worker["command"], worker["does"], format_duration(worker["seconds"]))
    lines = [format_progress(status), *below]
    return Group(make_status_table(status), *lines, *([shown] if status["workers"] else []))

"""Report the state of the runs of a suite: counts, workers, failures, and the list of runs."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from roarbench.analysis.result_checks import UnrankedRow, describe_rows_without_rank
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import CallerError, Hint
from roarbench.common.text import list_some
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.planned_runs import PlannedRun, describe_run, find_protocol_name
from roarbench.plan.protocols import PROTOCOLS
from roarbench.plan.suite import SuiteSpec
from roarbench.report.table_record import Table, make_column
from roarbench.report.table_renderers import format_list
from roarbench.store.results import ResultsStore
from roarbench.submissions.limits_and_faults import SubmissionFault

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_KEY_DIGITS = 12  # hex digits of a key in a list; among a million runs, two keys are equal with probability 1/500
_STATES = ("done", "running", "missing", "failed")
_TRANSIENT_FAULTS = (SubmissionFault.TIME, SubmissionFault.MEMORY, SubmissionFault.DIED)


def make_status_record(suite_results: SuiteResults, store: ResultsStore) -> dict[str, Any]:
    """Count the runs in each state, by protocol and in total, and list failures and rows that have no rank."""
    states, suite = find_run_states(suite_results, store), suite_results.suite
    protocols = {name: Counter[str]() for name in PROTOCOLS}
    unfinished = {name: Counter[int]() for name in PROTOCOLS}  # by seed, or by explained network if pairs are scored
    for point, (state, _) in states.items():
        name = find_protocol_name(point.cell, suite)
        protocols[name][state] += 1
        pairs = PROTOCOLS[name].scores_all_network_pairs
        seed = suite.find_explained_number(point.cell, point.seed) if pairs else point.seed
        unfinished[name][seed] += state != "done"
    counts = {name: {state: count[state] for state in _STATES} for name, count in protocols.items() if count}
    total = Counter(state for state, _ in states.values())
    return {
        **suite_results.identity,
        "title": suite_results.title,
        **{state: total[state] for state in _STATES},
        "preparing": any(lease.step_name and lease.data == suite_results.data for lease in store.list_leases()),
        "protocols": counts,
        # seeds for which all rows have complete curves
        "seeds": {
            name: {"complete": list(unfinished[name].values()).count(0), "of": len(unfinished[name])} for name in counts
        },
        "failures": _list_failures(states, suite),
        "mixed": [row._asdict() for row in suite_results.inconsistent_rows],
    }


def list_run_failures(suite_results: SuiteResults, store: ResultsStore) -> list[dict[str, str]]:
    """Return the run, the estimator and the reason of each failure that blocks a run until `retry`."""
    return _list_failures(find_run_states(suite_results, store), suite_results.suite)


def _list_failures(states: Mapping[PlannedRun, tuple[str, str]], suite: SuiteSpec) -> list[dict[str, str]]:
    return [
        {"run": describe_run(point, suite), "estimator": point.cell.estimator, "reason": reason}
        for point, (_, reason) in states.items()
        if reason
    ]


def format_lines_below_status_table(status: dict[str, Any], unranked: Iterable[UnrankedRow]) -> list[str | Hint]:
    """Return the lines below the status table: current preparations, rows without a rank, and failures."""
    preparing = ["running: the reference is trained, or rankings are made"] if status["preparing"] else []
    return [*preparing, *describe_rows_without_rank(unranked), *format_failures(status["failures"])]


def format_failures(failures: Iterable[dict[str, str]]) -> list[str | Hint]:
    """Format failures with a line for every reason, followed by advice."""
    failures = list(failures)
    runs_by_reason = defaultdict[str, list[str]](list)
    for failure in failures:
        runs_by_reason[failure["reason"]].append(failure["run"])
    lines = (f"failed: {list_some(runs, 1)}: {reason}" for reason, runs in runs_by_reason.items())
    return [*lines, *format_failure_advice(failures)]


def format_failure_advice(failures: Iterable[dict[str, str]]) -> list[Hint]:
    """Return advice on failures: to archive a faulty submission, which would fail again, and to retry other runs."""
    kinds = "|".join(kind for kind in SubmissionFault if kind not in _TRANSIENT_FAULTS)
    fault = re.compile(rf"rank \S+@\S+ .*?failed: ({kinds}): ")
    faulty = {failure["estimator"]: fault.match(failure["reason"]) is not None for failure in failures}
    submissions = sorted({find_estimator(name).untwinned_id for name, is_faulty in faulty.items() if is_faulty})
    advice = "the same file would fail again; submit a corrected file as a new row, and take this row off the board"
    hints = [Hint(f"{advice}: `{{}}`", "runs", (name, "--archive", "faulty")) for name in submissions]
    return hints if all(faulty.values()) else [*hints, Hint("failed runs are repeated only after `{}`", "retry")]


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


def make_status_table(status: dict[str, Any]) -> "RichTable":
    """Format the status for a terminal."""
    names, seeds = [*status["protocols"], "all"], status["seeds"].values()
    counts = [*status["protocols"].values(), status]
    columns = (
        make_column("protocol", names, "protocol", side="left"),
        *(make_column(state, (count[state] for count in counts), state) for state in _STATES),
        make_column("seeds", [*(f"{count['complete']} of {count['of']}" for count in seeds), ""], "complete seeds"),
    )
    return format_list(Table(status["title"], columns, sections=frozenset({len(names) - 1})))


def list_run_records(suite_results: SuiteResults, store: ResultsStore) -> list[dict[str, Any]]:
    """Return key, cell and state of every run of a suite."""
    if not suite_results.data:
        missing = f"keys depend on the images, and this store has no images of {suite_results.title}"
        raise CallerError(missing, Hint("; `{}` decodes them", "run"))
    states = find_run_states(suite_results, store)
    return [
        {
            "key": suite_results.keys[point],
            "state": state,
            "run": describe_run(point, suite_results.suite),
            "protocol": find_protocol_name(point.cell, suite_results.suite),
            "estimator": point.cell.estimator,
            "t": point.cell.t,
            "unit": point.cell.unit,
            "fill": point.cell.fill,
            "seed": point.seed,
            "reason": reason or None,
        }
        for point, (state, reason) in states.items()
    ]


def format_runs(records: Iterable[dict[str, Any]]) -> str:
    """Format the runs of `list_run_records` for a terminal, one line each."""
    return "\n".join(
        f"{row['key'][:_KEY_DIGITS]}  {row['state']:7}  {row['run']}" + (f": {row['reason']}" if row["reason"] else "")
        for row in records
    )

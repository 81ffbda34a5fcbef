"""Report the runs of a suite: counts by state, failures, a list, and everything that is stored about one run."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roarbench.analysis.load_results import LIST_RUNS, find_run_key
from roarbench.analysis.suite_results import SuiteResults, UnrankedRow, describe_rows_without_rank
from roarbench.common.errors import CallerError, Hint
from roarbench.common.identity import make_json_record
from roarbench.common.text import MISSING, format_count, list_some
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator
from roarbench.plan.cells_and_runs import Run
from roarbench.plan.planned_runs import PlannedRun, describe_run, find_protocol_name
from roarbench.plan.protocols import PROTOCOLS
from roarbench.plan.suite import SuiteSpec
from roarbench.report.table_record import Table, make_column
from roarbench.report.table_renderers import format_list
from roarbench.store.annotations_and_scores import find_plan_entry
from roarbench.store.archived_runs import (
    list_keys_of_estimator_and_twins,
    list_submission_ids_with_rows,
    read_archived_rows,
)
from roarbench.store.rankings import RankingsStore
from roarbench.store.results import ResultsStore, read_origins, read_reproductions
from roarbench.store.workspace import Workspace
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
    missing = (point.cell.estimator for point, (state, _) in states.items() if state == "missing")
    added = (find_estimator(name).untwinned_id for name in missing if name in suite.added)
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
        "failures": list_failures(states, suite),
        # missing runs of rows that were added to the suite, by estimator
        "missing_of_added": dict(Counter(added)),
        "mixed": [row._asdict() for row in suite_results.inconsistent_rows],
    }


def list_run_failures(suite_results: SuiteResults, store: ResultsStore) -> list[dict[str, str]]:
    """Return the run, the estimator and the reason of each failure that blocks a run until `retry`."""
    return list_failures(find_run_states(suite_results, store), suite_results.suite)


def list_failures(states: Mapping[PlannedRun, tuple[str, str]], suite: SuiteSpec) -> list[dict[str, str]]:
    """Return the failures of `list_run_failures`, given the state of every planned run."""
    return [
        {"run": describe_run(point, suite), "estimator": point.cell.estimator, "reason": reason}
        for point, (_, reason) in states.items()
        if reason
    ]


def format_lines_below_status_table(status: dict[str, Any], unranked: Iterable[UnrankedRow]) -> list[str | Hint]:
    """Return the lines below the status table: preparations, added rows, rows without a rank, and failures."""
    preparing = ["running: the explained network is trained, or rankings are made"] if status["preparing"] else []
    added = status["missing_of_added"]
    counted = f"{format_count(sum(added.values()), 'missing run')}: added rows ({list_some(list(added))})"
    unnamed = [f"{counted}, which `run` completes only if it names them"] if added else []
    return [*preparing, *unnamed, *describe_rows_without_rank(unranked), *format_failures(status["failures"])]


def format_failures(failures: Iterable[dict[str, str]]) -> list[str | Hint]:
    """Format failures with a line for every reason, followed by advice."""
    failures = list(failures)
    lines = (f"failed: {line}" for line in format_failure_reasons(failures))
    return [*lines, *format_failure_advice(failures)]


def format_failure_reasons(failures: Iterable[dict[str, str]]) -> list[str]:
    """Return a line for every reason, with its first run and the number of further runs."""
    runs_by_reason = defaultdict[str, list[str]](list)
    for failure in failures:
        runs_by_reason[failure["reason"]].append(failure["run"])
    return [f"{list_some(runs, 1)}: {reason}" for reason, runs in runs_by_reason.items()]


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
    keys, running = suite_results.keys, {lease.key for lease in store.list_leases()}
    missing = {point: key for point, key in keys.items() if point not in suite_results.results}
    stopped = store.failures.find_stop_reasons(list(missing.values()))
    states = dict.fromkeys(keys, ("done", ""))
    for point, key in missing.items():
        blocked = ("failed", stopped[key]) if stopped.get(key) else ("missing", "")
        states[point] = ("running", "") if key in running else blocked
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
            **{name: getattr(point.cell, name) for name in ("estimator", "t", "unit", "fill")},
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


def find_named_runs(store: ResultsStore, name: str) -> tuple[list[str], str]:
    """Return keys and description of the run with a key, or of all runs of an estimator.

    Keys and ids of submissions may be abbreviated.
    """
    if name in ESTIMATORS or not re.fullmatch("[0-9a-f]+", name):
        ids = [] if name in ESTIMATORS else list_submission_ids_with_rows(store.database, name)
        if len(ids) > 1 and name not in ids:
            raise CallerError(f"{len(ids)} submissions here begin with '{name}': {list_some(ids)}; write one of them")
        if len(ids) == 1:
            name = ids[0]
        else:
            name = find_estimator(name, () if ids else list_submission_ids_with_rows(store.database, "")).id
        keys = list_keys_of_estimator_and_twins(store.database, name)
        if not keys:
            raise CallerError(f"this store has no results of {name}", LIST_RUNS)
        return keys, name
    run = _read_run(store, key := find_run_key(store, name))
    return [key], describe_run(PlannedRun(run.cell, run.seed))


def count_runs_by_network(store: ResultsStore, keys: Collection[str]) -> str:
    """Count the runs with these keys by data set, network and number of images: `cifar10 with cnn, 40 images: 9 runs`.

    The suites with this data set and network have the runs.
    """
    runs = [result.run for result in store.read_results(keys).values()]
    done = {run.key for run in runs}
    runs += [history[-1].run for key, history in store.failures.read_history(keys).items() if key not in done]
    sizes = ((run, f", {run.limit:,} images" if run.limit else "") for run in runs)
    counts = Counter(f"{run.cell.dataset} with {run.cell.model}{images}" for run, images in sizes)
    return "; ".join(f"{kind}: {format_count(count, 'run')}" for kind, count in counts.most_common())


def _read_run(store: ResultsStore, key: str) -> Run:
    if stored := store.read_results([key]).get(key):
        return stored.run
    failed = store.failures.read_history([key]).get(key)
    return failed[-1].run if failed else read_archived_rows(store.database, [key])[-1].run


def make_run_record(store: ResultsStore, folder: Path, key: str) -> dict[str, Any]:
    """Return everything that is stored about a run, for JSON."""
    result, failures = store.read_results([key]).get(key), store.failures.read_history([key]).get(key, [])
    run, entry = _read_run(store, key), find_plan_entry(store.database, key)
    outcome = provenance = rankings = None
    if result:
        state = "done"
        counts = {"correct": result.correct, "total": result.total, "accuracy": result.correct / result.total}
        values = {name: getattr(result, name) for name in ("loss", "smoothness", "seconds")}
        outcome = counts | values | {"created": result.created.isoformat()}
        origin = result.provenance
        provenance = {"code": origin.code_version, "versions": origin.versions, "hardware": origin.hardware}
        paths = RankingsStore(Workspace(folder).rankings).find_folders(result.rankings) if result.rankings else []
        checksums = {"checksum": result.rankings or None, "weights": result.weights or None}
        rankings = {**checksums, "folders": list(map(str, paths))}
    elif key in {lease.key for lease in store.list_leases()}:
        state = "running"
    elif store.failures.find_stop_reasons([key]):
        state = "failed"
    else:
        state = "missing" if failures else "archived"  # a failed run that will be tried again is missing
    archived = []
    for row in read_archived_rows(store.database, [key]):
        kept, created = row.row, row.created.isoformat()
        content = f"{kept['correct']} of {kept['total']} correct" if row.kind == "result" else kept["reason"]
        archived.append({"created": created, "what": f"{row.kind}, {content}", "reason": row.reason, "who": row.who})
    return {
        "key": key,
        "run": describe_run(PlannedRun(run.cell, run.seed)),
        "state": state,
        "record": make_json_record(run),
        "plan": make_json_record(entry) if entry else None,
        "outcome": outcome,
        "origin": read_origins(store.database, [key])[key] if result else None,
        "reproductions": [
            {"created": created.isoformat(), "verdict": verdict, "correct": correct}
            for created, verdict, correct in read_reproductions(store.database, key)
        ],
        "provenance": provenance,
        "rankings": rankings,
        "failures": [
            {"created": failure.created.isoformat(), "reason": failure.reason, "code": failure.code_version}
            for failure in failures
        ],
        "archived": archived,
    }


def format_run(record: dict[str, Any]) -> str:
    """Format the record of `make_run_record` for a terminal, one line per value."""
    lines = [record["run"], *_format_pairs({name: record[name] for name in ("key", "state", "origin") if record[name]})]
    for part in ("outcome", "rankings", "provenance", "record", "plan"):
        if record[part]:
            lines += [part, *_format_pairs(record[part])]
    for part in ("reproductions", "failures", "archived"):
        lines += [part] * bool(record[part])
        for note in record[part]:
            values = "; ".join(str(value) for name, value in note.items() if name != "created")
            lines.append(f"  {note['created'][:19]}  {values}")
    return "\n".join(lines)


def _format_pairs(values: dict[str, Any], indent: str = "  ") -> list[str]:
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}", *_format_pairs(value, indent + "  ")]
        elif isinstance(value, list | tuple):
            lines += [f"{indent}{name:<12} {' '.join(map(str, value)) or 'not in this store'}"]
        else:
            lines += [f"{indent}{name:<12} {MISSING if value is None else value}"]
    return lines

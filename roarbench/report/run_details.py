"""Name runs by key or estimator, and show everything that is stored about one run."""

import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from roarbench.analysis.load_results import LIST_RUNS, find_run_key
from roarbench.common.errors import CallerError
from roarbench.common.identity import make_json_record
from roarbench.common.text import MISSING, format_count, list_some
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator
from roarbench.plan.cells_and_runs import Run
from roarbench.plan.planned_runs import PlannedRun, describe_run
from roarbench.store.annotations_and_scores import find_plan_entry
from roarbench.store.archived_runs import (
    ArchivedRow,
    list_keys_of_estimator_and_twins,
    list_submission_ids_with_rows,
    read_archived_rows,
)
from roarbench.store.rankings import RankingsStore
from roarbench.store.results import ResultsStore, read_origins, read_reproductions
from roarbench.store.workspace import Workspace


class NamedRuns(NamedTuple):
    """Runs that a user named: their keys and a description."""

    keys: list[str]
    description: str


def find_named_runs(store: ResultsStore, name: str) -> NamedRuns:
    """Find the run with a key, or all runs of an estimator; keys and ids of submissions may be abbreviated."""
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
        return NamedRuns(keys, name)
    run = _read_run(store, key := find_run_key(store, name))
    return NamedRuns([key], describe_run(PlannedRun(run.cell, run.seed)))


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
        counts = {"correct": result.correct, "total": result.total, "accuracy": result.correct / result.total}
        values = {name: getattr(result, name) for name in ("loss", "smoothness", "seconds")}
        outcome = counts | values | {"created": result.created.isoformat()}
        origin = result.provenance
        provenance = {"code": origin.code_version, "versions": origin.versions, "hardware": origin.hardware}
        paths = RankingsStore(Workspace(folder).rankings).find_folders(result.rankings) if result.rankings else []
        checksums = {"checksum": result.rankings or None, "weights": result.weights or None}
        rankings = {**checksums, "folders": list(map(str, paths))}
    return {
        "key": key,
        "run": describe_run(PlannedRun(run.cell, run.seed)),
        "state": "done" if result else _describe_unfinished_state(store, key, bool(failures)),
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
        "forgotten": list(map(_make_archived_record, read_archived_rows(store.database, [key]))),
    }


def _describe_unfinished_state(store: ResultsStore, key: str, failed: bool) -> str:
    """Return the state of a run without a result; a failed run that will be tried again counts as missing."""
    if key in {lease.key for lease in store.list_leases()}:
        return "running"
    if store.failures.find_stop_reasons([key]):
        return "failed"
    return "missing" if failed else "forgotten"


def _make_archived_record(row: ArchivedRow) -> dict[str, str]:
    if row.kind == "result":
        content = f"result, {row.row['correct']} of {row.row['total']} correct"
    else:
        content = f"failure, {row.row['reason']}"
    return {"created": row.created.isoformat(), "what": content, "reason": row.reason, "who": row.who}


def format_run(record: dict[str, Any]) -> str:
    """Format the record of `make_run_record` for a terminal, one line per value."""
    lines = [record["run"], *_format_pairs({name: record[name] for name in ("key", "state", "origin") if record[name]})]
    for part in ("outcome", "rankings", "provenance", "record", "plan"):
        if record[part]:
            lines += [part, *_format_pairs(record[part])]
    for part in ("reproductions", "failures", "forgotten"):
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

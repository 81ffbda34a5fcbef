"""Write the summary of an import of results from a file."""

from collections.abc import Mapping
from pathlib import Path

from roarbench.analysis.provenance_consistency import UnrankedRow
from roarbench.plan.planned_runs import PlannedRun, describe_run
from roarbench.report.status import describe_rows_without_rank
from roarbench.store.transfer import Conflict, ImportOutcome

_MOST_CONFLICTS = 10  # maximum number of conflicts that are listed one by one


def format_import_summary(file: Path, outcome: ImportOutcome, unranked: Mapping[str, list[UnrankedRow]]) -> list[str]:
    """Describe an import line by line: counts, runs with different predictions, and rows without a rank."""
    conflicts, more = outcome.conflicts, len(outcome.conflicts) - _MOST_CONFLICTS
    return [
        f"read: {file}: {len(outcome.new)} results are new, {len(outcome.known)} are stored already, "
        f"{len(conflicts)} are stored already with other predictions and were not imported",
        *(f"other predictions: {_describe_conflict(conflict)}" for conflict in conflicts[:_MOST_CONFLICTS]),
        *([f"other predictions: {more} more runs"] if more > 0 else []),
        *(f"{title}: {line}" for title, rows in unranked.items() for line in describe_rows_without_rank(rows)),
    ]


def _describe_conflict(conflict: Conflict) -> str:
    run, stored = conflict.stored.run, conflict.stored
    counts = f"{stored.correct:,} of {stored.total:,} correct here, {conflict.imported.correct:,} in the file"
    differ = f"{conflict.differing_images:,} differ (key {run.key[:8]})"
    return f"{describe_run(PlannedRun(run.cell, run.seed))}: {counts}, {differ}"

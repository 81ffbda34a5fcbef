"""What `import` says: what is new, what the store has other answers of, and what has no place."""

from collections.abc import Mapping
from pathlib import Path

from roarbench.analysis.consistency import Dropped
from roarbench.plan.points import Point, describe_run
from roarbench.report.status import describe_dropped
from roarbench.store.transfer import Conflict, ImportOutcome

_TOLD = 10  # conflicts that are told one by one


def format_import_summary(file: Path, found: ImportOutcome, dropped: Mapping[str, list[Dropped]]) -> list[str]:
    """Return what became of the results of a file: counts, runs whose answers differ, and rows without a place."""
    conflicts = found.conflicts
    more = len(conflicts) - _TOLD
    return [
        f"read: {file}: {len(found.new)} results are new, {len(found.known)} are stored already, "
        f"{len(conflicts)} are stored already with other answers and were not taken",
        *(f"other answers: {_conflict(conflict)}" for conflict in conflicts[:_TOLD]),
        *([f"other answers: {more} more"] if more > 0 else []),
        *(f"{title}: {line}" for title, rows in dropped.items() for line in describe_dropped(rows)),
    ]


def _conflict(conflict: Conflict) -> str:
    run, stored, found = conflict.stored.run, conflict.stored, conflict.found
    counts = f"{stored.correct:,} of {stored.total:,} correct here, {found.correct:,} in the file"
    return f"{describe_run(Point(run.cell, run.seed))}: {counts}, {conflict.differing:,} differ (key {run.key[:8]})"

"""Estimators by suites: verdicts, never averages of gains."""

from collections import defaultdict
from typing import Any

from leaderboard.links import Address, Site
from leaderboard.records import BEATS, CONTROL, OPEN, BoardRecord, BoardRow
from leaderboard.views import SuiteView

_SHOWN = 6  # suites of a kind; the others are under "more"


def context(site: Site, at: Address) -> dict[str, Any]:
    """Return the fields of the page: suites of one kind of data, or more of them that do not fit beside the first."""
    kinds = defaultdict[str, list[BoardRecord]](list)
    for view in site.views.values():
        if view.results.has_rows:
            kinds[_kind(view)].append(view.board)
    parts = []
    for kind, boards in kinds.items():
        parts.append((kind, False, boards[:_SHOWN], _rows(boards[:_SHOWN])))
        if more := boards[_SHOWN:]:
            parts.append((f"{kind}: {len(more)} more", True, more, _rows(more)))
    return {"parts": parts, "sorts": kinds}


def _kind(view: SuiteView) -> str:
    record = view.results.suite.dataset_record
    if record.tabular:
        return "Tables"
    return "Known truth" if record.seed is not None and not (record.hub or record.bundled) else "Photographs"


def _rows(boards: list[BoardRecord]) -> list[list[BoardRow | None]]:
    """Return the rows that have a value, each with those of its name on all boards; the most successful first."""
    there = [{row.id: row for row in board.rows if row.value.value is not None} for board in boards]
    found = [[rows.get(name) for rows in there] for name in dict.fromkeys(name for rows in there for name in rows)]

    def successes(rows: list[BoardRow | None]) -> list[int]:
        kinds = [row.kind for row in rows if row]
        return [-kinds.count(kind) for kind in (BEATS, OPEN, CONTROL)]

    return sorted(found, key=successes)

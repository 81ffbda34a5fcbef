"""Estimators by suites: verdicts, never averages of gains."""

from typing import Any, NamedTuple

from leaderboard.links import Asked
from leaderboard.records import BEATS, CONTROL, KINDS, OPEN, BoardRecord
from leaderboard.views import SuiteView
from leaderboard.words import plain
from roarbench.estimators.naming import human_name
from roarbench.text import interval

_SHOWN = 6  # suites of a kind; the others are under "more"


class Part(NamedTuple):
    """Suites of one kind of data, or `more` of them that do not fit beside the first.

    Of each row name, detail, link, and for each suite its kind and what it says in words; of each column title,
    question and address.
    """

    title: str
    more: bool
    rows: list[tuple[str, str, str, list[tuple[str, str]]]]
    columns: list[tuple[str, str, str]]


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page."""
    kinds: dict[str, list[BoardRecord]] = {}
    for view in asked.views.values():
        if view.results.has_rows:
            kinds.setdefault(_kind(view), []).append(view.board)
    parts = []
    for kind, boards in kinds.items():
        parts.append(_part(asked, kind, boards[:_SHOWN]))
        if more := boards[_SHOWN:]:
            parts.append(_part(asked, f"{kind}: {len(more)} more", more, True))
    return {
        "title": "All suites",
        "description": "Which estimators beat every control that asks no network, suite by suite",
        "parts": parts,
        "there": {row.kind for boards in kinds.values() for board in boards for row in board.rows},
        "facts": [f"{kind.lower()}: {len(boards)}" for kind, boards in kinds.items()],
    }


def _kind(view: SuiteView) -> str:
    record = view.results.suite.dataset_record
    if record.tabular:
        return "Tables"
    return "Known truth" if record.seed is not None and not (record.hub or record.bundled) else "Photographs"


def _part(asked: Asked, title: str, boards: list[BoardRecord], more: bool = False) -> Part:
    there = [{row.id: row for row in board.rows if row.value.value is not None} for board in boards]
    cells: dict[str, list[tuple[str, str]]] = {}
    for name in dict.fromkeys(name for rows in there for name in rows):
        found = [(rows.get(name), board) for rows, board in zip(there, boards, strict=True)]
        cells[name] = [
            (row.kind, f"{KINDS[row.kind]}: {interval(row.value)} {board.measured}") if row else ("", "")
            for row, board in found
        ]
    kinds = {name: [kind for kind, _ in each] for name, each in cells.items()}
    order = sorted(cells, key=lambda name: [-kinds[name].count(kind) for kind in (BEATS, OPEN, CONTROL)])
    rows = [(*human_name(name), asked.links.to("method", estimator=name), cells[name]) for name in order]
    heads = [(plain(b.title), b.protocol.tab, asked.links.to("board", b.slug)) for b in boards]
    return Part(title, more, rows, heads)

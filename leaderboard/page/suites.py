"""Estimators by suites: verdicts, never averages of gains."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from leaderboard.asked import Asked
from leaderboard.links import Address, address
from leaderboard.names import human_name
from leaderboard.records import BEATS, BELOW, CONTROL, OPEN, UNJUDGED, BoardRecord, BoardRow
from leaderboard.text import plain
from leaderboard.views import SuiteView, Views
from leaderboard.words import question
from roarbench.text import interval

SHOWN = 6  # suites of a kind; the others are under "more"
WORDS = {
    BEATS: "beats every control",
    OPEN: "not told apart from a control",
    BELOW: "below a control",
    CONTROL: "control",
    UNJUDGED: "no verdict",
}


class Column(NamedTuple):
    """The leading board of a suite.

    Attributes:
        title: Of the suite.
        asked: The question of its protocol.
        href: The board.
        cells: By estimator, the kind of its row and what it says in words.
    """

    title: str
    asked: str
    href: str
    cells: dict[str, tuple[str, str]]


class Part(NamedTuple):
    """Suites of one kind of data.

    Attributes:
        title: The kind.
        rows: Estimators and controls, those that beat the controls of most suites first: id, name, detail, link.
        columns: The suites.
    """

    title: str
    rows: list[tuple[str, str, str, str]]
    columns: list[Column]


def addresses(views: Views) -> Iterator[Address]:
    """Yield the page, where there is more than one suite."""
    if sum(view.results.has_rows for view in views.values()) > 1:
        yield address("suites")


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page."""
    kinds: dict[str, list[SuiteView]] = {}
    for view in asked.views.values():
        if view.results.has_rows:
            kinds.setdefault(_kind(view), []).append(view)
    parts = []
    for kind, views in kinds.items():
        columns = [_column(asked, view) for view in views]
        parts.append(_part(asked, kind, columns[:SHOWN]))
        if columns[SHOWN:]:
            parts.append(_part(asked, f"{kind}: {len(columns) - SHOWN} more", columns[SHOWN:]))
    counts = {kind: len(views) for kind, views in kinds.items()}
    return {
        "title": "All suites",
        "description": "Which estimators beat every control that asks no network, suite by suite",
        "parts": parts,
        "words": WORDS,
        "facts": [f"{kind.lower()}: {count}" for kind, count in counts.items()],
    }


def _kind(view: SuiteView) -> str:
    record = view.results.suite.dataset_record
    if record.tabular:
        return "Tables"
    return "Known truth" if record.seed is not None and not (record.hub or record.bundled) else "Photographs"


def _column(asked: Asked, view: SuiteView) -> Column:
    board = view.board
    cells = {row.id: (row.kind, _words(row, board)) for row in board.rows if row.value.value is not None}
    return Column(plain(view.title), question(board.protocol), asked.links.to("board", view.slug), cells)


def _words(row: BoardRow, board: BoardRecord) -> str:
    return f"{WORDS[row.kind]}: {interval(row.value)} {board.measured}"


def _part(asked: Asked, title: str, columns: list[Column]) -> Part:
    names = dict.fromkeys(name for column in columns for name in column.cells)
    kinds = {name: [column.cells.get(name, ("", ""))[0] for column in columns] for name in names}
    order = sorted(names, key=lambda name: [-kinds[name].count(kind) for kind in (BEATS, OPEN, CONTROL)])
    rows = [(name, *human_name(name), asked.links.to("method", estimator=name)) for name in order]
    return Part(title, rows, columns)

"""Cite: a board's permanent address, its figure to embed, its papers, and what changed since its last version."""

from collections.abc import Iterator
from typing import Any

from leaderboard.asked import Asked
from leaderboard.links import Address, address, file_name
from leaderboard.profile import profile
from leaderboard.records import BEATS, BoardRecord, BoardRow
from leaderboard.text import plain
from leaderboard.views import SuiteView, Views
from leaderboard.words import REPOSITORY, question
from roarbench.estimators.families.gradients import HOOKER
from roarbench.plan.suite import Suite
from roarbench.plan.suites import VERSIONS
from roarbench.text import interval, some

_LEFT, _WIDE = 290, 310  # of the figure: where its axis begins, and how long it is
_DESIGN = {  # of a suite, in words
    "recipe": "recipe of the scored networks",
    "reference_recipe": "recipe of the explained networks",
    "references": "explained networks",
    "model": "network",
    "maps": "how maps are computed",
    "tuned_on": "masks that networks are tuned on",
}


def addresses(views: Views) -> Iterator[Address]:
    """Yield a page for each suite."""
    yield from (address("cite", slug) for slug in views)


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page of a suite."""
    view = asked.view
    board = view.board
    best = board.by_id.get(board.best_control)
    named = [profile(row.id, [view.results]) for row in board.rows]
    return {
        "title": f"Cite {plain(view.title)}",
        "description": f"Permanent address, figure and papers of {plain(view.title)}",
        "name": plain(view.title),
        "permanent": file_name(address("board", view.slug)),
        "board": asked.links.to("board", view.slug),
        "file": f"board-{view.slug}.svg",
        "question": question(board.protocol),
        "measured": board.measured,
        "ticks": [(across(board, tick), f"{tick:g}".replace("-", "−")) for tick in board.axis.ticks],
        "zero": across(board, 0.0),
        "best": across(board, best.value.value) if best and best.value.value is not None else None,
        "rows": [drawn(board, row) for row in board.rows if row.value.value is not None],
        "bibtex": "\n\n".join((bibtex(view), HOOKER.bibtex)),
        "papers": list(dict.fromkeys(paper for each in named for paper in each.papers)),
        "changes": changes(view, asked.views),
    }


def across(board: BoardRecord, value: float) -> float:
    """Return where a value stands in the figure, in its own units."""
    return round(_LEFT + _WIDE * board.axis.at(value) / 100, 1)


def drawn(board: BoardRecord, row: BoardRow) -> dict[str, Any]:
    """Return a row that has a value as the figure shows it."""
    value, low, high = (None if end is None else across(board, end) for end in row.value)
    text = interval(row.value).replace("-", "−")
    called = {"name": row.name, "detail": row.detail, "kind": row.kind, "text": text}
    return called | {"at": value, "low": low, "high": high if low is not None else None}


def bibtex(view: SuiteView) -> str:
    """Return the board as a BibTeX entry."""
    table = view.table(view.leading, view.units(view.leading)[0])
    year = max((result.created.year for result in view.results.results.values()), default="")
    fields = {
        "title": f"{{roarbench: {plain(view.title)}}}",
        "author": "{The roarbench maintainers}",
        "year": f"{year}",
        **({"howpublished": f"\\url{{{REPOSITORY}}}"} if REPOSITORY else {}),
        "note": f"{view.leading.title}, table {table.hash}",
    }
    lines = [f"  {name:13} = {{{value}}}" for name, value in fields.items()]
    return "\n".join([f"@misc{{roarbench-{view.slug},", ",\n".join(lines), "}"])


def changes(view: SuiteView, views: Views) -> list[str]:
    """Return in sentences what changed since the suite's last version; nothing of a first one."""
    suite = view.results.suite
    before = VERSIONS.get((suite.name, suite.version - 1)) if isinstance(suite.version, int) else None
    if not before:
        return []
    found = [*_design(before, suite), *_rows("New rows", suite, before), *_rows("No longer there", before, suite)]
    old = next((each for each in views.values() if each.results.suite == before), None)
    if old and old.leading == view.leading:
        kinds = {row.id: row.kind == BEATS for row in old.board.rows}
        moved = [row.name for row in view.board.rows if kinds.get(row.id, row.kind == BEATS) != (row.kind == BEATS)]
        found += [f"Other verdict against the controls: {some(moved, 6)}."] if moved else []
    return found


def _design(before: Suite, now: Suite) -> Iterator[str]:
    for name, words in _DESIGN.items():
        old, new = getattr(before, name), getattr(now, name)
        if old != new:
            yield f"{words.capitalize()}: {old or 'none'} before, now {new or 'none'}."
    asked = [list(dict.fromkeys(block.protocol.title for block in suite.blocks)) for suite in (before, now)]
    if asked[0] != asked[1]:
        yield f"Protocols: {', '.join(asked[0])} before, now {', '.join(asked[1])}."


def _rows(words: str, here: Suite, there: Suite) -> Iterator[str]:
    names = [name for name in here.placed if name not in there.placed]
    if names:
        yield f"{words}: {', '.join(names)}."

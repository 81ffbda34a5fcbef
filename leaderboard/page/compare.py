"""Compare: two rows by their gains, by what they are made of, and on images."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from leaderboard.asked import Asked, NotThere
from leaderboard.links import Address, address
from leaderboard.page.images import Shown, answers, photos, shown
from leaderboard.pairs import Pair, pair
from leaderboard.records import BoardRow
from leaderboard.text import plain
from leaderboard.views import SuiteView, Views
from roarbench.protocols.mask_only import MASK_ONLY

_PAIRS = 3  # on a static page; a running program compares any two rows
_EACH = 2  # images that speak for each row


class Compared(NamedTuple):
    """Two rows as they are shown.

    Attributes:
        first, second: Their rows on the board.
        pair: Their numbers.
        pictures: Both with their sheets; empty where the store has none of one.
        places: Of the images that speak most for the first, then for the second.
    """

    first: BoardRow
    second: BoardRow
    pair: Pair
    pictures: tuple[Shown, ...]
    places: tuple[int, ...]


def addresses(views: Views) -> Iterator[Address]:
    """Yield a page for each suite with results of two rows, without computing a board."""
    for view in views.values():
        run = view.results.by_estimator.keys() & set(view.results.suite.placed)
        if len(run) > 1 and view.leading != MASK_ONLY:
            yield address("compare", view.slug)


def _rows(view: SuiteView) -> list[BoardRow]:
    return [row for row in view.board.rows if row.value.value is not None] if view.board.gained else []


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page of a suite: the pair that is asked for, or the best row beside some others."""
    view = asked.view
    rows = {row.id: row for row in _rows(view)}
    found = [_compared(asked, *each) for each in _pairs(asked, rows)] if len(rows) > 1 else []
    return {
        "title": f"{plain(view.title)}: compare",
        "description": "Two estimators beside each other: by gains, by answers and on images",
        "found": found,
        "rows": list(rows.values()),
        "gain": view.leading.gain,
        "answers": answers(view, found[0].first.id) if found else 0,
        "caption": view.board.caption,
        "pictures": view.pictures,
        "photos": photos(asked) if any(each.pictures for each in found) else "",
        "suite": view.slug,
    }


def _pairs(asked: Asked, rows: dict[str, BoardRow]) -> Iterator[tuple[BoardRow, BoardRow]]:
    names = [name for key in ("first", "second") if (name := asked.at.chosen(key))]
    for name in names:
        if name not in rows:
            raise NotThere(f"There is no row {plain(name, 60)!r} with a gain in {plain(asked.view.title)}.")
    asking = [row for row in rows.values() if not row.control] or list(rows.values())
    best = rows[names[0]] if names else asking[0]
    control = rows.get(asked.view.board.best_control)
    others = [rows[names[1]]] if len(names) > 1 else [*asking[:_PAIRS], *([control] if control else []), *rows.values()]
    different = {row.id: row for row in others if row is not best}
    yield from ((best, row) for row in list(different.values())[:_PAIRS])


def _compared(asked: Asked, first: BoardRow, second: BoardRow) -> Compared:
    view, found = asked.view, asked.view.pictures
    made = pair(view.evidence, view.leading, view.units(view.leading)[0], first.id, second.id)
    if not found or not {first.id, second.id} <= set(found.rows):
        return Compared(first, second, made, (), ())
    one, two = (shown(asked, row.id, held=True) for row in (first, second))
    over = [_costs(one, at) - _costs(two, at) for at in range(len(found.numbers))]
    order = sorted(range(len(over)), key=lambda at: -over[at])
    places = [at for at in order[:_EACH] if over[at] > 0] + [at for at in order[::-1][:_EACH] if over[at] < 0]
    return Compared(first, second, made, (one, two), tuple(places))


def _costs(row: Shown, at: int) -> int:
    """Return how many answers to an image a row's own masks cost."""
    return (row.against[at] if row.against else 0) - row.own[at]

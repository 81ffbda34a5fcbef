"""Compare: two rows by their gains, by what they are made of, and on images."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from leaderboard.links import Asked, NotThere
from leaderboard.page import images
from leaderboard.pairs import Pair, pair
from leaderboard.records import BoardRow
from leaderboard.views import SuiteView
from leaderboard.words import plain
from roarbench.protocols.mask_only import MASK_ONLY

_PAIRS = 3  # on a static page; a running program compares any two rows
_EACH = 2  # images that speak for each row


class Compared(NamedTuple):
    """Two rows beside each other: their numbers, and where the store has them, sheets of pictures of both.

    Shown are, as in `images.shown`, the images that speak most for the first, then for the second.
    """

    rows: tuple[BoardRow, BoardRow]
    pair: Pair
    sheets: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    shown: tuple[tuple[str, int, str, tuple[int, ...], int], ...] = ()


def has_pair(view: SuiteView) -> bool:
    """Return whether there are results of two rows, without computing a board."""
    run = view.results.by_estimator.keys() & set(view.results.suite.placed)
    return len(run) > 1 and view.leading != MASK_ONLY


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page of a suite: the pair that is asked for, or the best row beside some others."""
    view = asked.view
    rows = {row.id: row for row in view.board.rows if view.board.gained and row.value.value is not None}
    found = [_compared(asked, best, other) for best, other in _pairs(asked, rows)]
    return {
        "title": f"{plain(view.title)}: compare",
        "description": "Two estimators beside each other: by gains, by answers and on images",
        "found": found,
        "rows": list(rows.values()),
        "gain": view.leading.gain,
        "caption": view.board.caption,
        "pictures": view.pictures,
        "photos": images.photos(asked, view) if any(each.sheets for each in found) else "",
        "suite": view.slug,
    }


def _pairs(asked: Asked, rows: dict[str, BoardRow]) -> Iterator[tuple[BoardRow, BoardRow]]:
    names = [name for key in ("first", "second") if (name := asked.at.chosen(key))]
    for name in names:
        if name not in rows:
            raise NotThere(f"There is no row {plain(name, 60)!r} with a gain in {plain(asked.view.title)}.")
    control = asked.view.board.best
    asking = [name for name, row in rows.items() if not row.control]
    order = dict.fromkeys([*names, *asking[:_PAIRS], *([control.id] if control else []), *rows])
    found = [rows[name] for name in order]
    for row in found[1 : 2 if len(names) > 1 else 1 + _PAIRS]:
        yield found[0], row


def _compared(asked: Asked, first: BoardRow, second: BoardRow) -> Compared:
    view, found, rows = asked.view, asked.view.pictures, (first, second)
    made = pair(view.evidence, view.leading, view.evidence.unit, first.id, second.id)
    if not found or not {first.id, second.id} <= set(found.rows):
        return Compared(rows, made)
    sheets, answers = zip(*(images.sheet(asked, view, row.id) for row in rows), strict=True)
    left = [second - first for first, second in zip(*(each.own for each in answers), strict=True)]
    order = sorted(range(len(left)), key=lambda at: -left[at])
    places = [at for at in order[:_EACH] if left[at] > 0] + [at for at in order[::-1][:_EACH] if left[at] < 0]
    shown = [(kind, 1, row.name, of.own, of.of) for kind, row, of in zip("ab", rows, answers, strict=True)]
    return Compared(rows, made, sheets, tuple(places), tuple(shown))

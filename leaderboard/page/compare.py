"""Compare: two rows by their gains, by the answers that these are made of, and on images."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from leaderboard.links import Address, NotThere, Site
from leaderboard.page import images
from leaderboard.records import BoardRow, in_points
from leaderboard.views import SuiteView
from leaderboard.words import plain
from roarbench.analysis.evidence import Drawn, Evidence
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.curves import POINTS
from roarbench.terms import Order, Unit

_PAIRS = 3  # on a static page; a running program compares any two rows
_EACH = 2  # images that speak for each row


class Count(NamedTuple):
    """Answers at one level that speak for a row and against it, of all: networks times test images."""

    gained: int
    against: int
    of: int

    @property
    def points(self) -> float:
        """Return the share that is left, in accuracy points: the gain, or the accuracy that is counted."""
        return POINTS * (self.gained - self.against) / self.of


class Level(NamedTuple):
    """Two rows at one level `t`; the difference is the first's points minus the second's, paired."""

    t: float
    first: Count
    second: Count
    difference: Estimate


class Pair(NamedTuple):
    """Two rows under one protocol: the first's gain minus the second's in accuracy points, and the levels of both.

    What is counted, and what against it, is said in words; the second are empty where nothing is.
    """

    gain: Estimate
    levels: tuple[Level, ...]
    counted: tuple[str, str]


def has_pair(view: SuiteView) -> bool:
    """Return whether there are results of two rows, without computing a board."""
    run = view.results.by_estimator.keys() & set(view.results.suite.placed)
    return len(run) > 1 and view.leading != MASK_ONLY


def context(site: Site, at: Address) -> dict[str, Any]:
    """Return the fields of the page of a suite: the pair that is asked for, or the best row beside some others."""
    view = site.view(at)
    rows = {row.id: row for row in view.board.rows if view.board.gained and row.value.value is not None}
    pairs = [(each, _sheets(site, view, each)) for each in _pairs(view, at, rows)]
    return {
        "view": view,
        "found": [
            (each, pair(view.evidence, view.leading, view.evidence.unit, each[0].id, each[1].id), sheets)
            for each, sheets in pairs
        ],
        "rows": rows.values(),
        "photos": images.photos(site, view) if any(sheets for _, sheets in pairs) else "",
    }


def _pairs(view: SuiteView, at: Address, rows: dict[str, BoardRow]) -> Iterator[tuple[BoardRow, BoardRow]]:
    names = [name for key in ("first", "second") if (name := at.chosen(key))]
    for name in names:
        if name not in rows:
            raise NotThere(f"There is no row {plain(name, 60)!r} with a gain in {plain(view.title)}.")
    asking = [name for name, row in rows.items() if not row.control]
    control = [view.board.best.id] if view.board.best else []
    found = [rows[name] for name in dict.fromkeys([*names, *asking[:_PAIRS], *control, *rows])]
    for row in found[1 : 2 if len(names) > 1 else 1 + _PAIRS]:
        yield found[0], row


def _sheets(site: Site, view: SuiteView, rows: tuple[BoardRow, BoardRow]) -> tuple[Any, ...] | None:
    """Return sheets of both rows, the images that speak most for the first, then for the second, and what they show.

    None where the store lacks pictures of one; what is shown is as in `images.shown`.
    """
    if not view.pictures or not {row.id for row in rows} <= set(view.pictures.rows):
        return None
    sheets, answers = zip(*(images.sheet(site, view, row.id) for row in rows), strict=True)
    left = [second - first for first, second in zip(*(each.own for each in answers), strict=True)]
    order = sorted(range(len(left)), key=lambda at: -left[at])
    places = [at for at in order[:_EACH] if left[at] > 0] + [at for at in order[::-1][:_EACH] if left[at] < 0]
    lines = [(kind, 1, row.name, of.own, of.of) for kind, row, of in zip("ab", rows, answers, strict=True)]
    return sheets, places, lines


def pair(evidence: Evidence, protocol: Protocol, unit: Unit, first: str, second: str) -> Pair:
    """Compare two rows of a suite under a protocol that it has."""
    drawn = evidence.drawn(protocol, unit)
    areas = [drawn.areas.get(name) for name in (first, second)]
    gain = drawn.estimate(areas[0].minus(areas[1])) if areas[0] and areas[1] else Estimate()
    held = (drawn.scores.differences or drawn.scores).correct
    common = [t for t in drawn.levels if (first, t) in held and (second, t) in held]
    return Pair(gain, tuple(_level(drawn, protocol, t, first, second) for t in common), _counted(protocol))


def _counted(protocol: Protocol) -> tuple[str, str]:
    """Return what is counted for a row, and against it."""
    if not protocol.by_difference:
        return ("wrong answers", "") if protocol.order is Order.MORF else ("right answers", "")
    other = "the other mask" if protocol.paired else "ROAR" if protocol.made_of else "Random’s mask"
    own = "KAR" if protocol.made_of else "its own mask"
    sides = (f"right with {other} alone", f"right with {own} alone")
    return sides if protocol.order is Order.MORF else sides[::-1]


def _level(drawn: Drawn, protocol: Protocol, t: float, first: str, second: str) -> Level:
    one, other = ((drawn.draws.differences or drawn.draws).accuracy((name, t)) for name in (first, second))
    assert one and other, "asked only for points with results"
    over = one.minus(other) if protocol.order is Order.LERF else other.minus(one)
    difference = in_points(drawn.estimate(over))
    return Level(t, _count(drawn, protocol, (first, t)), _count(drawn, protocol, (second, t)), difference)


def _count(drawn: Drawn, protocol: Protocol, point: tuple[str, float]) -> Count:
    """Count the answers that speak for a row and against it."""
    removed_first = protocol.order is Order.MORF
    if drawn.scores.differences:
        answers = drawn.scores.differences.correct[point]
        gained, against = (int((answers == side).sum()) for side in ((-1, 1) if removed_first else (1, -1)))
        return Count(gained, against, answers.size)
    bits = drawn.scores.correct[point]
    return Count(int(np.count_nonzero(bits != removed_first)), 0, bits.size)

"""Places as intervals, and groups of estimators that are not significantly different."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.bootstrap import quantile
from roarbench.stats.curves import Floats
from roarbench.stats.pairs import Pairs


class Place(NamedTuple):
    """A position on the board.

    Attributes:
        place: By the gain as it is, 1 is best; equal gains share the better place.
        low, high: The best and the worst place that the data allow; None without intervals.
        groups: Numbers of the tie groups that it belongs to, from 1 at the top; empty without intervals.
    """

    place: int
    low: int | None = None
    high: int | None = None
    groups: tuple[int, ...] = ()


def places(gains: Floats) -> list[Place]:
    """Return places by the values alone, for gains of shape (estimators,)."""
    return [Place(1 + int((gains > gain).sum())) for gain in gains]


def place_intervals(pairs: Pairs) -> list[Place]:
    """Return places with intervals that all hold at once with the confidence of the pairs.

    An estimator's best place is one below all that are significantly better, its worst one above all that are
    significantly worse (Klein, Wright, Wieczorek 2020; Mogstad, Romano, Shaikh, Wilhelm 2024). Counting the places in
    the draws instead would be wrong where estimators are truly equal: docs/statistics.md.

    Args:
        pairs: Of the gains.
    """
    gains, apart = pairs.values, significant_pairs(pairs)
    above = (apart & (pairs.differences < 0)).sum(1)
    below = (apart & (pairs.differences > 0)).sum(1)
    groups = tie_groups(gains, apart)
    return [
        Place(
            point.place,
            1 + int(above[index]),
            len(gains) - int(below[index]),
            tuple(number for number, group in enumerate(groups, 1) if index in group),
        )
        for index, point in enumerate(places(gains))
    ]


def significant_pairs(pairs: Pairs) -> NDArray[np.bool_]:
    """Return which pairs differ, with a chance of at most 1 - confidence that any equal pair is among them.

    Romano and Wolf's step-down (2005): the critical value comes from the largest deviation over all pairs in each
    draw; the pairs beyond it are set aside and the rest is judged anew, until nothing changes.

    Returns:
        A symmetric matrix of shape (estimators, estimators).
    """
    differences, scale = np.abs(pairs.differences), pairs.halves
    found = pairs.upper & (scale == 0) & (differences > 0)  # no draw ever moved it
    open_ = pairs.upper & (scale > 0)
    while open_.any():
        new = open_ & (differences > quantile(pairs.largest(open_), pairs.confidence) * scale)
        if not new.any():
            break
        found |= new
        open_ &= ~new
    apart: NDArray[np.bool_] = found | found.T
    return apart


def tie_groups(gains: Floats, apart: NDArray[np.bool_]) -> list[frozenset[int]]:
    """Return the largest sets in which no two differ significantly, best first; every estimator is in at least one.

    The sets of Piepho's compact letter display (2004), built up estimator by estimator: each joins what is tied with
    it of every set so far, and a set that it is tied with as a whole.
    """
    groups: set[frozenset[int]] = set()
    for new in range(len(gains)):
        tied = frozenset(np.flatnonzero(~apart[new]).tolist())
        joined = {(group & tied) | {new} for group in (*groups, frozenset[int]())}
        largest = {group for group in joined if not any(group < other for other in joined)}
        groups = {group for group in groups if not group <= tied} | largest
    return sorted(groups, key=lambda group: (-gains[list(group)].max(), -gains[list(group)].min(), sorted(group)))

"""Places as intervals, and groups of estimators that no test tells apart."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.curves import Floats


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
    """Places by the values alone, for gains of shape (estimators,)."""
    return [Place(1 + int((gains > gain).sum())) for gain in gains]


def place_intervals(gains: Floats, draws: Floats, confidence: float) -> list[Place]:
    """Places with intervals that all hold at once with this confidence.

    An estimator's best place is one below all that are told apart above it, its worst place one above all that are
    told apart below it (Klein, Wright, Wieczorek 2020; Mogstad, Romano, Shaikh, Wilhelm 2024). Counting the places in
    the draws instead would be wrong where estimators are truly equal: docs/statistics.md.

    Args:
        gains: Shape (estimators,).
        draws: Of the gains, shape (estimators, resamples).
        confidence: In (0, 1).
    """
    apart = told_apart(gains, draws, confidence)
    above = apart & (gains[None, :] > gains[:, None])
    below = apart & (gains[None, :] < gains[:, None])
    groups = tie_groups(gains, apart)
    return [
        Place(
            point.place,
            1 + int(above[index].sum()),
            len(gains) - int(below[index].sum()),
            tuple(number for number, group in enumerate(groups, 1) if index in group),
        )
        for index, point in enumerate(places(gains))
    ]


def told_apart(gains: Floats, draws: Floats, confidence: float) -> NDArray[np.bool_]:
    """Which pairs differ, with a chance of at most 1 - confidence that any equal pair is among them.

    Romano and Wolf's step-down (2005): the critical value comes from the largest deviation over all pairs in each
    draw; the pairs beyond it are set aside and the rest is judged anew, until nothing changes.

    Returns:
        A symmetric matrix of shape (estimators, estimators).
    """
    one, other = np.triu_indices(len(gains), 1)
    apart = np.zeros((len(gains), len(gains)), dtype=np.bool_)
    differences = np.abs(gains[one] - gains[other])
    deviations = np.abs(draws[one] - draws[other] - (gains[one] - gains[other])[:, None])
    scale = np.quantile(deviations, confidence, axis=1) if len(one) else differences
    found = (scale == 0) & (differences > 0)  # no draw ever moved it
    open_ = scale > 0
    while open_.any():
        largest = (deviations[open_] / scale[open_, None]).max(0)
        new = open_ & (differences > np.quantile(largest, confidence) * scale)
        if not new.any():
            break
        found |= new
        open_ &= ~new
    apart[one, other] = found
    return apart | apart.T


def tie_groups(gains: Floats, apart: NDArray[np.bool_]) -> list[frozenset[int]]:
    """The largest sets in which no two are told apart, best first; every estimator is in at least one.

    Insert and absorb (Piepho 2004, compact letter display): start with all in one set, split it at every pair.
    """
    groups = {frozenset(range(len(gains)))}
    for one, other in np.argwhere(np.triu(apart)).tolist():
        whole = {group for group in groups if one in group and other in group}
        groups = (groups - whole) | {group - {either} for group in whole for either in (one, other)}
        groups = {group for group in groups if not any(group < larger for larger in groups)}
    return sorted(groups, key=lambda group: (-gains[list(group)].max(), -gains[list(group)].min(), min(group)))

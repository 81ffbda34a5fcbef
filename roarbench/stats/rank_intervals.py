"""Compute rank intervals from all pairwise differences, and groups of estimators that do not differ significantly."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.bootstrap_intervals import Sample, compute_quantile
from roarbench.stats.correctness_and_gain import Floats


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of numbers with paired draws.

    Draws of differences are computed for one row of the (n, n) matrix at a time, because the draws of all pairs of 200
    numbers would take 320 MB.
    """

    values: Floats  # shape (n,)
    draws: Floats  # draws of the values, shape (n, resamples)
    confidence: float  # confidence level of differences' intervals, in (0, 1)

    @classmethod
    def from_samples(cls, samples: Sequence[Sample], confidence: float) -> Self:
        """Build the pairs of these samples."""
        values, draws = [sample.value for sample in samples], [sample.draws for sample in samples]
        return cls(np.array(values), np.array(draws), confidence)

    @cached_property
    def upper_triangle(self) -> NDArray[np.bool_]:
        """Return a matrix, shape (n, n), that is True once for every pair."""
        return np.triu(np.ones((len(self.values), len(self.values)), dtype=np.bool_), 1)

    @cached_property
    def differences(self) -> Floats:
        """Return the differences of values, row minus column, shape (n, n)."""
        return self.values[:, None] - self.values[None, :]

    @cached_property
    def half_widths(self) -> Floats:
        """Return half the width of every difference's interval, shape (n, n); 0 where `upper_triangle` is False."""
        widths = np.zeros_like(self.differences)
        for row in range(len(widths) - 1):
            deviations = self._compute_absolute_deviations(row, slice(row + 1, None))
            widths[row, row + 1 :] = compute_quantile(deviations, self.confidence)
        return widths

    def find_largest_deviations(self, chosen: NDArray[np.bool_]) -> Floats:
        """Return the largest deviation among the chosen pairs in each draw, in half widths, shape (resamples,)."""
        largest = np.zeros(self.draws.shape[1])
        for row, columns in enumerate(chosen):
            if columns.any():
                ratios = self._compute_absolute_deviations(row, columns)
                ratios /= self.half_widths[row, columns, None]
                np.maximum(largest, ratios.max(0), out=largest)
        return largest

    def _compute_absolute_deviations(self, row: int, columns: NDArray[np.bool_] | slice) -> Floats:
        """Return the absolute deviation of each difference from its value in each draw, (columns, resamples)."""
        deviations: Floats = self.draws[row] - self.draws[columns]
        deviations -= self.differences[row, columns, None]
        return np.abs(deviations, out=deviations)


class RankInterval(NamedTuple):
    """A rank on the leaderboard."""

    place: int  # rank of the measured gain, 1 is best; equal gains share the better rank
    low: int | None = None  # low, high: best and worst rank consistent with the data; None without intervals
    high: int | None = None
    # the row's tie groups, numbered from 1 at the top; empty without intervals
    groups: tuple[int, ...] = ()
    added: bool = False  # whether the row was added to the suite; its rank is in brackets and changes no other rank


def rank_by_gain(gains: Floats, added: Collection[int] = ()) -> list[RankInterval]:
    """Return each gain's rank, shape (estimators,), without intervals; for `added` see `compute_rank_intervals`."""
    own = _mark_rows_not_added(len(gains), added)
    above = [int((gains[own] > gain).sum()) for gain in gains]
    return [RankInterval(1 + count, added=not among) for count, among in zip(above, own.tolist(), strict=True)]


def compute_rank_intervals(pairs: Pairs, added: Collection[int] = ()) -> list[RankInterval]:
    """Rank estimators, with simultaneous intervals at the confidence level of the pairs.

    The best possible rank of an estimator is one below all estimators that are significantly better, and its worst
    possible rank is one above all estimators that are significantly worse (Klein, Wright, Wieczorek 2020; Mogstad,
    Romano, Shaikh, Wilhelm 2024). Intervals computed from the ranks in the draws would be wrong if estimators
    are truly equal (docs/statistics.md). `added` has the indices of added estimators: each gets the rank that it would
    have if it alone joined the others, and it changes no other rank.
    """
    gains, apart = pairs.values, _find_different_pairs(pairs, added)
    groups = find_maximal_tie_groups(gains, apart)
    own = _mark_rows_not_added(len(gains), added)
    better, worse = ((own & apart & side).sum(1) for side in (pairs.differences < 0, pairs.differences > 0))
    ranks = own.sum() + ~own  # number of ranks: the suite's own rows and, if it was added, the row itself
    return [
        rank._replace(
            low=1 + int(better[index]),
            high=int(ranks[index] - worse[index]),
            groups=tuple(number for number, group in enumerate(groups, 1) if index in group),
        )
        for index, rank in enumerate(rank_by_gain(gains, added))
    ]


def _find_different_pairs(pairs: Pairs, added: Collection[int]) -> NDArray[np.bool_]:
    """Mark significantly different pairs among the suite's own estimators, and of each added estimator with these."""
    own = _mark_rows_not_added(len(pairs.values), added)
    apart = find_significant_pairs(pairs, own)
    if added:
        apart |= find_significant_pairs(pairs, ~own)
    for index in added:
        significant = find_significant_pairs(pairs, own | (np.arange(len(own)) == index))
        apart[index, own] = apart[own, index] = significant[index, own]
    return apart


def _mark_rows_not_added(size: int, added: Collection[int]) -> NDArray[np.bool_]:
    return ~np.isin(np.arange(size), list(added))


def find_significant_pairs(pairs: Pairs, among: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """Find the significantly different pairs, with a family-wise error rate of at most 1 - confidence.

    The step-down procedure of Romano and Wolf (2005) takes as critical value a quantile of the largest deviation over
    all pairs in each draw. Significant pairs are removed and the others are judged again, until no other pair
    is significant. `among` marks the estimators to consider, all by default; the result is a symmetric matrix
    (estimators, estimators).
    """
    differences, scale = np.abs(pairs.differences), pairs.half_widths
    tested = pairs.upper_triangle if among is None else pairs.upper_triangle & np.outer(among, among)
    significant = tested & (scale == 0) & (differences > 0)  # differences that are equal in all draws
    open_ = tested & (scale > 0)
    while open_.any():
        new = open_ & (differences > compute_quantile(pairs.find_largest_deviations(open_), pairs.confidence) * scale)
        if not new.any():
            break
        significant |= new
        open_ &= ~new
    apart: NDArray[np.bool_] = significant | significant.T
    return apart


def find_maximal_tie_groups(gains: Floats, apart: NDArray[np.bool_]) -> list[frozenset[int]]:
    """Return the maximal sets of estimators without a significant difference (Piepho 2004), best set first.

    Every estimator is in at least one set.
    """
    groups: set[frozenset[int]] = set()
    for new in range(len(gains)):
        tied = frozenset(np.flatnonzero(~apart[new]).tolist())
        joined = {(group & tied) | {new} for group in (*groups, frozenset[int]())}
        largest = {group for group in joined if not any(group < other for other in joined)}
        groups = {group for group in groups if not group <= tied} | largest
    return sorted(groups, key=lambda group: (-gains[list(group)].max(), -gains[list(group)].min(), sorted(group)))


def find_rows_in_reversed_order(
    name: str, first_board: Mapping[str, RankInterval], second_board: Mapping[str, RankInterval]
) -> tuple[str, ...]:
    """Find rows that differ significantly from the row `name` on both boards, but in opposite directions."""
    if name not in first_board or name not in second_board:
        return ()
    boards = (first_board, second_board)
    return tuple(
        other
        for other in first_board
        if other in second_board and {_compare_ranks(board[name], board[other]) for board in boards} == {-1, 1}
    )


def _compare_ranks(first: RankInterval, second: RankInterval) -> int:
    """Return 1 if a row is significantly above another, -1 if below, 0 if they share a tie group."""
    if not first.groups or not second.groups or not set(first.groups).isdisjoint(second.groups):
        return 0
    return 1 if first.place < second.place else -1

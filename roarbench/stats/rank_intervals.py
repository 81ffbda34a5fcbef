"""Compute rank intervals from all pairwise differences."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.contrasts import Contrast
from roarbench.stats.correctness_and_gain import Floats
from roarbench.stats.intervals import CONFIDENCE
from roarbench.stats.normal_mixtures import (
    Spread,
    compute_erfc,
    compute_half_widths,
    list_variance_factors,
    reduce_to_two_estimates,
)

# most probabilities are above or below the confidence whatever the nodes with least weight contribute, so these wait
_DECIDING_WEIGHTS = (0.98, 0.9995)


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of numbers, first < second, with the distributions of their differences."""

    values: Floats  # shape (n,)
    spread: Spread  # of the differences, in the order of `np.triu_indices(n, 1)`
    pooled: Spread  # the same, but variances between networks are moderated by the pooled one of all numbers
    # last critical value of each step of `find_significant_pairs`, close to that of the same step for other estimators
    critical_values: dict[int, float] = field(default_factory=dict)

    @classmethod
    def from_contrasts(cls, contrasts: Sequence[Contrast], added: Collection[int] = ()) -> Self:
        """Build the pairs of numbers of one experiment; those with an index in `added` enter no pooled variance."""
        values = np.array([contrast.value for contrast in contrasts])
        if len(contrasts) < 2:
            nothing = Spread(np.zeros((0, 3)), np.ones((0, 3)))
            return cls(values, nothing, nothing)
        one, other = np.triu_indices(len(contrasts), 1)
        weights, numbers = np.array([contrast.weights for contrast in contrasts]), contrasts[0].quantities
        pooled = numbers.pool_networks(weights, ~np.isin(np.arange(len(contrasts)), list(added)))
        differences = weights[one] - weights[other], values[one] - values[other]
        spread = numbers.measure_spread(*differences)
        return cls(values, spread, spread if pooled is numbers else pooled.measure_spread(*differences))

    @cached_property
    def differences(self) -> Floats:
        """Return the difference of every pair, first minus second, shape (pairs,)."""
        one, other = np.triu_indices(len(self.values), 1)
        return np.asarray(self.values[one] - self.values[other])

    @cached_property
    def pooled_parts(self) -> tuple[Floats, Floats, Floats]:
        """Return the known and the estimated moderated variances, as `reduce_to_two_estimates`."""
        return reduce_to_two_estimates(self.pooled)

    @cached_property
    def half_widths(self) -> Floats:
        """Return half the width of every difference's interval, shape (pairs,)."""
        return compute_half_widths(self.spread, CONFIDENCE)

    @cached_property
    def pooled_half_widths(self) -> Floats:
        """Return the same with the moderated variances, shape (pairs,)."""
        return self.half_widths if self.pooled is self.spread else compute_half_widths(self.pooled, CONFIDENCE)


class RankInterval(NamedTuple):
    """A rank on the leaderboard."""

    place: int  # rank of the measured gain, 1 is best; equal gains share the better rank
    low: int | None = None  # low, high: best and worst rank consistent with the data; None without intervals
    high: int | None = None
    added: bool = False  # whether the row was added to the suite; its rank is in brackets and changes no other rank


def rank_by_gain(gains: Floats, added: Collection[int] = ()) -> list[RankInterval]:
    """Return each gain's rank, shape (estimators,), without intervals; for `added` see `compute_rank_intervals`."""
    own = ~np.isin(np.arange(len(gains)), list(added))
    above = [int((gains[own] > gain).sum()) for gain in gains]
    return [RankInterval(1 + count, added=not among) for count, among in zip(above, own.tolist(), strict=True)]


def compute_rank_intervals(pairs: Pairs, added: Collection[int] = ()) -> list[RankInterval]:
    """Rank estimators, with simultaneous 95 % intervals (Mogstad, Romano, Shaikh, Wilhelm 2024).

    `added` has the indices of added estimators: each gets the rank that it would have if it alone joined the others,
    and it changes no other rank.
    """
    gains, own = pairs.values, ~np.isin(np.arange(len(pairs.values)), list(added))
    apart = find_significant_pairs(pairs, own)
    for index in added:
        apart[index] = find_significant_pairs(pairs, own | (np.arange(len(own)) == index))[index]
    differences = gains[:, None] - gains[None, :]
    better, worse = ((own & apart & side).sum(1) for side in (differences < 0, differences > 0))
    ranks = own.sum() + ~own  # number of ranks: the suite's own rows and, if it was added, the row itself
    return [
        rank._replace(low=1 + int(better[index]), high=int(ranks[index] - worse[index]))
        for index, rank in enumerate(rank_by_gain(gains, added))
    ]


def find_significant_pairs(pairs: Pairs, among: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """Find the significantly different pairs by the step-down procedure of Romano and Wolf (2005).

    `among` marks the estimators to consider, all by default; the result is a symmetric matrix (estimators, estimators).
    """
    one, other = np.triu_indices(len(pairs.values), 1)
    tested = np.ones(len(one), np.bool_) if among is None else among[one] & among[other]
    sizes, scale = np.abs(pairs.differences), pairs.pooled_half_widths
    significant = np.zeros(len(one), np.bool_)
    open_ = np.flatnonzero(tested & (scale > 0))
    step = 0
    while len(open_):
        known, estimated, freedoms = (part[open_] for part in pairs.pooled_parts)
        ratios = sizes[open_] / scale[open_]
        likely = int((ratios >= pairs.critical_values.get(step, np.inf)).sum())
        count = _count_significant(ratios, known, estimated, freedoms, scale[open_], likely)
        if not count:
            break
        order = (-ratios).argsort(kind="stable")
        pairs.critical_values[step], step = float(ratios[order[count - 1]]), step + 1
        significant[open_[order[:count]]] = True
        open_ = np.sort(open_[order[count:]])
    significant &= sizes > pairs.half_widths  # no pair differs here whose own interval includes 0
    apart = np.zeros((len(pairs.values), len(pairs.values)), np.bool_)
    apart[one, other] = apart[other, one] = significant
    return apart


def _count_significant(
    ratios: Floats, known: Floats, estimated: Floats, freedoms: Floats, half_widths: Floats, likely: int
) -> int:
    """Count the pairs whose difference, in half widths, is above the critical value of all pairs together.

    At the critical value, the probability that any pair deviates as far is at most 5 %. All pairs share the estimated
    variances, so these are integrated over. Given the variances, deviations are normal, and the probability that all of
    them are small is at least the product of their probabilities, however they are correlated (Sidak 1967).

    The search begins at the likely count, at which it needs two probabilities instead of the ten of a bisection.
    """
    shared = tuple(float(freedom) for freedom in freedoms.min(0) if freedom < np.inf)
    parts, candidates = _list_deciding_parts(shared), -np.sort(-ratios)

    @cache
    def scale(part: int) -> Floats:
        variances = known[:, None] + estimated[:, : len(shared)] @ parts[part][0]
        return half_widths[:, None] / np.sqrt(2 * variances)

    def is_above(number: int) -> bool:
        probability, rest = 0.0, float(list_variance_factors(shared)[1].sum())
        for part, (_, weights) in enumerate(parts):
            probability += float((1 - compute_erfc(candidates[number] * scale(part))).prod(0) @ weights)
            rest -= float(weights.sum())
            if not probability < CONFIDENCE <= probability + rest:
                break
        return probability >= CONFIDENCE

    low, high, number, width = 0, len(ratios), min(likely, len(ratios) - 1), 1
    while low < high:
        above = is_above(number)
        low, high = (number + 1, high) if above else (low, number)
        if low > 0 and high < len(ratios):
            number = (low + high) // 2
        else:
            number = max(0, min(high - 1, number + width if above else number - width))
        width *= 2
    return low


@lru_cache(64)
def _list_deciding_parts(freedoms: tuple[float, ...]) -> list[tuple[Floats, Floats]]:
    """Divide the factors and weights of `list_variance_factors` at `_DECIDING_WEIGHTS`; largest weights come first."""
    factors, weights = list_variance_factors(freedoms)
    order = (-weights).argsort(kind="stable")
    parts = np.split(order, np.cumsum(weights[order]).searchsorted(_DECIDING_WEIGHTS))
    return [(factors[:, nodes], weights[nodes]) for nodes in parts]

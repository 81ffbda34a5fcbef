"""Own-network gain: does removal by a map change more predictions of the explained network than of other networks?

Each of R networks is scored with the removal masks of every network's map; the gain is the interaction of maps and
networks in this two-way layout. `docs/statistics.md` has the formulas, the verdicts and the error rates.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import FEWEST_NETWORKS, Order
from roarbench.stats.contrasts import Contrast, Pooling, Quantities, compute_covariance_of_means
from roarbench.stats.intervals import Estimate
from roarbench.stats.verdicts import Comparison, Verdict, judge_comparisons

BESIDE_SEARCH = "To explain its network, a map must gain more than a blind search with as many passes."
NO_SEARCH = {
    Order.MORF: "Verdicts compare with 0 alone, not with a blind search.",
    Order.LERF: "Verdicts compare with 0 alone, not with a blind search, search(order=lerf).",
}
FEWEST_PERMUTED = 4  # a permutation test of three networks cannot reach 5 %: 1/3! = .17
# 8! = 40,320 assignments; with more networks, the own assignment and 40,319 drawn ones; its seed is fixed
_MOST_PERMUTED, _PERMUTATION_SEED = 8, 0


class OwnNetworkVerdict(StrEnum):
    """Answers to "does the map explain its network?", adjusted for all rows that are judged together."""

    EXPLAINS = "explains its network"  # significantly above 0, and above a blind search with as many passes
    SEARCHED = "no more than a search"  # significantly above 0, but not above the search
    # above the longest search of the table, but the map took more passes than this search, or an unknown number
    ABOVE_SHORTER = "above a shorter search"
    ABOVE_ZERO = "above 0"  # significantly, in a table without a blind search, which would have such a gain, too
    OPEN = "not shown"
    OPPOSES = "opposes it"  # significantly below 0
    BY_CONSTRUCTION = "0 by construction"  # all networks have the same removal masks
    CONTROL = "control"  # a blind search: rows are compared with it, and it explains nothing


class JudgedGain(NamedTuple):
    """A gain, and the verdict of its table's column."""

    gain: Estimate
    verdict: Verdict | OwnNetworkVerdict | None = None  # None for a check, and without intervals
    seeds: int = 0  # as in `board_records.Row`


class SearchComparison(NamedTuple):
    """A row compared with a blind search."""

    search: str  # name of the search's row
    comparison: Comparison  # the row's gain minus the search's, adjusted over the rows of the column
    long_enough: bool  # whether the search has at least as many passes as the row


class OwnNetworkTest(NamedTuple):
    """The verdict on a row, with its permutation test."""

    verdict: OwnNetworkVerdict
    # p value of "every assignment of maps to networks is equally likely"; None for few networks, and for equal masks
    permutation: float | None = None
    search: SearchComparison | None = None  # None for a search, and in a table without searches


@dataclass(frozen=True, eq=False)
class GainsPerLevel:
    """Mean gains of all rows of a table at each level, computed when the first is asked for."""

    rows: tuple[str, ...]
    sums: NDArray[np.int16]  # (rows, levels, networks, images), of `_sum_interactions`

    @cached_property
    def measured(self) -> Quantities:
        """Return the gains by row and number of the level."""
        rows, levels, *shape = self.sums.shape
        return _measure(list(product(self.rows, range(levels))), self.sums.reshape(rows * levels, *shape), 1)


class OwnNetworkGain(NamedTuple):
    """Own-network gain of one estimator, in points of unchanged predictions; positive is better for both orders."""

    estimator: str
    gain: Contrast  # mean over levels, pairs of networks and images
    per_level: GainsPerLevel  # of all rows
    kept: NDArray[np.bool_]  # (maps, networks, levels, images): unchanged predictions

    @property
    def levels(self) -> tuple[Contrast, ...]:
        """Return the mean gain per level."""
        return tuple(self.per_level.measured[self.estimator, level] for level in range(self.kept.shape[2]))

    @property
    def own_shares(self) -> list[float]:
        """Return the share of predictions that stay the same after removal by own maps, by level."""
        networks, _, _, images = self.kept.shape
        counts = self.kept[np.arange(networks), np.arange(networks)].sum((0, 2))
        return [float(count) for count in counts / (networks * images)]

    @property
    def permutation(self) -> float | None:
        """Return the two-sided p value of "every assignment of maps to networks is equally likely".

        It is None for fewer than four networks.
        """
        count = len(self.kept)
        if count < FEWEST_PERMUTED:
            return None
        shares = self.kept.mean((2, 3))
        drawn = shares[_list_assignments(count), np.arange(count)].sum(1)
        # `tiny` absorbs rounding: equal sums may add their numbers in another order
        middle, tiny = shares.sum() / count, 1e-9
        return float(np.mean(np.abs(drawn - middle) >= abs(np.trace(shares) - middle) - tiny))


def compute_own_network_gains(unchanged: Mapping[str, NDArray[np.bool_]], order: Order) -> dict[str, OwnNetworkGain]:
    """Compute the own-network gains of a table's rows, paired by images and networks.

    Args:
        unchanged: bool (maps, networks, levels, images) by row, with as many maps as networks. True if the network
            still predicts the class that all networks predict for the untouched image, after the features that the map
            ranks first (for LeRF: last) are removed. All rows have the same networks, levels and images.
        order: MoRF or LeRF.

    Raises:
        ValueError: There are fewer than three networks, unequal numbers of maps and networks, or no images.
    """
    for bits in unchanged.values():
        if bits.ndim != 4 or bits.shape[0] != bits.shape[1] or bits.shape[0] < FEWEST_NETWORKS or 0 in bits.shape:
            raise ValueError(f"expected (maps, networks, levels, images) with maps = networks >= 3, got {bits.shape}")
    if not unchanged:
        return {}
    sums = np.array([_sum_interactions(bits, order) for bits in unchanged.values()])
    gains = _measure(unchanged, sums.sum(1, dtype=np.int16), sums.shape[1])
    per_level = GainsPerLevel((*unchanged,), sums)
    return {name: OwnNetworkGain(name, gains[name], per_level, bits) for name, bits in unchanged.items()}


def predict_replicated_gain(gain: Contrast) -> Contrast:
    """Return a gain with the spread of a replication's around it: both have their own networks and images."""
    return replace(gain, weights=np.sqrt(2) * gain.weights)


def choose_search(passes: float | None, searches: Mapping[str, int]) -> tuple[str, bool]:
    """Choose the shortest search that has at least `passes` passes, else the longest; tell which of both it is.

    Args:
        passes: Forward and backward passes of an image's map; None if unknown.
        searches: Passes by name of a search; not empty.
    """
    in_order = sorted(searches, key=lambda name: searches[name])
    enough = [name for name in in_order if passes is not None and searches[name] >= passes]
    return (enough[0], True) if enough else (in_order[-1], False)


def compare_with_searches(
    gains: Mapping[str, Contrast],
    passes: Mapping[str, float | None],
    searches: Mapping[str, int],
    added_rows: Iterable[str] = (),
) -> dict[str, SearchComparison]:
    """Compare rows with searches, paired by images and networks; empty without searches.

    Args:
        gains: Gains by row, of all rows that are judged and of the searches.
        passes: Forward and backward passes by row; rows without an entry are not judged.
        searches: Passes by name of a search.
        added_rows: Rows that are adjusted as in `judge_comparisons`.
    """
    if not searches:
        return {}
    chosen = {name: choose_search(count, searches) for name, count in passes.items() if name not in searches}
    column = {name: gains[name].subtract(gains[search]) for name, (search, _) in chosen.items()}
    compared = judge_comparisons(column, added_rows=column.keys() & set(added_rows))
    return {name: SearchComparison(search, compared[name], enough) for name, (search, enough) in chosen.items()}


def judge_beside_search(beside_zero: Verdict, beside_search: SearchComparison | None = None) -> OwnNetworkVerdict:
    """Return the verdict on a row from its comparisons with 0 and with a search, if the table has one."""
    if beside_zero is Verdict.WORSE:
        return OwnNetworkVerdict.OPPOSES
    if beside_zero is Verdict.SAME:
        return OwnNetworkVerdict.OPEN
    if beside_search is None:
        return OwnNetworkVerdict.ABOVE_ZERO
    if beside_search.comparison.verdict is not Verdict.BETTER:
        return OwnNetworkVerdict.SEARCHED
    return OwnNetworkVerdict.EXPLAINS if beside_search.long_enough else OwnNetworkVerdict.ABOVE_SHORTER


def _sum_interactions(unchanged: NDArray[np.bool_], order: Order) -> NDArray[np.int16]:
    """Sum (a_ij + a_ji - a_ii - a_jj) over the pairs of each network i, for LeRF with the other sign.

    The sums are whole numbers, (levels, networks, images).
    """
    networks, sign = len(unchanged), 1 if order is Order.MORF else -1
    kept = unchanged.view(np.int8)
    own = kept[np.arange(networks), np.arange(networks)].astype(np.int16)  # (networks, levels, images)
    either = kept.sum(1, dtype=np.int16) + kept.sum(0, dtype=np.int16)
    return np.asarray(sign * (either - networks * own - own.sum(0, dtype=np.int16))).swapaxes(0, 1)


def _measure(keys: Collection[Any], sums: NDArray[np.int16], levels: int) -> Quantities:
    """Measure gains in points from each network's sums over its pairs and this number of levels.

    Networks deviate as in the jackknife of a U-statistic (Arvesen 1969), and `noise` is their interaction with images.

    Args:
        keys: Names of the gains, k of them.
        sums: Whole numbers, (k, networks, images).
        levels: Number of levels over which `sums` are taken.
    """
    _, networks, images = sums.shape
    by_image = sums.sum(1, dtype=np.int32) // 2  # each pair is in the sums of two networks
    by_network = sums.sum(2, dtype=np.int64)
    # each pair of networks has 4 predictions of an image, which count half
    unit = Fraction(100, networks * (networks - 1) * levels)
    exact = [unit * Fraction(total, images) for total in by_image.sum(1, dtype=np.int64).tolist()]
    # a network's deviation: (R - 1) times the mean over all pairs minus the mean over the pairs without it
    step = 100 / (networks * (networks - 2) * levels)
    deviations = networks * sums.swapaxes(0, 1).astype(np.int32) - 2 * by_image  # (networks, k, images)
    noise = [compute_covariance_of_means(part, np.full(len(keys), step)) for part in deviations]
    index, units = {key: number for number, key in enumerate(keys)}, np.full(len(keys), float(unit))
    return replace(
        Quantities.from_images(index, exact, by_image, units),
        networks=step * (networks * by_network - by_network.sum(1, keepdims=True)) / images,
        network_names=tuple(map(str, range(networks))),
        depends=np.ones(len(keys), np.bool_),
        pooling=Pooling(prior_freedom=0.0),
        noise=np.add.reduce(noise) / (networks * (networks - 1)),
        rounding=(step * networks / images) ** 2 / 12 / networks,
    )


@lru_cache(4)
def _list_assignments(count: int) -> NDArray[np.intp]:
    if count <= _MOST_PERMUTED:
        return np.array(list(permutations(range(count))))
    chance = np.random.default_rng(_PERMUTATION_SEED)
    return np.array([range(count), *(chance.permutation(count) for _ in range(40_319))])

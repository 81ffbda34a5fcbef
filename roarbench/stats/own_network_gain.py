"""Own-network gain: does removal by a map change more predictions of the explained network than of other networks?

Each of R networks is scored with the removal masks of every network's map. The gain is the interaction of maps and
networks in this two-way layout. The gain is not affected if a map changes predictions of all networks, or if a
network is fragile under all maps (docs/protocol.md).
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import permutations
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import FEWEST_NETWORKS, Order
from roarbench.stats.bootstrap_intervals import Bootstrap, Sample
from roarbench.stats.correctness_and_gain import POINTS, Floats
from roarbench.stats.verdicts import Verdict, judge_comparisons

FEWEST_PERMUTED = 4  # a permutation test of three networks cannot reach 5 %: 1/3! = .17
_MOST_PERMUTED = 8  # 8! = 40,320 assignments; with more networks, 40,320 assignments are drawn


class OwnNetworkVerdict(StrEnum):
    """Answers to "does the map explain its network?", adjusted for all rows that are judged together."""

    EXPLAINS = "explains its network"  # significantly above 0
    OPEN = "not shown"
    OPPOSES = "opposes it"  # significantly below 0
    BY_CONSTRUCTION = "0 by construction"  # all networks have the same removal masks


_WORDS = {
    Verdict.BETTER: OwnNetworkVerdict.EXPLAINS,
    Verdict.SAME: OwnNetworkVerdict.OPEN,
    Verdict.WORSE: OwnNetworkVerdict.OPPOSES,
}


class OwnNetworkTest(NamedTuple):
    """The verdict on a row, with its permutation test."""

    verdict: OwnNetworkVerdict
    # p value of "every assignment of maps to networks is equally likely"; None for few networks, and for equal masks
    permutation: float | None = None

    @classmethod
    def from_verdict(cls, verdict: Verdict, permutation: float | None) -> Self:
        """Build the test from the verdict of the comparison of a gain with 0."""
        return cls(_WORDS[verdict], permutation)


def judge_own_network_gains(gains: Mapping[str, Sample | None]) -> dict[str, OwnNetworkVerdict]:
    """Judge the gains of a table's rows; a gain of None means that all networks have the same removal masks.

    Every other gain is tested against 0, with a false discovery rate of 5 % over these gains
    (`verdicts.judge_comparisons`).
    """
    comparisons = judge_comparisons({name: gain for name, gain in gains.items() if gain is not None})
    constant = OwnNetworkVerdict.BY_CONSTRUCTION
    return {name: constant if gain is None else _WORDS[comparisons[name].verdict] for name, gain in gains.items()}


class OwnNetworkGain(NamedTuple):
    """Own-network gain of one estimator, in points of unchanged predictions; positive is better for both orders."""

    gain: Sample  # mean over levels, pairs of networks and images
    levels: tuple[Sample, ...]  # mean gain per level
    # two-sided p value of "every assignment of maps to networks is equally likely"; None for fewer than four networks
    permutation: float | None


class SharedDraws(NamedTuple):
    """Random numbers of the bootstrap, equal for all rows with the same numbers of networks and images."""

    counts: Floats  # how often a resample has each image, whole numbers of shape (resamples, images)
    student: Floats  # standardised deviations of the networks, shape (resamples, networks)


def _draw_image_counts_and_network_effects(bootstrap: Bootstrap, images: int, networks: int) -> SharedDraws:
    """Draw images with replacement, and networks from Student's t distribution with `networks` - 1 degrees of freedom.

    Student's distribution accounts for a variance that is estimated from few networks.
    """
    chance = np.random.default_rng([bootstrap.seed, images])
    counts = chance.multinomial(images, np.full(images, 1 / images), size=bootstrap.resamples)
    normal = chance.standard_normal((bootstrap.resamples, networks))
    student = normal / np.sqrt(chance.chisquare(networks - 1, (bootstrap.resamples, 1)) / (networks - 1))
    return SharedDraws(counts.astype(np.float64), student)


def compute_own_network_gain_per_row(
    unchanged: Mapping[str, NDArray[np.bool_]], order: Order, bootstrap: Bootstrap
) -> dict[str, OwnNetworkGain]:
    """Call `compute_own_network_gain` for each row; images and networks are drawn only once for all rows."""
    draw = cache(_draw_image_counts_and_network_effects)
    return {name: compute_own_network_gain(row, order, bootstrap, draw) for name, row in unchanged.items()}


def compute_own_network_gain(
    unchanged: NDArray[np.bool_],
    order: Order,
    bootstrap: Bootstrap,
    draw: Callable[[Bootstrap, int, int], SharedDraws] = _draw_image_counts_and_network_effects,
) -> OwnNetworkGain:
    """Compute the own-network gain, with draws over networks and images.

    Draws with the same bootstrap are paired, so gains of several estimators on the same networks and images can be
    compared.

    Args:
        unchanged: bool (maps, networks, levels, images), with as many maps as networks. True if the network still
            predicts the class that all networks predict for the untouched image, after the features that the map ranks
            first (for LeRF: last) are removed.
        order: MoRF or LeRF.
        bootstrap: Number and seed of the draws.
        draw: Function that draws images and networks.

    Raises:
        ValueError: There are fewer than three networks, unequal numbers of maps and networks, or no images.
    """
    if (
        unchanged.ndim != 4
        or unchanged.shape[0] != unchanged.shape[1]
        or unchanged.shape[0] < FEWEST_NETWORKS
        or 0 in unchanged.shape
    ):
        raise ValueError(f"expected (maps, networks, levels, images) with maps = networks >= 3, got {unchanged.shape}")
    by_pair = _compute_gains_by_network_pair(unchanged, order)
    draws = _draw_means(by_pair, draw(bootstrap, unchanged.shape[3], len(unchanged)))
    values = by_pair.mean((0, 2))
    levels = tuple(Sample(float(value), drawn) for value, drawn in zip(values, draws, strict=True))
    whole = Sample(float(values.mean()), draws.mean(0))
    return OwnNetworkGain(whole, levels, _permute_maps_among_networks(unchanged.mean((2, 3)), bootstrap.seed))


def _compute_gains_by_network_pair(unchanged: NDArray[np.bool_], order: Order) -> Floats:
    """Return the gain of each pair of networks i < j at each level on each image, shape (pairs, levels, images)."""
    answers = unchanged.astype(np.float64) * (POINTS if order is Order.MORF else -POINTS)
    one, two = np.triu_indices(len(unchanged), 1)
    return np.asarray((answers[one, two] + answers[two, one] - answers[one, one] - answers[two, two]) / 2) + 0.0


def _draw_means(interactions: Floats, shared: SharedDraws) -> Floats:
    """Draw the mean over pairs and images at each level, shape (levels, resamples).

    Networks are a second random factor beside images, and each network belongs to several pairs. The contribution of
    networks has the jackknife variance of a U-statistic (Arvesen 1969).
    """
    counts, student = shared
    images, count = counts.shape[1], student.shape[1]
    by_image = counts @ interactions.mean(0).T / images
    influence = _compute_jackknife_influence(interactions.mean(2))
    return np.asarray((by_image + np.sqrt((count - 1) / count) * student @ influence).T)


def predict_replicated_gain(gain: Sample) -> Sample:
    """Draw the gain of a replication with other images and equally many other networks.

    Both experiments have their own networks and images, so the variance is twice the variance of one gain. The variance
    between networks is estimated from one experiment with R networks, with R - 1 degrees of freedom.
    """
    return Sample(gain.value, gain.value + np.sqrt(2) * (gain.draws - gain.value))


def _compute_jackknife_influence(pairs: Floats) -> Floats:
    """Return the mean over all pairs minus the mean without each network: (pairs, levels) to (networks, levels)."""
    count = round((1 + np.sqrt(1 + 8 * len(pairs))) / 2)
    members = np.stack(np.triu_indices(count, 1))
    without = [pairs[(members != number).all(0)].mean(0) for number in range(count)]
    return np.asarray(pairs.mean(0) - np.stack(without))


def _permute_maps_among_networks(shares: Floats, seed: int) -> float | None:
    """Test by permutation whether own maps act differently from other maps; `shares` has shape (maps, networks)."""
    count = len(shares)
    if count < FEWEST_PERMUTED:
        return None
    own = np.trace(shares)
    drawn = shares[np.array(_list_assignments(count, seed)), np.arange(count)].sum(1)
    # `tiny` absorbs rounding: equal sums may add their numbers in another order
    middle, tiny = shares.sum() / count, 1e-9
    return float(np.mean(np.abs(drawn - middle) >= abs(own - middle) - tiny))


def _list_assignments(count: int, seed: int) -> Sequence[Sequence[int]]:
    if count <= _MOST_PERMUTED:
        return list(permutations(range(count)))
    chance = np.random.default_rng(seed)
    return [range(count), *(chance.permutation(count).tolist() for _ in range(40_319))]

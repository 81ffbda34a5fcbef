"""Estimate the variance of accuracies between explained networks and between training runs, pooled over rows and cells.

The maps of an explained network give the rankings, so results depend on the choice of network. Two or three networks or
training runs are too few to estimate the variance of a single row. `docs/statistics.md` has the formulas with their
sources.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.correctness_and_gain import (
    UNTOUCHED,
    Bits,
    Correctness,
    Floats,
    Point,
    add_weighted_sums,
    count_correct,
    hash_correctness,
    list_trapezoid_weights,
    sum_runs,
)

# possible degrees of freedom d with which the pooled variance is weighted against a row's own, evenly spaced in 1 / d
PRIOR_FREEDOMS = 1 / np.linspace(1, 0.001, 100)


@dataclass(frozen=True, eq=False)
class ReferenceVariance:
    """Variance of curves between explained networks (references), including their training runs, pooled over rows."""

    levels: tuple[float, ...]  # ascending; the levels of `covariance`
    covariance: Floats  # covariance of a curve between references, shape (levels, levels), in squared accuracy
    # variance of the area under a curve between references, in squared accuracy, including image noise
    variance: float
    noise: float  # part of `variance` that comes from the finite number of images
    shared: float  # share of `variance` from deviations that all rows have in common, in [0, 1]
    freedom: float  # degrees of freedom of `variance` (Satterthwaite)
    # degrees of freedom of the part that rows do not share: (rows - 1) (references - 1) if no curve is missing
    own_freedom: int
    prior_freedom: float  # degrees of freedom with which rows' true variances spread around the pooled one
    rows: int  # number of curves from which `variance` is estimated
    networks: int  # number of explained networks of these curves

    @property
    def deviation_without_image_noise(self) -> float:
        """Return the standard deviation of a row's true gain between explained networks, each retrained, in [0, 1]."""
        return float(np.sqrt(max(0.0, self.variance - self.noise)))

    @property
    def noise_share(self) -> float:
        """Return the share of the variance that comes from the finite number of images, in [0, 1]."""
        return min(1.0, self.noise / self.variance) if self.variance else 0.0

    def find_nearest_level(self, t: float) -> int:
        """Return the index of a level, or of the nearest level that was repeated."""
        return min(range(len(self.levels)), key=lambda index: abs(self.levels[index] - t))


def estimate_reference_variance(boards: Sequence[Correctness]) -> ReferenceVariance | None:
    """Estimate the variance between explained networks by a two-way analysis of variance of areas, rows by networks.

    Source: Searle, Casella and McCulloch, Variance Components, 1992, chapter 4. If a row lacks some networks, its other
    networks are used. The degrees of freedom are Satterthwaite's (1946) for the sum of both mean squares: for K rows
    that share a part rho of their variance, R networks give (R - 1) / (1/K + (1 - 1/K) rho^2).

    Returns:
        None if no row has two networks with results at all its levels.
    """
    curves = _list_unique(curve for board in boards for curve in average_curves_by_reference(board))
    repeated = [curve for curve in curves if len(curve.areas) > 1]
    if not repeated:
        return None
    areas, noise = [curve.areas for curve in repeated], 0.0
    for curve in repeated:  # a loop, because the last bits of sum() differ between versions of Python
        noise += curve.noise
    networks = sorted({name for row_areas in areas for name in row_areas})
    deviations = _center_rows(areas, networks)
    variance, shared, own_freedom = estimate_variance_and_shared_fraction(deviations)
    rows, freedom = len(areas), np.isfinite(deviations).sum(1) - 1
    return ReferenceVariance(
        *_estimate_covariance_of_curves(curves),
        variance,
        noise / sum(len(row_areas) - 1 for row_areas in areas),
        shared,
        (len(networks) - 1) / (1 / rows + (1 - 1 / rows) * shared**2),
        own_freedom,
        estimate_prior_freedom(np.nansum(deviations**2, 1) / freedom, freedom),
        rows,
        len(networks),
    )


def _center_rows(values_by_row: Sequence[dict[str, float]], networks: Sequence[str]) -> Floats:
    """Return each network's value minus its row's mean, (rows, networks); NaN if a row lacks a network."""
    centered = np.full((len(values_by_row), len(networks)), np.nan)
    for row, by_network in zip(centered, values_by_row, strict=True):
        if by_network:
            values = np.array(list(by_network.values()))
            row[[networks.index(name) for name in by_network]] = values - values.mean()
    return centered


def estimate_prior_freedom(squares: Floats, freedom: NDArray[np.int64]) -> float:
    """Estimate from the mean squares of rows with how many degrees of freedom their true variances spread.

    The mean square of a row (`squares`) divided by the mean over all rows has an F distribution with the degrees of
    freedom of the row (`freedom`) and of the prior (Smyth 2004). The more the variances of rows differ, the fewer prior
    degrees of freedom are likely. The estimate is the harmonic mean over `PRIOR_FREEDOMS`, weighted by likelihood.
    """
    mean, own = np.average(squares, weights=freedom) or 1.0, freedom[:, None]
    # functions of `math`, because those of NumPy have other last bits on processors with AVX-512
    functions = (math.exp, math.log, math.log1p, math.lgamma)
    exp, log, log1p, lgamma = (np.vectorize(function, otypes=[np.float64]) for function in functions)
    both = (PRIOR_FREEDOMS + own) / 2
    log_likelihood = lgamma(both) - lgamma(PRIOR_FREEDOMS / 2) - own / 2 * log(PRIOR_FREEDOMS)
    log_likelihood = (log_likelihood - both * log1p(own * squares[:, None] / mean / PRIOR_FREEDOMS)).sum(0)
    likelihood = exp(log_likelihood - log_likelihood.max())
    return float(likelihood.sum() / (likelihood / PRIOR_FREEDOMS).sum())


@dataclass(frozen=True, eq=False)
class ReferenceCurve:
    """Accuracies of a row for each explained network, averaged over the network's training runs."""

    # accuracies by ascending level, then by network name in alphabetical order
    means: dict[float, dict[str, float]]
    # weighted mean accuracy at levels above 0 (`compute_trapezoid_weights`), for networks with all these levels
    areas: dict[str, float]
    # residual sum of squares of the areas, see `compute_between_and_residual_squares`; 0 for one network
    noise: float
    bits: tuple[Bits, ...]  # correctness by level

    @property
    def sort_key(self) -> tuple[float, ...]:
        """Return numbers in which few rows are equal."""
        return tuple(mean for t in self.means for mean in (t, *self.means[t].values()))


@lru_cache(4)  # estimates of one protocol need the same curves
def average_curves_by_reference(board: Correctness) -> list[ReferenceCurve]:
    """Compute the curves of all rows that depend on explained networks."""
    levels = defaultdict[str, list[float]](list)
    for estimator, t in board.references:
        levels[estimator].append(t)
    return [_make_reference_curve(board, name, sorted(row_levels)) for name, row_levels in levels.items()]


def _make_reference_curve(board: Correctness, estimator: str, levels: Sequence[float]) -> ReferenceCurve:
    means = {t: board.accuracies_by_network[estimator, t] for t in levels}
    above = [t for t in levels if t > 0]
    names = sorted(set.intersection(*(set(means[t]) for t in above))) if above else []
    weights = list_trapezoid_weights((0.0, *above))[1:] if above else ()
    factors = [(float(weight), means[t]) for weight, t in zip(weights, above, strict=True)]
    areas = {name: sum(factor * by_name[name] for factor, by_name in factors) for name in names}
    noise = 0.0
    if len(names) > 1:
        sums, runs = zip(*(_sum_runs_by_network(board, (estimator, t), names) for t in above), strict=True)
        common = lcm(*(count for row in runs for count in row))
        scale = common * lcm(*(weight.denominator for weight in weights))
        levels_and_runs = zip((int(weight * scale) for weight in weights), runs, strict=True)
        whole = [[weight // count for count in row] for weight, row in levels_and_runs]
        noise = compute_between_and_residual_squares(add_weighted_sums(sums, whole, scale))[1] / scale**2
    return ReferenceCurve(means, areas, noise, tuple(board.correct[estimator, t] for t in levels))


def _sum_runs_by_network(board: Correctness, point: Point, names: Sequence[str]) -> tuple[NDArray[Any], list[int]]:
    """Return the sums over the runs of each network, (networks, images), and the numbers of runs."""
    bits, networks = board.correct[point], board.references[point]
    runs = [[number for number, network in enumerate(networks) if network == name] for name in names]
    if all(len(numbers) == 1 for numbers in runs):
        alike = runs == [[number] for number in range(len(networks))]
        return (bits if alike else bits[[number for (number,) in runs]]).view(np.int8), [1] * len(names)
    return np.array([sum_runs(bits[numbers]) for numbers in runs]), [len(numbers) for numbers in runs]


_Item = TypeVar("_Item", "ReferenceCurve", "_TrainingGroup")


def _list_unique(items: Iterable[_Item]) -> list[_Item]:
    """List items in an order that does not depend on the rows' order; items with several names are counted once."""
    alike = defaultdict[tuple[float, ...], list[_Item]](list)
    for item in items:
        alike[item.sort_key].append(item)
    unique = list[_Item]()
    for key in sorted(alike):
        by_bits = {b"".join(map(hash_correctness, item.bits)): item for item in alike[key]} if alike[key][1:] else {}
        unique += [by_bits[digest] for digest in sorted(by_bits)] or alike[key]
    return unique


def estimate_variance_and_shared_fraction(deviations: Floats) -> tuple[float, float, int]:
    """Split the variance between networks into a part that rows share and a part of each row, by the method of moments.

    Args:
        deviations: Areas minus their row's mean, shape (rows, networks), NaN where missing; every row has two or more
            values.

    Returns:
        The variance between networks, the share of this variance that rows have in common, in [0, 1], and the degrees
            of freedom of the rows' own part.
    """
    freedom = np.isfinite(deviations).sum() - len(deviations)
    own_freedom = int(freedom) - (deviations.shape[1] - 1)
    variance = float(np.nansum(deviations**2) / freedom)
    if own_freedom < 1 or variance == 0:  # a single row has no part of its own
        return variance, 1.0, 0
    own = float(np.nansum((deviations - np.nanmean(deviations, axis=0)) ** 2)) / own_freedom
    return variance, float(np.clip(1 - own / variance, 0, 1)), own_freedom


def _estimate_covariance_of_curves(curves: Sequence[ReferenceCurve]) -> tuple[tuple[float, ...], Floats]:
    """Return the levels with at least two networks in a row, and `ReferenceVariance.covariance` at these levels.

    Missing deviations are set to 0, and each level is divided by its own degrees of freedom. So variances are unbiased,
    and the result is a covariance matrix.
    """
    levels = tuple(sorted({t for curve in curves for t, names in curve.means.items() if len(names) > 1}))
    networks = sorted({name for curve in curves for names in curve.means.values() for name in names})
    deviations = np.stack([_center_rows([curve.means.get(t, {}) for curve in curves], networks) for t in levels], -1)
    freedom = np.maximum(0, np.isfinite(deviations).sum(1) - 1).sum(0)
    scaled = np.nan_to_num(deviations).reshape(-1, len(levels)) / np.sqrt(freedom)
    # sums in a fixed order: a product of matrices has other last bits on another processor
    return levels, np.asarray((scaled[:, :, None] * scaled[:, None]).sum(0))


def compute_between_and_residual_squares(values: NDArray[Any]) -> tuple[float, float]:
    """Compute the sums of squares of a table of repetitions by images, divided by the number of images.

    Returns:
        The sum of squares between repetitions, and the residual sum of squares divided by the degrees of freedom of
            the images.
    """
    repetitions, images = values.shape
    exact = values.astype(np.float64)  # sums of whole numbers
    sums, means = exact.sum(0), exact.sum(1) / images
    squares = float(np.vdot(exact, exact))
    between = float(((means - means.mean()) ** 2).sum())
    within = max(0.0, squares - float(np.vdot(sums, sums)) / repetitions)  # sum over repetitions and residual
    return between, (within - images * between) / (images - 1) / images


@dataclass(frozen=True, eq=False)
class TrainingVariance:
    """Variance of a cell's accuracy between training runs, pooled over cells."""

    variance: float  # variance between training runs on the same rankings, in squared accuracy, including image noise
    noise: float  # part of `variance` that comes from the finite number of images
    freedom: int  # degrees of freedom of `variance`

    @property
    def deviation_without_image_noise(self) -> float:
        """Return the standard deviation of a training run's true accuracy, in [0, 1]."""
        return float(np.sqrt(max(0.0, self.variance - self.noise)))


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """Variance between training runs on the same rankings, and between explained networks; None if unknown."""

    trainings: TrainingVariance | None
    references: ReferenceVariance | None

    def compute_run_standard_deviation(self, other_rankings: bool, t: float) -> float | None:
        """Return the standard deviation between runs of the true accuracy at level t, in [0, 1]; None if unknown.

        With `other_rankings`, each run has the rankings of another explained network; else all runs have the same.
        """
        if other_rankings and self.references is not None:
            level = self.references.find_nearest_level(t)
            return float(np.sqrt(self.references.covariance[level, level] * (1 - self.references.noise_share)))
        return self.trainings.deviation_without_image_noise if self.trainings is not None else None


def estimate_variance_components(boards: Iterable[Correctness]) -> VarianceComponents | None:
    """Estimate the variance components, pooled over the cells of all boards; None if no cell was repeated.

    With at most one explained network, only the variance between training runs is estimated. Submissions are used only
    if the suite's own rows have no repetitions, so that a submission does not change the intervals of other rows.
    """
    all_boards = list(boards)
    own = [board.without_submissions for board in all_boards]
    components = VarianceComponents(
        _estimate_training_variance(own) or _estimate_training_variance(all_boards),
        estimate_reference_variance(own) or estimate_reference_variance(all_boards),
    )
    return components if components.trainings or components.references else None


def _estimate_training_variance(boards: Sequence[Correctness]) -> TrainingVariance | None:
    """Estimate the variance between training runs by a two-way analysis of variance, images by training runs.

    Each group of training runs on the same rankings is one table. The mean square of training runs estimates
    n * var(training) + noise, and the residual mean square estimates the noise (Searle, Casella, McCulloch, Variance
    Components, 1992, section 4.7). The result is None if only training runs on untouched images were repeated, because
    their variance says little about training runs on degraded images.
    """
    groups = [group for board in boards for group in _group_trainings(board)]
    if all(group.point == UNTOUCHED for group in groups):
        return None
    unique = _list_unique(groups)
    freedom = sum(len(group.bits[0]) - 1 for group in unique)
    variance, noise = np.sum([compute_between_and_residual_squares(*group.bits) for group in unique], axis=0) / freedom
    return TrainingVariance(float(variance), float(noise), freedom)


class _TrainingGroup(NamedTuple):
    """Training runs of a cell on the same rankings."""

    point: Point
    bits: tuple[Bits]
    sort_key: tuple[float, ...]  # correct predictions of each run


def _group_trainings(board: Correctness) -> Iterator[_TrainingGroup]:
    for point, bits in board.correct.items():
        names = board.references.get(point, ("",) * len(bits))
        if len({*names}) == len(names):  # as in most cells; no network has two runs
            continue
        for name in sorted({name for name, count in Counter(names).items() if count > 1}):
            if can_vary(group := bits if len({*names}) == 1 else bits[np.array(names) == name]):
                yield _TrainingGroup(point, (group,), tuple(map(count_correct, group)))


def can_vary(bits: Bits) -> bool:
    """Return whether the bits can differ between runs; the difference of a cell from itself is always 0."""
    return bits.dtype == np.bool_ or bool(bits.any())

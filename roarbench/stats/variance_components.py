"""Estimate the variance of accuracies between explained networks and between training runs, pooled over rows and cells.

Both are estimated by a two-way analysis of variance (Searle, Casella and McCulloch, Variance Components, 1992,
chapter 4); `docs/statistics.md` has the formulas.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
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
    list_runs_by_network,
    list_trapezoid_weights,
    sum_runs,
)

# possible degrees of freedom d with which the pooled variance is weighted against a row's own, evenly spaced in 1 / d
PRIOR_FREEDOMS = 1 / np.linspace(1, 0.001, 100)


@dataclass(frozen=True, eq=False)
class PooledVariance:
    """Variance between training runs on the same rankings, pooled over cells, or between networks, over rows."""

    variance: float  # in squared accuracy, including image noise
    noise: float  # part of `variance` that comes from the finite number of images
    freedom: float  # degrees of freedom of `variance` (Satterthwaite's between networks)

    @property
    def deviation_without_image_noise(self) -> float:
        """Return the standard deviation of the true accuracy of a training run, or of a row's true gain, in [0, 1]."""
        return float(np.sqrt(max(0.0, self.variance - self.noise)))


@dataclass(frozen=True, eq=False)
class ReferenceVariance(PooledVariance):
    """Variance of the area under a curve between explained networks, including their training runs."""

    levels: tuple[float, ...]  # ascending; the levels of `covariance`
    covariance: Floats  # covariance of a curve between references, shape (levels, levels), in squared accuracy
    shared: float  # share of `variance` from deviations that all rows have in common, in [0, 1]
    # degrees of freedom of the part that rows do not share: (rows - 1) (references - 1) if no curve is missing
    own_freedom: int
    prior_freedom: float  # degrees of freedom with which rows' true variances spread around the pooled one
    rows: int  # number of curves from which `variance` is estimated
    networks: int  # number of explained networks of these curves

    @property
    def noise_share(self) -> float:
        """Return the share of the variance that comes from the finite number of images, in [0, 1]."""
        return min(1.0, self.noise / self.variance) if self.variance else 0.0

    def find_nearest_level(self, t: float) -> int:
        """Return the index of a level, or of the nearest level that was repeated."""
        return min(range(len(self.levels)), key=lambda index: abs(self.levels[index] - t))


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """Variance between training runs on the same rankings, and between explained networks; None if unknown."""

    trainings: PooledVariance | None
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

    Submissions are used only if the suite's own rows have no repetitions, so that they change no other row's interval.
    """
    all_boards = list(boards)
    own = [board.without_submissions for board in all_boards]
    trainings = _estimate_training_variance(own) or _estimate_training_variance(all_boards)
    references = _estimate_reference_variance(own) or _estimate_reference_variance(all_boards)
    return VarianceComponents(trainings, references) if trainings or references else None


class _Trainings(NamedTuple):
    """Training runs of a cell on the same rankings."""

    sort_key: tuple[float, ...]  # correct predictions of each run, ascending
    bits: tuple[Bits]
    sums: NDArray[np.int16]  # of each image over the runs


def _estimate_training_variance(boards: Sequence[Correctness]) -> PooledVariance | None:
    """Estimate the variance between training runs from tables of images by training runs on the same rankings.

    The result is None if only training runs on untouched images were repeated, because their variance says little about
    training runs on degraded images.
    """
    groups, degraded = list[_Trainings](), False
    for board in boards:
        for point, bits in board.correct.items():
            names = board.references.get(point, ("",) * len(bits))
            if len({*names}) == len(names):  # as in most cells; no network has two runs
                continue
            for name in sorted({name for name, count in Counter(names).items() if count > 1}):
                whole = len({*names}) == 1
                if can_vary(group := bits if whole else bits[np.array(names) == name]):
                    sums = board.sums[point] if whole else sum_runs(group)
                    groups.append(_Trainings(tuple(sorted(count_correct(group))), (group,), sums))
                    degraded |= point != UNTOUCHED
    if not degraded:
        return None
    unique = _list_unique(groups)
    squares = [
        _split_squares(np.array(totals, np.float64), sums, float(np.count_nonzero(bits)))
        for totals, (bits,), sums in unique
    ]
    freedom = sum(len(group.bits[0]) - 1 for group in unique)
    variance, noise = np.sum(squares, axis=0) / freedom
    return PooledVariance(float(variance), float(noise), freedom)


def can_vary(bits: Bits) -> bool:
    """Return whether the bits can differ between runs; the difference of a cell from itself is always 0."""
    return bits.dtype == np.bool_ or bool(bits.any())


class _Curve(NamedTuple):
    """Accuracies of a row for each explained network, averaged over the network's training runs."""

    sort_key: tuple[float, ...]  # numbers in which few rows are equal
    bits: tuple[Bits, ...]  # correctness by level
    means: dict[float, dict[str, float]]  # accuracies by ascending level, then by network name in alphabetical order
    # weighted mean accuracy at levels above 0 (`list_trapezoid_weights`), for networks with all these levels
    areas: dict[str, float]
    noise: float  # residual sum of squares of the areas; 0 for one network


def _estimate_reference_variance(boards: Sequence[Correctness]) -> ReferenceVariance | None:
    """Estimate the variance between explained networks from the table of areas, rows by networks.

    If a row lacks some networks, its other networks are used. The result is None if no row has two networks with
    results at all its levels.
    """
    curves = _list_unique([curve for board in boards for curve in _list_curves(board)])
    repeated = [curve for curve in curves if len(curve.areas) > 1]
    if not repeated:
        return None
    noise = 0.0
    for curve in repeated:  # a loop, because the last bits of sum() differ between versions of Python
        noise += curve.noise
    networks = sorted({name for curve in repeated for name in curve.areas})
    deviations = _center_rows([curve.areas for curve in repeated], networks)
    variance, shared, own_freedom = estimate_variance_and_shared_fraction(deviations)
    levels, covariance = _estimate_covariance_of_curves(curves)
    rows, freedom = len(repeated), np.isfinite(deviations).sum(1) - 1
    return ReferenceVariance(
        variance,
        noise / sum(len(curve.areas) - 1 for curve in repeated),
        (len(networks) - 1) / (1 / rows + (1 - 1 / rows) * shared**2),
        levels,
        covariance,
        shared,
        own_freedom,
        estimate_prior_freedom(np.nansum(deviations**2, 1) / freedom, freedom),
        rows,
        len(networks),
    )


def _list_curves(board: Correctness) -> list[_Curve]:
    """List the curves of all rows that depend on explained networks."""
    levels_of = defaultdict[str, list[float]](list)
    for name, t in board.references:
        levels_of[name].append(t)
    curves = []
    for name, levels in levels_of.items():
        means = {t: board.accuracies_by_network[name, t] for t in sorted(levels)}
        above = [t for t in means if t > 0]
        names = sorted(set.intersection(*(set(means[t]) for t in above))) if above else []
        weights, divisor = _list_whole_weights(tuple(above))
        factors = [(weight / divisor, means[t]) for weight, t in zip(weights, above, strict=True)]
        areas = {one: sum(factor * by_name[one] for factor, by_name in factors) for one in names}
        noise = 0.0
        if len(names) > 1:  # sums over levels and runs are whole numbers
            sums, runs = zip(*(_sum_runs_by_network(board, (name, t), names) for t in above), strict=True)
            common = lcm(*(count for row in runs for count in row))
            scale = common * divisor
            whole = [[weight * common // count for count in row] for weight, row in zip(weights, runs, strict=True)]
            total = add_weighted_sums(sums, whole, scale).astype(np.float64)
            noise = _split_squares(total.sum(1), total.sum(0), float(np.vdot(total, total)))[1] / scale**2
        key = tuple(mean for t, by_network in means.items() for mean in (t, *by_network.values()))
        curves.append(_Curve(key, tuple(board.correct[name, t] for t in means), means, areas, noise))
    return curves


@lru_cache(64)  # all rows of a board have the same levels
def _list_whole_weights(levels: tuple[float, ...]) -> tuple[list[int], int]:
    """Return `list_trapezoid_weights` of levels above 0, of a curve from 0, as whole numbers and their divisor."""
    weights = list_trapezoid_weights((0.0, *levels))[1:] if levels else ()
    divisor = lcm(*(weight.denominator for weight in weights))
    return [int(weight * divisor) for weight in weights], divisor


def _sum_runs_by_network(board: Correctness, point: Point, names: Sequence[str]) -> tuple[NDArray[Any], list[int]]:
    """Return the sums over the runs of each network, (networks, images), and the numbers of runs."""
    bits, by_network = board.correct[point], list_runs_by_network(board.references[point])
    runs = [by_network[name] for name in names]
    counts = list(map(len, runs))
    if max(counts) == 1:  # as in most cells
        return bits.take([run for (run,) in runs], 0).view(np.int8), counts
    return np.array([sum_runs(bits[some]) for some in runs]), counts


_Item = TypeVar("_Item", _Curve, _Trainings)


def _list_unique(items: Sequence[_Item]) -> list[_Item]:
    """List items in an order that depends neither on rows' nor on runs'; items with several names are counted once."""
    counts = Counter(item.sort_key for item in items)
    keyed = dict[tuple[tuple[float, ...], bytes], _Item]()
    for item in items:
        digest = b"".join(map(hash_correctness, item.bits)) if counts[item.sort_key] > 1 else b""
        keyed[item.sort_key, digest] = item
    return [keyed[key] for key in sorted(keyed)]


def _split_squares(totals: Floats, sums: NDArray[Any], squares: float) -> tuple[float, float]:
    """Split the sum of squares of a table of repetitions by images, of whole numbers; divide by the number of images.

    Args:
        totals: Sum over the images of each repetition.
        sums: Sum over the repetitions of each image.
        squares: Sum of all squares.

    Returns:
        The sum of squares between repetitions, and the residual sum of squares divided by the degrees of freedom of
            the images.
    """
    repetitions, images = len(totals), len(sums)
    means, exact = totals / images, sums.astype(np.float64)
    between = float(((means - means.sum() / repetitions) ** 2).sum())
    within = max(0.0, squares - float(np.vdot(exact, exact)) / repetitions)  # sum over repetitions and residual
    return between, (within - images * between) / max(1, images - 1) / images  # 0 of a single image


def _center_rows(values_by_row: Sequence[dict[str, float]], networks: Sequence[str]) -> Floats:
    """Return each network's value minus its row's mean, (rows, networks); NaN if a row lacks a network."""
    rows = [[by_network.get(name, np.nan) for name in networks] for by_network in values_by_row]
    values = np.array(rows, np.float64).reshape(len(rows), len(networks))
    present = np.isfinite(values)
    return np.asarray(values - (np.where(present, values, 0.0).sum(1) / np.maximum(1, present.sum(1)))[:, None])


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


def estimate_prior_freedom(squares: Floats, freedom: NDArray[np.int64]) -> float:
    """Estimate from the mean squares of rows with how many degrees of freedom their true variances spread (Smyth 2004).

    Args:
        squares: Mean square of each row, (rows,), above or equal to 0.
        freedom: Its degrees of freedom, (rows,), at least 1.
    """
    mean, own = np.average(squares, weights=freedom) or 1.0, freedom[:, None]
    both, whole = (PRIOR_FREEDOMS + own) / 2, np.array([_compute_log_gammas(count) for count in freedom.tolist()])
    log_likelihood = whole - _compute_log_gammas(0) - own / 2 * np.log(PRIOR_FREEDOMS)
    log_likelihood = (log_likelihood - both * np.log1p(own * squares[:, None] / mean / PRIOR_FREEDOMS)).sum(0)
    likelihood = np.exp(log_likelihood - log_likelihood.max())
    # logarithms have other last bits on other processors
    return float(f"{likelihood.sum() / (likelihood / PRIOR_FREEDOMS).sum():.10g}")


@lru_cache(64)  # rows have few different degrees of freedom
def _compute_log_gammas(freedom: int) -> Floats:
    """Return the logarithms of gamma((d + freedom) / 2) for all d in `PRIOR_FREEDOMS`."""
    return np.array([math.lgamma(both / 2) for both in (PRIOR_FREEDOMS + freedom).tolist()])


def _estimate_covariance_of_curves(curves: Sequence[_Curve]) -> tuple[tuple[float, ...], Floats]:
    """Return the levels with at least two networks in a row, and `ReferenceVariance.covariance` at these levels."""
    levels = tuple(sorted({t for curve in curves for t, names in curve.means.items() if len(names) > 1}))
    networks = sorted({name for curve in curves for names in curve.means.values() for name in names})
    deviations = np.stack([_center_rows([curve.means.get(t, {}) for curve in curves], networks) for t in levels], -1)
    freedom = np.maximum(0, np.isfinite(deviations).sum(1) - 1).sum(0)
    # missing deviations are 0, and each level has its own degrees of freedom: variances are unbiased
    scaled = np.nan_to_num(deviations).reshape(-1, len(levels)) / np.sqrt(freedom)
    # sums in a fixed order: a product of matrices has other last bits on another processor
    return levels, np.asarray((scaled[:, :, None] * scaled[:, None]).sum(0))

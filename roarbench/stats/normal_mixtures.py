"""Compute p values and intervals of a deviation whose variance is partly known and partly estimated.

A part of the variance that was estimated with d degrees of freedom is multiplied by d / chi-squared(d), as in Student's
t; tail probabilities are integrals over chi-squared variables, by quadrature to ten digits (`docs/statistics.md`).
"""

import math
from collections.abc import Iterator
from functools import cache, lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LARGE_FREEDOM = 500.0  # from here on, a variance counts as known: half widths differ by less than .3 %
_NEGLIGIBLE = 44.0  # density of log chi-squared below exp(-44) of its maximum, 1e-19, is left out
# trapezoid steps, at most this long and at most this many standard deviations; each alone has an error below 1e-11
_LONGEST_STEP, _STEP_IN_DEVIATIONS = 0.35, 0.55
_NODE_DISTANCE, _LAST_NODE = 1 / 512, 27 * 512  # nodes of `compute_erfc`, which is below 1e-300 after the last
_LOG_2_HIGH, _LOG_2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")  # sum: log 2
_AT_ONCE = 30_000  # quadrature nodes times comparisons at a time, few enough for a processor's cache


class Spread(NamedTuple):
    """Variances of several numbers' deviations by source, and the degrees of freedom of each variance."""

    variances: Floats  # (numbers, sources), at least 0
    freedoms: Floats  # (numbers, sources), above 0; infinite for known variances

    @property
    def totals(self) -> Floats:
        """Return the sum of each number's variances, (numbers,)."""
        return np.asarray(self.variances.sum(1))


def compute_p_values(sizes: Floats, spread: Spread) -> Floats:
    """Compute the two-sided probability of deviations as large as `sizes`, (numbers,), in [0, 1].

    A number without any variance has probability 1: nothing was measured that tells how far another may be.
    """
    sizes, p = np.abs(np.asarray(sizes, np.float64)), np.ones(len(sizes))
    for group, known, parts, freedoms in _group_by_freedom(spread):
        for some, deviations, weights in _list_deviations(known, parts, freedoms):
            at = group[some]
            # the weights of a quadrature may sum to slightly less than 1
            p[at] = np.where(sizes[at] > 0, (compute_erfc(sizes[at, None] / deviations) * weights).sum(1), 1.0)
    return p


def compute_half_widths(spread: Spread, confidence: float) -> Floats:
    """Compute the distance from the value within which a deviation stays with this probability, (numbers,).

    The tail is a convex function of the size, so Newton's method converges from any size; few nodes give the first.
    """
    halves, alpha = np.zeros(len(spread.variances)), 1 - confidence
    for group, known, parts, freedoms in _group_by_freedom(spread):
        sizes = NormalDist().inv_cdf(1 - alpha / 2) * np.sqrt(known + parts.sum(1))  # exact if all variances are known
        for roughness, precision in ((2.0, 1e-3), (1.0, 1e-7)) if freedoms else ():
            for some, deviations, weights in _list_deviations(known, parts, freedoms, roughness):
                moving = np.arange(len(sizes))[some]
                for _ in range(60):
                    scaled = sizes[moving, None] / deviations
                    tails = (compute_erfc(scaled) * weights).sum(1)
                    densities = (np.exp(-(scaled**2)) / deviations * weights).sum(1) * (2 / np.sqrt(np.pi))
                    steps = (tails - alpha) / densities
                    sizes[moving] += steps
                    # the error of a step is about the square of the step before
                    if not (far := np.abs(steps) > precision * sizes[moving]).all():
                        moving, deviations = moving[far], deviations[far]
                    if not len(moving):
                        break
        halves[group] = sizes
    return halves


def _list_deviations(
    known: Floats, parts: Floats, freedoms: tuple[float, ...], roughness: float = 1.0
) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield some of the numbers, sqrt(2) times their standard deviations at each node, and the weights of the nodes.

    Callers sum each row alone, because products of matrices depend in the last bit on the other rows.
    """
    factors, weights = list_variance_factors(freedoms, roughness)
    chunk = max(1, _AT_ONCE // len(weights))
    for some in (slice(start, start + chunk) for start in range(0, len(known), chunk)):
        variances = known[some, None] + sum(parts[some, n, None] * factor for n, factor in enumerate(factors))
        yield some, np.sqrt(2 * variances), weights


def compute_erfc(values: Floats) -> Floats:
    """Compute the complementary error function of values of at least 0, as `scipy.special.erfc`.

    The import of SciPy's function takes longer than a table. Taylor's formula extends values at nodes, to 14 digits up
    to 6, and to 8 digits for results below 1e-17.
    """
    coefficients = _list_erfc_coefficients()
    near = np.minimum(values, _LAST_NODE * _NODE_DISTANCE)
    nodes = np.rint(near / _NODE_DISTANCE).astype(np.intp)
    beyond, result = near - nodes * _NODE_DISTANCE, coefficients[-1].take(nodes)
    for coefficient in coefficients[-2::-1]:
        result *= beyond
        result += coefficient.take(nodes)
    return np.asarray(result)


@cache
def _list_erfc_coefficients() -> list[Floats]:
    """List the coefficients of Taylor's formula at all nodes: derivatives of erfc are Hermite polynomials times exp."""
    nodes = _NODE_DISTANCE * np.arange(_LAST_NODE + 1, dtype=np.float64)
    factor = -2 / np.sqrt(np.pi) * compute_exp(-(nodes**2))
    older, polynomial = np.zeros_like(nodes), np.ones_like(nodes)
    # Gauss-Legendre quadrature with three points between nodes, summed from the last node
    points: list[Floats] = [nodes[:-1] + _NODE_DISTANCE / 2 * (1 + sign * math.sqrt(0.6)) for sign in (-1, 0, 1)]
    low, middle, high = (compute_exp(-(each**2)) for each in points)
    areas = _NODE_DISTANCE / np.sqrt(np.pi) / 9 * (5 * low + 8 * middle + 5 * high)
    tails = np.append(np.cumsum(areas[::-1])[::-1], 0.0)
    coefficients = [tails / tails[0]]
    for power in range(1, 6):
        coefficients.append(factor * polynomial / math.factorial(power))
        older, polynomial = polynomial, -2 * nodes * polynomial - 2 * (power - 1) * older
    return coefficients


def compute_exp(values: Floats) -> Floats:
    """Compute the exponential function to 15 digits, with the same last bits on every processor.

    NumPy's function has other last bits with AVX-512, and the C library's without FMA. So the exponent is split into a
    power of 2 and a rest of at most .35, whose Taylor series needs additions and multiplications alone.
    """
    values = np.maximum(values, -745.0)  # exp is 0 below
    powers = np.rint(values * (1 / math.log(2)))
    rest = values - powers * _LOG_2_HIGH - powers * _LOG_2_LOW
    result = np.full_like(rest, 1 / math.factorial(14))
    for power in range(13, -1, -1):
        result *= rest
        result += 1 / math.factorial(power)
    return np.ldexp(result, powers.astype(np.int32))


def reduce_to_two_estimates(spread: Spread) -> tuple[Floats, Floats, Floats]:
    """Separate known from estimated variances; of more than two, those with most degrees of freedom are added.

    Returns:
        Known variances, (numbers,); estimated variances, (numbers, 2), 0 where nothing was estimated; and their degrees
            of freedom, (numbers, 2), ascending, infinite where nothing was estimated.
    """
    unknown = (spread.freedoms < LARGE_FREEDOM) & (spread.variances > 0)
    variances, freedoms = np.where(unknown, spread.variances, 0.0), np.where(unknown, spread.freedoms, np.inf)
    order = freedoms.argsort(1, kind="stable")
    variances, freedoms = np.take_along_axis(variances, order, 1), np.take_along_axis(freedoms, order, 1)
    rest = variances[:, 1:].sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        merged = np.where(rest > 0, rest**2 / (variances[:, 1:] ** 2 / freedoms[:, 1:]).sum(1), np.inf)
    known = spread.totals - variances.sum(1)
    two = np.stack([variances[:, 0], rest], 1), np.stack([freedoms[:, 0], merged], 1)
    return np.where(unknown.all(1), 0.0, known), *two


def _group_by_freedom(spread: Spread) -> list[tuple[NDArray[np.int64], Floats, Floats, tuple[float, ...]]]:
    """Group numbers with equal degrees of freedom: indices, known variances, estimated variances, and freedoms."""
    known, estimated, freedoms = reduce_to_two_estimates(spread)
    groups: dict[tuple[float, ...], list[int]] = {}
    for number, (total, row) in enumerate(zip(spread.totals.tolist(), freedoms.tolist(), strict=True)):
        if total > 0:
            groups.setdefault(tuple(freedom for freedom in row if freedom < np.inf), []).append(number)
    return [(np.array(numbers), known[numbers], estimated[numbers, : len(key)], key) for key, numbers in groups.items()]


@lru_cache(64)
def list_variance_factors(freedoms: tuple[float, ...], roughness: float = 1.0) -> tuple[Floats, Floats]:
    """List the factors d / chi-squared(d) of each part at all nodes, (parts, nodes), and the weights, (nodes,).

    A roughness of 2 makes the steps between nodes twice as long and leaves out more nodes: a tenth of the work, for
    first guesses that are off by up to .001.
    """
    if not freedoms:
        return np.empty((0, 1)), np.ones(1)
    grids = [_list_log_chi_squared(freedom, roughness) for freedom in freedoms]
    factors = np.meshgrid(*(compute_exp(-distances) for distances, _ in grids))
    weights = np.prod(np.meshgrid(*(weights for _, weights in grids)), axis=0).ravel()
    kept = weights > weights.max() * np.exp(-_NEGLIGIBLE / roughness)
    return np.stack([factor.ravel()[kept] for factor in factors]), weights[kept]


def _list_log_chi_squared(freedom: float, roughness: float) -> tuple[Floats, Floats]:
    """List nodes and weights for log(chi-squared(d) / d).

    The trapezoid rule converges exponentially for this density, which falls off exponentially on both sides.
    """
    width = min(1.0, np.sqrt(2 / freedom))
    # log density relative to its maximum at log(freedom), at distance y: freedom / 2 * (1 + y - exp(y))
    low = -(2 * _NEGLIGIBLE / freedom + 1 + 4 * width)
    high = math.log1p(2 * _NEGLIGIBLE / freedom + 10 * width)
    distances = np.arange(low, high, roughness * min(_LONGEST_STEP, _STEP_IN_DEVIATIONS * width))
    logs = freedom / 2 * (1 + distances - compute_exp(distances))
    kept = logs > -_NEGLIGIBLE
    weights = compute_exp(logs[kept])
    return distances[kept], weights / weights.sum()

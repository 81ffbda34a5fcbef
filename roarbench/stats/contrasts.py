"""Measure the cells of a protocol and how they vary with test images, explained networks and training runs.

Every gain, difference and accuracy is a linear combination of cells, so its variance follows from the covariance of
the cells: no image is drawn. `docs/statistics.md` has the formulas and the coverage.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from itertools import product
from math import lcm
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.correctness_and_gain import Correctness, Floats, Point, add_weighted_sums, compute_second_moments
from roarbench.stats.normal_mixtures import Spread
from roarbench.stats.variance_components import (
    VarianceComponents,
    can_vary,
    estimate_prior_freedom,
    estimate_variance_and_shared_fraction,
)


class Pooling(NamedTuple):
    """Degrees of freedom of the variances that are pooled over rows and cells; infinite without such a variance."""

    prior_freedom: float = np.inf  # with which the pooled variance counts beside a number's own; 0 if not at all
    shared_freedom: float = np.inf  # of the part of the pooled variance that all rows share
    own_freedom: float = np.inf  # of the part that rows do not share
    training_freedom: float = np.inf  # of the variance between training runs


@dataclass(frozen=True, eq=False)
class Quantities:
    """Measured numbers, such as accuracies of cells or areas of rows, with their covariances by source."""

    index: Mapping[Any, int]  # position of each number in the arrays, by point or name
    exact: Sequence[Fraction]  # the numbers
    sums: NDArray[np.int16] | Floats  # (k, images): a number is its unit times the mean of its sums over images
    units: Floats  # (k,)
    image_count: int
    # (k, networks): the number for each explained network, 0 if it depends on none, NaN if this network is missing
    networks: Floats
    network_names: tuple[str, ...]  # of the columns of `networks`
    depends: NDArray[np.bool_]  # (k,): whether the number depends on explained networks
    # The pooled covariance of two numbers for one explained network is the product of their loads on the levels of
    # curves with `across`, and for numbers of one row also with `within`, (3, levels, levels): the part that all rows
    # share, as estimated by the mean square between networks; the rest; the part of both from the finite number of
    # images
    loads: Floats  # (k, levels)
    rows: NDArray[np.intp]  # (k,): row of each number
    across: Floats
    within: Floats
    trainings: Floats  # (k, 2): variance from training runs, and the part of it from the finite number of images
    pooling: Pooling = Pooling()
    # (k, k): noise of single images that the variances between networks contain, if it was measured and not pooled
    noise: Floats | float = 0.0
    # (k,): variance from rounding the mean of all networks' deviations to whole predictions, if it is known
    rounding: Floats | float = 0.0

    @classmethod
    def from_images(
        cls, index: Mapping[Any, int], exact: Sequence[Fraction], sums: NDArray[Any], units: Floats
    ) -> Self:
        """Build numbers that vary with test images alone."""
        count, images = sums.shape
        no_networks, nothing = (np.zeros((count, 0)), (), np.zeros(count, np.bool_)), np.zeros((3, 0, 0))
        loads, rows, trainings = np.zeros((count, 0)), np.arange(count), np.zeros((count, 2))
        return cls(index, exact, sums, units, images, *no_networks, loads, rows, nothing, nothing, trainings)

    @cached_property
    def images(self) -> Floats:
        """Return the covariance from the choice of test images, (k, k), without the measured `noise`."""
        return compute_covariance_of_means(self.sums, self.units) - self.noise

    def get(self, key: Hashable) -> "Contrast | None":
        return self[key] if key in self.index else None

    def __getitem__(self, key: Hashable) -> "Contrast":
        row = np.zeros(len(self.units))
        row[self.index[key]] = 1.0
        return Contrast(self, row, float(self.exact[self.index[key]]))

    def combine(self, weights: Mapping[Any, int | Fraction]) -> "Contrast":
        """Return a linear combination of numbers; its value is computed exactly, so equal values are equal floats."""
        row, exact = np.zeros(len(self.units)), Fraction(0)
        for key, weight in weights.items():
            row[self.index[key]] = float(weight)
            exact += weight * self.exact[self.index[key]]
        return Contrast(self, row, float(exact))

    def pool_networks(self, weights: Floats, rows: NDArray[np.bool_]) -> Self:
        """Return these numbers with a variance between networks that is moderated by the pooled variance of `rows`.

        For rows that have each their own variance, as under own-network gain. Each row of `weights`, (m, k), is a mean
        of these numbers; `rows`, (m,), marks those whose variances are pooled.
        """
        if self.pooling.prior_freedom or not self.depends.any():
            return self
        # sums in a fixed order: products of matrices have other last bits on other processors
        deviations = (weights[:, :, None] * self.networks).sum(1)
        deviations -= deviations.mean(1, keepdims=True)
        squares = (deviations**2).sum(1)
        varies = squares > 1e-20 * squares.max(initial=0.0)  # rounding alone is no variance
        used, freedom = rows & varies, self.networks.shape[1] - 1
        if used.sum() < 2:
            return self
        variance, share, own_freedom = estimate_variance_and_shared_fraction(deviations[used])
        prior = estimate_prior_freedom(squares[used] / freedom, np.full(used.sum(), freedom))
        parts = (weights != 0) & varies[:, None]
        across, within = _split_pooled_covariance(np.array([[variance]]), share, int(used.sum()), 0.0)
        pooling = Pooling(prior, freedom, max(1, own_freedom))
        loads = parts.any(0)[:, None].astype(np.float64)
        pooled = replace(self, loads=loads, rows=parts.argmax(0), across=across, within=within, pooling=pooling)
        vars(pooled)["images"] = self.images  # the same, so it is not computed again
        return pooled

    def measure_spread(self, weights: Floats, values: Floats, repeated: bool = False) -> Spread:
        """Measure how far linear combinations, weights (m, k) and values (m,), may be from their true values.

        The sources are images, explained networks and training runs. With `repeated`, the spread is that of a
        replication with the same test images around the measured value: both experiments have their own networks,
        training runs and noise of single images, so these variances are doubled.

        No variance of 0 is certain. A combination that did not vary at all, over more than one image, has the variance
        of images whose signs are random. A variance between networks is at least that of rounding to whole predictions,
        because few images give networks equal means by chance.
        """
        # few weights of a row differ from 0; sums over these alone, in order, have the same bits beside any other row
        used = weights != 0
        order = np.argsort(~used, axis=1, kind="stable")[:, : max(1, int(used.sum(1).max(initial=0)))].T
        terms = list(zip(np.take_along_axis(weights, order.T, 1).T, order, strict=True))

        missing = (used & self.depends).astype(np.float64) @ np.isnan(self.networks) > 0
        known = np.nan_to_num(self.networks)
        levels = np.where(missing, 0.0, sum(factor[:, None] * known[at] for factor, at in terms))
        counts = np.maximum(1, (~missing).sum(1))
        centred = np.where(missing, 0.0, levels - (levels.sum(1) / counts)[:, None])
        sums, own_freedom = (centred**2).sum(1), counts - 1
        sums = np.where(sums > 1e-20 * (levels**2).sum(1), sums, 0.0)  # rounding alone is no variance
        shared, own, network_noise = self._pool_over_rows(terms)
        prior_freedom, shared_freedom, freedom_of_own, training_freedom = self.pooling
        with np.errstate(invalid="ignore", divide="ignore"):
            inverse = (shared**2 / shared_freedom + own**2 / freedom_of_own) / (shared + own) ** 2
            pooled = (shared + own > 0) & (prior_freedom > 0)
            prior = np.where(pooled, 1 / (np.divide(1, prior_freedom) + inverse), 0.0)
            freedom = np.where(self.depends.any(), prior + own_freedom, np.inf)
            variance = np.where(freedom > 0, (prior * (shared + own) + sums) / freedom, 0.0)
        networks = variance / counts

        trainings, training_noise = reduce(np.add, (factor**2 * self.trainings[at].T for factor, at in terms))
        pairs = product(terms, repeat=2)
        covariance = reduce(np.add, (f * g * self.images[i, j] for (f, i), (g, j) in pairs))
        images = covariance - network_noise / counts - training_noise
        images = np.where(images > 1e-12 * covariance, images, 0.0)
        parts = (0 * images, 2 * networks, 2 * trainings) if repeated else (images, networks, trainings)
        freedoms = (0 * images + max(1, self.image_count - 1), freedom, 0 * images + training_freedom)
        variances = np.stack(parts, 1)
        if not (varied := variances.any(1)).all():
            variances[:, 0] += ~varied * values**2 / max(1, self.image_count)
        if np.any(self.rounding):
            rounding = (weights**2 * self.rounding).sum(1)
            variances[:, 1] = np.maximum(variances[:, 1], variances.any(1) * rounding)
        # a single image does not show how images vary, so nothing is known
        return Spread((self.image_count > 1) * variances, np.maximum(np.stack(freedoms, 1), 1e-9))

    def _pool_over_rows(self, terms: Sequence[tuple[Floats, NDArray[np.intp]]]) -> Floats:
        """Return the pooled variances, (3, m), of sums of terms: factors (m,) times the numbers at positions (m,)."""

        def multiply(part: Floats, one: Floats, other: Floats) -> Floats:
            products = part[:, None] * one[:, :, None] * other[:, None, :]
            return np.asarray(products.sum((2, 3)))  # no product of matrices, whose last bits depend on other rows

        if not self.depends.any():
            return np.zeros((3, len(terms[0][0])))
        loads = [factor[:, None] * self.loads[at] for factor, at in terms]
        total = reduce(np.add, loads)
        pooled = multiply(self.across, total, total)
        for (one, (_, i)), (other, (_, j)) in product(zip(loads, terms, strict=True), repeat=2):
            pooled += (self.rows[i] == self.rows[j]) * multiply(self.within, one, other)
        return pooled


def _split_pooled_covariance(covariance: Floats, share: float, rows: int, noise: float) -> tuple[Floats, Floats]:
    """Return `Quantities.across` and `Quantities.within` of rows with this covariance of levels.

    Args:
        covariance: Pooled covariance of a row's levels between networks, (levels, levels).
        share: Part of it that rows share, in [0, 1].
        rows: Number of rows, K.
        noise: Part of it that comes from the finite number of images, in [0, 1].
    """
    shared, own = share * covariance, (1 - share) * covariance
    return np.stack([shared + own / rows, -own / rows, noise * shared]), np.stack([0 * own, own, noise * own])


@dataclass(frozen=True, eq=False)
class Contrast:
    """A linear combination of measured numbers, such as a gain or the difference of two gains."""

    quantities: Quantities
    weights: Floats  # (k,)
    value: float

    def subtract(self, other: "Contrast") -> "Contrast":
        """Return the difference; numbers of two protocols are paired by their test images and networks."""
        if self.quantities is other.quantities:
            return Contrast(self.quantities, self.weights - other.weights, self.value - other.value)
        joined = join_quantities(self.quantities, other.quantities)
        return Contrast(joined, np.concatenate([self.weights, -other.weights]), self.value - other.value)

    def scale(self, factor: float) -> "Contrast":
        return Contrast(self.quantities, factor * self.weights, factor * self.value)

    def shift(self, constant: float) -> "Contrast":
        return replace(self, value=self.value + constant)

    @property
    def spread(self) -> Spread:
        """Return how far the number may be from its true value."""
        return self.quantities.measure_spread(self.weights[None], np.array([self.value]))


def measure_spreads(contrasts: Sequence[Contrast], repeated: bool = False) -> Spread:
    """Measure the spreads of many contrasts at a time, in their order."""
    parts: dict[Quantities, list[int]] = {}
    for number, contrast in enumerate(contrasts):
        parts.setdefault(contrast.quantities, []).append(number)
    variances, freedoms = np.zeros((len(contrasts), 3)), np.full((len(contrasts), 3), np.inf)
    for quantities, numbers in parts.items():
        weights = np.array([contrasts[number].weights for number in numbers])
        values = np.array([contrasts[number].value for number in numbers])
        variances[numbers], freedoms[numbers] = quantities.measure_spread(weights, values, repeated)
    return Spread(variances, freedoms)


def measure_cells(scores: Correctness, variances: VarianceComponents | None) -> Quantities:
    """Measure the accuracies of all cells, by point; without `variances` they vary with images alone."""
    points = list(scores.correct)
    sums = np.array([scores.sums[point] for point in points]).reshape(len(points), scores.images)
    runs, totals = [len(bits) for bits in scores.correct.values()], sums.sum(1, dtype=np.int64).tolist()
    exact = [Fraction(total, count * scores.images) for total, count in zip(totals, runs, strict=True)]
    units = 1 / np.array(runs, np.float64)
    cells = Quantities.from_images({point: number for number, point in enumerate(points)}, exact, sums, units)
    pooling, can = cells.pooling, np.array([can_vary(bits) for bits in scores.correct.values()], np.bool_)
    if variances and (pooled := variances.references):
        names, by_network = sorted(scores.explained_networks), scores.accuracies_by_network
        explained = np.array([point in by_network for point in points], np.bool_)
        depends = can & explained
        known = [by_network.get(point, {}) for point in points]
        accuracies = [[by_name.get(name, np.nan) for name in names] for by_name in known]
        networks = np.array(accuracies).reshape(len(points), len(names))
        nearest = {t: pooled.find_nearest_level(t) for t in {t for _, t in points}}
        column = [nearest[t] for _, t in points]
        places = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in points))}
        across, within = _split_pooled_covariance(pooled.covariance, pooled.shared, pooled.rows, pooled.noise_share)
        # the pooled variance of a single row is the row's own, which counts already
        prior_freedom = pooled.prior_freedom if pooled.rows > 1 else 0.0
        pooling = Pooling(prior_freedom, max(1, pooled.networks - 1), max(1, pooled.own_freedom))
        cells = replace(
            cells,
            networks=np.where(explained[:, None], networks, 0.0),
            network_names=tuple(names),
            depends=depends,
            loads=np.eye(len(pooled.levels))[column] * depends[:, None],
            rows=np.array([places[name] for name, _ in points], np.intp),
            across=across,
            within=within,
        )
    if variances and (trained := variances.trainings):
        varies = ~cells.depends & can
        cells = replace(cells, trainings=np.outer(varies * units, (trained.variance, trained.noise)))
        pooling = pooling._replace(training_freedom=trained.freedom)
    return replace(cells, pooling=pooling)


def measure_areas(cells: Quantities, curves: Mapping[str, Sequence[Point]], weights: Sequence[Fraction]) -> Quantities:
    """Measure a weighted sum of cells for each row, by name; `curves` has the rows' cells in the order of `weights`."""
    at = np.array([[cells.index[point] for point in points] for points in curves.values()], np.intp)
    columns = at.reshape(len(curves), len(weights)).T
    terms = [(float(weight), column) for weight, column in zip(weights, columns, strict=True)]
    # the sums of an area are whole numbers, too
    runs, scale = np.rint(1 / cells.units).astype(np.int64), lcm(*(weight.denominator for weight in weights))
    common = lcm(*set(runs[at].ravel().tolist()))  # `np.unique` imports masked arrays
    by_level = zip((int(weight * scale) for weight in weights), columns, strict=True)
    whole = [[weight * (common // run) for run in runs[column].tolist()] for weight, column in by_level]
    sums = add_weighted_sums([cells.sums[column] for column in columns], whole, int(sum(weights) * scale) * common)
    kind: type = np.float64 if sums.dtype.kind == "f" else np.int64
    images = scale * common * cells.image_count
    return replace(
        cells,
        index={name: number for number, name in enumerate(curves)},
        exact=[Fraction(int(total), images) for total in sums.sum(1, dtype=kind).tolist()],
        sums=sums,
        units=np.full(len(curves), 1 / (scale * common)),
        networks=reduce(np.add, (factor * cells.networks[column] for factor, column in terms)),
        depends=np.asarray(cells.depends[columns].any(0)),
        loads=reduce(np.add, (factor * cells.loads[column] for factor, column in terms)),
        rows=cells.rows[columns[0]],
        trainings=reduce(np.add, (factor**2 * cells.trainings[column] for factor, column in terms)),
    )


def compute_covariance_of_means(sums: NDArray[Any], units: Floats) -> Floats:
    """Compute the covariance, (k, k), of the means over images of `sums`, (k, images), in `units`, (k,)."""
    count, images = sums.shape
    if images < 2:
        return np.zeros((count, count))
    totals = sums.sum(1, dtype=np.float64)
    moments = images * compute_second_moments(sums) - np.outer(totals, totals)
    return np.asarray(moments * np.outer(units, units) / images**2 / (images - 1))


def measure_means(values: Floats) -> list[Contrast]:
    """Return the mean over images of each row of `values`, (rows, images), as numbers that vary with images alone."""
    means = values.mean(1)
    centred = values - means[:, None]  # equal values have no variance at all
    index, exact = {row: row for row in range(len(values))}, [Fraction(float(mean)) for mean in means]
    quantities = Quantities.from_images(index, exact, centred, np.ones(len(values)))
    return [quantities[row] for row in index]


@lru_cache(8)
def join_quantities(first: Quantities, second: Quantities) -> Quantities:
    """Join the numbers of two protocols on the same test images; networks of one name are the same networks.

    Raises:
        ValueError: The protocols have different numbers of images.
    """
    if first.image_count != second.image_count:
        raise ValueError(f"the protocols have {first.image_count} and {second.image_count} images; expected the same")
    parts = (first, second)
    names = tuple(sorted({*first.network_names, *second.network_names}))
    arranged = []
    for part in parts:  # NaN for a network that a number depends on and lacks
        networks = np.where(part.depends[:, None], np.nan, np.zeros((len(part.units), len(names))))
        networks[:, [names.index(name) for name in part.network_names]] = part.networks
        arranged.append(networks)
    return Quantities(
        index={key: number for number, key in enumerate((part, key) for part in range(2) for key in parts[part].index)},
        exact=[*first.exact, *second.exact],
        sums=np.concatenate([part.sums for part in parts]),
        units=np.concatenate([part.units for part in parts]),
        image_count=first.image_count,
        networks=np.concatenate(arranged),
        network_names=names,
        depends=np.concatenate([part.depends for part in parts]),
        loads=_join_blocks(first.loads, second.loads),
        rows=np.concatenate([first.rows, second.rows + first.rows.max(initial=0) + 1]),
        across=_join_blocks(first.across, second.across),
        within=_join_blocks(first.within, second.within),
        trainings=np.concatenate([part.trainings for part in parts]),
        pooling=Pooling(*map(min, first.pooling, second.pooling)),  # known at least as well as the variances of both
        noise=_join_blocks(*(part.noise + np.zeros((len(part.units), len(part.units))) for part in parts)),
        rounding=np.concatenate([part.rounding + 0 * part.units for part in parts]),
    )


def _join_blocks(one: Floats, other: Floats) -> Floats:
    """Return matrices (..., i, j) and (..., k, l) as blocks on the diagonal of matrices (..., i + k, j + l)."""
    rows, columns = one.shape[-2:]
    joined = np.zeros((*one.shape[:-2], rows + other.shape[-2], columns + other.shape[-1]))
    joined[..., :rows, :columns], joined[..., rows:, columns:] = one, other
    return joined

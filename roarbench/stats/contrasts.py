"""Measure the cells of a protocol and how they vary with test images, explained networks and training runs.

Every gain, difference and accuracy is a linear combination of cells, so its variance follows from the covariance of
the cells: no image is drawn. `docs/statistics.md` has the formulas and the coverage.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.correctness_and_gain import Correctness, Floats
from roarbench.stats.normal_mixtures import Spread
from roarbench.stats.variance_components import VarianceComponents, average_by_network, can_vary

_AT_ONCE = 4_000_000  # numbers of correct predictions that are converted to floats at a time, 16 to 32 MB
_EXACT_IN_FLOAT32 = 2**24


@dataclass(frozen=True)
class Pooling:
    """Degrees of freedom of the variances that are pooled over rows and cells."""

    prior_freedom: float = 0.0  # degrees of freedom with which the pooled variance counts beside a number's own
    shared_freedom: float = 1.0  # of the part of the pooled variance that all rows share
    own_freedom: float = 1.0  # of the part that rows do not share
    training_freedom: float = np.inf  # of the variance between training runs


@dataclass(frozen=True, eq=False)
class Quantities:
    """Measured numbers, such as accuracies of cells or gains of rows, with their covariances by source."""

    index: Mapping[Any, int]  # position of each number in the arrays, by point or name
    values: Floats  # (k,)
    images: Floats  # (k, k): covariance from the choice of test images
    image_count: int
    # (k, networks): the number for each explained network, 0 if it depends on none, NaN if this network is missing
    networks: Floats
    network_names: tuple[str, ...]  # of the columns of `networks`
    depends: NDArray[np.bool_]  # (k,): whether the number depends on explained networks
    # (k, k): pooled covariance of the numbers for one explained network: the part that all rows share, as estimated by
    # the mean square between networks, and the rest
    shared: Floats
    own: Floats
    network_noise: Floats  # (k, k): part of both that comes from the finite number of images
    trainings: Floats  # (k, k): covariance from training runs
    training_noise: Floats  # (k, k): part of `trainings` that comes from the finite number of images
    pooling: Pooling = Pooling()
    counts: NDArray[np.int16] | None = field(default=None, repr=False)  # (k, images), correct predictions
    repeats: NDArray[np.int64] | None = None  # (k,), predictions of each image

    @classmethod
    def from_images(cls, index: Mapping[Any, int], values: Floats, images: Floats, image_count: int) -> Self:
        """Build numbers that vary with test images alone."""
        nothing = np.zeros((len(values), len(values)))
        return cls(
            index=index,
            values=values,
            images=images,
            image_count=image_count,
            networks=np.zeros((len(values), 0)),
            network_names=(),
            depends=np.zeros(len(values), np.bool_),
            shared=nothing,
            own=nothing,
            network_noise=nothing,
            trainings=nothing,
            training_noise=nothing,
        )

    def get(self, key: Hashable) -> "Contrast | None":
        """Return one number; None if it is missing."""
        return self[key] if key in self.index else None

    def __getitem__(self, key: Hashable) -> "Contrast":
        """Return one number; raise KeyError if it is missing."""
        return self.combine({key: 1.0}, float(self.values[self.index[key]]))

    def combine(self, weights: Mapping[Any, float], value: float) -> "Contrast":
        """Return a linear combination of numbers, with its value as computed exactly by the caller."""
        row = np.zeros(len(self.values))
        for key, weight in weights.items():
            row[self.index[key]] += weight
        return Contrast(self, row, value)

    def reduce(self, contrasts: Sequence["Contrast"]) -> Self:
        """Return these contrasts as quantities of their own, which are quicker to compare with each other."""
        weights = np.array([contrast.weights for contrast in contrasts]).reshape(len(contrasts), len(self.values))
        missing, used = np.isnan(self.networks), (weights != 0) & self.depends
        networks = weights @ np.nan_to_num(self.networks)
        networks[(used.astype(np.float64) @ missing) > 0] = np.nan
        squares = (self.images, self.shared, self.own, self.network_noise, self.trainings, self.training_noise)
        images, shared, own, network_noise, trainings, training_noise = (weights @ part @ weights.T for part in squares)
        return replace(
            self,
            index={number: number for number in range(len(contrasts))},
            values=np.array([contrast.value for contrast in contrasts]),
            images=images,
            networks=networks,
            depends=used.any(1),
            shared=shared,
            own=own,
            network_noise=network_noise,
            trainings=trainings,
            training_noise=training_noise,
            counts=None,
            repeats=None,
        )

    def measure_spread(self, weights: Floats, repeated: bool = False) -> Spread:
        """Measure how far linear combinations, weights (m, k), may be from their true values.

        The sources are images, explained networks and training runs. The mean square between networks and the variance
        between training runs contain noise of single images, which the images' part has, too; it is subtracted there.

        With `repeated`, the spread is that of a replication with the same test images around the measured value: both
        experiments have their own networks, training runs and noise, so these variances are doubled.
        """
        # few weights of a row differ from 0; sums over these alone, in order, have the same bits beside any other row
        used = weights != 0
        order = np.argsort(~used, axis=1, kind="stable")[:, : max(1, int(used.sum(1).max(initial=0)))]
        factors = np.take_along_axis(weights, order, 1)

        def add_up(numbers: Floats) -> Floats:
            """Return the sums of `numbers`, (m, used, ...), times the weights, (m, ...)."""
            total = np.zeros((len(numbers), *numbers.shape[2:]))
            for column in range(numbers.shape[1]):
                total += factors[:, column].reshape(-1, *[1] * (numbers.ndim - 2)) * numbers[:, column]
            return total

        def square(part: Floats) -> Floats:
            if not part.any():
                return np.zeros(len(weights))
            return add_up(add_up(part[order[:, :, None], order[:, None, :]]))

        missing = (used & self.depends).astype(np.float64) @ np.isnan(self.networks) > 0
        values = np.where(missing, np.nan, add_up(np.nan_to_num(self.networks)[order]))
        counts = np.maximum(1, (~missing).sum(1))
        centred = np.nan_to_num(values - (np.nan_to_num(values).sum(1) / counts)[:, None])
        sums, own_freedom = (centred**2).sum(1), counts - 1
        shared, own = square(self.shared), square(self.own)
        prior = _weigh_pooled_variance(shared, own, self.pooling)
        freedom = np.where(self.depends.any(), prior + own_freedom, np.inf)
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = np.where(freedom > 0, (prior * (shared + own) + sums) / freedom, 0.0)
        networks, trainings = variance / counts, square(self.trainings)
        noise = square(self.network_noise) / counts + square(self.training_noise)
        images = np.maximum(0.0, square(self.images) - noise)
        parts = (0 * images, 2 * networks, 2 * trainings) if repeated else (images, networks, trainings)
        freedoms = (
            np.full_like(images, max(1, self.image_count - 1)),
            freedom,
            0 * images + self.pooling.training_freedom,
        )
        return Spread(np.stack(parts, 1), np.maximum(np.stack(freedoms, 1), 1e-9))


def _weigh_pooled_variance(shared: Floats, own: Floats, pooling: Pooling) -> Floats:
    """Return the degrees of freedom with which the pooled variance of each number counts beside the number's own.

    The pooled variance is itself an estimate, with Satterthwaite's (1946) degrees of freedom f; rows' true variances
    spread around it as with d degrees of freedom (Smyth 2004). Both uncertainties add: 1 / (1 / d + 1 / f).
    """
    if not pooling.prior_freedom:
        return np.zeros_like(shared)
    with np.errstate(invalid="ignore", divide="ignore"):
        inverse = (shared**2 / pooling.shared_freedom + own**2 / pooling.own_freedom) / (shared + own) ** 2
        return np.where(shared + own > 0, 1 / (1 / pooling.prior_freedom + inverse), 0.0)


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
        """Return the number multiplied by a constant."""
        return Contrast(self.quantities, factor * self.weights, factor * self.value)

    def shift(self, constant: float) -> "Contrast":
        """Return the number plus a constant."""
        return replace(self, value=self.value + constant)

    @property
    def spread(self) -> Spread:
        """Return how far the number may be from its true value."""
        return self.quantities.measure_spread(self.weights[None])

    @property
    def varies(self) -> bool:
        """Return whether the number could have been another one; differences of equal cells cannot."""
        return bool(self.spread.totals[0] > 0)


def measure_spreads(contrasts: Sequence[Contrast], repeated: bool = False) -> Spread:
    """Measure the spreads of many contrasts at a time, in their order."""
    parts: dict[Quantities, list[int]] = {}
    for number, contrast in enumerate(contrasts):
        parts.setdefault(contrast.quantities, []).append(number)
    variances, freedoms = np.zeros((len(contrasts), 3)), np.full((len(contrasts), 3), np.inf)
    for quantities, numbers in parts.items():
        weights = np.array([contrasts[number].weights for number in numbers])
        variances[numbers], freedoms[numbers] = quantities.measure_spread(weights, repeated)
    return Spread(variances, freedoms)


@lru_cache(16)  # a board's own and reduced forms ask for the same cells
def measure_cells(scores: Correctness, variances: VarianceComponents | None) -> Quantities:
    """Measure the accuracies of all cells, by point; without `variances` they vary with images alone."""
    points = list(scores.correct)
    counts = np.empty((len(points), scores.images), np.int16)
    repeats = np.empty(len(points), np.int64)
    for row, bits in enumerate(scores.correct.values()):
        counts[row], repeats[row] = bits.sum(0, dtype=np.int16), len(bits)
    totals = counts.sum(1, dtype=np.int64)
    index = {point: number for number, point in enumerate(points)}
    values = totals / np.maximum(1, repeats * scores.images)
    covariance = _compute_image_covariance(counts, repeats, counts, repeats)
    cells = replace(Quantities.from_images(index, values, covariance, scores.images), counts=counts, repeats=repeats)
    if variances and variances.references:
        cells = _add_networks(cells, scores, variances)
    return _add_trainings(cells, scores, variances) if variances and variances.trainings else cells


def _add_networks(cells: Quantities, scores: Correctness, variances: VarianceComponents) -> Quantities:
    estimate, points = variances.references, list(scores.correct)
    assert estimate, "asked only with an estimate"
    names = sorted(scores.explained_networks)
    networks, depends = np.zeros((len(points), len(names))), np.zeros(len(points), np.bool_)
    for row, point in enumerate(points):
        if point in scores.references:
            means = {name: bits.mean() for name, bits in average_by_network(scores, point).items()}
            networks[row] = [means.get(name, np.nan) for name in names]
            depends[row] = can_vary(scores.correct[point])
    column = [estimate.find_nearest_level(t) for _, t in points]
    across = estimate.covariance[np.ix_(column, column)] * np.outer(depends, depends)
    rows = [name for name, _ in points]
    within = across * (np.array(rows)[:, None] == np.array(rows)[None])
    # the mean square between networks contains the own parts of the K rows that it averages
    shared = across * (estimate.shared + (1 - estimate.shared) / estimate.rows)
    own = (within - across / estimate.rows) * (1 - estimate.shared)
    count = max(1, estimate.networks - 1)
    pooling = Pooling(estimate.prior_freedom, count, max(1, estimate.own_freedom))
    return replace(
        cells,
        networks=networks,
        network_names=tuple(names),
        depends=depends,
        shared=shared,
        own=own,
        network_noise=estimate.noise_share * (estimate.shared * across + (1 - estimate.shared) * within),
        pooling=pooling,
    )


def _add_trainings(cells: Quantities, scores: Correctness, variances: VarianceComponents) -> Quantities:
    estimate = variances.trainings
    assert estimate, "asked only with an estimate"
    assert cells.repeats is not None
    varies = ~cells.depends & np.array([can_vary(bits) for bits in scores.correct.values()], np.bool_)
    return replace(
        cells,
        trainings=np.diag(varies * estimate.variance / cells.repeats),
        training_noise=np.diag(varies * estimate.noise / cells.repeats),
        pooling=replace(cells.pooling, training_freedom=estimate.freedom),
    )


def measure_means(values: Floats) -> list[Contrast]:
    """Return the mean over images of each row of `values`, (rows, images), as numbers that vary with images alone."""
    rows, images = values.shape
    centred = values - values.mean(1, keepdims=True)
    covariance = centred @ centred.T / images / max(1, images - 1)
    means = Quantities.from_images({row: row for row in range(rows)}, values.mean(1), covariance, images)
    return [means.combine({row: 1.0}, float(means.values[row])) for row in range(rows)]


def _compute_image_covariance(
    one: NDArray[np.int16], one_repeats: NDArray[np.int64], other: NDArray[np.int16], other_repeats: NDArray[np.int64]
) -> Floats:
    """Compute the covariance of mean accuracies over images, (k, l).

    Second moments of counts are whole numbers that floats hold exactly, so every machine gets the same digits.
    """
    images = one.shape[1]
    if images < 2 or not len(one) or not len(other):
        return np.zeros((len(one), len(other)))
    largest = int(np.abs(one).max()) * int(np.abs(other).max()) * images
    kind: type[np.floating[Any]] = np.float32 if largest < _EXACT_IN_FLOAT32 else np.float64
    moments: Floats = np.zeros((len(one), len(other)))
    step = max(1, _AT_ONCE // (len(one) + len(other)))
    for start, end in pairwise((*range(0, images, step), images)):
        moments += np.asarray(one[:, start:end], kind) @ np.asarray(other[:, start:end], kind).T
    products = np.outer(one.sum(1, dtype=np.float64), other.sum(1, dtype=np.float64))
    return np.asarray((images * moments - products) / np.outer(one_repeats, other_repeats) / images**2 / (images - 1))


@lru_cache(8)
def join_quantities(first: Quantities, second: Quantities) -> Quantities:
    """Join the cells of two protocols on the same test images; networks of one name are the same networks.

    Raises:
        ValueError: The protocols have different numbers of images.
    """
    if first.counts is None or second.counts is None or first.repeats is None or second.repeats is None:
        raise ValueError("only cells can be joined, no numbers that were computed from them")
    if first.image_count != second.image_count:
        raise ValueError(f"the protocols have {first.image_count} and {second.image_count} images; expected the same")
    cross = _compute_image_covariance(first.counts, first.repeats, second.counts, second.repeats)
    parts = (first, second)
    names = tuple(sorted({*first.network_names, *second.network_names}))
    return Quantities(
        index={key: number for number, key in enumerate((part, key) for part in range(2) for key in parts[part].index)},
        values=np.concatenate([part.values for part in parts]),
        images=np.block([[first.images, cross], [cross.T, second.images]]),
        image_count=first.image_count,
        networks=np.concatenate([_arrange_networks(part, names) for part in parts]),
        network_names=names,
        depends=np.concatenate([part.depends for part in parts]),
        shared=_join_blocks(part.shared for part in parts),
        own=_join_blocks(part.own for part in parts),
        network_noise=_join_blocks(part.network_noise for part in parts),
        trainings=_join_blocks(part.trainings for part in parts),
        training_noise=_join_blocks(part.training_noise for part in parts),
        pooling=_join_pooling([part.pooling for part in parts if part.depends.any()] or [Pooling()], parts),
        counts=np.concatenate([first.counts, second.counts]),
        repeats=np.concatenate([first.repeats, second.repeats]),
    )


def _arrange_networks(part: Quantities, names: Sequence[str]) -> Floats:
    """Return each number's values for these networks; NaN for a network that a number depends on and lacks."""
    arranged = np.where(part.depends[:, None], np.nan, np.zeros((len(part.values), len(names))))
    arranged[:, [names.index(name) for name in part.network_names]] = part.networks
    return np.asarray(arranged)


def _join_blocks(parts: Iterable[Floats]) -> Floats:
    one, other = parts
    return np.block([[one, np.zeros((len(one), len(other)))], [np.zeros((len(other), len(one))), other]])


def _join_pooling(poolings: Sequence[Pooling], parts: Sequence[Quantities]) -> Pooling:
    """Return what both protocols' variances are known with at least."""
    return Pooling(
        min(pooling.prior_freedom for pooling in poolings),
        min(pooling.shared_freedom for pooling in poolings),
        min(pooling.own_freedom for pooling in poolings),
        min(part.pooling.training_freedom for part in parts),
    )

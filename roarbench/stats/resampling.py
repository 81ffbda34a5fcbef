"""Draw test images, explained networks and training runs once for all cells of a board.

The accuracy of a cell varies for three reasons: other test images, other explained networks (references), and other
training runs. A bootstrap draw repeats all three. Test images are drawn with replacement, the same for every cell, so
that comparisons are paired. The effects of references and training runs are drawn as deviations, whose sizes are
estimated from all cells together (`variance_components`). All rows share a part of a reference's deviation.
`docs/statistics.md` has the formulas and the coverage.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.bootstrap_intervals import Bootstrap, Sample
from roarbench.stats.correctness_and_gain import Bits, Correctness, Floats, Point, hash_correctness
from roarbench.stats.variance_components import (
    PRIOR_FREEDOMS,
    ReferenceCurve,
    ReferenceVariance,
    TrainingVariance,
    VarianceComponents,
    average_curves_by_reference,
    can_vary,
    estimate_variance_components,
)

_CHUNK = 2_000_000  # image counts that are converted to float32 at once, which takes 8 MB
_CELLS = 250  # cells that are converted to float32 at once
# independent random streams: a stream's numbers do not depend on draws from another stream
_IMAGES = 0
_SPREAD, _CELL, _COMMON, _OWN, _SIZES, _ROW = range(1, 7)


@dataclass(frozen=True, eq=False)
class Draws:
    """Accuracies of all cells, as measured and in every draw."""

    column: dict[Point, int]  # index of each point in the arrays
    values: Floats  # accuracies in [0, 1], shape (cells,)
    resampled: Floats  # accuracies in every draw, for a repetition of the whole experiment, shape (resamples, cells)
    # accuracies of a replication with the same test images, drawn around the measured accuracies; prediction intervals
    # use these draws, shape (resamples, cells)
    repeated: Floats
    differences: "Draws | None" = None  # draws of `Correctness.differences`, if present

    @property
    def replication(self) -> "Draws":
        """Return a copy that has the draws of a replication in `resampled`."""
        differences = self.differences.replication if self.differences else None
        return replace(self, resampled=self.repeated, differences=differences)

    def get_accuracy(self, point: Point) -> Sample | None:
        """Return the accuracy of a cell with its draws; None if the cell is missing."""
        if point not in self.column:
            return None
        column = self.column[point]
        return Sample(float(self.values[column]), self.resampled[:, column])

    def stack_accuracies_with_draws(self, points: Sequence[Point]) -> Floats:
        """Return the accuracies of these points, shape (points, 1 + resamples), measured accuracies first."""
        columns = [self.column[point] for point in points]
        return np.concatenate([self.values[None, columns], self.resampled[:, columns]]).T


def draw_resamples(scores: Correctness, bootstrap: Bootstrap, variances: VarianceComponents | None) -> Draws:
    """Draw images, explained networks and training runs for every cell.

    Boards with the same images and bootstrap seed share their draws of images, and equal cells share all draws. If
    `scores` has differences, `variances` are their variance components. Without `variances`, only images are drawn.
    """
    if not scores.differences:
        return _combine_draws(scores, bootstrap, variances, *_resample_images([scores], bootstrap))
    accuracies = replace(scores, differences=None)
    resampled_accuracies, resampled_differences = _resample_images([accuracies, scores.differences], bootstrap)
    own_variances = variances and estimate_variance_components([accuracies])
    return replace(
        _combine_draws(accuracies, bootstrap, own_variances, resampled_accuracies),
        differences=_combine_draws(scores.differences, bootstrap, variances, resampled_differences),
    )


def _combine_draws(
    scores: Correctness, bootstrap: Bootstrap, variances: VarianceComponents | None, resampled: Floats
) -> Draws:
    if not scores.correct:
        return Draws({}, np.empty(0), resampled, resampled)
    values = np.array([int(bits.sum()) / bits.size for bits in scores.correct.values()])
    column = {point: index for index, point in enumerate(scores.correct)}
    if variances is None:
        return Draws(column, values, resampled, np.repeat(values[None], bootstrap.resamples, 0))
    true, whole = draw_repetition_noise(scores, bootstrap, variances)
    # the measured experiment and its replication both have training noise, so the variance doubles
    true += resampled
    whole *= np.sqrt(2)
    whole += values
    return Draws(column, values, true, whole)


def _resample_images(boards: Sequence[Correctness], bootstrap: Bootstrap) -> list[Floats]:
    """Resample the images of several boards together, and return each board's accuracies, (resamples, cells).

    All boards have the same images; a board without cells gives an empty array.
    """
    ends = np.cumsum([0, *(len(board.correct) for board in boards)])
    images = max(board.images for board in boards)
    drawn, counts = np.empty((ends[-1], bootstrap.resamples)), np.empty((ends[-1], images), np.int16)
    totals = np.empty((ends[-1], 1))
    for cell, bits in enumerate(bits for board in boards for bits in board.correct.values()):
        counts[cell], totals[cell] = bits.sum(0, dtype=np.int16), bits.size
    first = 0
    for weights in draw_image_weights(images, bootstrap) if images else ():
        draws = slice(first, first := first + len(weights))
        # float32 is exact: a cell has fewer than 2^24 predictions
        for some in (slice(cell, cell + _CELLS) for cell in range(0, len(drawn), _CELLS)):
            drawn[some, draws] = counts[some].astype(np.float32) @ weights.T
    drawn /= totals
    return [drawn[start:end].T for start, end in pairwise(ends)]  # the transpose keeps each cell's draws contiguous


def draw_image_weights(images: int, bootstrap: Bootstrap) -> Iterator[NDArray[np.float32]]:
    """Yield the count of every image in every draw, in blocks of shape (draws of the block, images)."""
    counts, block = draw_image_counts(images, bootstrap), max(1, _CHUNK // images)
    for start in range(0, bootstrap.resamples, block):
        yield counts[start : start + block].astype(np.float32)


@lru_cache(1)  # all boards of a store have the same images
def draw_image_counts(images: int, bootstrap: Bootstrap) -> NDArray[np.uint8]:
    """Return the count of every image in every draw, (resamples, images), always below 256."""
    generator = np.random.default_rng([bootstrap.seed, _IMAGES])
    counts = np.empty((bootstrap.resamples, images), np.uint8)
    for row in counts:  # a single row's counts fit in the CPU cache
        row[:] = np.bincount(generator.integers(images, size=images), minlength=images)
    return counts


def draw_repetition_noise(
    scores: Correctness, bootstrap: Bootstrap, variances: VarianceComponents
) -> tuple[Floats, Floats]:
    """Draw the deviations of all cells' accuracies that do not come from the choice of test images.

    If there are several explained networks, a cell that depends on one gets a deviation for this network, which
    includes the effect of training runs. All other cells get deviations for their training runs.

    Returns:
        Deviations of the true accuracies, and deviations that also contain the noise of a finite number of images, from
            the same random numbers; shape (resamples, cells) each.
    """
    true, whole = np.zeros((2, len(scores.correct), bootstrap.resamples))
    trainings = _TrainingDraws(variances.trainings, bootstrap) if variances.trainings else None
    references = _ReferenceDraws(variances.references, scores, bootstrap) if variances.references else None
    for column, (point, bits) in enumerate(scores.correct.items()):
        if not can_vary(bits):
            continue
        if references and point in scores.references:
            true[column], whole[column] = references.draw_true_and_noisy_deviations(point)
        elif trainings:
            true[column], whole[column] = trainings.draw_true_and_noisy_deviations(bits)
    return true.T, whole.T


def _make_generator(bootstrap: Bootstrap, stream: int, *digests: bytes) -> np.random.Generator:
    numbers = np.frombuffer(b"".join(digests), dtype=np.uint32).tolist()
    return np.random.default_rng([bootstrap.seed, stream, *numbers])


class _TrainingDraws:
    """Draws of the deviations of cells' accuracies that come from training runs.

    The variance is estimated from few training runs, so the variance is drawn as well: a mean square divided by its
    expectation is chi-squared divided by its degrees of freedom. The noise of single images is estimated from all
    images, so this noise has the same variance in every draw.
    """

    def __init__(self, estimate: TrainingVariance, bootstrap: Bootstrap) -> None:
        share = _draw_mean_square(estimate.freedom, _make_generator(bootstrap, _SPREAD), bootstrap)
        variance = np.maximum(0.0, estimate.variance / share - estimate.noise)
        self.true, self.whole = np.sqrt(variance), np.sqrt(variance + estimate.noise)
        self.deviations, self.bootstrap = estimate.deviations, bootstrap

    def draw_true_and_noisy_deviations(self, bits: Bits) -> tuple[Floats, Floats]:
        """Draw the mean deviation of a cell's training runs, without and with image noise, (resamples,) each.

        The bits seed the draws. So the same training run under two names has the same deviation, different cells have
        different deviations, and no draw depends on the choice of shown rows.
        """
        generator = _make_generator(self.bootstrap, _CELL, hash_correctness(bits))
        mean = generator.choice(self.deviations, size=(self.bootstrap.resamples, len(bits))).mean(1)
        return self.true * mean, self.whole * mean


def _draw_mean_square(freedom: float, generator: np.random.Generator, bootstrap: Bootstrap) -> Floats:
    return generator.chisquare(freedom, bootstrap.resamples) / freedom


def _compute_shared_and_own_scales(total_variance: Floats, own_variance: Floats) -> tuple[Floats, Floats]:
    return np.sqrt(np.maximum(0.0, total_variance - own_variance)), np.sqrt(own_variance)


class _ReferenceDraws:
    """Draws of the deviations of cells' accuracies that come from explained networks.

    For each explained network, the deviation of a row's curve is the sum of a shared part, which all rows have in
    common, and the row's own part; both parts have the same covariance between levels. The total variance and the
    variance of the own parts are drawn with their degrees of freedom. The own parts have many more degrees of freedom,
    so differences between rows are known more precisely. The variance of a row is then drawn from the pooled variance
    and the row's own mean square (Smyth 2004).
    """

    def __init__(self, estimate: ReferenceVariance, scores: Correctness, bootstrap: Bootstrap) -> None:
        self.estimate, self.scores, self.bootstrap = estimate, scores, bootstrap
        generator = _make_generator(bootstrap, _SIZES)
        self.whole = 1 / _draw_mean_square(estimate.freedom, generator, bootstrap)
        self.own = np.zeros(bootstrap.resamples)
        if estimate.own_freedom:
            self.own = (1 - estimate.shared) / _draw_mean_square(estimate.own_freedom, generator, bootstrap)
        self.prior = generator.choice(PRIOR_FREEDOMS, bootstrap.resamples, p=estimate.prior)
        self.rows = average_curves_by_reference(scores)
        self._sizes = lru_cache(1)(self._draw_shared_and_own_scales)  # all levels of a row use the same sizes
        self._normal = lru_cache(2 * len(scores.explained_networks))(self._draw_network_normals)
        # rows share the common part of their deviations
        self._mean = lru_cache(4 * len(scores.levels))(self._draw_mean_network_deviation)

    def draw_true_and_noisy_deviations(self, point: Point) -> tuple[Floats, Floats]:
        """Draw the mean deviation of a cell's networks, without and with image noise, (resamples,) each."""
        names, curve = self.scores.references[point], self.rows[point[0]]
        common = self._mean(_COMMON, self.estimate.digest, names, point[1])
        own = self._mean(_OWN, curve.digest, names, point[1])
        true, whole = self._sizes(curve)
        return true[0] * common + true[1] * own, whole[0] * common + whole[1] * own

    def _draw_shared_and_own_scales(self, curve: ReferenceCurve) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Draw standard deviations of the shared and the row's own part, (resamples,), without and with image noise."""
        ratio = self._draw_ratio_of_row_to_pooled_variance(curve)
        whole, own = ratio * self.whole, ratio * self.own
        noise = self.estimate.noise / self.estimate.variance if self.estimate.variance else 0.0
        least = noise if self.estimate.own_freedom else 0.0  # a row's own part contains all image noise
        true = _compute_shared_and_own_scales(np.maximum(0.0, whole - noise), np.maximum(0.0, own - least))
        return true, _compute_shared_and_own_scales(whole, np.maximum(own, least))

    def _draw_ratio_of_row_to_pooled_variance(self, curve: ReferenceCurve) -> Floats:
        square, freedom = curve.mean_square
        pooled = self.estimate.variance * np.maximum(self.whole, self.own)
        own = square / pooled if self.estimate.variance else 0.0
        chi_squared = _make_generator(self.bootstrap, _ROW, curve.digest).chisquare(self.prior + freedom)
        return (self.prior + freedom * own) / chi_squared

    def _draw_mean_network_deviation(self, stream: int, digest: bytes, names: tuple[str, ...], t: float) -> Floats:
        """Draw a cell's mean over its networks, weighted by their numbers of training runs, shape (resamples,)."""
        column, mean = self.estimate.get_nearest_factor_column(t), np.zeros(self.bootstrap.resamples)
        for name in sorted(set(names)):
            mean += names.count(name) / len(names) * (self._normal(stream, digest, name) @ column)
        return mean

    def _draw_network_normals(self, stream: int, digest: bytes, name: str) -> Floats:
        """Draw standard normal numbers for the deviation of one network, shape (resamples, rank)."""
        generator = _make_generator(self.bootstrap, stream, digest, hashlib.sha256(name.encode()).digest()[:16])
        return generator.standard_normal((self.bootstrap.resamples, len(self.estimate.factor)))

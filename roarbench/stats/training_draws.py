"""Draws of what other trainings and other references would have given."""

import hashlib
from functools import lru_cache

import numpy as np

from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import Bits, Correctness, Floats, Point, hash_answers
from roarbench.stats.reference_variance import PRIORS, ReferenceCurve, References, compute_reference_curves
from roarbench.stats.variance_components import Spread, Trainings, has_variance

# streams of chance, so that none depends on how much another one draws; 0 is that of the images
_SPREAD, _CELL, _COMMON, _OWN, _SIZES, _ROW = range(1, 7)


def draw_training_noise(scores: Correctness, bootstrap: Bootstrap, spread: Spread) -> tuple[Floats, Floats]:
    """Draw deviations of all cells' accuracies for reasons other than the test images.

    A cell that depends on a reference deviates with it, if references were repeated; what its trainings add is part of
    that then. All others deviate with their trainings.

    Returns:
        Of the true accuracies, and with the noise that trainings on the same finitely many images add; from the same
        chance, shape (resamples, cells).
    """
    true, whole = np.zeros((2, len(scores.correct), bootstrap.resamples))
    trainings = _TrainingDraws(spread.trainings, bootstrap) if spread.trainings else None
    references = _ReferenceDraws(spread.references, scores, bootstrap) if spread.references else None
    for column, (point, bits) in enumerate(scores.correct.items()):
        if not has_variance(bits):
            continue
        if references and point in scores.references:
            true[column], whole[column] = references.cell(point)
        elif trainings:
            true[column], whole[column] = trainings.cell(bits)
    return true.T, whole.T


def _generator(bootstrap: Bootstrap, stream: int, *digests: bytes) -> np.random.Generator:
    """Return a stream of chance of its own for whatever has these digests."""
    numbers = np.frombuffer(b"".join(digests), dtype=np.uint32).tolist()
    return np.random.default_rng([bootstrap.seed, stream, *numbers])


class _TrainingDraws:
    """Deviations of cells for their trainings.

    The spread is known from few trainings only, so that it is drawn, too: the mean square over its expectation is
    chi-squared with its degrees of freedom. The noise of single images is known from all of them, and is in every draw.
    """

    def __init__(self, spread: Trainings, bootstrap: Bootstrap) -> None:
        share = _mean_square(spread.freedom, _generator(bootstrap, _SPREAD), bootstrap)
        variance = np.maximum(0.0, spread.variance / share - spread.noise)
        self.true, self.whole = np.sqrt(variance), np.sqrt(variance + spread.noise)
        self.deviations, self.bootstrap = spread.deviations, bootstrap

    def cell(self, bits: Bits) -> tuple[Floats, Floats]:
        """Return the mean deviation of a cell's trainings in every draw, true and with noise, (resamples,) each.

        The stream hangs on the cell's bits: the same training under two names gets the same deviation, other cells get
        their own, and no draw depends on which other rows are shown.
        """
        generator = _generator(self.bootstrap, _CELL, hash_answers(bits))
        mean = generator.choice(self.deviations, size=(self.bootstrap.resamples, len(bits))).mean(1)
        return self.true * mean, self.whole * mean


def _mean_square(freedom: float, generator: np.random.Generator, bootstrap: Bootstrap) -> Floats:
    """Draw a mean square over its expectation, for every draw."""
    return generator.chisquare(freedom, bootstrap.resamples) / freedom


def _sizes(whole: Floats, own: Floats) -> tuple[Floats, Floats]:
    """Return standard deviations of what rows share and of a row's own, from the variances of the whole and its own."""
    return np.sqrt(np.maximum(0.0, whole - own)), np.sqrt(own)


class _ReferenceDraws:
    """Deviations of cells for the references that they depend on.

    The curve that a reference gives deviates by a part that all rows share and by one of the row's own, of the same
    covariance between levels. Both sizes are drawn: the whole from its degrees of freedom, and what rows do not share
    from its own, many more, so that differences between rows are known as well as they are. Then each row's variance is
    drawn, from the pooled one and its own mean square (Smyth 2004).
    """

    def __init__(self, spread: References, scores: Correctness, bootstrap: Bootstrap) -> None:
        self.spread, self.scores, self.bootstrap = spread, scores, bootstrap
        generator = _generator(bootstrap, _SIZES)
        self.whole = 1 / _mean_square(spread.freedom, generator, bootstrap)
        self.own = np.zeros(bootstrap.resamples)
        if spread.own_freedom:
            self.own = (1 - spread.shared) / _mean_square(spread.own_freedom, generator, bootstrap)
        self.prior = generator.choice(PRIORS, bootstrap.resamples, p=spread.prior)
        self.rows = compute_reference_curves(scores)
        self._sizes = lru_cache(1)(self._draw_sizes)  # those of a row serve all its levels
        self._normal = lru_cache(2 * len(scores.networks))(self._draw)
        self._mean = lru_cache(4 * len(scores.levels))(self._draw_mean)  # those that rows share serve them all

    def cell(self, point: Point) -> tuple[Floats, Floats]:
        """Return a cell's mean deviation over its references in every draw, true and with noise, (resamples,) each."""
        names, curve = self.scores.references[point], self.rows[point[0]]
        common = self._mean(_COMMON, self.spread.digest, names, point[1])
        own = self._mean(_OWN, curve.digest, names, point[1])
        true, whole = self._sizes(curve)
        return true[0] * common + true[1] * own, whole[0] * common + whole[1] * own

    def _draw_sizes(self, curve: ReferenceCurve) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Draw the sizes of what rows share and of the row's own, (resamples,) each: true, and with images' noise."""
        ratio = self._ratio(curve)
        whole, own = ratio * self.whole, ratio * self.own
        noise = self.spread.noise / self.spread.variance if self.spread.variance else 0.0
        least = noise if self.spread.own_freedom else 0.0  # of single images: known, and each row's own
        true = _sizes(np.maximum(0.0, whole - noise), np.maximum(0.0, own - least))
        return true, _sizes(whole, np.maximum(own, least))

    def _ratio(self, curve: ReferenceCurve) -> Floats:
        """Draw a row's variance in units of the pooled one."""
        square, freedom = curve.square
        pooled = self.spread.variance * np.maximum(self.whole, self.own)
        own = square / pooled if self.spread.variance else 0.0
        chi_squared = _generator(self.bootstrap, _ROW, curve.digest).chisquare(self.prior + freedom)
        return (self.prior + freedom * own) / chi_squared

    def _draw_mean(self, stream: int, digest: bytes, names: tuple[str, ...], t: float) -> Floats:
        """Draw for a cell of some references: their mean, by how many trainings each has, shape (resamples,)."""
        column, mean = self.spread.column(t), np.zeros(self.bootstrap.resamples)
        for name in sorted(set(names)):
            mean += names.count(name) / len(names) * (self._normal(stream, digest, name) @ column)
        return mean

    def _draw(self, stream: int, digest: bytes, name: str) -> Floats:
        """Draw for one reference and all levels, shape (resamples, rank)."""
        generator = _generator(self.bootstrap, stream, digest, hashlib.sha256(name.encode()).digest()[:16])
        return generator.standard_normal((self.bootstrap.resamples, len(self.spread.factor)))

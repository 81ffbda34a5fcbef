"""One hierarchical bootstrap for everything on a board: test images and seeds, drawn once for all cells.

The accuracy of a cell varies for two reasons: other test images, and another training. A draw repeats both. Test images
are drawn with replacement, the same ones for every cell, so that comparisons are paired. Trainings are drawn as
deviations: every training of a cell gets the deviation of a training drawn from the whole board, because the two
seeds of one cell say next to nothing about its spread while those of all cells together do. `docs/statistics.md` has
the reasons, and the coverage that this and simpler bootstraps reach.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.curves import Bits, Floats, Point, Scores

_CHUNK = 2_000_000  # drawn image numbers held at once: 16 MB
_IMAGES, _SPREAD, _CELL = 0, 1, 2  # streams of chance, so that none depends on how much another one draws


@dataclass(frozen=True)
class Bootstrap:
    """All that fixes the draws.

    Attributes:
        resamples: Number of draws.
        seed: Where their chance comes from.
        confidence: Share of intervals that should hold the truth.
    """

    resamples: int = 2000
    seed: int = 0
    confidence: float = 0.95


@dataclass(frozen=True, eq=False)
class SeedSpread:
    """How much the accuracy of one training varies with its seed, pooled over cells.

    Attributes:
        variance: Between the seeds of a cell, in squared accuracy, with the noise that finitely many images add.
        noise: That noise: seeds disagree about single images, and this much of it is left in a mean over them.
        freedom: Degrees of freedom of `variance`.
        deviations: Those of all trainings from their cell's mean, of mean 0 and mean square 1, shape (trainings,).
    """

    variance: float
    noise: float
    freedom: int
    deviations: Floats

    @property
    def deviation(self) -> float:
        """Standard deviation of a training's true accuracy, in [0, 1]."""
        return float(np.sqrt(max(0.0, self.variance - self.noise)))


class Sample(NamedTuple):
    """A number with its draws.

    Attributes:
        value: From the data as they are.
        draws: From the draws, shape (resamples,).
    """

    value: float
    draws: Floats

    def minus(self, other: "Sample") -> "Sample":
        """The difference, draw by draw."""
        return Sample(self.value - other.value, self.draws - other.draws)


class Estimate(NamedTuple):
    """A number with its interval; None is missing."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


def seed_spread(boards: Iterable[Scores]) -> SeedSpread | None:
    """Pool the spread over seeds of all cells of these protocols that have two seeds or more; None if there is none.

    Two-way analysis of variance per cell, images by seeds without replicates: the mean square of seeds estimates
    n * var(seed) + noise, that of the residuals the noise (Searle, Casella, McCulloch, Variance Components, 1992,
    section 4.7).
    """
    unique = {_digest(bits): bits for board in boards for bits in board.correct.values() if len(bits) > 1}
    cells = [unique[digest] for digest in sorted(unique)]  # no order of rows may show in the draws
    if not cells:
        return None
    freedom = sum(len(bits) - 1 for bits in cells)
    squares = np.sum([_squares(bits) for bits in cells], axis=0) / freedom
    raw = np.concatenate([_deviations(bits) for bits in cells])
    size = np.sqrt(np.mean(raw**2))
    return SeedSpread(float(squares[0]), float(squares[1]), freedom, raw / size if size > 0 else raw)


def _deviations(bits: Bits) -> Floats:
    """Deviations of the seeds' accuracies from their mean, which itself takes a share 1 / seeds of the variance."""
    accuracies = bits.mean(1, dtype=np.float64)
    deviations: Floats = (accuracies - accuracies.mean()) * np.sqrt(len(bits) / (len(bits) - 1))
    return deviations


def _squares(bits: Bits) -> Floats:
    """Sums of squares of a cell, divided by the images: of its seeds, and of what is left beside seeds and images."""
    seeds, images = bits.shape
    accuracies = bits.mean(1, dtype=np.float64)
    between = float(((accuracies - accuracies.mean()) ** 2).sum())
    counts = bits.sum(0, dtype=np.float64)
    within = float((counts * (1 - counts / seeds)).sum())  # of bits within images: seeds and rest together
    return np.array([between, (within - images * between) / (images - 1) / images])


@dataclass(frozen=True, eq=False)
class Draws:
    """The accuracies of all cells, as they are and in every draw.

    Attributes:
        column: Where a point is in the arrays.
        values: Accuracies in [0, 1], shape (cells,).
        resampled: The same in every draw, shape (resamples, cells).
    """

    column: dict[Point, int]
    values: Floats
    resampled: Floats

    def accuracy(self, point: Point) -> Sample | None:
        """The accuracy of a cell; None if it is missing."""
        if point not in self.column:
            return None
        column = self.column[point]
        return Sample(float(self.values[column]), self.resampled[:, column])

    def curve(self, points: Sequence[Point]) -> Floats:
        """Accuracies of these points, shape (points, 1 + resamples), the data as they are first."""
        columns = [self.column[point] for point in points]
        return np.concatenate([self.values[None, columns], self.resampled[:, columns]]).T


def draw(scores: Scores, bootstrap: Bootstrap, spread: SeedSpread | None) -> Draws:
    """Draw images and trainings anew, the same draws for every cell.

    Boards of the same images and the same bootstrap seed share their draws of images, and equal cells all their draws.

    Args:
        scores: Correct answers.
        bootstrap: How often and from which seed.
        spread: How trainings vary; None where nothing is trained, then images alone are drawn.
    """
    cells = list(scores.correct.values())
    if not cells:
        return Draws({}, np.empty(0), np.empty((bootstrap.resamples, 0)))
    counts = np.stack([bits.sum(0, dtype=np.float32) for bits in cells])
    seeds = np.array([len(bits) for bits in cells], dtype=np.float64)
    totals = seeds * scores.images
    # float32 holds every count exactly: there are fewer than 2^24 answers in a cell
    resampled = np.concatenate(
        [(weights @ counts.T).astype(np.float64) / totals for weights in image_weights(scores.images, bootstrap)]
    )
    if spread is not None:
        sizes = _spread_draws(spread, bootstrap)
        resampled += np.stack([sizes * _training_draws(bits, spread, bootstrap) for bits in cells], axis=1)
    column = {point: index for index, point in enumerate(scores.correct)}
    return Draws(column, counts.sum(1, dtype=np.float64) / totals, resampled)


def image_weights(images: int, bootstrap: Bootstrap) -> Iterator[NDArray[np.float32]]:
    """How often every draw holds every image, in pieces of shape (some draws, images)."""
    generator = np.random.default_rng([bootstrap.seed, _IMAGES])
    rows = max(1, _CHUNK // images)
    for start in range(0, bootstrap.resamples, rows):
        count = min(rows, bootstrap.resamples - start)
        drawn = generator.integers(images, size=(count, images)) + images * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * images).reshape(count, images).astype(np.float32)


def _spread_draws(spread: SeedSpread, bootstrap: Bootstrap) -> Floats:
    """The standard deviation over seeds in every draw: it is known from few trainings only, so it is drawn, too.

    The mean square of seeds over its expectation is chi-squared with `freedom` degrees.
    """
    generator = np.random.default_rng([bootstrap.seed, _SPREAD])
    share = generator.chisquare(spread.freedom, bootstrap.resamples) / spread.freedom
    return np.sqrt(np.maximum(0.0, spread.variance / share - spread.noise))


def _training_draws(bits: Bits, spread: SeedSpread, bootstrap: Bootstrap) -> Floats:
    """Mean deviation of a cell's trainings in every draw, in standard deviations, shape (resamples,).

    The stream hangs on the cell's bits: the same training under two names gets the same deviation, other cells get
    their own, and no draw depends on which other rows are shown.
    """
    digest = np.frombuffer(_digest(bits), dtype=np.uint32)
    generator = np.random.default_rng([bootstrap.seed, _CELL, *digest.tolist()])
    drawn = generator.choice(spread.deviations, size=(bootstrap.resamples, len(bits)))
    mean: Floats = drawn.mean(1)
    return mean


def _digest(bits: Bits) -> bytes:
    return hashlib.sha256(np.packbits(bits, axis=1).tobytes() + bytes(str(bits.shape), "ascii")).digest()[:16]


def half_width(sample: Sample, confidence: float) -> float:
    """Half the width of the interval around the value that holds this share of its draws."""
    return float(np.quantile(np.abs(sample.draws - sample.value), confidence))


def estimate(sample: Sample, confidence: float) -> Estimate:
    """The value with its interval, the same distance to both sides."""
    half = half_width(sample, confidence)
    return Estimate(sample.value, sample.value - half, sample.value + half)

"""One bootstrap for everything on a board: test images, references and trainings, drawn once for all cells.

The accuracy of a cell varies for three reasons: other test images, another reference network to explain, and another
training. A draw repeats all. Test images are drawn with replacement, the same ones for every cell, so that comparisons
are paired. References and trainings are drawn as deviations, of sizes learnt from all cells together
(`variance_components`), the references' the same for all rows that one network explains (`training_noise`).
`docs/statistics.md` has the formulas and the coverage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.bootstrap import Bootstrap, Sample
from roarbench.stats.curves import Correctness, Floats, Point
from roarbench.stats.training_draws import draw_training_noise
from roarbench.stats.variance_components import Spread, estimate_spread

_CHUNK = 2_000_000  # drawn image numbers held at once: 16 MB
_CELLS = 250  # whose answers are numbers at once
_IMAGES = 0  # stream of chance; those of `training_noise` follow


@dataclass(frozen=True, eq=False)
class Draws:
    """The accuracies of all cells, as they are and in every draw."""

    column: dict[Point, int]  # where a point is in the arrays
    values: Floats  # accuracies in [0, 1], shape (cells,)
    resampled: Floats  # the same in every draw, where the experiment is done again in whole, shape (resamples, cells)
    # what other trainings and references on the same test images may give, seen from these that may be off as well: for
    # intervals of a replication, shape (resamples, cells)
    repeated: Floats
    differences: "Draws | None" = None  # the same of `Scores.differences`, where these are

    @property
    def replication(self) -> "Draws":
        """Return the same accuracies with the draws of a replication."""
        differences = self.differences.replication if self.differences else None
        return replace(self, resampled=self.repeated, differences=differences)

    def accuracy(self, point: Point) -> Sample | None:
        """Return the accuracy of a cell; None if it is missing."""
        if point not in self.column:
            return None
        column = self.column[point]
        return Sample(float(self.values[column]), self.resampled[:, column])

    def curve(self, points: Sequence[Point]) -> Floats:
        """Return accuracies of these points, shape (points, 1 + resamples), the data as they are first."""
        columns = [self.column[point] for point in points]
        return np.concatenate([self.values[None, columns], self.resampled[:, columns]]).T


def draw_resamples(scores: Correctness, bootstrap: Bootstrap, spread: Spread | None) -> Draws:
    """Draw images, references and trainings anew, the same draws for every cell.

    Boards of the same images and the same bootstrap seed share their draws of images, and equal cells all their draws.
    The spread is that of the differences where there are any; without one, where nothing was repeated, images alone are
    drawn.
    """
    if not scores.differences:
        return _draws(scores, bootstrap, spread, *_resample([scores], bootstrap))
    accuracies = replace(scores, differences=None)
    one, other = _resample([accuracies, scores.differences], bootstrap)
    differences = _draws(scores.differences, bootstrap, spread, other)
    return replace(
        _draws(accuracies, bootstrap, spread and estimate_spread([accuracies]), one), differences=differences
    )


def _draws(scores: Correctness, bootstrap: Bootstrap, spread: Spread | None, resampled: Floats) -> Draws:
    """Return accuracies with the draws of images that are there already, and with those of references and trainings."""
    if not scores.correct:
        return Draws({}, np.empty(0), resampled, resampled)
    values = np.array([int(bits.sum()) / bits.size for bits in scores.correct.values()])
    column = {point: index for index, point in enumerate(scores.correct)}
    if spread is None:
        return Draws(column, values, resampled, np.repeat(values[None], bootstrap.resamples, 0))
    true, whole = draw_training_noise(scores, bootstrap, spread)
    # of two experiments on the same images each has its own luck: twice the variance
    true += resampled
    whole *= np.sqrt(2)
    whole += values
    return Draws(column, values, true, whole)


def _resample(boards: Sequence[Correctness], bootstrap: Bootstrap) -> list[Floats]:
    """Return the accuracies of each board's cells on the images of every draw, (resamples, cells); drawn once for all.

    The boards have the same images; of one without cells the array is empty.
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
        # float32 holds every count exactly: there are fewer than 2^24 answers in a cell
        for some in (slice(cell, cell + _CELLS) for cell in range(0, len(drawn), _CELLS)):
            drawn[some, draws] = counts[some].astype(np.float32) @ weights.T
    drawn /= totals
    return [drawn[start:end].T for start, end in pairwise(ends)]  # a cell's draws lie side by side


def draw_image_weights(images: int, bootstrap: Bootstrap) -> Iterator[NDArray[np.float32]]:
    """Yield how often every draw holds every image, in pieces of shape (some draws, images)."""
    counts, rows = draw_image_counts(images, bootstrap), max(1, _CHUNK // images)
    for start in range(0, bootstrap.resamples, rows):
        yield counts[start : start + rows].astype(np.float32)


@lru_cache(1)  # the boards of a store have the same images
def draw_image_counts(images: int, bootstrap: Bootstrap) -> NDArray[np.uint8]:
    """Return how often every draw holds every image, (resamples, images): a few times, never 256."""
    generator = np.random.default_rng([bootstrap.seed, _IMAGES])
    counts = np.empty((bootstrap.resamples, images), np.uint8)
    for row in counts:  # one by one, so that what is counted stays in the processor's cache
        row[:] = np.bincount(generator.integers(images, size=images), minlength=images)
    return counts

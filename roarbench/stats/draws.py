"""One bootstrap for everything on a board: test images, references and trainings, drawn once for all cells.

The accuracy of a cell varies for three reasons: other test images, another reference network to explain, and another
training. A draw repeats all. Test images are drawn with replacement, the same ones for every cell, so that comparisons
are paired. References and trainings are drawn as deviations, of sizes learnt from all cells together (`spread`), the
references' the same for all rows that one network explains (`luck`). `docs/statistics.md` has the reasons, and the
coverage that this and simpler bootstraps reach.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.bootstrap import Bootstrap, Sample
from roarbench.stats.curves import Floats, Point, Scores
from roarbench.stats.luck import luck
from roarbench.stats.spread import Spread, spread_of

_CHUNK = 2_000_000  # drawn image numbers held at once: 16 MB
_IMAGES = 0  # stream of chance; those of `luck` follow


@dataclass(frozen=True, eq=False)
class Draws:
    """The accuracies of all cells, as they are and in every draw.

    Attributes:
        column: Where a point is in the arrays.
        values: Accuracies in [0, 1], shape (cells,).
        resampled: The same in every draw, where the experiment is done again in whole, shape (resamples, cells).
        repeated: What other trainings and references on the same test images may give, seen from these that may be
            off as well: for intervals of a replication, shape (resamples, cells).
        differences: The same of `Scores.differences`, where these are.
    """

    column: dict[Point, int]
    values: Floats
    resampled: Floats
    repeated: Floats
    differences: "Draws | None" = None

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


def draw(scores: Scores, bootstrap: Bootstrap, spread: Spread | None) -> Draws:
    """Draw images, references and trainings anew, the same draws for every cell.

    Boards of the same images and the same bootstrap seed share their draws of images, and equal cells all their draws.

    Args:
        scores: Correct answers.
        bootstrap: How often and from which seed.
        spread: How references and trainings vary, of the differences where there are any; None where nothing was
            repeated, then images alone are drawn.
    """
    if scores.differences:
        accuracies = replace(scores, differences=None)
        differences = draw(scores.differences, bootstrap, spread)
        return replace(draw(accuracies, bootstrap, spread and spread_of([accuracies])), differences=differences)
    cells = list(scores.correct.values())
    if not cells:
        nothing = np.empty((bootstrap.resamples, 0))
        return Draws({}, np.empty(0), nothing, nothing)
    counts = np.stack([bits.sum(0, dtype=np.float32) for bits in cells])
    totals = np.array([bits.size for bits in cells], dtype=np.float64)
    # float32 holds every count exactly: there are fewer than 2^24 answers in a cell; a cell's draws lie side by side
    drawn = np.hstack([counts @ weights.T for weights in image_weights(scores.images, bootstrap)])
    resampled = (drawn / totals[:, None]).T
    values = counts.sum(1, dtype=np.float64) / totals
    column = {point: index for index, point in enumerate(scores.correct)}
    if spread is None:
        return Draws(column, values, resampled, np.repeat(values[None], bootstrap.resamples, 0))
    true, whole = luck(scores, bootstrap, spread)
    # of two experiments on the same images each has its own luck: twice the variance
    return Draws(column, values, resampled + true, values + np.sqrt(2) * whole)


def image_weights(images: int, bootstrap: Bootstrap) -> Iterator[NDArray[np.float32]]:
    """Yield how often every draw holds every image, in pieces of shape (some draws, images)."""
    generator = np.random.default_rng([bootstrap.seed, _IMAGES])
    rows = max(1, _CHUNK // images)
    for start in range(0, bootstrap.resamples, rows):
        weights = np.empty((min(rows, bootstrap.resamples - start), images), np.float32)
        for row in weights:  # one by one, so that what is counted stays in the processor's cache
            row[:] = np.bincount(generator.integers(images, size=images), minlength=images)
        yield weights

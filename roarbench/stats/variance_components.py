"""Estimate the variance between training runs, pooled over cells, and combine it with the variance between networks.

Two or three training runs are too few to estimate the variance of a single cell. `docs/statistics.md` has the formulas
with their sources.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from roarbench.stats.correctness_and_gain import UNTOUCHED, Bits, Correctness, Floats, Point, hash_correctness
from roarbench.stats.explained_network_variance import (
    ReferenceVariance,
    compute_between_and_residual_squares,
    estimate_reference_variance,
)


@dataclass(frozen=True, eq=False)
class TrainingVariance:
    """Variance of a cell's accuracy between training runs, pooled over cells."""

    variance: float  # variance between training runs on the same rankings, in squared accuracy, including image noise
    noise: float  # part of `variance` that comes from the finite number of images
    freedom: int  # degrees of freedom of `variance`
    # deviations of all training runs from their group's mean, scaled to mean 0 and mean square 1, shape (runs,)
    deviations: Floats

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
            noise = self.references.noise / self.references.variance if self.references.variance else 0.0
            return float(np.linalg.norm(self.references.get_nearest_factor_column(t)) * np.sqrt(max(0.0, 1 - noise)))
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
    trainings = [group for board in boards for group in _group_trainings(board)]
    if all(point == UNTOUCHED for point, _ in trainings):
        return None
    unique = {hash_correctness(bits): bits for _, bits in trainings}  # runs with several names are counted once
    groups = [unique[digest] for digest in sorted(unique)]
    freedom = sum(len(bits) - 1 for bits in groups)
    variance, noise = np.sum([compute_between_and_residual_squares(bits) for bits in groups], axis=0) / freedom
    raw = np.concatenate([_compute_scaled_training_deviations(bits) for bits in groups])
    size = np.sqrt(np.mean(raw**2))
    return TrainingVariance(float(variance), float(noise), freedom, raw / size if size > 0 else raw)


def _group_trainings(board: Correctness) -> Iterator[tuple[Point, Bits]]:
    for point, bits in board.correct.items():
        names = np.array(board.references.get(point, ("",) * len(bits)))
        for name in np.unique(names):
            if (group := bits[names == name]).shape[0] > 1 and can_vary(group):
                yield point, group


def can_vary(bits: Bits) -> bool:
    """Return whether the bits can differ between runs; the difference of a cell from itself is always 0."""
    return bits.dtype == np.bool_ or bool(bits.any())


def _compute_scaled_training_deviations(bits: Bits) -> Floats:
    """Return the deviations of training runs from their mean, multiplied by sqrt(n / (n - 1)) to be unbiased."""
    accuracies = bits.mean(1, dtype=np.float64)
    return np.asarray((accuracies - accuracies.mean()) * np.sqrt(len(bits) / (len(bits) - 1)))

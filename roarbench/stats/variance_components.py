"""How much accuracies vary from training to training and from reference to reference, learnt from all cells together.

A result is made by a training (initialisation, order of batches) on rankings that explain one reference network. Two
or three repetitions of one cell say next to nothing about its own spread; those of all cells together do. What the
pools are made of, and the formulas with their sources, is in `docs/statistics.md`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from roarbench.stats.curves import UNTOUCHED, Bits, Correctness, Floats, Point, hash_answers
from roarbench.stats.reference_variance import References, estimate_reference_variance, sum_squares


@dataclass(frozen=True, eq=False)
class Trainings:
    """Spread of the accuracy of a cell with the training alone, pooled over cells."""

    # between trainings on the same rankings, in squared accuracy, with the noise of finitely many images
    variance: float
    noise: float  # that noise: trainings disagree about single images, and this much of it is left in a mean over them
    freedom: int  # degrees of freedom of `variance`
    # those of all trainings from their group's mean, of mean 0 and mean square 1, shape (trainings,)
    deviations: Floats

    @property
    def deviation(self) -> float:
        """Return the standard deviation of a training's true accuracy, in [0, 1]."""
        return float(np.sqrt(max(0.0, self.variance - self.noise)))


@dataclass(frozen=True, eq=False)
class Spread:
    """Spread over trainings on the same rankings, and over references with theirs; None where none was repeated."""

    trainings: Trainings | None
    references: References | None

    def run_deviation(self, explained: bool, t: float) -> float | None:
        """Return the standard deviation of a run's true accuracy, in [0, 1]; None if unknown."""
        if explained and self.references is not None:
            noise = self.references.noise / self.references.variance if self.references.variance else 0.0
            return float(np.linalg.norm(self.references.column(t)) * np.sqrt(max(0.0, 1 - noise)))
        return self.trainings.deviation if self.trainings is not None else None


def estimate_spread(boards: Iterable[Correctness]) -> Spread | None:
    """Pool the spread over trainings and references of all these boards' cells; None if nothing was repeated.

    With one reference, or none, there is the spread over trainings alone. Strangers count only where the suite's own
    rows say nothing, so that nobody's row moves an interval of theirs.
    """
    held = list(boards)
    own = [board.published for board in held]
    found = Spread(
        _trainings(own) or _trainings(held), estimate_reference_variance(own) or estimate_reference_variance(held)
    )
    return found if found.trainings or found.references else None


def _trainings(boards: Sequence[Correctness]) -> Trainings | None:
    """Do a two-way analysis of variance per group of trainings on the same rankings, images by trainings.

    The mean square of trainings estimates n * var(training) + noise, that of the residuals the noise (Searle, Casella,
    McCulloch, Variance Components, 1992, section 4.7). None where nothing but the untouched images was repeated: all
    protocols share those, and they say little about trainings on degraded ones.
    """
    found = [named for board in boards for named in _groups(board)]
    if all(point == UNTOUCHED for point, _ in found):
        return None
    unique = {hash_answers(bits): bits for _, bits in found}  # each training once, whatever its names
    groups = [unique[digest] for digest in sorted(unique)]
    freedom = sum(len(bits) - 1 for bits in groups)
    variance, noise = np.sum([sum_squares(bits) for bits in groups], axis=0) / freedom
    raw = np.concatenate([_deviations(bits) for bits in groups])
    size = np.sqrt(np.mean(raw**2))
    return Trainings(float(variance), float(noise), freedom, raw / size if size > 0 else raw)


def _groups(board: Correctness) -> Iterator[tuple[Point, Bits]]:
    """Yield trainings of a cell on the same rankings, two or more."""
    for point, bits in board.correct.items():
        names = np.array(board.references.get(point, ("",) * len(bits)))
        for name in np.unique(names):
            if (group := bits[names == name]).shape[0] > 1 and has_variance(group):
                yield point, group


def has_variance(bits: Bits) -> bool:
    """Return whether answers could have come out otherwise: a cell differs from itself by 0, whatever happens."""
    return bits.dtype == np.bool_ or bool(bits.any())


def _deviations(bits: Bits) -> Floats:
    """Return the trainings' deviations from their mean, which itself takes a share 1 / trainings of them."""
    accuracies = bits.mean(1, dtype=np.float64)
    deviations: Floats = (accuracies - accuracies.mean()) * np.sqrt(len(bits) / (len(bits) - 1))
    return deviations

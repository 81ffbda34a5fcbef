"""Variance of accuracies and curves between trainings and between explained networks, from all rows together.

What the pool is made of, and the formulas with their sources, is in `docs/statistics.md`.

A result is made by a training (initialisation, order of batches) on rankings that explain one reference network. Two
or three repetitions of one cell say next to nothing about its own spread; those of all cells together do. What the
pools are made of, and the formulas with their sources, is in `docs/statistics.md`.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.curves import UNTOUCHED, Bits, Correctness, Floats, Point, compute_area_weights, hash_answers

PRIORS = 1 / np.linspace(1, 0.001, 100)  # degrees of freedom that a pooled variance may be worth, evenly in 1 / d


@dataclass(frozen=True, eq=False)
class References:
    """Spread of the curve of an explained row with its reference and the trainings on it, pooled over rows."""

    levels: tuple[float, ...]  # ascending; of the columns of `factor`
    # shape (rank, levels). Its product with itself is the covariance between levels of the curve that one reference
    # gives, in squared accuracy
    factor: Floats
    # of what such a curve takes from its row's gain, in squared accuracy, with the noise of finitely many images
    variance: float
    noise: float  # that noise
    shared: float  # share of `variance` that all rows explained by one reference have in common, in [0, 1]
    freedom: float  # degrees of freedom of `variance` (Satterthwaite)
    # degrees of freedom of the part that rows do not share, (rows - 1) (references - 1) if none is missing
    own_freedom: int
    prior: Floats  # how likely each of `PRIORS` is to be what `variance` is worth beside a row's own mean square
    rows: int  # number of curves that it was estimated from
    digest: bytes  # of the answers that it was estimated from

    @property
    def deviation(self) -> float:
        """Return the standard deviation of a row's true gain between references, trained anew, in [0, 1]."""
        return float(np.sqrt(max(0.0, self.variance - self.noise)))

    def column(self, t: float) -> Floats:
        """Return the column of `factor` at a level, or at the nearest one seen twice; shape (rank,)."""
        nearest = min(range(len(self.levels)), key=lambda index: abs(self.levels[index] - t))
        return self.factor[:, nearest]


def estimate_reference_variance(boards: Sequence[Correctness]) -> References | None:
    """Do a two-way analysis of variance of the areas, rows by references.

    After Searle, Casella and McCulloch, Variance Components, 1992, chapter 4.

    None where no row has two references at all its levels. Rows and levels that lack some references count with those
    that they have. The degrees of freedom are Satterthwaite's (1946) for the sum of both mean squares: of K rows that
    share a part rho of their variance, R references are worth (R - 1) / (1/K + (1 - 1/K) rho^2).
    """
    unique = {curve.digest: curve for board in boards for curve in compute_reference_curves(board).values()}
    curves = [unique[digest] for digest in sorted(unique)]
    repeated = [curve for curve in curves if len(curve.areas) > 1]
    if not repeated:
        return None
    areas, noise = [curve.areas for curve in repeated], 0.0
    for curve in repeated:
        noise += curve.noise
    networks = sorted({name for found in areas for name in found})
    deviations = _deviations(areas, networks)
    variance, shared, own_freedom = split_deviations(deviations)
    rows, freedom = len(areas), np.isfinite(deviations).sum(1) - 1
    return References(
        *_factor(curves),
        variance,
        noise / sum(len(found) - 1 for found in areas),
        shared,
        (len(networks) - 1) / (1 / rows + (1 - 1 / rows) * shared**2),
        own_freedom,
        weigh_priors(np.nansum(deviations**2, 1) / freedom, freedom),
        rows,
        hashlib.sha256(b"".join(curve.digest for curve in curves)).digest()[:16],
    )


def _deviations(areas: Sequence[dict[str, float]], networks: Sequence[str]) -> Floats:
    """Return what each area has beyond its row's mean, (rows, networks); NaN where a row has no such network."""
    made = np.full((len(areas), len(networks)), np.nan)
    for row, area in zip(made, areas, strict=True):
        if area:
            means = np.array(list(area.values()))
            row[[networks.index(name) for name in area]] = means - means.mean()
    return made


def weigh_priors(squares: Floats, freedom: NDArray[np.int64]) -> Floats:
    """Return how likely each of `PRIORS` is, from how much rows differ in their variance; it sums to 1.

    The mean square of a row, in units of their mean, follows F with its own degrees of freedom and those of the prior
    (Smyth 2004): the fewer these, the more rows differ.

    Args:
        squares: Mean square of each row, shape (rows,).
        freedom: Its degrees of freedom, of the same shape.
    """
    mean, own = np.average(squares, weights=freedom) or 1.0, freedom[:, None]
    both, lgamma = (PRIORS + own) / 2, np.vectorize(math.lgamma)
    found = lgamma(both) - lgamma(PRIORS / 2) - own / 2 * np.log(PRIORS)
    found = (found - both * np.log1p(own * squares[:, None] / mean / PRIORS)).sum(0)
    likely = np.exp(found - found.max())
    shares: Floats = likely / likely.sum()
    return shares


@dataclass(frozen=True, eq=False)
class ReferenceCurve:
    """Answers of one explained row, averaged over the trainings on each reference.

    Means over the images alone: the answers of all rows are too many to keep as numbers.
    """

    # accuracies by level in ascending order, and by name of the reference in that of the names
    means: dict[float, dict[str, float]]
    areas: dict[str, float]  # what the curve takes from a gain, by name, of references with all its levels above 0
    noise: float  # how much the areas vary because images are finitely many, as `squares` has it; 0 of one reference
    digest: bytes  # of its answers under all references and levels, 16 bytes

    @property
    def square(self) -> tuple[float, int]:
        """Return the mean square of its area over references, and its degrees of freedom; both 0 of one reference."""
        means = list(self.areas.values())
        return (float(np.var(means, ddof=1)), len(means) - 1) if len(means) > 1 else (0.0, 0)


@lru_cache(4)  # the spread is learnt from the boards that are drawn next
def compute_reference_curves(board: Correctness) -> dict[str, ReferenceCurve]:
    """Return the curves of all explained rows."""
    levels = defaultdict[str, list[float]](list)
    for estimator, t in board.references:
        levels[estimator].append(t)
    return {name: _curve(board, name, sorted(held)) for name, held in levels.items()}


def _curve(board: Correctness, estimator: str, levels: Sequence[float]) -> ReferenceCurve:
    answers = {t: _by_reference(board, (estimator, t)) for t in levels}
    above = [answers[t] for t in levels if t > 0]
    whole = sorted(set.intersection(*map(set, above))) if above else []
    weights = compute_area_weights((0.0, *(t for t in levels if t > 0)))[1:] if above else np.empty(0)
    areas = {name: weights @ np.stack([each[name] for each in above]) for name in whole}
    return ReferenceCurve(
        {t: {name: float(each.mean()) for name, each in held.items()} for t, held in answers.items()},
        {name: float(area.mean()) for name, area in areas.items()},
        float(sum_squares(np.stack(list(areas.values())))[1]) if len(areas) > 1 else 0.0,
        hashlib.sha256(b"".join(hash_answers(board.correct[estimator, t]) for t in levels)).digest()[:16],
    )


def _by_reference(board: Correctness, point: Point) -> dict[str, Floats]:
    """Return the answers of a cell by reference, in the order of their names, each the mean of its trainings."""
    answers, references = board.correct[point].astype(np.float64), board.references[point]
    if len(set(references)) == len(references):  # the mean of one training is itself
        return dict(sorted(zip(references, answers, strict=True)))
    names = np.array(references)
    return {name: answers[names == name].mean(0) for name in sorted(set(references))}


def split_deviations(deviations: Floats) -> tuple[float, float, int]:
    """Split deviations of rows from their own means into what a reference has in common over rows, and the rest.

    By the method of moments: the mean square of all estimates the whole variance, that of what is left beside the
    references' means the part that rows do not share.

    Args:
        deviations: Shape (rows, references), NaN where missing; every row has two or more, of mean 0.

    Returns:
        The variance between references; the share of it that rows have in common, in [0, 1]; degrees of freedom of
        the rest.
    """
    freedom = np.isfinite(deviations).sum() - len(deviations)
    own_freedom = int(freedom) - (deviations.shape[1] - 1)
    variance = float(np.nansum(deviations**2) / freedom)
    if own_freedom < 1 or variance == 0:  # one row shares all with itself
        return variance, 1.0, 0
    own = float(np.nansum((deviations - np.nanmean(deviations, axis=0)) ** 2)) / own_freedom
    return variance, float(np.clip(1 - own / variance, 0, 1)), own_freedom


def _factor(held: Sequence[ReferenceCurve]) -> tuple[tuple[float, ...], Floats]:
    """Return the levels that some row has with two references, and a root of the covariance of curves between them.

    A row that lacks a level counts with 0 there, and each level is divided by its own degrees of freedom, so that every
    variance is unbiased and the whole is a covariance.
    """
    levels = tuple(sorted({t for curve in held for t, names in curve.means.items() if len(names) > 1}))
    networks = sorted({name for curve in held for names in curve.means.values() for name in names})
    deviations = np.stack([_deviations([curve.means.get(t, {}) for curve in held], networks) for t in levels], -1)
    freedom = np.maximum(0, np.isfinite(deviations).sum(1) - 1).sum(0)
    deviations = np.nan_to_num(deviations).reshape(-1, len(levels))
    root = np.asarray(np.linalg.qr(deviations / np.sqrt(freedom), mode="r"))
    return levels, root * np.where(np.diag(root) < 0, -1.0, 1.0)[:, None]  # QR leaves the signs of rows open


def sum_squares(answers: Bits | Floats) -> Floats:
    """Sum the squares of repetitions by images, divided by the images.

    Shape (2,): that of the repetitions, and that of what is left beside repetitions and images, per degree of freedom
    of the images.
    """
    images = answers.shape[1]
    accuracies = answers.mean(1, dtype=np.float64)
    between = float(((accuracies - accuracies.mean()) ** 2).sum())
    within = float(((answers - answers.mean(0, dtype=np.float64)) ** 2).sum())  # of repetitions and rest together
    return np.array([between, (within - images * between) / (images - 1) / images])


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
    raw = np.concatenate([_training_deviations(bits) for bits in groups])
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


def _training_deviations(bits: Bits) -> Floats:
    """Return the trainings' deviations from their mean, which itself takes a share 1 / trainings of them."""
    accuracies = bits.mean(1, dtype=np.float64)
    deviations: Floats = (accuracies - accuracies.mean()) * np.sqrt(len(bits) / (len(bits) - 1))
    return deviations

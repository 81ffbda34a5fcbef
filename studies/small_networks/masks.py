"""What the study asks of its results: what masks alone tell, and what trainings of the same seed have in common."""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from roarbench.analysis.collecting import collect
from roarbench.analysis.evidence import Evidence
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.runs import CLEAN
from roarbench.plan.suites import find_suite
from roarbench.stats.agreement import Agreement, agreement
from roarbench.stats.board import RANDOM
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, estimate
from roarbench.stats.curves import Bits
from roarbench.stats.draws import image_weights
from roarbench.store.results import DEFAULT_FILE, ResultsStore, default_url
from roarbench.terms import Unit

SUITES = {  # images a split; None: all
    "study-fashion-mnist@1": None,
    "study-imagenette64@1": None,
    "study-imagenette128@1": None,
    "study-cifar10@1": 20_000,
}
T = 0.9  # where masks alone were tested


class StudyPart(NamedTuple):
    """One data set at one unit."""

    dataset: str
    unit: Unit
    evidence: Evidence

    @property
    def title(self) -> str:
        """Return data set and unit; a single channel has one unit only."""
        return f"{self.dataset}, {'either unit' if self.dataset == 'fashion-mnist' else self.unit}"

    @property
    def rows(self) -> list[str]:
        """Return estimators and controls without checks."""
        return [name for name in self.evidence.roar.scores.estimators if find_estimator(name).placed]


class MaskLeak(NamedTuple):
    """Accuracies at `T`: on degraded images, from the removal masks alone, and on Random's degraded images."""

    estimator: str
    images: Sample
    masks: Sample
    random: Sample


class MaskExplanation(NamedTuple):
    """Extent to which masks alone explain what is kept at `T`.

    Attributes:
        order: Do estimators whose masks tell more also keep more accuracy? Kendall's tau.
        above: Rows that keep significantly more accuracy than Random.
        beat: Of those, the rows whose masks alone are significantly above Random's images.
        whole: Of those, the rows whose masks alone are not significantly below their own images.
    """

    order: Agreement | None
    above: list[str]
    beat: list[str]
    whole: list[str]


def read_parts(store: Path) -> list[StudyPart]:
    """Read every data set and unit that has results, with draws that are shared by all tables.

    Read from a copy, which is brought to the newest schema: the store stays as it is.
    """
    parts = []
    with TemporaryDirectory() as copy:
        _copy_results(store, Path(copy))
        with ResultsStore.open(default_url(Path(copy))) as results:
            helds = [collect(find_suite(name), results, limit) for name, limit in SUITES.items()]
    for held in (held for held in helds if held.results):
        units = dict.fromkeys(point.cell.unit for point in held.results if point.cell.estimator != CLEAN)
        parts += [StudyPart(held.suite.dataset, unit, Evidence(held, unit, Bootstrap())) for unit in units]
    return parts


def _copy_results(store: Path, folder: Path) -> None:
    with closing(sqlite3.connect(store / DEFAULT_FILE)) as connection:
        connection.execute("VACUUM INTO ?", [str(folder / DEFAULT_FILE)])


def leaks(part: StudyPart) -> list[MaskLeak]:
    """Return the rows, without Random, whose images and masks were both learned from."""
    images, masks = part.evidence.roar.draws, part.evidence.masks.draws
    random = images.accuracy((RANDOM, T))
    found = [(name, images.accuracy((name, T)), masks.accuracy((name, T))) for name in part.rows if name != RANDOM]
    return [MaskLeak(name, seen, alone, random) for name, seen, alone in found if seen and alone and random]


def explained(rows: Sequence[MaskLeak], confidence: float, repeated: bool = True) -> MaskExplanation:
    """Compare the masks with the images, row by row.

    Args:
        rows: Accuracies.
        confidence: Of each interval.
        repeated: Whether trainings on masks were; if not, nothing says how they vary: no row beats or equals anything,
            and tau has no interval.
    """
    above = [row for row in rows if _sign(row.images.minus(row.random), confidence) > 0]
    order = agreement(
        {row.estimator: row.masks for row in rows}, {row.estimator: row.images for row in rows}, confidence
    )
    if not repeated:
        return MaskExplanation(
            order and order._replace(tau=Estimate(order.tau.value)), [row.estimator for row in above], [], []
        )
    return MaskExplanation(
        order,
        [row.estimator for row in above],
        [row.estimator for row in above if _sign(row.masks.minus(row.random), confidence) > 0],
        [row.estimator for row in above if _sign(row.masks.minus(row.images), confidence) >= 0],
    )


def _sign(sample: Sample, confidence: float) -> int:
    """Return 1 or -1 where the interval keeps to one side of 0, else 0."""
    _, low, high = estimate(sample, confidence)
    return int(low > 0) - int(high < 0)  # type: ignore[operator]


def seed_likeness(cells: Sequence[Bits], pairs: Iterable[tuple[int, int]], bootstrap: Bootstrap) -> Estimate:
    """Estimate how much more alike two trainings of different cells are when they share the seed number.

    Returns the covariance, over images, of answers of the same seed minus that of different seeds, as a share of what
    two seeds of one cell disagree; 0 if seed numbers of different cells have nothing in common, 1 at most.

    Args:
        cells: Bits of two seeds each, (2, images).
        pairs: Which cells are compared.
        bootstrap: Of the images.
    """
    gaps = np.stack([bits[0].astype(np.float64) - bits[1] for bits in cells])
    one, other = np.array(list(pairs)).T
    products, squares = (gaps[one] * gaps[other]).mean(0), (gaps**2).mean(0)
    draws = [weights @ np.stack([products, squares], axis=1) for weights in image_weights(gaps.shape[1], bootstrap)]
    sums = np.concatenate(draws)
    value = float(products.mean() / squares.mean())
    return estimate(Sample(value, sums[:, 0] / sums[:, 1]), bootstrap.confidence)


def luck_along_curves(parts: Sequence[StudyPart]) -> tuple[float, float, int]:
    """Test whether the seeds of one estimator's levels have their luck in common.

    Returns:
        Correlation of the seeds' difference in accuracy between levels of one estimator, its p by 10,000 shuffles of
        the estimators within each level, and the number of pairs.
    """
    tables = [table for table in map(_seed_gaps, parts) if len(table)]
    generator = np.random.default_rng(0)
    real = _between_levels(tables)
    shuffled = [_between_levels([generator.permuted(table, axis=0) for table in tables]) for _ in range(10_000)]
    p = (1 + sum(abs(value) >= abs(real) for value in shuffled)) / (1 + len(shuffled))
    return real, p, sum(len(table) * len(list(combinations(range(table.shape[1]), 2))) for table in tables)


def _seed_gaps(part: StudyPart) -> np.ndarray:
    """Return seed 0 minus seed 1 in accuracy, (estimators, levels), in standard deviations around each level's mean."""
    scores = part.evidence.roar.scores
    whole = [name for name in part.rows if all((name, t) in scores.correct for t in scores.levels)]
    curves = [[scores.correct[name, t] for t in scores.levels] for name in whole]
    gaps = np.array([[b[0].mean() - b[1].mean() for b in curve] for curve in curves if min(map(len, curve)) == 2])
    return (gaps - gaps.mean(0)) / gaps.std(0) if len(gaps) else gaps


def _between_levels(tables: Sequence[np.ndarray]) -> float:
    products = [table[:, one] * table[:, other] for table in tables for one, other in _level_pairs(table)]
    return float(np.concatenate(products).mean())


def _level_pairs(table: np.ndarray) -> Iterable[tuple[int, int]]:
    return combinations(range(table.shape[1]), 2)

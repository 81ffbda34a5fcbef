"""Contrasts with known values and covariance, for tests of intervals, verdicts and ranks."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from roarbench.stats.contrasts import Contrast, Quantities
from roarbench.stats.correctness_and_gain import Correctness

LEVELS = (0.5, 0.9)


def make_contrasts(values: Sequence[float], covariance: Any = 1.0, images: int = 10**9) -> list[Contrast]:
    """Return numbers that vary with images, by default very many; a scalar covariance is of independent numbers."""
    count = len(values)
    matrix = np.asarray(covariance) if np.ndim(covariance) == 2 else np.eye(count) * np.asarray(covariance)
    index, exact = {number: number for number in range(count)}, [Fraction(value) for value in values]
    quantities = Quantities.from_images(index, exact, np.zeros((count, 0)), np.ones(count))
    quantities = replace(quantities, image_count=images)
    vars(quantities)["images"] = matrix  # instead of the covariance of sums
    return [quantities[number] for number in range(count)]


def make_explained_rows(rows: int, networks: int, trainings: int = 1, images: int = 60, seed: int = 0) -> Correctness:
    """Return rows with explained networks, training s with network s mod their number, and a control."""
    generator = np.random.default_rng(seed)
    names = tuple(f"e{row}" for row in range(rows))
    difficulty = generator.normal(size=images)
    correct = {}
    for point in [(name, t) for name in (*names, "random") for t in LEVELS]:
        luck = 0.5 * generator.normal(size=(networks, 1))[np.arange(networks * trainings) % networks]
        correct[point] = difficulty + luck + generator.normal(size=(networks * trainings, images)) > 0
    which = tuple(f"r{s % networks}" for s in range(networks * trainings))
    return Correctness((*names, "random"), LEVELS, correct, references={(n, t): which for n in names for t in LEVELS})

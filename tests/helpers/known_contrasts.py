"""Contrasts with known values and covariance, for tests of intervals, verdicts and ranks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from roarbench.stats.contrasts import Contrast, Quantities


def make_contrasts(values: Sequence[float], covariance: Any = 1.0, images: int = 10**9) -> list[Contrast]:
    """Return numbers that vary with images, by default very many; a scalar covariance is of independent numbers."""
    count = len(values)
    matrix = np.asarray(covariance) if np.ndim(covariance) == 2 else np.eye(count) * np.asarray(covariance)
    index = {number: number for number in range(count)}
    quantities = Quantities.from_images(index, np.asarray(values, np.float64), matrix, images)
    return [quantities[number] for number in range(count)]

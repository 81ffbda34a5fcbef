"""All pairs of some numbers: how far each two differ, and how far the draws say that they may be off."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.bootstrap import Sample, compute_quantile
from roarbench.stats.curves import Floats


@dataclass(frozen=True, eq=False)
class Pairs:
    """Numbers with paired draws. Row by row, for the draws of all pairs at once would fill 320 MB for 200 numbers."""

    values: Floats  # shape (n,)
    draws: Floats  # of the values, shape (n, resamples)
    confidence: float  # of the interval of a difference, in (0, 1)

    @classmethod
    def of(cls, samples: Sequence[Sample], confidence: float) -> Self:
        """Return the pairs of these samples."""
        return cls(np.array([one.value for one in samples]), np.array([one.draws for one in samples]), confidence)

    @cached_property
    def upper(self) -> NDArray[np.bool_]:
        """Return True once for every pair, shape (n, n)."""
        return np.triu(np.ones((len(self.values), len(self.values)), dtype=np.bool_), 1)

    @cached_property
    def differences(self) -> Floats:
        """Return the values' differences, the row's minus the column's, shape (n, n)."""
        return self.values[:, None] - self.values[None, :]

    @cached_property
    def halves(self) -> Floats:
        """Return half the width of every difference's interval, where `upper` is True, shape (n, n)."""
        found = np.zeros_like(self.differences)
        for one in range(len(found) - 1):
            found[one, one + 1 :] = compute_quantile(self._deviations(one, slice(one + 1, None)), self.confidence)
        return found

    def largest(self, chosen: NDArray[np.bool_]) -> Floats:
        """Return the largest deviation among chosen pairs in each draw, in half widths, shape (resamples,)."""
        found = np.zeros(self.draws.shape[1])
        for one, others in enumerate(chosen):
            if others.any():
                shares = self._deviations(one, others)
                shares /= self.halves[one, others, None]
                np.maximum(found, shares.max(0), out=found)
        return found

    def _deviations(self, one: int, others: NDArray[np.bool_] | slice) -> Floats:
        """Return how far each difference to the others is from its value in each draw, (others, resamples)."""
        found: Floats = self.draws[one] - self.draws[others]
        found -= self.differences[one, others, None]
        return np.abs(found, out=found)

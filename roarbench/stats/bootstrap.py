"""What a bootstrap is, and what comes of it: numbers with their draws, and intervals."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roarbench.stats.curves import POINTS, Floats


@dataclass(frozen=True)
class Bootstrap:
    """All that fixes the draws.

    Attributes:
        seed: Where their chance comes from.
        confidence: Share of intervals that should hold the truth.
    """

    resamples: int = 2000
    seed: int = 0
    confidence: float = 0.95


class Sample(NamedTuple):
    """A number with its draws.

    Attributes:
        value: From the data as they are.
        draws: From the draws, shape (resamples,).
    """

    value: float
    draws: Floats

    def minus(self, other: "Sample") -> "Sample":
        """Return the difference, draw by draw."""
        return Sample(self.value - other.value, self.draws - other.draws)


class Estimate(NamedTuple):
    """A number with its interval; None is missing."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def in_points(self) -> "Estimate":
        """Return a fraction in accuracy points, or in percent."""
        return Estimate(*(None if end is None else POINTS * end for end in self))


def half_width(sample: Sample, confidence: float) -> float:
    """Return half the width of the interval around the value that holds this share of its draws."""
    return float(quantile(np.abs(sample.draws - sample.value), confidence))


def quantile(numbers: Floats, share: float) -> Floats:
    """Return what `np.quantile` returns over the last axis of finite numbers, to the bit, in a fraction of its time."""
    last = numbers.shape[-1] - 1
    position = last * share
    low = int(position)
    above = last - low
    kept = _largest(numbers, above + 1) if numbers.ndim == 2 else numbers
    place = kept.shape[-1] - 1 - above
    ordered = np.partition(kept, place, axis=-1)  # by one place: by two it takes four times as long
    one, part = ordered[..., place], position - low
    two = ordered[..., place + 1 :].min(-1) if above else one
    found: Floats = one + (two - one) * part if part < 0.5 else two - (two - one) * (1 - part)
    return found


def _largest(numbers: Floats, count: int) -> Floats:
    """Return this many of the largest numbers of each row, or more, behind as much of -inf as others have more.

    A tenth of each row says from where on: to compare all with that takes half the time of ordering them.
    """
    tenth = numbers[:, ::10]
    place = max(0, tenth.shape[1] - 1 - count // 4)  # two and a half times as many as are asked for
    kept = numbers >= np.partition(tenth, place, axis=1)[:, place, None]
    held = kept.sum(1)
    if held.min() < count:
        return numbers
    found = np.full((len(numbers), held.max()), -np.inf)
    found[np.arange(held.max()) >= held.max() - held[:, None]] = numbers[kept]
    return found


def estimate(sample: Sample, confidence: float) -> Estimate:
    """Return the value with its interval, the same distance to both sides."""
    half = half_width(sample, confidence)
    return Estimate(sample.value, sample.value - half, sample.value + half)

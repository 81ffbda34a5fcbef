"""What a bootstrap is, and what comes of it: numbers with their draws, and intervals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from roarbench.stats.curves import Floats

if TYPE_CHECKING:
    from roarbench.stats.draws import Draws as Draws
    from roarbench.stats.draws import draw as draw
    from roarbench.stats.draws import image_weights as image_weights
    from roarbench.stats.spread import Spread, spread_of

    SeedSpread: TypeAlias = Spread
    seed_spread = spread_of


@dataclass(frozen=True)
class Bootstrap:
    """All that fixes the draws.

    Attributes:
        resamples: Number of draws.
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
        """The difference, draw by draw."""
        return Sample(self.value - other.value, self.draws - other.draws)


class Estimate(NamedTuple):
    """A number with its interval; None is missing."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


def half_width(sample: Sample, confidence: float) -> float:
    """Half the width of the interval around the value that holds this share of its draws."""
    return float(np.quantile(np.abs(sample.draws - sample.value), confidence))


def estimate(sample: Sample, confidence: float) -> Estimate:
    """The value with its interval, the same distance to both sides."""
    half = half_width(sample, confidence)
    return Estimate(sample.value, sample.value - half, sample.value + half)


def __getattr__(name: str) -> Any:
    """What has moved, under its old name, until its last reader is changed."""
    from roarbench.stats import draws, spread

    moved = {"Draws": draws.Draws, "draw": draws.draw, "image_weights": draws.image_weights}
    moved |= {"SeedSpread": spread.Spread, "seed_spread": spread.spread_of}
    if name not in moved:
        raise AttributeError(name)
    return moved[name]

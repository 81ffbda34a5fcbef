"""Estimate numbers and ratios with intervals that come from the same distribution as p values."""

from collections.abc import Hashable, Mapping
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple, TypeVar

import numpy as np

from roarbench.stats.contrasts import Contrast, measure_spreads
from roarbench.stats.correctness_and_gain import POINTS
from roarbench.stats.normal_mixtures import Spread, compute_half_widths

CONFIDENCE = 0.95  # of all intervals

Key = TypeVar("Key", bound=Hashable)


class Estimate(NamedTuple):
    """A number with its interval; missing numbers are None."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def in_points(self) -> "Estimate":
        """Convert a fraction to accuracy points or percent."""
        return Estimate(*(None if end is None else POINTS * end for end in self))

    def limit(self, most: float) -> "Estimate":
        """Return the estimate with an interval inside -most to most, beyond which the number cannot be."""
        return Estimate(self.value, *(None if end is None else min(max(end, -most), most) for end in self[1:]))

    @property
    def negative(self) -> "Estimate":
        """Return the estimate with the opposite sign."""
        value, low, high = (None if end is None else -end + 0.0 for end in self)  # + 0.0 turns -0 into 0
        return Estimate(value, high, low)


def estimate(contrast: Contrast) -> Estimate:
    return estimate_all({"": contrast})[""]


def estimate_all(contrasts: Mapping[Key, Contrast], repeated: bool = False) -> dict[Key, Estimate]:
    """Return numbers with their symmetric intervals; with `repeated`, the intervals predict a replication's numbers."""
    return add_intervals(contrasts, measure_spreads(list(contrasts.values()), repeated))


def add_intervals(contrasts: Mapping[Key, Contrast], spread: Spread) -> dict[Key, Estimate]:
    """Return numbers with their symmetric intervals, from their spread.

    A number that is 0 on every image, or of a single image, has no interval: it does not show how far others may be.
    """
    halves = compute_half_widths(spread, CONFIDENCE).tolist()
    return {
        key: Estimate(contrast.value, *((contrast.value - half, contrast.value + half) * bool(half)))
        for (key, contrast), half in zip(contrasts.items(), halves, strict=True)
    }


def estimate_shares(contrasts: Mapping[Key, Contrast]) -> dict[Key, Estimate]:
    """Return accuracies with intervals inside [0, 1], which are not symmetric (Wilson 1927).

    The interval holds every share p from which the measured share is at most as far as sqrt(p (1 - p)) permits, in the
    proportion of the half width to sqrt(p (1 - p)) at the measured share. At 0 and 1, images alone count. A share
    of a single image has an interval only at 0 and 1.
    """
    estimates = {}
    halves = compute_half_widths(measure_spreads(list(contrasts.values())), CONFIDENCE).tolist()
    for (key, contrast), half in zip(contrasts.items(), halves, strict=True):
        share = min(1.0, max(0.0, contrast.value))
        spread = share * (1 - share)
        if spread == 0:
            ratio = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) ** 2 / max(1, contrast.quantities.image_count)
        else:
            ratio = half**2 / spread
        middle, reach = (share + ratio / 2) / (1 + ratio), sqrt(ratio * spread + ratio**2 / 4) / (1 + ratio)
        low, high = (0.0 if share == 0 else middle - reach), (1.0 if share == 1 else middle + reach)
        ends = float(max(0.0, low)), float(min(1.0, high))
        estimates[key] = Estimate(contrast.value, *(ends if ratio else ()))
    return estimates


def estimate_ratio(numerator: Contrast, denominator: Contrast) -> Estimate:
    """Estimate a ratio; missing if `denominator` is not significantly above 0.

    The interval holds every c for which the interval of `numerator - c * denominator` includes 0 (Fieller, Some
    problems in interval estimation, 1954). Its lower end therefore exceeds c exactly if `numerator` is significantly
    above c times `denominator`. The interval is bounded because the interval of `denominator` is above 0.
    """
    contrasts = [numerator, denominator, denominator.subtract(numerator)]  # in the order of other differences
    spread = measure_spreads(contrasts)
    top, bottom = compute_half_widths(Spread(*(part[:2] for part in spread)), CONFIDENCE).tolist()
    one, other, both = spread.totals.tolist()
    if not 0 < bottom < denominator.value:
        return Estimate()
    correlation = (one + other - both) / 2 / float(np.sqrt(one * other)) if one and other else 0.0
    # the ends are the roots of square * c^2 - 2 * middle * c + rest
    square = denominator.value**2 - bottom**2
    middle = numerator.value * denominator.value - top * bottom * min(1.0, max(-1.0, correlation))
    rest = numerator.value**2 - top**2
    reach = float(np.sqrt(max(0.0, middle**2 - square * rest)))
    return Estimate(numerator.value / denominator.value, (middle - reach) / square, (middle + reach) / square)

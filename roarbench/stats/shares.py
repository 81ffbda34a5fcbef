"""What part of a number another number is, with the interval of a ratio."""

import numpy as np

from roarbench.stats.bootstrap import Estimate, Sample, half_width


def share(part: Sample, whole: Sample, confidence: float) -> Estimate:
    """Return `part / whole`, paired draws, with its interval; missing where the whole is not significantly above 0.

    The interval has every c that `part - c * whole` does not exclude (Fieller, Some problems in interval estimation,
    1954), so that its lower end is above c exactly where `part` is significantly above c times `whole`. It is closed
    where the whole's own interval is above 0; elsewhere any share may be true.
    """
    wide, own = half_width(whole, confidence), half_width(part, confidence)
    if whole.value <= wide:
        return Estimate()
    shared = wide * own * _correlation(part, whole)
    square = whole.value**2 - wide**2
    middle = part.value * whole.value - shared
    rest = part.value**2 - own**2
    reach = float(np.sqrt(max(0.0, middle**2 - square * rest)))
    return Estimate(part.value / whole.value, (middle - reach) / square, (middle + reach) / square)


def _correlation(one: Sample, other: Sample) -> float:
    """Return the correlation of the draws about their values; 0 where one of them does not vary."""
    a, b = one.draws - one.value, other.draws - other.value
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else 0.0

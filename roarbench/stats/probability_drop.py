"""Compute how far the probability of the predicted class drops as features are removed, with intervals over images."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roarbench.stats.contrasts import measure_means
from roarbench.stats.correctness_and_gain import Floats
from roarbench.stats.intervals import Estimate, estimate


class ProbabilityDrop(NamedTuple):
    """Softmax probability of the class predicted on the untouched image, with intervals over test images."""

    untouched: Estimate  # mean probability on untouched images, p_0, in [0, 1]
    probabilities: tuple[Estimate, ...]  # mean probability per level, p_k
    # mean of |p_0 - p_k| / p_0 per level, at least 0 (Khakzar et al. 2021, as in their code)
    changes: tuple[Estimate, ...]
    # mean of p_0 - p_k over images and levels above 0, in [-1, 1] (Samek et al. 2017); missing if a level is missing
    aopc: Estimate


def compute_probability_drop(untouched: Floats, degraded: Sequence[Floats | None]) -> ProbabilityDrop:
    """Compute the mean probabilities, relative changes and AOPC of one estimator and order.

    Args:
        untouched: Probability p_0 of every image, in (0, 1], shape (images,).
        degraded: Probability p_k of every image at each level, in [0, 1], shape (images,); None for a missing level.
    """
    drops = [None if row is None else untouched - row for row in degraded]
    whole = [drop for drop in drops if drop is not None]
    return ProbabilityDrop(
        _estimate_mean(untouched),
        tuple(map(_estimate_mean, degraded)),
        tuple(_estimate_mean(None if drop is None else np.abs(drop) / untouched) for drop in drops),
        _estimate_mean(np.mean(whole, axis=0) if len(whole) == len(drops) else None),
    )


def _estimate_mean(values: Floats | None) -> Estimate:
    return Estimate() if values is None else estimate(measure_means(values[None])[0])

"""Compute scores without retraining: the change of the explained network's probabilities as features are removed.

All scores use the softmax probability of the class predicted on the untouched image. Nothing is trained, so the test
images are the only random factor.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from roarbench.stats.bootstrap_intervals import Estimate, Sample
from roarbench.stats.curves import POINTS, Correctness, Floats, compute_area_weights
from roarbench.stats.resampling import Draws


class ProbabilityDrop(NamedTuple):
    """Drop of the predicted class's probability, with intervals over test images; missing numbers are None."""

    untouched: Estimate  # mean probability of the predicted class on clean images, p_0, in [0, 1]
    # mean probability of the clean image's predicted class, p_k, per level
    probabilities: tuple[Estimate, ...]
    # mean of |p_0 - p_k| / p_0 per level, at least 0 (Khakzar et al. 2021, as in their code)
    changes: tuple[Estimate, ...]
    # mean of p_0 - p_k over images and levels above 0, in [-1, 1] (Samek et al. 2017); missing if a level is missing
    aopc: Estimate


def compute_probability_drop(untouched: Floats, degraded: Sequence[Floats | None]) -> ProbabilityDrop:
    """Compute AOPC and related scores of one estimator and order.

    Args:
        untouched: p_0 of every image, in (0, 1], shape (images,).
        degraded: p_k of every image at each level, in [0, 1], shape (images,) each; None for a missing level.
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
    """Return a mean over images with its 95 % interval by the central limit theorem; one image has no interval."""
    if values is None:
        return Estimate()
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean)
    half = NormalDist().inv_cdf(0.975) * float(values.std(ddof=1)) / sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def compute_areas_between_lerf_and_morf(scores: Correctness, morf: Draws, lerf: Draws) -> dict[str, Sample]:
    """Return the areas between LeRF and MoRF curves, in accuracy points, of rows that are complete and consistent.

    Larger is better, and no control is needed. With retraining this is DiffROAR (Shah et al. 2021), without retraining
    SRG (Bluecher et al. 2024). `scores.inconsistent` must include the rows that are inconsistent under either order;
    `morf` and `lerf` have the same images, levels and bootstrap.
    """
    weights = POINTS * compute_area_weights((0.0, *scores.levels))
    gaps = {}
    for name in scores.estimators:
        curve = scores.list_points(name)
        if name not in scores.inconsistent and all(point in draws.column for draws in (morf, lerf) for point in curve):
            # both curves have the same accuracy at t = 0
            both = weights[1:] @ (lerf.stack_accuracies(curve[1:]) - morf.stack_accuracies(curve[1:]))
            gaps[name] = Sample(float(both[0]), both[1:])
    return gaps

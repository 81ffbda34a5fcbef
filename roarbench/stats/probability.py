"""Scores without retraining: how the reference's own outputs change as features go.

All take the softmax probability of the class that was predicted on the untouched image, and count images alone as
chance: nothing is trained here.
"""

from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from roarbench.stats.bootstrap import Estimate, Sample
from roarbench.stats.curves import POINTS, Floats, Scores, area_weights
from roarbench.stats.draws import Draws


class Drop(NamedTuple):
    """Fall of the probability of the predicted class.

    Attributes:
        aopc: Mean over images and levels of p_0 - p_k, in [-1, 1] (Samek et al. 2017), without
            the level 0, whose difference is 0.
        relative: Mean over images of |p_0 - p_k| / p_0, one per level (Khakzar et al. 2021, the code's measure).
        probabilities: Mean of p_k, one per level, in [0, 1].
    """

    aopc: Estimate
    relative: tuple[Estimate, ...]
    probabilities: tuple[Estimate, ...]


def probability_drop(untouched: Floats, degraded: Floats) -> Drop:
    """Return AOPC and its kin of one estimator and order.

    Args:
        untouched: p_0 of every image, in (0, 1], shape (images,).
        degraded: p_k of every level and image, in [0, 1], shape (levels, images).

    Raises:
        ValueError: The shapes do not fit, or a p_0 is not above 0.
    """
    if degraded.ndim != 2 or degraded.shape[1:] != untouched.shape:
        raise ValueError(f"degraded must be (levels, {len(untouched)}), one per untouched image, got {degraded.shape}")
    if untouched.min() <= 0:
        raise ValueError("the probability of a predicted class is above 0, got one that is not")
    drops = untouched - degraded
    aopc, *others = (_mean(row) for row in (drops.mean(0), *(np.abs(drops) / untouched), *degraded))
    return Drop(aopc, tuple(others[: len(degraded)]), tuple(others[len(degraded) :]))


def _mean(values: Floats) -> Estimate:
    """Return a mean over images with its interval of 95% by the central limit theorem; one image has none."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean)
    half = NormalDist().inv_cdf(0.975) * float(values.std(ddof=1)) / sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def order_gaps(scores: Scores, morf: Draws, lerf: Draws) -> dict[str, Sample]:
    """Return the areas between LeRF and MoRF curves, in accuracy points, where both are complete and not mixed.

    Larger is better, and no control is needed. Retrained, this is DiffROAR (Shah et al. 2021), without retraining SRG
    (Bluecher et al. 2024).

    Args:
        scores: Those of one of the orders, for rows and levels; mixed in it are those of either order.
        morf: Draws of the one order.
        lerf: Draws of the other one, on the same images and levels and from the same bootstrap.
    """
    weights = POINTS * area_weights((0.0, *scores.levels))
    gaps = {}
    for name in scores.estimators:
        curve = scores.curve(name)
        if name not in scores.mixed and all(point in draws.column for draws in (morf, lerf) for point in curve):
            both = weights[1:] @ (lerf.curve(curve[1:]) - morf.curve(curve[1:]))  # the same network at t = 0
            gaps[name] = Sample(float(both[0]), both[1:])
    return gaps

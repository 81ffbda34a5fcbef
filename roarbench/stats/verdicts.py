"""Which estimators differ from a control, and how small a difference could have been found."""

from collections.abc import Hashable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.stats import false_discovery_control, norm

from roarbench.stats.bootstrap import Sample
from roarbench.stats.pairs import Pairs

FALSE_DISCOVERIES = 0.05  # share of wrong verdicts among all "better" and "worse" of a board
POWER = 0.8  # the usual chance of finding a difference that is called detectable (Cohen 1988)

Key = TypeVar("Key", bound=Hashable)


class Verdict(StrEnum):
    """What a test says about an estimator beside a control."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "not told apart"


class Comparison(NamedTuple):
    """An estimator against a control.

    Attributes:
        verdict: At a false discovery rate of 5% over all comparisons of the board.
        p: Two-sided, of this comparison alone.
        q: p adjusted for the board (Benjamini and Hochberg 1995).
    """

    verdict: Verdict
    p: float
    q: float


def compare(differences: Mapping[Key, Sample]) -> dict[Key, Comparison]:
    """Judge all comparisons of a board together; above 0 is better."""
    if not differences:
        return {}
    ps = [p_value(sample) for sample in differences.values()]
    qs = false_discovery_control(ps).tolist()
    return {
        key: Comparison(_verdict(sample.value, q), p, q)
        for (key, sample), p, q in zip(differences.items(), ps, qs, strict=True)
    }


def _verdict(difference: float, q: float) -> Verdict:
    if q > FALSE_DISCOVERIES:
        return Verdict.SAME
    return Verdict.BETTER if difference > 0 else Verdict.WORSE


def p_value(sample: Sample) -> float:
    """Two-sided p of "the truth is 0": how often a draw is as far from the value as the value is from 0."""
    far = np.abs(sample.draws - sample.value) >= abs(sample.value)
    return float((1 + far.sum()) / (1 + len(far)))


def detectable(pairs: Pairs) -> float | None:
    """The true difference of two of these that a single comparison finds with a chance of 80%; their median.

    A difference of half an interval's width is found half of the time; 80% takes another 0.84 standard errors.
    None for fewer than two samples, and where they never differ: a handful of images, all answered alike, can tell
    nothing.
    """
    halves = pairs.halves[pairs.upper]
    if not halves.any():
        return None
    return float(np.median(halves) * (1 + norm.ppf(POWER) / norm.ppf((1 + pairs.confidence) / 2)))

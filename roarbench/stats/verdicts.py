"""Which estimators differ from a control, and how small a difference could have been found."""

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from statistics import NormalDist
from typing import NamedTuple, TypeVar

import numpy as np

from roarbench.stats.bootstrap import Estimate, Sample, quantile
from roarbench.stats.curves import Floats
from roarbench.stats.pairs import Pairs

FALSE_DISCOVERIES = 0.05  # share of wrong verdicts among all "better" and "worse" of a board
TAIL = 0.05  # share of a sample's own draws beyond which those of the whole family count
POWER = 0.8  # the usual chance of finding a difference that is called detectable (Cohen 1988)

Key = TypeVar("Key", bound=Hashable)


class Verdict(StrEnum):
    """Words of a test about an estimator beside a control."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "not significantly different"


class Comparison(NamedTuple):
    """An estimator against a control.

    Attributes:
        verdict: At a false discovery rate of 5% over all comparisons of the family; of a row that was looked at while
            its trainings went on, at a chance of 5% of any wrong word over the whole course.
        p: Two-sided, of this comparison alone.
        q: p adjusted for the family (Benjamini and Hochberg 1995; `sequential` for rows that were looked at).
        difference: The estimator's gain minus the control's, in accuracy points.
    """

    verdict: Verdict
    p: float
    q: float
    difference: Estimate = Estimate()


def q_values(ps: Sequence[float]) -> Floats:
    """Return p values adjusted for all of their family, float64 (m,) (Benjamini and Hochberg 1995).

    What SciPy's `false_discovery_control` does, whose import takes longer than a table.
    """
    p = np.asarray(ps, np.float64)
    order = p.argsort()
    scaled = p[order] * (len(p) / np.arange(1, len(p) + 1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum.accumulate(scaled[::-1])[::-1].clip(0.0, 1.0)
    return adjusted


def compare(differences: Mapping[Key, Sample]) -> dict[Key, Comparison]:
    """Judge all comparisons of a family together; above 0 is better."""
    if not differences:
        return {}
    ps = p_values(list(differences.values()))
    qs = q_values(ps).tolist()
    return {
        key: Comparison(verdict_of(sample.value, q), p, q)
        for (key, sample), p, q in zip(differences.items(), ps, qs, strict=True)
    }


def verdict_of(difference: float, q: float) -> Verdict:
    """Return the word for a difference, above 0 better, whose adjusted p is q."""
    if q > FALSE_DISCOVERIES:
        return Verdict.SAME
    return Verdict.BETTER if difference > 0 else Verdict.WORSE


def p_values(samples: Sequence[Sample]) -> list[float]:
    """Return two-sided p of "the truth is 0": how often a draw is as far from the value as the value is from 0.

    Beyond the distance that 5% of its own draws exceed, the draws of all samples count, each in units of its own such
    distance: they are numbers of one kind, and differ in scale far more than in shape. So the draws grow with the
    family, as the smallest p that its adjustment needs falls.
    """
    deviations = [np.abs(sample.draws - sample.value) for sample in samples]
    ends = [float(quantile(far, 1 - TAIL)) for far in deviations]
    moving = [far / end for far, end in zip(deviations, ends, strict=True) if end > 0]
    pool = np.sort(np.concatenate(moving)) if moving else np.empty(0)
    return [_p(abs(sample.value), far, end, pool) for sample, far, end in zip(samples, deviations, ends, strict=True)]


def _p(size: float, deviations: Floats, end: float, pool: Floats) -> float:
    if size > end > 0:
        return float((1 + _beyond(pool, size / end)) / (1 + len(pool)))
    return float((1 + (deviations >= size).sum()) / (1 + len(deviations)))


def _beyond(pool: Floats, share: float) -> int:
    """Count how many of these, in ascending order, are no smaller."""
    return len(pool) - int(np.searchsorted(pool, share, side="left"))


def detectable(pairs: Pairs) -> float | None:
    """Return the true difference that one comparison of two of these finds with 80 % power; their median.

    A difference of half an interval's width is found half of the time; 80% takes another 0.84 standard errors.
    None for fewer than two samples, and where they never differ: a handful of images, all answered alike, can tell
    nothing.
    """
    halves, normal = pairs.halves[pairs.upper], NormalDist().inv_cdf
    if not halves.any():
        return None
    return float(np.median(halves) * (1 + normal(POWER) / normal((1 + pairs.confidence) / 2)))

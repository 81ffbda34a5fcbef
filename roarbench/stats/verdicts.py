"""Decide which rows differ significantly and which beat all controls, and compute the detectable difference."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from statistics import NormalDist
from typing import NamedTuple, Self, TypeVar

import numpy as np

from roarbench.common.text import SAME
from roarbench.stats.bootstrap_intervals import Estimate, Sample, compute_quantile
from roarbench.stats.correctness_and_gain import Floats
from roarbench.stats.rank_intervals import Pairs

FALSE_DISCOVERIES = 0.05  # maximum expected share of wrong verdicts among all "better" and "worse" of a board
TAIL = 0.05  # smaller p values are computed from the pooled draws of the family, not from a comparison's own draws
POWER = 0.8  # power of `compute_detectable_difference`; the usual value (Cohen 1988)

Key = TypeVar("Key", bound=Hashable)


class Verdict(StrEnum):
    """Verdicts of a comparison of two rows."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "not significantly different"


class Comparison(NamedTuple):
    """A row compared with a control or another row."""

    verdict: Verdict  # at a false discovery rate of 5 % over all comparisons of the family
    p: float  # two-sided p value of this comparison alone
    q: float  # p value adjusted for the family (Benjamini and Hochberg 1995)
    difference: Estimate = Estimate()  # the estimator's gain minus the control's, in accuracy points

    @property
    def reversed(self) -> "Comparison":
        """Return the comparison in the opposite direction."""
        verdict = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}.get(self.verdict, self.verdict)
        return Comparison(verdict, self.p, self.q, self.difference.negative)


def adjust_by_benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """Adjust p values by Benjamini and Hochberg (1995), without SciPy, whose import would take longer."""
    p = np.asarray(ps, np.float64)
    order = p.argsort()
    scaled = p[order] * (len(p) / np.arange(1, len(p) + 1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum.accumulate(scaled[::-1])[::-1].clip(0.0, 1.0)
    return [float(q) for q in adjusted]


def judge_comparisons(
    family: Mapping[Key, Sample], added_rows: Iterable[Mapping[Key, Sample]] = ()
) -> dict[Key, Comparison]:
    """Judge all comparisons of a family together; a positive difference counts as better.

    Args:
        family: Differences by comparison.
        added_rows: Differences of each row that is not part of the family. Each added row is judged in the family plus
            this row alone, and the family is judged without added rows.
    """
    comparisons: dict[Key, Comparison] = {}
    family_tails, family_ps = _Tails(), list[float]()
    for differences in (family, *added_rows):
        tails = family_tails.copy_with_more_samples(differences.values())
        ps = tails.compute_p_values(differences.values())
        qs = adjust_by_benjamini_hochberg([*family_ps, *ps])[len(family_ps) :]
        for key, p, q in zip(differences, ps, qs, strict=True):
            comparisons[key] = Comparison(choose_verdict(differences[key].value, q), p, q)
        if differences is family:
            family_tails, family_ps = tails, ps
    return comparisons


def choose_verdict(difference: float, q: float) -> Verdict:
    """Return the verdict on a difference (positive is better) with adjusted p value q."""
    if q > FALSE_DISCOVERIES:
        return Verdict.SAME
    return Verdict.BETTER if difference > 0 else Verdict.WORSE


class _Tails(NamedTuple):
    """Sorted deviations of the draws of all comparisons of a family; they give small p values.

    The deviations of each comparison's draws are divided by the distance that 5 % of them exceed, then pooled; only
    values above 1 are used. This assumes that comparisons differ in scale far more than in shape. More comparisons
    give a larger pool, so the smallest possible p falls as the adjustment becomes stricter.
    """

    pools: tuple[Floats, ...] = ()

    def copy_with_more_samples(self, samples: Collection[Sample]) -> Self:
        """Return the tails with the draws of more samples added."""
        scaled = [deviations / end for deviations, end in map(_find_deviations_and_tail_start, samples) if end > 0]
        return self._replace(pools=(*self.pools, np.sort(np.concatenate(scaled)))) if scaled else self

    def compute_p_values(self, samples: Collection[Sample]) -> list[float]:
        """Compute two-sided p values for "the true value is 0"."""
        return [
            self._compute_p_value(abs(sample.value), *_find_deviations_and_tail_start(sample)) for sample in samples
        ]

    def _compute_p_value(self, size: float, deviations: Floats, end: float) -> float:
        if size > end > 0:
            beyond = sum(len(pool) - int(np.searchsorted(pool, size / end, side="left")) for pool in self.pools)
            return float((1 + beyond) / (1 + sum(map(len, self.pools))))
        return float((1 + (deviations >= size).sum()) / (1 + len(deviations)))


def _find_deviations_and_tail_start(sample: Sample) -> tuple[Floats, float]:
    deviations = np.abs(sample.draws - sample.value)
    return deviations, float(compute_quantile(deviations, 1 - TAIL))


def compute_detectable_difference(pairs: Pairs) -> float | None:
    """Return the difference that a comparison of two samples detects with 80 % power, as the median over pairs.

    A difference of half an interval's width is detected with 50 % power; 80 % needs another 0.84 standard errors.
    Returns None for fewer than two samples, and if no pair's difference varies between draws.
    """
    halves, normal = pairs.half_widths[pairs.upper_triangle], NormalDist().inv_cdf
    if not halves.any():
        return None
    return float(np.median(halves) * (1 + normal(POWER) / normal((1 + pairs.confidence) / 2)))


class ControlComparison(NamedTuple):
    """Comparisons of a row with the controls; the row beats every control if it is significantly better than each."""

    against: Mapping[str, Comparison]  # by control

    @property
    def beats_all(self) -> bool:
        """Return whether the row is better than every control."""
        return all(comparison.verdict is Verdict.BETTER for comparison in self.against.values())

    @property
    def hardest_control(self) -> str:
        """Return the control that is hardest to beat: one that is better than the row, else the largest p value."""

        def make_sort_key(control: str) -> tuple[bool, float, float]:
            comparison = self.against[control]
            value = comparison.difference.value or 0.0
            return comparison.verdict is Verdict.WORSE, comparison.p if value > 0 else 1.0, -value

        return max(self.against, key=make_sort_key)

    @property
    def margin_over_hardest(self) -> Estimate:
        """Return the row's gain minus the gain of the control that is hardest to beat, in accuracy points."""
        return self.against[self.hardest_control].difference

    @property
    def loses_to_a_control(self) -> bool:
        """Return whether a control is better than the row."""
        return self.against[self.hardest_control].verdict is Verdict.WORSE

    @property
    def verdict_text(self) -> str:
        """Return the verdict in words: `yes`, or the control that the row was not shown to beat."""
        return "yes" if self.beats_all else f"{'<' if self.loses_to_a_control else SAME} {self.hardest_control}"

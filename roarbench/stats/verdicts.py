"""Decide which rows differ significantly and which beat all controls."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

import numpy as np

from roarbench.common.text import SAME
from roarbench.stats.contrasts import Contrast, measure_spreads
from roarbench.stats.intervals import CONFIDENCE, Estimate
from roarbench.stats.normal_mixtures import Spread, compute_half_widths, compute_p_values

FALSE_DISCOVERIES = 0.05  # maximum expected share of wrong verdicts among all "better" and "worse" of a column

Key = TypeVar("Key", bound=Hashable)


class Verdict(StrEnum):
    """Verdicts of a comparison of two rows."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "not significantly different"


class Comparison(NamedTuple):
    """A row compared with a control or another row."""

    verdict: Verdict  # at a false discovery rate of 5 % over all comparisons of the column
    p: float  # two-sided p value of this comparison alone; at most .05 exactly if the interval excludes 0
    q: float  # p value adjusted for the column (Benjamini and Hochberg 1995)
    difference: Estimate = Estimate()  # the estimator's gain minus the control's, in accuracy points

    @property
    def reversed(self) -> "Comparison":
        """Return the comparison in the opposite direction."""
        verdict = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}.get(self.verdict, self.verdict)
        return Comparison(verdict, self.p, self.q, self.difference.negative)


def adjust_by_benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """Adjust p values by Benjamini and Hochberg (1995), without `scipy.stats`, whose import would take longer."""
    p = np.asarray(ps, np.float64)
    order = p.argsort()
    scaled = p[order] * (len(p) / np.arange(1, len(p) + 1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum.accumulate(scaled[::-1])[::-1].clip(0.0, 1.0)
    return [float(q) for q in adjusted]


def judge_comparisons(column: Mapping[Key, Contrast], added_rows: Iterable[Key] = ()) -> dict[Key, Comparison]:
    """Judge all comparisons of a column together; a positive difference counts as better.

    Args:
        column: Differences by comparison.
        added_rows: Keys of comparisons of rows that are not part of the suite. Each of them is judged as if it alone
            had joined the others, which are judged without any.
    """
    spread = measure_spreads(list(column.values()))
    p_of, q_of = _compute_and_adjust_p_values(column, spread, added_rows)
    halves = compute_half_widths(spread, CONFIDENCE).tolist()
    return {
        key: Comparison(
            choose_verdict(contrast.value, q_of[key]),
            p_of[key],
            q_of[key],
            Estimate(contrast.value, contrast.value - half, contrast.value + half),
        )
        for (key, contrast), half in zip(column.items(), halves, strict=True)
    }


def decide_verdicts(column: Mapping[Key, Contrast], added_rows: Iterable[Key] = ()) -> dict[Key, Verdict]:
    """Return the verdicts of `judge_comparisons` without intervals, whose computation takes most of the time."""
    q_of = _compute_and_adjust_p_values(column, measure_spreads(list(column.values())), added_rows)[1]
    return {key: choose_verdict(contrast.value, q_of[key]) for key, contrast in column.items()}


def _compute_and_adjust_p_values(
    column: Mapping[Key, Contrast], spread: Spread, added_rows: Iterable[Key]
) -> tuple[dict[Key, float], dict[Key, float]]:
    added, values = set(added_rows), np.array([contrast.value for contrast in column.values()])
    p_of = dict(zip(column, compute_p_values(values, spread).tolist(), strict=True))
    own = [p for key, p in p_of.items() if key not in added]
    q_of = dict(zip((key for key in p_of if key not in added), adjust_by_benjamini_hochberg(own), strict=True))
    q_of |= {key: adjust_by_benjamini_hochberg([*own, p_of[key]])[-1] for key in p_of if key in added}
    return p_of, q_of


def choose_verdict(difference: float, q: float) -> Verdict:
    """Return the verdict on a difference (positive is better) with adjusted p value q."""
    if q > FALSE_DISCOVERIES:
        return Verdict.SAME
    return Verdict.BETTER if difference > 0 else Verdict.WORSE


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

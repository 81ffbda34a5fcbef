"""Decide which rows differ significantly and which beat all controls."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

import numpy as np

from roarbench.common.text import SAME
from roarbench.stats.contrasts import Contrast, measure_spreads
from roarbench.stats.intervals import Estimate, add_intervals
from roarbench.stats.normal_mixtures import Spread, compute_p_values

FALSE_DISCOVERIES = 0.05  # maximum expected share of wrong verdicts among all "better" and "worse" of a column

Key = TypeVar("Key", bound=Hashable)


class Verdict(StrEnum):
    """Verdict of a comparison of two rows."""

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


def judge_comparisons(*columns: Mapping[Key, Contrast], added_rows: Iterable[Key] = ()) -> dict[Key, Comparison]:
    """Judge all comparisons of each column together; a positive difference counts as better.

    Args:
        columns: Differences by comparison; the keys of all columns differ.
        added_rows: Keys of comparisons of rows that are not part of the suite. Each of them is judged as if it alone
            had joined the others of its column, which are judged without any.
    """
    contrasts, spread, p_of, q_of = _compute_and_adjust_p_values(columns, set(added_rows))
    return {
        key: Comparison(choose_verdict(contrasts[key].value, q_of[key]), p_of[key], q_of[key], difference)
        for key, difference in add_intervals(contrasts, spread).items()
    }


def decide_verdicts(*columns: Mapping[Key, Contrast], added_rows: Iterable[Key] = ()) -> dict[Key, Verdict]:
    """Return the verdicts of `judge_comparisons` without intervals, whose computation takes most of the time."""
    contrasts, _, _, q_of = _compute_and_adjust_p_values(columns, set(added_rows))
    return {key: choose_verdict(contrast.value, q_of[key]) for key, contrast in contrasts.items()}


def _compute_and_adjust_p_values(
    columns: Sequence[Mapping[Key, Contrast]], added: set[Key]
) -> tuple[dict[Key, Contrast], Spread, dict[Key, float], dict[Key, float]]:
    contrasts = {key: contrast for column in columns for key, contrast in column.items()}
    values, spread = np.array([one.value for one in contrasts.values()]), measure_spreads(list(contrasts.values()))
    p_of, q_of = dict(zip(contrasts, compute_p_values(values, spread).tolist(), strict=True)), dict[Key, float]()
    for column in columns:
        own = [key for key in column if key not in added]
        ps = [p_of[key] for key in own]
        q_of |= dict(zip(own, adjust_by_benjamini_hochberg(ps), strict=True))
        q_of |= {key: adjust_by_benjamini_hochberg([*ps, p_of[key]])[-1] for key in column if key in added}
    return contrasts, spread, p_of, q_of


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
        return self.against[self.hardest_control].difference

    @property
    def loses_to_a_control(self) -> bool:
        return self.against[self.hardest_control].verdict is Verdict.WORSE

    @property
    def verdict_text(self) -> str:
        """Return the verdict in words: `yes`, or the control that the row was not shown to beat."""
        return "yes" if self.beats_all else f"{'<' if self.loses_to_a_control else SAME} {self.hardest_control}"

"""Find marks (evidence against a row, with the size of the effect), and combine a row's marks into a warning."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from roarbench.analysis.suite_judges import SuiteJudges
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import OTHER_IMAGE, ScoredNetwork
from roarbench.common.text import capitalize, format_interval
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import ROAR, Protocol
from roarbench.stats.board_records import RANDOM
from roarbench.stats.contrasts import Contrast
from roarbench.stats.intervals import Estimate, estimate_ratio

SOME, STRONG = 0.5, 0.9  # a mark has this grade if the lower end of its share's interval is larger
STABLE_ENOUGH = 0.8  # minimum prediction stability of a row without a mark
TIED = 0.5  # a row is doubted if a larger share of its features has one value
BLURRED_MAP, MASKS = "random-blurred", "masks"
MARKS = {  # by kind, the weaker ranking that reaches a share of the gain; masks reach a share of accuracy above chance
    "blurred": "its blurred twin, which adds no information,",
    "untrained": "its untrained twin, which has learnt nothing,",
    OTHER_IMAGE: "its map of another image",
    BLURRED_MAP: "a blurred random map",
    MASKS: "its mask alone",
}


class Grade(StrEnum):
    """Severity of evidence against a row."""

    NONE = "none"
    SOME = "some"
    STRONG = "strong"


class Mark(NamedTuple):
    """A piece of evidence against a row."""

    kind: str  # one of `MARKS`
    # share of the row's gain that a weaker ranking reaches; for `masks`, share of the accuracy above chance that masks
    # alone reach. Missing for rows without a gain
    share: Estimate
    grade: Grade | None  # from the lower end of the interval; None without an interval

    @property
    def text(self) -> str:
        """Describe the mark in words; empty if the grade is `none` or unknown."""
        if self.grade in (None, Grade.NONE):
            return ""
        whole = "of the row's accuracy above chance" if self.kind == MASKS else "of the row's gain"
        return f"{MARKS[self.kind]} reaches {format_interval(self.share, '{:.0%}'.format)} {whole} ({self.grade})"


@dataclass(frozen=True)
class RowWarning:
    """A warning with its severity, and a sentence with the reasons to doubt a row (empty without reasons)."""

    grade: Grade
    reason: str

    @property
    def mark_sign(self) -> str:
        """Return the sign beside the gain that the marks doubt; empty without a mark of grade `some` or `strong`."""
        return {Grade.STRONG: "(!!)", Grade.SOME: "(!)"}.get(self.grade, "")

    @property
    def warning_sign(self) -> str:
        """Return the sign after the row's name: `(!!)` if a mark is strong, `(!)` for other reasons, otherwise ""."""
        return "(!!)" if self.grade is Grade.STRONG else "(!)" if self.reason else ""


def do_warnings_apply_to(protocol: Protocol) -> bool:
    """Return whether the marks, which are computed from gains under ROAR, apply to gains under this protocol.

    Masks that reveal the class bring no gain if networks were never trained on an image's own mask. Smooth masks may
    still bring a gain (docs/protocols.md), but its size under ROAR says nothing about its size under this protocol.
    Nor do marks say anything about own-network gain, which is 0 for every map that ignores the network.
    """
    return protocol.retrain not in (ScoredNetwork.COMMON, ScoredNetwork.SIBLINGS)


def find_warnings_by_row(judges: SuiteJudges, protocol: Protocol = ROAR) -> dict[str, RowWarning]:
    """Return a dict from estimators to their warnings under a protocol, without estimators that have no warning."""
    results, warnings = judges.suite_results, dict[str, RowWarning]()
    with_marks = results.suite.estimators_with_own_row if do_warnings_apply_to(protocol) else ()
    for name in results.suite.estimators:
        if name in with_marks:
            warning = find_row_warning(judges, name)
        else:  # twins, for example, have general doubts only
            warning = RowWarning(Grade.NONE, join_reasons(list_general_doubts(results, name)))
        if warning.reason and name != CLEAN:
            warnings[name] = warning
    return warnings


def list_general_doubts(suite_results: SuiteResults, name: str) -> list[str]:
    """Return the reasons to doubt a row that hold under every protocol: provenance, `validate`'s findings, and ties."""
    own = (
        suite_results.doubts.get(name),
        suite_results.findings.get(name),
        describe_tied_features(suite_results, name),
    )
    return list(filter(None, own))


def describe_tied_features(suite_results: SuiteResults, name: str) -> str:
    """Describe the share of tied features in a row's maps if it exceeds one half; empty for controls."""
    share = suite_results.ties.get(name, 0.0)
    if share <= TIED or find_estimator(name).control:
        return ""
    return f"{share:.0%} of the features in its maps have the same value, so their order is random"


def describe_prediction_under_noise(share: float | None) -> str:
    """Describe the share of noisy copies for which the prediction stays the same; empty if unknown."""
    if share is None:
        return ""
    few = f", fewer than {STABLE_ENOUGH:.0%}" if share < STABLE_ENOUGH else ""
    return f"The explained network keeps its prediction on {share:.0%} of the noisy copies{few}."


def find_rows_not_above_mask_only(judges: SuiteJudges) -> dict[str, tuple[float, ...]]:
    """Return, by row, the levels at which accuracy on images is not significantly above accuracy on masks alone."""
    levels_by_row: dict[str, tuple[float, ...]] = {}
    if judges.suite_results.at_chance_warning:
        return levels_by_row
    for name in judges.suite_results.suite.estimators_with_own_row:
        lows = {t: judges.estimate_accuracy_above_masks(name, t).low for t in judges.mask_only.levels}
        if levels := tuple(t for t, low in lows.items() if low is not None and low <= 0):
            levels_by_row[name] = levels
    return levels_by_row


def describe_rows_not_above_mask_only(levels_by_row: Mapping[str, tuple[float, ...]]) -> str:
    """Describe the rows whose accuracy is not significantly above accuracy on masks alone; empty if there are none."""
    if not levels_by_row:
        return ""
    rows = ", ".join(f"{name} (t = {', '.join(f'{t:g}' for t in levels)})" for name, levels in levels_by_row.items())
    return f"At the floor, accuracy not significantly above that of masks alone: {rows}."


def find_row_warning(judges: SuiteJudges, name: str) -> RowWarning:
    """Describe all reasons to doubt a row in one sentence: general reasons first, then marks, strong marks first."""
    marks = sorted(grade_shares_of_gain(judges, name), key=lambda mark: mark.grade is not Grade.STRONG)
    reasons = [*list_general_doubts(judges.suite_results, name), *(mark.text for mark in marks)]
    worst = max((mark.grade for mark in marks if mark.grade), key=list(Grade).index, default=Grade.NONE)
    return RowWarning(worst, join_reasons(reasons))


def join_reasons(reasons: Iterable[str]) -> str:
    """Join the reasons to doubt a row to one sentence; empty without reasons."""
    text = "; ".join(filter(None, reasons))
    return text and f"{capitalize(text)}."


@lru_cache(1024)  # tables of every protocol, and warnings beside them, show the same marks
def grade_shares_of_gain(judges: SuiteJudges, name: str) -> tuple[Mark, ...]:
    """Return the marks of a row: shares of its gain that weaker rankings reach, and the share that its masks reach.

    The share of the masks is a share of the row's accuracy above chance. If a row is not significantly better than
    Random, shares of its gain are unknown.
    """
    roar = judges.roar
    own = roar.areas.get(name)
    weaker = {kind: roar.areas.get(make_twin_id(name, kind)) for kind in ("blurred", "untrained", OTHER_IMAGE)}
    weaker[BLURRED_MAP] = roar.areas.get(BLURRED_MAP) if name not in (RANDOM, BLURRED_MAP) else None
    gains = {kind: _grade_share(judges, kind, other, own) for kind, other in weaker.items() if own and other}
    masks = _grade_mask_only_accuracy(judges, name)
    return (*gains.values(), *([masks] if masks else []))


def _grade_share(judges: SuiteJudges, kind: str, part: Contrast, whole: Contrast) -> Mark:
    """Return the mark of `part` as a share of `whole`, unknown without intervals and if networks are at chance."""
    known = judges.roar.has_intervals and (kind != MASKS or judges.mask_only.has_intervals)
    if not known or judges.suite_results.at_chance_warning:
        return Mark(kind, Estimate(), None)
    share = estimate_ratio(part, whole)
    if share.low is None:
        return Mark(kind, share, None)
    return Mark(kind, share, Grade.STRONG if share.low > STRONG else Grade.SOME if share.low > SOME else Grade.NONE)


def _grade_mask_only_accuracy(judges: SuiteJudges, name: str) -> Mark | None:
    """Grade accuracy above chance on masks alone as a share of accuracy on images; None if either is missing."""
    at = name, judges.highest_level_shared_with_mask_only
    alone, images = (judge.cells.get(at) for judge in (judges.mask_only, judges.roar))
    if alone is None or images is None:
        return None
    chance = judges.suite_results.chance
    return _grade_share(judges, MASKS, alone.shift(-chance), images.shift(-chance))

"""Find marks: evidence against a row of ROAR, with the size of the effect; `roarbench.report.doubts` words them."""

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from roarbench.analysis.suite_judges import SuiteJudges
from roarbench.common.enums import OTHER_IMAGE, ScoredNetwork
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.protocols import Protocol
from roarbench.stats.board_records import RANDOM
from roarbench.stats.contrasts import Contrast
from roarbench.stats.intervals import Estimate, estimate_ratio

SOME, STRONG = 0.5, 0.9  # a mark has this grade if the lower end of its share's interval is larger
STABLE_ENOUGH = 0.8  # minimum prediction stability of a row without a mark
TIED = 0.5  # a row is doubted if a larger share of its features has one value
BLURRED_MAP, MASKS = "random-blurred", "masks"


class Grade(StrEnum):
    """Severity of evidence against a row."""

    NONE = "none"
    SOME = "some"
    STRONG = "strong"


class Mark(NamedTuple):
    """A piece of evidence against a row."""

    kind: str  # `blurred`, `untrained`, `other-image`, `random-blurred` or `masks`
    # share of the row's gain that a weaker ranking reaches; for `masks`, share of the accuracy above chance that masks
    # alone reach. Missing for rows without a gain
    share: Estimate
    grade: Grade | None  # from the lower end of the interval; None without an interval


def do_marks_apply_to(protocol: Protocol) -> bool:
    """Return whether the marks, which are computed from gains under ROAR, apply to gains under this protocol.

    They do not where networks were never trained on an image's own mask, nor to own-network gain.
    """
    return protocol.retrain not in (ScoredNetwork.COMMON, ScoredNetwork.SIBLINGS)


@lru_cache(1024)  # tables of every protocol, and warnings beside them, show the same marks
def grade_shares_of_gain(judges: SuiteJudges, name: str) -> tuple[Mark, ...]:
    """Return the marks of a row: shares of its gain that weaker rankings reach, and the share that its masks reach.

    The share of the masks is a share of the row's accuracy above chance. If a row is not significantly better than
    Random, shares of its gain are unknown.
    """
    roar = judges.roar
    own = roar.gains.get(name)
    weaker = {kind: roar.gains.get(make_twin_id(name, kind)) for kind in ("blurred", "untrained", OTHER_IMAGE)}
    weaker[BLURRED_MAP] = roar.gains.get(BLURRED_MAP) if name not in (RANDOM, BLURRED_MAP) else None
    marks = [_grade_share(judges, kind, other, own) for kind, other in weaker.items() if own and other]
    at = name, judges.highest_level_shared_with_mask_only
    alone, images = (judge.cells.get(at) for judge in (judges.mask_only, roar))
    if alone and images:
        chance = judges.suite_results.chance
        marks.append(_grade_share(judges, MASKS, alone.shift(-chance), images.shift(-chance)))
    return tuple(marks)


def _grade_share(judges: SuiteJudges, kind: str, part: Contrast, whole: Contrast) -> Mark:
    """Return the mark of `part` as a share of `whole`, unknown without intervals and if networks are at chance."""
    known = judges.roar.has_intervals and (kind != MASKS or judges.mask_only.has_intervals)
    if not known or judges.suite_results.at_chance_warning:
        return Mark(kind, Estimate(), None)
    share = estimate_ratio(part, whole)
    if share.low is None:
        return Mark(kind, share, None)
    return Mark(kind, share, Grade.STRONG if share.low > STRONG else Grade.SOME if share.low > SOME else Grade.NONE)

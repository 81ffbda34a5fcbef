"""Refuse levels and protocols whose gain is 0, or nearly 0, for every map because a data set has few features.

A level that removes none or all of the features has the same effect for every map. Matched gain compares an image's own
mask with a matched mask; with few features, both are usually the same mask.
"""

from math import prod

from roarbench.common.enums import Unit
from roarbench.common.errors import CallerError
from roarbench.common.text import list_some
from roarbench.compute.ranking import count_removed
from roarbench.plan.suite import SuiteSpec

USUAL_LEVELS = (0.1, 0.5, 0.9)
# Least mean share of images whose own and matched masks differ. Images with equal masks add 0, so this share scales the
# gain. The largest matched gain on the table breast-cancer is 12 points, its interval 2 points to each side (decision
# 39): at a share of 1/6, even this gain would not be significant.
MIN_DIFFERING_SHARE = 0.2


def choose_levels(features: int) -> tuple[float, ...]:
    """Return the usual levels or, if one of them removes none or all features, the fractions of other counts."""
    if all(0 < count_removed(t, features) < features for t in USUAL_LEVELS):
        return USUAL_LEVELS
    return tuple(round(count / features, 2) for count in sorted({1, (features + 1) // 2, features - 1}))


def refuse_levels_without_effect(suite: SuiteSpec) -> None:
    """Raise CallerError if a level of a suite removes none or all of the features."""
    shape = suite.dataset_record.shape
    for block in suite.blocks:
        features, noun = _count_features(shape, block.unit)
        counts = {t: count_removed(t, features) for t in block.levels}
        if wrong := [f"{t:g} removes {count}" for t, count in counts.items() if not 0 < count < features]:
            seen = f"the level {list_some(wrong)} of {features} {noun}, which has the same effect for every map"
            levels = ", ".join(f"{t:g}" for t in choose_levels(features))
            raise CallerError(f"{suite.title}: {seen}; write levels = [{levels}]")


def _count_features(shape: tuple[int, int, int], unit: Unit) -> tuple[int, str]:
    return prod(unit.grid(shape)), "columns" if shape[1] == 1 else "features"


def refuse_equal_matched_masks(suite: SuiteSpec, unit: Unit, share: float) -> None:
    """Raise CallerError if matched masks of a block rarely differ from own masks; `share` is the share that differ."""
    if share >= MIN_DIFFERING_SHARE:
        return
    features, noun = _count_features(suite.dataset_record.shape, unit)
    seen = f"matched gain cannot tell maps of {features} {noun} apart"
    remedy = 'write protocols = ["roar", "own-network"] in place of "matched", or add columns'
    raise CallerError(f"{suite.title}: {seen}: {100 * (1 - share):.0f} % of the matched masks are own masks; {remedy}")

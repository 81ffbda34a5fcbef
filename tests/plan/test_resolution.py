"""Levels and protocols whose gain is 0 for every map because a data set has few features."""

from dataclasses import replace

import pytest

from roarbench.common.enums import Unit
from roarbench.common.errors import CallerError
from roarbench.compute.ranking import count_removed
from roarbench.plan.protocols import MATCHED, ROAR
from roarbench.plan.resolution import choose_levels, refuse_equal_matched_masks, refuse_levels_without_effect
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from tests.helpers.tiny_suite import SUITE


@pytest.mark.parametrize("features", range(2, 200))
def test_chosen_levels_remove_some_but_not_all_features(features):
    levels = choose_levels(features)
    counts = [count_removed(t, features) for t in levels]
    assert counts == sorted({*counts}) and counts[0] >= 1 and counts[-1] < features
    assert features < 10 or levels == (0.1, 0.5, 0.9)


def make_suite(levels, data="planted", unit=Unit.SCALAR):
    return replace(SUITE, dataset=data, blocks=(Block(ROAR, ("random", "grad"), levels, seeds=1, unit=unit),))


def test_levels_that_remove_no_or_all_features_are_refused():
    """Ten columns: 0.04 removes 0.4, rounded to 0; 0.96 removes 9.6, rounded to 10."""
    refuse_levels_without_effect(make_suite((0.1, 0.9), "breast-cancer-10"))
    said = (
        r"the level 0.04 removes 0, 0.96 removes 10 of 10 columns, which has the same effect for every map; write lev"
    )
    with pytest.raises(CallerError, match=said):
        refuse_levels_without_effect(make_suite((0.04, 0.5, 0.96), "breast-cancer-10"))
    with pytest.raises(
        CallerError, match=r"the level 1 removes 256 of 256 features.*; write levels = \[0.1, 0.5, 0.9\]"
    ):
        refuse_levels_without_effect(make_suite((1.0,), unit=Unit.PIXEL))


def test_every_built_in_suite_has_levels_with_effect():
    for suite in SUITES.values():
        refuse_levels_without_effect(suite)


def test_equal_matched_masks_are_refused_below_a_fifth():
    suite = replace(make_suite((0.5,), "breast-cancer-10"), blocks=(Block(MATCHED, ("random",), (0.5,), seeds=1),))
    refuse_equal_matched_masks(suite, Unit.SCALAR, 0.2)
    said = "matched gain cannot tell maps of 10 columns apart: 81 % of the matched masks are own masks; wr"
    with pytest.raises(CallerError, match=said):
        refuse_equal_matched_masks(suite, Unit.SCALAR, 0.19)

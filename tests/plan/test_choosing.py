"""The part of a suite that is asked for: its controls, the rows, what was submitted."""

import pytest

from roarbench.errors import CallerError
from roarbench.plan.choosing import part_of
from roarbench.plan.suites import find_suite

MINE = "mine@1a2b3c4d"
MATCHED, EXCHANGED = find_suite("quick-matched"), find_suite("quick-exchanged")
CONTROLS = MATCHED.estimators[:7]


def test_rows_that_are_named_stand_beside_every_control():
    assert part_of(MATCHED, ["grad"]).estimators == (*CONTROLS, "grad")
    assert part_of(MATCHED, ["deviation"]).estimators == CONTROLS
    assert part_of(MATCHED) == MATCHED


def test_what_was_submitted_is_part_of_it_with_its_twins():
    assert part_of(MATCHED, [], [MINE]).estimators == (*CONTROLS, MINE, f"{MINE}~untrained")
    assert {*part_of(MATCHED, None, [MINE]).estimators} == {*MATCHED.estimators, MINE, f"{MINE}~untrained"}
    added = set(part_of(EXCHANGED, [], [MINE]).estimators) - set(part_of(EXCHANGED, []).estimators)
    assert added == {MINE, f"{MINE}~other-image", f"{MINE}~same-class"}
    assert set(part_of(EXCHANGED, ["grad"]).estimators) == {"random", "random-blurred", "sobel", "grad"}


def test_one_protocol_and_fewer_seeds():
    part = part_of(EXCHANGED, None, (), 2, "roar")
    assert {block.protocol.name for block in part.blocks} == {"roar"} and part.references == 2
    with pytest.raises(CallerError, match="--seeds 0 and 1 references: .* write --seeds 1 or more"):
        part_of(MATCHED, seeds=0)

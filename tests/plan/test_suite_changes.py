"""Suites changed by `--fill` and `--unit`."""

from dataclasses import replace

import pytest

from roarbench.common.enums import Unit
from roarbench.common.errors import CallerError
from roarbench.plan.protocols import KAR, MASK_ONLY, MATCHED, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suite_changes import set_allowed_fill_and_unit
from roarbench.plan.suites import find_builtin_suite
from tests.helpers.made_up_results import SUITE

ROWS = ("random", "grad")


def make_suite(*blocks):
    return replace(SUITE, blocks=blocks)


def test_set_fill_and_unit_changes_every_block():
    whole = make_suite(Block(ROAR, ROWS, (0.5,), 2), Block(MASK_ONLY, ROWS, (0.9,), 1))
    found = set_allowed_fill_and_unit(whole, "linear", Unit.PIXEL)
    assert found.blocks == (
        Block(ROAR, ROWS, (0.5,), 2, Unit.PIXEL, "linear"),
        Block(MASK_ONLY, ROWS, (0.9,), 1, Unit.PIXEL),
    )
    assert found.title == "made-up v1, fill linear, unit pixel"
    assert set_allowed_fill_and_unit(whole, "mean", Unit.SCALAR) == set_allowed_fill_and_unit(whole) == whole
    assert set_allowed_fill_and_unit(whole, "mean").title == whole.title


def test_set_fill_and_unit_keeps_existing_blocks_of_fill():
    """ROAR keeps its own levels for the linear fill; KAR has no such block and copies that of the mean fill."""
    own = Block(ROAR, ROWS, (0.9,), 1, Unit.SCALAR, "linear")
    whole = make_suite(Block(ROAR, ROWS, (0.5,), 2), own, Block(KAR, ROWS, (0.5,), 1))
    found = set_allowed_fill_and_unit(whole, "linear")
    assert found.blocks == (own, Block(KAR, ROWS, (0.5,), 1, Unit.SCALAR, "linear"))
    part = make_suite(*whole.blocks[:2])  # has all of these blocks itself
    assert set_allowed_fill_and_unit(part, "linear").title == "made-up v1, fill linear"


def test_set_fill_and_unit_drops_unsupported_protocols():
    whole = make_suite(Block(MATCHED, ROWS, (0.5,), 1), Block(ROAR, (*ROWS, "random-redrawn"), (0.5,), 1))
    found = set_allowed_fill_and_unit(whole, "linear")
    assert [block.protocol for block in found.blocks] == [ROAR]
    assert found.title == "made-up v1, fill linear, without matched"
    with pytest.raises(CallerError, match=r"fill 'linear' is too slow .* use mean, black, (\w+, )*\w+ or \w+$"):
        set_allowed_fill_and_unit(make_suite(whole.blocks[0]), "linear")


def test_set_fill_and_unit_rejects_pixels_or_blur_on_table():
    table = find_builtin_suite("breast-cancer")
    assert {block.fill for block in set_allowed_fill_and_unit(table, "black").blocks} <= {"zero", "mean"}
    with pytest.raises(CallerError, match="unit is 'pixel', but a table has no pixels; use scalar"):
        set_allowed_fill_and_unit(table, "", Unit.PIXEL)
    with pytest.raises(CallerError, match="a table lacks; use one of mean, black"):
        set_allowed_fill_and_unit(table, "blur")

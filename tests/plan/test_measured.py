"""A suite by another fill and another unit, as `--fill` and `--unit` ask for it."""

from dataclasses import replace

import pytest

from roarbench.common.enums import Unit
from roarbench.common.errors import CallerError, UnknownName
from roarbench.plan.protocols import KAR, MASK_ONLY, MATCHED, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suite_options import set_fill_and_unit
from roarbench.plan.suites import find_suite
from tests.helpers.made_up import SUITE

ROWS = ("random", "grad")


def suite(*blocks):
    return replace(SUITE, blocks=blocks)


def test_every_block_has_the_fill_and_the_unit_and_masks_alone_no_fill():
    whole = suite(Block(ROAR, ROWS, (0.5,), 2), Block(MASK_ONLY, ROWS, (0.9,), 1))
    found = set_fill_and_unit(whole, "linear", Unit.PIXEL)
    assert found.blocks == (
        Block(ROAR, ROWS, (0.5,), 2, Unit.PIXEL, "linear"),
        Block(MASK_ONLY, ROWS, (0.9,), 1, Unit.PIXEL),
    )
    assert found.title == "made-up v1, fill linear, unit pixel"
    assert set_fill_and_unit(whole, "mean", Unit.SCALAR) == set_fill_and_unit(whole) == whole
    assert set_fill_and_unit(whole, "mean").title == whole.title


def test_black_and_zero_are_one_fill():
    whole = suite(Block(ROAR, ROWS, (0.5,), 2))
    assert set_fill_and_unit(whole, "black") == set_fill_and_unit(whole, "zero")
    assert set_fill_and_unit(whole, "black").blocks[0].fill == "zero"


def test_cells_that_a_protocol_has_are_taken_as_they_are():
    """ROAR by the linear fill has other levels; KAR has none and gets those of its mean."""
    own = Block(ROAR, ROWS, (0.9,), 1, Unit.SCALAR, "linear")
    whole = suite(Block(ROAR, ROWS, (0.5,), 2), own, Block(KAR, ROWS, (0.5,), 1))
    found = set_fill_and_unit(whole, "linear")
    assert found.blocks == (own, Block(KAR, ROWS, (0.5,), 1, Unit.SCALAR, "linear"))
    assert set_fill_and_unit(suite(*whole.blocks[:2]), "linear").title == "made-up v1"  # all of it is the suite's own


def test_what_a_protocol_cannot_have_is_left_out_and_told():
    whole = suite(Block(MATCHED, ROWS, (0.5,), 1), Block(ROAR, (*ROWS, "random-redrawn"), (0.5,), 1))
    found = set_fill_and_unit(whole, "linear")
    assert [block.protocol for block in found.blocks] == [ROAR]
    assert found.title == "made-up v1, fill linear, without matched"
    with pytest.raises(CallerError, match="fill 'linear' is too slow .* use mean, black, blur or noise"):
        set_fill_and_unit(suite(whole.blocks[0]), "linear")


def test_a_table_has_neither_pixels_nor_fills_of_neighbours():
    table = find_suite("breast-cancer")
    assert {block.fill for block in set_fill_and_unit(table, "black").blocks} <= {"zero", "mean"}
    with pytest.raises(CallerError, match="unit is 'pixel', but a table has no pixels; use scalar"):
        set_fill_and_unit(table, "", Unit.PIXEL)
    with pytest.raises(CallerError, match="a table lacks; use one of mean, black, noise"):
        set_fill_and_unit(table, "blur")


def test_an_unknown_fill_has_a_suggestion():
    with pytest.raises(UnknownName, match="no fill 'liner'; did you mean 'linear'"):
        set_fill_and_unit(SUITE, "liner")

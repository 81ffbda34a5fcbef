"""The leakage table of docs/fills.md: what its program asks for, and makes of answers."""

from importlib import import_module

import pytest

from roarbench.plan.points import expand
from roarbench.plan.runs import CLEAN
from roarbench.terms import FILLS, Retrain
from tests.helpers.made_up import held, usual

ROWS = ("grad", "random")


def accuracy(cell):
    """True accuracies: masks of grad tell half; its images with black fill tell more, those with noise less."""
    if cell.estimator == "grad" and cell.retrain is Retrain.MASKS:
        return 0.5
    if cell.estimator == "grad":
        return {"zero": 0.7, "noise": 0.5}.get(cell.fill, 0.6)
    return usual(cell)


@pytest.fixture
def program():
    return import_module("fill_table")


def test_each_row_is_retrained_with_each_fill_and_on_masks_alone_once(program):
    points = [point for point in expand(program.suite_of(ROWS)) if point.cell.estimator != CLEAN]
    assert {(point.cell.t, point.seed) for point in points} == {(0.9, 0)}
    found = sorted((point.cell.estimator, point.cell.retrain, point.cell.fill) for point in points)
    images = [(row, Retrain.IMAGES, fill) for row in ROWS for fill in FILLS]
    assert found == sorted([*images, *((row, Retrain.MASKS, "mean") for row in ROWS)])


def test_lines_are_the_accuracies_and_their_differences_in_points(program):
    lines = program.lines_of(held(program.suite_of(ROWS), accuracy), ROWS)
    assert [line[:2] for line in lines] == [[f"`{row}`", f"`{fill}`"] for row in ROWS for fill in FILLS]
    for line in lines[: len(FILLS)]:
        images, masks = map(float, line[2:4])
        assert float(line[4].split()[0]) == pytest.approx(images - masks, abs=0.11)  # each is rounded
        assert images == pytest.approx({"`zero`": 70, "`noise`": 50}.get(line[1], 60), abs=4)
        assert "[" in line[4] and "[" in line[5]
    assert {line[5] for line in lines[len(FILLS) :]} == {""}


def test_what_has_not_run_has_no_line_and_what_lacks_its_other_half_a_dash(program):
    results = held(program.suite_of(ROWS), accuracy)
    gone = {("grad", "linear"), ("random", "zero")}
    for point in [point for point in results.results if (point.cell.estimator, point.cell.fill) in gone]:
        del results.results[point]
    lines = {(line[0], line[1]): line[2:] for line in program.lines_of(results, ROWS)}
    assert ("`grad`", "`linear`") not in lines and len(lines) == 2 * len(FILLS) - 2
    assert lines["`grad`", "`zero`"][3] == "–" and "–" not in lines["`grad`", "`zero`"][:3]

"""The table of DiffROAR: what networks answer under KAR minus what others answer under ROAR, nothing of it run."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.analysis.boards import SuiteResults
from roarbench.errors import CallerError
from roarbench.plan.runs import find_protocol
from roarbench.plan.suite import Block
from roarbench.protocols.roar import KAR, ROAR
from roarbench.report.curve_chart import chart
from roarbench.report.table import suite_table
from roarbench.terms import Order, Unit
from tests.helpers.made_up import DATA, IMAGES, LEVELS, MAIN, SUITE, held, result
from tests.helpers.tables import rows_of

BOTH = replace(SUITE, blocks=tuple(Block(protocol, MAIN, LEVELS, seeds=3) for protocol in (ROAR, KAR)))
FALLS = {"sobel": 0.1, "grad": -0.1, "var-grad": 0.2, "random": 0.0}  # of `usual`: twice this times t, up to luck


def rows(results):
    return rows_of(suite_table(results, "diffroar", None, None))


@pytest.fixture(scope="module")
def results():
    return held(BOTH)


def test_gains_are_kar_minus_roar_seed_by_seed_and_image_by_image(results):
    """Derived with loops over the stored results; the area by the trapezoid rule from (0, 0) on."""
    for name, row in rows(results).items():
        at = {}
        for t in LEVELS:
            answers = {
                (point.cell.order, point.seed): found.answers
                for point, found in results.results.items()
                if (point.cell.estimator, point.cell.t) == (name, t)
            }
            differences = [
                int(answers[Order.LERF, seed][image]) - int(answers[Order.MORF, seed][image])
                for seed in range(3)
                for image in range(IMAGES)
            ]
            at[t] = 100 * sum(differences) / len(differences)
            assert row["gains"][str(t)] == pytest.approx(at[t], abs=1e-9)
            assert at[t] == pytest.approx(200 * FALLS[name] * t, abs=1.5)
        area = (0.3 * at[0.3] / 2 + 0.6 * (at[0.3] + at[0.9]) / 2) / 0.9
        assert row["gain"] == pytest.approx(area, abs=1e-9)
        assert row["gain_low"] < row["gain"] < row["gain_high"]
        assert row["verdict"] == (None if name == "random" else "better" if FALLS[name] > 0 else "worse")  # against 0


def test_a_case_by_hand():
    """Two seeds of four images at t = .5: KAR 1100 and 1110, ROAR 0101 and 1000 are 2 - 2 and 3 - 1 of 4 right."""
    suite = replace(SUITE, blocks=tuple(Block(protocol, ("grad",), (0.5,), seeds=2) for protocol in (ROAR, KAR)))
    bits = {(Order.LERF, 0): "1100", (Order.LERF, 1): "1110", (Order.MORF, 0): "0101", (Order.MORF, 1): "1000"}
    made = held(suite).results
    for point in made:
        text = bits[point.cell.order, point.seed] if point.cell.estimator == "grad" else "1111"
        made[point] = result(suite, point, np.array([bit == "1" for bit in text * (IMAGES // 4)]))
    row = rows(SuiteResults(suite, DATA, None, made))["grad"]
    assert (row["gains"], row["gain"]) == ({"0.5": 25.0}, 12.5)
    assert row["curve"] == {"0.0": 1.0, "0.5": 0.625}  # those of KAR


def test_a_row_without_one_of_its_cells_has_no_gain(results):
    gone = ("grad", 0.9, Order.MORF)
    kept = {p: r for p, r in results.results.items() if (p.cell.estimator, p.cell.t, p.cell.order) != gone}
    found = rows(replace(results, results=kept))
    assert (found["grad"]["gain"], found["grad"]["gains"]["0.9"], found["grad"]["place"]) == (None, None, None)
    assert found["sobel"]["gain"] is not None


def test_orders_that_explain_different_networks_are_no_difference(results):
    """The same references were explained in both orders, or a row has no gain."""
    kar = replace(BOTH, blocks=tuple(replace(block, seeds=3) for block in BOTH.blocks), references=3)
    made = held(kar)
    weights = {
        point: replace(
            found,
            run=replace(found.run, reference=f"network {point.seed}" if point.cell.estimator == "grad" else ""),
            weights="other" if point.cell.order is Order.LERF and point.cell.estimator == "grad" else "usual",
        )
        for point, found in made.results.items()
    }
    table = suite_table(replace(made, results=weights), "diffroar", None, None)
    assert next(row for row in table.board.rows if row.estimator == "grad").gain.value is None
    assert "different references" in table.doubts["grad"]


def test_it_is_drawn_from_0_on_needs_both_orders_and_is_never_run(results):
    drawn = chart(suite_table(results, "diffroar", None, None))
    assert (drawn.height, drawn.curves[0].accuracy[0]) == ("DiffROAR, points", 0.0)
    with pytest.raises(CallerError, match=r"has no diffroar \(made of kar and roar at one level\) with unit pixel"):
        suite_table(held(), "diffroar", Unit.PIXEL, None)
    with pytest.raises(CallerError, match="made of the answers under kar and roar and never run"):
        find_protocol("diffroar")

"""From a board to the curves that are drawn."""

from dataclasses import replace

import pytest

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.paper_curves import published_curves
from roarbench.errors import CallerError
from roarbench.plan.suite import Block
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.report.curve_chart import chart
from roarbench.report.table import SuiteTable, suite_table
from roarbench.stats.bootstrap import Estimate
from roarbench.terms import Order, Unit
from tests.helpers.made_up import LEVELS, MAIN, SUITE, held


@pytest.fixture(scope="module")
def suite_results():
    return held()


def shown(suite_results, protocol=ROAR, estimators=None):
    return SuiteTable(suite_results, suite_results.board(protocol, Unit.SCALAR, estimators), Unit.SCALAR, {})


def test_a_curve_is_its_row_from_the_untouched_images_on(suite_results):
    table = shown(suite_results, estimators=["random", "grad"])
    clean, first, last = Estimate(0.9, 0.88, 0.92), Estimate(0.7, 0.65, 0.75), Estimate(0.4, 0.3, 0.5)
    rows = (replace(table.board.rows[0], estimator="gb", clean=clean, accuracies=(first, last)), table.board.rows[1])
    curves = chart(replace(table, board=replace(table.board, levels=(0.5, 0.9), rows=rows))).curves
    assert [curve.estimator for curve in curves] == ["gb", "grad"]
    assert curves[0].levels == (0.0, 0.5, 0.9)
    assert curves[0].accuracy == (0.9, 0.7, 0.4)
    assert (curves[0].low, curves[0].high) == ((0.88, 0.65, 0.3), (0.92, 0.75, 0.5))


def test_a_missing_point_is_none_and_a_row_without_points_no_curve(suite_results):
    results = suite_results.results.items()
    kept = {p: r for p, r in results if p.cell.estimator in ("none", "random") and p.cell.t < LEVELS[-1]}
    (curve,) = chart(shown(SuiteResults(SUITE, "", None, kept))).curves
    assert curve.estimator == "random"
    assert curve.accuracy[-1] is curve.low[-1] is curve.high[-1] is None
    assert None not in curve.accuracy[:-1]


def test_published_curves_are_those_of_the_rows_that_are_shown_and_of_retrained_networks_alone(suite_results):
    found = {curve.estimator: curve for curve in chart(shown(suite_results, KAR, MAIN), "imagenet").published}
    table = published_curves("imagenet", Order.LERF)
    assert set(found) == set(MAIN) & set(table)
    for name, curve in found.items():
        assert dict(zip(curve.levels, curve.accuracy, strict=True)) == table[name]
        assert set(curve.low) == {None}
    results = held(replace(SUITE, blocks=(Block(MORF, MAIN, LEVELS, seeds=2),)))
    with pytest.raises(CallerError, match="this plot is of morf, .*; leave --published out"):
        chart(shown(results, MORF), "imagenet")


def test_accuracy_above_masks_alone_is_a_curve_beside_accuracy(suite_results):
    found = {curve.estimator: curve for curve in chart(suite_table(suite_results, "roar", None, None)).above_masks}
    assert set(found) == set(MAIN)  # the blurred random map has no masks here
    evidence = Evidence.of(suite_results)
    for name, curve in found.items():
        assert curve.levels == LEVELS
        expected = [evidence.above_masks(name, t) for t in LEVELS]
        assert list(zip(curve.accuracy, curve.low, curve.high, strict=True)) == [tuple(each) for each in expected]
    assert chart(suite_table(suite_results, "kar", None, None)).above_masks == ()

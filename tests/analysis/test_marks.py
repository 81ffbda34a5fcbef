"""Marks of rows, the doubts that they cause, and the draws behind them, on synthetic results with known truth."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import trapezoid

from roarbench.analysis.suite_judges import Grade, grade_shares_of_gain, judge_suite
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MORF, ROAR
from roarbench.plan.suite import Block
from roarbench.report.doubts import MARKS, Shown, join_signs
from roarbench.report.table import make_table
from roarbench.stats.intervals import Estimate
from tests.helpers.made_up_results import (
    LEVELS,
    MAIN,
    SUITE,
    answers,
    choose_accuracy,
    limit_to_one_seed,
    make_leaky_accuracy,
    make_suite_results,
    result,
)
from tests.helpers.store_rows import has_values, remove_rows


def make_draws(suite=SUITE, accuracy=choose_accuracy):
    return judge_suite(make_suite_results(suite, accuracy))


def compute_mean_accuracy(suite_results, **asked):
    """Compute the mean accuracy of the runs with these values; ROAR by scalars is the default."""
    asked = {"order": Order.MORF, "retrain": ScoredNetwork.IMAGES, "unit": Unit.SCALAR} | asked
    return np.mean([row.correctness for point, row in suite_results.results.items() if has_values(point, **asked)])


def compute_area_between(suite_results, upper, lower, levels=LEVELS):
    """Compute the mean difference of two accuracy curves in points, by the trapezoidal rule."""
    above, below = (
        np.array([compute_mean_accuracy(suite_results, t=t, **curve) for t in levels]) for curve in (upper, lower)
    )
    return pytest.approx(100 * trapezoid([0.0, *(above - below)], (0.0, *levels)) / levels[-1], abs=1e-9)


def covers(found, truth):
    return found.low <= truth <= found.high


@pytest.fixture(scope="module")
def made():
    return make_draws()


def test_gains_and_areas_match_scipy_integration(made):
    whole = made.suite_results
    for unit in (Unit.SCALAR, Unit.PIXEL):
        expected = compute_area_between(
            whole, {"estimator": "random", "unit": unit}, {"estimator": "grad", "unit": unit}
        )
        assert made.judges_by_unit[unit].estimate_gain("grad").value == expected
    assert made.judges_by_fill["mean"] is made.main_gains
    twin = compute_area_between(whole, {"estimator": "grad~blurred"}, {"estimator": "grad"})
    assert made.main_gains.subtract_gain("grad", "grad~blurred").value == twin
    retrained = {"estimator": "var-grad"}
    scored = retrained | {"retrain": ScoredNetwork.NONE}
    for drawn, lost, levels in (
        # only .9 is common: KAR also has .5, ROAR .3
        (made.judge_areas_between_orders(ROAR, KAR), retrained, (0.9,)),
        (made.judge_areas_between_orders(MORF, LERF), scored, LEVELS),
    ):
        assert drawn.levels == levels
        expected = compute_area_between(whole, lost | {"order": Order.LERF}, lost, levels)
        assert drawn.estimate_gain("var-grad").value == expected
    above = made.accuracies_above_masks["grad", 0.9]
    images, masks = (
        compute_mean_accuracy(whole, estimator="grad", t=0.9, retrain=kind)
        for kind in (ScoredNetwork.IMAGES, ScoredNetwork.MASKS)
    )
    assert above.value == pytest.approx(images - masks, abs=1e-12) and above.low > 0


TWINS = tuple(f"var-grad~{kind}" for kind in ("blurred", "untrained", "other-image"))
SHARED = replace(SUITE, blocks=(*SUITE.blocks, Block(ROAR, TWINS, LEVELS, seeds=3)))


def make_shared_gain_accuracy(shares):
    """Make an accuracy function where the named twins and controls have these shares of var-grad's gain of 9 points."""

    def accuracy(cell):
        retrained = cell.retrain is ScoredNetwork.IMAGES and cell.estimator in shares
        return 0.9 - cell.t * (0.4 + 0.2 * shares[cell.estimator]) if retrained else choose_accuracy(cell)

    return accuracy


def list_mark_doubts(judges, *names):
    """Return the doubts of ROAR's table that stand beside its gains."""
    table = make_table(judges.suite_results, ROAR, judges.suite_results.suite.estimators, judges.unit)
    doubts = table.doubts if table else ()
    return [each for each in doubts if each.kind.shown is Shown.GAIN and each.row in (names or [each.row])]


def find_marks_by_kind(draws, name):
    return {mark.kind: mark for mark in grade_shares_of_gain(draws, name)}


@pytest.mark.parametrize(
    ("twin", "share", "grade"),
    [
        ("var-grad~blurred", 0.2, Grade.NONE),
        ("var-grad~blurred", 1.2, Grade.STRONG),
        ("var-grad~untrained", 0.7, Grade.SOME),
        ("var-grad~other-image", 1.2, Grade.STRONG),
        ("random-blurred", 0.7, Grade.SOME),
    ],
)
def test_twin_mark_grades_share_of_gain(twin, share, grade):
    found, kind = make_draws(SHARED, make_shared_gain_accuracy({twin: share})), twin.removeprefix("var-grad~")
    mark, doubts = find_marks_by_kind(found, "var-grad")[kind], list_mark_doubts(found, "var-grad")
    assert mark.grade is grade and covers(mark.share, share)
    graded = [(doubt.row, doubt.severity) for doubt in doubts if f"{MARKS[kind][1]} reaches " in doubt.sentence.lower()]
    assert graded == [("var-grad", grade)] * (grade is not Grade.NONE)


def test_row_without_gain_has_empty_marks(made):
    """grad is worse than Random, and images at chance have no accuracy that masks could share."""
    assert find_marks_by_kind(made, "grad")["blurred"] == ("blurred", Estimate(), None)
    assert list_mark_doubts(made, "grad") == []
    at_chance = make_draws(accuracy=make_leaky_accuracy(0.4, 0.25))
    assert find_marks_by_kind(at_chance, "var-grad")["masks"] == ("masks", Estimate(), None)


# at .6 the masks reach the accuracy of the images
@pytest.mark.parametrize(
    ("alone", "grade", "floor"),
    [(0.36, Grade.NONE, {}), (0.5, Grade.SOME, {}), (0.6, Grade.STRONG, {"var-grad": "(t = 0.9)"})],
)
def test_mask_only_mark_grades_share_of_accuracy_above_chance(alone, grade, floor):
    made = make_draws(accuracy=make_leaky_accuracy(alone))
    mark = find_marks_by_kind(made, "var-grad")["masks"]
    assert covers(mark.share, (alone - 0.25) / (0.6 - 0.25)) and mark.grade is grade
    assert ["ts mask alone reaches" in doubt.sentence for doubt in list_mark_doubts(made)] == [True] * (
        grade is not Grade.NONE
    )
    doubts = make_table(made.suite_results, ROAR, SUITE.estimators).doubts
    assert {each.row: each.brief for each in doubts if each.short.startswith("at the floor")} == floor


def test_row_warning_lists_strong_reasons_first():
    def both(cell):
        masks = cell.retrain is ScoredNetwork.MASKS and cell.estimator == "var-grad"
        return 0.7 if masks else make_shared_gain_accuracy({"var-grad~blurred": 0.75})(cell)

    first, second = list_mark_doubts(make_draws(SHARED, both), "var-grad")
    assert first.sentence.startswith("Its mask alone reaches") and "blurred twin, which adds no inf" in second.sentence
    assert (first.severity, first.sign, second.sign) == (Grade.STRONG, "(!!)", "(!)")
    assert join_signs([second, first]) == "(!!)"


def test_missing_cell_gives_empty_estimates(made):
    gone = remove_rows(made.suite_results, estimator="grad~blurred", t=0.9, retrain=ScoredNetwork.IMAGES)
    drawn = judge_suite(gone).main_gains
    assert drawn.subtract_gain("grad", "grad~blurred") is None
    assert drawn.estimate_gain("grad").value == made.main_gains.estimate_gain("grad").value


def test_single_seed_has_values_without_intervals_or_warnings():
    made = make_draws(limit_to_one_seed(SUITE), make_leaky_accuracy(0.7))
    for number in (
        made.main_gains.estimate_gain("grad"),
        made.mask_only.estimate_difference_from_counterpart("var-grad", 0.9),
    ):
        assert number.value is not None and number.low is None
    assert list_mark_doubts(made) == []
    unretrained = made.judge_areas_between_orders(MORF, LERF).estimate_gain("var-grad")
    assert unretrained.low is not None, "without training, the interval covers images only"


def test_suite_without_results_or_roar_has_no_warnings():
    assert list_mark_doubts(judge_suite(SuiteResults(SUITE, "", None, {}))) == []
    alone = make_draws(replace(SUITE, blocks=(Block(MASK_ONLY, MAIN, (0.9,), seeds=2),)))
    assert (alone.main_gains.levels, alone.judges_by_unit, list_mark_doubts(alone)) == ((), {}, [])
    assert alone.mask_only.estimate_accuracy("grad", 0.9).low is not None


def test_gain_is_computed_separately_for_each_fill():
    suite = replace(SUITE, blocks=(*SUITE.blocks, Block(ROAR, MAIN, (0.5, 0.9), seeds=2, fill="zero")))

    def accuracy(cell):
        return choose_accuracy(cell) - (0.3 * cell.t if (cell.fill, cell.estimator) == ("zero", "grad") else 0.0)

    for fill, gain in (("mean", -4.5), ("zero", 9.0)):
        assert covers(make_draws(suite, accuracy).judges_by_fill[fill].estimate_gain("grad"), gain), fill
    turned = make_draws(replace(suite, blocks=suite.blocks[::-1]), accuracy)
    assert covers(turned.main_gains.estimate_gain("grad"), 9.0)  # tables use the fill of the first block


def test_smoothness_uses_morf_rows_of_scalar_rankings():
    results = {}
    for point in list_planned_runs(SUITE):
        cell = point.cell
        smooth = 2 + cell.t if (cell.order, cell.unit) == (Order.MORF, Unit.SCALAR) else 9.0
        results[point] = result(SUITE, point, answers(point, 0.5), smooth if cell.estimator == "grad" else None)
    found = judge_suite(SuiteResults(SUITE, "da7a", None, results)).smoothness
    assert found == {("grad", 0.3): 2.3, ("grad", 0.9): 2.9}


def test_pixel_mask_only_runs_warn_only_about_pixel_rows():
    """Masks of var-grad leak the class in the pixel unit only."""

    def accuracy(cell):
        return make_leaky_accuracy(0.58)(cell) if cell.unit is Unit.PIXEL else choose_accuracy(cell)

    pixel = tuple(replace(block, seeds=2, unit=Unit.PIXEL) for block in SUITE.blocks if block.protocol is MASK_ONLY)
    suite_results = make_suite_results(replace(SUITE, blocks=(*SUITE.blocks, *pixel)), accuracy)
    (found,) = list_mark_doubts(judge_suite(suite_results, Unit.PIXEL))
    assert found.row == "var-grad" and "mask alone" in found.sentence
    assert list_mark_doubts(judge_suite(suite_results)) == []

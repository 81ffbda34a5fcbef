"""The validity panel on made-up stores whose truth is known, and ROAR's order against other ones."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.integrate import trapezoid

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.row_validity import compare_with_twins, compute_validity_panel
from roarbench.analysis.row_warnings import (
    MARKS,
    Grade,
    RowWarning,
    find_row_marks,
    find_row_warning,
    find_rows_not_above_mask_only,
    find_warnings_by_row,
)
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.common.text import format_interval
from roarbench.plan.planned_runs import expand_points
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MORF, ROAR
from roarbench.plan.suite import Block
from roarbench.report.validity_panel import format_agreements
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate
from tests.helpers.made_up import LEVELS, MAIN, SUITE, answers, held, leaky, one_seed, result, usual

BOOTSTRAP = Bootstrap(300, seed=4)
PLAIN = Block(ROAR, MAIN, LEVELS, seeds=2)


def runs(suite_results, **asked):
    """Results whose cell has all of these values."""
    results = suite_results.results.items()
    return {at: row for at, row in results if all(getattr(at.cell, key) == value for key, value in asked.items())}


def without(suite_results, **gone):
    lost = runs(suite_results, **gone)
    return replace(suite_results, results={at: row for at, row in suite_results.results.items() if at not in lost})


def judged(suite=SUITE, accuracy=usual):
    return SuiteDraws.of(held(suite, accuracy), BOOTSTRAP)


def mean(suite_results, **asked):
    """Share of correct answers of all runs whose cell has these values, else those of ROAR by scalars."""
    asked = {"order": Order.MORF, "retrain": ScoredNetwork.IMAGES, "unit": Unit.SCALAR} | asked
    return np.mean([row.correctness for row in runs(suite_results, **asked).values()])


def gap(suite_results, upper, lower, levels=LEVELS):
    """Mean height in points between the curves of two kinds of runs, which begin as one, under straight lines."""
    heights = [mean(suite_results, t=t, **upper) - mean(suite_results, t=t, **lower) for t in levels]
    return 100 * trapezoid([0.0, *heights], (0.0, *levels)) / levels[-1]


def gain(suite_results, name, unit=Unit.SCALAR):
    return gap(suite_results, {"estimator": "random", "unit": unit}, {"estimator": name, "unit": unit})


def covers(found, truth):
    return found.low <= truth <= found.high


@pytest.fixture(scope="module")
def made():
    return judged()


def test_values_by_scipy(made):
    whole, found = made.suite_results, compute_validity_panel(made.suite_results, BOOTSTRAP)
    assert found.names == (*MAIN, "random-blurred"), "checks stand in their rows"
    assert {each.rows for each in found.agreements.values() if each} == {len(MAIN)}, "twins are no own opinions"
    assert (made.unit, made.lerf_morf_gap_retrained.levels) == (Unit.SCALAR, (0.9,)), "KAR has .5, ROAR .3, too"
    assert made.main_gains.estimate_area("grad").value == pytest.approx(gain(whole, "grad"), abs=1e-9)
    twins = compare_with_twins(made, "grad")
    assert set(twins) == {"blurred", "untrained", "other-target"}
    for kind, twin in twins.items():
        expected = gain(whole, f"grad~{kind}")
        assert twin.gain.value == pytest.approx(expected, abs=1e-9)
        assert twin.difference.value == pytest.approx(gain(whole, "grad") - expected, abs=1e-9)
    assert made.draws_by_unit[Unit.SCALAR] is made.draws_by_fill["mean"] is made.main_gains
    assert made.draws_by_unit[Unit.PIXEL].estimate_area("grad").value == pytest.approx(
        gain(whole, "grad", Unit.PIXEL), abs=1e-9
    )
    retrained = {"estimator": "var-grad"}
    scored = retrained | {"retrain": ScoredNetwork.NONE}
    for drawn, lost, levels in (
        (made.lerf_morf_gap_retrained, retrained, (0.9,)),
        (made.lerf_morf_gap_unretrained, scored, LEVELS),
    ):
        expected = gap(whole, lost | {"order": Order.LERF}, lost, levels)
        assert drawn.estimate_area("var-grad").value == pytest.approx(expected, abs=1e-9)
    for name, t in product(("random", "grad", "var-grad"), LEVELS):
        above, own = (
            made.estimate_accuracy_above_masks(name, t),
            mean(whole, estimator=name, t=t, retrain=ScoredNetwork.MASKS),
        )
        assert above.value == pytest.approx(mean(whole, estimator=name, t=t) - own, abs=1e-12) and above.low > 0
    assert (
        made.estimate_accuracy_above_masks("random-blurred", 0.9) == Estimate()
        and find_rows_not_above_mask_only(made) == {}
    )


TWINS = tuple(f"var-grad~{kind}" for kind in ("blurred", "untrained", "other-image"))
SHARED = replace(SUITE, blocks=(*SUITE.blocks, Block(ROAR, TWINS, LEVELS, seeds=3)))


def sharing(shares):
    """var-grad's true gain is 9 points; its twins and the blurred random map have these shares of it, else nothing."""

    def accuracy(cell):
        retrained = cell.retrain is ScoredNetwork.IMAGES and cell.estimator in shares
        return 0.9 - cell.t * (0.4 + 0.2 * shares[cell.estimator]) if retrained else usual(cell)

    return accuracy


def marks(draws, name):
    return {mark.kind: mark for mark in find_row_marks(draws, name)}


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
def test_a_share_of_the_gain_is_graded(twin, share, grade):
    found, kind = judged(SHARED, sharing({twin: share})), twin.removeprefix("var-grad~")
    mark, flag = marks(found, "var-grad")[kind], find_row_warning(found, "var-grad")
    assert mark.grade is flag.grade is grade and covers(mark.share, share)
    words = f"{MARKS[kind]} reaches {format_interval(mark.share, '{:.0%}'.format)} of the row's gain ({grade})"
    assert (words in flag.reason.lower()) is (grade is not Grade.NONE)


def test_a_row_without_a_gain_has_none_to_share(made):
    """grad is worse than Random, whatever its twins do, and images at chance have nothing of masks' to share."""
    for kind in ("blurred", "untrained", "random-blurred"):
        assert marks(made, "grad")[kind] == (kind, Estimate(), None)
    assert find_row_warning(made, "grad") == RowWarning(Grade.NONE, "")
    assert marks(judged(accuracy=leaky(0.4, 0.25)), "var-grad")["masks"] == ("masks", Estimate(), None)


@pytest.mark.parametrize(
    ("alone", "grade", "floor"),
    [
        (0.36, Grade.NONE, ()),
        (0.5, Grade.SOME, ()),
        (0.6, Grade.STRONG, (0.9,)),  # all that its images tell
    ],
)
def test_masks_alone_have_a_share_of_the_accuracy_above_chance_and_may_tell_as_much_as_images(alone, grade, floor):
    made = judged(accuracy=leaky(alone))
    floors, mark = find_rows_not_above_mask_only(made), marks(made, "var-grad")["masks"]
    assert covers(mark.share, (alone - 0.25) / (0.6 - 0.25)) and mark.grade is grade
    for words in ("ts mask alone reaches", "of the row's accuracy above chance"):
        assert (words in find_row_warning(made, "var-grad").reason) is (grade is not Grade.NONE)
    assert floors == ({"var-grad": floor} if floor else {})


def test_all_reasons_are_one_sentence_the_strong_ones_first():
    def both(cell):
        masks = cell.retrain is ScoredNetwork.MASKS and cell.estimator == "var-grad"
        return 0.7 if masks else sharing({"var-grad~blurred": 0.75})(cell)

    flag = find_row_warning(judged(SHARED, both), "var-grad")
    assert flag.reason.startswith("Its mask alone reaches") and "; its blurred twin, which adds no info" in flag.reason
    assert (flag.grade, flag.warning_sign) == (Grade.STRONG, "(!!)") and flag.reason.endswith("(some).")


def test_a_missing_cell_is_missing(made):
    def lacking(whole, **gone):
        return SuiteDraws.of(without(whole, **gone), BOOTSTRAP)

    whole = made.suite_results
    gone = lacking(whole, estimator="grad~blurred", t=0.9, retrain=ScoredNetwork.IMAGES)
    twins = compare_with_twins(gone, "grad")
    assert twins["blurred"] == (Estimate(), Estimate()) and twins["untrained"].gain.value is not None
    assert gone.main_gains.estimate_area("grad").value == made.main_gains.estimate_area("grad").value
    own = lacking(whole, estimator="grad", t=0.9, retrain=ScoredNetwork.IMAGES)
    assert own.main_gains.estimate_area("grad") == own.lerf_morf_gap_retrained.estimate_area("grad") == Estimate()
    blurred = compare_with_twins(own, "grad")["blurred"]
    assert blurred.difference == Estimate() and blurred.gain.value is not None


def test_one_training_per_cell_gives_values_no_intervals_and_no_flag():
    found = compute_validity_panel(held(one_seed(SUITE), accuracy=leaky(0.7)), BOOTSTRAP)
    made, twin = found.suite_draws, compare_with_twins(found.suite_draws, "grad")["blurred"].difference
    for number in (made.main_gains.estimate_area("grad"), twin, made.mask_only.estimate_difference("var-grad", 0.9)):
        assert number.value is not None and number.low is number.high is None
    assert {find_row_warning(made, name) for name in found.names} == {RowWarning(Grade.NONE, "")}
    assert found.agreements["kar"].tau.value is not None and found.agreements["kar"].tau[1:] == (None, None)
    assert made.lerf_morf_gap_unretrained.estimate_area("var-grad").low is not None, (
        "nothing is trained: images alone are chance"
    )


def test_a_suite_without_checks_has_rows_and_no_flags_and_one_without_roar_masks_alone():
    found = judged(replace(SUITE, blocks=(PLAIN,)))
    assert [
        part.levels for part in (found.mask_only, found.lerf_morf_gap_retrained, found.lerf_morf_gap_unretrained)
    ] == [(), (), ()]
    assert (
        found.lerf_morf_gap_retrained.estimate_area("grad")
        == found.lerf_morf_gap_unretrained.estimate_area("grad")
        == Estimate()
    )
    assert (
        find_warnings_by_row(found)
        == find_warnings_by_row(SuiteDraws.of(SuiteResults(SUITE, "", None, {}), BOOTSTRAP))
        == {}
    )
    alone = judged(replace(SUITE, blocks=(Block(MASK_ONLY, MAIN, (0.9,), seeds=2),)))
    assert (alone.main_gains.levels, alone.main_gains.estimate_area("grad"), alone.draws_by_unit) == (
        (),
        Estimate(),
        {},
    )
    assert alone.mask_only.estimate_accuracy("grad", 0.9).low is not None


def test_every_fill_has_its_gain_and_none_is_mixed():
    suite = replace(SUITE, blocks=(*SUITE.blocks, Block(ROAR, MAIN, (0.5, 0.9), seeds=2, fill="zero")))

    def accuracy(cell):
        return usual(cell) - (0.3 * cell.t if (cell.fill, cell.estimator) == ("zero", "grad") else 0.0)

    found = judged(suite, accuracy)
    assert covers(found.draws_by_fill["mean"].estimate_area("grad"), -4.5) and covers(
        found.draws_by_fill["zero"].estimate_area("grad"), 9.0
    )
    turned = judged(replace(suite, blocks=suite.blocks[::-1]), accuracy)
    assert covers(turned.main_gains.estimate_area("grad"), 9.0)  # tables have the fill that is named first


def test_smoothness_comes_from_any_row_that_removes_by_the_ranking():
    few = replace(PLAIN, estimators=("grad", "var-grad", "random-redrawn"), seeds=1)
    suite = replace(SUITE, blocks=(few, *SUITE.blocks[1:]))
    results = {}
    for point in expand_points(suite):
        cell = point.cell
        kept = {"grad": 2.0, "var-grad": 3.0}.get(cell.estimator) if cell.unit is Unit.SCALAR else 9.0
        smooth = 7.0 if kept and cell.order is Order.LERF else kept and kept + cell.t
        results[point] = result(suite, point, answers(point, 0.5), smooth)
    suite_results = SuiteResults(suite, "da7a", None, results)
    found = SuiteDraws.of(suite_results).smoothness
    assert (found["grad", 0.3], found["grad", 0.9], ("sobel", 0.3) in found) == (2.3, 2.9, False)
    roar_gone = SuiteDraws.of(without(suite_results, retrain=ScoredNetwork.IMAGES)).smoothness
    assert (roar_gone["var-grad", 0.3], roar_gone["var-grad", 0.9]) == (3.3, 3.9), "the networks of masks say it, too"


def test_masks_of_pixels_doubt_the_rows_of_pixels_in_a_suite_that_has_them():
    """var-grad leaks where a feature is a pixel, and there alone."""

    def accuracy(cell):
        return leaky(0.58)(cell) if cell.unit is Unit.PIXEL else usual(cell)

    pixel = tuple(replace(block, seeds=2, unit=Unit.PIXEL) for block in SUITE.blocks if block.protocol is MASK_ONLY)
    suite_results = held(replace(SUITE, blocks=(*SUITE.blocks, *pixel)), accuracy)
    pixels = SuiteDraws(suite_results, Unit.PIXEL, BOOTSTRAP)
    found = find_warnings_by_row(pixels)
    assert set(found) == {"var-grad"} and "mask alone" in found["var-grad"].reason
    assert "var-grad" not in find_warnings_by_row(SuiteDraws.of(suite_results, BOOTSTRAP))


STEEP = {"grad": -0.1, "sobel": 0.1, "var-grad": 0.2}  # four rows whose order is settled everywhere
ORDERS = tuple(replace(PLAIN, protocol=protocol) for protocol in (ROAR, KAR, MORF, LERF))
ORDERED = replace(SUITE, blocks=(*ORDERS, replace(PLAIN, unit=Unit.PIXEL)))


def turned(cell):
    """KAR, LeRF and the pixel unit put the estimators the other way round; MoRF agrees with ROAR."""
    falls = STEEP.get(cell.estimator, 0.0) * (-1 if cell.unit is Unit.PIXEL else 1)
    return 0.9 - cell.t * (0.4 + falls)


def test_every_other_order_is_compared_once_and_tau_has_the_sign_of_the_truth():
    other = replace(ORDERED, name="other", blocks=(PLAIN,))
    made = compute_validity_panel(held(ORDERED, turned), BOOTSTRAP, [held(other, usual)])
    assert [*made.agreements] == ["kar", "morf", "lerf", "unit pixel", "other v1"]
    for (other, alike), tau in zip(made.agreements.items(), (-1, 1, -1, -1), strict=False):
        assert (alike.rows, alike.tau.value) == (4, tau), other
        assert alike.opposed == (alike.settled if tau < 0 else 0), "a pair that differs in both is no chance"
        assert alike.tau.low <= tau <= alike.tau.high
    few = tuple(replace(block, estimators=MAIN[:2]) for block in ORDERED.blocks)
    short = compute_validity_panel(held(replace(ORDERED, blocks=few), turned), BOOTSTRAP)
    assert {*short.agreements.values()} == {None}
    assert "fewer than 3 rows" in format_agreements(short)[0]

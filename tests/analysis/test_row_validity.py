"""The validity panel on synthetic results with known truth, and agreement of ROAR's order with others."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.integrate import trapezoid

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.row_warnings import (
    MARKS,
    Grade,
    RowWarning,
    find_row_warning,
    find_rows_not_above_mask_only,
    find_warnings_by_row,
    grade_shares_of_gain,
)
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.common.text import format_interval
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MORF, ROAR
from roarbench.plan.suite import Block
from roarbench.report.validity_panel import compare_with_twins, compute_validity_panel, format_agreements
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate
from tests.helpers.made_up import (
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

BOOTSTRAP = Bootstrap(300, seed=4)
PLAIN = Block(ROAR, MAIN, LEVELS, seeds=2)


def make_draws(suite=SUITE, accuracy=choose_accuracy):
    return SuiteDraws.of(make_suite_results(suite, accuracy), BOOTSTRAP)


def compute_mean_accuracy(suite_results, **asked):
    """Compute the mean accuracy of the runs with these values; ROAR by scalars is the default."""
    asked = {"order": Order.MORF, "retrain": ScoredNetwork.IMAGES, "unit": Unit.SCALAR} | asked
    return np.mean([row.correctness for point, row in suite_results.results.items() if has_values(point, **asked)])


def compute_area_between(suite_results, upper, lower, levels=LEVELS):
    """Compute the mean difference of two accuracy curves in points, by the trapezoidal rule."""
    above, below = (
        np.array([compute_mean_accuracy(suite_results, t=t, **curve) for t in levels]) for curve in (upper, lower)
    )
    return 100 * trapezoid([0.0, *(above - below)], (0.0, *levels)) / levels[-1]


def compute_gain_over_random(suite_results, name, unit=Unit.SCALAR):
    return compute_area_between(suite_results, {"estimator": "random", "unit": unit}, {"estimator": name, "unit": unit})


def covers(found, truth):
    return found.low <= truth <= found.high


@pytest.fixture(scope="module")
def made():
    return make_draws()


def test_validity_panel_matches_scipy_integration(made):
    whole, found = made.suite_results, compute_validity_panel(made.suite_results, BOOTSTRAP)
    assert found.names == (*MAIN, "random-blurred"), "twins have no row of their own"
    assert {each.rows for each in found.agreements.values() if each} == {len(MAIN)}, "twins do not count in agreements"
    assert made.unit is Unit.SCALAR
    assert made.lerf_morf_gap_retrained.levels == (0.9,), "only .9 is common: KAR also has .5, ROAR .3"
    gain, pixel_gain = (compute_gain_over_random(whole, "grad", unit) for unit in (Unit.SCALAR, Unit.PIXEL))
    assert made.main_gains.estimate_area("grad").value == pytest.approx(gain, abs=1e-9)
    twins = compare_with_twins(made, "grad")
    assert set(twins) == {"blurred", "untrained", "other-target"}
    for kind, twin in twins.items():
        expected = compute_gain_over_random(whole, f"grad~{kind}")
        assert twin.gain.value == pytest.approx(expected, abs=1e-9)
        assert twin.difference.value == pytest.approx(gain - expected, abs=1e-9)
    assert made.draws_by_unit[Unit.SCALAR] is made.draws_by_fill["mean"] is made.main_gains
    assert made.draws_by_unit[Unit.PIXEL].estimate_area("grad").value == pytest.approx(pixel_gain, abs=1e-9)
    retrained = {"estimator": "var-grad"}
    scored = retrained | {"retrain": ScoredNetwork.NONE}
    for drawn, lost, levels in (
        (made.lerf_morf_gap_retrained, retrained, (0.9,)),
        (made.lerf_morf_gap_unretrained, scored, LEVELS),
    ):
        expected = compute_area_between(whole, lost | {"order": Order.LERF}, lost, levels)
        assert drawn.estimate_area("var-grad").value == pytest.approx(expected, abs=1e-9)
    for name, t in product(("random", "grad", "var-grad"), LEVELS):
        above, images = made.estimate_accuracy_above_masks(name, t), compute_mean_accuracy(whole, estimator=name, t=t)
        masks = compute_mean_accuracy(whole, estimator=name, t=t, retrain=ScoredNetwork.MASKS)
        assert above.value == pytest.approx(images - masks, abs=1e-12) and above.low > 0
    assert made.estimate_accuracy_above_masks("random-blurred", 0.9) == Estimate()
    assert find_rows_not_above_mask_only(made) == {}


TWINS = tuple(f"var-grad~{kind}" for kind in ("blurred", "untrained", "other-image"))
SHARED = replace(SUITE, blocks=(*SUITE.blocks, Block(ROAR, TWINS, LEVELS, seeds=3)))


def make_shared_gain_accuracy(shares):
    """Make an accuracy function where the named twins and controls have these shares of var-grad's gain of 9 points."""

    def accuracy(cell):
        retrained = cell.retrain is ScoredNetwork.IMAGES and cell.estimator in shares
        return 0.9 - cell.t * (0.4 + 0.2 * shares[cell.estimator]) if retrained else choose_accuracy(cell)

    return accuracy


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
    mark, flag = find_marks_by_kind(found, "var-grad")[kind], find_row_warning(found, "var-grad")
    assert mark.grade is flag.grade is grade and covers(mark.share, share)
    words = f"{MARKS[kind]} reaches {format_interval(mark.share, '{:.0%}'.format)} of the row's gain ({grade})"
    assert (words in flag.reason.lower()) is (grade is not Grade.NONE)


def test_row_without_gain_has_empty_marks(made):
    """grad is worse than Random, and images at chance have no accuracy that masks could share."""
    for kind in ("blurred", "untrained", "random-blurred"):
        assert find_marks_by_kind(made, "grad")[kind] == (kind, Estimate(), None)
    assert find_row_warning(made, "grad") == RowWarning(Grade.NONE, "")
    at_chance = make_draws(accuracy=make_leaky_accuracy(0.4, 0.25))
    assert find_marks_by_kind(at_chance, "var-grad")["masks"] == ("masks", Estimate(), None)


# at .6 the masks reach the accuracy of the images
@pytest.mark.parametrize(
    ("alone", "grade", "floor"), [(0.36, Grade.NONE, ()), (0.5, Grade.SOME, ()), (0.6, Grade.STRONG, (0.9,))]
)
def test_mask_only_mark_grades_share_of_accuracy_above_chance(alone, grade, floor):
    made = make_draws(accuracy=make_leaky_accuracy(alone))
    floors, mark = find_rows_not_above_mask_only(made), find_marks_by_kind(made, "var-grad")["masks"]
    assert covers(mark.share, (alone - 0.25) / (0.6 - 0.25)) and mark.grade is grade
    for words in ("ts mask alone reaches", "of the row's accuracy above chance"):
        assert (words in find_row_warning(made, "var-grad").reason) is (grade is not Grade.NONE)
    assert floors == ({"var-grad": floor} if floor else {})


def test_row_warning_lists_strong_reasons_first():
    def both(cell):
        masks = cell.retrain is ScoredNetwork.MASKS and cell.estimator == "var-grad"
        return 0.7 if masks else make_shared_gain_accuracy({"var-grad~blurred": 0.75})(cell)

    flag = find_row_warning(make_draws(SHARED, both), "var-grad")
    assert flag.reason.startswith("Its mask alone reaches") and "; its blurred twin, which adds no info" in flag.reason
    assert (flag.grade, flag.warning_sign) == (Grade.STRONG, "(!!)") and flag.reason.endswith("(some).")


def test_missing_cell_gives_empty_estimates(made):
    def lacking(whole, **gone):
        return SuiteDraws.of(remove_rows(whole, **gone), BOOTSTRAP)

    whole = made.suite_results
    gone = lacking(whole, estimator="grad~blurred", t=0.9, retrain=ScoredNetwork.IMAGES)
    twins = compare_with_twins(gone, "grad")
    assert twins["blurred"] == (Estimate(), Estimate()) and twins["untrained"].gain.value is not None
    assert gone.main_gains.estimate_area("grad").value == made.main_gains.estimate_area("grad").value
    own = lacking(whole, estimator="grad", t=0.9, retrain=ScoredNetwork.IMAGES)
    assert own.main_gains.estimate_area("grad") == own.lerf_morf_gap_retrained.estimate_area("grad") == Estimate()
    blurred = compare_with_twins(own, "grad")["blurred"]
    assert blurred.difference == Estimate() and blurred.gain.value is not None


def test_single_seed_panel_has_values_without_intervals():
    results = make_suite_results(limit_to_one_seed(SUITE), accuracy=make_leaky_accuracy(0.7))
    found = compute_validity_panel(results, BOOTSTRAP)
    made, twin = found.suite_draws, compare_with_twins(found.suite_draws, "grad")["blurred"].difference
    gain, masks = made.main_gains.estimate_area("grad"), made.mask_only.compare_with_counterpart("var-grad", 0.9)
    for number in (gain, twin, masks):
        assert number.value is not None and number.low is number.high is None
    assert {find_row_warning(made, name) for name in found.names} == {RowWarning(Grade.NONE, "")}
    assert found.agreements["kar"].tau.value is not None and found.agreements["kar"].tau[1:] == (None, None)
    unretrained = made.lerf_morf_gap_unretrained.estimate_area("var-grad")
    assert unretrained.low is not None, "without training, the interval covers images only"


def test_suites_without_checks_or_roar_have_no_warnings():
    found = make_draws(replace(SUITE, blocks=(PLAIN,)))
    assert found.mask_only.levels == ()
    for gap in (found.lerf_morf_gap_retrained, found.lerf_morf_gap_unretrained):
        assert (gap.levels, gap.estimate_area("grad")) == ((), Estimate())
    empty = SuiteDraws.of(SuiteResults(SUITE, "", None, {}), BOOTSTRAP)
    assert find_warnings_by_row(found) == find_warnings_by_row(empty) == {}
    alone = make_draws(replace(SUITE, blocks=(Block(MASK_ONLY, MAIN, (0.9,), seeds=2),)))
    assert (alone.main_gains.levels, alone.draws_by_unit) == ((), {})
    assert alone.main_gains.estimate_area("grad") == Estimate()
    assert alone.mask_only.estimate_accuracy("grad", 0.9).low is not None


def test_gain_is_computed_separately_for_each_fill():
    suite = replace(SUITE, blocks=(*SUITE.blocks, Block(ROAR, MAIN, (0.5, 0.9), seeds=2, fill="zero")))

    def accuracy(cell):
        return choose_accuracy(cell) - (0.3 * cell.t if (cell.fill, cell.estimator) == ("zero", "grad") else 0.0)

    found = make_draws(suite, accuracy)
    for fill, gain in (("mean", -4.5), ("zero", 9.0)):
        assert covers(found.draws_by_fill[fill].estimate_area("grad"), gain), fill
    turned = make_draws(replace(suite, blocks=suite.blocks[::-1]), accuracy)
    assert covers(turned.main_gains.estimate_area("grad"), 9.0)  # tables use the fill of the first block


def test_smoothness_uses_morf_rows_of_scalar_rankings():
    few = replace(PLAIN, estimators=("grad", "var-grad", "random-redrawn"), seeds=1)
    suite = replace(SUITE, blocks=(few, *SUITE.blocks[1:]))
    results = {}
    for point in list_planned_runs(suite):
        cell = point.cell
        kept = {"grad": 2.0, "var-grad": 3.0}.get(cell.estimator) if cell.unit is Unit.SCALAR else 9.0
        smooth = 7.0 if kept and cell.order is Order.LERF else kept and kept + cell.t
        results[point] = result(suite, point, answers(point, 0.5), smooth)
    suite_results = SuiteResults(suite, "da7a", None, results)
    found = SuiteDraws.of(suite_results).smoothness
    assert (found["grad", 0.3], found["grad", 0.9], ("sobel", 0.3) in found) == (2.3, 2.9, False)
    roar_gone = SuiteDraws.of(remove_rows(suite_results, retrain=ScoredNetwork.IMAGES)).smoothness
    assert (roar_gone["var-grad", 0.3], roar_gone["var-grad", 0.9]) == (3.3, 3.9), "mask-only runs have smoothness, too"


def test_pixel_mask_only_runs_warn_only_about_pixel_rows():
    """Masks of var-grad leak the class in the pixel unit only."""

    def accuracy(cell):
        return make_leaky_accuracy(0.58)(cell) if cell.unit is Unit.PIXEL else choose_accuracy(cell)

    pixel = tuple(replace(block, seeds=2, unit=Unit.PIXEL) for block in SUITE.blocks if block.protocol is MASK_ONLY)
    suite_results = make_suite_results(replace(SUITE, blocks=(*SUITE.blocks, *pixel)), accuracy)
    pixels = SuiteDraws(suite_results, Unit.PIXEL, BOOTSTRAP)
    found = find_warnings_by_row(pixels)
    assert set(found) == {"var-grad"} and "mask alone" in found["var-grad"].reason
    assert "var-grad" not in find_warnings_by_row(SuiteDraws.of(suite_results, BOOTSTRAP))


STEEP = {"grad": -0.1, "sobel": 0.1, "var-grad": 0.2}  # four rows with significant differences under every protocol
ORDERS = tuple(replace(PLAIN, protocol=protocol) for protocol in (ROAR, KAR, MORF, LERF))
ORDERED = replace(SUITE, blocks=(*ORDERS, replace(PLAIN, unit=Unit.PIXEL)))


def turned(cell):
    """Give KAR, LeRF and the pixel unit the reverse order of estimators; MoRF agrees with ROAR."""
    falls = STEEP.get(cell.estimator, 0.0) * (-1 if cell.unit is Unit.PIXEL else 1)
    return 0.9 - cell.t * (0.4 + falls)


def test_rank_agreements_have_sign_of_true_order():
    other = make_suite_results(replace(ORDERED, name="other", blocks=(PLAIN,)), choose_accuracy)
    made = compute_validity_panel(make_suite_results(ORDERED, turned), BOOTSTRAP, [other])
    assert [*made.agreements] == ["kar", "morf", "lerf", "unit pixel", "other v1"]
    for (other, alike), tau in zip(made.agreements.items(), (-1, 1, -1, -1), strict=False):
        assert (alike.rows, alike.tau.value) == (4, tau), other
        assert alike.opposed == (alike.settled if tau < 0 else 0), "every significant pair is opposed or none"
        assert alike.tau.low <= tau <= alike.tau.high
    few = tuple(replace(block, estimators=MAIN[:2]) for block in ORDERED.blocks)
    short = compute_validity_panel(make_suite_results(replace(ORDERED, blocks=few), turned), BOOTSTRAP)
    assert {*short.agreements.values()} == {None}
    assert "fewer than 3 rows" in format_agreements(short)[0]

"""The validity panel on made-up stores whose truth is known."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.validity import Panel, Validity, flags, panel
from roarbench.errors import CallerError
from roarbench.plan.runs import CLEAN, Block, Cell, Point, Suite, expand
from roarbench.stats.bootstrap import Bootstrap, Estimate
from roarbench.terms import KAR, MASK_ONLY, ROAR, Order, Retrain, Unit
from tests.helpers.made_up import IMAGES, LEVELS, MAIN, SUITE, answers, held, leaky, one_seed, result, usual

BOOTSTRAP = Bootstrap(600, seed=4)


def altered(suite_results: SuiteResults, alike: dict[str, str]) -> SuiteResults:
    """The ROAR rows of some estimators replaced by those of others, answer for answer."""
    results = dict(suite_results.results)
    for point in results:
        cell = point.cell
        if cell.estimator in alike and cell.retrain is Retrain.IMAGES and cell.unit is Unit.SCALAR:
            source = replace(point, cell=replace(cell, estimator=alike[cell.estimator]))
            results[point] = result(suite_results.suite, point, suite_results.results[source].answers)
    return replace(suite_results, results=results)


def without(suite_results: SuiteResults, gone: Callable[[Point], bool]) -> SuiteResults:
    kept = {point: found for point, found in suite_results.results.items() if not gone(point)}
    return replace(suite_results, results=kept)


def one_seed_of(suite: Suite, name: str) -> Suite:
    """The suite with one training of an estimator under ROAR, as many as its twins have."""
    blocks = list(suite.blocks)
    first = blocks[0]
    blocks[0] = replace(first, estimators=tuple(other for other in first.estimators if other != name))
    return replace(suite, blocks=(*blocks, Block(ROAR, (name,), LEVELS, seeds=1)))


def row(made: Panel, name: str) -> Validity:
    return next(found for found in made.rows if found.estimator == name)


def mean(suite_results: SuiteResults, **asked: object) -> float:
    """Share of correct answers of all runs whose cell has these values, by loops."""
    counts = []
    for point, found in suite_results.results.items():
        if all(getattr(point.cell, key) == value for key, value in asked.items()):
            counts += [bool(answer) for answer in found.answers]
    return sum(counts) / len(counts)


def slow_area(points: Iterable[tuple[float, float]]) -> float:
    """Mean height under straight lines between points, times 100."""
    points = list(points)
    total = sum((u - t) * (a + b) / 2 for (t, a), (u, b) in zip(points, points[1:], strict=False))
    return 100 * total / (points[-1][0] - points[0][0])


def slow_gain(suite_results: SuiteResults, name: str, unit: Unit = Unit.SCALAR) -> float:
    images = {"order": Order.MORF, "retrain": Retrain.IMAGES}
    curve = [(0.0, 0.0)] + [
        (
            t,
            mean(suite_results, estimator="random", t=t, unit=unit, **images)
            - mean(suite_results, estimator=name, t=t, unit=unit, **images),
        )
        for t in LEVELS
    ]
    return slow_area(curve)


def covers(found: Estimate, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


@pytest.fixture(scope="module")
def whole() -> SuiteResults:
    return held()


@pytest.fixture(scope="module")
def made(whole: SuiteResults) -> Panel:
    return panel(whole, BOOTSTRAP)


@pytest.mark.slow
def test_what_the_panel_is_of(made: Panel) -> None:
    names = [found.estimator for found in made.rows]
    assert names == [*MAIN, "random-blurred"], "checks stand in the rows of what they are made from"
    assert (made.unit, made.chance) == (Unit.SCALAR, 0.25)
    assert (made.levels, made.mask_levels, made.reference_levels) == (LEVELS, LEVELS, LEVELS)
    assert made.retrained_levels == (0.9,), "KAR has .5 and .9, ROAR .3 and .9"


def test_values_by_loops(whole: SuiteResults, made: Panel) -> None:
    grad = row(made, "grad")
    for t, alone, lead in zip(LEVELS, grad.masks, grad.over_random, strict=True):
        own = mean(whole, estimator="grad", retrain=Retrain.MASKS, t=t)
        assert alone.value == pytest.approx(own, rel=1e-12)
        random = mean(whole, estimator="random", retrain=Retrain.MASKS, t=t)
        assert lead.value == pytest.approx(own - random, abs=1e-12)
    assert grad.gain.value == pytest.approx(slow_gain(whole, "grad"), abs=1e-9)
    assert set(grad.twins) == {"blurred", "untrained", "other-target"}
    for kind, twin in grad.twins.items():
        gain = slow_gain(whole, f"grad~{kind}")
        assert twin.gain.value == pytest.approx(gain, abs=1e-9)
        assert twin.difference.value == pytest.approx(gain - slow_gain(whole, "grad"), abs=1e-9)
    assert grad.units[Unit.SCALAR] == grad.fills["mean"] == grad.gain
    assert grad.units[Unit.PIXEL].value == pytest.approx(slow_gain(whole, "grad", Unit.PIXEL), abs=1e-9)


def test_areas_between_both_orders_by_loops(whole: SuiteResults, made: Panel) -> None:
    var = row(made, "var-grad")
    gaps: dict[Retrain, list[tuple[float, float]]] = {Retrain.IMAGES: [(0.0, 0.0)], Retrain.NONE: [(0.0, 0.0)]}
    for retrain, levels in ((Retrain.IMAGES, (0.9,)), (Retrain.NONE, LEVELS)):
        asked = {"estimator": "var-grad", "retrain": retrain, "unit": Unit.SCALAR}
        for t in levels:
            kept = mean(whole, t=t, order=Order.LERF, **asked)
            gaps[retrain].append((t, kept - mean(whole, t=t, order=Order.MORF, **asked)))
    assert var.retrained_gap.value == pytest.approx(slow_area(gaps[Retrain.IMAGES]), abs=1e-9)
    assert var.reference_gap.value == pytest.approx(slow_area(gaps[Retrain.NONE]), abs=1e-9)


def test_intervals_hold_the_truth_of_this_store(made: Panel) -> None:
    """Not their coverage, which docs/statistics.md has: that the right rows are paired with the right sign."""
    grad, var = row(made, "grad"), row(made, "var-grad")
    # the true curve of grad lies .1 t above Random's: half of .1 * .9, with levels 0, .3, .9
    assert covers(grad.gain, -4.5) and covers(var.gain, 9.0)
    assert covers(grad.twins["blurred"].difference, 9.0)
    assert covers(grad.twins["untrained"].difference, -9.0)
    assert covers(grad.twins["other-target"].difference, 4.5)
    assert covers(grad.over_random[0], 0.0) and covers(grad.masks[1], 0.25)
    assert covers(var.reference_gap, 18.0)
    assert var.retrained_gap.value == pytest.approx(18.0, abs=1.5) and var.retrained_gap.low is None  # KAR has one seed
    assert covers(row(made, "random").twins["blurred"].difference, 0.0)


@pytest.mark.slow
def test_gains_are_those_of_the_board(whole: SuiteResults) -> None:
    board = whole.board(ROAR, Unit.SCALAR)
    assert board is not None
    gains = {found.estimator: found.gain for found in board.rows}
    for found in panel(whole).rows:
        assert found.gain == gains[found.estimator]
        for kind, twin in found.twins.items():
            prefix = "random-" if found.estimator == "random" else f"{found.estimator}~"
            assert twin.gain == gains[prefix + kind]


def test_a_better_twin_is_a_reason(made: Panel) -> None:
    flag = row(made, "grad").flag
    assert flag.startswith("Its blurred twin, which adds no information, gains more (+")
    assert flag.endswith(" points).") and "untrained" not in flag and "tells the class" not in flag
    assert row(made, "var-grad").flag == row(made, "sobel").flag == ""


@pytest.mark.parametrize(("kind", "word"), [("blurred", "adds no information"), ("untrained", "has learnt nothing")])
def test_an_equal_twin_is_a_reason_and_its_difference_is_zero_without_width(kind: str, word: str) -> None:
    suite = one_seed_of(SUITE, "grad")
    found = panel(altered(held(suite), {f"grad~{kind}": "grad"}), BOOTSTRAP)
    twin = row(found, "grad").twins[kind]
    assert twin.difference == (0.0, 0.0, 0.0)
    assert twin.gain == row(found, "grad").gain
    assert f"its {kind} twin, which {word}, gains no less" in row(found, "grad").flag.lower()


@pytest.mark.parametrize(("right", "doubted"), [(True, False), (False, True)], ids=["grad leads", "the twin leads"])
def test_a_lead_that_is_not_told_apart_speaks_for_the_one_who_has_it(right: bool, doubted: bool) -> None:
    """The twin answers as grad does, but for five more images that it answers right, or wrong."""
    suite_results = altered(held(one_seed_of(SUITE, "grad")), {"grad~blurred": "grad", "grad~untrained": "random"})
    results = dict(suite_results.results)
    for point, found in suite_results.results.items():
        if point.cell.estimator == "grad~blurred":
            bits = found.answers.copy()
            bits[np.flatnonzero(bits != right)[:5]] = right
            results[point] = result(suite_results.suite, point, bits)
    grad = row(panel(replace(suite_results, results=results), BOOTSTRAP), "grad")
    value, low, high = grad.twins["blurred"].difference
    assert value == pytest.approx((-1 if right else 1) * 100 * 5 / IMAGES * (1 - 0.3 / 2 / 0.9), rel=1e-9)
    assert low is not None and high is not None and low < 0 < high
    assert ("its blurred twin, which adds no information, gains no less" in grad.flag.lower()) is doubted


def test_the_other_target_is_no_reason() -> None:
    def other(cell: Cell) -> float:
        return usual(cell) - (0.2 if cell.estimator == "grad~other-target" else 0.0) - twin_lag(cell)

    found = row(panel(held(accuracy=other), BOOTSTRAP), "grad")
    assert (found.twins["other-target"].difference.low or 0) > 0
    assert found.flag == ""


def twin_lag(cell: Cell) -> float:
    """Makes the blurred twin worse than grad."""
    return -0.3 * cell.t if cell.estimator == "grad~blurred" else 0.0


@pytest.mark.parametrize(
    ("alone", "images", "doubted"),
    [(0.5, 0.6, True), (0.36, 0.6, False), (0.7, 0.6, True), (0.45, 0.2, True), (0.25, 0.1, False)],
    ids=["nearer to the images", "nearer to Random", "beyond the images", "images below Random's masks", "no lead"],
)
def test_masks_that_tell_the_class(alone: float, images: float, doubted: bool) -> None:
    flag = row(panel(held(accuracy=leaky(alone, images)), BOOTSTRAP), "var-grad").flag
    assert bool(flag) is doubted
    if doubted:
        assert flag.startswith("Where its features are missing tells the class without the images (")
        assert "at t = 0.9" in flag


def test_half_way_is_not_enough_unless_it_is_sure() -> None:
    """At .43 of .25 … .6 the masks are a little beyond half way, within their interval."""
    found = panel(held(accuracy=leaky(0.43)), BOOTSTRAP)
    alone, random = row(found, "var-grad").masks[1].value, row(found, "random").masks[1].value
    assert alone is not None and random is not None and 0.5 < (alone - random) / (0.6 - random) < 0.56
    assert row(found, "var-grad").flag == ""


def test_the_level_with_the_largest_lead_is_named() -> None:
    def two(cell: Cell) -> float:
        if cell.retrain is not Retrain.MASKS or cell.estimator != "var-grad":
            return usual(cell)
        return 0.8 if cell.t == 0.3 else 0.6

    assert "at t = 0.3;" in row(panel(held(accuracy=two), BOOTSTRAP), "var-grad").flag


def test_two_reasons_are_one_sentence() -> None:
    def both(cell: Cell) -> float:
        masks = cell.retrain is Retrain.MASKS and cell.estimator == "grad"
        return 0.7 if masks else usual(cell)

    flag = row(panel(held(accuracy=both), BOOTSTRAP), "grad").flag
    assert flag.startswith("Its blurred twin") and "; where its features are missing tells the class" in flag
    assert flag.count(". ") == 0 and flag.endswith(".")


def test_random_is_shown_with_its_forms_and_never_doubted() -> None:
    def generous(cell: Cell) -> float:
        return usual(cell) - (0.2 if cell.estimator.startswith("random-") else 0.0)

    random = row(panel(held(accuracy=generous), BOOTSTRAP), "random")
    assert set(random.twins) == {"blurred", "redrawn"}
    assert all((twin.difference.low or 0) > 5 for twin in random.twins.values())
    assert random.gain == (0.0, 0.0, 0.0) and random.flag == ""


def is_grad_at(name: str, t: float, retrain: Retrain) -> Callable[[Point], bool]:
    return lambda point: (point.cell.estimator, point.cell.t, point.cell.retrain) == (name, t, retrain)


def test_a_missing_cell_is_missing(whole: SuiteResults, made: Panel) -> None:
    gone = panel(without(whole, is_grad_at("grad~blurred", 0.9, Retrain.IMAGES)), BOOTSTRAP)
    grad, before = row(gone, "grad"), row(made, "grad")
    assert grad.twins["blurred"] == (Estimate(), Estimate()) and grad.flag == ""
    assert grad.gain.value == before.gain.value and grad.twins["untrained"].gain.value is not None

    own = row(panel(without(whole, is_grad_at("grad", 0.9, Retrain.IMAGES)), BOOTSTRAP), "grad")
    assert own.gain == own.units[Unit.SCALAR] == own.fills["mean"] == own.retrained_gap == Estimate()
    assert own.twins["blurred"].difference == Estimate() and own.twins["blurred"].gain.value is not None
    assert own.flag == ""

    masks = panel(without(held(accuracy=leaky(0.5)), is_grad_at("random", 0.9, Retrain.MASKS)), BOOTSTRAP)
    assert row(masks, "var-grad").masks[1].low is not None
    assert row(masks, "var-grad").over_random == (row(masks, "var-grad").over_random[0], Estimate())
    assert row(masks, "var-grad").flag == ""


def test_an_empty_store_has_rows_without_numbers() -> None:
    found = panel(SuiteResults(SUITE, "", None, {}), BOOTSTRAP)
    grad = row(found, "grad")
    assert grad.masks == grad.over_random == (Estimate(), Estimate())
    assert grad.smoothness == (None, None)
    assert {*grad.units.values(), *grad.fills.values(), grad.retrained_gap, grad.reference_gap} == {Estimate()}
    assert {twin for twin in grad.twins.values()} == {(Estimate(), Estimate())}
    assert flags(SuiteResults(SUITE, "", None, {}), Unit.SCALAR) == {}


def test_one_training_per_cell_gives_values_no_intervals_and_no_flag() -> None:
    suite = one_seed(SUITE)
    found = panel(held(suite, accuracy=leaky(0.7)), BOOTSTRAP)
    grad, var = row(found, "grad"), row(found, "var-grad")
    for number in (grad.gain, grad.twins["blurred"].difference, grad.masks[0], var.over_random[1], var.retrained_gap):
        assert number.value is not None and number.low is None and number.high is None
    assert (grad.twins["blurred"].difference.value or 0) > 5 and (var.over_random[1].value or 0) > 0.3
    assert {one.flag for one in found.rows} == {""}
    assert var.reference_gap.low is not None, "nothing is trained: images alone are chance"


def test_one_training_of_a_twin_borrows_the_spread_of_the_others(made: Panel) -> None:
    difference = row(made, "grad").twins["blurred"].difference
    gain = row(made, "grad").gain
    assert difference.low is not None and difference.high is not None and gain.low is not None and gain.high is not None
    assert difference.high - difference.low > gain.high - gain.low, "one training says less than three"


def test_a_suite_without_checks_has_rows_and_no_flags() -> None:
    suite = replace(SUITE, blocks=(Block(ROAR, MAIN, LEVELS, seeds=2),))
    found = panel(held(suite), BOOTSTRAP)
    grad = row(found, "grad")
    assert (found.mask_levels, found.retrained_levels, found.reference_levels) == ((), (), ())
    assert (grad.masks, grad.twins, grad.retrained_gap, grad.reference_gap) == ((), {}, Estimate(), Estimate())
    assert grad.gain.low is not None and flags(held(suite), Unit.SCALAR) == {}


def test_a_suite_without_roar_has_masks_alone() -> None:
    suite = replace(SUITE, blocks=(Block(MASK_ONLY, MAIN, (0.9,), seeds=2),))
    found = panel(held(suite), BOOTSTRAP)
    assert found.levels == () and row(found, "grad").gain == Estimate() and row(found, "grad").units == {}
    assert row(found, "grad").masks[0].low is not None


def test_every_fill_has_its_gain_and_none_is_mixed() -> None:
    suite = replace(SUITE, blocks=(*SUITE.blocks, Block(ROAR, MAIN, (0.5, 0.9), seeds=2, fill="zero")))

    def accuracy(cell: Cell) -> float:
        return usual(cell) - (0.3 * cell.t if (cell.fill, cell.estimator) == ("zero", "grad") else 0.0)

    suite_results = held(suite, accuracy)
    grad = row(panel(suite_results, BOOTSTRAP), "grad")
    assert covers(grad.fills["mean"], -4.5) and covers(grad.fills["zero"], 9.0)
    assert grad.gain == grad.fills["mean"]
    zero = suite_results.scores(ROAR, Unit.SCALAR, fill="zero")
    assert zero is not None and zero.levels == (0.5, 0.9) and grad.smoothness == (None, None)


def test_a_curve_of_two_rankings_has_no_area_to_the_other_order(whole: SuiteResults, made: Panel) -> None:
    def other(point: Point) -> bool:
        return (point.cell.estimator, point.cell.order, point.cell.t) == ("grad", Order.LERF, 0.9)

    results = {point: replace(row, rankings="b" if other(point) else "a") for point, row in whole.results.items()}
    found = panel(replace(whole, results=results), BOOTSTRAP)
    gaps = {name.estimator: (name.retrained_gap.value, name.reference_gap.value) for name in found.rows}
    before = {name.estimator: (name.retrained_gap.value, name.reference_gap.value) for name in made.rows}
    # of KAR, the two levels are .5 and .9; of LeRF, .3 and .9
    assert gaps == before | {"grad": (None, None)}


def test_equal_curves_of_both_orders_have_no_area_and_no_width() -> None:
    """The untouched images are the same for both, so no draw may part them there."""
    suite = replace(SUITE, blocks=(Block(ROAR, MAIN, LEVELS, seeds=2), Block(KAR, MAIN, LEVELS, seeds=2)))
    suite_results = held(suite)
    results = {
        point: result(
            suite, point, suite_results.results[replace(point, cell=replace(point.cell, order=Order.MORF))].answers
        )
        for point in suite_results.results
    }
    found = panel(replace(suite_results, results=results), BOOTSTRAP)
    assert {one.retrained_gap for one in found.rows} == {(0.0, 0.0, 0.0)}


def test_smoothness_comes_from_any_row_that_removes_by_the_ranking() -> None:
    suite = replace(SUITE, blocks=SUITE.blocks[1:])  # ROAR's scalar levels are those of the twins then
    suite = replace(suite, blocks=(Block(ROAR, ("grad", "var-grad", "random-redrawn"), LEVELS, seeds=1), *suite.blocks))
    values = {}
    for point in expand(suite):
        cell = point.cell
        kept = {"grad": 2.0, "var-grad": 3.0}.get(cell.estimator) if cell.unit is Unit.SCALAR else 9.0
        values[point] = 7.0 if kept and cell.order is Order.LERF else kept and kept + cell.t
    results = {point: result(suite, point, answers(point, 0.5), smooth) for point, smooth in values.items()}
    suite_results = SuiteResults(suite, "da7a", None, results)
    assert row(panel(suite_results, BOOTSTRAP), "grad").smoothness == (2.3, 2.9)
    assert row(panel(suite_results, BOOTSTRAP), "sobel").smoothness == (None, None)
    roar_gone = without(suite_results, lambda point: point.cell.retrain is Retrain.IMAGES)
    assert row(panel(roar_gone, BOOTSTRAP), "var-grad").smoothness == (3.3, 3.9), "the networks of masks say it, too"


def test_flags_are_those_of_the_panel(whole: SuiteResults, made: Panel) -> None:
    expected = {found.estimator: found.flag for found in made.rows if found.flag}
    assert flags(whole, Unit.SCALAR, BOOTSTRAP) == expected and set(expected) == {"grad"}
    assert flags(whole, Unit.PIXEL, BOOTSTRAP) == {}, "of pixels the suite has neither twins nor masks"


def test_a_twin_that_nobody_vouches_for_is_flagged(whole: SuiteResults) -> None:
    doubts = dict.fromkeys(("grad~blurred", "random-redrawn", CLEAN), "self-reported: imported")
    found = flags(replace(whole, doubts=doubts), Unit.SCALAR, BOOTSTRAP)
    assert set(found) == {"grad", "grad~blurred", "random-redrawn"}
    assert found["grad~blurred"] == "Self-reported: imported."


def test_masks_of_pixels_doubt_the_rows_of_pixels() -> None:
    """var-grad leaks where a feature is a pixel, and there alone."""

    def accuracy(cell: Cell) -> float:
        return leaky(0.58)(cell) if cell.unit is Unit.PIXEL else usual(cell)

    masks = Block(MASK_ONLY, MAIN, (0.9,), seeds=1, unit=Unit.PIXEL)
    suite_results = held(replace(SUITE, blocks=(*SUITE.blocks, masks)), accuracy)
    pixels = panel(suite_results, BOOTSTRAP, unit=Unit.PIXEL)
    assert pixels.unit is Unit.PIXEL and pixels.mask_levels == (0.9,)
    found = flags(suite_results, Unit.PIXEL, BOOTSTRAP)
    assert {name.estimator: name.flag for name in pixels.rows if name.flag} == found
    assert set(found) == {"var-grad"} and "without the images" in found["var-grad"]
    assert "var-grad" not in flags(suite_results, Unit.SCALAR, BOOTSTRAP)


def test_a_unit_that_a_suite_has_not_is_refused() -> None:
    suite = replace(SUITE, blocks=SUITE.blocks[:1])
    with pytest.raises(CallerError, match="suite 'made-up' has no unit pixel; it has: scalar"):
        panel(held(suite), BOOTSTRAP, unit=Unit.PIXEL)

"""Boards as records: the numbers of the statistics, and nothing more."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from leaderboard.judged import board_record
from leaderboard.records import BoardRecord, BoardRow, cost_axis, linear_axis
from leaderboard.views import SuiteView, read_views
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.estimators.naming import human_name
from roarbench.plan.points import Point
from roarbench.plan.runs import CLEAN
from roarbench.plan.suites import VERSIONS
from roarbench.protocols import SHOWN
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.report.table import table_of
from roarbench.stats.bootstrap import Bootstrap, Estimate
from roarbench.store.result import pack_answers
from roarbench.store.results import ResultsStore
from roarbench.terms import Retrain, Unit
from tests.helpers.board_store import make_store
from tests.helpers.made_up import SUITE, held, one_seed


def record(results: SuiteResults, protocol=ROAR, levels: tuple[float, ...] = (), **more) -> BoardRecord:
    evidence = Evidence.of(results, Bootstrap(200))
    table = table_of(evidence, protocol, results.suite.placed, levels=levels)
    assert table is not None
    return board_record(evidence, table, **more)


@pytest.mark.parametrize(
    ("protocol", "levels"), [("roar", ()), ("roar", (0.9,)), ("kar", ()), ("lerf", ()), ("diffroar", ())]
)
def test_numbers_are_those_of_the_statistics(quick: SuiteResults, protocol: str, levels: tuple[float, ...]) -> None:
    board = Evidence.of(quick, Bootstrap(200)).board(SHOWN[protocol], Unit.SCALAR, quick.suite.placed, levels)
    shown = record(quick, SHOWN[protocol], levels)
    assert board is not None and shown.levels == board.levels
    assert {row.id: (row.value, row.place, row.beating) for row in shown.rows} == {
        row.estimator: (row.gain, row.place, row.beating) for row in board.rows
    }
    gains = [row.value.value for row in shown.rows]
    assert gains == sorted(gains, reverse=True)


def test_rows_are_estimators_and_controls_without_twins(quick: SuiteResults) -> None:
    shown = record(quick, seconds={"grad": 1.5, "ig": 2.0, "var-grad": 30.0})
    assert {row.id for row in shown.rows if not row.control} == {"grad", "grad-sq", "sgsq-grad", "var-grad", "ig", "gb"}
    assert {row.id for row in shown.rows if row.control} == {"random", "sobel", "random-blurred"}
    assert shown.best and shown.best.id == "sobel" and shown.by_id["sobel"].beating is None
    assert shown.costs and shown.costs.ticks == (1.0, 10.0, 100.0)
    for word in ("levels 0.5, 0.9", "2 seeds", "300 test images", "unit scalar", "fill mean"):
        assert word in shown.caption


def test_mask_only_has_accuracies_and_neither_gains_nor_places(quick: SuiteResults) -> None:
    shown = record(quick, MASK_ONLY)
    assert not shown.gained and not shown.best and shown.measured == "accuracy at t = 0.9, %"
    assert {(row.place, 0 < row.value.value < 100) for row in shown.rows} == {(None, True)}


def test_verdicts_are_against_every_control(quick: SuiteResults) -> None:
    """Better than Random alone is no success: each control stands there with the gain over it."""
    found = record(quick)
    beating = {row.id: row.beating for row in found.rows if not row.control}
    assert all(each and each.each.keys() == {"random", "sobel", "random-blurred"} for each in beating.values())
    assert all(each.each[each.nearest] == each.over for each in beating.values() if each)
    gb, sobel = found.by_id["gb"].value.value, found.by_id["sobel"].value.value
    assert beating["gb"].each["sobel"].value == pytest.approx(gb - sobel)


def at(point: Point) -> tuple[str, Retrain]:
    return point.cell.estimator, point.cell.retrain


def lacks(name: str):
    return lambda point: point.cell.estimator != name


GAPS = [
    (lambda p: (*at(p), p.cell.t) != ("gb", Retrain.IMAGES, 0.9), {"gb"}, "no result yet of gb at t = 0.9"),
    (lambda p: p.cell.estimator != "random", None, "no result yet of random at t = 0.5, 0.9"),
    (lambda p: p.cell.estimator != CLEAN, None, "no result yet of the untouched images at t = 0"),
]


def reasons(rows: Sequence[BoardRow]) -> set[str]:
    """Why they have no place, which is the first thing that is said against them."""
    return {row.doubts[0].sentence.removeprefix("No place: ").removesuffix(".") for row in rows}


@pytest.mark.parametrize(("keep", "names", "said"), GAPS)
def test_what_is_missing_has_no_place_and_says_why(tmp_path: Path, keep, names: set[str] | None, said: str) -> None:
    with ResultsStore.open(make_store(tmp_path, VERSIONS["quick", 1], keep, images=60), read_only=True) as store:
        rows = read_views(store, tmp_path)["quick-v1"].board.rows
    gone = [row for row in rows if not row.place]
    assert {row.id for row in gone} == (names or {row.id for row in rows}) and reasons(gone) == {said}
    assert all(row.value == Estimate() for row in gone) and rows[-1] in gone


def test_rows_of_other_weights_have_no_place_and_at_chance_none_has(quick: SuiteResults) -> None:
    rows = {
        point: replace(row, weights=("b" if point.cell.estimator == "grad" else "a") * 64 if row.run.reference else "")
        for point, row in quick.results.items()
    }
    gone = [row for row in record(replace(quick, results=rows)).rows if not row.place]
    said = "made from another reference than the other rows; do it again in a fresh --store"
    assert [row.id for row in gone] == ["grad"] and reasons(gone) == {said}
    guess = {"bits": pack_answers([n < 30 for n in range(300)]), "correct": 30}  # ten classes
    rows = {p: replace(row, **guess) if p.cell.estimator == CLEAN else row for p, row in quick.results.items()}
    shown, gap = record(replace(quick, results=rows)), "at chance, tests the installation only"
    assert shown.headline == "" and gap.split(", ")[1] in shown.title
    assert {(row.place, row.beating) for row in shown.rows} == {(None, None)} and reasons(shown.rows) == {gap}


def test_one_training_has_places_without_intervals_and_no_headline() -> None:
    shown = record(held(one_seed(SUITE)))
    assert shown.headline == "" and all(row.value.low is None and row.beating is None for row in shown.rows)


def test_roar_stands_beside_with_what_it_orders_otherwise(views: dict[str, SuiteView]) -> None:
    view = views["quick-v2"]
    assert [protocol.name for protocol in view.protocols[:2]] == ["specific", "roar"]
    places = {row.id: row.place for row in view.board_of(ROAR).rows}
    assert {row.id: row.roar for row in view.board.rows} == {row.id: places[row.id] for row in view.board.rows}
    assert view.board.roar_from == "quick v2" and not view.board_of(ROAR).roar_from
    assert view.board_of(SPECIFIC) is view.board and view.board_of(KAR if KAR in view.protocols else ROAR)


def test_every_row_of_a_board_has_a_name_of_its_own() -> None:
    """A submission and the built-in estimator of its name are told apart: the demo's leader was not."""
    names = [name for name, row in ESTIMATORS.items() if row.placed]
    found = {name: human_name(name) for name in [*names, "ig(baseline=mean)", "rise(samples=8000)"]}
    assert len(set(found.values())) == len(found)
    assert human_name("ig(baseline=mean)") == ("Integrated Gradients", "from the mean")
    assert human_name("input-x-grad@0123abcd") == ("input-x-grad", "submission")
    assert human_name("nobody <b>") == ("nobody <b>", "")


@pytest.mark.parametrize("values", [[], [0.0], [-3.2, 25.1], [0.001, 0.002], [-80.0, 4.0], [12.0, 12.0]])
def test_axes_hold_every_value_and_zero_with_few_ticks(values: list[float]) -> None:
    axis = linear_axis(values)
    assert all(0 <= axis.at(value) <= 100 for value in [*values, 0.0]) and 1 <= len(axis.ticks) <= 8
    assert axis.low <= min([*values, 0.0]) and axis.high >= max([*values, 0.0]) and 0.0 in axis.ticks
    costs = cost_axis([value for value in values if value > 0])
    assert costs is None or all(costs.low <= value <= costs.high for value in values if value > 0)

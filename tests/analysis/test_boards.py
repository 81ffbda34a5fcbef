"""What a store holds of a suite: the right rows, of one version of the images, under the right protocol."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from roarbench.analysis.collecting import collect
from roarbench.analysis.validity import panel
from roarbench.datasets.catalogue import PINNED
from roarbench.plan.keys import bind
from roarbench.plan.points import Point, expand
from roarbench.plan.runs import CLEAN, Cell
from roarbench.plan.suite import Block
from roarbench.plan.suites import with_entries
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.report.claim_table import own_tables
from roarbench.report.table import suite_table
from roarbench.report.validity_panel import doubts
from roarbench.stats.board import Covers
from roarbench.stats.curves import UNTOUCHED
from roarbench.store.results import ResultsStore
from roarbench.store.transfer import export_results, import_results
from roarbench.terms import Order, Retrain, Unit
from tests.helpers.made_up import IMAGES, LEVELS, MAIN, SUITE, TWINS, answers, held, result, usual
from tests.helpers.tables import rows_of

SMALL = replace(SUITE, blocks=(Block(ROAR, ("random", "grad"), (0.9,), seeds=2),))
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def whole():
    return held()


OWN = PINNED["planted"]


def made(point, data=OWN, limit=None, hour=0):
    """A row as a run of SMALL on these images would have left it."""
    row = result(SMALL, point, answers(point, usual(point.cell)))
    return replace(row, run=bind(SMALL, point, data, limit), created=NOON + timedelta(hours=hour))


def test_an_empty_store_and_a_protocol_that_the_suite_does_not_have(store, whole):
    found = collect(SMALL, store)
    assert (found.results, found.data, found.complete) == ({}, "", False)
    assert found.scores(ROAR, Unit.SCALAR).correct == {}
    assert {row.gain.value for row in found.board(ROAR, Unit.SCALAR).rows} == {None}
    assert whole.scores(KAR, Unit.PIXEL) is None
    assert whole.board(KAR, Unit.PIXEL) is None
    assert whole.scores(replace(ROAR, order=Order.LERF, retrain=Retrain.MASKS), Unit.SCALAR) is None
    assert whole.scores(ROAR, Unit.SCALAR, fill="blur") is None


@pytest.mark.parametrize("name", ["random", CLEAN, "grad~blurred"])
def test_a_row_is_as_weak_as_what_it_is_held_against(store, tmp_path, name):
    """Imported rows of `random` with all bits set once made everything else better than it, verified."""
    suite = replace(SMALL, blocks=(Block(ROAR, ("random", "grad", "grad~blurred", "var-grad"), (0.9,), seeds=10),))
    theirs = [point for point in expand(suite) if point.cell.estimator == name]
    with ResultsStore.open(f"sqlite:///{tmp_path}/other.sqlite") as other:
        other.add_all(result(suite, point, np.ones(IMAGES, bool)) for point in theirs)
        export_results(other, tmp_path / "rows.parquet")
    store.add_all(result(suite, point, answers(point, usual(point.cell))) for point in set(expand(suite)) - {*theirs})
    assert not collect(suite, store).doubts
    import_results(store, tmp_path / "rows.parquet")
    found = collect(suite, store)
    rows = {"random", "grad", "grad~blurred", "var-grad"} if name != "grad~blurred" else {"grad", "grad~blurred"}
    table = suite_table(found, "roar", None, None)
    assert {row.estimator for row in table.board.rows if table.sign(row.estimator)} == rows
    flagged = {name: row["flag"] for name, row in rows_of(table).items() if row["flag"]}
    assert flagged.keys() == rows
    assert ("Held against random, self-reported: imp" in flagged["grad"]) == (name == "random")
    assert found.doubts.keys() & {*suite.estimators} == rows


def test_it_holds_the_rows_of_its_points_and_no_others(store):
    points = expand(SMALL)
    rows = {point: made(point) for point in points[:-1]}
    store.add_all(rows.values())
    other = made(points[-1])
    for change in ({"recipe": "planted@2"}, {"estimator": "0ther"}, {"reference": "0ther"}):
        store.add(replace(other, run=replace(other.run, **change)))
    found = collect(SMALL, store)
    assert found.results == rows
    assert not found.complete
    store.add(other)
    assert collect(SMALL, store).complete


def test_small_versions_are_kept_apart_and_named(store):
    points = expand(SMALL)
    store.add_all([made(point) for point in points[:2]])
    store.add_all([made(point, "5ma11", limit=40) for point in points])
    assert (len(collect(SMALL, store).results), collect(SMALL, store).title) == (2, "made-up v1")
    small = collect(SMALL, store, limit=40)
    assert (len(small.results), small.title) == (len(points), "made-up v1 (small version: 40 images a split)")
    assert collect(SMALL, store, limit=50).results == {}
    asked = collect(SMALL, store, data="0ther")
    assert (asked.data, asked.results) == ("0ther", {})


@pytest.mark.parametrize(
    "protocol, unit, rows, levels, untouched",
    [
        (ROAR, Unit.SCALAR, (*MAIN, *TWINS), LEVELS, 3),
        (ROAR, Unit.PIXEL, MAIN, LEVELS, 3),
        (KAR, Unit.SCALAR, MAIN, (0.5, 0.9), 3),  # untouched images are the same for every retrained network
        (MASK_ONLY, Unit.SCALAR, MAIN, LEVELS, 0),
        (MORF, Unit.SCALAR, MAIN, LEVELS, 1),
        (LERF, Unit.SCALAR, MAIN, LEVELS, 1),
    ],
)
def test_scores_are_the_answers_of_one_protocol(whole, protocol, unit, rows, levels, untouched):
    scores = whole.scores(protocol, unit)
    assert (scores.estimators, scores.levels, scores.images) == (rows, levels, IMAGES)
    assert len(scores.correct.get(UNTOUCHED, ())) == untouched
    assert set(scores.correct) - {UNTOUCHED} == {(name, t) for name in rows for t in levels}
    for (name, t), bits in scores.correct.items():
        place = (SUITE.dataset, SUITE.model)
        cell = Cell(*place, name, protocol.order, protocol.retrain, "mean", unit, t)
        if name == CLEAN:
            cell = Cell(*place, CLEAN, Order.MORF, protocol.retrain, "mean", Unit.SCALAR, 0.0)
        for seed, row in enumerate(bits):
            np.testing.assert_array_equal(row, whole.results[Point(cell, seed)].answers)


def test_scores_know_which_reference_each_training_explains(whole):
    scores = whole.scores(ROAR, Unit.SCALAR)
    names = {name for name, _ in scores.references}
    assert "grad" in names and not names & {CLEAN, "random", "sobel", "random-blurred"}
    runs = [r.run for p, r in whole.results.items() if (p.cell.estimator, p.cell.t) == ("grad", 0.9)]
    assert set(scores.references["grad", 0.9]) == {run.reference for run in runs}
    assert whole.board(ROAR, Unit.SCALAR).one_network
    assert {name for name, _ in whole.scores(MORF, Unit.SCALAR).references} >= {CLEAN, "random", "grad"}


def test_what_has_a_place_what_is_a_control_and_what_the_intervals_cover(whole):
    rows = {row.estimator: row for row in whole.board(ROAR, Unit.SCALAR).rows}
    placed = {name for name, row in rows.items() if row.place}
    assert placed == {*MAIN, "random-blurred"}
    assert {name for name, row in rows.items() if row.check} == {*TWINS} - {"random-blurred"}
    assert sorted(rows[name].place.place for name in placed) == [1, 2, 3, 4, 5]
    assert all(rows[name].random_blurred for name in MAIN)
    pixels = whole.board(ROAR, Unit.PIXEL).rows  # where there is no blurred random map
    assert all(row.place and row.random_blurred is None for row in pixels)
    assert whole.board(ROAR, Unit.SCALAR).covers is Covers.BOTH
    kar = whole.board(KAR, Unit.SCALAR)  # nothing says that its single seeds vary like ROAR's three
    assert kar.covers is Covers.NOTHING and all(row.gain.low is None for row in kar.rows)
    assert whole.board(ROAR, Unit.PIXEL).covers is Covers.BOTH  # but one seed of the other unit does
    assert whole.board(MORF, Unit.SCALAR).covers is Covers.IMAGES


def marked(whole, weights=lambda point: "a" * 64, rankings=lambda point: "r" * 32):
    """A suite's results, each marked with what the functions say of its point; weights where a run depends on them."""
    marks = {
        point: {"weights": weights(point) if row.run.reference else "", "rankings": rankings(point)}
        for point, row in whole.results.items()
    }
    return replace(whole, results={point: replace(row, **marks[point]) for point, row in whole.results.items()})


def seed_1_of_grad(point):
    return point.cell.estimator == "grad" and point.seed == 1 and point.cell.retrain is Retrain.IMAGES


def places(suite_results, protocol=ROAR):
    return {row.estimator: row.place for row in suite_results.board(protocol, Unit.SCALAR, MAIN).rows}


UNSAID = "results without the checksum of the weights that they explain, which the other rows have"
SAID = "results with a checksum of the weights that they explain, which most rows do not have"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("whose", "others", "reason"),
    [(seed_1_of_grad, "a" * 64, UNSAID), (lambda point: point.cell.estimator == "grad", "", SAID)],
    ids=["one without", "all with"],
)
def test_rows_without_the_checksum_of_the_weights_share_no_board_with_those_that_have_it(whole, whose, others, reason):
    odd = "" if others else "a" * 64
    partly = marked(whole, lambda point: odd if whose(point) else others)
    assert partly.mixed(ROAR, Unit.SCALAR) == {"grad": f"{reason}; do it again in a fresh --store"}
    assert [name for name, place in places(partly).items() if place is None] == ["grad"]
    assert all(row.estimator == "grad" for row in partly.dropped)
    assert own_tables(partly, Unit.SCALAR).roar["planted"].keys() == {*MAIN, *TWINS} - {"grad"}
    (told,) = (line for line in doubts(panel(partly)) if line.startswith("No place for grad (roar scalar"))
    assert told.endswith(f": {reason}; do it again in a fresh --store.")


MIXED = "made from 2 different {}; do it again in a fresh --store"
ANOTHER = "made from another reference than the other rows; do it again in a fresh --store"


@pytest.mark.parametrize(
    ("kind", "whose", "protocol", "mixed", "placeless"),
    [
        ("weights", seed_1_of_grad, ROAR, {"grad": MIXED.format("references")}, {"grad"}),
        ("rankings", seed_1_of_grad, ROAR, {"grad": MIXED.format("rankings")}, {"grad"}),
        ("weights", seed_1_of_grad, KAR, {}, set()),
        ("weights", lambda point: point.cell.estimator == "grad", ROAR, {"grad": ANOTHER}, {"grad"}),
        # without retraining the untouched images belong to the curve
        ("weights", lambda point: point.cell.estimator == CLEAN, MORF, set(MAIN), {*MAIN}),
        # where Random is mixed nobody has a gain
        ("rankings", lambda point: point.cell.t == 0.9, ROAR, {*MAIN}, {*MAIN}),
        ("rankings", lambda p: (p.cell.estimator, p.cell.t) == ("random", 0.9), ROAR, {"random"}, {*MAIN}),
    ],
)
def test_rows_of_two_references_or_rankings_have_no_gain_and_no_place(whole, kind, whose, protocol, mixed, placeless):
    assert whole.mixed(protocol, Unit.SCALAR) == marked(whole).mixed(protocol, Unit.SCALAR) == {}
    found = marked(whole, **{kind: lambda point: ("b" if whose(point) else "a") * 64})
    reasons = {name: why for name, why in found.mixed(protocol, Unit.SCALAR).items() if name in MAIN}
    assert reasons == mixed if isinstance(mixed, dict) else set(reasons) == mixed
    board = found.board(protocol, Unit.SCALAR, MAIN)
    assert {row.estimator for row in board.rows if row.place is None} == placeless
    for row in board.rows:
        assert row.accuracies[0].value is not None  # what was measured is still shown
        if row.estimator in placeless:
            assert (row.gain.value, row.random) == (None, None)


def crossed(suite, entered=(), rankings=lambda point: "", weights=lambda point: "a" * 64):
    """Rows of three references each, and strangers beside them."""
    held_of = held(with_entries(replace(suite, references=3), entered))
    rows = {
        point: replace(row, rankings=rankings(point), weights=weights(point) if row.run.reference else "")
        for point, row in held_of.results.items()
    }
    return replace(held_of, results=rows)


MINE = tuple(f"mine{number}@0123abcd" for number in range(4))


def test_a_row_of_equal_rankings_for_all_references_depends_on_none():
    def rankings(point):
        return f"{point.cell.estimator} {'' if point.cell.estimator == MINE[0] else point.seed % 3}"

    found = crossed(SUITE, MINE[:2], rankings).scores(ROAR, Unit.SCALAR)
    assert {name for name, _ in found.references} >= {"grad", "var-grad", MINE[1]}
    assert MINE[0] not in {name for name, _ in found.references}
    assert found.strangers >= set(MINE[:2]) and not found.strangers & {*MAIN, *TWINS}
    unretrained = crossed(SUITE, MINE[:1], rankings).scores(MORF, Unit.SCALAR)
    assert (MINE[0], 0.9) in unretrained.references  # there the reference itself is scored


def test_strangers_of_other_references_put_no_row_of_the_suite_off_the_board():
    """More results of theirs than the suite has, under one protocol and with weights of their own."""
    found = crossed(SUITE, MINE, weights=lambda point: ("b" if point.cell.estimator in MINE else "a") * 64)
    assert {name.partition("~")[0] for name in found.mixed(ROAR, Unit.SCALAR)} == set(MINE)

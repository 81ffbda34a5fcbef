"""What a store holds of a suite: the right rows, of one version of the images, under the right protocol."""

import json
from collections.abc import Iterator
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
from roarbench.protocols.specific import SPECIFIC, SPECIFIC_CLASS
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.report.claim_table import own_tables
from roarbench.report.table import suite_table
from roarbench.report.table_formats import render
from roarbench.report.validity_panel import doubts
from roarbench.stats.board import Covers
from roarbench.stats.curves import UNTOUCHED
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.transfer import export_results, import_results
from roarbench.terms import Order, Retrain, Unit
from tests.helpers.made_up import IMAGES, LEVELS, MAIN, SUITE, TWINS, answers, held, result, usual

SMALL = replace(SUITE, blocks=(Block(ROAR, ("random", "grad"), (0.9,), seeds=2),))
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path) -> Iterator[ResultsStore]:
    with ResultsStore.open(default_url(tmp_path)) as store:
        yield store


@pytest.fixture(scope="module")
def whole():
    return held()


OWN = PINNED["planted"]


def made(point, data=OWN, limit=None, hour=0):
    """A row as a run of SMALL on these images would have left it."""
    row = result(SMALL, point, answers(point, usual(point.cell)))
    return replace(row, run=bind(SMALL, point, data, limit), created=NOON + timedelta(hours=hour))


def test_an_empty_store_holds_nothing(store):
    found = collect(SMALL, store)
    assert (found.results, found.data, found.complete) == ({}, "", False)
    assert found.scores(ROAR, Unit.SCALAR).correct == {}
    assert {row.gain.value for row in found.board(ROAR, Unit.SCALAR).rows} == {None}


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
    flagged = {row["estimator"]: row["flag"] for row in json.loads(render(table, "json"))["rows"] if row["flag"]}
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


def test_images_that_were_asked_for_are_named_even_where_nothing_is_done(store):
    store.add(made(expand(SMALL)[0]))
    assert (collect(SMALL, store, data="0ther").data, collect(SMALL, store, data="0ther").results) == ("0ther", {})


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


def test_seeds_come_in_their_order_however_they_were_stored(store):
    points = expand(SMALL)
    store.add_all([made(point, hour=-number) for number, point in enumerate(points)])
    bits = collect(SMALL, store).scores(ROAR, Unit.SCALAR).correct["grad", 0.9]
    cell = next(point.cell for point in points if point.cell.estimator == "grad")
    expected = [answers(Point(cell, seed), usual(cell)) for seed in (0, 1)]
    np.testing.assert_array_equal(bits, expected)


def test_a_protocol_that_the_suite_does_not_have_is_none(whole):
    assert whole.scores(KAR, Unit.PIXEL) is None
    assert whole.board(KAR, Unit.PIXEL) is None
    assert whole.scores(replace(ROAR, order=Order.LERF, retrain=Retrain.MASKS), Unit.SCALAR) is None
    assert whole.scores(ROAR, Unit.SCALAR, fill="blur") is None


def test_rows_that_are_asked_for_come_in_the_suites_order_with_the_same_numbers(whole):
    everything = {row.estimator: row for row in whole.board(ROAR, Unit.SCALAR).rows}
    some = whole.board(ROAR, Unit.SCALAR, ["var-grad", "grad"]).rows
    assert [row.estimator for row in some] == ["grad", "var-grad"]
    for row in some:  # the controls, the spread of trainings and the family are those of the whole board
        assert row.sobel is not None
        assert replace(row, place=None) == replace(everything[row.estimator], place=None)


def test_scores_know_which_reference_each_training_explains(whole):
    scores = whole.scores(ROAR, Unit.SCALAR)
    names = {name for name, _ in scores.references}
    assert "grad" in names and not names & {CLEAN, "random", "sobel", "random-blurred"}
    runs = [r.run for p, r in whole.results.items() if (p.cell.estimator, p.cell.t) == ("grad", 0.9)]
    assert set(scores.references["grad", 0.9]) == {run.reference for run in runs}
    assert whole.board(ROAR, Unit.SCALAR).one_network
    assert {name for name, _ in whole.scores(MORF, Unit.SCALAR).references} >= {CLEAN, "random", "grad"}


def test_two_references_are_a_factor_of_the_board(whole):
    """Results of seed 2 of each explained row under another reference."""

    def turned(point, result):
        other = point.seed == 2 and result.run.reference
        return replace(result, run=replace(result.run, reference="other")) if other else result

    crossed = replace(whole, results={point: turned(point, result) for point, result in whole.results.items()})
    board = crossed.board(ROAR, Unit.SCALAR)
    assert (board.references, board.covers) == (2, Covers.REFERENCES) and not board.one_network
    assert board.reference_rows > 1


def test_twins_have_no_place_and_the_blurred_random_map_is_a_control(whole):
    rows = {row.estimator: row for row in whole.board(ROAR, Unit.SCALAR).rows}
    placed = {name for name, row in rows.items() if row.place}
    assert placed == {*MAIN, "random-blurred"}
    assert {name for name, row in rows.items() if row.check} == {*TWINS} - {"random-blurred"}
    assert sorted(rows[name].place.place for name in placed) == [1, 2, 3, 4, 5]
    assert all(rows[name].random_blurred for name in MAIN)
    pixels = whole.board(ROAR, Unit.PIXEL).rows  # where there is no blurred random map
    assert all(row.place and row.random_blurred is None for row in pixels)


def test_what_the_intervals_cover(whole):
    assert whole.board(ROAR, Unit.SCALAR).covers is Covers.BOTH
    kar = whole.board(KAR, Unit.SCALAR)  # nothing says that its single seeds vary like ROAR's three
    assert kar.covers is Covers.NOTHING and all(row.gain.low is None for row in kar.rows)
    assert whole.board(ROAR, Unit.PIXEL).covers is Covers.BOTH  # but one seed of the other unit does
    assert whole.board(MORF, Unit.SCALAR).covers is Covers.IMAGES
    single = replace(SUITE, blocks=tuple(replace(block, seeds=1) for block in SUITE.blocks))
    assert held(single).board(ROAR, Unit.SCALAR).covers is Covers.NOTHING


def test_a_missing_cell_leaves_its_row_without_gain_and_place(whole):
    gone = {point: row for point, row in whole.results.items() if point.cell.estimator != "grad" or point.cell.t != 0.9}
    found = replace(whole, results=gone)
    assert not found.complete
    rows = {row.estimator: row for row in found.board(ROAR, Unit.SCALAR).rows}
    assert (rows["grad"].gain.value, rows["grad"].place, rows["grad"].seeds) == (None, None, 0)
    assert rows["grad"].accuracies[0].value is not None
    assert rows["grad"].accuracies[1].value is None
    assert rows["var-grad"].place.place == 1


# --- rows that do not belong together


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


def test_rows_of_one_reference_belong_together_and_so_do_rows_that_all_say_nothing_of_it(whole):
    assert whole.mixed(ROAR, Unit.SCALAR) == {}
    assert marked(whole).mixed(ROAR, Unit.SCALAR) == {}


UNSAID = "results without the checksum of the weights that they explain, which the other rows have"
SAID = "results with a checksum of the weights that they explain, which most rows do not have"


@pytest.mark.slow
@pytest.mark.parametrize("whose", [seed_1_of_grad, lambda point: point.cell.estimator == "grad"], ids=["one", "all"])
@pytest.mark.parametrize("others, reason", [("a" * 64, UNSAID), ("", SAID)], ids=["without", "with"])
def test_rows_without_the_checksum_of_the_weights_share_no_board_with_those_that_have_it(whole, whose, others, reason):
    odd = "" if others else "a" * 64
    partly = marked(whole, lambda point: odd if whose(point) else others)
    assert partly.mixed(ROAR, Unit.SCALAR) == {"grad": f"{reason}; do it again in a fresh --store"}
    assert [name for name, place in places(partly).items() if place is None] == ["grad"]
    assert all(row.estimator == "grad" for row in partly.dropped)
    assert own_tables(partly, Unit.SCALAR).roar["planted"].keys() == {*MAIN, *TWINS} - {"grad"}
    (told,) = (line for line in doubts(panel(partly)) if line.startswith("No place for grad (roar scalar"))
    assert told.endswith(f": {reason}; do it again in a fresh --store.")


@pytest.mark.parametrize("kind", ["weights", "rankings"])
def test_a_curve_of_two_references_or_rankings_has_no_gain_and_no_place(whole, kind):
    mixed = marked(whole, **{kind: lambda point: ("b" if seed_1_of_grad(point) else "a") * 64})
    (reason,) = mixed.mixed(ROAR, Unit.SCALAR).values()
    assert (
        reason == f"made from 2 different {'references' if kind == 'weights' else kind}; do it again in a fresh --store"
    )
    rows = {row.estimator: row for row in mixed.board(ROAR, Unit.SCALAR, MAIN).rows}
    assert [name for name, row in rows.items() if row.place is None] == ["grad"]
    assert (rows["grad"].gain.value, rows["grad"].random) == (None, None)
    assert rows["grad"].accuracies[0].value is not None  # what was measured is still shown
    assert mixed.mixed(KAR, Unit.SCALAR) == {}


def test_an_entry_of_another_reference_than_the_rest_has_no_place(whole):
    mixed = marked(whole, lambda point: ("b" if point.cell.estimator == "grad" else "a") * 64)
    expected = {"grad": "made from another reference than the other rows; do it again in a fresh --store"}
    assert {name: why for name, why in mixed.mixed(ROAR, Unit.SCALAR).items() if name in MAIN} == expected
    assert {name for name, place in places(mixed).items() if place is None} == {"grad"}


def test_without_retraining_the_untouched_images_belong_to_the_curve(whole):
    mixed = marked(whole, lambda point: ("b" if point.cell.estimator == CLEAN else "a") * 64)
    assert set(mixed.mixed(MORF, Unit.SCALAR)) == set(MAIN)
    assert set(places(mixed, MORF).values()) == {None}


@pytest.mark.parametrize(("protocol", "twin"), [(SPECIFIC, "grad~other-image"), (SPECIFIC_CLASS, "grad~same-class")])
def test_a_row_whose_counterpart_on_other_images_is_mixed_has_no_gain(protocol, twin):
    suite = replace(SUITE, blocks=(*SUITE.blocks, Block(protocol, MAIN, LEVELS, seeds=2)))

    def of_others(point):
        return (point.cell.estimator, point.seed) == (twin, 1)

    mixed = marked(held(suite), rankings=lambda point: ("b" if of_others(point) else "a") * 32)
    assert set(mixed.mixed(protocol, Unit.SCALAR)) == {twin}
    rows = {row.estimator: row for row in mixed.board(protocol, Unit.SCALAR).rows}
    assert [name for name, row in rows.items() if row.gain.value is None] == ["grad"]
    assert rows["grad"].place is None


def test_where_random_is_mixed_nobody_has_a_gain(whole):
    mixed = marked(whole, rankings=lambda point: ("b" if point.cell.t == 0.9 else "a") * 32)
    assert set(places(mixed).values()) == {None}
    only = marked(whole, rankings=lambda p: ("b" if (p.cell.estimator, p.cell.t) == ("random", 0.9) else "a") * 32)
    assert set(only.mixed(ROAR, Unit.SCALAR)) == {"random"}
    assert set(places(only).values()) == {None}


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


def test_the_board_of_a_suite_is_the_same_beside_strangers():
    alone, beside = crossed(SUITE).board(ROAR, Unit.SCALAR), crossed(SUITE, MINE).board(ROAR, Unit.SCALAR)
    rows = {row.estimator: row for row in beside.rows}
    for row in alone.rows:
        other = rows[row.estimator]
        assert (row.gain, row.comparisons, row.predicted) == (other.gain, other.comparisons, other.predicted)
        assert (row.place or ())[:3] == (other.place or ())[:3]

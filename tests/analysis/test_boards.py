"""Boards of what is held of a suite: whose answers each protocol has, what belongs together, how orders agree."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.analysis.validity import panel
from roarbench.plan.points import Point
from roarbench.plan.runs import CLEAN, Cell
from roarbench.plan.suite import Block
from roarbench.plan.suites import with_entries
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.report.claim_table import own_tables
from roarbench.report.validity_panel import agreement_lines, doubts
from roarbench.stats.board import Covers
from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import UNTOUCHED
from roarbench.terms import Order, Retrain, Unit
from tests.helpers.made_up import IMAGES, LEVELS, MAIN, SUITE, TWINS, held, one_seed, usual


@pytest.fixture(scope="module")
def whole():
    return held()


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


def test_what_the_suite_does_not_have_has_no_scores_and_no_board(whole):
    assert whole.scores(KAR, Unit.PIXEL) is whole.board(KAR, Unit.PIXEL) is None
    assert whole.scores(replace(ROAR, order=Order.LERF, retrain=Retrain.MASKS), Unit.SCALAR) is None
    assert whole.scores(ROAR, Unit.SCALAR, fill="blur") is None


def test_scores_know_which_reference_each_training_explains(whole):
    scores = whole.scores(ROAR, Unit.SCALAR)
    names = {name for name, _ in scores.references}
    assert "grad" in names and not names & {CLEAN, "random", "sobel", "random-blurred"}
    runs = [r.run for p, r in whole.results.items() if (p.cell.estimator, p.cell.t) == ("grad", 0.9)]
    assert set(scores.references["grad", 0.9]) == {run.reference for run in runs}
    assert whole.board(ROAR, Unit.SCALAR).one_network
    assert {name for name, _ in whole.scores(MORF, Unit.SCALAR).references} >= {CLEAN, "random", "grad"}


def test_what_has_a_place_what_is_a_control_and_what_the_intervals_cover(whole):
    board, kar = whole.board(ROAR, Unit.SCALAR), whole.board(KAR, Unit.SCALAR)
    rows = {row.estimator: row for row in board.rows}
    placed = {name for name, row in rows.items() if row.place}
    assert placed == {*MAIN, "random-blurred"}
    assert {name for name, row in rows.items() if row.check} == {*TWINS} - {"random-blurred"}
    assert sorted(rows[name].place.place for name in placed) == [1, 2, 3, 4, 5]
    assert all(rows[name].random_blurred for name in MAIN)
    pixels = whole.board(ROAR, Unit.PIXEL).rows  # where there is no blurred random map
    assert all(row.place and row.random_blurred is None for row in pixels)
    assert board.covers is Covers.BOTH
    # nothing says that KAR's single seeds vary like ROAR's three
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


def one_of_grad(point):
    return point.cell.estimator == "grad" and point.seed == 1 and point.cell.retrain is Retrain.IMAGES


def random_at_90(point):
    return (point.cell.estimator, point.cell.t) == ("random", 0.9)


TWO_REFERENCES, TWO_RANKINGS = "made from 2 different references", "made from 2 different rankings"
ANOTHER = "made from another reference than the other rows"
UNSAID = "results without the checksum of the weights that they explain, which the other rows have"
SAID = "results with a checksum of the weights that they explain, which most rows do not have"


@pytest.mark.parametrize(
    ("kind", "odd", "others", "whose", "protocol", "reason", "mixed", "placeless"),
    [
        ("weights", "b", "a", one_of_grad, ROAR, TWO_REFERENCES, {"grad"}, {"grad"}),
        ("rankings", "b", "a", one_of_grad, ROAR, TWO_RANKINGS, {"grad"}, {"grad"}),
        ("weights", "b", "a", one_of_grad, KAR, "", set(), set()),
        ("weights", "b", "a", lambda point: point.cell.estimator == "grad", ROAR, ANOTHER, {"grad"}, {"grad"}),
        ("weights", "a", "", lambda point: point.cell.estimator == "grad", ROAR, SAID, {"grad"}, {"grad"}),
        ("weights", "", "a", one_of_grad, ROAR, UNSAID, {"grad"}, {"grad"}),
        # without retraining the untouched images belong to the curve
        ("weights", "b", "a", lambda point: point.cell.estimator == CLEAN, MORF, TWO_REFERENCES, {*MAIN}, {*MAIN}),
        # where Random is mixed nobody has a gain
        ("rankings", "b", "a", lambda point: point.cell.t == 0.9, ROAR, TWO_RANKINGS, {*MAIN}, {*MAIN}),
        ("rankings", "b", "a", random_at_90, ROAR, TWO_RANKINGS, {"random"}, {*MAIN}),
    ],
)
def test_rows_that_do_not_belong_together_or_to_the_others_have_no_gain_and_no_place(
    whole, kind, odd, others, whose, protocol, reason, mixed, placeless
):
    assert whole.mixed(protocol, Unit.SCALAR) == marked(whole).mixed(protocol, Unit.SCALAR) == {}
    found = marked(whole, **{kind: lambda point: (odd if whose(point) else others) * 64})
    reasons = {name: why for name, why in found.mixed(protocol, Unit.SCALAR).items() if name in MAIN}
    assert reasons == dict.fromkeys(mixed, f"{reason}; do it again in a fresh --store")
    board = found.board(protocol, Unit.SCALAR, MAIN)
    assert {row.estimator for row in board.rows if row.place is None} == placeless
    for row in board.rows:
        assert row.accuracies[0].value is not None  # what was measured is still shown
        if row.estimator in placeless:
            assert (row.gain.value, row.random) == (None, None)


@pytest.mark.slow
def test_what_was_dropped_is_in_no_table_and_told_of(whole):
    partly = marked(whole, lambda point: "" if one_of_grad(point) else "a" * 64)
    assert {row.estimator for row in partly.dropped} == {"grad"}
    assert own_tables(partly, Unit.SCALAR).roar["planted"].keys() == {*MAIN, *TWINS} - {"grad"}
    (told,) = (line for line in doubts(panel(partly)) if line.startswith("No place for grad (roar scalar"))
    assert told.endswith(f": {UNSAID}; do it again in a fresh --store.")


MINE = tuple(f"mine{number}@0123abcd" for number in range(4))


def crossed(entered):
    """Rows of three references each, and strangers beside them."""
    return held(with_entries(replace(SUITE, references=3), entered))


def test_a_row_of_equal_rankings_for_all_references_depends_on_none():
    def rankings(point):
        return f"{point.cell.estimator} {'' if point.cell.estimator == MINE[0] else point.seed % 3}"

    found = marked(crossed(MINE[:2]), rankings=rankings).scores(ROAR, Unit.SCALAR)
    assert {name for name, _ in found.references} >= {"grad", "var-grad", MINE[1]}
    assert MINE[0] not in {name for name, _ in found.references}
    assert found.strangers >= set(MINE[:2]) and not found.strangers & {*MAIN, *TWINS}
    unretrained = marked(crossed(MINE[:1]), rankings=rankings).scores(MORF, Unit.SCALAR)
    assert (MINE[0], 0.9) in unretrained.references  # there the reference itself is scored


def test_strangers_of_other_references_put_no_row_of_the_suite_off_the_board():
    """More results of theirs than the suite has, under one protocol and with weights of their own."""
    found = marked(crossed(MINE), lambda point: ("b" if point.cell.estimator in MINE else "a") * 64)
    assert {name.partition("~")[0] for name in found.mixed(ROAR, Unit.SCALAR)} == set(MINE)


BOOTSTRAP = Bootstrap(300, seed=4)
STEEP = {"grad": -0.1, "sobel": 0.1, "var-grad": 0.2}  # four rows whose order is settled everywhere
ORDERED = replace(
    SUITE,
    blocks=(
        *(Block(protocol, MAIN, LEVELS, seeds=2) for protocol in (ROAR, KAR, MORF, LERF)),
        Block(ROAR, MAIN, LEVELS, seeds=2, unit=Unit.PIXEL),
    ),
)


def turned(cell: Cell) -> float:
    """KAR, LeRF and the pixel unit put the estimators the other way round; MoRF agrees with ROAR."""
    falls = STEEP.get(cell.estimator, 0.0) * (-1 if cell.unit is Unit.PIXEL else 1)
    return 0.9 - cell.t * (0.4 + falls)


def test_every_other_order_is_compared_once_and_tau_has_the_sign_of_the_truth():
    other = replace(ORDERED, name="other", blocks=ORDERED.blocks[:1])
    made = panel(held(ORDERED, turned), BOOTSTRAP, [held(other, usual)])
    assert [compared.other for compared in made.agreements] == ["kar", "morf", "lerf", "unit pixel", "other v1"]
    for compared, tau in zip(made.agreements, (-1, 1, -1, -1), strict=False):
        alike = compared.found
        assert (alike.rows, alike.tau.value) == (4, tau), compared.other
        assert alike.opposed == (alike.settled if tau < 0 else 0), "a pair that differs in both is no chance"
        assert alike.tau.low <= tau <= alike.tau.high
    lines = agreement_lines(made)
    assert lines[1].startswith("ROAR and morf: Kendall's tau +1.00 [") and len(lines) == 5
    assert "over 4 rows" in lines[1] and lines[1].endswith("0 in opposite order.")


def test_without_repeated_trainings_there_is_no_interval_and_two_rows_say_nothing():
    compared = panel(held(one_seed(ORDERED), turned), BOOTSTRAP).agreements[0].found
    assert (compared.tau.value, compared.tau.low, compared.tau.high) == (-1, None, None)
    few = replace(ORDERED, blocks=tuple(replace(block, estimators=MAIN[:2]) for block in ORDERED.blocks))
    short = panel(held(few, turned), BOOTSTRAP)
    assert {compared.found for compared in short.agreements} == {None}
    assert "fewer than 3 rows" in agreement_lines(short)[0]

"""Boards of stored results of a suite: correctness, consistency and comparison of rows, and networks at chance."""

import json
from dataclasses import replace
from functools import cache
from unittest.mock import Mock

import numpy as np
import pytest

from roarbench.analysis import correctness_of_suite
from roarbench.analysis.correctness_of_suite import collect_correctness
from roarbench.analysis.suite_judges import MASKS, compare_rows, grade_shares_of_gain, judge_suite
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.planned_runs import PlannedRun, list_clean_runs_of_explained_networks
from roarbench.plan.protocols import DIFFROAR, KAR, MASK_ONLY, MORF, OWN_NETWORK, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suite_changes import add_estimators_with_twins
from roarbench.report.paper_claims import compute_mean_accuracies
from roarbench.report.suite_charts import make_chart
from roarbench.report.validity_panel import list_lines_below_panel
from roarbench.stats.board_records import IntervalScope
from roarbench.stats.correctness_and_gain import UNTOUCHED
from roarbench.store.run_result import pack_correctness
from tests.helpers.made_up_results import (
    IMAGES,
    LEVELS,
    MAIN,
    SUITE,
    TWINS,
    make_leaky_accuracy,
    make_suite_results,
    make_table,
    render_words,
    result,
)
from tests.helpers.shown_tables import render
from tests.helpers.store_rows import has_values, set_checksums


@pytest.fixture(scope="module")
def whole():
    return make_suite_results()


@pytest.fixture(scope="module")
def draws(whole):
    return judge_suite(whole, Unit.SCALAR)


def test_units_start_with_unit_of_tables(whole):
    roar = next(block for block in SUITE.blocks if block.protocol == ROAR)
    blocks = [
        replace(roar, unit=Unit.PIXEL),
        *(replace(roar, protocol=KAR, unit=unit) for unit in (Unit.SCALAR, Unit.PIXEL)),
    ]
    results = replace(whole, suite=replace(SUITE, blocks=tuple(blocks)))
    assert results.list_units(KAR) == (Unit.SCALAR, Unit.PIXEL)
    assert results.suite.find_default_unit(KAR) is Unit.SCALAR


@pytest.mark.parametrize(
    "protocol, unit, rows, levels, untouched",
    [
        (ROAR, Unit.SCALAR, (*MAIN, *TWINS), LEVELS, 3),
        (ROAR, Unit.PIXEL, MAIN, LEVELS, 3),
        (KAR, Unit.SCALAR, MAIN, (0.5, 0.9), 3),  # ROAR and KAR share the untouched images
        (MASK_ONLY, Unit.SCALAR, MAIN, LEVELS, 0),
        (MORF, Unit.SCALAR, MAIN, LEVELS, 1),
    ],
)
def test_collect_correctness_returns_runs_of_one_protocol(whole, protocol, unit, rows, levels, untouched):
    scores = collect_correctness(whole, protocol, unit)
    assert (scores.estimators, scores.levels, scores.images) == (rows, levels, IMAGES)
    assert len(scores.correct.get(UNTOUCHED, ())) == untouched
    assert set(scores.correct) - {UNTOUCHED} == {(name, t) for name in rows for t in levels}
    for (name, t), bits in scores.correct.items():
        place = (SUITE.dataset, SUITE.model)
        cell = Cell(*place, name, protocol.order, protocol.retrain, "mean", unit, t)
        if name == CLEAN:
            cell = Cell(*place, CLEAN, Order.MORF, protocol.retrain, "mean", Unit.SCALAR, 0.0)
        for seed, row in enumerate(bits):
            np.testing.assert_array_equal(row, whole.results[PlannedRun(cell, seed)].correctness)


def test_collect_correctness_names_explained_networks(whole, draws):
    assert draws.make_board(KAR, Unit.PIXEL) is None
    lacking = collect_correctness(whole, KAR, Unit.PIXEL), collect_correctness(whole, ROAR, Unit.SCALAR, fill="blur")
    assert [(scores.levels, scores.correct) for scores in lacking] == [((), {})] * 2
    scores = collect_correctness(whole, ROAR, Unit.SCALAR)
    names = {name for name, _ in scores.references}
    assert "grad" in names and not names & {CLEAN, "random", "sobel", "random-blurred"}
    assert {name for name, _ in collect_correctness(whole, MORF, Unit.SCALAR).references} >= {CLEAN, "random", "grad"}


def test_board_has_ranks_controls_and_interval_scopes(draws):
    board, kar = draws.make_board(ROAR, Unit.SCALAR), draws.make_board(KAR, Unit.SCALAR)
    rows = {row.estimator: row for row in board.rows}
    placed = {name for name, row in rows.items() if row.place}
    assert placed == {*MAIN, "random-blurred"}
    assert {name for name, row in rows.items() if row.check} == {*TWINS} - {"random-blurred"}
    assert sorted(rows[name].place.place for name in placed) == [1, 2, 3, 4, 5]
    assert all("random-blurred" in rows[name].against for name in MAIN)
    # KAR's single seeds have no estimate of training noise, but one seed of the pixel unit uses that of scalars
    assert kar.covers is IntervalScope.NOTHING and all(row.gain.low is None for row in kar.rows)
    assert board.covers is draws.make_board(ROAR, Unit.PIXEL).covers is IntervalScope.BOTH
    assert draws.make_board(MORF, Unit.SCALAR).covers is IntervalScope.IMAGES


GRAD = {"estimator": "grad"}
ONE_OF_GRAD = {**GRAD, "retrain": ScoredNetwork.IMAGES, "seed": 1}


TWO_REFERENCES, TWO_RANKINGS = "made from 2 different explained networks", "made from 2 different rankings"
ANOTHER = "made from a different explained network than the other rows, or one without a recorded checksum"


@pytest.mark.parametrize(
    ("kind", "odd", "others", "whose", "protocol", "reason", "mixed", "placeless"),
    [
        ("weights", "b", "a", ONE_OF_GRAD, ROAR, TWO_REFERENCES, {"grad"}, {"grad"}),
        ("rankings", "b", "a", ONE_OF_GRAD, ROAR, TWO_RANKINGS, {"grad"}, {"grad"}),
        ("weights", "b", "a", ONE_OF_GRAD, KAR, "", set(), set()),
        ("weights", "b", "a", GRAD, ROAR, ANOTHER, {"grad"}, {"grad"}),
        ("weights", "a", "", GRAD, ROAR, ANOTHER, {"grad"}, {"grad"}),
        ("weights", "", "a", ONE_OF_GRAD, ROAR, ANOTHER, {"grad"}, {"grad"}),
        # without retraining the untouched images belong to the curve
        ("weights", "b", "a", {"estimator": CLEAN}, MORF, TWO_REFERENCES, {*MAIN}, {*MAIN}),
        # under DiffROAR both curves explain the same networks, but their rankings may differ
        ("weights", "b", "a", {**GRAD, "order": Order.LERF}, DIFFROAR, ANOTHER, {"grad"}, {"grad"}),
        ("rankings", "b", "a", {**GRAD, "order": Order.LERF}, DIFFROAR, "", set(), set()),
        ("rankings", "b", "a", ONE_OF_GRAD, DIFFROAR, TWO_RANKINGS, {"grad"}, {"grad"}),
        # if Random is inconsistent, no row has a gain
        ("rankings", "b", "a", {"estimator": "random", "t": 0.9}, ROAR, TWO_RANKINGS, {"random"}, {*MAIN}),
    ],
)
def test_inconsistent_rows_have_no_gain_or_rank(whole, kind, odd, others, whose, protocol, reason, mixed, placeless):
    for consistent in (whole, set_checksums(whole)):
        assert consistent.explain_inconsistent_rows(protocol, Unit.SCALAR) == {}
    found = set_checksums(whole, **{kind: lambda point: (odd if has_values(point, **whose) else others) * 64})
    explained = found.explain_inconsistent_rows(protocol, Unit.SCALAR)
    reasons = {name: why for name, why in explained.items() if name in MAIN}
    assert reasons == dict.fromkeys(mixed, f"{reason}; compute the row again in a new --store")
    if protocol is ROAR:  # claims are not tested on them either
        assert compute_mean_accuracies(found, ROAR, Unit.SCALAR).keys() == {*MAIN, *TWINS} - mixed
    board = judge_suite(found, Unit.SCALAR).make_board(protocol, Unit.SCALAR, MAIN)
    assert {row.estimator for row in board.rows if row.place is None} == placeless
    for row in board.rows:
        assert row.accuracies[0].value is not None  # measured accuracies are still shown
        if row.estimator in placeless:
            assert (row.gain.value, row.vs_random) == (None, None)


MINE = tuple(f"mine{number}@0123abcd" for number in range(4))


def test_row_with_equal_rankings_depends_on_no_explained_network():
    """Submissions with weights of their own have more results than the suite, and still change no other row."""

    def rankings(point):
        return f"{point.cell.estimator} {'' if point.cell.estimator == MINE[0] else point.seed % 3}"

    crossed = make_suite_results(add_estimators_with_twins(replace(SUITE, references=3), MINE))
    ranked = set_checksums(crossed, rankings=rankings)
    found = collect_correctness(ranked, ROAR, Unit.SCALAR)
    assert {name for name, _ in found.references} >= {"grad", "var-grad", MINE[1]}
    assert MINE[0] not in {name for name, _ in found.references}
    assert found.submitted >= set(MINE) and not found.submitted & {*MAIN, *TWINS}
    # without retraining, the explained network itself is scored
    assert (MINE[0], 0.9) in collect_correctness(ranked, MORF, Unit.SCALAR).references
    found = set_checksums(crossed, lambda point: ("b" if point.cell.estimator in MINE else "a") * 64)
    assert {name.partition("~")[0] for name in found.explain_inconsistent_rows(ROAR, Unit.SCALAR)} == set(MINE)


@cache
def make_leaky_results(untouched, reference=0.9):
    """Make results of a leaky suite with these accuracies on untouched images."""

    def accuracy(cell):
        if cell.estimator == CLEAN:
            return reference if cell.retrain is ScoredNetwork.NONE else untouched
        return make_leaky_accuracy(0.5)(cell)

    return replace(make_suite_results(accuracy=accuracy), limit=2000)


@pytest.mark.slow
def test_board_at_chance_has_no_ranks_and_warns_in_every_format():
    void, sound = make_leaky_results(0.255), make_leaky_results(0.9)
    assert (bool(void.at_chance_warning), sound.at_chance_warning) == (True, "")
    for protocol in (ROAR, KAR, MORF):
        judged = judge_suite(void).make_board(protocol, Unit.SCALAR)
        assert not any(row.place or row.against for row in judged.rows)
        assert all(row.gain.value is not None for row in judged.rows)  # measured gains are still shown
    assert all(row.place for row in judge_suite(sound, Unit.SCALAR).make_board(ROAR, Unit.SCALAR, MAIN).rows)
    assert not any(doubt.sign for doubt in make_table(void).doubts)
    assert any(doubt.sign for doubt in make_table(sound).doubts)
    for suite_results, said in ((void, True), (sound, False)):
        shown, beside = make_table(suite_results), judge_suite(suite_results)
        texts = (
            render_words(shown),
            render(shown, "markdown"),
            make_chart(shown).title,
            list_lines_below_panel(beside)[-1],
        )
        assert ["the installation only" in words for words in texts] == [said] * 4
        assert json.loads(render(shown, "json"))["at_chance"] is said
    assert "At chance: 25." in (words := render_words(make_table(void))) and "(!)" not in words


def test_explained_networks_at_chance_get_no_verdict():
    """Rows at t = 0 of own-network gain count agreement between networks, here 90 %, not accuracy."""
    suite = replace(SUITE, references=3, blocks=(Block(OWN_NETWORK, MAIN, LEVELS, seeds=1),))
    whole, untouched = make_suite_results(suite), list_clean_runs_of_explained_networks(suite)
    for share, warning, judged in ((0.26, "At chance: 26.0% of 2,000", False), (0.9, "", True)):
        bits = np.arange(IMAGES) < share * IMAGES
        networks = {number: result(suite, point, bits) for number, point in enumerate(untouched)}
        found = replace(whole, references=networks)
        assert found.at_chance_warning.startswith(warning) and bool(found.at_chance_warning) is not judged
        rows = judge_suite(found).make_board(OWN_NETWORK, Unit.SCALAR, MAIN).rows
        assert any(row.network for row in rows) is judged and all(row.gain.value is not None for row in rows)


def test_at_chance_warning_uses_mean_accuracy_of_networks():
    """Of four classes, 500 of 2,000 correct is chance; the mean with a network of 750, 583, is not."""
    whole = make_suite_results(replace(SUITE, blocks=(Block(ROAR, MAIN, (0.9,), seeds=3),)))
    rows = dict(whole.results)
    clean = [point for point in rows if point.cell.estimator == CLEAN]
    for point, correct in zip(clean, (750, 500, 500), strict=True):
        rows[point] = result(SUITE, point, np.arange(IMAGES) < correct)
    assert replace(whole, results=rows).at_chance_warning == ""
    del rows[clean[0]]
    assert replace(whole, results=rows).at_chance_warning


def test_chance_is_accuracy_of_answering_largest_class():
    """Of four classes, one has 70 % of the test images; networks with 60 % then learnt nothing."""
    results = replace(make_leaky_results(0.6, reference=0.72), largest_class_share=0.7)
    assert results.at_chance_warning.endswith(
        "chance is 70.0% (always the largest class). These numbers test the installation only."
    )
    assert "near chance of 70.0% (always the largest class)" in results.reference_accuracy_text
    bits = np.arange(60) < 57  # 95 % of few images is no sure sign beside 88.3 %, and is not near it
    few = replace(results.references[0], correct=57, total=60, bits=pack_correctness(bits))
    doubtful = replace(results, references={0: few}, largest_class_share=53 / 60)
    text = "explained network 95.0% correct, not significantly above chance of 88.3% (always the largest class)"
    assert doubtful.reference_accuracy_text == text
    several = replace(doubtful, references={0: replace(few, correct=60, bits=pack_correctness(bits | True)), 1: few})
    words = "2 explained networks 100.0%, 95.0% correct, the lowest not significantly above chance of 88.3%"
    assert several.reference_accuracy_text.startswith(words)
    table = make_table(results)
    assert table.caption.endswith("; chance 70.0% (always the largest class)")
    assert json.loads(render(table, "json"))["chance"] == 0.7
    for share, text in ((0.25, "25.0%"), (None, "at least 25.0% (labels unknown)")):
        other = replace(results, largest_class_share=share)
        assert other.at_chance_warning == "" and make_table(other).caption.endswith(f"; chance {text}")
        assert json.loads(render(make_table(other), "json"))["chance"] == share


def test_mask_leakage_is_share_of_accuracy_above_largest_class():
    """Masks reach .55 and images .7: of what images reach above the largest class, .5, masks reach a quarter."""
    found = make_suite_results(accuracy=make_leaky_accuracy(0.55, 0.7))
    for share, expected in ((0.5, 0.25), (None, 2 / 3)):
        draws = judge_suite(replace(found, largest_class_share=share))
        (mark,) = (mark for mark in grade_shares_of_gain(draws, "var-grad") if mark.kind == MASKS)
        assert mark.share.value == pytest.approx(expected, abs=0.05)


def test_caption_states_accuracy_of_explained_network():
    shown, near = make_table(make_leaky_results(0.9, reference=0.8)), make_table(make_leaky_results(0.9, reference=0.3))
    accuracy = json.loads(render(shown, "json"))["reference_accuracy"]
    assert accuracy == pytest.approx(0.8, abs=0.03)
    assert f"explained network {accuracy:.1%} correct" in shown.caption and "near" not in shown.caption
    assert "correct, near chance of at least 25.0%" in near.caption
    assert "near chance" in render(near, "markdown", notes=True)
    found = set_checksums(make_suite_results())
    for weights, known in (("a" * 64, True), ("b" * 64, False)):
        scored = replace(found, references={0: replace(found.references[0], weights=weights)})
        assert (scored.reference_accuracy is not None) is known


def test_compare_rows_uses_the_predictions_of_the_board(monkeypatch):
    rows, unpack = ("random", "grad", "ig", "gb"), Mock(wraps=correctness_of_suite.unpack_correctness)
    blocks = (Block(OWN_NETWORK, rows, (0.3, 0.9), seeds=1),)
    draws = judge_suite(make_suite_results(replace(SUITE, references=3, blocks=blocks)))
    gains = {row.estimator: row.gain.value for row in draws.make_board(OWN_NETWORK, Unit.SCALAR, rows).rows}
    monkeypatch.setattr(correctness_of_suite, "unpack_correctness", unpack)
    pair = compare_rows(draws, OWN_NETWORK, Unit.SCALAR, "gb", "ig")
    assert abs(pair.gain.value - (gains["gb"] - gains["ig"])) < 1e-12 and len(pair.levels) == 2
    assert unpack.call_count == 0
    assert draws.main_gains.estimate_gain("gb").value == gains["gb"]  # `diagnose` shows the gains of the main protocol

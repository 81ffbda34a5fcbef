"""Boards whose networks, or whose reference, do no better than a guess, which binomial coefficients tell exactly."""

import json
from dataclasses import replace
from itertools import accumulate
from math import comb

import numpy as np
import pytest

from roarbench.analysis.evidence import Evidence
from roarbench.analysis.marks import flags_of
from roarbench.analysis.untouched import guesses, near_chance
from roarbench.analysis.validity import panel
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.report.claim_table import results_record
from roarbench.report.curve_chart import chart
from roarbench.report.table import suite_table
from roarbench.report.table_formats import render
from roarbench.report.validity_panel import as_json, doubts
from roarbench.stats.bootstrap import Bootstrap
from roarbench.terms import Retrain, Unit
from tests.helpers.made_up import IMAGES, MAIN, SUITE, held, leaky, result, usual
from tests.helpers.tables import rows_of, words_of


@pytest.mark.parametrize("total, classes", [(1, 2), (8, 4), (10, 10), (64, 10), (200, 4), (10, 1000)])
def test_a_guess_is_told_by_the_exact_test_at_one_percent(total, classes):
    ways = [comb(total, k) * (classes - 1) ** (total - k) for k in range(total + 1)]  # of classes ** total
    at_least = [*accumulate(reversed(ways))][::-1]
    found = [guesses(correct, total, classes) for correct in range(total + 1)]
    assert found == [100 * count >= classes**total for count in at_least]
    assert found[0] and found == sorted(found, reverse=True)


def test_a_reference_is_near_chance_up_to_a_tenth_of_the_way_to_one():
    """Of 10 classes: a guess .1, a tenth of the way .19."""
    assert not guesses(380, 2000, 10)
    assert near_chance(379, 2000, 10)
    assert not near_chance(381, 2000, 10)
    assert near_chance(2, 2, 4)  # not significant, however high


def at(untouched, reference=0.9):
    """The accuracies of a leaky suite, with these on untouched images."""

    def accuracy(cell):
        if cell.estimator == CLEAN:
            return reference if cell.retrain is Retrain.NONE else untouched
        return leaky(0.5)(cell)

    return accuracy


@pytest.fixture(scope="module")
def void():
    return replace(held(accuracy=at(0.255)), limit=2000)


@pytest.fixture(scope="module")
def sound():
    return replace(held(accuracy=at(0.9)), limit=2000)


@pytest.mark.slow
def test_nothing_is_placed_and_nothing_flagged(void, sound):
    for protocol in (ROAR, KAR, MORF):
        rows = void.board(protocol, Unit.SCALAR).rows
        assert {(row.place, row.random, row.sobel) for row in rows} == {(None, None, None)}
        assert {row.gain.value is None for row in rows} == {False}  # what was measured is still there
        judged = Evidence.of(void, Bootstrap(200)).board(protocol, Unit.SCALAR, MAIN)
        assert {(row.place, row.random, row.sobel) for row in judged.rows} == {(None, None, None)}
        assert judged.detectable is None
    both = [flags_of(Evidence(each, Unit.SCALAR, Bootstrap(200))) for each in (void, sound)]
    assert (both[0], bool(both[1])) == ({}, True)
    assert all(row.place for row in sound.board(ROAR, Unit.SCALAR, MAIN).rows)
    assert (bool(void.at_chance), sound.at_chance) == (True, "")


@pytest.mark.slow
def test_every_output_says_so(void, sound):
    table, other = (suite_table(suite_results, "roar", None, None) for suite_results in (void, sound))
    for said in (words_of(table), render(table, "markdown"), chart(table).title, *doubts(panel(void))):
        assert "the installation only" in said
    for said in (words_of(other), render(other, "markdown"), chart(other).title, *doubts(panel(sound))):
        assert "installation" not in said
    assert "At chance: 25." in words_of(table) and "(!)" not in words_of(table)
    for found in (
        json.loads(render(table, "json")),
        json.loads(as_json(panel(void))),
        results_record(Evidence(void, Unit.SCALAR, Bootstrap(50))),
    ):
        assert found["at_chance"] is True
    rows = rows_of(table, "csv").values()
    assert {(row["place"], row["verdict"], row["flag"]) for row in rows} == {("", "", "")}


def test_networks_are_judged_by_their_mean():
    """500 of 2,000 is a guess of four classes; 583, the mean with a network of 750, is not."""
    whole = held(replace(SUITE, blocks=(Block(ROAR, MAIN, (0.9,), seeds=3),)))
    rows = dict(whole.results)
    clean = [point for point in rows if point.cell.estimator == CLEAN]
    for point, correct in zip(clean, (750, 500, 500), strict=True):
        rows[point] = result(SUITE, point, np.arange(IMAGES) < correct)
    assert replace(whole, results=rows).at_chance == ""
    assert replace(whole, results={p: row for p, row in rows.items() if p != clean[0]}).at_chance


def test_the_reference_is_told_where_it_is_known():
    table = suite_table(held(accuracy=at(0.9, reference=0.8)), "roar", None, None)
    accuracy = json.loads(render(table, "json"))["reference_accuracy"]
    assert accuracy == pytest.approx(0.8, abs=0.03)
    assert f"reference {accuracy:.1%} correct" in table.caption and "near" not in table.caption
    assert f"reference {accuracy:.1%} correct" in words_of(table)
    unknown = suite_table(replace(held(), references={}), "roar", None, None)
    assert json.loads(render(unknown, "json"))["reference_accuracy"] is None
    assert "correct" not in unknown.caption
    near = suite_table(held(accuracy=at(0.9, reference=0.3)), "roar", None, None)
    assert "correct, near chance (25.0%)" in near.caption and "near chance" in render(near, "markdown")
    found = held(accuracy=usual)
    marked = {
        point: replace(row, weights="a" * 64 if row.run.reference else "") for point, row in found.results.items()
    }
    other = replace(found.references[0], weights="b" * 64)
    assert replace(found, results=marked, references={0: other}).reference_accuracy is None
    assert replace(found, results=marked, references={0: replace(other, weights="a" * 64)}).reference_accuracy > 0.8

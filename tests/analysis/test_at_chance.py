"""Boards whose networks, or whose reference, do no better than a guess, which binomial coefficients tell exactly."""

import json
from dataclasses import replace
from functools import cache
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
from tests.helpers.made_up import IMAGES, MAIN, SUITE, held, leaky, result
from tests.helpers.tables import rows_of, words_of


@pytest.mark.parametrize("total, classes", [(1, 2), (8, 4), (10, 10), (64, 10), (200, 4), (10, 1000)])
def test_a_guess_is_told_by_the_exact_test_at_one_percent(total, classes):
    ways = [comb(total, k) * (classes - 1) ** (total - k) for k in range(total + 1)]  # of classes ** total
    at_least = [*accumulate(reversed(ways))][::-1]
    found = [guesses(correct, total, classes) for correct in range(total + 1)]
    assert found == [100 * count >= classes**total for count in at_least]
    assert found[0] and found == sorted(found, reverse=True)


def test_a_reference_is_near_chance_up_to_a_tenth_of_the_way_to_one():
    """Of 10 classes: a guess .1, a tenth of the way .19; 2 of 2 are not significant, however high."""
    assert not guesses(380, 2000, 10)
    assert near_chance(379, 2000, 10) and not near_chance(381, 2000, 10)
    assert near_chance(2, 2, 4)


@cache
def at(untouched, reference=0.9):
    """A leaky suite's results, with these accuracies on untouched images."""

    def accuracy(cell):
        if cell.estimator == CLEAN:
            return reference if cell.retrain is Retrain.NONE else untouched
        return leaky(0.5)(cell)

    return replace(held(accuracy=accuracy), limit=2000)


def table(suite_results):
    return suite_table(suite_results, "roar", None, None)


@pytest.mark.slow
def test_nothing_is_placed_and_nothing_flagged():
    void, sound = at(0.255), at(0.9)
    assert (bool(void.at_chance), sound.at_chance) == (True, "")
    for protocol in (ROAR, KAR, MORF):
        plain = void.board(protocol, Unit.SCALAR)
        judged = Evidence.of(void, Bootstrap(200)).board(protocol, Unit.SCALAR, MAIN)
        assert {(row.place, row.random, row.sobel) for row in (*plain.rows, *judged.rows)} == {(None, None, None)}
        assert all(row.gain.value is not None for row in plain.rows)  # what was measured is still there
        assert judged.detectable is None
    assert all(row.place for row in sound.board(ROAR, Unit.SCALAR, MAIN).rows)
    assert flags_of(Evidence(void, Unit.SCALAR, Bootstrap(200))) == {}
    assert flags_of(Evidence(sound, Unit.SCALAR, Bootstrap(200)))


@pytest.mark.slow
def test_every_output_says_so():
    for suite_results, said in ((at(0.255), True), (at(0.9), False)):
        shown, beside = table(suite_results), panel(suite_results)
        for words in (words_of(shown), render(shown, "markdown"), chart(shown).title, *doubts(beside)):
            assert ("the installation only" in words, "installation" in words) == (said, said)
        record = results_record(Evidence(suite_results, Unit.SCALAR, Bootstrap(50)))
        for found in (json.loads(render(shown, "json")), json.loads(as_json(beside)), record):
            assert found["at_chance"] is said
    shown = table(at(0.255))
    assert "At chance: 25." in words_of(shown) and "(!)" not in words_of(shown)
    assert {(row["place"], row["verdict"], row["flag"]) for row in rows_of(shown, "csv").values()} == {("", "", "")}


def test_networks_are_judged_by_their_mean():
    """500 of 2,000 is a guess of four classes; 583, the mean with a network of 750, is not."""
    whole = held(replace(SUITE, blocks=(Block(ROAR, MAIN, (0.9,), seeds=3),)))
    rows = dict(whole.results)
    clean = [point for point in rows if point.cell.estimator == CLEAN]
    for point, correct in zip(clean, (750, 500, 500), strict=True):
        rows[point] = result(SUITE, point, np.arange(IMAGES) < correct)
    assert replace(whole, results=rows).at_chance == ""
    del rows[clean[0]]
    assert replace(whole, results=rows).at_chance


def test_the_reference_is_told_where_it_is_known():
    shown, near = table(at(0.9, reference=0.8)), table(at(0.9, reference=0.3))
    accuracy = json.loads(render(shown, "json"))["reference_accuracy"]
    assert accuracy == pytest.approx(0.8, abs=0.03)
    assert f"reference {accuracy:.1%} correct" in shown.caption and "near" not in shown.caption
    assert f"reference {accuracy:.1%} correct" in words_of(shown)
    assert "correct, near chance (25.0%)" in near.caption and "near chance" in render(near, "markdown")
    found = held()
    unknown = table(replace(found, references={}))
    assert json.loads(render(unknown, "json"))["reference_accuracy"] is None and "correct" not in unknown.caption
    rows = {at: replace(row, weights="a" * 64 if row.run.reference else "") for at, row in found.results.items()}
    for weights, known in (("a" * 64, True), ("b" * 64, False)):
        scored = replace(found, results=rows, references={0: replace(found.references[0], weights=weights)})
        assert (scored.reference_accuracy is not None) is known

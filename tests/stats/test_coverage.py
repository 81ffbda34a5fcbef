"""Simulated boards of ROAR and of matched gain with known true gains: coverage of intervals and verdicts.

studies/coverage/README.md has the large simulations. A prediction is correct if a normal hidden number is large enough.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

from roarbench.api.check_table import CONTROLS, CheckTable
from roarbench.api.training_free_measures import CHECK_LEVELS
from roarbench.common.enums import Order
from roarbench.plan.protocols import MATCHED, ROAR
from roarbench.stats.compute_board import Judge
from roarbench.stats.contrasts import measure_means
from roarbench.stats.correctness_and_gain import POINTS, UNTOUCHED, Correctness, compute_trapezoid_weights
from roarbench.stats.intervals import estimate_all
from roarbench.stats.own_network_gain import compute_own_network_gains
from roarbench.stats.variance_components import estimate_variance_components
from roarbench.stats.verdicts import Verdict, decide_verdicts
from studies.coverage.run import judge_own_network_table, judge_table
from studies.coverage.simulate import (
    NULL,
    SPREAD,
    Design,
    OwnNetworkDesign,
    count_right,
    simulate_table,
    simulate_unchanged,
)
from tests.helpers.boards import compute_board

pytestmark = pytest.mark.slow

SHARED, OWN = 0.6, 0.25  # variances of the hidden number: an image's difficulty for all cells, and for a cell

MATCHED_LEVELS = {0.1: 0.62, 0.5: 0.52, 0.9: 0.35}  # accuracy with a matched mask, by level
MATCHED_CONTROLS = {"random": 0.0, "sobel": -3.0, "random-blurred": 0.0}  # true gains, accuracy points
MATCHED_ROWS = {"e1": 3.0, "e2": 0.0, "e3": -3.0, "e4": 0.0, "e5": 1.0}


class MatchedWorld(NamedTuple):
    """Settings of boards of matched gain; three common networks each have their own explained network."""

    training_noise: float = 1.0  # standard deviation of all accuracies between common networks, in points
    trials: int = 0  # number of added rows whose maps do not depend on the explained network


def draw_correctness_of_matched_gain(world, generator, images=3925, networks=3):
    """Common networks predict each image under its own removal mask and under a matched mask."""
    shape = (networks, images)
    shared = np.sqrt(SHARED) * generator.normal(size=images)
    training_noise, common = generator.normal(size=(networks, 3)), generator.normal(size=networks)
    correct, differences = {UNTOUCHED: np.ones(shape, bool)}, {UNTOUCHED: np.zeros(shape, np.int8)}
    trials: Mapping[str, float] = dict.fromkeys((f"trial-{number}" for number in range(world.trials)), 0.0)
    for name, gain in {**MATCHED_CONTROLS, **MATCHED_ROWS, **trials}.items():
        own = np.sqrt(0.5) * (common + generator.normal(size=networks)) * (name in MATCHED_ROWS)
        for number, (t, accuracy) in enumerate(MATCHED_LEVELS.items()):
            drop = gain + own + 0.5 * generator.normal(size=networks)
            difficulty = shared + np.sqrt(OWN) * generator.normal(size=images)
            other = accuracy + world.training_noise / POINTS * training_noise[:, number]
            limits = [norm.ppf(np.clip(share, 0.01, 0.99))[:, None] for share in (other - drop / POINTS, other)]
            bits = [difficulty + np.sqrt(1 - SHARED - OWN) * generator.normal(size=shape) < limit for limit in limits]
            correct[name, t] = bits[0]
            differences[name, t] = bits[0].astype(np.int8) - bits[1]
    names = tuple(f"reference {number}" for number in range(networks))
    references = {(name, t): names for name in (*MATCHED_ROWS, *trials) for t in MATCHED_LEVELS}
    rows = (*MATCHED_CONTROLS, *MATCHED_ROWS, *trials)
    scores = Correctness(rows, (*MATCHED_LEVELS,), differences, references=references, submitted=frozenset(trials))
    return replace(scores, correct=correct, differences=scores, model_free_controls=frozenset(MATCHED_CONTROLS))


def simulate_matched(world, boards):
    """Return the means of shares over boards, and half the width of an explained row's interval in points.

    `wrong` counts rows without information that are called better or worse than Random; `found` counts boards on which
    the first row, 3 points above the best control, is called better; `wrongly_beats` counts boards on which a row that
    is no better than the best control beats every control.
    """
    outcomes = defaultdict(list)
    share = float(compute_trapezoid_weights((0.0, *MATCHED_LEVELS))[1:].sum())  # a row's gain per point at all levels
    for number in range(boards):
        scores = draw_correctness_of_matched_gain(world, np.random.default_rng([1, number]))
        board = compute_board(scores, MATCHED)
        rows = {row.estimator: row for row in board.rows}
        true = {**MATCHED_CONTROLS, **MATCHED_ROWS}
        inside = {name: rows[name].gain.low <= share * gain <= rows[name].gain.high for name, gain in true.items()}
        verdicts = {name: row.vs_random.verdict if row.vs_random else Verdict.SAME for name, row in rows.items()}
        for name, value in {
            "controls": np.mean([inside[name] for name in MATCHED_CONTROLS]),
            "explained": np.mean([inside[name] for name in MATCHED_ROWS]),
            "wrong": np.mean([verdicts[name] is not Verdict.SAME for name, gain in true.items() if gain == 0][1:]),
            "found": verdicts["e1"] is Verdict.BETTER,
            "wrongly_beats": any(rows[name].beating.beats_all for name, gain in MATCHED_ROWS.items() if gain <= 0),
            "width": np.mean([(rows[name].gain.high - rows[name].gain.low) / 2 for name in MATCHED_ROWS]),
        }.items():
            outcomes[name].append(value)
    return {name: float(np.mean(values)) for name, values in outcomes.items()}


def average_tables(measure, tables):
    found = [measure(np.random.default_rng([1, number])) for number in range(tables)]
    return {name: np.mean([table[name] for table in found]) for name in found[0]}


def measure_table(design, kind, chance):
    scores, true = simulate_table(design, kind, chance)
    return count_right(judge_table(scores), true)


def test_roar_intervals_verdicts_and_ranks_are_right_as_often_as_promised():
    """Two networks, a row with four times the others' spread, and rows that equal Random beside certain controls."""
    design = Design("", 2, rows=8, images=400, levels=(0.5, 0.9), unusual=4.0)
    found = average_tables(partial(measure_table, design, NULL), tables := 60)
    error = np.sqrt(0.95 * 0.05 / tables)
    for promise in ("gains", "differences", "accuracy", "all ranks"):
        assert found[promise] > 0.95 - 3 * error, promise
    assert found["false per column"] < 0.05 + 3 * error and found["false per table"] < 0.1 + 3 * error
    differ = average_tables(partial(measure_table, replace(design, networks=5), SPREAD), 20)
    assert differ["gains"] > 0.9 and differ["found"] > 0.2 and differ["false discoveries"] < 0.05


def test_intervals_of_a_single_row_are_those_of_students_t():
    """No other row tells the variance between networks, so the row's own has one degree of freedom here."""
    design = Design("", 2, rows=1, images=200)
    scores, _ = simulate_table(design, NULL, np.random.default_rng(3))
    judge = Judge.from_scores(scores, ROAR, estimate_variance_components([scores]))
    assert judge.gains["row-0"].spread.freedoms[0, 1] == 1
    scores, _ = simulate_table(replace(design, rows=2), NULL, np.random.default_rng(3))
    judge = Judge.from_scores(scores, ROAR, estimate_variance_components([scores]))
    assert judge.gains["row-0"].spread.freedoms[0, 1] > 1


def test_ranks_of_many_own_network_gains_hold_together():
    """With the rows' own variances, a fifth of these tables had a wrong rank interval."""
    design = OwnNetworkDesign(networks=3, rows=20, images=600, spread=0.2, prior=5.0)
    found = average_tables(lambda chance: judge_own_network_table(simulate_unchanged(design, chance)), 30)
    assert found["all ranks"] >= 0.95
    assert found["gains"] > 0.93


def test_intervals_that_ignore_networks_are_too_short():
    """The simulation can fail: without the variance between networks, a third of the intervals are wrong."""
    design, inside = Design("", 3, rows=8, images=400, of_network=5.0), []
    for number in range(20):
        scores, true = simulate_table(design, NULL, np.random.default_rng([2, number]))
        judge = Judge.from_scores(replace(scores, references={}), ROAR, None)
        estimates = estimate_all(judge.gains)
        inside += [estimates[name].low <= true[name] <= estimates[name].high for name in true if "row" in name]
    assert np.mean(inside) < 0.7


def test_paired_gain_coverage_holds_under_large_training_noise():
    """Training noise four times as large widens no interval, because both answers share it."""
    found = simulate_matched(MatchedWorld(training_noise=4.0), 30)
    assert found["controls"] > 0.85 and found["explained"] > 0.9
    assert found["wrong"] < 0.1 and found["wrongly_beats"] < 0.1
    assert found["found"] > 0.5


def test_paired_gain_coverage_holds_beside_model_free_submissions():
    found = simulate_matched(MatchedWorld(trials=20), 20)
    assert found["explained"] > 0.9 and found["wrong"] < 0.1
    assert found["width"] > 1.4


def has_false_check_verdict(images, rows, kept, chance):
    """Simulate a table of `rb.check` of exchangeable maps, in which every leader and reversed pair is false.

    `kept` has the share of correct predictions at each level, which depend on the image for all maps and for one map.
    """
    names, gains = [*CONTROLS, *map(str, range(rows))], {}
    weights, limits = np.asarray(compute_trapezoid_weights((0.0, *CHECK_LEVELS))), norm.ppf(kept)[:, None]
    shared = np.sqrt(0.5) * chance.normal(size=images)
    for order, sign in ((Order.MORF, -POINTS), (Order.LERF, POINTS)):
        of_map = shared + np.sqrt(0.35) * chance.normal(size=(len(names), 1, images))
        areas = weights[1:] @ (of_map + np.sqrt(0.15) * chance.normal(size=(len(names), len(kept), images)) < limits)
        gains[str(order)] = dict(zip(names, measure_means((areas - areas[0]) * sign), strict=True))
    table = CheckTable(gains, dict.fromkeys(gains, CHECK_LEVELS), images, accuracy=0.5)
    return any(table.leaders.values()) or bool(table.reversed)


def has_false_own_network_verdict(images, chance, networks=3, rows=4, kept=(0.8, 0.2)):
    """Simulate a table of `rb.own_network_gain` of exchangeable maps, in which every verdict is false."""
    shape, limits = (networks, networks, len(kept), images), norm.ppf(kept)[:, None]
    shared = np.sqrt(0.5) * chance.normal(size=images)
    unchanged = {f"{row}": shared + np.sqrt(0.5) * chance.normal(size=shape) < limits for row in range(rows)}
    gains = compute_own_network_gains(unchanged, Order.MORF)
    verdicts = decide_verdicts({name: gain.gain for name, gain in gains.items()})
    return any(verdict is not Verdict.SAME for verdict in verdicts.values())


@pytest.mark.parametrize("images", [2, 5, 12, 30])
def test_maps_without_information_have_few_false_verdicts_on_few_images(images):
    """When numbers that did not vary were certain, 11, 0, 0 and 1 % and 56, 37, 20 and 15 % had one."""
    chance, tables = np.random.default_rng(1), 100
    most = 0.05 + 3 * np.sqrt(0.05 * 0.95 / tables)
    assert np.mean([has_false_check_verdict(images, 8, (0.8, 0.5, 0.3), chance) for _ in range(tables)]) < most
    assert np.mean([has_false_own_network_verdict(images, chance, rows=32) for _ in range(tables)]) < most

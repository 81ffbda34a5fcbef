"""Simulated boards of ROAR and of matched gain with known true gains: coverage of intervals and verdicts.

studies/coverage/README.md has the large simulations. A prediction is correct if a normal hidden number is large enough.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

from roarbench.api.gain_tables import CONTROLS, CheckTable
from roarbench.api.training_free_measures import CHECK_LEVELS, bootstrap_means
from roarbench.common.enums import Order
from roarbench.plan.protocols import MATCHED, ROAR
from roarbench.stats.bootstrap_intervals import FEWEST_IMAGES, Bootstrap, compute_half_width
from roarbench.stats.compute_board import Judge, compute_board, sample_gains
from roarbench.stats.correctness_and_gain import (
    POINTS,
    UNTOUCHED,
    Correctness,
    compute_gain,
    compute_trapezoid_weights,
)
from roarbench.stats.own_network_gain import (
    OwnNetworkVerdict,
    compute_own_network_gain_per_row,
    judge_own_network_gains,
)
from roarbench.stats.resampling import draw_resamples
from roarbench.stats.variance_components import estimate_variance_components
from roarbench.stats.verdicts import Verdict

pytestmark = pytest.mark.slow

CLEAN_ACCURACY = 0.8
ROAR_CONTROLS = ("random", "sobel", "random-blurred")
EXPLAINED = tuple(f"e{number}" for number in range(1, 7))
# true mean drop of each row below Random, in accuracy points at t = 1
DROPS = dict(zip((*ROAR_CONTROLS, *EXPLAINED), (0.0, 0.0, 3.0, -6.0, -1.0, 1.5, 1.5, 0.0, 4.0), strict=True))
LEVELS = (0.5, 0.9)
# variances of the hidden number: an image's difficulty for all cells, for a cell, for an explained network in a cell,
# and for a training run
SHARED, OWN, OF_EXPLAINED, NOISE = 0.6, 0.25, 0.05, 0.1


@dataclass(frozen=True)
class RoarWorld:
    """Settings of boards of ROAR; standard deviations are in accuracy points."""

    references: int  # number of explained networks
    trainings: int  # training runs per explained network; a control has as many as another row in total
    images: int
    of_references: tuple[float, float]  # of a row's gain between explained networks, for the first and the last row
    of_trainings: float  # of a cell's accuracy between training runs


def compute_true_accuracies():
    """Random's accuracy falls linearly with t, and a row's gain grows linearly."""
    falls = {(name, t): CLEAN_ACCURACY - 0.3 * t - DROPS[name] / POINTS * t for name in DROPS for t in LEVELS}
    return {UNTOUCHED: CLEAN_ACCURACY, **falls}


def compute_true_gains():
    accuracies = compute_true_accuracies()
    curves = {name: np.array([CLEAN_ACCURACY, *(accuracies[name, t] for t in LEVELS)]) for name in DROPS}
    levels = (0.0, *LEVELS)
    return {name: float(compute_gain(levels, curve, curves["random"], ROAR.order)) for name, curve in curves.items()}


def draw_correctness_of_roar(world, shared, own, generator):
    """Draw the results of one board; `shared` and `own` are the difficulty of images for all cells and for a cell."""
    count = world.references * world.trainings
    explains = np.arange(count) % world.references
    common = generator.standard_normal(world.references)
    spreads = dict(zip(EXPLAINED, np.linspace(*world.of_references, len(EXPLAINED)), strict=True))
    of_rows = {name: np.sqrt(0.5) * (common + generator.standard_normal(world.references)) for name in EXPLAINED}
    # an explained network shifts a curve in proportion to t, such that the gain has its standard deviation
    unit = float(compute_trapezoid_weights((0.0, *LEVELS))[1:] @ np.array(LEVELS))
    correct = {}
    for (name, t), accuracy in compute_true_accuracies().items():
        threshold = norm.ppf(accuracy)
        hidden_unit = POINTS * norm.pdf(threshold)
        training, reference = world.of_trainings / hidden_unit, spreads.get(name, 0.0) * t / unit / hidden_unit
        hidden = shared + own[name, t] + np.sqrt(NOISE) * generator.standard_normal((count, world.images))
        if name in spreads:
            of_networks = generator.standard_normal((world.references, world.images))[explains]
            hidden -= (reference * of_rows[name])[explains, None]
        else:
            of_networks = generator.standard_normal((count, world.images))
        hidden += np.sqrt(OF_EXPLAINED) * of_networks + training * generator.standard_normal(count)[:, None]
        correct[name, t] = hidden > -threshold * np.sqrt(1 + training**2 + reference**2)
    names = tuple(f"reference {number}" for number in explains)
    references = {(name, t): names for name in EXPLAINED for t in LEVELS}
    return Correctness(tuple(DROPS), LEVELS, correct, references=references)


def compute_coverage(scores, bootstrap, replicated):
    """Compute the shares of intervals that contain the true value; `replicated` has the gains of a replication."""
    draws = draw_resamples(scores, bootstrap, estimate_variance_components([scores]))
    gains, true, accuracies = sample_gains(scores, ROAR, draws), compute_true_gains(), compute_true_accuracies()
    predicted = sample_gains(scores, ROAR, draws.replication)
    pairs = {
        "accuracies": [(draws.get_accuracy(point), accuracies[point]) for point in accuracies],
        "gains": [(gains[name], true[name]) for name in EXPLAINED],
        "controls": [(gains[name], true[name]) for name in ROAR_CONTROLS[1:]],
        "over_sobel": [(gains[name].subtract(gains["sobel"]), true[name] - true["sobel"]) for name in EXPLAINED],
        "between": [(gains[a].subtract(gains[b]), true[a] - true[b]) for a, b in pairwise(EXPLAINED)],
        "predicted": [(predicted[name], replicated[name].value) for name in EXPLAINED],
    }
    return {
        name: np.mean([abs(sample.value - value) <= compute_half_width(sample, 0.95) for sample, value in cells])
        for name, cells in pairs.items()
    }


def simulate_roar_board(world, generator, bootstrap):
    """Simulate an experiment and its replication on the same images; return shares by group and name.

    `one_reference` has the coverage of intervals that treat all explained networks as one.
    """
    shared = np.sqrt(SHARED) * generator.standard_normal(world.images)
    own = {point: np.sqrt(OWN) * generator.standard_normal(world.images) for point in compute_true_accuracies()}
    scores, again = (draw_correctness_of_roar(world, shared, own, generator) for _ in range(2))
    replicated = sample_gains(again, ROAR, draw_resamples(again, bootstrap, estimate_variance_components([again])))
    variances = estimate_variance_components([scores])
    board = Judge.from_draws(scores, ROAR, bootstrap, variances, draw_resamples(scores, bootstrap, variances))
    rows = board.make_board().rows
    return {
        "here": compute_coverage(scores, bootstrap, replicated),
        "one_reference": compute_coverage(replace(scores, references={}), bootstrap, replicated),
        "other": {
            "false_discoveries": compute_false_discovery_rate(rows),
            "all_places": all(is_true_rank_covered(row) for row in rows),
        },
    }


def compute_false_discovery_rate(rows):
    """Return the share of wrong verdicts among all "better" and "worse"; the wrong direction is also wrong."""
    gains, wrong = compute_true_gains(), []
    for row in rows:
        for control in ROAR_CONTROLS:
            comparison = row.against.get(control)
            if comparison is not None and comparison.verdict is not Verdict.SAME:
                difference = gains[row.estimator] - gains[control]
                right = abs(difference) > 1e-9 and (difference > 0) == (comparison.verdict is Verdict.BETTER)
                wrong.append(not right)
    return np.mean(wrong) if wrong else 0.0


def is_true_rank_covered(row):
    """Return whether the rank interval contains all ranks that the rows with the same true gain share."""
    gains = compute_true_gains()
    best = 1 + sum(other > gains[row.estimator] + 1e-9 for other in gains.values())
    worst = sum(other > gains[row.estimator] - 1e-9 for other in gains.values())
    return row.place.low <= best and worst <= row.place.high


def simulate_roar(world, boards, resamples):
    """Return mean and standard error of every share, by group and name; each board has its own random generator."""
    shares = defaultdict(list)
    for number in range(boards):
        found = simulate_roar_board(world, np.random.default_rng([1, number]), Bootstrap(resamples, seed=number % 8))
        for group, by_name in found.items():
            for name, share in by_name.items():
                shares[group, name].append(share)
    return {key: (np.mean(values), np.std(values) / np.sqrt(boards)) for key, values in shares.items()}


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


def simulate_matched(world, boards, resamples=600):
    """Return the means of shares over boards, and half the width of an explained row's interval in points.

    `wrong` counts rows without information that are called better or worse than Random; `found` counts boards on which
    the first row, 3 points above the best control, is called better; `wrongly_beats` counts boards on which a row that
    is no better than the best control beats every control.
    """
    outcomes = defaultdict(list)
    share = float(compute_trapezoid_weights((0.0, *MATCHED_LEVELS))[1:].sum())  # a row's gain per point at all levels
    for number in range(boards):
        scores = draw_correctness_of_matched_gain(world, np.random.default_rng([1, number]))
        board = compute_board(scores, MATCHED, Bootstrap(resamples, seed=number % 8))
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


def test_roar_intervals_reach_nominal_level_with_two_explained_networks():
    """Intervals that assume a single explained network fall short, so the simulation can fail."""
    boards = 50
    world = RoarWorld(2, 2, images=600, of_references=(3.0, 5.0), of_trainings=0.5)
    found = simulate_roar(world, boards, resamples=300)
    for promise in ("accuracies", "gains", "controls", "over_sobel", "between", "predicted"):
        mean, error = found["here", promise]
        assert mean > 0.93 - 3 * error, promise  # two explained networks hardly determine each row's own variance
    for promise in ("gains", "over_sobel", "between", "predicted"):
        mean, error = found["one_reference", promise]
        assert mean < 0.9 - 3 * error, promise
    wrong, error = found["other", "false_discoveries"]
    assert wrong < 0.05 + 3 * error
    assert found["other", "all_places"][0] > 0.95 - 3 * np.sqrt(0.95 * 0.05 / boards)


def test_paired_gain_coverage_holds_under_large_training_noise():
    """Training noise four times as large widens no interval, because both answers share it."""
    found = simulate_matched(MatchedWorld(training_noise=4.0), 30)
    assert found["controls"] > 0.85 and found["explained"] > 0.9
    assert found["wrong"] < 0.1 and found["wrongly_beats"] < 0.1
    assert found["found"] > 0.5


def test_paired_gain_coverage_holds_beside_model_free_submissions():
    found = simulate_matched(MatchedWorld(trials=20), 20, resamples=300)
    assert found["explained"] > 0.9 and found["wrong"] < 0.1
    assert found["width"] > 1.4


BOOTSTRAP = Bootstrap(resamples=1000)


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
        samples = bootstrap_means((areas - areas[0]) * sign, BOOTSTRAP)
        gains[str(order)] = dict(zip(names, samples, strict=True))
    # with the true number of images, a table of few images would have no verdicts
    table = CheckTable(gains, dict.fromkeys(gains, CHECK_LEVELS), max(images, FEWEST_IMAGES), accuracy=0.5)
    return any(table.leaders.values()) or bool(table.reversed)


def has_false_own_network_verdict(images, chance, networks=3, rows=4, kept=(0.8, 0.2)):
    """Simulate a table of `rb.own_network_gain` of exchangeable maps, in which every verdict is false."""
    shape, limits = (networks, networks, len(kept), images), norm.ppf(kept)[:, None]
    shared = np.sqrt(0.5) * chance.normal(size=images)
    unchanged = {f"{row}": shared + np.sqrt(0.5) * chance.normal(size=shape) < limits for row in range(rows)}
    gains = compute_own_network_gain_per_row(unchanged, Order.MORF, BOOTSTRAP)
    verdicts = judge_own_network_gains({name: gain.gain for name, gain in gains.items()})
    return any(verdict is not OwnNetworkVerdict.OPEN for verdict in verdicts.values())


def test_maps_without_information_have_few_false_verdicts_on_fewest_images():
    chance, tables = np.random.default_rng(1), 150
    many, few = (
        np.mean([has_false_check_verdict(images, 8, (0.8, 0.5, 0.3), chance) for _ in range(tables)])
        for images in (FEWEST_IMAGES, 2)
    )
    assert many < 0.05 + 3 * np.sqrt(0.05 * 0.95 / tables) and few > 0.4
    assert np.mean([has_false_own_network_verdict(FEWEST_IMAGES, chance) for _ in range(tables)]) < 0.05

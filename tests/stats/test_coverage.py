"""Small versions of the simulations in studies/coverage/README.md."""

import numpy as np
import pytest
from scipy.stats import norm

from roarbench.api.check import CHECK_LEVELS
from roarbench.api.gain_tables import CONTROLS, CheckTable
from roarbench.api.single_steps import bootstrap_means
from roarbench.common.enums import Order
from roarbench.stats.bootstrap_intervals import FEWEST_IMAGES, Bootstrap
from roarbench.stats.correctness_and_gain import POINTS, compute_trapezoid_weights
from roarbench.stats.own_network_gain import (
    OwnNetworkVerdict,
    compute_own_network_gain_per_row,
    judge_own_network_gains,
)
from tests.helpers.simulated_boards import MatchedWorld, RoarWorld, simulate_matched, simulate_roar

pytestmark = pytest.mark.slow


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

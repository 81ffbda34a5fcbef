"""Curves, the area between two of them, and what probabilities fall by along one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import UNTOUCHED, Scores, area_weights
from roarbench.stats.draws import draw
from roarbench.stats.probability import order_gaps, probability_drop


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6, unique=True), st.integers(0, 100))
def test_weights_are_scipys_trapezoids(levels, seed):
    steps = (0.0, *sorted(levels))
    heights = np.random.default_rng(seed).random(len(steps))
    oracle = trapezoid(heights, steps) / steps[-1]
    np.testing.assert_allclose(area_weights(steps) @ heights, oracle, rtol=1e-9)


def test_the_gap_between_the_orders_by_hand():
    """LeRF keeps all of 1.0; MoRF falls to .5 and .25: (.5 * .25 + .5 * (.5 + .75) / 2) of accuracy."""
    full, half, quarter = (np.arange(4)[None] < count for count in (4, 2, 1))
    morf = {UNTOUCHED: full, ("a", 0.5): half, ("a", 1.0): quarter, ("b", 0.5): half}
    lerf = {UNTOUCHED: full, ("a", 0.5): full, ("a", 1.0): full}
    boards = [Scores(("a", "b"), (0.5, 1.0), cells) for cells in (morf, lerf)]
    draws = [draw(board, Bootstrap(10), None) for board in boards]
    gaps, turned = order_gaps(boards[0], *draws), order_gaps(boards[0], *reversed(draws))
    assert list(gaps) == ["a"] and gaps["a"].draws.shape == (10,)
    assert gaps["a"].value == -turned["a"].value == pytest.approx(100 * (0.125 + 0.3125))


def test_scores_say_what_is_wrong_with_them_and_which_curves_are_complete():
    bits, more = np.ones((2, 5), dtype=bool), np.ones((2, 6), dtype=bool)
    for levels in ((30.0,), (0.0, 0.5), (0.9, 0.5), (0.5, 0.5)):
        with pytest.raises(ValueError, match="levels must ascend"):
            Scores(("random",), levels, {})
    for cells in ({UNTOUCHED: bits, ("random", 0.5): more}, {UNTOUCHED: bits[0]}):
        with pytest.raises(ValueError, match="same images"):
            Scores(("random",), (0.5,), cells)
    with pytest.raises(ValueError, match="2 rows of bits and 1 references"):
        Scores(("a",), (0.5,), {("a", 0.5): bits}, references={("a", 0.5): ("r0",)})
    cells = {UNTOUCHED: bits[:1], ("random", 0.5): bits[:1], ("random", 0.9): bits}
    assert Scores(("random",), (0.5, 0.9), cells).complete("random")
    assert not Scores(("random",), (0.5, 0.7, 0.9), cells).complete("random")
    del cells[UNTOUCHED]
    assert not Scores(("random",), (0.5, 0.9), cells).complete("random")
    assert Scores((), (0.5,), {}).images == 0


def test_probabilities_by_hand():
    """Two images whose probabilities fall, at two levels, by .2 and 0, then by .6 and -.1."""
    untouched, degraded = np.array([0.8, 0.5]), np.array([[0.6, 0.5], [0.2, 0.6]])
    drop = probability_drop(untouched, degraded)
    assert drop.aopc.value == pytest.approx((0.2 + 0.0 + 0.6 - 0.1) / 4)
    assert drop.aopc.high == pytest.approx(0.175 + 1.96 * 0.225, rel=1e-4)  # of means of 0.4 and -0.05
    assert [one.value for one in drop.changes] == pytest.approx([0.25 / 2, (0.75 + 0.2) / 2])
    assert [one.value for one in drop.probabilities] == pytest.approx([0.55, 0.4])
    assert drop.probabilities[1].high == pytest.approx(0.4 + 1.96 * 0.2, rel=1e-4)  # 0.2: the error of a mean of two
    one = probability_drop(untouched[:1], degraded[:, :1])
    assert (one.aopc.low, one.aopc.high) == (None, None)

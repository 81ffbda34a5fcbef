"""Completeness of curves, the sign of gains, and drops of probability along a curve."""

import numpy as np
import pytest

from roarbench.common.enums import Order
from roarbench.stats.curves import UNTOUCHED, Correctness, compute_gain
from roarbench.stats.probability_drop import compute_probability_drop


def test_curve_is_complete_with_cell_for_every_level():
    bits = np.ones((2, 5), dtype=bool)
    cells = {UNTOUCHED: bits[:1], ("random", 0.5): bits[:1], ("random", 0.9): bits}
    assert Correctness(("random",), (0.5, 0.9), cells).is_complete("random")
    assert not Correctness(("random",), (0.5, 0.7, 0.9), cells).is_complete("random")
    del cells[UNTOUCHED]
    assert not Correctness(("random",), (0.5, 0.9), cells).is_complete("random")
    assert Correctness((), (0.5,), {}).images == 0


def test_compute_gain_matches_manual_computation_with_sign_of_order():
    """A lead of 20 points at the middle level, whose weight is .5: a lower curve is better for MoRF, worse for LeRF."""
    curve, random = np.array([0.8, 0.4, 0.2]), np.array([0.8, 0.6, 0.2])
    gains = [compute_gain((0.0, 0.5, 1.0), curve, random, order) for order in (Order.MORF, Order.LERF)]
    assert gains == pytest.approx([10.0, -10.0])


def test_probability_drop_matches_manual_computation():
    """Two images whose probabilities fall, at two levels, by .2 and 0, then by .6 and -.1."""
    untouched, degraded = np.array([0.8, 0.5]), np.array([[0.6, 0.5], [0.2, 0.6]])
    drop = compute_probability_drop(untouched, degraded)
    assert drop.aopc.value == pytest.approx((0.2 + 0.0 + 0.6 - 0.1) / 4)
    assert drop.aopc.high == pytest.approx(0.175 + 1.96 * 0.225, rel=1e-4)  # of means of 0.4 and -0.05
    assert [one.value for one in drop.changes] == pytest.approx([0.25 / 2, (0.75 + 0.2) / 2])
    assert [one.value for one in drop.probabilities] == pytest.approx([0.55, 0.4])
    assert drop.probabilities[1].high == pytest.approx(0.4 + 1.96 * 0.2, rel=1e-4)  # 0.2: the error of a mean of two
    one = compute_probability_drop(untouched[:1], degraded[:, :1])
    assert (one.aopc.low, one.aopc.high) == (None, None)

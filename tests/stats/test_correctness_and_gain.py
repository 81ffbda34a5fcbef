"""Completeness of curves, and the sign of gains."""

import numpy as np
import pytest

from roarbench.common.enums import Order
from roarbench.stats.correctness_and_gain import UNTOUCHED, Correctness, compute_gain


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


def test_compute_gain_weighs_unequal_levels_by_the_trapezoid_rule():
    """Leads of 0, 20 and 10 points at t = 0, .5 and .9: (.5 * (0 + 20) / 2 + .4 * (20 + 10) / 2) / .9 = 11 / .9."""
    curve, random = np.array([0.8, 0.4, 0.2]), np.array([0.8, 0.6, 0.3])
    assert compute_gain((0.0, 0.5, 0.9), curve, random, Order.MORF) == pytest.approx(11 / 0.9)

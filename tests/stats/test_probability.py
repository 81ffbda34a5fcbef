import numpy as np
import pytest

from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import UNTOUCHED, Scores
from roarbench.stats.draws import draw
from roarbench.stats.probability import order_gaps, probability_drop


def test_probabilities_by_hand() -> None:
    # Two images, two levels
    untouched = np.array([0.8, 0.5])
    degraded = np.array([[0.6, 0.5], [0.2, 0.6]])
    drop = probability_drop(untouched, degraded)
    assert drop.aopc.value == pytest.approx((0.2 + 0.0 + 0.6 - 0.1) / 4)
    assert drop.aopc.high == pytest.approx(0.175 + 1.96 * 0.225, rel=1e-4)  # of means of 0.4 and -0.05
    assert [one.value for one in drop.changes] == [pytest.approx(0.25 / 2), pytest.approx((0.75 + 0.2) / 2)]
    assert [one.value for one in drop.probabilities] == [pytest.approx(0.55), pytest.approx(0.4)]
    assert drop.probabilities[1].high == pytest.approx(0.4 + 1.96 * 0.2, rel=1e-4)  # 0.2: the error of a mean of two
    one = probability_drop(untouched[:1], degraded[:, :1])
    assert (one.aopc.low, one.aopc.high) == (None, None)


def test_the_gap_between_the_orders_by_hand() -> None:
    """LeRF keeps all of 1.0; MoRF falls to .5 and .25: (.5 * .25 + .5 * (.5 + .75) / 2) of accuracy."""
    full, half, quarter = (np.arange(4)[None] < count for count in (4, 2, 1))
    morf = {UNTOUCHED: full, ("a", 0.5): half, ("a", 1.0): quarter, ("b", 0.5): half}
    lerf = {UNTOUCHED: full, ("a", 0.5): full, ("a", 1.0): full}
    boards = [Scores(("a", "b"), (0.5, 1.0), cells) for cells in (morf, lerf)]
    draws = [draw(board, Bootstrap(10), None) for board in boards]
    gaps = order_gaps(boards[0], *draws)
    assert list(gaps) == ["a"]
    assert gaps["a"].value == pytest.approx(100 * (0.125 + 0.3125))
    assert gaps["a"].draws.shape == (10,)
    turned = order_gaps(boards[0], *reversed(draws))
    assert turned["a"].value == -gaps["a"].value

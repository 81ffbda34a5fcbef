import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from roarbench.stats.curves import UNTOUCHED, Scores, area_weights, gain
from roarbench.terms import Order


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6, unique=True), st.integers(0, 100))
def test_weights_are_scipys_trapezoids(levels: list[float], seed: int) -> None:
    steps = (0.0, *sorted(levels))
    heights = np.random.default_rng(seed).random(len(steps))
    oracle = trapezoid(heights, steps) / steps[-1]
    np.testing.assert_allclose(area_weights(steps) @ heights, oracle, rtol=1e-9)
    assert area_weights(steps).sum() == pytest.approx(1, rel=1e-12)


def test_gain_by_hand() -> None:
    """Random loses nothing; the estimator loses .2 at .5 and .4 at .9: (.5 * .1 + .4 * .3) / .9 of accuracy."""
    curve, random = np.array([0.8, 0.6, 0.4]), np.array([0.8, 0.8, 0.8])
    morf = gain((0.0, 0.5, 0.9), curve, random, Order.MORF)
    assert morf == pytest.approx(100 * 0.17 / 0.9, rel=1e-12)
    assert gain((0.0, 0.5, 0.9), curve, random, Order.LERF) == -morf


def test_scores_say_what_is_wrong_with_them_and_which_curves_are_complete() -> None:
    bits = np.ones((2, 5), dtype=bool)
    for levels in ((30.0,), (0.0, 0.5), (0.9, 0.5), (0.5, 0.5)):
        with pytest.raises(ValueError, match="levels must ascend"):
            Scores(("random",), levels, {})
    with pytest.raises(ValueError, match="same images"):
        Scores(("random",), (0.5,), {UNTOUCHED: bits, ("random", 0.5): np.ones((2, 6), dtype=bool)})
    with pytest.raises(ValueError, match="same images"):
        Scores(("random",), (0.5,), {UNTOUCHED: bits[0]})
    with pytest.raises(ValueError, match="2 rows of bits and 1 references"):
        Scores(("a",), (0.5,), {("a", 0.5): bits}, references={("a", 0.5): ("r0",)})
    bits = np.ones((1, 5), dtype=bool)
    cells = {UNTOUCHED: bits, ("random", 0.5): bits, ("random", 0.9): np.ones((2, 5), dtype=bool)}
    assert Scores(("random",), (0.5, 0.9), cells).complete("random")
    assert not Scores(("random",), (0.5, 0.7, 0.9), cells).complete("random")
    del cells[UNTOUCHED]
    assert not Scores(("random",), (0.5, 0.9), cells).complete("random")
    assert Scores((), (0.5,), {}).images == 0

"""The smoothness of removed features: by loops, by hand, and what chance must give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roarbench.kernels.smoothness import smoothness
from roarbench.terms import Unit

Shape = tuple[int, int, int]


def packed(maps: np.ndarray) -> np.ndarray:
    return np.packbits(maps.reshape(len(maps), -1), axis=1)


def exact_counts(n: int, shape: Shape, count: int, seed: int) -> np.ndarray:
    """Maps of which as many features are removed, at random, bool (n, *shape)."""
    keys = np.random.default_rng(seed).random((n, int(np.prod(shape))))
    return (keys.argsort(1).argsort(1) < count).reshape(n, *shape)


def neighbours(y: int, x: int, height: int, width: int) -> list[tuple[int, int]]:
    around = [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
    return [(row, column) for row, column in around if 0 <= row < height and 0 <= column < width]


def slow_mean(maps: np.ndarray) -> float:
    """Removed neighbours of each removed feature, one after the other."""
    n, channels, height, width = maps.shape
    counts = [
        sum(bool(maps[i, c, row, column]) for row, column in neighbours(y, x, height, width))
        for i in range(n)
        for c in range(channels)
        for y in range(height)
        for x in range(width)
        if maps[i, c, y, x]
    ]
    return sum(counts) / len(counts)


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)).filter(lambda shape: np.prod(shape) > 2),
    st.integers(2, 12),
    st.sampled_from(Unit),
    st.integers(0, 99),
)
def test_against_loops_and_random_by_all_choices(shape: Shape, count: int, unit: Unit, seed: int) -> None:
    side = {"patch:4": 4, "patch:8": 8}.get(unit, 1)
    held = shape if unit is Unit.SCALAR else (1, -(-shape[1] // side), -(-shape[2] // side))
    d = int(np.prod(held))
    count = min(count, d)
    maps = exact_counts(3, held, count, seed)
    found = smoothness(packed(maps), shape, unit)
    connected = held[1] > 1 or held[2] > 1
    if count < 2 or not connected:
        assert found is None
        return
    # of a removed feature's neighbours each is removed with the same chance: that of the last one drawn
    places = [len(neighbours(y, x, *held[1:])) for _ in range(held[0]) for y in range(held[1]) for x in range(held[2])]
    expected = sum(places) / d * (count - 1) / (d - 1)
    assert found == pytest.approx(slow_mean(maps) / expected, rel=1e-12)  # the same sums, divided in another order


def test_by_hand() -> None:
    """Of 3 x 3 features 4 are removed: a square has 4 pairs, the corners none; chance has 12 pairs * 4/9 * 3/8 = 2."""
    square = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0]], bool)
    corners = np.array([[1, 0, 1], [0, 0, 0], [1, 0, 1]], bool)
    assert smoothness(packed(square[None, None]), (1, 3, 3), Unit.SCALAR) == 2
    assert smoothness(packed(corners[None, None]), (1, 3, 3), Unit.SCALAR) == 0
    assert smoothness(packed(np.stack([square, corners])[:, None]), (1, 3, 3), Unit.SCALAR) == 1

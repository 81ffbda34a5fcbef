from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roarbench.stats.pairs import Pairs
from roarbench.stats.places import place_intervals, places, significant_pairs, tie_groups


def normal_draws(gains: np.ndarray, deviation: float, resamples: int = 2000, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(len(gains), resamples))
    draws: np.ndarray = gains[:, None] + deviation * noise
    return draws


def test_places_by_hand_equal_gains_share_the_better_place() -> None:
    assert [place.place for place in places(np.array([3.0, 5.0, 3.0, -1.0]))] == [2, 1, 2, 4]
    assert places(np.array([1.0]))[0].low is None


def test_intervals_by_hand() -> None:
    """Noise of 1 makes a difference of 1 nothing and one of 20 certain."""
    gains = np.array([20.0, 0.0, 21.0, -20.0, 0.5])
    found = place_intervals(Pairs(gains, normal_draws(gains, 1.0), 0.95))
    assert [(one.place, one.low, one.high, one.groups) for one in found] == [
        (2, 1, 2, (1,)),
        (4, 3, 4, (2,)),
        (1, 1, 2, (1,)),
        (5, 5, 5, (3,)),
        (3, 3, 4, (2,)),
    ]


def apart_by_loops(gains: np.ndarray, draws: np.ndarray, confidence: float) -> np.ndarray:
    """Romano and Wolf's step-down over all pairs, draw by draw."""
    pairs = {}
    for one, other in combinations(range(len(gains)), 2):
        difference = gains[one] - gains[other]
        deviations = [abs(a - b - difference) for a, b in zip(draws[one], draws[other], strict=True)]
        pairs[one, other] = (abs(difference), deviations, float(np.quantile(deviations, confidence)))
    apart = np.zeros((len(gains), len(gains)), dtype=bool)
    while True:
        left = {pair: rest for pair, rest in pairs.items() if not apart[pair]}
        if not left:
            return apart
        largest = [max(devs[b] / scale for _, devs, scale in left.values()) for b in range(draws.shape[1])]
        critical = float(np.quantile(largest, confidence))
        new = [pair for pair, (size, _, scale) in left.items() if size / scale > critical]
        if not new:
            return apart
        for one, other in new:
            apart[one, other] = apart[other, one] = True


@pytest.mark.parametrize("seed", range(6))
def test_told_apart_is_the_step_down_by_loops(seed: int) -> None:
    generator = np.random.default_rng(seed)
    gains = generator.normal(size=6) * 4
    draws = normal_draws(gains, 1.0, 200, seed) + generator.normal(size=200)
    expected = apart_by_loops(gains, draws, 0.9)
    assert expected.any() and not expected.all()
    np.testing.assert_array_equal(significant_pairs(Pairs(gains, draws, 0.9)), expected)


@pytest.mark.parametrize("common", [normal_draws(np.array([1.0]), 1.0), np.arange(200.0)[None]])  # rounded, and exact
def test_twins_are_never_told_apart_and_what_no_draw_moves_always_is(common: np.ndarray) -> None:
    gains = np.array([1.0, 1.0, 2.0])
    draws = np.repeat(common, 3, axis=0) + np.array([[0.0], [0.0], [1.0]])
    apart = significant_pairs(Pairs(gains, draws, 0.95))
    assert not apart[0, 1] and apart[0, 2] and apart[1, 2]


@given(st.integers(1, 7), st.integers(0, 10_000))
def test_groups_are_all_maximal_sets_not_told_apart(size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    apart = np.triu(generator.random((size, size)) < generator.random(), 1)
    apart = apart | apart.T
    sets = [frozenset(s) for count in range(1, size + 1) for s in combinations(range(size), count)]
    tied = [s for s in sets if not any(apart[one, other] for one, other in combinations(s, 2))]
    largest = {s for s in tied if not any(s < other for other in tied)}
    groups = tie_groups(generator.normal(size=size), apart)
    assert len(groups) == len(set(groups))
    assert set(groups) == largest

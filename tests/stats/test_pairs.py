from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roarbench.stats.bootstrap import Sample, half_width, quantile
from roarbench.stats.pairs import Pairs


def samples(size: int, seed: int, resamples: int = 40) -> list[Sample]:
    """Gains of which some are equal, and some have the same draws."""
    generator = np.random.default_rng(seed)
    values = generator.integers(-3, 4, size) / 4
    draws = generator.normal(size=(max(1, size - 1), resamples))
    return [Sample(float(value), value + draws[generator.integers(len(draws))]) for value in values]


@given(st.integers(0, 8), st.integers(0, 10_000))
def test_every_pair_is_the_difference_of_its_samples(size: int, seed: int) -> None:
    """To the last bit: a board must not change with the way that its pairs are counted."""
    made = samples(size, seed)
    pairs = Pairs.of(made, 0.9)
    assert pairs.upper.sum() == size * (size - 1) // 2
    for one, other in combinations(range(size), 2):
        difference = made[one].minus(made[other])
        assert pairs.upper[one, other] and not pairs.upper[other, one]
        assert pairs.differences[one, other] == difference.value == -pairs.differences[other, one]
        assert pairs.halves[one, other] == half_width(difference, 0.9)


@given(st.integers(1, 2001), st.floats(0, 1), st.integers(0, 10_000))
def test_a_quantile_is_that_of_numpy_to_the_bit(count: int, share: float, seed: int) -> None:
    numbers = np.random.default_rng(seed).normal(size=(2, count)) ** 3
    np.testing.assert_array_equal(quantile(numbers, share), np.quantile(numbers, share, axis=-1))

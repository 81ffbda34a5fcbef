from itertools import combinations

import numpy as np
import pytest

from roarbench.stats.agreement import agreement
from roarbench.stats.bootstrap import Sample


def gains(values: dict[str, float], deviation: float = 0.1, seed: int = 0) -> dict[str, Sample]:
    generator = np.random.default_rng(seed)
    return {name: Sample(value, value + deviation * generator.normal(size=500)) for name, value in values.items()}


def test_the_same_and_the_opposite_order_by_hand() -> None:
    one = gains({"a": 1, "b": 2, "c": 3})
    assert agreement(one, gains({"a": 10, "b": 30, "c": 31}, seed=1), 0.95) == ((1.0, 1.0, 1.0), 3, 3, 0)
    assert agreement(one, gains({"a": 3, "b": 2, "c": 1}, seed=1), 0.95) == ((-1.0, -1.0, -1.0), 3, 3, 3)
    assert agreement(dict.fromkeys("abc", Sample(1.0, np.ones(10))), one, 0.95) is None, "no tau of equal gains"


def test_an_open_pair_may_fall_either_way() -> None:
    """b and c are one tenth of their noise apart under the second protocol: one pair of three is open."""
    found = agreement(gains({"a": 1, "b": 2, "c": 3}), gains({"a": 0, "b": 5.0, "c": 5.01}, seed=1), 0.95)
    assert found.tau == (1.0, pytest.approx(1 / 3), 1.0)
    assert (found.rows, found.settled, found.opposed) == (3, 2, 0)


def test_tau_is_counted_over_pairs() -> None:
    names = [f"e{index}" for index in range(9)]
    one, other = np.random.default_rng(5).normal(size=(2, 9))
    found = agreement(
        gains(dict(zip(names, one, strict=True))), gains(dict(zip(names, other, strict=True)), seed=1), 0.95
    )
    pairs = [np.sign(one[i] - one[j]) * np.sign(other[i] - other[j]) for i, j in combinations(range(9), 2)]
    assert found.tau.value == pytest.approx(np.mean(pairs), rel=1e-12)
    assert found.tau.low <= np.mean(pairs) <= found.tau.high
    assert found.tau.high - found.tau.low == pytest.approx(2 * (36 - found.settled) / 36, rel=1e-9)


def test_twins_and_rows_that_one_protocol_lacks() -> None:
    one, other = gains({"a": 1, "b": 2, "c": 3}), gains({"a": 1, "b": 2, "c": 3}, seed=1)
    for board in (one, other):
        board["twin"] = board["a"]
    assert agreement(one, other, 0.95) == ((1.0, 1.0, 1.0), 4, 5, 0)
    one, other = gains({"a": 1, "b": 2, "c": 3, "d": 4}), gains({"e": 0, "b": 2, "c": 3, "a": 1}, seed=1)
    found = agreement(one, other, 0.95)
    assert found.rows == 3
    del other["a"]
    assert agreement(one, other, 0.95) is None

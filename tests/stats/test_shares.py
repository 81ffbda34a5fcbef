import numpy as np
import pytest

from roarbench.stats.bootstrap import Estimate, Sample, half_width
from roarbench.stats.shares import share


def samples(part: float, whole: float, correlation: float = 0.0, seed: int = 0) -> tuple[Sample, Sample]:
    """Two numbers of standard error 1 whose draws have this correlation."""
    one, other = np.random.default_rng(seed).normal(size=(2, 4000))
    mixed = correlation * other + np.sqrt(1 - correlation**2) * one
    return Sample(part, part + mixed), Sample(whole, whole + other)


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.9])
@pytest.mark.parametrize("part", [-3.0, 0.0, 4.0, 9.0])
def test_ends_are_where_the_difference_is_no_longer_excluded(part: float, correlation: float) -> None:
    one, whole = samples(part, 8.0, correlation)
    value, low, high = share(one, whole, 0.95)
    assert value == pytest.approx(part / 8) and low < part / 8 < high
    for end, side in ((low, 1), (high, -1)):
        left = Sample(part - end * 8, one.draws - end * whole.draws)
        assert side * left.value == pytest.approx(half_width(left, 0.95), rel=0.08)  # quantiles of 4,000 draws


def test_by_hand() -> None:
    """Half widths of 3 (part) and 4 (whole) about 10 and 5, uncorrelated: 9 c^2 - 100 c + 91 = 0."""
    signs = np.array([1.0, 1.0, -1.0, -1.0])
    found = share(Sample(10.0, 10 + 3 * signs), Sample(5.0, 5 + 4 * np.array([1.0, -1.0, 1.0, -1.0])), 0.95)
    assert found == pytest.approx((2.0, 1.0, 91 / 9))


def test_equal_numbers_are_the_whole_without_width() -> None:
    one, _ = samples(5.0, 5.0)
    assert share(one, one, 0.95) == pytest.approx((1.0, 1.0, 1.0))
    still = Sample(4.0, np.full(10, 4.0))
    assert share(still, still, 0.95) == pytest.approx((1.0, 1.0, 1.0))


@pytest.mark.parametrize("whole", [1.0, 0.0, -8.0])
def test_of_nothing_there_is_no_share(whole: float) -> None:
    assert share(*samples(4.0, whole), 0.95) == Estimate()

"""The test whether a network is better than chance."""

from itertools import accumulate
from math import comb

from roarbench.stats.chance import is_at_chance, is_at_or_near_chance


def test_is_at_chance_matches_exact_binomial_test():
    """The test has level 1 %; near chance means up to a tenth of the way to 1: .19 of 10 classes."""
    for total, classes in ((1, 2), (8, 4), (10, 10), (64, 10), (200, 4), (10, 1000)):
        ways = [comb(total, k) * (classes - 1) ** (total - k) for k in range(total + 1)]  # of classes ** total
        at_least = [*accumulate(reversed(ways))][::-1]
        found = [is_at_chance(correct, total, 1 / classes) for correct in range(total + 1)]
        assert found == [100 * count >= classes**total for count in at_least], (total, classes)
    assert not is_at_chance(380, 2000, 0.1)
    assert is_at_or_near_chance(379, 2000, 0.1) and not is_at_or_near_chance(381, 2000, 0.1)
    assert is_at_or_near_chance(2, 2, 0.25)
    assert is_at_chance(40, 40, 1.0), "the labels have a single class"


def test_network_that_is_always_right_is_not_at_chance_on_unbalanced_images():
    assert not is_at_chance(100, 100, 0.96) and is_at_chance(99, 100, 0.96) and is_at_chance(5, 5, 1.0)

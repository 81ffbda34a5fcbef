"""Whether a network does better than a guess, derived from binomial coefficients in exact fractions."""

from fractions import Fraction
from math import comb

import pytest

from roarbench.analysis.untouched import guesses, near_chance


def tail(correct, total, classes):
    """Chance of at least so many correct guesses."""
    right = Fraction(1, classes)
    return sum(comb(total, k) * right**k * (1 - right) ** (total - k) for k in range(correct, total + 1))


@pytest.mark.parametrize("total, classes", [(1, 2), (8, 4), (10, 10), (64, 10), (200, 4), (10, 1000)])
def test_it_is_the_exact_test_at_one_percent(total, classes):
    found = [guesses(correct, total, classes) for correct in range(total + 1)]
    assert found == [tail(correct, total, classes) >= Fraction(1, 100) for correct in range(total + 1)]
    assert found[0] and found == sorted(found, reverse=True)


def test_a_reference_is_near_chance_up_to_a_tenth_of_the_way_to_one():
    """Of 10 classes: a guess .1, a tenth of the way .19."""
    assert not guesses(380, 2000, 10)
    assert near_chance(379, 2000, 10)
    assert not near_chance(381, 2000, 10)
    assert near_chance(2, 2, 4)  # not significant, however high

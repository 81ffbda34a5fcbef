"""Test whether a network is better than chance, the accuracy of always answering the most frequent class."""

import math

import numpy as np
from numpy.typing import NDArray

from roarbench.common.text import format_percent_number

LEVEL = 0.01  # significance level of the test: 1 % of networks at chance are wrongly taken for better than chance
MARGIN = 0.1  # share of the way from chance to 100 % accuracy; an explained network below this share is near chance


def compute_largest_class_share(labels: NDArray[np.int64]) -> float:
    """Return the share of the most frequent class: the accuracy of a network that answers this class for all images."""
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels))


def is_at_chance(correct: int, total: int, chance: float) -> bool:
    """Test whether correct predictions are consistent with chance: exact one-sided binomial test at `LEVEL`.

    If most images are of one class, a network that is always right is not at chance, even if too few images are of
    other classes for the test.
    """
    if correct == total and 0.5 < chance < 1:
        return False
    above = correct / total - chance
    # upper bound of the binomial tail (Hoeffding 1963, theorem 1)
    if above > 0 and math.exp(-2 * total * above**2) < LEVEL:
        return False
    from scipy.special import bdtrc  # importing scipy.special takes as long as a board, and few tables need it

    return bool(bdtrc(correct - 1, total, chance) >= LEVEL)


def is_near_chance(correct: int, total: int, chance: float) -> bool:
    """Return whether an accuracy is less than a tenth of the way from chance to 1."""
    return correct / total - chance < MARGIN * (1 - chance)


def is_at_or_near_chance(correct: int, total: int, chance: float) -> bool:
    """Return whether an accuracy is not significantly above chance, or less than a tenth of the way to 1."""
    return is_at_chance(correct, total, chance) or is_near_chance(correct, total, chance)


def describe_chance(chance: float, classes: int) -> str:
    """Return chance in percent; if one class is more frequent than others, with a note on the class."""
    note = " (always the largest class)" if chance > 1 / classes else ""
    return f"{format_percent_number(chance)}%{note}"

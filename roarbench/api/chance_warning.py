"""Warn of a caller's network that does not recognise the images, usually because of wrong preprocessing or labels."""

import warnings

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.networks_at_chance import compute_largest_class_share, describe_chance, is_at_chance

FEWEST_FOR_WARNING = 20  # images; with fewer, no warning says that a network is at chance or predicts a single class


def warn_if_at_chance(correct: NDArray[np.bool_], labels: NDArray[np.int64], classes: int, noun: str) -> str:
    """Warn, in the name of the caller's caller, of a network that is not significantly better than chance.

    Chance is the accuracy of always answering the most frequent label. If the images lack a class, they are the
    caller's selection, and chance is 1 / classes.

    Returns:
        The warning without its remedy; empty if the network is above chance or there are few images.
    """
    has_all_classes, right, total = len(np.unique(labels)) == classes, int(correct.sum()), len(correct)
    chance = compute_largest_class_share(labels) if has_all_classes else 1 / classes
    if total < FEWEST_FOR_WARNING or not is_at_chance(right, total, chance):
        return ""
    seen = f"network classifies {right} of {total} {noun}s correctly, which is not significantly above chance"
    seen = f"{seen} of {describe_chance(chance, classes)}"
    warnings.warn(f"the {seen}; check normalisation, labels and weights", stacklevel=3)
    return seen

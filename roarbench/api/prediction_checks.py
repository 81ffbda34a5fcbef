"""Refuse, or warn of, networks whose predictions on a caller's images make maps and scores meaningless."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.analysis.result_checks import compute_largest_class_share, describe_chance, is_at_chance
from roarbench.api.inputs import warn_caller
from roarbench.common.errors import CallerError
from roarbench.common.text import get_item_noun, list_some

_FEWEST_IMAGES = 20  # with fewer, no warning says that a network is at chance or predicts a single class


def warn_if_at_chance(correct: NDArray[np.bool_], labels: NDArray[np.int64], classes: int, tabular: bool) -> str:
    """Warn of a network that is not significantly better than chance, usually because of preprocessing or labels.

    Chance is the accuracy of always answering the most frequent label. If the images lack a class, they are the
    caller's selection, and chance is 1 / classes.

    Returns:
        The warning without its remedy; empty if the network is above chance or there are few images.
    """
    has_all_classes, right, total = len(np.unique(labels)) == classes, int(correct.sum()), len(correct)
    chance = compute_largest_class_share(labels) if has_all_classes else 1 / classes
    if total < _FEWEST_IMAGES or not is_at_chance(right, total, chance):
        return ""
    seen = f"network classifies {right} of {total} {get_item_noun(tabular)}s correctly"
    seen = f"{seen}, which is not significantly above chance of {describe_chance(chance, classes)}"
    warn_caller(f"the {seen}; check normalisation, labels and weights")
    return seen


def warn_of_single_class(logits: Sequence[Tensor], tabular: bool) -> None:
    """Warn of networks that assign one class to all images, as those that learnt only the largest class."""
    predicted = [own.argmax(1) for own in logits]
    numbers = [f"{number}" for number, classes in enumerate(predicted, 1) if bool((classes == classes[0]).all())]
    if numbers and len(predicted[0]) >= _FEWEST_IMAGES:
        items = f"{get_item_noun(tabular)}s"
        seen = f"a single class is predicted for all {len(predicted[0])} {items} by network {list_some(numbers)}"
        warn_caller(f"{seen}; if the {items} are of several classes, the maps are meaningless")


def refuse_nan_or_duplicate_logits(logits: Sequence[Tensor]) -> None:
    """Raise CallerError if logits, (n, classes) per network, are NaN, or if two networks have the same logits."""
    for number, own in enumerate(logits, 1):
        if (undefined := own.isnan().any(1)).any():
            seen = f"network {number} returns logits that are NaN for image {int(undefined.int().argmax())}"
            raise CallerError(f"{seen}; leave the image out, or make the network's logits finite")
    for (number, own), (other_number, other) in combinations(enumerate(logits, 1), 2):
        if torch.equal(own, other):
            seen = f"networks {number} and {other_number} return the same logits for all images"
            raise CallerError(f"{seen}; expected siblings with other weights")


def find_agreed_images(logits: Sequence[Tensor]) -> NDArray[np.bool_]:
    """Mark the images to which all networks assign the same class; CallerError if there are none."""
    if len(shapes := {tuple(own.shape[1:]) for own in logits}) > 1:
        raise CallerError(f"the networks' logits per image have shapes {sorted(shapes)}; expected the same classes")
    predicted = torch.stack([own.argmax(1) for own in logits])
    agreed: NDArray[np.bool_] = (predicted == predicted[0]).all(0).numpy()
    if not agreed.any():
        seen = f"the networks predict one class together for none of the {len(logits[0])} images"
        raise CallerError(f"{seen}; expected trained networks with the same classes in the same order")
    return agreed

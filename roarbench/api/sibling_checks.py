"""Warn of siblings that cannot show whether maps explain a network: at chance, reordered, or nearly the same.

With labels, a warning names reordered classes of the first network, too, and reversed channels of the images.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn, strided

from roarbench.api.inputs import warn_caller
from roarbench.api.score_maps import compute_logits
from roarbench.common.text import format_percent_number
from roarbench.datasets.repeats import hash_bytes
from roarbench.stats.chance import is_at_chance

Classes = NDArray[np.int64]
_FEWEST_IMAGES = 20  # with fewer, classes and chance are not judged
_MOST_CHANCE = 0.7  # agreement by chance above which too few images are of other classes for the test
_LEVEL = 1e-3  # of the test that another order of classes fits better
_MOST_SHARED = 0.1  # share of equal weights above which two networks are no independent siblings
_MOST_ALIKE = 0.02  # of the largest standard deviation of a class's logits; a copy in half precision differs by less
_MOST_REVERSED = 400  # images whose channels are reversed
_POOR = 0.5  # a sibling with less than this share of the best accuracy, above chance, may need other images
_SAME_INPUT = "all networks get the same images, so wrap it: nn.Sequential(ITS_PREPROCESSING, network)"


def warn_of_unfit_siblings(
    models: Sequence[nn.Module], logits: Sequence[Tensor], labels: Classes | None = None
) -> None:
    """Warn of siblings that share weights, or whose predictions, by logits (n, classes), are poor.

    Without labels, (n,), the classes on which the other networks agree take their place.
    """
    predicted = [one.argmax(1).numpy() for one in logits]
    lines = []
    fingerprints = [_fingerprint_weights(model) for model in models]
    for (number, own), (other_number, other) in combinations(enumerate(fingerprints, 1), 2):
        both = f"networks {number} and {other_number}"
        share = sum(own[key] for key in own.keys() & other.keys()) / max(sum(own.values()), 1)
        if share == 1:
            lines.append(f"{both} have the same weights; expected siblings with other weights")
        elif share > _MOST_SHARED:
            seen = f"{both} have {format_percent_number(share)} % of their weights in common, such as a frozen backbone"
            lines.append(f"{seen}; own-network gain then asks only about their other layers")
    for (number, one), (other_number, another) in combinations(enumerate(logits, 1), 2):
        least = _MOST_ALIKE * one.std(0, correction=0).max()
        if one.shape == another.shape and bool((one - another).abs().max() < least):
            lines.append(f"networks {number} and {other_number} return nearly the same logits; expected other weights")
    if len({one.shape for one in logits}) == 1:
        lines += describe_poor_predictions(predicted, logits[0].shape[1], labels)
    for line in lines:
        warn_caller(line)


def _fingerprint_weights(model: nn.Module) -> dict[tuple[object, ...], int]:
    """Return a dict from fingerprints of tensors that are not constant to their sizes; names play no role."""
    found: dict[tuple[object, ...], int] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        if type(tensor) not in (nn.Parameter, Tensor) or tensor.layout is not strided:  # quantised weights, for example
            continue
        if tensor.is_floating_point() and tensor.numel() > 1 and bool((tensor != tensor.flatten()[0]).any()):
            content = tensor.detach().cpu().double().contiguous().numpy()
            found[tensor.shape, hash_bytes(content)] = tensor.numel()
    return found


def describe_poor_predictions(predicted: Sequence[Classes], classes: int, labels: Classes | None) -> Iterator[str]:
    """Yield lines about networks whose predictions (n,) do not fit the labels, or those of the other networks."""
    best = 0.0 if labels is None else max(float((own == labels).mean()) for own in predicted)
    for number, own in enumerate(predicted, 1):
        others = [other for position, other in enumerate(predicted, 1) if position != number]
        chosen = np.ones(len(own), np.bool_) if labels is not None else (others[0] == np.stack(others)).all(0)
        expected, own = (others[0] if labels is None else labels)[chosen], own[chosen]
        if len(own) < _FEWEST_IMAGES or len(np.unique(own)) == 1 or len(np.unique(expected)) == 1:
            continue
        right, total = int((own == expected).sum()), len(own)
        noun = "the right class" if labels is not None else "the class on which the other networks agree"
        seen = f"network {number} predicts {noun} for {right} of {total} images"
        shares = [np.bincount(found, minlength=classes) / total for found in (own, expected)]
        chance = float(shares[0] @ shares[1])
        if reordered := _count_correct_if_reordered(own, expected, classes, chance):
            order = "the first network's order" if labels is None else "the order of the labels"
            yield f"{seen}, and for {reordered} if its classes are reordered; expected {order}"
        elif labels is not None and number == 1:  # `warn_if_at_chance` has its warnings
            continue
        elif chance < _MOST_CHANCE and is_at_chance(right, total, chance):
            yield f"{seen}, which is not significantly above chance; check its classes and weights, and {_SAME_INPUT}"
        elif labels is not None and right / total - chance < _POOR * (best - chance):
            yield f"{seen}, and the best network for {round(best * total)}; {_SAME_INPUT}"


def describe_reversed_channels(
    network: nn.Module, images: Tensor, labels: Classes, right: NDArray[np.bool_]
) -> Iterator[str]:
    """Yield a line if classes are right significantly more often with reversed channels (BGR for RGB) than `right`."""
    if images.shape[1] != 3 or len(images) < _FEWEST_IMAGES:
        return
    some = slice(None, None, -(-len(images) // _MOST_REVERSED))
    predicted = compute_logits(network, images[some].flip(1)).argmax(1).numpy()
    reversed_right, right = predicted == labels[some], right[some]
    gained, lost = int((reversed_right & ~right).sum()), int((right & ~reversed_right).sum())
    chance = float((predicted[:, None] == labels[some]).mean())
    # any change makes some images right if all are misclassified ones
    if gained > lost and not is_at_chance(int(reversed_right.sum()), len(right), chance):
        from scipy.stats import binomtest

        if binomtest(gained, gained + lost, alternative="greater").pvalue < _LEVEL:
            seen = f"the network predicts the right class for {right.sum()} of {len(right)} images"
            remedy = "pass them in the order of its training images, such as RGB"
            yield f"{seen}, and for {reversed_right.sum()} with their channels reversed; {remedy}"


def _count_correct_if_reordered(predicted: Classes, expected: Classes, classes: int, chance: float) -> int:
    """Count correct predictions if a network's classes are permuted; 0 unless that is better and above chance.

    The permutation for each half of the images is found on the other half, so no permutation fits by chance.
    """
    from scipy.optimize import linear_sum_assignment  # takes as long to import as the rest of a small call
    from scipy.stats import binomtest

    half = np.zeros(len(expected), np.bool_)
    half[np.argsort(expected, kind="stable")[::2]] = True  # every other image of each class
    right = np.zeros(len(expected), np.bool_)
    for tested in (half, ~half):
        counts = np.zeros((classes, classes))
        np.add.at(counts, (predicted[~tested], expected[~tested]), 1)
        counts += 1e-3 * np.eye(classes)  # classes keep their number unless images say otherwise
        _, order = linear_sum_assignment(counts, maximize=True)
        right[tested] = order[predicted[tested]] == expected[tested]
    gained, lost = int((right & (predicted != expected)).sum()), int((~right & (predicted == expected)).sum())
    tests = (gained, max(gained + lost, 1), 0.5), (int(right.sum()), len(right), chance)
    better = all(binomtest(*test, alternative="greater").pvalue < _LEVEL for test in tests)
    return int(right.sum()) if better else 0

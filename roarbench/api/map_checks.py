"""Find functions whose maps are of a class that they choose themselves, or have their height and width exchanged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from roarbench.api.user_networks import find_own_network
from roarbench.compute.external_networks import extract_logits, make_logits_hook
from roarbench.submissions.submission_validation import are_equal_up_to_rounding

CHOSEN_CLASS = (
    "is of a class that the function chooses by its number, such as 0 or a label that it kept, so the row is not about "
    "the predicted class; explain the given targets"
)
TRANSPOSED = (
    "follows a change of the image's upper right corner in its lower left corner, and conversely; its height and width "
    "seem to be exchanged"
)
_FAR_MORE = 10  # no correct map of 2,940 had both ratios above it: 11 estimators, 14 networks


def is_class_chosen_by_number(
    make_maps: Callable[..., Tensor], maps: Tensor, network: nn.Module, images: Tensor, targets: Tensor
) -> bool:
    """Return whether a function explains a class of a fixed number, such as 0 or a label that it kept, not the target.

    Such maps are the same for other targets, and others once the network's outputs are in another order. Functions that
    find the predicted class themselves, or explain no class, are not meant. `maps` explain the images for the targets;
    `make_maps(targets)` makes such maps, also within a context `watch`.
    """
    with torch.no_grad():
        classes = network(images.clone()).shape[1]
    others = (targets + 1) % classes
    if not are_equal_up_to_rounding(maps, make_maps(others)):
        return False
    reordered = make_maps(others, watch=_change_logits(network, _move_to_next_class))
    if are_equal_up_to_rounding(maps, reordered):
        return False
    # a function that takes the predicted class's row of the last layer's weights, as CAM does, or weights all rows by
    # their probabilities, takes the next row twice
    changes = (_raise_and_move, _raise_next_class)
    return not are_equal_up_to_rounding(*(make_maps(others, watch=_change_logits(network, each)) for each in changes))


def _move_to_next_class(logits: Tensor) -> Tensor:
    return logits.roll(1, 1)


def _raise_and_move(logits: Tensor) -> Tensor:
    """Give the predicted class a probability of about 1, then move all logits by a class."""
    return _move_to_next_class(_raise(logits, logits.argmax(1)))


def _raise_next_class(logits: Tensor) -> Tensor:
    """Give the class after the predicted one a probability of about 1, and leave the others' logits as they are."""
    return _raise(logits, (logits.argmax(1) + 1) % logits.shape[1])


def _raise(logits: Tensor, classes: Tensor) -> Tensor:
    raised = nn.functional.one_hot(classes, logits.shape[1])
    return logits + raised * (20 + logits.detach().max() - logits.detach().min())


def are_transposed(make_maps: Callable[[Tensor], Tensor], maps: Tensor, images: Tensor) -> bool:
    """Return whether the height and width of maps seem to be exchanged; `make_maps(images)` makes such maps.

    If so, another upper right corner of an image changes the lower left corner of its map far more than the upper right
    one, and conversely. Networks that mix all positions, as vision transformers, change both corners alike. The
    gradient of a product of both corners would be blamed without need; no trained network was seen to compute one.
    """
    side = images.shape[2]
    corner = side // 3
    if images.shape[3] != side or not corner:
        return False
    upper, lower = (..., slice(corner), slice(-corner, None)), (..., slice(-corner, None), slice(corner))
    for here, across in ((upper, lower), (lower, upper)):
        changed = images.clone()
        changed[here] = images.roll(1, 0)[here]
        change = (make_maps(changed) - maps).double().abs()
        if not (change[across].flatten(1).sum(1) > _FAR_MORE * change[here].flatten(1).sum(1)).all():
            return False
    return True


@contextmanager
def _change_logits(network: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Meanwhile, the logits of the network, called with images alone, are changed ones."""
    adapt = make_logits_hook(lambda output: change(extract_logits(output)))
    hook = find_own_network(network).register_forward_hook(adapt, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()

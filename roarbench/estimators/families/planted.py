"""Controls that use the ground truth: planted data's true importance, or the corner from which a network reads.

On `planted-corners`, the explained network reads the class only from its own corner; each sibling network of the suite
reads the class from a different corner.
"""

from functools import partial

from roarbench.common.errors import DataError
from roarbench.datasets import planted
from roarbench.estimators.estimator import SEED, Estimator
from roarbench.estimators.lazy_torch import Tensor, torch
from roarbench.estimators.map_input import MapInput


def read_true_importance(inputs: MapInput) -> Tensor:
    """Return the true importance of planted data; raise DataError if the data set has no true importance."""
    if inputs.batch.truth is None:
        raise DataError("this data set has no true importance; 'truth' and 'truth-inverted' need planted data")
    return inputs.batch.truth


_truth = partial(Estimator, control=True, papers=(), neighbours=False, addable=False, uses_ground_truth=True)


def mark_own_patch(inputs: MapInput, next_share: float = 0.0) -> Tensor:
    """Mark the patch of the explained network, but of the next sibling on a random share `next_share` of the images."""
    # this module imports NumPy, which the commands that list estimators do not need
    from roarbench.estimators.randomness import RngStream, make_rng

    corner = planted.find_corner_of_network(inputs.batch.seed)
    drawn = [make_rng(SEED, RngStream.CORNER, image).random() for image in inputs.batch.ids.tolist()]
    return _make_patch_maps(inputs.images, [corner + (number < next_share) for number in drawn])


def mark_all_patches(inputs: MapInput) -> Tensor:
    """Mark the patches in all corners; the map is the same for every network."""
    patches = [_make_patch_maps(inputs.images, [corner] * len(inputs.images)) for corner in range(planted.CORNERS)]
    return torch.stack(patches).amax(0)


def _make_patch_maps(images: Tensor, chosen: list[int]) -> Tensor:
    """Make maps that are 1 in the patch of each image's chosen corner, and 0 elsewhere."""
    maps = torch.zeros_like(images)
    for one, corner in zip(maps, chosen, strict=True):
        rows, columns = planted.locate_patch(corner % planted.CORNERS, images.shape[3])
        one[:, rows, columns] = 1
    return maps


_corner = partial(
    Estimator, control=True, papers=(), neighbours=True, addable=False, uses_ground_truth=True, uses_prediction=True
)


ESTIMATORS = (
    _truth("truth", title="The truth", about="the true ranking of planted data", maps=read_true_importance),
    _truth("truth-inverted", base="truth", form="inverted", title="The truth, inverted",
        about="the true ranking of planted data, least important first",
        maps=lambda inputs: -read_true_importance(inputs)),
    _corner("corner-own", title="Own corner", about="the patch that the explained network reads", maps=mark_own_patch),
    _corner("corner-mixed-25", title="Next corner on 25 %", maps=partial(mark_own_patch, next_share=0.25),
        about="the next network's patch on a quarter of the images, the own patch on the others"),
    _corner("corner-mixed-50", title="Next corner on 50 %", maps=partial(mark_own_patch, next_share=0.5),
        about="the next network's patch on half of the images, the own patch on the others"),
    _corner("corner-mixed-75", title="Next corner on 75 %", maps=partial(mark_own_patch, next_share=0.75),
        about="the next network's patch on three quarters of the images, the own patch on the others"),
    _corner("corner-next", title="Next corner", maps=partial(mark_own_patch, next_share=1.0),
        about="the patch that the next network reads"),
    _corner("corner-all", title="All corners", about="the patches in all corners", maps=mark_all_patches),
)  # fmt: skip

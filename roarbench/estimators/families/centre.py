"""Nearness to the middle, a control that asks neither image nor network."""

from roarbench.estimators.estimator import Estimator
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import Tensor, torch


def centre(inputs: MapInput) -> Tensor:
    """Return a Gaussian around the middle of the image, in (0, 1], the same for all images and channels.

    Its width, a quarter of the side, has no say: only the distance from the middle ranks.
    """
    h, w = inputs.images.shape[2:]
    down, across = (torch.arange(side).to(inputs.images) - (side - 1) / 2 for side in (h, w))
    distance = (4 * down[:, None] / h) ** 2 + (4 * across / w) ** 2  # in standard deviations, squared
    return torch.exp(-distance / 2)


ESTIMATORS = (
    Estimator("centre", title="Nearness to centre",
        about="nearness to the middle of the image, the same for all images",
        control=True, maps=centre, papers=(), neighbours=True),
)  # fmt: skip

"""Images without their features, which a path begins at and which stand for what is taken away from an image."""

import torch
from torch import Tensor

from roarbench.estimators.controls import blurred


def baseline_images(name: str, images: Tensor, black: Tensor) -> Tensor:
    """Return for each image what it is without its features, a new tensor like `images`.

    Args:
        name: `black`; `mean`, the mean colour of the images that normalise, which is 0; or `blur`, the image after the
            Gaussian of the blurred twins.
        images: Float (n, c, h, w), normalised.
        black: Float (c, 1, 1), the black pixel, normalised.
    """
    if name == "black":
        return torch.empty_like(images).copy_(black)
    return torch.zeros_like(images) if name == "mean" else blurred(images)

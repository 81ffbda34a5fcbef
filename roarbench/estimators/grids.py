"""Squares that an image is cut into, so that a few features stand for thousands."""

import torch
from torch import Tensor


def squares(images: Tensor, patches: int) -> Tensor:
    """Return for each pixel the number of its square, int64 (h, w): row by row, `patches` of them along a side.

    Where a side is shorter than that, each pixel is a square of its own.
    """
    h, w = images.shape[-2:]
    down, across = (torch.arange(side, device=images.device) * min(patches, side) // side for side in (h, w))
    return down[:, None] * min(patches, w) + across


def count_squares(images: Tensor, patches: int) -> int:
    """Return how many squares `squares` numbers."""
    h, w = images.shape[-2:]
    return min(patches, h) * min(patches, w)

"""Sets of degraded images and of removal masks; the features are removed when the images are read.

Each class is a set with a length and a method `batch`, which training and scoring call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.common.device_settings import send_to_device
from roarbench.common.enums import Order, Unit
from roarbench.compute.bit_planes import Layout, find_removed_bits
from roarbench.compute.degrade import degrade, replace_features, take_rows, unpack_removal_masks


@dataclass(frozen=True)
class DegradedImages:
    """Images with one fixed removal mask each, so that every reading removes the same features."""

    pixels: Tensor  # uint8 (n, c, h, w)
    removed: Tensor | None  # uint8 (n, ceil(d / 8)), packed as `find_removed_bits` does; None removes nothing
    fill: Tensor  # float32 (c,), fill value of each channel, in [0, 255]
    unit: Unit

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width of an image."""
        _, channels, height, width = self.pixels.shape
        return channels, height, width

    def batch(self, index: Tensor) -> Tensor:
        """Return degraded images, float32 (b, c, h, w) in [0, 255], for int64 indices (b,)."""
        images = take_rows(self.pixels, index)
        if self.removed is None:
            return images.float()
        return degrade(images, unpack_removal_masks(take_rows(self.removed, index), self.shape, self.unit), self.fill)


@dataclass(frozen=True)
class RemovalMasks:
    """Removal masks as images; a network's accuracy on them shows how much the masks reveal of the class."""

    shape: tuple[int, int, int]  # channels, height and width of an image
    removed: Tensor  # uint8 (n, ceil(d / 8)), packed
    unit: Unit  # unit of a feature; a pixel's bit is repeated over its channels

    def __len__(self) -> int:
        return len(self.removed)

    def batch(self, index: Tensor) -> Tensor:
        """Return masks, float32 (b, c, h, w), 1 where removed and 0 elsewhere, for int64 indices (b,)."""
        removed = unpack_removal_masks(take_rows(self.removed, index), self.shape, self.unit)
        return removed.view(torch.uint8).float().expand(-1, *self.shape).contiguous()


@dataclass(frozen=True)
class RandomlyDegradedImages:
    """Images with random removal masks that are redrawn at every reading, as in the code of Hooker et al. 2019.

    The network sees every pixel in some epoch, which raises the accuracy of Random; the control `random-redrawn`
    measures by how much.
    """

    pixels: Tensor  # uint8 (n, c, h, w)
    t: float  # probability of removal, independent for each feature
    fill: Tensor  # float32 (c,), fill value of each channel, in [0, 255]
    unit: Unit
    generator: torch.Generator  # generator on the CPU, whose numbers are the same on all machines

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, index: Tensor) -> Tensor:
        """Return newly degraded images, float32 (b, c, h, w) in [0, 255], for int64 indices (b,)."""
        return self.apply_new_masks(take_rows(self.pixels, index), index)

    def apply_new_masks(self, images: Tensor, index: Tensor) -> Tensor:
        """Degrade pixels (b, c, h, w) that have been read already; the result equals the result of `batch`."""
        count, channels, height, width = images.shape
        shape = channels, height, width
        removed = torch.rand((count, *self.unit.grid(shape)), generator=self.generator) < self.t
        return degrade(images, send_to_device(removed, images.device), self.fill)


class RankingMask(NamedTuple):
    """Removal masks of one ranking at one level, from memory-mapped bit-planes uint8 (n, planes, width)."""

    planes: NDArray[np.uint8]
    layout: Layout
    t: float
    order: Order


@dataclass(frozen=True)
class ImagesWithExchangedMasks:
    """Images with other images' removal masks; every reading draws the other image and the mask's level.

    A network that is trained on these images sees the shapes of all removal masks, but a mask says nothing about the
    class of the image to which it is applied. EVAL-X (Jethani et al. 2021) and F-Fidelity (Zheng et al. 2024) also
    score all maps with one network; their masks are random.
    """

    pixels: Tensor  # uint8 (n, c, h, w), on any device; at least two images
    # one item per ranking and level, all of one unit; masks of the n images or, if `from_other_set`, of another set
    ranking_masks: Sequence[RankingMask]
    mean: Tensor  # float32 (c,), the training mean, in [0, 255]
    unit: Unit
    generator: torch.Generator  # generator on the CPU, whose numbers are the same on all machines
    from_other_set: bool = False  # the removal masks come from images of another set
    # fill value, one of `FILLS`; its random numbers depend on an image's index in this set
    fill: str = "mean"

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, index: Tensor) -> Tensor:
        """Return newly degraded images, float32 (b, c, h, w) in [0, 255], for int64 indices (b,)."""
        return self.apply_new_masks(take_rows(self.pixels, index), index)

    def apply_new_masks(self, images: Tensor, index: Tensor) -> Tensor:
        """Degrade pixels (b, c, h, w) that have been read already; the result equals the result of `batch`."""
        lenders, mask_numbers = self._draw_lenders_and_masks(index)
        layout = self.ranking_masks[0].layout
        packed = np.empty((len(index), layout.bytes_per_plane), np.uint8)
        for number in np.unique(mask_numbers):
            rows, mask = np.flatnonzero(mask_numbers == number), self.ranking_masks[number]
            packed[rows] = find_removed_bits(mask.planes[lenders[rows]], mask.t, mask.order, mask.layout)
        bits = send_to_device(torch.from_numpy(packed), images.device)
        removed = unpack_removal_masks(bits, layout.shape, self.unit)
        return replace_features(images, removed, self.fill, self.mean, index.cpu())

    def _draw_lenders_and_masks(self, index: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Draw for each image the index of the image that lends its mask, and an index into `ranking_masks`."""
        if self.from_other_set:
            lenders = torch.randint(len(self.ranking_masks[0].planes), (len(index),), generator=self.generator)
        else:
            steps = torch.randint(1, len(self), (len(index),), generator=self.generator)
            lenders = (index.cpu() + steps) % len(self)
        mask_numbers = torch.randint(len(self.ranking_masks), (len(index),), generator=self.generator)
        return lenders.numpy(), mask_numbers.numpy()

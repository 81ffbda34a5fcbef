"""Images with features removed, made while they are read: only uint8 images and packed removed bits are kept.

Each class here is a set of images in the form that training and scoring take: its length, and `batch`.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from roarbench.devices import send_to_device
from roarbench.enums import Unit


def degrade(images: Tensor, removed: Tensor, fill: Tensor) -> Tensor:
    """Replace the removed features by the fill, float32 (n, c, h, w), a new tensor; kept values and fill are exact.

    Args:
        images: (n, c, h, w), values in [0, 255]; uint8 is fastest.
        removed: bool (n, c, h, w), or (n, 1, h, w) for all channels of a pixel; True where a feature is replaced.
        fill: float32 (c,), what replaces it, in [0, 255].
    """
    bits = removed.view(torch.uint8)
    # one of the two terms is 0, so the sum is exact; on a processor a tenth of the time of torch.where
    return (images * (1 - bits)).float().addcmul_(bits.float(), fill[:, None, None])


def unpack_bits(packed: Tensor, shape: tuple[int, int, int], unit: Unit) -> Tensor:
    """Unpack removed bits, uint8 (n, ceil(d / 8)), most significant bit first, into an array over the image.

    d is the number of features in the unit's grid, `shape` is (c, h, w). The array is bool, (n, c, h, w) for scalars,
    (n, 1, h, w) for pixels; True where removed.
    """
    grid = unit.grid(shape)
    return _unpack(packed, prod(grid)).view(torch.bool).view(len(packed), *grid)


def _unpack(packed: Tensor, d: int) -> Tensor:
    """Return the first `d` bits of each row, uint8 (n, d)."""
    if packed.is_cuda:
        return _unpack_by_shifts(packed, d)
    return torch.from_numpy(np.unpackbits(packed.numpy(), axis=1, count=d))  # a tenth of the time


def _unpack_by_shifts(packed: Tensor, d: int) -> Tensor:
    """Return what `_unpack` does, by torch alone."""
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
    return ((packed[:, :, None] >> shifts) & 1).flatten(1)[:, :d].contiguous()


@dataclass(frozen=True)
class DegradedImages:
    """Images with the same features removed whenever they are read."""

    pixels: Tensor  # uint8 (n, c, h, w)
    removed: Tensor | None  # uint8 (n, ceil(d / 8)), packed as `bit_planes.removed_bits` does; None removes nothing
    fill: Tensor  # float32 (c,), what replaces a removed feature, in [0, 255]
    unit: Unit

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width of an image."""
        _, channels, height, width = self.pixels.shape
        return channels, height, width

    def batch(self, index: Tensor) -> Tensor:
        """Return degraded images float32 (b, c, h, w) in [0, 255], for int64 indices (b,)."""
        images = take_rows(self.pixels, index)
        if self.removed is None:
            return images.float()
        return degrade(images, unpack_bits(take_rows(self.removed, index), self.shape, self.unit), self.fill)


@dataclass(frozen=True)
class RemovedMaps:
    """The removed bits alone, as images: what a network can tell from them, it can tell from degraded images too."""

    shape: tuple[int, int, int]  # channels, height and width of an image
    removed: Tensor  # uint8 (n, ceil(d / 8)), packed
    unit: Unit  # what one feature is; a pixel's bit is repeated over its channels

    def __len__(self) -> int:
        return len(self.removed)

    def batch(self, index: Tensor) -> Tensor:
        """Return maps float32 (b, c, h, w), 1 where removed and 0 elsewhere, for int64 indices (b,)."""
        removed = unpack_bits(take_rows(self.removed, index), self.shape, self.unit)
        return removed.view(torch.uint8).float().expand(-1, *self.shape).contiguous()


@dataclass(frozen=True)
class RedrawnImages:
    """Images whose removed features are drawn anew at every reading, as the code of Hooker et al. 2019 did for Random.

    Over the epochs a network then sees every pixel, which flatters Random; `random-redrawn` shows by how much.
    """

    pixels: Tensor  # uint8 (n, c, h, w)
    t: float  # probability of each feature to be removed, independent of the others
    fill: Tensor  # float32 (c,), what replaces a removed feature, in [0, 255]
    unit: Unit
    generator: torch.Generator  # source of the draws, on the processor, whose numbers are the same on all machines

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, index: Tensor) -> Tensor:
        """Degrade images anew, float32 (b, c, h, w) in [0, 255], for int64 indices (b,); never twice the same."""
        images = take_rows(self.pixels, index)
        count, channels, height, width = images.shape
        shape = channels, height, width
        drawn = torch.rand((count, *self.unit.grid(shape)), generator=self.generator) < self.t
        return degrade(images, send_to_device(drawn, images.device), self.fill)


def take_rows(data: Tensor, index: Tensor) -> Tensor:
    """Return rows by index, on the data's device; `data[index]` takes 20 times as long for uint8."""
    return data.index_select(0, send_to_device(index, data.device))

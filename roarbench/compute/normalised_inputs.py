"""Order, normalise and cache the inputs of training and scoring.

Preparing the inputs anew in every step took a third of a small network's training time (docs/performance.md). An
augmentation that only moves pixels can follow the normalisation and rounding, which treat each pixel alone, without
changing a bit. So the cache holds normalised and rounded images, and a training step only copies pixels out of them.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, Self, TypeGuard

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from roarbench.compute.augment import draw_augmentation, find_largest_shift, shrink_images
from roarbench.compute.degraded_images import DegradedImages, RemovalMasks
from roarbench.compute.recipe import Augmentation
from roarbench.datasets.open_decoded import ImageData

# inputs that are the same at every reading, so images that were prepared once serve all epochs
FixedInputs = DegradedImages | RemovalMasks
MAX_CACHE_BYTES = 2e9  # maximum bytes of prepared inputs at full size on a CPU, as float32
MEMORY_SHARE = 0.6  # maximum share of memory for a data set's pixels and bits; the network needs the rest
INPUTS_PER_PART = 32  # inputs that are prepared together; their intermediate arrays fit in the cache of a core
_SHIFTING = {Augmentation.SHIFT, Augmentation.SHIFT_FLIP}
_FLIPPING = {Augmentation.FLIP, Augmentation.SHIFT_FLIP}
PIXEL_MOVING = {Augmentation.NONE, *_SHIFTING, *_FLIPPING}  # augmentations that only move pixels


class Inputs(Protocol):
    """Inputs for training and testing: degraded images or removal masks."""

    def __len__(self) -> int:
        """Return the number of inputs."""

    def batch(self, index: Tensor) -> Tensor:
        """Return inputs by index, int64 (b,), as float32 (b, c, h, w): images in [0, 255] or masks of 0 and 1."""


class BatchIndices:
    """Indices of successive batches: shuffled passes over the images, joined and cut into full batches.

    Each pass uses every image once. The generator draws the next pass only when the waiting indices do not fill a
    batch, so a batch may hold the end of one pass and the start of the next.
    """

    def __init__(self, n: int, batch: int, generator: torch.Generator) -> None:
        self._n, self._batch, self._generator = n, batch, generator
        self.waiting = torch.empty(0, dtype=torch.int64)  # drawn indices for the next batches

    def draw_next(self) -> Tensor:
        """Return the next batch, int64 (batch,)."""
        while len(self.waiting) < self._batch:
            self.waiting = torch.cat([self.waiting, torch.randperm(self._n, generator=self._generator)])
        index, self.waiting = self.waiting[: self._batch], self.waiting[self._batch :]
        return index

    def peek_drawn_batches(self) -> Iterator[Tensor]:
        """Yield the batches whose indices are all drawn already, without taking them."""
        full = len(self.waiting) // self._batch * self._batch
        return (self.waiting[start : start + self._batch] for start in range(0, full, self._batch))


class Normalisation(NamedTuple):
    """Mean and standard deviation of each channel, in the range of the inputs."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, images: ImageData) -> Self:
        """Return the normalisation in the data set's record or, if there is none, that of the training images."""
        record = images.record
        return cls(record.mean or images.mean, record.std or images.std)

    @property
    def black(self) -> Tensor:
        """Return a black pixel after normalisation, float32 (c, 1, 1)."""
        return (-torch.tensor(self.mean) / torch.tensor(self.std))[:, None, None]


def normalise(images: Tensor, norm: Normalisation) -> Tensor:
    """Normalise images (n, c, h, w) per channel; the result is in channels-last memory format."""
    return normalise_on_device(images, copy_normalisation_to_device(norm, images.device))


class DeviceNormalisation(NamedTuple):
    """Means and standard deviations on a device, each float32 (c, 1, 1)."""

    mean: Tensor
    std: Tensor


def copy_normalisation_to_device(norm: Normalisation, device: torch.device) -> DeviceNormalisation:
    """Copy a normalisation to a device."""
    return DeviceNormalisation(*(torch.tensor(part, device=device)[:, None, None] for part in norm))


def normalise_on_device(
    images: Tensor, scale: DeviceNormalisation, layout: torch.memory_format = torch.channels_last
) -> Tensor:
    """Normalise images with a normalisation on the same device."""
    return images.sub(scale.mean).div_(scale.std).contiguous(memory_format=layout)


def is_cacheable(inputs: object, bytes_per_number: int, max_bytes: float) -> TypeGuard[FixedInputs]:
    """Return whether the inputs are the same at every reading and fit together in `max_bytes`."""
    return isinstance(inputs, FixedInputs) and len(inputs) * math.prod(inputs.shape) * bytes_per_number <= max_bytes


class InputCache:
    """A cache that prepares all inputs at the first request for an image size, and keeps only the latest size.

    `is_cacheable` must be true for the inputs; `prepare` turns float32 (b, c, size, size) into a tensor with b rows.
    """

    def __init__(self, inputs: FixedInputs, prepare: Callable[[Tensor], Tensor]) -> None:
        self._inputs, self._prepare = inputs, prepare
        self._size, self._prepared = 0, torch.empty(0)

    @property
    def original_side(self) -> int:
        """Return the original side of the inputs, in pixels."""
        return self._inputs.shape[2]

    def get_at_side(self, size: int) -> Tensor:
        """Return all inputs, prepared at this side in pixels."""
        if self._size != size:
            self._prepared = torch.empty(0)  # the memory of the previous size must be free before the next is prepared
            self._size, self._prepared = size, self._prepare_all(size)
        return self._prepared

    def _prepare_all(self, size: int) -> Tensor:
        n, prepared = len(self._inputs), torch.empty(0)
        for start in range(0, n, INPUTS_PER_PART):
            index = torch.arange(start, min(start + INPUTS_PER_PART, n))
            part = self._prepare(shrink_images(self._inputs.batch(index), size))
            if not start:
                prepared = torch.empty((n, *part.shape[1:]), dtype=part.dtype, device=part.device)
            prepared[start : start + len(part)] = part
        return prepared


def pad_and_put_channels_last(images: Tensor, kind: Augmentation) -> Tensor:
    """Pad images (n, c, h, w) by reflection to (n, h + 2 m, w + 2 m, c); m is the augmentation's largest shift."""
    margin = find_largest_shift(images.shape[2]) if kind in _SHIFTING else 0
    padded = pad(images, (margin,) * 4, mode="reflect") if margin else images
    return padded.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format)


def augment_padded_images(
    images: Tensor, index: Tensor, size: int, kind: Augmentation, generator: torch.Generator
) -> Tensor:
    """Augment the images with these indices, int64 (b,), with the random numbers that `augment` would draw.

    `images` come from `pad_and_put_channels_last`, on the CPU; `size` is their side without padding; `kind` is one of
    `PIXEL_MOVING`. The result is (b, c, size, size), of the same dtype, in channels-last memory format.
    """
    n, margin = len(index), (images.shape[1] - size) // 2
    drawn = draw_augmentation((n, images.shape[3], size, size), kind, generator)
    shifts = drawn[0] if kind in _SHIFTING else torch.zeros(2, n, 1, dtype=torch.int64)
    down, right = shifts[..., 0].add(margin).tolist()
    mirrored = drawn[-1].tolist() if kind in _FLIPPING else [False] * n
    # with one void element per pixel, NumPy copies all channels of a pixel at once
    pixel = np.dtype((np.void, images.shape[3] * images.element_size()))
    source, out = images.view(torch.uint8).numpy().view(pixel)[..., 0], np.empty((n, size, size), pixel)
    for target, i, y, x, is_mirrored in zip(out, index.tolist(), down, right, mirrored, strict=True):
        window = source[i, y : y + size, x : x + size]
        target[...] = window[:, ::-1] if is_mirrored else window
    return torch.from_numpy(out.view(np.uint8).reshape(n, size, size, -1)).view(images.dtype).permute(0, 3, 1, 2)

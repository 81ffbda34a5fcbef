"""Replace removed features by fill values: in images, and in sets of images when these are read.

All fill values except the mean are rounded to whole numbers in [0, 255], so that filled images can be stored as uint8.

Each class is a set with a length and a method `batch`, which training and scoring call. The images of the classes
`Streamed` stay in files; threads read the pixels and removal masks of the next few batches ahead, and for a GPU into
pinned memory, so that the copy to the device overlaps with the computation.
"""

import mmap
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import tee
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.common.device_settings import send_to_device, use_exact_float32
from roarbench.common.enums import Order, Unit
from roarbench.compute.fills import FILLS
from roarbench.compute.ranking import Layout, find_removed_bits
from roarbench.estimators.estimator import blur


def degrade(images: Tensor, removed: Tensor, fill: Tensor) -> Tensor:
    """Replace removed features by the fill value, as a new float32 tensor (n, c, h, w); the other values stay exact.

    Args:
        images: (n, c, h, w), values in [0, 255]; uint8 is fastest.
        removed: bool (n, c, h, w), or (n, 1, h, w) for all channels of a pixel; True where a feature is removed.
        fill: float32 (c,), the fill value of each channel, in [0, 255].
    """
    bits = removed.view(torch.uint8)
    # the sum is exact, because one of its terms is 0; on a CPU the sum is ten times as fast as torch.where
    return (images * (1 - bits)).float().addcmul_(bits.float(), fill[:, None, None])


def unpack_removal_masks(packed: Tensor, shape: tuple[int, int, int], unit: Unit) -> Tensor:
    """Unpack removal masks, uint8 (n, ceil(d / 8)), most significant bit first, to bool tensors; True where removed.

    `shape` is (c, h, w). The tensors are (n, c, h, w) for scalar features and (n, 1, h, w) for pixels.
    """
    grid = unit.grid(shape)
    d = prod(grid)
    if packed.is_cuda:
        shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
        bits = ((packed[:, :, None] >> shifts) & 1).flatten(1)[:, :d].contiguous()
    else:
        # on a CPU, unpackbits is ten times as fast as shifts
        bits = torch.from_numpy(np.unpackbits(packed.numpy(), axis=1, count=d))
    return bits.view(torch.bool).view(len(packed), *grid)


def take_rows(data: Tensor, index: Tensor) -> Tensor:
    """Return rows by index, on the data's device; for uint8, `index_select` is 20 times as fast as `data[index]`."""
    return data.index_select(0, send_to_device(index, data.device))


def replace_features(images: Tensor, removed: Tensor, fill: str, mean: Tensor, ids: Tensor) -> Tensor:
    """Replace removed features with any fill, as float32 (n, c, h, w); arguments as in `apply_non_mean_fill`."""
    if fill == "mean":
        return degrade(images, removed, mean)
    return apply_non_mean_fill(images, removed, fill, mean, ids).float()


def apply_non_mean_fill(images: Tensor, removed: Tensor, fill: str, mean: Tensor, ids: Tensor) -> Tensor:
    """Replace removed features with a fill other than the training mean, in exact float32 on every device.

    Args:
        images: uint8 (n, c, h, w), not changed.
        removed: bool (n, c, h, w), or (n, 1, h, w) for all channels of a pixel; True where a feature is removed.
        fill: Name of one of `FILLS` except `mean`.
        mean: float32 (c,), the training mean, used for channels without kept features.
        ids: int64 (n,), the images' indices in the data set, which seed the noise.

    Returns:
        uint8 (n, c, h, w), a new tensor; kept values are exact.
    """
    removed = removed.expand(images.shape)
    with use_exact_float32():  # TF32, cuDNN's default, would round brightness to eighths
        values = FILLS[fill].compute(images.float(), removed, mean[:, None, None].expand(images.shape[1:]), ids)
    return torch.where(removed, values.round().clamp(0, 255).to(torch.uint8), images)


def compute_removal_magnitudes(images: Tensor, fully_removed: Tensor, unit: Unit) -> list[NDArray[np.uint8]]:
    """Return how much removal changes each feature, |x - fill|, and a blurred copy, both as uint8 (n, d).

    The blur is that of the twin `blurred`. The columns of a table have no neighbours, so for tables the list has no
    blurred copy. `images` is uint8 (n, c, h, w), and `fully_removed`, float32 in [0, 255], holds the images with every
    feature removed. The magnitude of a pixel is the mean over its channels.
    """
    change = (images.float() - fully_removed).abs()
    magnitudes = [change, blur(change)] if images.shape[2] > 1 else [change]
    if unit is not Unit.SCALAR:
        magnitudes = [magnitude.mean(1, keepdim=True) for magnitude in magnitudes]
    return [magnitude.flatten(1).round().to(torch.uint8).numpy() for magnitude in magnitudes]


PREFETCHED_PARTS = 4  # parts of batches that are read ahead
MEMORY_SHARE = 0.6  # maximum share of memory for a data set's pixels and bits; the network needs the rest
READERS = 16  # threads; all threads share each part, because a disk serves many small parallel reads faster
ByteArray = NDArray[np.uint8]


class Inputs(Protocol):
    """Inputs for training and testing: degraded images or removal masks."""

    def __len__(self) -> int:
        """Return the number of inputs."""

    def batch(self, index: Tensor) -> Tensor:
        """Return inputs by index, int64 (b,), as float32 (b, c, h, w): images in [0, 255] or masks of 0 and 1."""


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


# inputs that are the same at every reading, so images that were prepared once serve all epochs
FixedInputs = DegradedImages | RemovalMasks


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


class StreamedImages:
    """Images with a fixed removal mask each; pixels and masks stay in files.

    `pixels`, uint8 (n, c, h, w), and `removed`, packed masks as uint8 (n, ceil(d / 8)), are memory-mapped; if `removed`
    is None, no feature is removed. `fill` is float32 (c,), in [0, 255]. Images are degraded on `device`.
    """

    def __init__(
        self, pixels: ByteArray, removed: ByteArray | None, fill: Tensor, unit: Unit, device: torch.device
    ) -> None:
        self._pixels, self._removed, self._unit = pixels, removed, unit
        self._fill, self._device = fill.to(device), device
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="images")

    def __len__(self) -> int:
        return len(self._pixels)

    def read(self, parts: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield each part of a batch, float32 (b, c, h, w) in [0, 255] on the device; threads read parts ahead."""
        started: deque[_Part] = deque()
        for index in parts:
            started.append(self._start_reading(index))
            if len(started) > PREFETCHED_PARTS:
                yield self._wait_and_degrade(started.popleft())
        while started:
            yield self._wait_and_degrade(started.popleft())

    def batch(self, index: Tensor) -> Tensor:
        """Return degraded images, float32 (b, c, h, w) in [0, 255] on the device, for int64 indices (b,)."""
        return self._wait_and_degrade(self._start_reading(index))

    def _start_reading(self, index: Tensor) -> "_Part":
        """Start reading the pixels and removal masks of some images; raise IndexError if an image does not exist."""
        low, high = index.aminmax()
        if low < 0 or high >= len(self):
            raise IndexError(f"there is no image {int(low if low < 0 else high)}, only 0 to {len(self) - 1}")
        part, slices = _Part([], []), index.tensor_split(min(READERS, len(index)))
        for source in (self._pixels, self._removed):
            if source is not None:
                # torch reuses pinned memory only after all copies from this memory have finished
                pinned = self._device.type == "cuda"
                target = torch.empty((len(index), *source.shape[1:]), dtype=torch.uint8, pin_memory=pinned)
                part.buffers.append(target)
                for rows, out in zip(slices, target.tensor_split(len(slices)), strict=True):
                    part.futures.append(self._readers.submit(_copy_rows, source, rows.numpy(), out.numpy()))
        return part

    def _wait_and_degrade(self, part: "_Part") -> Tensor:
        for future in part.futures:
            future.result()
        pixels, *removed = (buffer.to(self._device, non_blocking=True) for buffer in part.buffers)
        if not removed:
            return pixels.float()
        channels, height, width = self._pixels.shape[1:]
        return degrade(pixels, unpack_removal_masks(removed[0], (channels, height, width), self._unit), self._fill)


class StreamedChangingImages:
    """Images whose removed features change at every reading; the pixels stay in a file and are prefetched.

    `pixels`, uint8 (n, c, h, w), is the memory-mapped array of the pixels of `images`; the fill value of `images` is on
    the device.
    """

    def __init__(
        self, images: RandomlyDegradedImages | ImagesWithExchangedMasks, pixels: ByteArray, device: torch.device
    ) -> None:
        self._images, self.generator = images, images.generator
        self._pixels = StreamedImages(pixels, None, torch.empty(0), images.unit, device)

    def __len__(self) -> int:
        return len(self._images)

    def read(self, parts: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield each part as `StreamedImages.read` does; the masks of a part are drawn when the part is yielded."""
        indices, ahead = tee(parts)
        for index, pixels in zip(indices, self._pixels.read(ahead), strict=True):
            yield self._images.apply_new_masks(pixels, index)

    def batch(self, index: Tensor) -> Tensor:
        """Return newly degraded images, float32 (b, c, h, w) in [0, 255] on the device, for int64 indices (b,)."""
        return self._images.apply_new_masks(self._pixels.batch(index), index)


Streamed = StreamedImages | StreamedChangingImages


class _Part(NamedTuple):
    """Part of a batch whose rows the threads are reading from the files."""

    buffers: list[Tensor]
    futures: list[Future[None]]


def _copy_rows(source: ByteArray, rows: NDArray[np.int64], target: ByteArray) -> None:
    """Copy rows of a memory-mapped array; all rows are requested from the disk before the first one is copied."""
    if (mapped := _find_memory_map(source)) is not None:
        length = source[0].nbytes
        for row in rows.tolist():
            start = row * length // mmap.PAGESIZE * mmap.PAGESIZE
            mapped.madvise(mmap.MADV_WILLNEED, start, row * length + length - start)
    np.take(source, rows, axis=0, out=target, mode="clip")  # the other modes copy all rows to a buffer first


def _find_memory_map(array: Any) -> mmap.mmap | None:
    """Return the memory map of an array that starts at the map's first byte; None if the array is not memory-mapped."""
    while isinstance(array, np.ndarray | memoryview):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array if isinstance(array, mmap.mmap) and hasattr(array, "madvise") else None

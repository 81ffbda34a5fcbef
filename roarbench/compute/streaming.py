"""Degraded images computed anew at each reading: streamed from files, or with removal masks of other images.

`StreamedImages` reads pixels and removed bits in threads, a few parts of batches ahead. On a machine with a GPU the
threads read into pinned memory, so that the copy to the device overlaps with the computation.

A network that is trained on `ExchangedImages` sees the shapes of all removal masks, but a mask says nothing about the
class of the image that it is applied to. The idea of one network for all maps is that of EVAL-X (Jethani et al. 2021)
and F-Fidelity (Zheng et al. 2024), whose masks are random.
"""

import mmap
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.compute.bit_planes import Layout, find_removed_bits
from roarbench.compute.degrade import degrade, replace_features, take_rows, unpack_bits
from roarbench.devices import send_to_device
from roarbench.enums import Order, Unit

AHEAD = 4  # parts of batches that are read ahead
READERS = 16  # threads; all threads read one part, because a disk serves many small parallel reads faster


class StreamedImages:
    """Images from which the same features are removed at every reading; pixels and masks stay in files.

    Args:
        pixels: uint8 (n, c, h, w), memory-mapped.
        removed: Packed removal masks, uint8 (n, ceil(d / 8)), memory-mapped; None removes nothing.
        fill: float32 (c,), the fill value, in [0, 255].
        unit: Scalar or pixel.
        device: The device on which images are degraded.
    """

    def __init__(
        self,
        pixels: NDArray[np.uint8],
        removed: NDArray[np.uint8] | None,
        fill: Tensor,
        unit: Unit,
        device: torch.device,
    ) -> None:
        self._pixels, self._removed, self._unit = pixels, removed, unit
        self._fill, self._device = fill.to(device), device
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="images")

    def __len__(self) -> int:
        return len(self._pixels)

    def read(self, parts: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield the degraded images of each part, float32 (b, c, h, w) in [0, 255] on the device, for int64 (b,).

        Meanwhile, threads read the next `AHEAD` parts.
        """
        begun: deque[_Part] = deque()
        for index in parts:
            begun.append(self._begin(index))
            if len(begun) > AHEAD:
                yield self._finish(begun.popleft())
        while begun:
            yield self._finish(begun.popleft())

    def batch(self, index: Tensor) -> Tensor:
        """Return degraded images float32 (b, c, h, w) in [0, 255] on the device, for int64 indices (b,)."""
        return self._finish(self._begin(index))

    def _begin(self, index: Tensor) -> "_Part":
        """Start reading the pixels and removal masks of some images."""
        part, slices = _Part(), index.tensor_split(min(READERS, len(index)))
        for source in (self._pixels, self._removed):
            if source is not None:
                # torch reuses pinned memory only after the copies from this memory have finished
                pinned = self._device.type == "cuda"
                target = torch.empty((len(index), *source.shape[1:]), dtype=torch.uint8, pin_memory=pinned)
                part.read.append(target)
                for rows, out in zip(slices, target.tensor_split(len(slices)), strict=True):
                    part.waiting.append(self._readers.submit(_read, source, rows.numpy(), out.numpy()))
        return part

    def _finish(self, part: "_Part") -> Tensor:
        for reading in part.waiting:
            reading.result()
        pixels, *removed = (read.to(self._device, non_blocking=True) for read in part.read)
        if not removed:
            return pixels.float()
        channels, height, width = self._pixels.shape[1:]
        return degrade(pixels, unpack_bits(removed[0], (channels, height, width), self._unit), self._fill)


class _Part:
    """Rows that threads are reading from the files."""

    def __init__(self) -> None:
        self.read: list[Tensor] = []
        self.waiting: list[Future[None]] = []


def _read(source: NDArray[np.uint8], rows: NDArray[np.int64], target: NDArray[np.uint8]) -> None:
    """Copy rows of a memory-mapped array; all rows are requested from the disk before the first one is copied."""
    if (mapped := _find_mapping(source)) is not None:
        length = source[0].nbytes
        for row in rows.tolist():
            start = row * length // mmap.PAGESIZE * mmap.PAGESIZE
            mapped.madvise(mmap.MADV_WILLNEED, start, row * length + length - start)
    np.take(source, rows, axis=0, out=target)


def _find_mapping(array: Any) -> mmap.mmap | None:
    """Return the memory map whose data an array shows, beginning at the first byte; None for an array in memory."""
    while isinstance(array, np.ndarray | memoryview):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array if isinstance(array, mmap.mmap) and hasattr(array, "madvise") else None


class StreamedMask(NamedTuple):
    """Removal masks of one ranking at one level, from memory-mapped bit-planes uint8 (n, planes, width)."""

    planes: NDArray[np.uint8]
    layout: Layout
    t: float
    order: Order


@dataclass(frozen=True)
class ExchangedImages:
    """Images with another image's removal mask each, from a ranking and level drawn with equal probability."""

    pixels: Tensor  # uint8 (n, c, h, w), on any device; at least two images
    # removal masks by ranking and level, each with the rankings of all n images, or of all lenders; all of one unit
    cuts: Sequence[StreamedMask]
    mean: Tensor  # float32 (c,), the training mean, in [0, 255]
    unit: Unit
    generator: torch.Generator  # generator on the CPU, whose numbers are the same on all machines
    lent: bool = False  # the removal masks come from images of another set
    # fill value, one of `FILLS`; its random numbers depend on an image's index in this set
    fill: str = "mean"

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, index: Tensor) -> Tensor:
        """Return newly degraded images, float32 (b, c, h, w) in [0, 255], for int64 indices (b,)."""
        others, cuts = self._draw(index)
        packed = np.empty((len(index), self.cuts[0].layout.width), np.uint8)
        for number in np.unique(cuts):
            rows, cut = np.flatnonzero(cuts == number), self.cuts[number]
            packed[rows] = find_removed_bits(cut.planes[others[rows]], cut.t, cut.order, cut.layout)
        images = take_rows(self.pixels, index)
        removed = unpack_bits(
            send_to_device(torch.from_numpy(packed), images.device), self.cuts[0].layout.shape, self.unit
        )
        return replace_features(images, removed, self.fill, self.mean, index.cpu())

    def _draw(self, index: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Draw for each image the index of another image, uniformly, and the index of a set of masks.

        If masks are `lent`, the other image belongs to another set; otherwise it is never the image itself.
        """
        if self.lent:
            others = torch.randint(len(self.cuts[0].planes), (len(index),), generator=self.generator)
        else:
            steps = torch.randint(1, len(self), (len(index),), generator=self.generator)
            others = (index.cpu() + steps) % len(self)
        cuts = torch.randint(len(self.cuts), (len(index),), generator=self.generator)
        return others.numpy(), cuts.numpy()

"""Read pixels and removal masks from files in every epoch, and degrade the images.

Threads prefetch the pixels and removal masks of the next few parts of batches. For a GPU, the threads read into pinned
memory, so that the copy to the device overlaps with the computation.
"""

import mmap
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import tee
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.common.enums import Unit
from roarbench.compute.degrade import degrade, unpack_removal_masks
from roarbench.compute.degraded_images import ImagesWithExchangedMasks, RandomlyDegradedImages

ByteArray = NDArray[np.uint8]
PREFETCHED_PARTS = 4  # parts of batches that are read ahead
READERS = 16  # threads; all threads share each part, because a disk serves many small parallel reads faster


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


Streamed = StreamedImages | StreamedChangingImages  # inputs with a method `read`


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
    """Return the memory map that holds an array's data from its first byte; None if the array is not memory-mapped."""
    while isinstance(array, np.ndarray | memoryview):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array if isinstance(array, mmap.mmap) and hasattr(array, "madvise") else None

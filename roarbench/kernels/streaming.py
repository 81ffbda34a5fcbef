"""Degraded images that do not fit in memory: read from memory-mapped files while the network computes.

Threads read the pixels and removed bits of the coming parts of batches. On a machine with a GPU they read into pinned
memory, so that the copy to the device runs beside the computation.
"""

import mmap
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.enums import Unit
from roarbench.kernels.degrade import degrade, unpack_bits

AHEAD = 4  # parts of batches that are read before they are needed
READERS = 16  # threads; one part is read by all of them, because a disk answers many small reads at once faster


class StreamedImages:
    """Images with the same features removed whenever they are read; neither pixels nor bits are held.

    Args:
        pixels: uint8 (n, c, h, w), memory-mapped.
        removed: Packed removed bits uint8 (n, ceil(d / 8)), memory-mapped; None removes nothing.
        fill: float32 (c,), what replaces a removed feature, in [0, 255].
        unit: What one feature is.
        device: Where the degraded images are made.
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

        The next `AHEAD` parts are read meanwhile.
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
        """Let the threads read the pixels and removed bits of some images."""
        part, slices = _Part(), index.tensor_split(min(READERS, len(index)))
        for source in (self._pixels, self._removed):
            if source is not None:
                # torch gives pinned memory to nobody else before the copies out of it are done
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
    """Rows of the files that are being read."""

    def __init__(self) -> None:
        self.read: list[Tensor] = []
        self.waiting: list[Future[None]] = []


def _read(source: NDArray[np.uint8], rows: NDArray[np.int64], target: NDArray[np.uint8]) -> None:
    """Copy rows of a memory-mapped array; the disk is asked for all of them before the first is waited for."""
    if (mapped := _find_mapping(source)) is not None:
        length = source[0].nbytes
        for row in rows.tolist():
            start = row * length // mmap.PAGESIZE * mmap.PAGESIZE
            mapped.madvise(mmap.MADV_WILLNEED, start, row * length + length - start)
    np.take(source, rows, axis=0, out=target)


def _find_mapping(array: Any) -> mmap.mmap | None:
    """Return the map that an array is a view of from its first byte on; None for an array in memory."""
    while isinstance(array, np.ndarray | memoryview):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array if isinstance(array, mmap.mmap) and hasattr(array, "madvise") else None

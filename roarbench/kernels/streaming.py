"""Degraded images that do not fit in memory: read from memory-mapped files while the network computes.

Threads gather the pixels and bit-planes of the coming batches into a ring of buffers, one batch each: what is not in
memory yet is waited for at several places of the file at once. On a machine with a GPU the buffers are pinned, so that
the copy to the device runs beside the computation.
"""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.kernels.bit_planes import Layout, removed_bits
from roarbench.kernels.degrade import degrade, unpack
from roarbench.terms import Order

RING = 4  # batches that are read ahead, or on their way to the device


class _Buffer:
    """Room for the pixels and removed bits of one batch."""

    def __init__(self, pinned: bool) -> None:
        self._pinned = pinned
        self._rooms = [torch.empty(0, dtype=torch.uint8), torch.empty(0, dtype=torch.uint8)]
        self._copied: torch.cuda.Event | None = None

    def parts(self, *shapes: tuple[int, ...]) -> list[Tensor]:
        """Return tensors of two shapes in the room, which is free again: nothing is on its way to the device."""
        if self._copied:
            self._copied.synchronize()
        for number, shape in enumerate(shapes):
            if len(self._rooms[number]) < prod(shape):
                self._rooms[number] = torch.empty(prod(shape), dtype=torch.uint8, pin_memory=self._pinned)
        return [room[: prod(shape)].view(shape) for room, shape in zip(self._rooms, shapes, strict=True)]

    def sent(self) -> None:
        """Remember what has to be over before the room is free: the copy that was launched last."""
        if self._pinned:
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._copied.record()


class Cut(NamedTuple):
    """Features removed from memory-mapped images at level t, by bit-planes uint8 (n, planes, width), memory-mapped."""

    planes: NDArray[np.uint8]
    layout: Layout
    t: float
    order: Order


class StreamedImages:
    """Images with the same features removed whenever they are read; neither pixels nor bits are held.

    Args:
        pixels: uint8 (n, c, h, w), memory-mapped.
        cut: What is removed; None removes nothing.
        fill: float32 (c,), what replaces a removed feature, in [0, 255].
        device: Where the degraded images are made.
    """

    def __init__(self, pixels: Tensor, cut: Cut | None, fill: Tensor, device: torch.device) -> None:
        self._pixels, self._cut, self._fill, self._device = pixels, cut, fill.to(device), device
        self._readers = ThreadPoolExecutor(RING, thread_name_prefix="images")
        self._ring = deque(_Buffer(device.type == "cuda") for _ in range(RING))
        self._reading: deque[tuple[Tensor, _Buffer, Future[tuple[Tensor, Tensor]]]] = deque()

    def __len__(self) -> int:
        return len(self._pixels)

    def expect(self, coming: Iterable[Tensor]) -> None:
        """Read ahead, as far as the ring goes; those that are being read already are the first of `coming`."""
        for index in islice(coming, len(self._reading), RING):
            buffer = self._ring[0]
            self._ring.rotate(-1)
            self._reading.append((index, buffer, self._readers.submit(self._read, index, buffer)))

    def batch(self, index: Tensor) -> Tensor:
        """Return degraded images float32 (b, c, h, w) in [0, 255] on the device, for int64 indices (b,)."""
        if not (self._reading and torch.equal(self._reading[0][0], index)):
            for _, _, unused in self._reading:
                unused.result()
            self._reading.clear()
            self.expect([index])
        _, buffer, read = self._reading.popleft()
        pixels, bits = (part.to(self._device, non_blocking=True) for part in read.result())
        buffer.sent()
        if self._cut is None:
            return pixels.float()
        return degrade(pixels, unpack(bits, self._cut.layout.shape, self._cut.layout.unit), self._fill)

    def _read(self, index: Tensor, buffer: _Buffer) -> tuple[Tensor, Tensor]:
        """Read pixels uint8 (b, c, h, w) and packed removed bits uint8 (b, width) into the buffer."""
        width = self._cut.layout.width if self._cut else 0
        pixels, bits = buffer.parts((len(index), *self._pixels.shape[1:]), (len(index), width))
        torch.index_select(self._pixels, 0, index, out=pixels)
        if self._cut:
            rows = self._cut.planes.take(index.numpy(), axis=0)
            bits.numpy()[:] = removed_bits(rows, self._cut.t, self._cut.order, self._cut.layout)
        return pixels, bits

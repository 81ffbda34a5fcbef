"""Where a run's images and removed bits lie: on the device that trains if they fit, else they are streamed."""

import os
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.datasets.decoded import ImageData
from roarbench.devices import device, gpu_memory
from roarbench.errors import CallerError
from roarbench.execution.importance import image_ids
from roarbench.kernels.bit_planes import removed_bits
from roarbench.kernels.degrade import DegradedImages, unpack
from roarbench.kernels.fill import filled
from roarbench.kernels.inputs import Inputs
from roarbench.kernels.streaming import Cut, StreamedImages
from roarbench.plan.runs import Cell
from roarbench.store.provenance import cores
from roarbench.store.rankings import Rankings
from roarbench.terms import Split, Unit

_AT_ONCE = 256  # images that are filled together
SHARE = 0.5  # of the memory that pixels and bits of a data set may take; the rest is the network's


def untouched(images: ImageData, split: Split) -> Inputs:
    """Return images with nothing removed."""
    if not fits(images, 0):
        return _streamed(images, split, None)
    return DegradedImages(pixels(images, split), None, mean_of(images), Unit.SCALAR)


def degraded(images: ImageData, split: Split, rankings: Rankings, cell: Cell) -> Inputs:
    """Return images without the features that a cell removes."""
    layout, planes = rankings.layout, rankings.planes(split)
    if cell.fill == "mean" and not fits(images, layout.width):
        return _streamed(images, split, Cut(planes, layout, cell.t, cell.order))
    return without(images, split, removed_bits(planes, cell.t, cell.order, layout), cell)


def _streamed(images: ImageData, split: Split, cut: Cut | None) -> StreamedImages:
    return StreamedImages(torch.from_numpy(images[split].pixels), cut, torch.tensor(images.mean), device())


def without(data: ImageData, split: Split, removed: NDArray[np.uint8], cell: Cell) -> DegradedImages:
    """Return the images of a split without what packed bits, uint8 (n, width), say, by the fill of a cell.

    CallerError where another fill than the mean, which is made once, has no room for its images in memory.
    """
    images, bits, mean = pixels(data, split), torch.from_numpy(removed).to(device()), mean_of(data)
    if cell.fill == "mean":
        return DegradedImages(images, bits, mean, cell.unit)
    if not fits(data, images[0].nbytes):
        raise CallerError(f"fill '{cell.fill}' keeps all images in memory and they do not fit; write the fill mean")
    made = torch.empty_like(images)
    for start in range(0, len(images), _AT_ONCE):
        rows = slice(start, min(start + _AT_ONCE, len(images)))
        gone, ids = unpack(bits[rows], data.record.shape, cell.unit), image_ids(split, rows.start, rows.stop)
        made[rows] = filled(images[rows], gone, cell.fill, mean, ids)
    return DegradedImages(made, None, mean, cell.unit)


def removed_on_device(rankings: Rankings, split: Split, cell: Cell) -> Tensor:
    """Return packed removed bits of all images of a split, uint8 (n, width), on the device."""
    bits = removed_bits(rankings.planes(split), cell.t, cell.order, rankings.layout)
    return torch.from_numpy(bits).to(device())


@lru_cache(maxsize=2)
def pixels(images: ImageData, split: Split) -> Tensor:
    """Return all pixels of a split, uint8 (n, c, h, w): memory-mapped on a processor, one copy on a GPU."""
    return torch.from_numpy(images[split].pixels).to(device())


def mean_of(images: ImageData) -> Tensor:
    """Return what replaces a removed feature, the training mean, float32 (c,), in [0, 255], on the device."""
    return torch.tensor(images.mean, device=device())


def fits(images: ImageData, width: int) -> bool:
    """Return whether both splits fit in memory, with `width` bytes of removed bits for each image."""
    parts = [images[split].pixels for split in Split]
    count = sum(map(len, parts))
    mapped = device().type == "cpu"  # the system reads and drops pages of the pixels as it likes
    return count * width + (0 if mapped else sum(part.nbytes for part in parts)) <= SHARE * _memory()


def _memory() -> float:
    if device().type == "cuda":
        return gpu_memory()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / cores()

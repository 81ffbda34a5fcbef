"""Where a run's images and removed bits lie: on the device that trains if they fit, else they are streamed."""

import os
from functools import lru_cache

import torch
from torch import Tensor

from roarbench.devices import device, gpu_memory
from roarbench.errors import CallerError
from roarbench.execution.context import RunContext
from roarbench.execution.importance import image_ids
from roarbench.kernels.degrade import DegradedImages, unpack
from roarbench.kernels.fill import filled
from roarbench.kernels.inputs import Inputs
from roarbench.kernels.ranking import removed_bits
from roarbench.kernels.streaming import Cut, StreamedImages
from roarbench.plan.runs import Cell
from roarbench.store.provenance import cores
from roarbench.store.rankings import Rankings
from roarbench.terms import Split, Unit

_AT_ONCE = 256  # images that are filled together
SHARE = 0.5  # of the memory that pixels and bits of a data set may take; the rest is the network's


def untouched(context: RunContext, split: Split) -> Inputs:
    """Return images with nothing removed."""
    if not fits(context, 0):
        return StreamedImages(context.pixels(split), None, context.fill, device())
    return DegradedImages(pixels(context, split), None, context.fill.to(device()), Unit.SCALAR)


def degraded(context: RunContext, split: Split, rankings: Rankings, cell: Cell) -> Inputs:
    """Return images without the features that a cell removes."""
    layout, planes = rankings.layout, rankings.planes(split)
    if cell.fill != "mean":
        return DegradedImages(_filled(context, split, rankings, cell), None, context.fill.to(device()), cell.unit)
    if not fits(context, layout.width):
        return StreamedImages(context.pixels(split), Cut(planes, layout, cell.t, cell.order), context.fill, device())
    removed = removed_on_device(rankings, split, cell)
    return DegradedImages(pixels(context, split), removed, context.fill.to(device()), cell.unit)


def _filled(context: RunContext, split: Split, rankings: Rankings, cell: Cell) -> Tensor:
    """Return a split with the features that a cell removes replaced by its fill, uint8 (n, c, h, w), made once.

    Raises:
        CallerError: There is no room for them in memory.
    """
    images = pixels(context, split)
    if not fits(context, images[0].nbytes):
        raise CallerError(f"fill '{cell.fill}' keeps all images in memory and they do not fit; write the fill mean")
    made, layout = torch.empty_like(images), rankings.layout
    for start in range(0, len(images), _AT_ONCE):
        rows = slice(start, min(start + _AT_ONCE, len(images)))
        bits = torch.from_numpy(removed_bits(rankings.planes(split)[rows], cell.t, cell.order, layout)).to(device())
        removed, ids = unpack(bits, layout.shape, layout.unit), image_ids(split, rows.start, rows.stop)
        made[rows] = filled(images[rows], removed, cell.fill, context.fill.to(device()), ids)
    return made


def removed_on_device(rankings: Rankings, split: Split, cell: Cell) -> Tensor:
    """Return packed removed bits of all images of a split, uint8 (n, width), on the device."""
    bits = removed_bits(rankings.planes(split), cell.t, cell.order, rankings.layout)
    return torch.from_numpy(bits).to(device())


@lru_cache(maxsize=2)
def pixels(context: RunContext, split: Split) -> Tensor:
    """Return all pixels of a split, uint8 (n, c, h, w): memory-mapped on a processor, one copy on a GPU."""
    return context.pixels(split).to(device())


def fits(context: RunContext, width: int) -> bool:
    """Return whether both splits fit in memory, with `width` bytes of removed bits for each image."""
    images = [context.pixels(split) for split in Split]
    count = sum(map(len, images))
    mapped = device().type == "cpu"  # the system reads and drops pages of the pixels as it likes
    return count * width + (0 if mapped else sum(part.nbytes for part in images)) <= SHARE * _memory()


def _memory() -> float:
    """Return how many bytes one worker may use."""
    if device().type == "cuda":
        return gpu_memory()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / cores()

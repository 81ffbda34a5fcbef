"""Where a run's images and removed bits lie: on the device that trains if they fit, else they are streamed."""

import os
from functools import lru_cache

import torch
from torch import Tensor

from roarbench.devices import device, gpu_memory
from roarbench.execution.context import RunContext
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.ranking import removed_bits
from roarbench.kernels.streaming import Cut, StreamedImages
from roarbench.kernels.train import Inputs
from roarbench.plan.runs import Cell
from roarbench.store.provenance import cores
from roarbench.store.rankings import Rankings
from roarbench.terms import Split, Unit

SHARE = 0.5  # of the memory that pixels and bits of a data set may take; the rest is the network's


def untouched(context: RunContext, split: Split) -> Inputs:
    """Return images with nothing removed."""
    if not fits(context, 0):
        return StreamedImages(context.pixels(split), None, context.fill, device())
    return DegradedImages(pixels(context, split), None, context.fill.to(device()), Unit.SCALAR)


def degraded(context: RunContext, split: Split, rankings: Rankings, cell: Cell) -> Inputs:
    """Return images without the features that a cell removes."""
    layout, planes = rankings.layout, rankings.planes(split)
    if not fits(context, layout.width):
        return StreamedImages(context.pixels(split), Cut(planes, layout, cell.t, cell.order), context.fill, device())
    removed = removed_on_device(rankings, split, cell)
    return DegradedImages(pixels(context, split), removed, context.fill.to(device()), cell.unit)


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

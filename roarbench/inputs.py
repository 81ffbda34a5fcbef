"""Where a run's images and removed bits lie: on the device that trains if they fit, else they are streamed."""

import os
from functools import lru_cache

import torch
from torch import Tensor

from roarbench.bench import Bench
from roarbench.degrade import DegradedImages
from roarbench.devices import device, gpu_memory
from roarbench.plan import Cell
from roarbench.ranking import removed_bits
from roarbench.store.provenance import cores
from roarbench.store.rankings import Rankings
from roarbench.streaming import Cut, StreamedImages
from roarbench.terms import Split, Unit
from roarbench.train import Inputs

SHARE = 0.5  # of the memory that pixels and bits of a data set may take; the rest is the network's


def untouched(bench: Bench, split: Split) -> Inputs:
    """Images with nothing removed."""
    if not fits(bench, 0):
        return StreamedImages(bench.pixels(split), None, bench.fill, device())
    return DegradedImages(pixels(bench, split), None, bench.fill.to(device()), Unit.SCALAR)


def degraded(bench: Bench, split: Split, rankings: Rankings, cell: Cell) -> Inputs:
    """Images without the features that a cell removes."""
    layout, planes = rankings.layout, rankings.planes(split)
    if not fits(bench, layout.width):
        return StreamedImages(bench.pixels(split), Cut(planes, layout, cell.t, cell.order), bench.fill, device())
    removed = removed_on_device(rankings, split, cell)
    return DegradedImages(pixels(bench, split), removed, bench.fill.to(device()), cell.unit)


def removed_on_device(rankings: Rankings, split: Split, cell: Cell) -> Tensor:
    """Packed removed bits of all images of a split, uint8 (n, width), on the device."""
    bits = removed_bits(rankings.planes(split), cell.t, cell.order, rankings.layout)
    return torch.from_numpy(bits).to(device())


@lru_cache(maxsize=2)
def pixels(bench: Bench, split: Split) -> Tensor:
    """All pixels of a split, uint8 (n, c, h, w): memory-mapped on a processor, one copy in the memory of a GPU."""
    return bench.pixels(split).to(device())


def fits(bench: Bench, width: int) -> bool:
    """Whether both splits fit in memory, with `width` bytes of removed bits for each image."""
    images = [bench.pixels(split) for split in Split]
    count = sum(map(len, images))
    mapped = device().type == "cpu"  # the system reads and drops pages of the pixels as it likes
    return count * width + (0 if mapped else sum(part.nbytes for part in images)) <= SHARE * _memory()


def _memory() -> float:
    """Bytes that one worker may count on."""
    if device().type == "cuda":
        return gpu_memory()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / cores()

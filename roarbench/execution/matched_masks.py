"""Matched masks of the test images of a data set: what another image's map removes, stratum by stratum."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from roarbench.datasets.decoded import ImageData
from roarbench.execution.importance import image_ids
from roarbench.kernels.bit_planes import bin_codes
from roarbench.kernels.fill import change_numbers, replaced
from roarbench.kernels.matching import matched, matching_ties, strata
from roarbench.plan.runs import Cell, Run
from roarbench.store.rankings import Rankings
from roarbench.terms import Split, Unit

_AT_ONCE = 256  # images that are matched together
_KEPT = 2**30  # features, a byte each, whose strata a process keeps for its next runs


def matched_bits(
    images: ImageData, run: Run, rankings: Rankings, removed: NDArray[np.uint8], others: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return packed removed bits, uint8 (n, width), that follow other images' maps and change each image as much.

    `removed` has what each image's own map removes, of the same shape; `others`, int64 (n,), whose map each is handed.
    """
    d, made = rankings.layout.features, np.empty_like(removed)
    planes = rankings.planes(Split.TEST)
    for start in range(0, len(removed), _AT_ONCE):
        rows = slice(start, min(start + _AT_ONCE, len(removed)))
        own = np.unpackbits(removed[rows], axis=1, count=d).view(bool)
        ties = matching_ties(run.seed, np.arange(rows.start, rows.stop), d)
        codes = bin_codes(planes[others[rows]], rankings.layout)
        found = matched(own, codes, _strata(images, run.cell, rows), run.cell.order, ties)
        made[rows] = np.packbits(found, axis=1)
    return made


def _strata(images: ImageData, cell: Cell, rows: slice) -> NDArray[np.unsignedinteger[Any]]:
    """Return the strata of some test images; kept for other runs where those of all images take little room."""
    if images.test.pixels.size <= _KEPT:
        return _all_strata(images, cell.unit, cell.fill)[rows]
    return _made(images, cell.unit, cell.fill, rows)


@lru_cache(maxsize=1)
def _all_strata(images: ImageData, unit: Unit, fill: str) -> NDArray[np.unsignedinteger[Any]]:
    starts = range(0, len(images.test.pixels), _AT_ONCE)
    return np.concatenate([_made(images, unit, fill, slice(start, start + _AT_ONCE)) for start in starts])


def _made(images: ImageData, unit: Unit, fill: str, rows: slice) -> NDArray[np.unsignedinteger[Any]]:
    pixels = torch.from_numpy(images.test.pixels[rows])
    ids = image_ids(Split.TEST, rows.start, rows.start + len(pixels))
    changed = replaced(pixels, torch.ones_like(pixels, dtype=torch.bool), fill, torch.tensor(images.mean), ids)
    return strata(change_numbers(pixels, changed, unit))

"""Matched masks of the test images of a data set: what another image's map removes, stratum by stratum."""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from roarbench.execution.context import RunContext
from roarbench.execution.importance import image_ids
from roarbench.kernels.fill import change_numbers, replaced
from roarbench.kernels.matching import matched, matching_ties, strata
from roarbench.kernels.ranking import bin_codes
from roarbench.plan.runs import Cell, Run
from roarbench.store.rankings import Rankings
from roarbench.terms import Split, Unit

_AT_ONCE = 256  # images that are matched together
_KEPT = 2**27  # bytes of strata that a process keeps for its next runs


def matched_bits(
    context: RunContext, run: Run, rankings: Rankings, removed: NDArray[np.uint8], others: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return packed removed bits, uint8 (n, width), that follow other images' maps and change each image as much.

    Args:
        context: Of any reference: what removal changes depends on none.
        run: Says level, order, unit and the seed of the ties.
        rankings: Of its row.
        removed: uint8 (n, width), what each image's own map removes.
        others: int64 (n,), whose map each image is handed.
    """
    d, made = rankings.layout.features, np.empty_like(removed)
    planes = rankings.planes(Split.TEST)
    for start in range(0, len(removed), _AT_ONCE):
        rows = slice(start, min(start + _AT_ONCE, len(removed)))
        own = np.unpackbits(removed[rows], axis=1, count=d).view(bool)
        ties = matching_ties(run.seed, np.arange(rows.start, rows.stop), d)
        codes = bin_codes(planes[others[rows]], rankings.layout)
        found = matched(own, codes, _strata(context, run.cell, rows), run.cell.order, ties)
        made[rows] = np.packbits(found, axis=1)
    return made


def _strata(context: RunContext, cell: Cell, rows: slice) -> NDArray[np.uint16]:
    """Return the strata of some test images; kept for other runs where those of all images take little room."""
    pixels = context.pixels(Split.TEST)
    if pixels.numel() * np.dtype(np.uint16).itemsize <= _KEPT:
        return _all_strata(context, cell.unit, cell.fill)[rows]
    return _made(context, cell.unit, cell.fill, rows)


@lru_cache(maxsize=1)
def _all_strata(context: RunContext, unit: Unit, fill: str) -> NDArray[np.uint16]:
    starts = range(0, len(context.pixels(Split.TEST)), _AT_ONCE)
    return np.concatenate([_made(context, unit, fill, slice(start, start + _AT_ONCE)) for start in starts])


def _made(context: RunContext, unit: Unit, fill: str, rows: slice) -> NDArray[np.uint16]:
    images = context.pixels(Split.TEST)[rows]
    ids = image_ids(Split.TEST, rows.start, rows.start + len(images))
    changed = replaced(images, torch.ones_like(images, dtype=torch.bool), fill, context.fill, ids)
    return strata(change_numbers(images, changed, unit))

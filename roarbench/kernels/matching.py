"""Masks of another image's map that change an image as much as its own mask does.

A map that follows |x - fill| removes what removal changes most, without asking a network. Within a stratum of features
that removal changes alike, such a map has nothing left to say (docs/decisions/0039). Nothing here imports torch.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roarbench.terms import Order

BINS = 8  # quantile bins of each number
_TURN = 7919  # features from where one image starts in the order of ties to where the next one does
_VALUES = 256  # of a number: uint8


def strata(numbers: Sequence[NDArray[np.uint8]], bins: int = BINS) -> NDArray[np.uint16]:
    """Return the stratum of each feature: quantile bins of the first number, within them of the next, and so on.

    Equal features share a stratum, so some strata may be larger than others, or empty.

    Args:
        numbers: uint8 (n, d) each.
        bins: Quantile bins of each number.

    Returns:
        uint16 (n, d), in [0, bins ** len(numbers)).
    """
    found = np.zeros(numbers[0].shape, np.uint16)
    for depth, number in enumerate(numbers):
        groups = bins**depth
        for image, values in zip(found, number, strict=True):
            cells = image.astype(np.int64) * _VALUES + values
            counts = np.bincount(cells, minlength=groups * _VALUES).reshape(groups, _VALUES)
            below = counts.cumsum(1) - counts  # features of the group with a smaller number
            within = below * bins // np.maximum(counts.sum(1, keepdims=True), 1)
            image[:] = (np.arange(groups)[:, None] * bins + within).ravel()[cells]
    return found


def matched(
    own: NDArray[np.bool_],
    places: NDArray[np.uint8],
    found: NDArray[np.uint16],
    order: Order,
    ties: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Remove in each stratum as many features as the own mask does, those that another map ranks first.

    With an image's own map in the other's place it is the own mask, where places tell removed features from kept ones.

    Args:
        own: bool (n, d), the image's own mask, True where removed.
        places: uint8 (n, d), the bin of another image's ranking that holds each feature, as `bit_planes.bin_codes` has
            it; 0 is most important.
        found: uint16 (n, d), of `strata`.
        order: MoRF removes the first places, LeRF the last.
        ties: int64 (n, d), a permutation of 0 … d - 1 in every row; of features in one bin the first go.

    Returns:
        bool (n, d), as many True in each row as `own` has.
    """
    wide = 1 + int(places.max())
    turned = places if order is Order.MORF else wide - 1 - places
    keys = found * np.uint16(wide) + turned.astype(np.uint16)
    return np.stack([_matched_one(*each) for each in zip(own, keys, found, ties, strict=True)])


def _matched_one(
    mask: NDArray[np.bool_], keys: NDArray[np.uint16], stratum: NDArray[np.uint16], tie: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return what goes of an image, (d,): in each stratum the first features by their keys, as many as the mask has."""
    sequence = tie[np.argsort(keys[tie], kind="stable")]  # of 16 bits: a radix sort
    sorted_strata, counts = stratum[sequence], np.bincount(stratum)
    wanted = np.bincount(stratum[mask], minlength=len(counts))
    position = np.arange(len(mask)) - (counts.cumsum() - counts)[sorted_strata]
    removed = np.zeros_like(mask)
    removed[sequence] = position < wanted[sorted_strata]
    return removed


def matching_ties(seed: int, images: NDArray[np.int64], d: int) -> NDArray[np.int64]:
    """Return the order of equal places that `matched` takes, int64 (n, d), of images by their number in the split."""
    order = np.random.Generator(np.random.Philox(seed)).permutation(d)
    found: NDArray[np.int64] = order[(np.arange(d) + images[:, None] * _TURN) % d]
    return found

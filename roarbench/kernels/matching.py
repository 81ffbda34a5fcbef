"""Masks of another image's map that change an image as much as its own mask does.

A map that follows |x - fill| removes what removal changes most, without asking a network. Within a stratum of features
that removal changes alike, such a map has nothing left to say (docs/decisions/0039). Nothing here imports torch.
"""

from collections.abc import Sequence
from typing import Any

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
    ties: NDArray[np.integer],
) -> NDArray[np.bool_]:
    """Remove in each stratum as many features as the own mask does, those that another map ranks first.

    With an image's own map in the other's place it is the own mask, where places tell removed features from kept ones.

    Args:
        own: bool (n, d), the image's own mask, True where removed.
        places: uint8 (n, d), the bin of another image's ranking that holds each feature, as `bit_planes.bin_codes` has
            it; 0 is most important.
        found: uint16 (n, d), of `strata`.
        order: MoRF removes the first places, LeRF the last.
        ties: int (n, d), a permutation of 0 … d - 1 in every row; of features in one bin those with less go first.

    Returns:
        bool (n, d), as many True in each row as `own` has.
    """
    wide, d = 1 + int(places.max()), own.shape[1]
    turned = places if order is Order.MORF else wide - 1 - places
    held = np.min_scalar_type(((int(found.max()) + 1) * wide + 1) * d)  # short numbers are sorted in half the time
    made = [
        _matched_one(mask, stratum, (stratum * held.type(wide) + turn) * held.type(d) + tie.astype(held))
        for mask, stratum, turn, tie in zip(own, found, turned, ties, strict=True)
    ]
    return np.stack(made)


def _matched_one(
    mask: NDArray[np.bool_], stratum: NDArray[np.uint16], keys: NDArray[np.unsignedinteger[Any]]
) -> NDArray[np.bool_]:
    """Return what goes of an image, (d,): in each stratum the features of least key, as many as the mask has.

    The keys differ and ascend with the strata, so that one sort orders all strata.
    """
    left, wanted = np.bincount(2 * stratum + mask, minlength=2 * int(stratum.max()) + 2).reshape(-1, 2).T
    ordered = np.append(np.sort(keys), np.iinfo(keys.dtype).max)
    kept: NDArray[Any] = ordered[(left + wanted).cumsum() - left]  # the first key that stays, or the next stratum's
    return keys < kept[stratum]


def matching_ties(seed: int, images: NDArray[np.int64], d: int) -> NDArray[np.uint32]:
    """Return the place of each feature among equals as `matched` takes it, uint32 (n, d).

    One order by chance for all images, by their number in the split, which begins at another feature in each.
    """
    order = np.random.Generator(np.random.Philox(seed)).permutation(d)
    places = np.empty(d, np.uint32)
    places[order] = np.arange(d)
    turned: NDArray[np.uint32] = places - (images * _TURN % d).astype(np.uint32)[:, None]
    found: NDArray[np.uint32] = np.minimum(turned, turned + np.uint32(d))  # modulo d: below 0 is beyond all others
    return found

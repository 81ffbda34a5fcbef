"""Matched masks, which follow another image's map but change the image equally, and the smoothness of masks. No torch.

A map that follows |x - fill| removes the features whose removal changes the image most, without using any network. A
stratum is a set of features whose removal changes the image about equally. Within a stratum, a map of |x - fill|
carries no information (docs/decisions/0039), so own mask and matched mask remove equally many features per stratum.

Smoothing a map adds no information but changes its score (Song et al., arXiv 2304.13836), so every curve reports how
smooth its masks are: the mean number of removed neighbours of a removed feature, relative to random masks. This measure
has no free parameter.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Order, Unit
from roarbench.compute.ranking import count_removed
from roarbench.estimators.estimator import BLUR

BINS = 8  # quantile bins of each removal magnitude
_TURN = 7919  # distance between the starts of two images' tie orders, in features
_VALUES = 256  # possible values of a uint8 magnitude
FEW_FEATURES = 64  # with more, at most 64 strata hold several features each, so matched masks differ
_SAMPLED = 200  # images from which the share of differing masks is computed
Unsigned = NDArray[np.unsignedinteger[Any]]  # unsigned integers of the smallest sufficient dtype


def compute_removal_magnitudes_in_numpy(
    pixels: NDArray[np.uint8], fill: NDArray[np.float32], unit: Unit
) -> list[NDArray[np.uint8]]:
    """Compute the result of `degraded_images.compute_removal_magnitudes` for the mean fill, without torch."""
    # this import takes a quarter of a second, and leaderboard pages without pictures do not need it
    from scipy.ndimage import gaussian_filter1d

    change = blurred = np.abs(pixels.astype(np.float32) - fill)
    for axis in (2, 3):
        blurred = gaussian_filter1d(blurred, BLUR * change.shape[axis], axis, mode="mirror")
    magnitudes = [change, blurred] if change.shape[2] > 1 else [change]  # the columns of a table have no neighbours
    if unit is not Unit.SCALAR:
        magnitudes = [magnitude.mean(1) for magnitude in magnitudes]
    return [magnitude.reshape(len(magnitude), -1).round().astype(np.uint8) for magnitude in magnitudes]


def assign_strata(magnitudes: Sequence[NDArray[np.uint8]], bins: int = BINS) -> Unsigned:
    """Assign features to strata: quantile bins of the first magnitude, each divided into quantile bins of the next.

    Features with equal magnitudes are in the same stratum, so strata differ in size and may be empty. `magnitudes` are
    arrays of uint8 (n, d). The strata are (n, d), in [0, bins ** len(magnitudes)), of the smallest sufficient dtype.
    """
    strata = np.zeros(magnitudes[0].shape, np.min_scalar_type(bins ** len(magnitudes) - 1))
    for depth, magnitude in enumerate(magnitudes):
        groups = bins**depth
        for image, values in zip(strata, magnitude, strict=True):
            cells = image.astype(np.int64) * _VALUES + values
            counts = np.bincount(cells, minlength=groups * _VALUES).reshape(groups, _VALUES)
            below = counts.cumsum(1) - counts  # number of the group's features with a smaller value
            within = below * bins // np.maximum(counts.sum(1, keepdims=True), 1)
            image[:] = (np.arange(groups)[:, None] * bins + within).ravel()[cells]
    return strata


def make_matched_masks(
    own_masks: NDArray[np.bool_], other_bins: Unsigned, strata: Unsigned, order: Order, ties: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Make masks, bool (n, d), that remove as many features of each stratum as the own masks, in another image's order.

    If the other image is the image itself, the result is the image's own mask.

    Args:
        own_masks: bool (n, d), the image's own mask, True where removed.
        other_bins: unsigned (n, d), each feature's bin in the other image's ranking; 0 is most important.
        strata: (n, d), from `assign_strata`.
        order: MoRF removes the first bins, LeRF the last.
        ties: int (n, d), a permutation of 0 … d - 1 in every row; within a bin, smaller numbers are removed first.
    """
    shape = 1 + int(strata.max()), 1 + int(other_bins.max())  # (strata, bins)
    removal_bins = other_bins if order is Order.MORF else shape[1] - 1 - other_bins
    cells = strata.astype(np.min_scalar_type(2 * prod(shape))) * shape[1] + removal_bins
    images = zip(own_masks, cells, ties, strict=True)
    return np.stack([_make_matched_mask(mask, cell, tie, shape) for mask, cell, tie in images])


def _make_matched_mask(
    own_mask: NDArray[np.bool_], cells: Unsigned, ties: NDArray[np.integer], shape: tuple[int, int]
) -> NDArray[np.bool_]:
    """Return the matched mask of one image, bool (d,).

    `cells` holds each feature's cell, an intersection of a stratum and a bin of the other image's ranking. In each
    stratum, whole cells are removed until the next cell has too many features; only the features of this cell are
    sorted.
    """
    counts = np.bincount(2 * cells + own_mask, minlength=2 * prod(shape)).reshape(*shape, 2)
    sizes, wanted = counts.sum(2), counts[..., 1].sum(1, keepdims=True)
    removed_counts = np.clip(wanted - (sizes.cumsum(1) - sizes), 0, sizes)
    divided = (removed_counts > 0) & (removed_counts < sizes)
    removed: NDArray[np.bool_] = (removed_counts == sizes).take(cells, mode="clip")
    (undecided,) = divided.take(cells, mode="clip").nonzero()
    keys = cells[undecided] * np.int64(len(own_mask)) + ties[undecided]
    ends = sizes[divided].cumsum()
    first_kept = np.zeros(shape, np.int64)  # smallest key that is kept
    first_kept[divided] = np.sort(keys)[ends - sizes[divided] + removed_counts[divided]]
    removed[undecided] = keys < first_kept.take(cells[undecided])
    return removed


def compute_differing_mask_share(strata: Unsigned, t: float) -> float:
    """Compute the share of images whose matched mask differs from the own mask, for two independent random maps.

    Equal masks give equal scores, so no matched gain at this level is above this share. An own mask is one of the
    C(d, k) masks that remove k of d features. Its matched mask is one of those that divide the k features over the
    strata in the same way, and each of these is equally probable. For one division, the own masks and the probability
    of equality cancel; the share of equal masks is therefore the number of possible divisions, divided by C(d, k).

    `strata` are (n, d), from `assign_strata`; `t` is the removal fraction, in [0, 1].
    """
    d = strata.shape[1]
    removed = count_removed(t, d)
    sizes_by_image = [tuple(sorted(np.unique(image, return_counts=True)[1].tolist())) for image in strata]
    equal_shares = [
        images * _count_divisions(sizes, removed) / comb(d, removed)
        for sizes, images in Counter(sizes_by_image).items()
    ]
    return 1 - sum(equal_shares) / len(strata)


def compute_mean_differing_mask_share(strata: Unsigned, levels: Sequence[float]) -> float:
    """Compute the mean of `compute_differing_mask_share` over levels, at most 200 evenly spaced images."""
    step = -(-len(strata) // _SAMPLED)
    return sum(compute_differing_mask_share(strata[::step], t) for t in levels) / len(levels)


def _count_divisions(sizes: Sequence[int], removed: int) -> int:
    """Count the ways to divide `removed` features over strata of these sizes, by the product of polynomials."""
    ways = [1] + [0] * removed
    for size in sizes:
        sums = [0, *accumulate(ways)]
        ways = [sums[count + 1] - sums[max(0, count - size)] for count in range(removed + 1)]
    return ways[removed]


def draw_rotated_tie_orders(seed: int, images: NDArray[np.int64], d: int) -> NDArray[np.uint32]:
    """Draw one tie order and rotate it for each image by a multiple of the image's number; uint32 (n, d)."""
    order = np.random.Generator(np.random.Philox(seed)).permutation(d)
    positions = np.empty(d, np.uint32)
    positions[order] = np.arange(d)
    rotated: NDArray[np.uint32] = positions - (images * _TURN % d).astype(np.uint32)[:, None]
    # the minimum takes the numbers modulo d, because unsigned numbers below 0 wrap around to large numbers
    ties: NDArray[np.uint32] = np.minimum(rotated, rotated + np.uint32(d))
    return ties


_CHUNK = 256  # images unpacked at once: 3 MB of 64 x 64 x 3, which fits in the CPU cache


def compute_smoothness_vs_random(removed: NDArray[np.uint8], shape: tuple[int, int, int], unit: Unit) -> float | None:
    """Compute the mean number of removed neighbours of a removed feature, relative to random masks.

    Neighbours are the up to four features above, below, left and right, in the same channel. If k of d features are
    removed at random, a neighbour of a removed feature is removed with probability (k - 1) / (d - 1), also at borders.
    A result of 1 means that the mask is as scattered as random masks; a larger result means a smoother mask. The
    maximum is about d / k, so only results with the same k / d are comparable. If fewer than two features are
    removed or no feature has a neighbour, the result is None.

    `removed` is uint8 (n, ceil(d / 8)), packed as by `find_removed_bits`, with equally many removed features in each
    image; `shape` is channels, height and width of an image.
    """
    channels, height, width = unit.grid(shape)
    d = channels * height * width
    pairs = channels * (height * (width - 1) + (height - 1) * width)
    count = int(np.bitwise_count(removed[:1]).sum())
    if count < 2 or pairs == 0:
        return None
    expected = pairs * count * (count - 1) / (d * (d - 1))
    removed_pairs = 0  # pairs of adjacent features that are both removed, over all images
    for start in range(0, len(removed), _CHUNK):
        bits = np.unpackbits(removed[start : start + _CHUNK], axis=1, count=d).view(bool)
        maps = bits.reshape(-1, channels, height, width)
        removed_pairs += int(np.count_nonzero(maps[..., 1:] & maps[..., :-1]))
        removed_pairs += int(np.count_nonzero(maps[..., 1:, :] & maps[..., :-1, :]))
    return removed_pairs / len(removed) / expected

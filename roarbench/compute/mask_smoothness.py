"""Compute how smooth removal masks are.

Smoothing a map adds no information but changes its score (Song et al., arXiv 2304.13836), so every curve reports how
smooth its masks are: the mean number of removed neighbours of a removed feature, relative to random masks. This measure
has no free parameter. Nothing here imports torch.
"""

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Unit

_CHUNK = 256  # images unpacked at once: 3 MB of 64 x 64 x 3, which fits in the CPU cache


def compute_smoothness_vs_random(removed: NDArray[np.uint8], shape: tuple[int, int, int], unit: Unit) -> float | None:
    """Compute the mean number of removed neighbours of a removed feature, relative to random masks.

    Neighbours are the up to four features above, below, left and right, in the same channel. If k of d features are
    removed at random, a neighbour of a removed feature is removed with probability (k - 1) / (d - 1), also at borders.
    A result of 1 means that the mask is as scattered as random masks; a larger result means a smoother mask. The
    maximum is about 1 / t, so only results at the same level are comparable. If fewer than two features are removed or
    no feature has a neighbour, the result is None.

    `removed` is uint8 (n, ceil(d / 8)), packed as by `find_removed_bits`, with equally many features in each image;
    `shape` is channels, height and width of an image.
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

"""How much the removed features of an image lie side by side.

Smoothing a map adds no information and yet changes its score (Song et al., arXiv 2304.13836), so every curve has to say
how smooth the maps behind it are. A mean number of neighbours, held against Random's, needs no scale and no threshold.
"""

import numpy as np
from numpy.typing import NDArray

from roarbench.enums import Unit

_CHUNK = 256  # images unpacked at once: 3 MB of 64 x 64 x 3, which stays in the processor's cache


def compute_smoothness(removed: NDArray[np.uint8], shape: tuple[int, int, int], unit: Unit) -> float | None:
    """Return the mean number of removed neighbours of a removed feature, divided by that of Random's features.

    Neighbours are the up to four features above, below, left and right, in the same channel. If k of d features are
    removed by chance, each neighbour of a removed one is removed with probability (k - 1) / (d - 1); borders, where
    features have fewer neighbours, are thereby counted in. 1 is as scattered as Random, more is smoother; the ceiling
    is about 1 / t, so values compare at one level only. None where fewer than two features are removed or none has a
    neighbour in the unit's grid.

    `removed`, uint8 (n, ceil(d / 8)), is packed as `bit_planes.removed_bits` does, with equally many in each image;
    `shape` is (c, h, w).
    """
    channels, height, width = unit.grid(shape)
    d = channels * height * width
    pairs = channels * (height * (width - 1) + (height - 1) * width)
    count = int(np.bitwise_count(removed[:1]).sum())
    if count < 2 or pairs == 0:
        return None
    expected = pairs * count * (count - 1) / (d * (d - 1))
    return _count_removed_pairs(removed, (channels, height, width)) / len(removed) / expected


def _count_removed_pairs(removed: NDArray[np.uint8], shape: tuple[int, int, int]) -> int:
    """Count neighbouring pairs of which both are removed, over all images."""
    total = 0
    for start in range(0, len(removed), _CHUNK):
        bits = np.unpackbits(removed[start : start + _CHUNK], axis=1, count=int(np.prod(shape))).view(bool)
        maps = bits.reshape(-1, *shape)
        total += int(np.count_nonzero(maps[..., 1:] & maps[..., :-1]))
        total += int(np.count_nonzero(maps[..., 1:, :] & maps[..., :-1, :]))
    return total

"""Photographs with a class-coded patch in each corner (`planted-corners`, docs/planted.md).

In the stored images, all four patches show the true class. The recipe `planted-corners@1` trains a network on images
with the true class only in the network's own corner and random classes in the other corners. The features that each
network uses are therefore known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KIND = "corners"  # value of `DatasetRecord.config`
CORNERS = 4  # upper left, upper right, lower left, lower right
SHARE = 8  # side of the image, divided by the side of a patch
_BLOCKS = 4  # single-colour blocks per side of a patch
_DARK, _BRIGHT = 32, 224
_SEED = 0


def find_corner_of_network(seed: int) -> int:
    """Return the corner from which the network with this seed reads the class; explained networks have even seeds."""
    return seed // 2 % CORNERS


def draw_corner_patterns(classes: int, size: int) -> NDArray[np.uint8]:
    """Draw one pattern per class, uint8 (classes, 3, side, side), for images of `size` pixels per side."""
    import numpy as np  # imported here, because the commands that list estimators do not need NumPy

    bright = np.random.default_rng(_SEED).random((classes, 3, _BLOCKS, _BLOCKS)) < 0.5
    blocks = np.arange(side := size // SHARE) * _BLOCKS // side
    return np.where(bright, _BRIGHT, _DARK).astype(np.uint8)[:, :, blocks[:, None], blocks]


def locate_patch(corner: int, size: int) -> tuple[slice, slice]:
    """Return the rows and columns of a corner's patch in images of `size` pixels per side."""
    first, last = slice(None, size // SHARE), slice(size - size // SHARE, None)
    return (last if corner // 2 else first), (last if corner % 2 else first)


def stamp_patterns(pixels: NDArray[np.uint8], labels: NDArray[np.int64], classes: int) -> NDArray[np.uint8]:
    """Stamp the pattern of each image's label into its corners, and return new images, uint8 (n, 3, h, w)."""
    stamped = pixels.copy()
    for corner in range(CORNERS):
        rows, columns = locate_patch(corner, pixels.shape[3])
        stamped[:, :, rows, columns] = draw_corner_patterns(classes, pixels.shape[3])[labels]
    return stamped

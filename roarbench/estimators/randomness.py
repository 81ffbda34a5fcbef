"""Make random number generators for single images, and pair images at random. Nothing here imports torch.

Philox (Salmon et al. 2011) computes random bits from a key and a counter. The key is (seed, purpose), the upper half of
the 256-bit counter is (image, j), and the lower half counts the numbers of one draw, so no two draws share random bits.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class RngStream(IntEnum):
    """The purpose of random numbers."""

    NOISE = 0
    RANDOM = 1
    TARGET = 2
    OTHER_IMAGE = 3
    PATH = 5
    MASK = 6
    COALITION = 7
    FILL = 8
    CORNER = 9


def make_rng(seed: int, purpose: RngStream, image: int, j: int = 0) -> np.random.Generator:
    """Make the generator for one purpose and one image; `j` numbers the draws of an image, such as noisy copies."""
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, j, image]))


def pair_images(n: int, first_image: int, seed: int) -> NDArray[np.int64]:
    """Return the partner of each of n images, int64 (n,), a different image; each image is a partner exactly once.

    The images form a circle in random order, and the partner of an image is the previous image in the circle.
    `first_image`, the number of the first image in the data set, gives training and test images different circles.
    """
    order = make_rng(seed, RngStream.OTHER_IMAGE, first_image).permutation(n)
    partners = np.empty(n, np.int64)
    partners[order] = np.roll(order, 1)
    return partners

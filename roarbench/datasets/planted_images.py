"""Generate images whose true feature ranking is known: `planted` has stripes in noise, `planted-corners` has patches.

docs/planted.md shows such images.
"""

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.datasets.catalogue import DatasetRecord

GREY = 128
AMPLITUDE = 28
NOISE = 32
DECAY = 5.0  # the strength falls exponentially along the ranking, from 1 to about exp(-DECAY)
JITTER = 1.0  # maximum of the added random distance, in pixels, which mixes neighbouring features and channels
STRIPE = 2  # width of a stripe in pixels

CORNERS_CONFIG = "corners"  # value of `DatasetRecord.config` for images with patches
CORNERS = 4  # upper left, upper right, lower left, lower right
SIDES_PER_PATCH = 8  # side of the image, divided by the side of a patch
_BLOCKS = 4  # single-colour blocks per side of a patch
_DARK, _BRIGHT = 32, 224
_PATTERN_SEED = 0


def generate_stripe_split(
    record: DatasetRecord, split: Split
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float32]]:
    """Generate one split of striped images with up to four classes; the record, with its seed, determines every value.

    An image of class k is a stripe pattern in noise, with a strength that differs between features:

        x = GREY + AMPLITUDE * strength * pattern[k] + NOISE * e,    e standard normal, rounded and clipped to [0, 255]

    The pattern, +1 or -1, shows the class; the strength, in (0, 1], is the share of the pattern that a feature carries.
    The strength is largest near a random point in the middle half of the image. This point does not depend on the
    class, so the positions of removed features say nothing about the class.

    The function returns pixels, uint8 (n, c, h, w); balanced labels, int64 (n,); and the true importance, float32
    (n, c, h, w), which is the strength and differs between all features of an image.
    """
    generator = np.random.default_rng([record.seed, list(Split).index(split)])
    labels = generator.permutation(np.arange(record.image_counts[split]) % record.classes)
    strength = draw_signal_strengths(len(labels), record.channels, record.size, generator)
    signal = strength * make_stripe_patterns(record.size)[labels][:, np.newaxis]
    noise = generator.standard_normal(signal.shape)
    pixels = np.clip(np.rint(GREY + AMPLITUDE * signal + NOISE * noise), 0, 255)
    return pixels.astype(np.uint8), labels, strength.astype(np.float32)


def make_stripe_patterns(size: int) -> NDArray[np.int64]:
    """Return the stripe patterns of four classes, +1 and -1, (4, size, size): horizontal, vertical and two diagonal."""
    y, x = np.indices((size, size))
    return 1 - 2 * (np.stack([y, x, y - x, y + x]) // STRIPE % 2)


def draw_signal_strengths(count: int, channels: int, size: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw the strength of each feature, (count, channels, size, size), largest near a random point of each image.

    Features are ranked by their distance from the point plus a random number; the feature of rank r among d features
    has the strength exp(-DECAY * r / d). All strengths in an image therefore differ, and every image has the same set
    of strengths.
    """
    points = generator.uniform(size / 4, 3 * size / 4, (count, 2))[..., np.newaxis, np.newaxis, np.newaxis]
    y, x = np.indices((size, size)) + 0.5
    distance = np.hypot(y - points[:, 0], x - points[:, 1])
    distance = distance + generator.uniform(0, JITTER, (count, channels, size, size))
    rank = distance.reshape(count, -1).argsort(axis=1).argsort(axis=1)
    strength: NDArray[np.float64] = np.exp(-DECAY * rank / rank.shape[1])
    return strength.reshape(distance.shape)


def stamp_class_in_all_corners(pixels: NDArray[np.uint8], labels: NDArray[np.int64], classes: int) -> NDArray[np.uint8]:
    """Copy photographs, uint8 (n, 3, h, w), and stamp the pattern of each image's class into all four corners.

    The recipe `planted-corners@1` trains a network on images with the true class only in the network's own corner and
    random classes in the other corners. The features that each network uses are therefore known.
    """
    stamped = pixels.copy()
    for corner in range(CORNERS):
        rows, columns = locate_patch(corner, pixels.shape[3])
        stamped[:, :, rows, columns] = draw_corner_patterns(classes, pixels.shape[3])[labels]
    return stamped


def find_corner_of_network(seed: int) -> int:
    """Return the corner from which the network with this seed reads the class; explained networks have even seeds."""
    return seed // 2 % CORNERS


def draw_corner_patterns(classes: int, size: int) -> NDArray[np.uint8]:
    """Draw one pattern per class, uint8 (classes, 3, side, side), for images of `size` pixels per side."""
    bright = np.random.default_rng(_PATTERN_SEED).random((classes, 3, _BLOCKS, _BLOCKS)) < 0.5
    blocks = np.arange(side := size // SIDES_PER_PATCH) * _BLOCKS // side
    return np.where(bright, _BRIGHT, _DARK).astype(np.uint8)[:, :, blocks[:, None], blocks]


def locate_patch(corner: int, size: int) -> tuple[slice, slice]:
    """Return the rows and columns of a corner's patch in images of `size` pixels per side."""
    first, last = slice(None, size // SIDES_PER_PATCH), slice(size - size // SIDES_PER_PATCH, None)
    return (last if corner // 2 else first), (last if corner % 2 else first)

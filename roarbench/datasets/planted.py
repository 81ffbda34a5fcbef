"""Generated images whose true feature ranking is known for each of them; docs/planted.md shows them.

An image of class k is a stripe pattern in noise, of a strength that differs from feature to feature:

    x = GREY + AMPLITUDE * strength * pattern[k] + NOISE * e,    e standard normal, rounded and clipped to [0, 255]

The pattern, +1 or -1, says which class it is; the strength, in (0, 1], says how much of it a feature carries. It is
greatest near the image's centres, and where these are drawn makes four data sets (`DatasetRecord.config`):

    planted         one, anywhere in the middle half: where features are removed says nothing about the class
    planted-leaky   one, in the quarter of the image that belongs to the class: it says the class
    planted-smooth  two, anywhere: the true map is smooth, so blurring a noisy map brings it nearer to the truth
    planted-placed  the middle of every image: the true map of one image is that of all, but for jitter
"""

import numpy as np
from numpy.typing import NDArray

from roarbench.datasets import DatasetRecord
from roarbench.enums import Split

Floats = NDArray[np.float64]

GREY = 128
AMPLITUDE = 28
NOISE = 32
DECAY = 5.0  # strength falls from 1 at the first feature of the ranking to exp(-DECAY) at the last
JITTER = 1.0  # pixels: mixes neighbouring features and channels in the ranking
STRIPE = 2  # pixels, width of a stripe
LEAKY, SMOOTH, PLACED = "leaky", "smooth", "placed"  # what `DatasetRecord.config` says; empty is `planted`
BLOBS = 2  # centres in an image of `planted-smooth`


def generate(record: DatasetRecord, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float32]]:
    """Generate one split of planted data, of up to four classes; the same record gives the same images.

    Splits are drawn alike, from seeds of their own: pixels uint8 (n, c, h, w), labels int64 (n,), equally many of each
    class, and the true importance float32 (n, c, h, w), the strength, in (0, 1], another for each feature of an image.
    """
    generator = np.random.default_rng([record.seed, list(Split).index(split)])
    labels = generator.permutation(np.arange(record.images[split]) % record.classes)
    centres = draw_centres(record.config, labels, record.size, generator)
    strength = draw_strengths(centres, record.channels, record.size, generator)
    signal = strength * patterns(record.size)[labels][:, np.newaxis]
    noise = generator.standard_normal(signal.shape)
    pixels = np.clip(np.rint(GREY + AMPLITUDE * signal + NOISE * noise), 0, 255)
    return pixels.astype(np.uint8), labels, strength.astype(np.float32)


def patterns(size: int) -> NDArray[np.int64]:
    """Return the four classes, +1 and -1, (4, size, size): stripes that lie, stand, fall and rise."""
    y, x = np.indices((size, size))
    return 1 - 2 * (np.stack([y, x, y - x, y + x]) // STRIPE % 2)


def draw_centres(kind: str, labels: NDArray[np.int64], size: int, generator: np.random.Generator) -> Floats:
    """Draw the points near which features are strong, y and x in pixels, (images, centres, 2)."""
    count = len(labels)
    if kind == LEAKY:
        corner = np.stack([labels // 2, labels % 2], axis=1) * size / 2 + size / 4
        return (corner + generator.uniform(-size / 8, size / 8, (count, 2)))[:, np.newaxis]
    if kind == SMOOTH:
        return generator.uniform(0, size, (count, BLOBS, 2))
    if kind == PLACED:
        return np.full((count, 1, 2), size / 2)
    return generator.uniform(size / 4, 3 * size / 4, (count, 1, 2))


def draw_strengths(centres: Floats, channels: int, size: int, generator: np.random.Generator) -> Floats:
    """Draw the strength of each feature, (images, channels, size, size): greatest near the image's centres.

    Features are ranked by their distance from the nearest centre plus jitter; the one of place r among d has the
    strength exp(-DECAY * r / d). So the strengths of one image are all different, and their set is the same for all
    images.
    """
    y, x = np.indices((size, size)) + 0.5
    points = centres[..., np.newaxis, np.newaxis]
    distance = np.hypot(y - points[:, :, 0], x - points[:, :, 1]).min(axis=1)[:, np.newaxis]
    distance = distance + generator.uniform(0, JITTER, (len(centres), channels, size, size))
    place = distance.reshape(len(centres), -1).argsort(axis=1).argsort(axis=1)
    strength: Floats = np.exp(-DECAY * place / place.shape[1])
    return strength.reshape(distance.shape)

"""Find test images that look like a training image: copies of other encoding, size, brightness or orientation.

Copies are found in the decoded pixels, so the kinds of files do not matter. `repeated_images` finds files of equal
bytes, also in one split.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.datasets.open_decoded import ImageData

_MAX_COMPARED = {Split.TRAIN: 20_000, Split.TEST: 2_000}  # images of each split; of more, evenly spaced ones
_CELLS = 8  # cells per side of a sketch; each is a mean of pixels
# Largest correlations between sketches of a test image and of another training image: 0.989 in Imagenette (2,000 and
# 9,469 images of 64 pixels), 0.990 in scikit-learn's digits; for copies saved as JPEG of quality 75, 0.999 in 99 %
_MIN_CORRELATION = 0.995
_MIN_CONTRAST = 4.0  # standard deviation of a sketch, in grey levels; flatter images all look alike
_CHUNK = 500  # images
Sketches = NDArray[np.float32]  # (n, c, 8, 8)


def describe_similar_images(images: ImageData, name: Callable[[Split, int], str] | None = None) -> str:
    """Describe the test images that look like a training image, perhaps mirrored or turned by a right angle.

    `name` names the image at a position of a split, for an example. An empty string if there is none, and for tables.
    """
    if images.record.tabular or images.record.test_only:
        return ""
    counts = {split: len(images[split].labels) for split in Split}
    places = {split: np.arange(n)[:: max(1, -(-n // _MAX_COMPARED[split]))] for split, n in counts.items()}
    train, test = (_sketch(images[split].pixels, places[split]) for split in Split)
    train_features, pairs = _normalise(train).T, list[tuple[int, int]]()
    for start in range(0, len(test), _CHUNK):
        part = test[start : start + _CHUNK]
        turned = (np.rot90(version, turn, (2, 3)) for version in (part, part[..., ::-1]) for turn in range(4))
        likeness = np.maximum.reduce([_normalise(version) @ train_features for version in turned])
        alike = np.flatnonzero(likeness.max(1) >= _MIN_CORRELATION)
        pairs += [(start + int(place), int(likeness[place].argmax())) for place in alike]
    if not pairs:
        return ""
    first, other = int(places[Split.TEST][pairs[0][0]]), int(places[Split.TRAIN][pairs[0][1]])
    example = f", such as {name(Split.TEST, first)} and {name(Split.TRAIN, other)}" if name else ""
    seen = f"{len(pairs):,} of {len(test):,} compared test images look like a training image{example}"
    return f"{seen}; if they are copies, mirrored or augmented, keep all copies of an image in one split"


def _sketch(pixels: NDArray[np.uint8], places: NDArray[np.int64]) -> Sketches:
    """Return the mean of each of 8 x 8 cells of the images at these places; pixels on a border count in part."""
    side = pixels.shape[-1]
    ends = np.arange(_CELLS + 1)[:, np.newaxis] * side / _CELLS
    first = np.arange(side)
    overlap = np.minimum(ends[1:], first + 1) - np.maximum(ends[:-1], first)
    weights = (overlap.clip(0) * _CELLS / side).astype(np.float32)
    parts = (pixels[places[start : start + _CHUNK]] for start in range(0, len(places), _CHUNK))
    return np.concatenate([weights @ part.astype(np.float32) @ weights.T for part in parts])


def _normalise(sketches: Sketches) -> NDArray[np.float32]:
    """Return vectors, (n, c * 64), whose products are correlations; zeros for flat images.

    The mean of each channel is subtracted, so that images of one colour without a common shape are not alike.
    """
    flat = (sketches - sketches.mean((2, 3), keepdims=True)).reshape(len(sketches), -1)
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    has_contrast = norms >= _MIN_CONTRAST * np.sqrt(flat.shape[1])
    vectors: NDArray[np.float32] = np.where(has_contrast, flat / np.maximum(norms, 1e-6), 0)
    return vectors

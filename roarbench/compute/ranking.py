"""From importance maps to rankings: every feature's importance, and what decides between equal ones."""

from decimal import Decimal
from functools import cache

import numpy as np
from numpy.typing import NDArray

from roarbench.enums import Unit
from roarbench.errors import RunError

TIE_SEED = 0
TIE_RULE = (  # part of what a stored ranking is: whoever changes `draw_tie_order` changes this text
    "of equal float32 importances the feature with the larger entry of argsort(draws) is more important; "
    "draws: d raw numbers of Philox4x64 with key (seed, image id) and counter (0, 0, 0, 1)"
)
# Where the tie draws of an image start. Other chance about images has the key (seed, purpose), not (seed, image); for
# the images 0, 1 and 2 the keys are equal, and there the tie draws are the bits of image 1's first noisy copy, random
# map and other target. That does no harm, since no tie depends on them, and another start would change rankings of v1.
_TIE_STREAM = (0, 0, 0, 1)


def arrange_features(importance: NDArray[np.floating], shape: tuple[int, int, int], unit: Unit) -> NDArray[np.float32]:
    """Return the importance of every feature, float32 (n, d), one row for each image.

    Args:
        importance: Larger is more important; (n, c, h, w) or (n, h, w). For scalar features a map without channels
            gives each channel of a pixel the same importance; the ties between them are broken like all others.
        shape: Channels, height and width of an image.
        unit: Scalar: each number is a feature, d = c h w. Pixel: the map is summed over channels, d = h w.

    Raises:
        RunError: The map has another shape, or a value that is not finite.
    """
    channels, height, width = shape
    if importance.shape[1:] not in ((channels, height, width), (height, width)):
        wanted = f"(n, {channels}, {height}, {width}) or (n, {height}, {width})"
        raise RunError(f"importance map has shape {importance.shape}, expected {wanted}")
    if unit is Unit.PIXEL and importance.ndim == 4:
        importance = importance.sum(axis=1, dtype=np.float64)  # rounded once, in the end: no order of channels matters
    elif unit is Unit.SCALAR and importance.ndim == 3:
        importance = np.broadcast_to(importance[:, None], (len(importance), *shape))
    with np.errstate(over="ignore"):  # beyond float32 becomes infinite, which is reported next
        flat = importance.reshape(len(importance), -1).astype(np.float32)
    finite = np.isfinite(flat)
    if not finite.all():
        image = int(np.argmin(finite.all(axis=1)))
        bad = flat.shape[1] - int(finite[image].sum())
        seen = f"{bad} of {flat.shape[1]} values that are not finite in float32"
        raise RunError(f"importance of image {image} of the batch has {seen}; an estimator returns finite numbers")
    return flat


def draw_tie_order(ids: NDArray[np.integer], d: int, seed: int = TIE_SEED) -> NDArray[np.int32]:
    """Draw a random order of each image's features that decides between equal importances.

    Guided backprop has long runs of exact zeros; any fixed order, such as the raster's, would tell the network where
    they lie. The order depends on the image alone and is the same for every estimator. It is made from raw draws,
    whose stream NumPy guarantees, not from `permutation`, which may change between releases.

    Args:
        ids: Number of each image, unique in the data set; (n,), 0 or above.
        d: Features of one image.
        seed: Another seed, another order.

    Returns:
        int32 (n, d), permutations of 0 … d - 1; of equal features the one with the larger number is more important.
    """
    draws = np.empty((len(ids), d), np.uint64)
    for row, image in zip(draws, ids.tolist(), strict=True):
        key = np.array([seed, image], np.uint64)
        row[:] = np.random.Philox(key=key, counter=np.array(_TIE_STREAM, np.uint64)).random_raw(d)
    return np.argsort(draws, axis=1).astype(np.int32)


def sort_keys(importance: NDArray[np.float32], ties: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return integers, unique within an image, that sort like its importances, equal ones like the tie order.

    The upper 32 bits are those of `sort_bits`; the lower 32 bits are the place in the tie order. Importance is float32
    (n, d), finite; `ties`, int32 (n, d), has a permutation in every row; of the keys, int64 (n, d), the largest is the
    most important feature's.
    """
    return (sort_bits(importance).astype(np.int64) << 32) | ties


def sort_bits(importance: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return integers that sort like importances, finite, and are equal where these are.

    They are the float's own bits, turned so that they sort as integers: negative floats sort backwards.
    """
    bits = (importance + np.float32(0)).view(np.int32)  # + 0: -0.0 and 0.0 are equal and must tie
    return bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))


def rank(importance: NDArray[np.float32], ties: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return feature indices of each image, int64 (n, d), most important first; arguments are those of `sort_keys`."""
    return np.argsort(sort_keys(importance, ties), axis=1)[:, ::-1]


@cache
def count_removed(t: float, d: int) -> int:
    """Return how many of `d` features are removed at level `t`: round(t d), a half to the even number.

    The product is that of the decimal which was written: in floats 0.575 * 100 falls below 57.5 and would lose one.
    ValueError where `t` is outside [0, 1].
    """
    if not 0 <= t <= 1:
        raise ValueError(f"level t must be in [0, 1], got {t}; 30% is written 0.3")
    return round(Decimal(str(t)) * d)

"""Turn importance maps into rankings: compute the importance of every feature, and order tied features at random."""

from decimal import Decimal
from functools import cache

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Unit
from roarbench.common.errors import RunError

TIE_SEED = 0
TIE_RULE = (  # stored rankings are identified by this text, too; a change of `draw_tie_order` must change the text
    "of equal float32 importances the feature with the larger entry of argsort(draws) is more important; "
    "draws: d raw numbers of Philox4x64 with key (seed, image id) and counter (0, 0, 0, 1)"
)
# Philox counter at which an image's tie draws start. Other random numbers of an image have the key (seed, stream)
# instead of (seed, image), so the tie draws of images 0, 1 and 2 equal the bits of image 1's first noisy copy, random
# map and other target. No result depends on this overlap, and another counter would change the rankings of version 1
_TIE_STREAM = (0, 0, 0, 1)


def flatten_importance(
    importance: NDArray[np.floating], shape: tuple[int, int, int], unit: Unit
) -> NDArray[np.float32]:
    """Return the importance of every feature, float32 (n, d), one row per image.

    Args:
        importance: (n, c, h, w) or (n, h, w); larger is more important. For scalar features, a map without channels
            gives all channels of a pixel the same importance; these ties are broken like all other ties.
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
        # the sum is rounded to float32 only once, so the order of channels does not matter
        importance = importance.sum(axis=1, dtype=np.float64)
    elif unit is Unit.SCALAR and importance.ndim == 3:
        importance = np.broadcast_to(importance[:, None], (len(importance), *shape))
    with np.errstate(over="ignore"):  # values beyond float32 become infinite, and the next check reports them
        flat = importance.reshape(len(importance), -1).astype(np.float32)
    finite = np.isfinite(flat)
    if not finite.all():
        image = int(np.argmin(finite.all(axis=1)))
        bad = flat.shape[1] - int(finite[image].sum())
        seen = f"{bad} of {flat.shape[1]} values in the map of image {image} of the batch"
        raise RunError(f"{seen} are NaN or infinite in float32; expected finite numbers")
    return flat


def draw_tie_order(ids: NDArray[np.integer], d: int, seed: int = TIE_SEED) -> NDArray[np.int32]:
    """Draw a random order of each image's features, which decides between features of equal importance.

    Guided backprop has long runs of exact zeros; a fixed order, such as row by row, would reveal the positions of the
    zeros to the network. The order depends only on the seed and the image's id, which is at least 0, so the order is
    the same for every estimator. The order comes from raw random numbers, because NumPy guarantees their stream across
    releases, unlike the stream of `permutation`. The rows of the result, int32 (n, d), are permutations of 0 … d - 1;
    of features with equal importance, the feature with the larger number is more important.
    """
    draws = np.empty((len(ids), d), np.uint64)
    for row, image in zip(draws, ids.tolist(), strict=True):
        key = np.array([seed, image], np.uint64)
        row[:] = np.random.Philox(key=key, counter=np.array(_TIE_STREAM, np.uint64)).random_raw(d)
    return np.argsort(draws, axis=1).astype(np.int32)


def make_sort_keys(importance: NDArray[np.float32], ties: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return sort keys, int64 (n, d), unique within an image; the most important feature has the largest key.

    The upper 32 bits come from `convert_to_sortable_integers`, the lower 32 bits from the tie order, int32 (n, d).
    """
    return (convert_to_sortable_integers(importance).astype(np.int64) << 32) | ties


def convert_to_sortable_integers(importance: NDArray[np.float32]) -> NDArray[np.int32]:
    """Convert finite importances to integers with the same order and the same ties.

    The integers are the bits of the floats; the bits of negative floats sort in reverse order, so all of them except
    the sign are inverted.
    """
    bits = (importance + np.float32(0)).view(np.int32)  # + 0 turns -0.0 into 0.0: both are equal and must tie
    return bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))


def rank(importance: NDArray[np.float32], ties: NDArray[np.int32]) -> NDArray[np.int64]:
    """Rank the features of each image by `make_sort_keys`: feature indices, int64 (n, d), most important first."""
    return np.argsort(make_sort_keys(importance, ties), axis=1)[:, ::-1]


@cache
def count_removed(t: float, d: int) -> int:
    """Return the number of features removed at level t, round(t d), half to even; ValueError if t is outside [0, 1]."""
    if not 0 <= t <= 1:
        raise ValueError(f"level t must be in [0, 1], got {t}; 30% is written 0.3")
    return round(Decimal(str(t)) * d)  # as floats, 0.575 * 100 is below 57.5

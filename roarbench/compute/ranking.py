"""Order features by importance, and tied features at random; count the removed features. No torch."""

from decimal import Decimal
from functools import cache

import numpy as np
from numpy.typing import NDArray

TIE_SEED = 0
TIE_RULE = (  # stored rankings are identified by this text, too; a change of `draw_tie_order` must change the text
    "of equal float32 importances the feature with the larger entry of argsort(draws) is more important; "
    "draws: d raw numbers of Philox4x64 with key (seed, image id) and counter (0, 0, 0, 1)"
)
# Philox counter at which an image's tie draws start. Other random numbers of an image have the key (seed, stream)
# instead of (seed, image), so the tie draws of images 0, 1 and 2 equal the bits of image 1's first noisy copy, random
# map and other target. No result depends on this overlap, and another counter would change the rankings of version 1
_TIE_STREAM = (0, 0, 0, 1)


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


def rank(importance: NDArray[np.float32], ties: NDArray[np.int32]) -> NDArray[np.int64]:
    """Rank the features of each image, float32 (n, d): feature indices, most important first.

    Of features with equal importance, the one with the larger number in the tie order, int32 (n, d), comes first.
    """
    bits = (importance + np.float32(0)).view(np.int32)  # + 0 turns -0.0 into 0.0: both are equal and must tie
    # the bits of negative floats sort in reverse order, so all of them except the sign are inverted
    numbers = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
    return np.argsort((numbers.astype(np.int64) << 32) | ties, axis=1)[:, ::-1]


@cache
def count_removed(t: float, d: int) -> int:
    """Return the number of features removed at level t, round(t d), half to even; ValueError if t is outside [0, 1]."""
    if not 0 <= t <= 1:
        raise ValueError(f"level t must be in [0, 1], got {t}; 30% is written 0.3")
    return round(Decimal(str(t)) * d)  # as floats, 0.575 * 100 is below 57.5

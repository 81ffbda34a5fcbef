"""Rankings in which the pixels of a superpixel stand one after the other."""

import numpy as np
from numpy.typing import NDArray


def superpixel_means(importance: NDArray[np.float32], labels: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Give each pixel the mean importance of its superpixel.

    The mean and not the sum, which squares of equal size may take: superpixels differ in size, and a sum would rank
    the large ones first, whatever is in them.

    Args:
        importance: float32 (n, h w).
        labels: uint16 (n, h, w), the number of each pixel's superpixel in its image.

    Returns:
        float32 (n, h w).
    """
    means = np.empty_like(importance)
    for mean, values, of in zip(means, importance, labels.reshape(importance.shape), strict=True):
        counts = np.bincount(of).clip(1)
        mean[:] = (np.bincount(of, weights=values) / counts)[of]
    return means


def superpixel_draws(importance: NDArray[np.float32], labels: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Give each pixel the number of the first pixel of its superpixel, in the order of rows.

    Random's numbers, drawn for each pixel, so become numbers drawn for each superpixel: any order is as likely as any
    other. Means of them would put small superpixels to the ends of the order.

    Args:
        importance: float32 (n, h w).
        labels: uint16 (n, h, w), the number of each pixel's superpixel in its image.

    Returns:
        float32 (n, h w).
    """
    return np.take_along_axis(importance, _first_pixels(labels.reshape(importance.shape)), axis=1)


def superpixel_ties(ties: NDArray[np.int32], labels: NDArray[np.uint16]) -> NDArray[np.int32]:
    """Return a random order of pixels in which those of a superpixel stand together.

    Args:
        ties: int32 (n, h w), a random order of each image's pixels, of `ranking.tie_order`.
        labels: uint16 (n, h, w), the number of each pixel's superpixel in its image.

    Returns:
        int32 (n, h w): a permutation of 0 … h w - 1 in every row.
    """
    together = np.take_along_axis(ties, _first_pixels(labels.reshape(ties.shape)), axis=1)
    order = np.lexsort((ties, together), axis=1)
    found = np.empty_like(ties)
    np.put_along_axis(found, order, np.arange(ties.shape[1], dtype=np.int32)[None], axis=1)
    return found


def _first_pixels(labels: NDArray[np.uint16]) -> NDArray[np.intp]:
    """Return for each pixel the place of the first one of its superpixel, (n, h w)."""
    found = np.empty(labels.shape, np.intp)
    for row, of in zip(found, labels, strict=True):
        _, first, inverse = np.unique(of, return_index=True, return_inverse=True)
        row[:] = first[inverse]
    return found

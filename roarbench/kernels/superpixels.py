"""Rankings in which the pixels of a superpixel stand one after the other.

`labels`, uint16 (n, h, w), has the number of each pixel's superpixel in its image; all else has the shape (n, h w).
"""

import numpy as np
from numpy.typing import NDArray


def average_over_superpixels(importance: NDArray[np.float32], labels: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Give each pixel the mean importance of its superpixel, float32.

    The mean and not the sum, which squares of equal size may take: superpixels differ in size, and a sum would rank
    the large ones first, whatever is in them.
    """
    means = np.empty_like(importance)
    for mean, values, of in zip(means, importance, labels.reshape(importance.shape), strict=True):
        counts = np.bincount(of).clip(1)
        mean[:] = (np.bincount(of, weights=values) / counts)[of]
    return means


def number_superpixels(importance: NDArray[np.float32], labels: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Give each pixel the number of the first pixel of its superpixel, in the order of rows, float32.

    Random's numbers, drawn for each pixel, so become numbers drawn for each superpixel: any order is as likely as any
    other. Means of them would put small superpixels to the ends of the order.
    """
    return np.take_along_axis(importance, _first_pixels(labels.reshape(importance.shape)), axis=1)


def group_ties_by_superpixel(ties: NDArray[np.int32], labels: NDArray[np.uint16]) -> NDArray[np.int32]:
    """Return `ties`, of `ranking.tie_order`, as a random order in which the pixels of a superpixel stand together.

    Both are int32, a permutation of 0 … h w - 1 in every row.
    """
    together = np.take_along_axis(ties, _first_pixels(labels.reshape(ties.shape)), axis=1)
    order = np.lexsort((ties, together), axis=1)
    found = np.empty_like(ties)
    np.put_along_axis(found, order, np.arange(ties.shape[1], dtype=np.int32)[None], axis=1)
    return found


def _first_pixels(labels: NDArray[np.uint16]) -> NDArray[np.intp]:
    """Return for each pixel the place of the first one of its superpixel."""
    found = np.empty(labels.shape, np.intp)
    for row, of in zip(found, labels, strict=True):
        _, first, inverse = np.unique(of, return_index=True, return_inverse=True)
        row[:] = first[inverse]
    return found

"""Rankings by superpixels: by hand, again slowly, and each superpixel's pixels stand together."""

import numpy as np
from numpy.testing import assert_array_equal

from roarbench.kernels.superpixels import superpixel_draws, superpixel_means, superpixel_ties

# two images of 2 x 3 pixels; the second has one superpixel alone in the middle of another
LABELS = np.array([[[0, 0, 1], [2, 1, 1]], [[4, 4, 4], [4, 7, 4]]], np.uint16)
VALUES = np.array([[1, 3, 4, -6, 1, 1], [1, 1, 1, 1, 9, 6]], np.float32)


def test_means_draws_and_ties_by_hand():
    assert_array_equal(superpixel_means(VALUES, LABELS), [[2, 2, 2, -6, 2, 2], [2, 2, 2, 2, 9, 2]])
    assert_array_equal(superpixel_draws(VALUES, LABELS), [[1, 1, 4, -6, 4, 4], [1, 1, 1, 1, 9, 1]])
    ties = np.array([[3, 0, 1, 2, 5, 4], [5, 0, 1, 2, 3, 4]], np.int32)
    # superpixels of the first image have the ties of their first pixels, 3, 1 and 2: so 1 goes first, then 2, then 0
    assert_array_equal(superpixel_ties(ties, LABELS), [[5, 4, 0, 3, 2, 1], [5, 1, 2, 3, 0, 4]])


def test_any_superpixel_of_random_is_first_equally_often():
    # one pixel, four and eleven: means would put the largest in the middle
    labels = np.tile(np.array([0] + [1] * 4 + [2] * 11, np.uint16).reshape(1, 4, 4), (3000, 1, 1))
    draws = superpixel_draws(np.random.default_rng(2).random((3000, 16), np.float32), labels)
    first = np.bincount(labels[0].ravel()[draws.argmax(axis=1)], minlength=3)
    assert (abs(first - 1000) < 4 * np.sqrt(3000 * 2 / 9)).all()  # four standard deviations

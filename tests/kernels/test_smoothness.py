"""The smoothness of removed features, by hand."""

import numpy as np
import pytest

from roarbench.kernels.smoothness import smoothness
from roarbench.terms import Unit

SQUARE = [[[1, 1, 0], [1, 1, 0], [0, 0, 0]]]
CORNERS = [[[1, 0, 1], [0, 0, 0], [1, 0, 1]]]
ROW = [[[0, 0, 0], [1, 1, 1], [0, 0, 0]]]
COLUMN = [[[1, 0, 0], [1, 0, 0], [1, 0, 0]]]


@pytest.mark.parametrize(
    ("images", "shape", "unit", "expected"),
    [
        # of 3 x 3 features 4 are removed: chance has 12 pairs * 4/9 * 3/8 = 2, a square has 4 of them
        ([SQUARE], (1, 3, 3), Unit.SCALAR, 2),
        ([CORNERS], (1, 3, 3), Unit.SCALAR, 0),
        ([SQUARE, CORNERS], (1, 3, 3), Unit.SCALAR, 1),
        # 3 are removed: 12 pairs * 3/9 * 2/8 = 1
        ([ROW], (1, 3, 3), Unit.SCALAR, 2),
        ([COLUMN, ROW], (1, 3, 3), Unit.SCALAR, 2),
        # the end of a row and the start of the next; the ends of a channel and of an image
        ([[[[0, 0, 1], [1, 0, 0]], [[0, 0, 0], [0, 0, 0]]]] * 2, (2, 2, 3), Unit.SCALAR, 0),
        ([[[[0, 0, 0], [0, 0, 1]], [[1, 0, 0], [0, 0, 1]]]] * 2, (2, 2, 3), Unit.SCALAR, 0),
        # 4 pairs * 2/4 * 1/3 by chance; features that are pixels and squares have no channels
        ([[[[1, 1], [0, 0]]]], (3, 2, 2), Unit.PIXEL, 1.5),
        ([[[[1, 1], [0, 0]]]], (3, 7, 8), Unit.PATCH_4, 1.5),
        ([[[[0, 0], [0, 0]]]], (1, 2, 2), Unit.SCALAR, None),
        ([[[[0, 1], [0, 0]]]], (1, 2, 2), Unit.SCALAR, None),
        ([[[[1]], [[1]]]], (2, 1, 1), Unit.SCALAR, None),
        ([[[[1, 1], [1, 1]]]], (1, 2, 2), Unit.SCALAR, 1),
    ],
)
def test_removed_neighbours_against_those_by_chance(images, shape, unit, expected) -> None:
    packed = np.packbits(np.array(images, bool).reshape(len(images), -1), axis=1)
    assert smoothness(packed, shape, unit) == (expected if expected is None else pytest.approx(expected, rel=1e-12))

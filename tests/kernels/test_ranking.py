import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from roarbench.errors import CallerError, RunError
from roarbench.kernels.bit_planes import Layout, encode, removed_bits
from roarbench.kernels.ranking import TIE_RULE, features, rank, removed_count, sort_keys, tie_order
from roarbench.terms import PAPER_LEVELS, Order, Unit

FEW_VALUES = st.sampled_from([-2.5, -1.0, -0.0, 0.0, 1e-45, 1.0, 3.0])  # many ties, both zeros, a subnormal
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
VALUES = st.one_of(FEW_VALUES, FLOATS)


@st.composite
def maps(draw: st.DrawFn, values: st.SearchStrategy[float] = VALUES) -> NDArray[np.float32]:
    n, d = draw(st.integers(1, 4)), draw(st.integers(1, 45))
    return draw(arrays(np.float32, (n, d), elements=values))


def ties_of(importance: NDArray[np.float32]) -> NDArray[np.int32]:
    return tie_order(np.arange(len(importance)), importance.shape[1])


def slow_rank(importance: NDArray[np.float32], ties: NDArray[np.int32]) -> list[list[int]]:
    """Sort pairs of Python numbers: no bit of a float is looked at."""
    return [
        sorted(range(len(row)), key=lambda j: (float(row[j]), int(tie[j])), reverse=True)  # noqa: B023
        for row, tie in zip(importance, ties, strict=True)
    ]


def slow_removed(importance: NDArray[np.float32], t: float, order: Order, d: int) -> NDArray[np.bool_]:
    """The features at one end of the ranking, by the plain definition."""
    removed = np.zeros(importance.shape, bool)
    count = removed_count(t, d)
    for image, ranking in enumerate(slow_rank(importance, ties_of(importance))):
        gone = ranking[:count] if order is Order.MORF else list(reversed(ranking))[:count]
        removed[image, gone] = True
    return removed


def read(importance: NDArray[np.float32], t: float, order: Order, levels: tuple[float, ...] = PAPER_LEVELS):
    layout = Layout((1, 1, importance.shape[1]), Unit.PIXEL, levels)
    planes = encode(sort_keys(importance, ties_of(importance)), layout)
    packed = removed_bits(planes, t, order, layout)
    assert packed.shape == (len(importance), layout.width)
    bits = np.unpackbits(packed, axis=1)
    assert not bits[:, layout.features :].any()
    return bits[:, : layout.features].astype(bool)


def slow_sums(importance: NDArray[np.float64], side: int) -> list[list[float]]:
    """Number by number: the sum of what lies in each square, row of squares by row."""
    n, channels, height, width = importance.shape
    rows, columns = math.ceil(height / side), math.ceil(width / side)
    sums = [[0.0] * (rows * columns) for _ in range(n)]
    for i, c, y, x in np.ndindex(n, channels, height, width):
        sums[i][(y // side) * columns + x // side] += float(importance[i, c, y, x])
    return sums


@pytest.mark.parametrize("shape", [(3, 16, 24), (3, 20, 13), (1, 8, 8), (2, 5, 3)])
@pytest.mark.parametrize("unit", [Unit.PIXEL, Unit.PATCH_4, Unit.PATCH_8])
def test_features_of_squares_are_sums_over_them(shape: tuple[int, int, int], unit: Unit) -> None:
    """Whole numbers, so that sums are exact; a side that is no multiple leaves smaller squares at the border."""
    importance = np.random.default_rng(0).integers(-99, 99, (3, *shape)).astype(np.float64)
    flat = features(importance, shape, unit)
    np.testing.assert_array_equal(flat, slow_sums(importance, unit.side))
    assert flat.shape[1] == Layout(shape, unit, (0.5,)).features
    whole = features(importance.sum(axis=1), shape, unit)  # a map without channels
    np.testing.assert_array_equal(whole, flat)


def test_a_map_without_channels_counts_for_every_channel() -> None:
    importance = np.arange(8.0).reshape(2, 2, 2)
    np.testing.assert_array_equal(features(importance, (3, 2, 2), Unit.SCALAR), [[0, 1, 2, 3] * 3, [4, 5, 6, 7] * 3])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_importance_that_is_not_finite_names_the_image(bad: float) -> None:
    importance = np.zeros((3, 1, 2, 2))
    importance[2, 0, 1, 1] = bad
    with pytest.raises(RunError, match="importance of image 2 of the batch has 1 of 4 values that are not finite"):
        features(importance, (1, 2, 2), Unit.SCALAR)


@pytest.mark.parametrize("shape", [(2, 1, 2, 2), (2, 2, 3), (2, 4)])
def test_a_map_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(RunError, match=r"expected \(n, 3, 2, 2\) or \(n, 2, 2\)"):
        features(np.zeros(shape), (3, 2, 2), Unit.SCALAR)


def test_tie_order_belongs_to_the_image_not_to_the_batch() -> None:
    together = tie_order(np.array([4, 7, 9]), 50)
    np.testing.assert_array_equal(tie_order(np.array([7]), 50)[0], together[1])
    np.testing.assert_array_equal(np.sort(together, axis=1), [range(50)] * 3)
    assert len({tuple(row) for row in together}) == 3
    assert (tie_order(np.array([7]), 50, seed=1) != together[1]).any()


def test_tie_order_never_changes() -> None:
    """Recorded output: another order would make stored rankings and new ones disagree."""
    np.testing.assert_array_equal(tie_order(np.array([5]), 8), [[7, 4, 0, 5, 2, 6, 1, 3]])
    assert TIE_RULE == (  # so that whoever records another order comes by the text that rankings are found by
        "of equal float32 importances the feature with the larger entry of argsort(draws) is more important; "
        "draws: d raw numbers of Philox4x64 with key (seed, image id) and counter (0, 0, 0, 1)"
    )


def test_ranking_by_hand() -> None:
    importance = np.array([[0.5, -3.0, 2.0, -0.0, 0.0, 1e-45]], np.float32)
    ties = np.array([[0, 1, 2, 3, 4, 5]], np.int32)
    np.testing.assert_array_equal(rank(importance, ties), [[2, 0, 5, 4, 3, 1]])
    np.testing.assert_array_equal(rank(importance, ties[:, ::-1].copy()), [[2, 0, 5, 3, 4, 1]])


@given(maps())
def test_ranking_is_that_of_sorted(importance: NDArray[np.float32]) -> None:
    importance.flags.writeable = False  # raises if written to
    ties = ties_of(importance)
    np.testing.assert_array_equal(rank(importance, ties), slow_rank(importance, ties))


@pytest.mark.parametrize(
    ("t", "d", "count"),
    [
        (0.29, 100, 29),  # int(100 * 0.29) is 28
        (0.575, 100, 58),  # in floats 57.49999999999999
        (0.285, 100, 28),  # a half goes to the even number
        (0, 7, 0),
        (1, 7, 7),
        (np.float64(0.9), 150528, 135475),
    ],
)
def test_count_of_removed_features(t: float, d: int, count: int) -> None:
    assert removed_count(t, d) == count


@pytest.mark.parametrize("t", [-0.1, 1.1, 30, math.nan])
def test_levels_outside_0_and_1_are_refused(t: float) -> None:
    with pytest.raises(ValueError, match=r"level t must be in \[0, 1\], got .*; 30% is written 0.3"):
        removed_count(t, 10)


def test_codes_of_the_papers_levels() -> None:
    """The code of the bin that begins at t = .1, .3, .5, .7, .9: its ones end where the level's planes end."""
    layout = Layout((3, 64, 64), Unit.SCALAR, PAPER_LEVELS)
    assert layout.boundaries == (1229, 3686, 6144, 8602, 11059)
    assert layout.codes == (0b001, 0b010, 0b100, 0b110, 0b111)
    assert (layout.features, layout.planes, layout.width) == (12288, 3, 1536)


def test_planes_by_hand() -> None:
    """Ten features, the most important one first: their bins are 0 1 1 2 2 3 3 4 4 5."""
    layout = Layout((1, 2, 5), Unit.SCALAR, PAPER_LEVELS)
    planes = encode(np.arange(10)[None, ::-1].copy(), layout)
    np.testing.assert_array_equal(
        planes[0], [[0b00000_111, 0b11_000000], [0b00011_001, 0b11_000000], [0b01100_000, 0b01_000000]]
    )
    np.testing.assert_array_equal(removed_bits(planes, 0.3, Order.MORF, layout), [[0b11100000, 0]])
    np.testing.assert_array_equal(removed_bits(planes, 0.3, Order.LERF, layout), [[0b00000001, 0b11_000000]])


@given(maps(), st.lists(st.integers(1, 99).map(lambda k: k / 100), max_size=12), st.data())
def test_any_set_of_levels_can_be_stored(importance: NDArray[np.float32], levels: list[float], data) -> None:
    t, order = data.draw(st.sampled_from([0.0, *levels, 1.0])), data.draw(st.sampled_from(Order))
    expected = slow_removed(importance, t, order, importance.shape[1])
    np.testing.assert_array_equal(read(importance, t, order, tuple(levels)), expected)


def test_a_level_that_is_not_stored_is_refused() -> None:
    layout = Layout((1, 10, 10), Unit.PIXEL, (0.3, 0.9))
    planes = np.zeros((1, layout.planes, layout.width), np.uint8)
    with pytest.raises(CallerError, match=r"level 0.5 is not in these rankings; stored: 0.3, 0.9 \(0 and 1 always\)"):
        removed_bits(planes, 0.5, Order.MORF, layout)

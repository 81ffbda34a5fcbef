"""Rankings and bit-planes equal plain sorting, hand-made cases, and the planes made on a GPU."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from roarbench.common.enums import PAPER_LEVELS, Order, Unit
from roarbench.common.errors import CallerError, RunError
from roarbench.compute import map_ranking
from roarbench.compute.map_ranking import flatten_importance, rank_to_bit_planes
from roarbench.compute.ranking import (
    Layout,
    convert_to_smallest_float,
    count_removed,
    draw_tie_order,
    find_removed_bits,
    have_byte_values,
    rank,
)
from tests.helpers.slow_pipeline import features_of, ranking
from tests.helpers.trainings import encoded

SPECIAL_FLOATS = (-2.5, -1.0, -0.0, 0.0, 1e-45, -1e-45, 1.0, 3.0, 3.4e38, -3.4e38)  # ties, both zeros, subnormals, ends
FLOATS = st.one_of(st.sampled_from(SPECIAL_FLOATS), st.floats(width=32, allow_nan=False, allow_infinity=False))
ROWS = arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 45)), elements=FLOATS)  # features of images


@pytest.mark.parametrize("shape", [(3, 20, 13), (1, 8, 8), (2, 5, 3)])
@pytest.mark.parametrize("unit", Unit)
def test_flatten_importance_sums_over_features(shape, unit):
    """Importance values are whole numbers, so that sums are exact."""
    importance = np.random.default_rng(0).integers(-99, 99, (3, *shape)).astype(np.float64)
    flat = flatten_importance(torch.from_numpy(importance), shape, unit)
    members = features_of(shape, str(unit))
    np.testing.assert_array_equal(flat, [[sum(one[at] for at in feature) for feature in members] for one in importance])
    assert flat.shape[1] == Layout(shape, unit, (0.5,)).features
    # a map without channels applies to each channel (scalar) or to the pixel once
    alike = torch.from_numpy(np.repeat(importance[:, :1], shape[0], axis=1))
    expected = flatten_importance(alike, shape, unit) / (1 if unit is Unit.SCALAR else shape[0])
    assert torch.equal(flatten_importance(torch.from_numpy(importance[:, 0]), shape, unit), expected)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_flatten_importance_rejects_nonfinite_values_and_wrong_shapes(bad):
    importance = torch.zeros(3, 1, 2, 2, dtype=torch.float64)
    importance[2, 0, 1, 1] = bad
    with pytest.raises(RunError, match="1 of 4 values in the map of image 2"):
        flatten_importance(importance, (1, 2, 2), Unit.SCALAR)
    for shape in ((3, 2, 2), (1, 2, 3)):
        with pytest.raises(RunError, match=rf"expected \(n, {shape[0]}, 2, {shape[2]}\) or \(n, 2, {shape[2]}\)"):
            flatten_importance(importance, shape, Unit.SCALAR)


@pytest.mark.parametrize("unit", Unit)
def test_float64_maps_keep_the_order_of_their_features(unit):
    """Values, and sums over channels, that differ by less than float32 resolves, and one beyond its range."""
    places = np.random.default_rng(0).permuted(np.tile(np.arange(48.0), (2, 1)), axis=1).reshape(2, 3, 4, 4)
    exact = 1e6 + np.where(places == 47, 1e300, 1e-4 * places)
    flat = flatten_importance(torch.from_numpy(exact), (3, 4, 4), unit).numpy()
    expected = (exact.reshape(2, -1) if unit is Unit.SCALAR else exact.sum(1).reshape(2, -1)).argsort(1)
    np.testing.assert_array_equal(flat.argsort(1), expected)


def test_convert_to_smallest_float_keeps_different_values_apart():
    """Precomputed maps of `rb.evaluate`, and the arrays of an explanation function for Quantus, pass through it."""
    places = np.arange(12).reshape(1, 3, 2, 2)
    for maps, kind in (
        (places / 3, np.float32),  # rounded, but no two values become equal
        (1e6 + places / 1000, np.float64),
        (2**60 + places, np.float64),
        (places.astype(np.longdouble) * np.longdouble(1e-18) + 1, np.float64),
        (places * 1e300, np.float64),
    ):
        found = convert_to_smallest_float(maps)
        assert found.dtype == kind
        np.testing.assert_array_equal(found.flatten().argsort(), range(12))
        assert len(np.unique(found)) == 12


def test_tie_order_depends_on_image_not_on_batch():
    """The last line is recorded output: another order would make stored rankings and new ones disagree."""
    together = draw_tie_order(np.array([4, 7, 9]), 50)
    np.testing.assert_array_equal(draw_tie_order(np.array([7]), 50)[0], together[1])
    np.testing.assert_array_equal(np.sort(together, axis=1), [range(50)] * 3)
    assert len({tuple(row) for row in together}) == 3
    assert (draw_tie_order(np.array([7]), 50, seed=1) != together[1]).any()
    np.testing.assert_array_equal(draw_tie_order(np.array([5]), 8), [[7, 4, 0, 5, 2, 6, 1, 3]])


@given(ROWS)
def test_rank_equals_python_sort(importance):
    """The reference sorts pairs of Python numbers and inspects no bits of floats."""
    importance.flags.writeable = False  # raises if written to
    found = rank(importance, draw_tie_order(np.arange(len(importance)), importance.shape[1]))
    np.testing.assert_array_equal(found, [ranking(row.tolist(), image) for image, row in enumerate(importance)])


@pytest.mark.parametrize(
    ("t", "d", "count"),
    [
        (0.29, 100, 29),  # int(100 * 0.29) is 28
        (0.575, 100, 58),  # in floats 57.49999999999999
        (0.285, 100, 28),  # a half goes to the even number
        (np.float64(0.9), 150528, 135475),
    ],
)
def test_count_removed_rounds_half_to_even(t, d, count):
    assert count_removed(t, d) == count


@pytest.mark.parametrize("t", [-0.1, 1.1, math.nan])
def test_count_removed_rejects_levels_outside_0_to_1(t):
    with pytest.raises(ValueError, match="30% is written 0.3"):
        count_removed(t, 10)


def test_bit_planes_match_hand_computed_bins():
    """Ten features, most important first, have the bins 0 1 1 2 2 3 3 4 4 5."""
    layout = Layout((1, 2, 5), Unit.SCALAR, PAPER_LEVELS)
    planes = encoded(-np.arange(10.0).reshape(1, 1, 2, 5), layout)
    by_hand = [[0b00000_111, 0b11_000000], [0b00011_001, 0b11_000000], [0b01100_000, 0b01_000000]]
    np.testing.assert_array_equal(planes[0], by_hand)
    np.testing.assert_array_equal(find_removed_bits(planes, 0.3, Order.MORF, layout), [[0b11100000, 0]])
    np.testing.assert_array_equal(find_removed_bits(planes, 0.3, Order.LERF, layout), [[0b00000001, 0b11_000000]])
    with pytest.raises(CallerError, match=r"level 0.4 is not stored in these rankings; use one of 0.1, .*, 0 or 1"):
        find_removed_bits(planes, 0.4, Order.MORF, layout)


@given(ROWS, st.lists(st.integers(1, 99).map(lambda k: k / 100), max_size=12), st.sampled_from(Order), st.data())
def test_bit_planes_store_any_set_of_levels(importance, levels, order, data):
    (n, d), t = importance.shape, data.draw(st.sampled_from([0.0, *levels, 1.0]))
    layout = Layout((1, 1, d), Unit.PIXEL, tuple(levels))
    packed = find_removed_bits(encoded(importance[:, None, None], layout), t, order, layout)
    assert packed.shape == (n, layout.bytes_per_plane)
    expected = np.zeros((n, 8 * layout.bytes_per_plane), bool)
    for image in range(n):
        places = ranking(importance[image].tolist(), image)
        expected[image, (places if order is Order.MORF else places[::-1])[: count_removed(t, d)]] = True
    np.testing.assert_array_equal(np.unpackbits(packed, axis=1), expected)


def test_ties_are_drawn_only_for_images_with_ties_at_a_level(monkeypatch):
    """The second image has twelve features of two values: none tie across level 0.5, all tie across 0.25."""
    drawn: list[list[int]] = []
    monkeypatch.setattr(
        map_ranking, "draw_tie_order", lambda ids, d: drawn.append(ids.tolist()) or draw_tie_order(ids, d)
    )
    maps = np.arange(36.0).reshape(3, 3, 2, 2)
    maps[1] = np.arange(12).reshape(3, 2, 2) // 6
    for level, expected in ((0.5, []), (0.25, [[1]])):
        encoded(maps, Layout((3, 2, 2), Unit.SCALAR, (level,)))
        assert drawn == expected
    rows, layout, shared = np.arange(3), Layout((3, 2, 2), Unit.SCALAR, (0.25,)), {}
    for _ in range(2):  # two estimators of a batch
        rank_to_bit_planes(torch.from_numpy(maps), rows, layout, shared)
    assert drawn == [[1], [1]]


@pytest.mark.gpu
@pytest.mark.parametrize("unit", Unit)
def test_bit_planes_made_on_gpu_equal_those_of_cpu(unit):
    """Maps have long runs of zeros of both signs, as guided backprop makes them, and channels last in memory."""
    generator = np.random.default_rng(0)
    maps = generator.standard_normal((50, 20, 21, 3)).astype(np.float32)
    maps *= generator.random(maps.shape) < 0.3
    layout, on_gpu = Layout((3, 20, 21), unit, PAPER_LEVELS), torch.from_numpy(maps).cuda().permute(0, 3, 1, 2)
    found, expected = (
        rank_to_bit_planes(on_gpu, np.arange(50), layout),
        rank_to_bit_planes(on_gpu.cpu(), np.arange(50), layout),
    )
    np.testing.assert_array_equal(found.planes, expected.planes)
    assert found.tied == expected.tied


TIED = {  # maps of one image of 2 x 2 pixels and 3 channels, with the share of the features of each unit that tie most
    "all 0": (np.zeros((3, 2, 2)), {Unit.SCALAR: 1.0, Unit.PIXEL: 1.0}),
    "zeros of both signs": (np.array([0.0, -0.0, 1.0, 2.0] * 3).reshape(3, 2, 2), {Unit.SCALAR: 0.5, Unit.PIXEL: 0.5}),
    "no tie": (np.arange(12.0).reshape(3, 2, 2), {Unit.SCALAR: 1 / 12, Unit.PIXEL: 1 / 4}),
    "equal in float32": (1 + np.arange(12.0).reshape(3, 2, 2) * 1e-12, {Unit.SCALAR: 1 / 12, Unit.PIXEL: 1 / 4}),
    "one value for all channels": (np.arange(4.0).reshape(2, 2), {Unit.SCALAR: 1 / 4, Unit.PIXEL: 1 / 4}),
    "equal sums": (np.array([[1, 2, 0, 9], [2, 1, 3, 0], [0, 0, 0, 0.5]]).reshape(3, 2, 2), {Unit.PIXEL: 0.75}),
}


@pytest.mark.parametrize("case", TIED)
def test_rank_to_bit_planes_reports_largest_share_of_tied_features(case):
    maps, shares = TIED[case]
    for unit, share in shares.items():
        both = torch.from_numpy(np.stack([maps, np.zeros_like(maps)]))
        found = rank_to_bit_planes(both, np.arange(2), Layout((3, 2, 2), unit, PAPER_LEVELS))
        assert found.tied == [pytest.approx(share), 1.0]


_MAPS = np.random.default_rng(0).standard_normal((3, 3, 12, 12)).astype(np.float32)
_LARGEST = np.abs(_MAPS).max()
BYTES = {
    "cast to uint8": ((_MAPS / _LARGEST * 255).astype(np.int32).astype(np.uint8), True),
    "cast and back": ((_MAPS / _LARGEST * 255).astype(np.int32).astype(np.uint8).astype(np.float32) / 255, True),
    "cast to int8": ((_MAPS / _LARGEST * 127).astype(np.int8), True),
    "0 and 1": (_MAPS > 0, False),
    "floats": (_MAPS, False),
    "floats near 0": (_MAPS * 1e-6, False),
    "blocks of equal floats": (_MAPS[..., ::4, ::4].repeat(4, 2).repeat(4, 3), False),
    "blocks near 0": (1e-5 * _MAPS[..., ::4, ::4].repeat(4, 2).repeat(4, 3), False),
    "ranks": (_MAPS.reshape(3, -1).argsort(1).argsort(1), False),
    "ranks of a table": (np.array([[3, 1, 0, 2, 4]] * 4), False),
    "constant": (np.zeros((2, 3, 8, 8)), False),
    "no map": (np.zeros((0, 3, 8, 8)), False),
}


@pytest.mark.parametrize("kind", BYTES)
def test_maps_of_bytes_are_recognised(kind):
    maps, expected = BYTES[kind]
    assert have_byte_values(np.asarray(maps, np.float32)) is expected

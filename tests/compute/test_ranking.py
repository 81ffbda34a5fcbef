"""Rankings and bit-planes equal plain sorting, hand-made cases, and the planes made on a GPU."""

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from roarbench.common.enums import PAPER_LEVELS, Order, Unit
from roarbench.common.errors import CallerError, RunError
from roarbench.compute import device_ranking
from roarbench.compute.bit_planes import Layout, encode_planes, find_removed_bits
from roarbench.compute.ranking import count_removed, draw_tie_order, flatten_importance, rank
from tests.helpers.fake_gpu import GPU
from tests.helpers.slow_pipeline import features_of, ranking
from tests.helpers.streamed import CPU, encoded

SPECIAL_FLOATS = (-2.5, -1.0, -0.0, 0.0, 1e-45, -1e-45, 1.0, 3.0, 3.4e38, -3.4e38)  # ties, both zeros, subnormals, ends
FLOATS = st.one_of(st.sampled_from(SPECIAL_FLOATS), st.floats(width=32, allow_nan=False, allow_infinity=False))
ROWS = arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 45)), elements=FLOATS)  # features of images


@pytest.mark.parametrize("shape", [(3, 16, 24), (3, 20, 13), (1, 8, 8), (2, 5, 3)])
@pytest.mark.parametrize("unit", Unit)
def test_flatten_importance_sums_over_features(shape, unit):
    """Importance values are whole numbers, so that sums are exact."""
    importance = np.random.default_rng(0).integers(-99, 99, (3, *shape)).astype(np.float64)
    flat = flatten_importance(importance, shape, unit)
    members = features_of(shape, str(unit))
    np.testing.assert_array_equal(flat, [[sum(one[at] for at in feature) for feature in members] for one in importance])
    assert flat.shape[1] == Layout(shape, unit, (0.5,)).features
    # a map without channels applies to each channel (scalar) or to the pixel once
    alike = np.repeat(importance[:, :1], shape[0], axis=1)
    expected = flatten_importance(alike, shape, unit) / (1 if unit is Unit.SCALAR else shape[0])
    np.testing.assert_array_equal(flatten_importance(importance[:, 0], shape, unit), expected.astype(np.float32))


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e300])
def test_flatten_importance_rejects_nonfinite_values_and_wrong_shapes(bad):
    importance = np.zeros((3, 1, 2, 2))
    importance[2, 0, 1, 1] = bad
    with pytest.raises(RunError, match="1 of 4 values in the map of image 2 of the batch are NaN or infinite"):
        flatten_importance(importance, (1, 2, 2), Unit.SCALAR)
    for shape in ((3, 2, 2), (1, 2, 3)):
        with pytest.raises(RunError, match=rf"expected \(n, {shape[0]}, 2, {shape[2]}\) or \(n, 2, {shape[2]}\)"):
            flatten_importance(importance, shape, Unit.SCALAR)


def test_tie_order_depends_on_image_not_on_batch():
    together = draw_tie_order(np.array([4, 7, 9]), 50)
    np.testing.assert_array_equal(draw_tie_order(np.array([7]), 50)[0], together[1])
    np.testing.assert_array_equal(np.sort(together, axis=1), [range(50)] * 3)
    assert len({tuple(row) for row in together}) == 3
    assert (draw_tie_order(np.array([7]), 50, seed=1) != together[1]).any()


def test_tie_order_equals_recorded_order():
    """Recorded output: another order would make stored rankings and new ones disagree."""
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
        (0.5, 7, 4),
        (np.float64(0.9), 150528, 135475),
    ],
)
def test_count_removed_rounds_half_to_even(t, d, count):
    assert count_removed(t, d) == count


@pytest.mark.parametrize("t", [-0.1, 1.1, math.nan])
def test_count_removed_rejects_levels_outside_0_to_1(t):
    with pytest.raises(ValueError, match=r"level t must be in \[0, 1\], got .*; 30% is written 0.3"):
        count_removed(t, 10)


def test_bit_planes_match_hand_computed_bins():
    """Ten features, most important first, have the bins 0 1 1 2 2 3 3 4 4 5."""
    layout = Layout((1, 2, 5), Unit.SCALAR, PAPER_LEVELS)
    planes = encode_planes(np.arange(10)[None, ::-1].copy(), layout)
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


@pytest.fixture
def gpu_code_path(monkeypatch):
    """Rank maps by the GPU code path on any device."""
    own = device_ranking._can_rank_on_gpu

    class Claimed:
        def __init__(self, maps):
            self.is_cuda, self.shape = True, maps.shape

    monkeypatch.setattr(device_ranking, "_can_rank_on_gpu", lambda maps, layout: own(Claimed(maps), layout))
    monkeypatch.setattr(device_ranking, "_IMAGES_PER_SORT", 2)


def rank_on_device(maps, layout, where=CPU):
    ties = draw_tie_order(np.arange(len(maps)), layout.features)
    return device_ranking.rank_to_bit_planes(torch.from_numpy(maps).to(where), ties.__getitem__, layout).planes


@pytest.mark.usefixtures("gpu_code_path")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixture applies to all examples
@given(
    n=st.integers(1, 5),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6)),
    unit=st.sampled_from([Unit.SCALAR, Unit.PIXEL]),
    channels=st.booleans(),
    data=st.data(),
)
def test_gpu_bit_planes_equal_cpu_bit_planes(n, shape, unit, channels, data):
    maps = data.draw(arrays(np.float32, (n, *shape) if channels else (n, *shape[1:]), elements=FLOATS))
    layout = Layout(shape, unit, PAPER_LEVELS)
    try:
        expected = encoded(maps, layout)
    except RunError as error:  # the sum of two of the largest numbers
        with pytest.raises(RunError) as told:
            rank_on_device(maps, layout)
        assert str(told.value) == str(error)
    else:
        np.testing.assert_array_equal(rank_on_device(maps, layout), expected)


@given(ROWS, st.lists(st.integers(1, 99).map(lambda k: k / 100), max_size=5))
def test_cpu_rank_to_bit_planes_equals_encoded_ranking(importance, levels):
    maps, layout = importance[:, None, None], Layout((1, 1, importance.shape[1]), Unit.PIXEL, tuple(levels))
    np.testing.assert_array_equal(rank_on_device(maps, layout), encoded(maps, layout))


@pytest.fixture(params=["cpu", "gpu"])
def either_code_path(request):
    """Rank maps by the code path of each device."""
    if request.param == "gpu":
        request.getfixturevalue("gpu_code_path")


@pytest.mark.usefixtures("either_code_path")
def test_ties_are_drawn_only_for_images_with_ties_at_a_level():
    """The second image has twelve features of two values: none tie across level 0.5, all tie across 0.25."""
    maps, drawn, ties = torch.arange(36.0).view(3, 3, 2, 2), [], draw_tie_order(np.arange(3), 12)
    maps[1] = torch.arange(12.0).view(3, 2, 2) // 6

    def draw(rows):
        drawn.append(rows.tolist())
        return ties[rows]

    for level, expected in ((0.5, []), (0.25, [[1]])):
        layout = Layout((3, 2, 2), Unit.SCALAR, (level,))
        planes = device_ranking.rank_to_bit_planes(maps, draw, layout).planes
        np.testing.assert_array_equal(planes, encoded(maps.numpy(), layout))
        assert drawn == expected


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_cached_tie_orders_are_drawn_once_and_equal_direct_draws(kind, monkeypatch):
    calls, real = [], device_ranking.draw_tie_order
    monkeypatch.setattr(device_ranking, "choose_device", lambda: torch.device(kind))
    monkeypatch.setattr(device_ranking, "draw_tie_order", lambda ids, d: calls.append((d, *ids)) or real(ids, d))
    ids = np.array([7, 1, 2**40])
    draw = device_ranking.make_cached_tie_order_function(ids)
    for d, rows in ((12, [2, 0]), (12, [0, 1, 2]), (4, [1])):
        np.testing.assert_array_equal(draw(d, np.array(rows)), real(ids[rows], d))
    assert sorted(calls) == [(4, 1), (12, 1), (12, 7), (12, 2**40)]


@pytest.mark.usefixtures("gpu_code_path")
@pytest.mark.parametrize("where", [CPU, pytest.param(GPU, marks=pytest.mark.gpu)], ids=str)
@pytest.mark.parametrize("unit", Unit)
def test_zeros_of_both_signs_tie_in_bit_planes(unit, where):
    """Maps have long runs of zeros, as guided backprop makes them, and channels last in memory."""
    generator = np.random.default_rng(0)
    maps = generator.standard_normal((5, 20, 21, 3)).astype(np.float32)
    maps *= generator.random(maps.shape) < 0.3
    maps, layout = maps.transpose(0, 3, 1, 2), Layout((3, 20, 21), unit, PAPER_LEVELS)
    np.testing.assert_array_equal(rank_on_device(maps, layout, where), encoded(maps, layout))


TIED = {  # maps of one image of 2 x 2 pixels and 3 channels, with the share of the features of each unit that tie most
    "all 0": (np.zeros((3, 2, 2)), {Unit.SCALAR: 1.0, Unit.PIXEL: 1.0}),
    "zeros of both signs": (np.array([0.0, -0.0, 1.0, 2.0] * 3).reshape(3, 2, 2), {Unit.SCALAR: 0.5, Unit.PIXEL: 0.5}),
    "no tie": (np.arange(12.0).reshape(3, 2, 2), {Unit.SCALAR: 1 / 12, Unit.PIXEL: 1 / 4}),
    "equal in float32": (1 + np.arange(12.0).reshape(3, 2, 2) * 1e-12, {Unit.SCALAR: 1.0, Unit.PIXEL: 1.0}),
    "one value for all channels": (np.arange(4.0).reshape(2, 2), {Unit.SCALAR: 1 / 4, Unit.PIXEL: 1 / 4}),
    "equal sums": (np.array([[1, 2, 0, 9], [2, 1, 3, 0], [0, 0, 0, 0.5]]).reshape(3, 2, 2), {Unit.PIXEL: 0.75}),
}


@pytest.mark.usefixtures("either_code_path")
@pytest.mark.parametrize("case", TIED)
def test_rank_to_bit_planes_reports_largest_share_of_tied_features(case):
    maps, shares = TIED[case]
    ties = {d: draw_tie_order(np.arange(2), d) for d in (4, 12)}
    for unit, share in shares.items():
        both = torch.from_numpy(np.stack([maps, np.zeros_like(maps)]))
        layout = Layout((3, 2, 2), unit, PAPER_LEVELS)
        found = device_ranking.rank_to_bit_planes(both, ties[layout.features].__getitem__, layout)
        assert found.tied == [pytest.approx(share), 1.0]

"""Rankings and their bit-planes: against plain sorting, by hand, and byte for byte as a GPU makes them."""

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

EVERY = (-2.5, -1.0, -0.0, 0.0, 1e-45, -1e-45, 1.0, 3.0, 3.4e38, -3.4e38)  # ties, both zeros, subnormals, the ends
FLOATS = st.one_of(st.sampled_from(EVERY), st.floats(width=32, allow_nan=False, allow_infinity=False))
ROWS = arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 45)), elements=FLOATS)  # features of images


@pytest.mark.parametrize("shape", [(3, 16, 24), (3, 20, 13), (1, 8, 8), (2, 5, 3)])
@pytest.mark.parametrize("unit", Unit)
def test_features_are_sums_over_them(shape, unit):
    """Whole numbers, so that sums are exact."""
    importance = np.random.default_rng(0).integers(-99, 99, (3, *shape)).astype(np.float64)
    flat = flatten_importance(importance, shape, unit)
    members = features_of(shape, str(unit))
    np.testing.assert_array_equal(flat, [[sum(one[at] for at in feature) for feature in members] for one in importance])
    assert flat.shape[1] == Layout(shape, unit, (0.5,)).features
    alike = np.repeat(importance[:, :1], shape[0], axis=1)  # a map without channels counts for every one, or once
    expected = flatten_importance(alike, shape, unit) / (1 if unit is Unit.SCALAR else shape[0])
    np.testing.assert_array_equal(flatten_importance(importance[:, 0], shape, unit), expected.astype(np.float32))


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e300])
def test_importance_that_is_not_finite_names_the_image(bad):
    importance = np.zeros((3, 1, 2, 2))
    importance[2, 0, 1, 1] = bad
    with pytest.raises(RunError, match="1 of 4 values in the map of image 2 of the batch are NaN or infinite"):
        flatten_importance(importance, (1, 2, 2), Unit.SCALAR)
    for shape in ((3, 2, 2), (1, 2, 3)):
        with pytest.raises(RunError, match=rf"expected \(n, {shape[0]}, 2, {shape[2]}\) or \(n, 2, {shape[2]}\)"):
            flatten_importance(importance, shape, Unit.SCALAR)


def test_tie_order_belongs_to_the_image_not_to_the_batch():
    together = draw_tie_order(np.array([4, 7, 9]), 50)
    np.testing.assert_array_equal(draw_tie_order(np.array([7]), 50)[0], together[1])
    np.testing.assert_array_equal(np.sort(together, axis=1), [range(50)] * 3)
    assert len({tuple(row) for row in together}) == 3
    assert (draw_tie_order(np.array([7]), 50, seed=1) != together[1]).any()


def test_tie_order_never_changes():
    """Recorded output: another order would make stored rankings and new ones disagree."""
    np.testing.assert_array_equal(draw_tie_order(np.array([5]), 8), [[7, 4, 0, 5, 2, 6, 1, 3]])


@given(ROWS)
def test_ranking_is_that_of_sorted(importance):
    """Of pairs of Python numbers: no bit of a float is looked at."""
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
def test_count_of_removed_features(t, d, count):
    assert count_removed(t, d) == count


@pytest.mark.parametrize("t", [-0.1, 1.1, math.nan])
def test_levels_outside_0_and_1_are_refused(t):
    with pytest.raises(ValueError, match=r"level t must be in \[0, 1\], got .*; 30% is written 0.3"):
        count_removed(t, 10)


def test_planes_by_hand():
    """Ten features, the most important one first: their bins are 0 1 1 2 2 3 3 4 4 5."""
    layout = Layout((1, 2, 5), Unit.SCALAR, PAPER_LEVELS)
    planes = encode_planes(np.arange(10)[None, ::-1].copy(), layout)
    np.testing.assert_array_equal(
        planes[0], [[0b00000_111, 0b11_000000], [0b00011_001, 0b11_000000], [0b01100_000, 0b01_000000]]
    )
    np.testing.assert_array_equal(find_removed_bits(planes, 0.3, Order.MORF, layout), [[0b11100000, 0]])
    np.testing.assert_array_equal(find_removed_bits(planes, 0.3, Order.LERF, layout), [[0b00000001, 0b11_000000]])
    with pytest.raises(CallerError, match=r"level 0.4 is not stored in these rankings; use one of 0.1, .*, 0 or 1"):
        find_removed_bits(planes, 0.4, Order.MORF, layout)


@given(ROWS, st.lists(st.integers(1, 99).map(lambda k: k / 100), max_size=12), st.sampled_from(Order), st.data())
def test_any_set_of_levels_can_be_stored(importance, levels, order, data):
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
def as_on_gpu(monkeypatch):
    """Take the way of maps on a GPU, wherever they are."""
    own = device_ranking._can_rank_on_gpu

    class Claimed:
        def __init__(self, maps):
            self.is_cuda, self.shape = True, maps.shape

    monkeypatch.setattr(device_ranking, "_can_rank_on_gpu", lambda maps, layout: own(Claimed(maps), layout))
    monkeypatch.setattr(device_ranking, "_ROWS", 2)


def planes_there(maps, layout, where=CPU):
    ties = draw_tie_order(np.arange(len(maps)), layout.features)
    return device_ranking.rank_to_bit_planes(torch.from_numpy(maps).to(where), ties.__getitem__, layout).planes


@pytest.mark.usefixtures("as_on_gpu")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # all examples are taken for maps on a GPU
@given(
    n=st.integers(1, 5),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6)),
    unit=st.sampled_from([Unit.SCALAR, Unit.PIXEL]),
    channels=st.booleans(),
    data=st.data(),
)
def test_planes_of_a_gpu_are_the_processors(n, shape, unit, channels, data):
    maps = data.draw(arrays(np.float32, (n, *shape) if channels else (n, *shape[1:]), elements=FLOATS))
    layout = Layout(shape, unit, PAPER_LEVELS)
    try:
        expected = encoded(maps, layout)
    except RunError as error:  # the sum of two of the largest numbers
        with pytest.raises(RunError) as told:
            planes_there(maps, layout)
        assert str(told.value) == str(error)
    else:
        np.testing.assert_array_equal(planes_there(maps, layout), expected)


@given(ROWS, st.lists(st.integers(1, 99).map(lambda k: k / 100), max_size=5))
def test_planes_of_a_processor_are_those_of_keys_with_ties(importance, levels):
    maps, layout = importance[:, None, None], Layout((1, 1, importance.shape[1]), Unit.PIXEL, tuple(levels))
    np.testing.assert_array_equal(planes_there(maps, layout), encoded(maps, layout))


@pytest.mark.parametrize("gpu", [False, True])
def test_ties_are_drawn_only_of_images_where_they_decide(gpu, request):
    """The second image has twelve features of two values, so that nothing is open at one half, and all at .25."""
    if gpu:
        request.getfixturevalue("as_on_gpu")
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


ON_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.usefixtures("as_on_gpu")
@pytest.mark.parametrize("where", [CPU, pytest.param(GPU, marks=ON_GPU)], ids=str)
@pytest.mark.parametrize("unit", Unit)
def test_zeros_of_both_signs_tie(unit, where):
    """Long runs of them, as guided backprop makes them, channels last in memory."""
    generator = np.random.default_rng(0)
    maps = generator.standard_normal((5, 20, 21, 3)).astype(np.float32)
    maps *= generator.random(maps.shape) < 0.3
    maps, layout = maps.transpose(0, 3, 1, 2), Layout((3, 20, 21), unit, PAPER_LEVELS)
    np.testing.assert_array_equal(planes_there(maps, layout, where), encoded(maps, layout))


TIED = {  # maps of one image of 2 x 2 pixels and 3 channels, with the share of the features of each unit that tie most
    "all 0": (np.zeros((3, 2, 2)), {Unit.SCALAR: 1.0, Unit.PIXEL: 1.0}),
    "zeros of both signs": (np.array([0.0, -0.0, 1.0, 2.0] * 3).reshape(3, 2, 2), {Unit.SCALAR: 0.5, Unit.PIXEL: 0.5}),
    "no tie": (np.arange(12.0).reshape(3, 2, 2), {Unit.SCALAR: 1 / 12, Unit.PIXEL: 1 / 4}),
    "equal in float32": (1 + np.arange(12.0).reshape(3, 2, 2) * 1e-12, {Unit.SCALAR: 1.0, Unit.PIXEL: 1.0}),
    "one value for all channels": (np.arange(4.0).reshape(2, 2), {Unit.SCALAR: 1 / 4, Unit.PIXEL: 1 / 4}),
    "equal sums": (np.array([[1, 2, 0, 9], [2, 1, 3, 0], [0, 0, 0, 0.5]]).reshape(3, 2, 2), {Unit.PIXEL: 0.75}),
}


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("case", TIED)
def test_the_share_of_features_that_have_the_commonest_value(case, gpu, request):
    if gpu:
        request.getfixturevalue("as_on_gpu")
    maps, shares = TIED[case]
    ties = {d: draw_tie_order(np.arange(2), d) for d in (4, 12)}
    for unit, share in shares.items():
        both = torch.from_numpy(np.stack([maps, np.zeros_like(maps)]))
        layout = Layout((3, 2, 2), unit, PAPER_LEVELS)
        found = device_ranking.rank_to_bit_planes(both, ties[layout.features].__getitem__, layout)
        assert found.tied == [pytest.approx(share), 1.0]

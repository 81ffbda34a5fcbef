"""Bit-planes as a GPU makes them, on the processor's torch: byte for byte those of NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from roarbench.errors import RunError
from roarbench.kernels import device_ranking
from roarbench.kernels.bit_planes import Layout, encode
from roarbench.kernels.device_ranking import planes_of
from roarbench.kernels.ranking import features, sort_keys, tie_order
from roarbench.terms import PAPER_LEVELS, Unit
from tests.helpers.fake_gpu import GPU, fake_gpu

EVERY = (-2.5, -1.0, -0.0, 0.0, 1e-45, -1e-45, 1.0, 3.0, 3.4e38, -3.4e38)  # ties, both zeros, subnormals, the ends
FLOATS = st.one_of(st.sampled_from(EVERY), st.floats(width=32, allow_nan=False, allow_infinity=False))
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; this machine has none")
CPU = torch.device("cpu")


@pytest.fixture
def as_on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the way of maps on a GPU, wherever they are."""
    own = device_ranking._on_gpu

    class Claimed:
        def __init__(self, maps: torch.Tensor) -> None:
            self.is_cuda, self.shape = True, maps.shape

    monkeypatch.setattr(device_ranking, "_on_gpu", lambda maps, layout: own(Claimed(maps), layout))
    monkeypatch.setattr(device_ranking, "_ROWS", 2)


def expected(maps: NDArray[np.float32], layout: Layout) -> NDArray[np.uint8]:
    ties = tie_order(np.arange(len(maps)), layout.features)
    return encode(sort_keys(features(maps, layout.shape, layout.unit), ties), layout)


def found(maps: NDArray[np.float32], layout: Layout, where: torch.device = CPU) -> NDArray[np.uint8]:
    ties = torch.from_numpy(tie_order(np.arange(len(maps)), layout.features))
    return planes_of(torch.from_numpy(maps).to(where), ties.to(where), layout)


@pytest.mark.usefixtures("as_on_gpu")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # all examples are taken for maps on a GPU
@given(data=st.data())
def test_planes_are_the_processors(data):
    shape = (data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6)))
    unit = data.draw(st.sampled_from([Unit.SCALAR, Unit.PIXEL]))
    size = (data.draw(st.integers(1, 5)), *(shape if data.draw(st.booleans()) else shape[1:]))
    maps = data.draw(arrays(np.float32, size, elements=FLOATS))
    layout = Layout(shape, unit, PAPER_LEVELS)
    try:
        wanted = expected(maps, layout)
    except RunError as error:  # the sum of two of the largest numbers
        with pytest.raises(RunError) as told:
            found(maps, layout)
        assert str(told.value) == str(error)
    else:
        np.testing.assert_array_equal(found(maps, layout), wanted)


def large(unit: Unit) -> tuple[NDArray[np.float32], Layout]:
    """Maps of long runs of zeros of both signs, as guided backprop makes them, channels last in memory."""
    generator = np.random.default_rng(0)
    maps = generator.standard_normal((5, 20, 21, 3)).astype(np.float32)
    maps *= generator.random(maps.shape) < 0.3
    return maps.transpose(0, 3, 1, 2), Layout((3, 20, 21), unit, PAPER_LEVELS)


@pytest.mark.usefixtures("as_on_gpu")
def test_zeros_of_both_signs_tie():
    maps, layout = large(Unit.SCALAR)
    np.testing.assert_array_equal(found(maps, layout), expected(maps, layout))


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("unit", [Unit.SCALAR, Unit.PIXEL, Unit("patch:4")])
def test_planes_of_a_gpu(unit):
    maps, layout = large(unit)
    np.testing.assert_array_equal(found(maps, layout, torch.device("cuda")), expected(maps, layout))


def test_maps_on_a_gpu_are_ranked_there():
    """Squares are not: NumPy's order of additions is its own."""
    with fake_gpu():
        maps = torch.zeros(5, 3, 20, 21, device=GPU)
        for unit, there in ((Unit.SCALAR, True), (Unit.PIXEL, True), (Unit("patch:4"), False)):
            layout = Layout((3, 20, 21), unit, PAPER_LEVELS)
            assert device_ranking._on_gpu(maps, layout) is there
            assert not device_ranking._on_gpu(torch.zeros(5, 3, 20, 21), layout)

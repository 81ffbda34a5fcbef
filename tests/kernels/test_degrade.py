import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from roarbench.kernels.degrade import DegradedImages, RedrawnImages, RemovedMaps, degrade, unpack
from roarbench.terms import Unit

FINE = (Unit.SCALAR, Unit.PIXEL)  # whose features are single numbers or pixels
SQUARES = [unit for unit in Unit if unit.side > 1]
FILL = torch.tensor([120.25, 1 / 3, 255.0])


def slow_degrade(images: Tensor, removed: Tensor, fill: Tensor) -> list:
    """Pixel by pixel; `removed` has one channel or as many as the image."""
    n, channels, height, width = images.shape
    return [
        [
            [
                [
                    fill[c].item() if removed[i, c % removed.shape[1], y, x] else float(images[i, c, y, x])
                    for x in range(width)
                ]
                for y in range(height)
            ]
            for c in range(channels)
        ]
        for i in range(n)
    ]


def drawn(n: int, shape: tuple[int, int, int], unit: Unit, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random images and removed bits, not packed."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (n, *shape), dtype=torch.uint8, generator=generator)
    channels = shape[0] if unit is Unit.SCALAR else 1
    return pixels, torch.rand((n, channels, *shape[1:]), generator=generator) < 0.4


def packed(removed: Tensor) -> Tensor:
    return torch.from_numpy(np.packbits(removed.flatten(1).numpy(), axis=1))


def test_degrade_by_hand() -> None:
    images = torch.tensor([[[[0, 10]], [[20, 255]]]], dtype=torch.uint8)
    removed = torch.tensor([[[[True, False]], [[False, True]]]])
    result = degrade(images, removed, torch.tensor([0.1, 99.9]))
    torch.testing.assert_close(result, torch.tensor([[[[0.1, 10]], [[20, 99.9]]]]), rtol=0, atol=0)


@pytest.mark.parametrize("unit", FINE)
def test_degrade_replaces_features_one_by_one(unit: Unit) -> None:
    images, removed = drawn(3, (3, 4, 5), unit)
    before = images.clone(), removed.clone(), FILL.clone()
    result = degrade(images, removed, FILL)
    torch.testing.assert_close(result, torch.tensor(slow_degrade(images, removed, FILL)), rtol=0, atol=0)  # a selection
    for left, argument in zip(before, (images, removed, FILL), strict=True):
        assert torch.equal(left, argument)


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.sampled_from(FINE), st.integers(0, 10))
def test_unpack_reads_what_packbits_packed(channels: int, height: int, width: int, unit: Unit, seed: int) -> None:
    shape = (channels, height, width)
    _, removed = drawn(2, shape, unit, seed)
    result = unpack(packed(removed), shape, unit)
    assert result.dtype == torch.bool
    assert torch.equal(result, removed)


def squares(shape: tuple[int, int, int], unit: Unit, n: int = 3) -> tuple[Tensor, Tensor]:
    """Random bits over the squares of an image, and the same over its pixels, pixel by pixel."""
    side, (_, height, width) = int(unit.partition(":")[2]), shape
    rows, columns = math.ceil(height / side), math.ceil(width / side)
    bits = torch.rand((n, 1, rows, columns), generator=torch.Generator().manual_seed(3)) < 0.4
    over = torch.zeros((n, 1, height, width), dtype=torch.bool)
    for i in range(n):
        for y in range(height):
            for x in range(width):
                over[i, 0, y, x] = bits[i, 0, y // side, x // side]
    return bits, over


@pytest.mark.parametrize("shape", [(3, 16, 24), (3, 20, 13), (1, 5, 3)])
@pytest.mark.parametrize("unit", SQUARES)
def test_squares_are_removed_whole(shape: tuple[int, int, int], unit: Unit) -> None:
    bits, over = squares(shape, unit)
    assert torch.equal(unpack(packed(bits), shape, unit), over)
    pixels, _ = drawn(3, shape, Unit.PIXEL)
    batch = DegradedImages(pixels, packed(bits), FILL[: shape[0]], unit).batch(torch.arange(3))
    torch.testing.assert_close(batch, torch.tensor(slow_degrade(pixels, over, FILL)), rtol=0, atol=0)
    maps = RemovedMaps(shape, packed(bits), unit).batch(torch.arange(3))
    torch.testing.assert_close(maps, over.float().expand(3, *shape).contiguous(), rtol=0, atol=0)


def test_a_square_by_hand() -> None:
    """4 x 6 pixels in squares of 4: bit 1 is the right one, two columns wide."""
    removed = unpack(torch.tensor([[0b01000000]], dtype=torch.uint8), (3, 4, 6), Unit.PATCH_4)
    assert removed.tolist() == [[[[False] * 4 + [True] * 2] * 4]]


@pytest.mark.parametrize("unit", SQUARES)
def test_redrawn_squares_are_whole_and_as_many_as_asked(unit: Unit) -> None:
    shape, side = (3, 32, 16), int(unit.partition(":")[2])
    pixels = torch.full((400, *shape), 7, dtype=torch.uint8)
    images = RedrawnImages(pixels, 0.3, FILL, unit, torch.Generator().manual_seed(0)).batch(torch.arange(400))
    gone = (images[:, 0] != 7).reshape(400, 32 // side, side, 16 // side, side)
    first = gone[:, :, :1, :, :1]
    assert torch.equal(gone, first.expand_as(gone))
    count = first.numel()
    assert abs(int(first.sum()) - 0.3 * count) < 4.5 * math.sqrt(count * 0.3 * 0.7)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("unit", FINE)
def test_a_gpu_gives_the_same_batch(unit: Unit) -> None:
    pixels, removed = drawn(6, (3, 5, 7), unit)
    index = torch.tensor([5, 0, 3])
    on_gpu = DegradedImages(pixels.cuda(), packed(removed).cuda(), FILL.cuda(), unit).batch(index)
    assert on_gpu.is_cuda
    on_cpu = DegradedImages(pixels, packed(removed), FILL, unit).batch(index)
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=0, atol=0)


@pytest.mark.parametrize("unit", FINE)
def test_a_batch_is_the_chosen_images_with_their_features_replaced(unit: Unit) -> None:
    pixels, removed = drawn(6, (3, 5, 3), unit)  # 45 and 15 features: neither fills its bytes
    images = DegradedImages(pixels, packed(removed), FILL, unit)
    index = torch.tensor([5, 0, 0, 3])
    batch = images.batch(index)
    assert (len(images), batch.dtype, batch.shape) == (6, torch.float32, (4, 3, 5, 3))
    expected = torch.tensor(slow_degrade(pixels[index], removed[index], FILL))
    torch.testing.assert_close(batch, expected, rtol=0, atol=0)


def test_a_batch_may_be_changed_without_changing_the_images() -> None:
    pixels, removed = drawn(2, (3, 4, 4), Unit.PIXEL)
    for inputs in (
        DegradedImages(pixels, packed(removed), FILL, Unit.PIXEL),
        DegradedImages(pixels, None, FILL, Unit.PIXEL),
        RemovedMaps((3, 4, 4), packed(removed), Unit.PIXEL),
    ):
        first = inputs.batch(torch.arange(2))
        kept = first.clone()
        first.mul_(0).add_(7)
        assert (first == 7).all()
        torch.testing.assert_close(inputs.batch(torch.arange(2)), kept, rtol=0, atol=0)


@pytest.mark.parametrize("unit", FINE)
def test_removed_maps_are_one_where_removed(unit: Unit) -> None:
    _, removed = drawn(4, (3, 3, 5), unit)
    maps = RemovedMaps((3, 3, 5), packed(removed), unit)
    batch = maps.batch(torch.tensor([3, 1]))
    assert len(maps) == 4
    expected = removed[[3, 1]].float().expand(2, 3, 3, 5)
    torch.testing.assert_close(batch, expected.contiguous(), rtol=0, atol=0)


@pytest.mark.parametrize("unit", FINE)
def test_redrawn_images_are_the_draws_of_their_generator_in_order(unit: Unit) -> None:
    """Stored rows depend on it: one uniform number for each feature of each image, batch after batch."""
    pixels, _ = drawn(4, (3, 8, 8), unit)
    images = RedrawnImages(pixels, 0.3, FILL, unit, torch.Generator().manual_seed(3))
    generator, channels = torch.Generator().manual_seed(3), 3 if unit is Unit.SCALAR else 1
    for index in ([2, 0], [1, 3, 2]):
        gone = torch.rand(len(index), channels, 8, 8, generator=generator) < 0.3
        expected = torch.where(gone, FILL[:, None, None], pixels[index].float())
        torch.testing.assert_close(images.batch(torch.tensor(index)), expected, rtol=0, atol=0)

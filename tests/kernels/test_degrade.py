import math

import numpy as np
import pytest
import torch
from torch import Tensor

from roarbench.kernels.degrade import DegradedImages, RedrawnImages, RemovedMaps, degrade, unpack
from roarbench.terms import Unit
from tests.helpers.streamed import seeded

FILL = torch.tensor([120.25, 1 / 3, 255.0])


def slow_degrade(images: Tensor, removed: Tensor, fill: Tensor) -> Tensor:
    """Pixel by pixel; `removed` has one channel or as many as the image."""
    out = torch.zeros(images.shape)
    for i, c, y, x in np.ndindex(images.shape):
        out[i, c, y, x] = fill[c] if removed[i, c % removed.shape[1], y, x] else images[i, c, y, x]
    return out


def drawn(shape: tuple[int, int, int], unit: Unit) -> tuple[Tensor, Tensor, Tensor]:
    """Three random images; removed bits of their features, not packed; and the same over their pixels, one by one."""
    channels, height, width = shape[0] if unit is Unit.SCALAR else 1, *shape[1:]
    pixels = torch.randint(0, 256, (3, *shape), dtype=torch.uint8, generator=seeded(0))
    bits = torch.rand((3, channels, *(math.ceil(n / unit.side) for n in (height, width))), generator=seeded(3)) < 0.4
    over = torch.zeros((3, channels, height, width), dtype=torch.bool)
    for i, c, y, x in np.ndindex(over.shape):
        over[i, c, y, x] = bits[i, c, y // unit.side, x // unit.side]
    return pixels, bits, over


def packed(removed: Tensor) -> Tensor:
    return torch.from_numpy(np.packbits(removed.flatten(1).numpy(), axis=1))


def test_degrade_by_hand() -> None:
    images = torch.tensor([[[[0, 10]], [[20, 255]]]], dtype=torch.uint8)
    removed = torch.tensor([[[[True, False]], [[False, True]]]])
    result = degrade(images, removed, torch.tensor([0.1, 99.9]))
    torch.testing.assert_close(result, torch.tensor([[[[0.1, 10]], [[20, 99.9]]]]), rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(3, 16, 24), (3, 20, 13), (1, 5, 3)])
@pytest.mark.parametrize("unit", Unit)
def test_features_are_removed_whole_and_arguments_stay(shape: tuple[int, int, int], unit: Unit) -> None:
    """Also where features do not fill the last byte, and a side is no multiple of the squares'."""
    pixels, bits, over = drawn(shape, unit)
    index, fill = torch.tensor([2, 0, 0]), FILL[: shape[0]]
    chosen, before = pixels[index], pixels.clone()
    assert torch.equal(unpack(packed(bits), shape, unit), over)
    images, maps = DegradedImages(pixels, packed(bits), fill, unit), RemovedMaps(shape, packed(bits), unit)
    expected = slow_degrade(pixels[index], over[index], fill)
    torch.testing.assert_close(images.batch(index), expected, rtol=0, atol=0)
    torch.testing.assert_close(degrade(chosen, over[index], fill), expected, rtol=0, atol=0)
    marks = over[index].float().expand(3, *shape).contiguous()
    torch.testing.assert_close(maps.batch(index), marks, rtol=0, atol=0)
    assert (len(images), len(maps)) == (3, 3)
    assert torch.equal(pixels, before) and torch.equal(chosen, before[index])


def test_a_square_by_hand() -> None:
    """4 x 6 pixels in squares of 4: bit 1 is the right one, two columns wide."""
    removed = unpack(torch.tensor([[0b01000000]], dtype=torch.uint8), (3, 4, 6), Unit.PATCH_4)
    assert removed.tolist() == [[[[False] * 4 + [True] * 2] * 4]]


@pytest.mark.parametrize("unit", [unit for unit in Unit if unit.side > 1])
def test_redrawn_squares_are_whole_and_as_many_as_asked(unit: Unit) -> None:
    shape, side = (3, 32, 16), unit.side
    pixels = torch.full((400, *shape), 7, dtype=torch.uint8)
    images = RedrawnImages(pixels, 0.3, FILL, unit, seeded(0)).batch(torch.arange(400))
    gone = (images[:, 0] != 7).reshape(400, 32 // side, side, 16 // side, side)
    first = gone[:, :, :1, :, :1]
    assert torch.equal(gone, first.expand_as(gone))
    count = first.numel()
    assert abs(int(first.sum()) - 0.3 * count) < 4.5 * math.sqrt(count * 0.3 * 0.7)


def test_a_batch_may_be_changed_without_changing_the_images() -> None:
    pixels, _, removed = drawn((3, 4, 4), Unit.PIXEL)
    for inputs in (
        DegradedImages(pixels, packed(removed), FILL, Unit.PIXEL),
        DegradedImages(pixels, None, FILL, Unit.PIXEL),
        RemovedMaps((3, 4, 4), packed(removed), Unit.PIXEL),
    ):
        first = inputs.batch(torch.arange(3))
        kept = first.clone()
        first.mul_(0).add_(7)
        assert (first == 7).all()
        torch.testing.assert_close(inputs.batch(torch.arange(3)), kept, rtol=0, atol=0)


@pytest.mark.parametrize("unit", [Unit.SCALAR, Unit.PIXEL])
def test_redrawn_images_are_the_draws_of_their_generator_in_order(unit: Unit) -> None:
    """Stored rows depend on it: one uniform number for each feature of each image, batch after batch."""
    pixels, _, _ = drawn((3, 8, 8), unit)
    images = RedrawnImages(pixels, 0.3, FILL, unit, seeded(3))
    generator, channels = seeded(3), 3 if unit is Unit.SCALAR else 1
    for index in ([2, 0], [1, 0, 2]):
        gone = torch.rand(len(index), channels, 8, 8, generator=generator) < 0.3
        expected = torch.where(gone, FILL[:, None, None], pixels[index].float())
        torch.testing.assert_close(images.batch(torch.tensor(index)), expected, rtol=0, atol=0)

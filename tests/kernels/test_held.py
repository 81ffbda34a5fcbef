"""Images that are held for all epochs: moved as they would be before they were normalised, from the same draws."""

import pytest
import torch
from torch import Tensor

from roarbench.kernels.augment import augment
from roarbench.kernels.degrade import DegradedImages, RedrawnImages
from roarbench.kernels.held import MOVING, Held, fits, movable, moved
from roarbench.plan.recipe import Augmentation
from roarbench.terms import Unit
from tests.helpers.streamed import seeded


def images(n: int, channels: int, size: int) -> DegradedImages:
    pixels = torch.randint(0, 256, (n, channels, size, size), dtype=torch.uint8, generator=seeded(1))
    return DegradedImages(pixels, None, torch.zeros(channels), Unit.SCALAR)


@pytest.mark.parametrize("kind", sorted(MOVING))
@pytest.mark.parametrize("taken", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("channels", "size"), [(1, 28), (4, 16)])
def test_moving_is_augmenting_bit_for_bit(kind: Augmentation, taken: torch.dtype, channels: int, size: int) -> None:
    before = torch.rand(20, channels, size, size, generator=seeded(0)).to(taken)
    index = torch.randperm(20, generator=seeded(2))[:12]
    ready = movable(before, kind)
    kept, one, other = ready.clone(), seeded(3), seeded(3)
    found = moved(ready, index, size, kind, one)
    torch.testing.assert_close(found, augment(before[index], kind, other), rtol=0, atol=0)
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(one.get_state(), other.get_state(), rtol=0, atol=0)
    torch.testing.assert_close(ready, kept, rtol=0, atol=0)


def test_the_last_size_is_kept_and_made_once() -> None:
    made: list[tuple[int, ...]] = []

    def make(part: Tensor) -> Tensor:
        made.append(tuple(part.shape[1:]))
        return part + 1

    held = Held(images(40, 3, 8), make)
    for size in (4, 4, 8, 8, 4):
        assert held.at(size).shape == (40, 3, size, size)
    assert made == [(3, 4, 4)] * 2 + [(3, 8, 8)] * 2 + [(3, 4, 4)] * 2
    assert torch.equal(held.at(8), images(40, 3, 8).batch(torch.arange(40)) + 1)


def test_what_changes_between_readings_is_not_held() -> None:
    fixed = images(2, 3, 8)
    assert fits(fixed)
    assert not fits(RedrawnImages(fixed.pixels, 0.5, fixed.fill, fixed.unit, seeded(0)))

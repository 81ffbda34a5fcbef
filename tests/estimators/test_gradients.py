"""The three bases against captum, by hand, and on networks that are written differently."""

import copy

import pytest
import torch
from torch import Tensor, nn

from roarbench.errors import CallerError
from roarbench.estimators import IG_STEPS
from roarbench.estimators.families.gradients import base_maps, logit_gradients

BASES = {"grad", "gb", "ig"}


# 1e-10 of the largest value: float64 leaves 1e-16, some hundred summands in each layer and 25 points lose 2 to 4 digits
def assert_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10 * expected.abs().max().item())


@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU")  # captum's, on each guided backprop
@pytest.mark.parametrize("base", sorted(BASES))
def test_bases_are_captums(base, model, batch, black, captum_base):
    found = base_maps(model, batch.images, batch.targets, black, {base})[base]
    assert_same(found, captum_base(base, model, batch.images, batch.targets, black))


def linear(weights: list[list[float]]) -> nn.Linear:
    layer = nn.Linear(len(weights[0]), len(weights), bias=False)
    layer.weight.data = torch.tensor(weights, dtype=torch.float32)
    return layer


def test_bases_by_hand():
    first, second, last = linear([[1, 0.5], [1, -1]]), linear([[2, 0], [1, 0]]), linear([[1, -3], [7, 0]])
    model = nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), last).eval()
    image, black = torch.tensor([[[[1.0, 2.0]]]]), torch.zeros(1, 1, 1)
    maps = base_maps(model, image, torch.tensor([0]), black, BASES)
    # back: (1, -3) -> 1 * 2 - 3 * 1 = -1 at the first ReLU -> (-1, -0.5)
    torch.testing.assert_close(maps["grad"], torch.tensor([[[[-1.0, -0.5]]]]))
    # the -3 is not let through: (1, 0) -> 2 -> (2, 1)
    torch.testing.assert_close(maps["gb"], torch.tensor([[[[2.0, 1.0]]]]))
    # the same ReLUs are on along the whole path, so the gradient is constant; the sum is logit(x) - logit(0) = -2
    torch.testing.assert_close(maps["ig"], torch.tensor([[[[-1.0, -1.0]]]]))

    class Square(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x**2).flatten(1)

    image, black = torch.ones(1, 1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, 1, dtype=torch.float64)
    found = base_maps(Square().eval(), image, torch.tensor([0]), black, {"ig"})["ig"]
    # x * mean of 2 i/25 over i = 1 ... 25 = 26/25; points 0 ... 24 would give 24/25, midpoints 1
    torch.testing.assert_close(found.item(), 26 / 25, rtol=1e-12, atol=0)


def test_guided_backprop_needs_a_relu(batch):
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(5), nn.Tanh(), nn.Linear(5, 5)).double().eval()
    with pytest.raises(CallerError, match="the network has none"):
        logit_gradients(model, batch.images, batch.targets, {"gb"})
    assert set(logit_gradients(model, batch.images, batch.targets, {"grad"})) == {"grad"}


def test_points_of_the_path_are_those_from_the_broadcast_black_pixel_bit_for_bit(model, batch, black):
    images = batch.images.float().contiguous(memory_format=torch.channels_last)
    model, black = copy.deepcopy(model).float(), black.float()
    total = logit_gradients(model, images, batch.targets, {"grad"})["grad"]
    for i in range(1, IG_STEPS):
        point = torch.lerp(black, images, i / IG_STEPS)
        total = total + logit_gradients(model, point, batch.targets, {"grad"})["grad"]
    found = base_maps(model, images, batch.targets, black, {"ig"})["ig"]
    torch.testing.assert_close(found, (images - black) * total / IG_STEPS, rtol=0, atol=0)

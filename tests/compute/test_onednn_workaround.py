"""Weight gradients of bfloat16 convolutions match float64, whatever freed memory contains."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from roarbench.common.enums import Precision
from roarbench.compute.onednn_workaround import CorrectedGradients, has_weights_only_on_padding
from roarbench.compute.train import fit
from tests.helpers.trainings import NORM, RECIPE, pictures, seeded

CHANNELS = 32


def fill_freed_memory(kernel):
    """Fill memory blocks of the sizes that a convolution requests, and free them for the allocator to reuse."""
    sizes = (CHANNELS * kernel**2, CHANNELS * 64, CHANNELS * 32 * kernel**2)
    return len([torch.full((size,), 1e30) for size in sizes for _ in range(6)])


def draw_channels_last(*shape):
    return torch.randn(shape, generator=seeded(1)).contiguous(memory_format=torch.channels_last)


def assert_gradients_match_float64(images, weight, *settings, precision=torch.bfloat16):
    """Compare corrected gradients of a convolution with these settings, from its stride on."""
    with torch.autocast("cpu", torch.bfloat16, enabled=precision is torch.bfloat16), CorrectedGradients():
        found = F.conv2d(images, weight, None, *settings)
        back = torch.randn(found.shape, generator=seeded(2)).to(precision)
        got = torch.autograd.grad(found, [images, weight], back.contiguous(memory_format=torch.channels_last))
    exact = F.conv2d(images.double(), weight.double(), None, *settings)
    tolerance = 0.02 if precision is torch.bfloat16 else 1e-5  # 8 bits, in sums of up to 3,000 products
    for one, other in zip(got, torch.autograd.grad(exact, [images, weight], back.double()), strict=True):
        assert (one - other).norm() <= tolerance * other.norm(), (images.shape, settings)


@pytest.mark.parametrize("groups", [1, 4, CHANNELS])
@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 1), (3, 1), (3, 2), (5, 1), (7, 1)])
def test_corrected_bf16_gradients_match_float64(kernel, dilation, groups):
    reach = dilation * (kernel - 1)
    for stride, place, pad in itertools.product((1, 2, 3, 4), (1, 2, 3, 5), sorted({0, reach // 2, (reach + 1) // 2})):
        if place + 2 * pad <= reach:
            continue
        images = draw_channels_last(2, CHANNELS, place, place).requires_grad_()
        weight = draw_channels_last(CHANNELS, CHANNELS // groups, kernel, kernel).requires_grad_()
        fill_freed_memory(kernel)
        assert_gradients_match_float64(images, weight, stride, pad, dilation, groups)


def test_has_weights_only_on_padding_matches_hand_made_cases():
    """A 3 x 3 filter meets one pixel with its middle alone; with stride 2, one of its columns misses two pixels."""
    image, filter3 = torch.empty(1, 1, 1, 1), torch.empty(1, 1, 3, 3)
    assert has_weights_only_on_padding(image, filter3, [2, 2], [1, 1], [1, 1])
    assert has_weights_only_on_padding(image.expand(1, 1, 4, 2), filter3, [2, 2], [1, 1], [1, 1])  # to the left
    assert not has_weights_only_on_padding(image.expand(1, 1, 4, 4), filter3, [2, 2], [1, 1], [1, 1])
    assert not has_weights_only_on_padding(image.expand(1, 1, 3, 3), filter3, [3, 3], [0, 0], [1, 1])


def test_training_keeps_weights_that_meet_only_padding():
    """The sides are 16, 8, 4, 2, 1 and 1 pixels, so the last filters meet only one pixel, by their middle."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        filters = [nn.Conv2d(CHANNELS, CHANNELS, 3, 2, 1, bias=False) for _ in range(6)]
        last = nn.Linear(CHANNELS, 4)
        model = nn.Sequential(nn.Conv2d(3, CHANNELS, 1), *filters, nn.ReLU(), nn.Flatten(), last)
    before = [layer.weight.detach().clone() for layer in filters[-2:]]
    recipe = replace(RECIPE, epochs=1, batch=10, weight_decay=0.0, precision=Precision.BF16)
    fill_freed_memory(3)
    fit(model, *pictures(40), NORM, recipe, seed=0)
    middle = torch.zeros(3, 3, dtype=torch.bool)
    middle[1, 1] = True
    for layer, first in zip(filters[-2:], before, strict=True):
        torch.testing.assert_close(layer.weight[..., ~middle], first[..., ~middle], rtol=0, atol=0)
        assert (layer.weight[..., middle] != first[..., middle]).any()


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_strided_functional_projection_gradients_match_float64(precision):
    """With AVX-512, oneDNN's strided kernel writes past its workspace."""
    images, weight = (draw_channels_last(*shape).requires_grad_() for shape in ((8, 8, 112, 112), (16, 8, 1, 1)))
    assert_gradients_match_float64(images, weight, 2, precision=precision)

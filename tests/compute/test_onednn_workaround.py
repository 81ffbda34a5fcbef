"""Weight gradients of bfloat16 convolutions match float64, whatever freed memory contains."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from roarbench.common.enums import Precision
from roarbench.compute.networks import build_network
from roarbench.compute.onednn_workaround import CorrectedGradients, has_weights_only_on_padding
from roarbench.compute.train import fit
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import SUITES
from tests.helpers.streamed import seeded
from tests.helpers.trainings import NORM, RECIPE, pictures

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


class Padded(nn.Conv2d):
    """A convolution with its own forward."""

    def forward(self, x):
        return self._conv_forward(F.pad(x, (0, 0)), self.weight, None)


class Shrinking(nn.Module):
    """Functional and subclassed convolutions that shrink images to one pixel."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 1, bias=False)
        self.weights = nn.ParameterList(torch.randn(CHANNELS, CHANNELS, 3, 3) / 17 for _ in range(6))
        self.padded = Padded(CHANNELS, CHANNELS, 3, 2, 1, groups=CHANNELS, bias=False)
        self.last = nn.Linear(CHANNELS, 4)

    def forward(self, x):
        x = self.first(x)
        for weight in self.weights:  # 16, 8, 4, 2, 1, 1
            x = F.conv2d(x, weight, None, 2, 1).relu()
        return self.last(self.padded(x).flatten(1))


def test_training_keeps_weights_that_meet_only_padding():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Shrinking()
    filters = [*model.weights[-2:], model.padded.weight]
    before = [weight.detach().clone() for weight in filters]
    recipe = replace(RECIPE, epochs=1, batch=10, sides=(0.5, 1.0), weight_decay=0.0, precision=Precision.BF16)
    fill_freed_memory(3)
    fit(model, *pictures(40), NORM, recipe, seed=0)
    for weight, first in zip(filters, before, strict=True):
        met = torch.zeros(3, 3, dtype=torch.bool)
        met[1, 1] = True
        torch.testing.assert_close(weight[..., ~met], first[..., ~met], rtol=0, atol=0)
        assert (weight[..., met] != first[..., met]).any()


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_strided_functional_projection_gradients_match_float64(precision):
    """With AVX-512, oneDNN's strided kernel writes past its workspace."""
    images, weight = (draw_channels_last(*shape).requires_grad_() for shape in ((8, 8, 112, 112), (16, 8, 1, 1)))
    assert_gradients_match_float64(images, weight, 2, precision=precision)


def list_built_in_trainings():
    """List network, channels, side and recipe of the built-in suites on images of at most 64 pixels."""
    suites = [suite for suite in SUITES.values() if 1 < suite.dataset_record.size <= 64 and suite.model != "resnet50"]
    found = {
        (suite.model, suite.dataset_record.channels, suite.dataset_record.size, recipe)
        for suite in suites
        for recipe in (suite.recipe, suite.reference_recipe)
    }
    return sorted(found)


def test_built_in_suites_have_no_weights_only_on_padding():
    """The workaround therefore changes no published result."""
    for name, channels, size, recipe in list_built_in_trainings():
        seen = []

        def look(layer, inputs, seen=seen):
            settings = (layer.stride, layer.padding, layer.dilation)
            seen.append(has_weights_only_on_padding(inputs[0], layer.weight, *settings))

        model = build_network(name, 2, channels, size, seeded(0)).to("meta")
        for layer in model.modules():
            if isinstance(layer, nn.Conv2d) and max(layer.stride) > 1:
                layer.register_forward_pre_hook(look)
        for share in set(find_recipe(recipe).sides):
            model(torch.empty(2, channels, round(size * share), round(size * share), device="meta"))
        assert not any(seen), (name, size, recipe)

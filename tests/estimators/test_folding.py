"""Batch norms folded into convolutions: the same function, the same gradients, and guided backprop still works."""

import copy

import pytest
import torch
from torch import nn

from roarbench.estimators.families.gradients import logit_gradients
from roarbench.estimators.folding import folded
from roarbench.models.build import build


@pytest.fixture(params=["resnet-quick", "resnet8", pytest.param("resnet18", marks=pytest.mark.slow)])
def model(request):
    """A network in float64 whose batch norms do something."""
    generator = torch.Generator().manual_seed(0)
    made = build(request.param, 10, 3, 32, generator)
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean = torch.randn(module.num_features, generator=generator)
            module.running_var = torch.rand(module.num_features, generator=generator) + 0.5
            nn.init.uniform_(module.weight, 0.5, 1.5, generator)
            nn.init.uniform_(module.bias, -0.5, 0.5, generator)
    return made.double().eval()


@pytest.mark.parametrize("rule", ["grad", "gb"])
def test_logits_and_gradients_are_the_same(model, rule):
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    short = folded(model)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in short.modules())
    torch.testing.assert_close(short(images), model(images))
    targets = torch.tensor([0, 3, 5, 9])
    here, there = (logit_gradients(each, images, targets, {rule})[rule] for each in (short, model))
    torch.testing.assert_close(here, there)
    assert here.abs().max() > 0


def test_the_network_is_left_as_it_is(model):
    before = copy.deepcopy(model.state_dict())
    assert not folded(model).training
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)

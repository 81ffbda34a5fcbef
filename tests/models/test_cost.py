"""What networks cost: torch's own counter as oracle, and the published sizes of ResNet-50."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from roarbench.models.build import build
from roarbench.models.cost import network_cost


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"), [("resnet8", 32), ("resnet-quick", 64), ("resnet18", 32), ("convnext-quick", 32)]
)
def test_operations_are_those_that_torch_counts(name, size):
    model = build(name, 7, 3, size, torch.Generator()).eval()
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 3, size, size))
    cost = network_cost(name, 7, 3, size)
    assert cost.flops == counter.get_total_flops()
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_attention_by_hand():
    """vit-quick at 32: 64 patches of 4 pixels and a class token of 64 numbers, 4 layers, 7 logits."""
    tokens, width, layers = 65, 64, 4
    attention = 8 * tokens * width**2 + 4 * tokens**2 * width  # projections; scores and sums over values
    mlp = 2 * 2 * tokens * width * 2 * width
    patches, head = 2 * 64 * (3 * 4 * 4) * width, 2 * width * 7
    assert network_cost("vit-quick", 7, 3, 32).flops == layers * (attention + mlp) + patches + head


@pytest.mark.slow
def test_resnet50_as_published():
    """25,557,032 parameters and 4.09 G multiply-adds: torchvision's documentation of the weights IMAGENET1K_V1."""
    cost = network_cost("resnet50", 1000, 3, 224)
    assert cost.parameters == 25_557_032
    assert cost.flops / 2e9 == pytest.approx(4.09, abs=0.005)

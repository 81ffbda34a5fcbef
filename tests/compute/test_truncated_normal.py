"""Initial weights from a truncated normal distribution are the same with every version of torch."""

import math

import pytest
import torch
from torch.nn import init

from roarbench.compute.networks import build_network, fill_truncated_normal
from tests.helpers.trainings import seeded

BOUNDS = [
    (0.0, 0.02, -2.0, 2.0),
    (0.0, 1.0, -0.5, 0.8),
    (0.0, 1.0, 1.0, 3.0),
    (-1.0, 2.0, 2.5, 9.0),
    (0.0, 1.0, -0.1, 0.1),
]


def invert_distribution(tensor, mean, std, a, b, generator=None):
    """Truncated normal draws as in torch 2.11, which inverts the distribution function."""
    low, high = (math.erf((bound - mean) / std / math.sqrt(2)) for bound in (a, b))
    with torch.no_grad():
        tensor.uniform_(low, high, generator=generator).erfinv_().mul_(std * math.sqrt(2)).add_(mean)
        return tensor.clamp_(a, b)


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch up to 2.11 draws by another algorithm")
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_draws_equal_those_of_torch(bounds, dtype):
    found = fill_truncated_normal(torch.empty(7, 300, dtype=dtype).T, *bounds, seeded(3))
    expected = init.trunc_normal_(torch.empty(7, 300, dtype=dtype).T, *bounds, seeded(3))
    assert torch.equal(found, expected)
    assert found.min() >= bounds[2] and found.max() <= bounds[3] and found.unique().numel() > 20


@pytest.mark.parametrize("name", ["vit-quick", "convnext-quick", "own"])
def test_networks_do_not_depend_on_algorithm_of_torch(name, monkeypatch):
    source = ""
    if name == "own":
        source = """
from torch import nn
from torch.nn.init import trunc_normal_
def own(classes, channels, size):
    network = nn.Sequential(nn.Flatten(), nn.Linear(channels * size**2, classes))
    trunc_normal_(network[1].weight, std=0.02)
    return network
"""
    expected = build_network(name, 3, 3, 32, seeded(5), source).state_dict()
    monkeypatch.setattr(init, "_no_grad_trunc_normal_", invert_distribution)
    torch.testing.assert_close(build_network(name, 3, 3, 32, seeded(5), source).state_dict(), expected, atol=0, rtol=0)
    assert init._no_grad_trunc_normal_ is invert_distribution

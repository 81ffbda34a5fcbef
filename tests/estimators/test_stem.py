"""A path that passes the stem once gives the maps of one that passes it at every point, but for rounding."""

import copy

import pytest
import torch
from torch import nn

from roarbench.estimators.base import PAPERS
from roarbench.estimators.families.gradients import base_maps
from roarbench.estimators.stem import Divided, divided, folded
from roarbench.models.build import build
from tests.helpers.networks import CLASSES, SIDE

BASES = {"grad", "gb", "ig"}


def assert_same(found, expected):
    """Hold maps in float64 against each other, to 1e-12 of the largest value."""
    assert set(found) == set(expected)
    for name, theirs in expected.items():
        largest = theirs.abs().max().item()
        assert largest > 0
        torch.testing.assert_close(found[name], theirs, rtol=0, atol=1e-12 * largest)


@pytest.mark.parametrize(
    ("baseline", "bases"), [("black", {"ig"}), ("mean", {"gb", "ig"}), ("blur", BASES), ("black", {"grad", "gb"})]
)
def test_a_path_through_the_rest_alone_gives_the_same_maps(model, batch, black, baseline, bases):
    before = copy.deepcopy(model.state_dict())
    short, settings = divided(folded(model)), PAPERS._replace(baseline=baseline, steps=5)
    assert isinstance(short, Divided)
    assert not any(module.training or isinstance(module, nn.BatchNorm2d) for module in short.modules())
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    logits = []
    both = [
        base_maps(each, batch.images, batch.targets, black, bases, logits.append, settings) for each in (model, short)
    ]
    assert_same(both[1], both[0])
    torch.testing.assert_close(*logits, rtol=1e-12, atol=1e-12)


def test_the_stem_is_passed_at_the_ends_of_a_path_and_back_once_for_each_map(model, batch, black):
    short = divided(folded(model))
    passes = []
    short.stem.register_forward_hook(lambda module, images, out: passes.append(len(images[0])))
    backs = []
    short.stem.register_full_backward_hook(lambda module, into, out: backs.append(len(out[0])))
    base_maps(short, batch.images.clone().requires_grad_(), batch.targets, black, BASES)
    assert (passes, backs) == ([3, 3], [3, 3, 3])


class TwoWays(nn.Module):
    """Two convolutions meet the images, so that neither is a stem."""

    def __init__(self):
        super().__init__()
        self.here, self.there, self.last = nn.Conv2d(3, 2, 3), nn.Conv2d(3, 2, 3), nn.Linear(2, CLASSES)

    def forward(self, x):
        return self.last(torch.relu(self.here(x) + self.there(x)).mean((2, 3)))


def perceptron():
    return build("mlp", CLASSES, 3, SIDE, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "make", [TwoWays, perceptron, lambda: nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(432, 5))]
)
def test_a_network_without_a_stem_stays_whole(make, batch, black):
    model = make().double().eval()
    short = divided(folded(model))
    assert not isinstance(short, Divided)
    both = [base_maps(each, batch.images, batch.targets, black, {"grad", "ig"}) for each in (model, short)]
    assert_same(both[1], both[0])

"""LRP: by hand, its cost, and the networks that it does not take."""

import pytest
import torch
from torch import Tensor, nn

from roarbench.errors import RunError
from roarbench.estimators.base import Batch
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import importance_maps, passes
from roarbench.estimators.relevance import unrolled
from roarbench.models.build import build

ASKED = find_estimator("lrp")


def relevance(model: nn.Module, batch: Batch) -> Tensor:
    return importance_maps([ASKED], model, batch, torch.zeros(batch.images.shape[1], 1, 1))["lrp"]


def alone(*numbers: float) -> Batch:
    """One image of one pixel."""
    return Batch(torch.tensor(numbers).view(1, -1, 1, 1), torch.tensor([0]), torch.tensor([0]))


def dense(*rows: tuple[float, ...]) -> nn.Linear:
    layer = nn.Linear(len(rows[0]), len(rows), bias=False)
    layer.weight.data = torch.tensor(rows)
    return layer


def convolution(*rows: tuple[float, ...]) -> nn.Conv2d:
    layer = nn.Conv2d(len(rows[0]), len(rows), 1, bias=False)
    layer.weight.data = torch.tensor(rows)[:, :, None, None]
    return layer


def test_the_rules_epsilon_and_z_plus_by_hand():
    model = nn.Sequential(nn.Flatten(), dense((1.0, -1.0), (1.0, 1.0)), nn.ReLU(), dense((3.0, 5.0))).eval()
    found = relevance(model, alone(2.0, 1.0))
    torch.testing.assert_close(found.flatten(), torch.tensor([16.0, 2.0]))
    unit = convolution((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    model = nn.Sequential(unit, nn.ReLU(), convolution((1.0, -1.0, 1.0)), nn.ReLU(), nn.Flatten(), dense((2.0,))).eval()
    found = relevance(model, alone(3.0, 1.0, 2.0))
    torch.testing.assert_close(found.flatten(), torch.tensor([8 * 3 / 5, 0.0, 8 * 2 / 5]))


class Residual(nn.Module):
    """Two convolutions of one weight, 1 and 2, with biases, 1 and -1, the second beside the identity; then the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1), dense((1.0,), (0.0,))
        for layer, weight, bias in ((self.first, 1.0, 1.0), (self.second, 2.0, -1.0)):
            nn.init.constant_(layer.weight, weight)
            nn.init.constant_(layer.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        x = torch.relu(self.second(x) + x)
        return self.last(x.mean(dim=(2, 3)))


def test_branches_biases_and_means_by_hand():
    # a = (1, 3), b = a + 1 = (2, 4), c = 2 b - 1 = (3, 7), c + b = (5, 11), its mean and the logit 8; the places have
    # 8 * 5 / 16 = 2.5 and 5.5, of which the branches have 3 : 2 and 7 : 4; z+ leaves out the bias and passes all on, so
    # b has 2.5 and 5.5 again; the first bias keeps 1 of 2 parts and 1 of 4
    found = relevance(Residual().eval(), Batch(torch.tensor([[[[1.0, 3.0]]]]), torch.tensor([0]), torch.tensor([0])))
    torch.testing.assert_close(found.flatten(), torch.tensor([1.25, 4.125]))


@pytest.mark.parametrize("name", ["resnet-quick", "resnet50", "torchvision:vgg11"])
@pytest.mark.slow
def test_what_is_followed_is_the_network(name):
    model = build(name, 5, 3, 32, torch.Generator().manual_seed(0)).eval()
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(unrolled(model)(images), model(images), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "step"),
    [
        (lambda: build("convnext-quick", 5, 3, 32, torch.Generator().manual_seed(0)), "GELU|LayerNorm"),
        (lambda: nn.Sequential(nn.Conv2d(3, 5, 12), nn.ReLU6(), nn.Flatten()), "ReLU6"),
    ],
)
def test_networks_with_other_steps_are_refused_in_one_line(make, step, batch):
    model = make().eval()
    with pytest.raises(RunError, match=rf"^lrp has no rule for ({step}), which the network has; leave it out$"):
        relevance(model, batch)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.same, self.last = nn.Conv2d(3, 3, 1), nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.same(self.same(x).relu()).relu().mean((2, 3)))


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) if x.sum() > 0 else x.amax((2, 3))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Twice(), "lrp takes a module once and same is used twice; leave it out"),
        (Branching(), "lrp cannot follow the steps of Branching; leave it out"),
    ],
)
def test_networks_that_cannot_be_followed_are_refused(model, words, batch):
    with pytest.raises(RunError, match=f"^{words}$"):
        relevance(model.double().eval(), batch)


def test_passes_are_counted(model, batch, monkeypatch):
    counted, plain = [], nn.Linear.forward

    def counting(layer: nn.Linear, x: Tensor) -> Tensor:
        logits = plain(layer, x)
        counted.append("forward")
        if logits.requires_grad:
            logits.register_hook(lambda back: counted.append("backward"))
        return logits

    monkeypatch.setattr(nn.Linear, "forward", counting)
    relevance(model, batch)
    assert (counted.count("forward"), counted.count("backward")) == passes([ASKED]) == (2, 1)

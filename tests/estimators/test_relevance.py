"""LRP: derived again matrix by matrix, by hand, its sum, its cost, and the networks that it does not take."""

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


def matrix(layer: nn.Module, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """Weights (numbers out, numbers in) and biases of a layer, from what it answers to one number at a time."""
    with torch.no_grad():
        bias = layer(torch.zeros(1, *shape, dtype=torch.float64)).flatten()
        units = torch.eye(shape.numel(), dtype=torch.float64).view(-1, *shape)
        return (layer(units).flatten(1) - bias).T, bias


def passed_on(weights: Tensor, bias: Tensor, incoming: Tensor, above: Tensor, positive: bool = False) -> Tensor:
    """The relevance of each number that comes in, one after the other."""
    if positive:
        weights, bias = weights.clamp(min=0), torch.zeros_like(bias)
    below = torch.zeros_like(incoming)
    for j, of_one in enumerate(above.tolist()):
        parts = weights[j] * incoming
        total = parts.sum() + bias[j]
        if of_one and total:  # where nothing speaks for a number, what it was given is lost
            below += of_one * parts / total
    return below


def derived(model: nn.Module, image: Tensor, target: int) -> Tensor:
    """LRP of `Residual`, backwards through its layers as matrices."""
    first, second, last = model.first, model.second, model.last
    with torch.no_grad():
        a = image[None]
        b = first(a).relu()
        c = second(b)
        d = (c + b).relu()
        e = d.mean((2, 3))
        logits = last(e)[0]
    above = torch.zeros_like(logits)
    above[target] = logits[target]
    above = passed_on(*matrix(last, e.shape[1:]), e[0], above)  # of the means
    sums = d[0].sum((1, 2), keepdim=True)
    above = above[:, None, None] * (d[0] / sums).where(sums > 0, torch.zeros_like(d[0]))  # of places, then
    shares = above / (c + b)[0].where(d[0] > 0, torch.ones_like(d[0]))  # of the two branches
    through = passed_on(*matrix(second, b.shape[1:]), b.flatten(), (shares * c[0]).flatten(), positive=True)
    above = through + (shares * b[0]).flatten()
    return passed_on(*matrix(first, a.shape[1:]), a.flatten(), above).view(image.shape)


class Residual(nn.Module):
    """Two convolutions with biases, the second beside the identity; its batch norms are the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(2, 3, 3), nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        x = torch.relu(self.second(x) + x)
        return self.last(x.mean(dim=(2, 3)))


def test_relevance_again_matrix_by_matrix():
    torch.manual_seed(0)
    model = Residual().double().eval()
    images = torch.randn(3, 2, 6, 6, dtype=torch.float64)
    batch = Batch(images, torch.tensor([0, 3, 1]), torch.arange(3))
    slow = [derived(model, image, target) for image, target in zip(images, batch.targets.tolist(), strict=True)]
    torch.testing.assert_close(relevance(model, batch), torch.stack(slow), rtol=1e-6, atol=1e-9)  # epsilon is 1e-9


@pytest.mark.parametrize("name", ["resnet-quick", "resnet50", "torchvision:vgg11"])
@pytest.mark.slow
def test_what_is_followed_is_the_network(name):
    model = build(name, 5, 3, 32, torch.Generator().manual_seed(0)).eval()
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(unrolled(model)(images), model(images), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "step"),
    [("convnext-quick", "GELU|LayerNorm"), ("torchvision:mobilenet_v2", "ReLU6")],
)
def test_networks_with_other_steps_are_refused_in_one_line(name, step, batch):
    model = build(name, 5, 3, 32, torch.Generator().manual_seed(0)).eval()
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

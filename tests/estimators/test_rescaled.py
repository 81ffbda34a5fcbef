"""DeepLIFT: by hand, and contributions that add up on every network that has a rule."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from roarbench.estimators.base import Batch
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import importance_maps
from roarbench.estimators.rescaled import Rescaled
from roarbench.models.build import build
from tests.helpers.networks import CLASSES, randomised


def explained(network: nn.Module, images: Tensor, black: Tensor, name: str = "deeplift") -> tuple[Tensor, Tensor]:
    """The sums of contributions, and the differences of the logits from those of the baseline."""
    with torch.no_grad():
        targets = network(images).argmax(1)
        start = torch.zeros_like(images) if "mean" in name else black.to(images).expand_as(images)
        differences = (network(images) - network(start)).gather(1, targets[:, None])[:, 0]
    batch = Batch(images, targets, torch.arange(len(images)))
    found = importance_maps([find_estimator(name)], network, batch, black.to(images))[name]
    return found.sum((1, 2, 3)), differences


def test_by_hand():
    # x = (2, 1), x0 = 0: z = (2 - 1, 2 + 1 - 4) = (1, -1), z0 = (0, -4); y = (1, 0), y0 = (0, 0): slopes 1/1 and 0/3
    first, last = nn.Linear(2, 2), nn.Linear(2, 1, bias=False)
    first.weight.data, first.bias.data = torch.tensor([[1.0, -1.0], [1.0, 1.0]]), torch.tensor([0.0, -4.0])
    last.weight.data = torch.tensor([[3.0, 5.0]])
    model = nn.Sequential(nn.Flatten(), first, nn.ReLU(), last).eval()
    one = Batch(torch.tensor([[[[2.0, 1.0]]]]), torch.tensor([0]), torch.tensor([0]))
    # multipliers (3 * 1, 5 * 0) at z, so (3, -3) at x; times x - x0
    found = importance_maps([find_estimator("deeplift")], model, one, torch.zeros(1, 1, 1))["deeplift"]
    torch.testing.assert_close(found, torch.tensor([[[[6.0, -3.0]]]]))


@pytest.mark.parametrize(
    ("x", "start", "multipliers"),
    [
        # maxima rise by 1 and by 3, at the place of the image's, which rose by 3
        ((1.0, 5.0, 2.0), (4.0, 2.0, 0.0), (0.0, 1 / 3 + 3 / 3, 0.0)),
        # the first falls by 2, at the place of the baseline's, which fell by 3; the other rises by 2, as its place does
        ((1.0, 2.0, 3.0), (4.0, 0.0, 1.0), (2 / 3, 0.0, 2 / 2)),
    ],
)
def test_overlapping_windows_of_a_max_pool_by_hand(x, start, multipliers):
    both = torch.tensor([x, start], dtype=torch.float64).view(2, 1, 1, 3).requires_grad_()
    with Rescaled():
        out = nn.MaxPool2d((1, 2), stride=1)(both)
    (found,) = torch.autograd.grad(out.sum(), both)
    torch.testing.assert_close(found[0].flatten(), torch.tensor(multipliers, dtype=torch.float64))


class Functional(nn.Module):
    """No step is a module, one is used twice, some are in place."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.relu, self.last = nn.ReLU(inplace=True), nn.Linear(8 * 36, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.relu(self.one(x)), 3, stride=2, padding=1)
        x = self.relu(self.two(x)).add_(x)
        return self.last(torch.sigmoid(x - 1).flatten(1)) + self.last(F.leaky_relu(x).relu_().flatten(1))


def network_of(name: str, size: int) -> nn.Module:
    if name == "functional":
        torch.manual_seed(0)
        return Functional().eval()
    generator = torch.Generator().manual_seed(1)
    return randomised(build(name, CLASSES, 3, size, generator), generator)


@pytest.mark.parametrize(
    ("network", "size", "estimator"),
    [
        ("functional", 12, "deeplift"),
        ("functional", 12, "deeplift(baseline=mean)"),
        ("torchvision:squeezenet1_1", 72, "deeplift"),  # max-pools
    ],
)
def test_contributions_add_up_to_the_difference(network, size, estimator, black):
    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    sums, differences = explained(network_of(network, size).double(), images, black, estimator)
    assert (differences.abs() > 0).all()
    torch.testing.assert_close(sums, differences, rtol=1e-9, atol=0)

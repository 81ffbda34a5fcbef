"""Guided backprop's ReLU against hooks on the ReLUs of torch, which it took the place of: the same bits."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from roarbench.estimators.families.gradients import logit_gradients
from roarbench.estimators.guided import Guided
from roarbench.models.build import build


def hooked(model: nn.Module, images: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Both rules by one graph, in which a hook on each ReLU lets only positive gradients in."""
    inputs = images.detach().requires_grad_()
    total = model(inputs).gather(1, targets[:, None]).sum()
    (grad,) = torch.autograd.grad(total, inputs, retain_graph=True)
    found, front = {total.grad_fn}, [total.grad_fn]
    while front:
        parents = {node for node, _ in front.pop().next_functions if node is not None} - found
        found |= parents
        front += parents
    relus = [node for node in found if node.name() == "ReluBackward0"]
    assert relus
    for node in relus:
        node.register_prehook(lambda gradients: tuple(gradient.clamp(min=0) for gradient in gradients))
    (guided,) = torch.autograd.grad(total, inputs)
    return {"grad": grad, "gb": guided}


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def network(name: str, size: int) -> nn.Module:
    """In eval mode; gammas that start at 0 would leave the residual blocks out."""
    model = build(name, 4, 3, size, seeded()).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
    return model


class Reused(nn.Module):
    """One in-place ReLU module used twice, its value taken once and left once, and functions of torch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        self.relu(x)
        x = self.relu(self.second(x)) + x
        x = relu(x - 0.1, inplace=True) + torch.relu(input=x - 0.3) + (x - 0.2).relu_()
        return self.last(x.mean((2, 3)).relu())


LAST = torch.channels_last


@pytest.mark.parametrize(
    ("name", "form"),
    [("resnet-quick", torch.contiguous_format), ("resnet-quick", LAST), ("reused", LAST)],
)
def test_every_relu_has_the_bits_of_hooks(name, form):
    model, targets = Reused().eval() if name == "reused" else network(name, 32), torch.tensor([0, 3, 1])
    images = torch.randn(3, 3, 32, 32, generator=seeded()).contiguous(memory_format=form)
    found, expected = logit_gradients(model, images, targets, {"grad", "gb"}), hooked(model, images, targets)
    alone = logit_gradients(model, images, targets, {"gb"})
    torch.testing.assert_close(found, expected, rtol=0, atol=0, check_stride=name == "reused")
    torch.testing.assert_close(alone["gb"], expected["gb"], rtol=0, atol=0)
    assert not torch.equal(found["gb"], found["grad"])


def test_gradients_at_zero_and_without_numbers_are_those_of_torch():
    x = torch.tensor([-1.0, -0.0, 0.0, 2.0, float("nan"), float("inf")], requires_grad=True)
    back = torch.tensor([1.0, 2.0, 3.0, float("nan"), 5.0, 6.0])
    with Guided() as guide:
        y = x.relu()
    (expected,) = torch.autograd.grad(x.relu(), x, back)
    (found,) = torch.autograd.grad(y, x, back, retain_graph=True)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    guide.on = True
    (guided,) = torch.autograd.grad(y, x, -back)
    assert guided[5] == 0 < found[5]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")  # the compiler's, of its own making
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_is_compiled_in_one_graph(backend):
    """`fullgraph` fails where a graph breaks; `aot_eager` traces the backward pass too."""
    model, images = network("resnet-planted", 16), torch.randn(2, 3, 16, 16, generator=seeded())

    def forward(x: Tensor) -> Tensor:
        with Guided(on=True):
            logits: Tensor = model(x)
        return logits

    targets = torch.tensor([2, 0])
    inputs = images.detach().requires_grad_()
    logits = torch.compile(forward, fullgraph=True, backend=backend)(inputs)
    (found,) = torch.autograd.grad(logits.gather(1, targets[:, None]).sum(), inputs)
    expected = logit_gradients(model, images, targets, {"gb"})["gb"]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 * expected.abs().max().item())

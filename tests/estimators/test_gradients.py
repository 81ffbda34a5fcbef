"""Gradients and guided backprop equal hooks; integrated gradients equal their path, also with a split stem."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import relu

from roarbench.common.errors import CallerError
from roarbench.compute.networks import build_network
from roarbench.estimators.compute_maps import MapRequest, compute_base_maps
from roarbench.estimators.estimator import IG_STEPS, PAPER_SETTINGS
from roarbench.estimators.families.gradients import compute_logit_gradients
from roarbench.estimators.network_copies import SplitStem, fold_batchnorm, split_after_first_convolution
from tests.helpers.networks import CLASSES, SIDE, assert_near, randomise_weights
from tests.helpers.trainings import seeded

BASES = {"grad", "gb", "ig"}


def test_integrated_gradients_equal_sum_over_lerp_path(model, batch, black):
    images = batch.images.float().contiguous(memory_format=torch.channels_last)
    model, black = copy.deepcopy(model).float(), black.float()
    total = compute_logit_gradients(model, images, batch.targets, {"grad"})["grad"]
    for i in range(1, IG_STEPS):
        point = torch.lerp(black, images, i / IG_STEPS)
        total = total + compute_logit_gradients(model, point, batch.targets, {"grad"})["grad"]
    found = compute_base_maps(MapRequest(set(), model, batch, black), images, {"ig"})["ig"]
    torch.testing.assert_close(found, (images - black) * total / IG_STEPS, rtol=0, atol=0)


def compute_gradients_by_hooks(model, images, targets):
    """Compute gradient and guided backprop by one graph with a hook on each ReLU that clamps gradients at 0."""
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


class Reused(nn.Module):
    """One in-place ReLU module used twice, with and without its return value, and functional ReLUs."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 4)
        self.relu = nn.ReLU(inplace=True)
        nn.init.zeros_(self.first.bias)

    def forward(self, x):
        x = self.first(x)
        self.relu(x)
        x = self.relu(self.second(x)) + x
        x = relu(x - 0.1, inplace=True) + torch.relu(input=x - 0.3) + (x - 0.2).relu_()
        return self.last(x.mean((2, 3)).relu())


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", ["resnet-quick", "reused"])
def test_guided_backprop_equals_relu_hooks(name, form):
    model = Reused().eval()
    if name != "reused":
        model = randomise_weights(build_network(name, 4, 3, 32, seeded(0)), seeded(1))
    images = torch.randn(3, 3, 32, 32, generator=seeded(2)).contiguous(memory_format=form)
    images[1], targets = 0, torch.tensor([0, 3, 1])  # also at 0
    found = compute_logit_gradients(model, images, targets, {"grad", "gb"})
    expected = compute_gradients_by_hooks(model, images, targets)
    alone = compute_logit_gradients(model, images, targets, {"gb"})
    torch.testing.assert_close(found, expected, rtol=0, atol=0, check_stride=name == "reused")
    torch.testing.assert_close(alone["gb"], expected["gb"], rtol=0, atol=0)
    assert not torch.equal(found["gb"], found["grad"])


ZERO = torch.zeros(())


def script_module(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(module)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


@pytest.mark.parametrize(
    ("step", "named"),
    [
        (nn.SiLU(), "silu"),
        (lambda x: x * torch.sigmoid(1.702 * x), r"x \* f\(x\)"),
        (lambda x: x / 2 * (1 + torch.tanh(0.8 * (x + 0.04 * x**3))), r"x \* f\(x\)"),  # GELU
        (lambda x: x * functional.hardsigmoid(x), r"x \* f\(x\)"),
        (lambda x: torch.maximum(x, 0.1 * x), r"max\(x, f\(x\)\)"),
        (lambda x: (x + x.abs()) / 2, r"x \+ \|x\|"),
        (lambda x: x * (x > 0), "comparisons with 0"),
        (lambda x: x.masked_fill(x.le(0), 0), "comparisons with 0"),
        (lambda x: x - (1 - (x > 0).to(x.dtype)) * x, "comparisons with 0"),
        (lambda x: x.clone().index_put_((x < 0,), ZERO), "comparisons with 0"),
        (lambda x: x * (1 + torch.sign(x)), r"x \* f\(x\)"),
        (nn.GELU(), "gelu"),
        (lambda x: x.clamp(min=0), "clamp"),
        (lambda x: x - x.clamp(max=0), "clamp"),
        (lambda x: -(-x).clamp_max(0), "clampmax"),
        (lambda x: x.logaddexp(ZERO), "logaddexp"),
        (lambda x: x * x.exp().log1p().tanh(), r"x \* f\(x\)"),  # Mish
        (lambda x: functional.threshold(x, 0, 0), "threshold"),
        (lambda x: torch.maximum(x, ZERO), "maximum"),
        (nn.LeakyReLU(), "leakyrelu"),
        (lambda x: torch.where(x > 0, x, ZERO), "where"),
        (Doubled.apply, "Doubled"),
        (script_module(nn.ReLU()), "ReLUs in a script or a custom autograd function"),
    ],
)
def test_guided_backprop_rejects_other_rectifiers_by_name(step, named):
    images, targets = torch.randn(2, 3, 8, 8, generator=seeded(1)), torch.tensor([1, 2])
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), Named(step), nn.Flatten())
    with pytest.raises(CallerError, match=f"^guided backprop supports only ReLUs, but the network also has {named}; "):
        compute_logit_gradients(model, images, targets, {"gb"})


class Named(nn.Module):
    """A module that calls a function."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, x):
        return self.step(x)


def average(x):
    return x.mean((2, 3), keepdim=True)


def watch_signs(x):
    assert (x.abs() >= 0).all()
    assert 0 <= (x > 0).float().mean() <= 1
    return x if (average(x) > 0).all() else 1 * x


def mask_channels(x):
    """Let channels attend to each other, apart from those whose sum is not positive."""
    rows = x.flatten(2)
    attention = (rows @ rows.mT).masked_fill(~(rows.sum(2) > 0)[:, None], -1e4).softmax(2)
    return (attention @ rows).reshape(x.shape)


def test_guided_backprop_accepts_gates_pools_and_clamps():
    """None of these operations is a rectifier; `normalize` clamps its norm at a small number."""
    images, targets = torch.randn(2, 3, 8, 8, generator=seeded(1)), torch.tensor([1, 2])
    gate = nn.Conv2d(4, 4, 1)
    steps = (
        lambda x: x * gate(x).sigmoid(),
        lambda x: (x - average(x)) * (average(x * x) - average(x) ** 2 + 0.1).pow(-0.5),
        lambda x: torch.sign(x) * torch.sqrt(x.abs() + 0.1),  # of bilinear pooling
        lambda x: torch.maximum(x + gate(x), x + x.roll(1, 1)) + x * (0.1 * x),
        lambda x: (x + gate(x)) * torch.sigmoid(x + x.roll(1, 1)) + gate(x).abs(),
        watch_signs,
        mask_channels,
        lambda x: x[:, :2].sigmoid() * x[:, 2:],
        lambda x: torch.mul(*x.tanh().chunk(2, 1)),
        lambda x: x * torch.rsqrt((x * x).mean((2, 3), keepdim=True) + 0.1) + x,  # RMSNorm
    )
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Hardtanh(-5, 5), *map(Named, steps))
    model.append(nn.Flatten()).append(Named(functional.normalize))
    assert compute_logit_gradients(model, images, targets, {"gb"})["gb"].isfinite().all()


@pytest.mark.parametrize(
    ("baseline", "bases"), [("black", {"ig"}), ("mean", {"gb", "ig"}), ("blur", BASES), ("black", {"grad", "gb"})]
)
def test_split_stem_gives_same_maps_with_fewer_passes(model, batch, black, baseline, bases):
    before = copy.deepcopy(model.state_dict())
    short = split_after_first_convolution(fold_batchnorm(model))
    settings = PAPER_SETTINGS._replace(baseline=baseline, steps=5)
    assert isinstance(short, SplitStem)
    assert not any(module.training or isinstance(module, nn.BatchNorm2d) for module in short.modules())
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    logits, passes, backs = [], [], []
    short.stem.register_forward_hook(lambda module, images, out: passes.append(len(images[0])))
    short.stem.register_full_backward_hook(lambda module, into, out: backs.append(len(out[0])))

    def explain(network):
        request = MapRequest(set(), network, batch, black, settings)
        return compute_base_maps(request, batch.images.clone().requires_grad_(), bases, logits.append)

    whole, parted = explain(model), explain(short)
    assert set(parted) == set(whole) == bases
    for base in bases:
        assert_near(parted[base].detach(), whole[base].detach(), 1e-12)
    torch.testing.assert_close(*logits, rtol=1e-12, atol=1e-12)
    assert passes == [3, 3] if "ig" in bases else [3]  # at the ends of the path
    assert backs == [3] * len(bases)


class TwoWays(nn.Module):
    """Two convolutions read the images, so neither is a stem."""

    def __init__(self):
        super().__init__()
        self.here, self.there, self.last = nn.Conv2d(3, 2, 3), nn.Conv2d(3, 2, 3), nn.Linear(2, CLASSES)

    def forward(self, x):
        return self.last(torch.relu(self.here(x) + self.there(x)).mean((2, 3)))


@pytest.mark.parametrize("network", [TwoWays(), build_network("mlp", CLASSES, 3, SIDE, seeded(0))])
def test_split_stem_keeps_network_without_single_stem_whole(network, batch, black):
    model = network.double().eval()
    short = split_after_first_convolution(fold_batchnorm(model))
    assert not isinstance(short, SplitStem)
    requests = [MapRequest(set(), each, batch, black) for each in (model, short)]
    both = [compute_base_maps(request, batch.images, {"grad", "ig"}) for request in requests]
    torch.testing.assert_close(*both, rtol=1e-12, atol=1e-12)

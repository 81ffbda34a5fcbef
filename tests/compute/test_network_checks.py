"""Network checks reject networks whose logits depend on more than weights and one image."""

import random
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.ao import quantization
from torch.nn import functional as F

from roarbench.common.errors import CallerError
from roarbench.compute.network_checks import check_network_outputs, load_state_and_check_logits

IMAGES = torch.randn(3, 3, 6, 6, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """A small network between two functions: `before` its images and `after` its logits."""

    def __init__(self, before=lambda x: x, after=lambda y: y):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
        self.before, self.after = before, after

    def forward(self, x):
        return self.after(self.body(self.before(x)))


def make_network(*around):
    torch.manual_seed(0)
    return Net(*around).eval()


class WithMemory(Net):
    """A network that adds to a potential in every call, as spiking networks do."""

    potential = None

    def forward(self, x):
        now = super().forward(x)
        self.potential = now if self.potential is None or len(self.potential) != len(now) else self.potential + now
        return self.potential


class WithMemories(WithMemory):
    """The same, with its state in a dict, as that of spikingjelly."""

    potential = property(lambda self: self.memories["v"], lambda self, now: self.memories.update(v=now))

    def __init__(self):
        super().__init__()
        self.memories = {"v": None}


class WithRecordedNoise(Net):
    """A network that keeps its random numbers, as augmentations of kornia do."""

    def forward(self, x):
        self.noise = torch.randn_like(x)
        return super().forward(x + self.noise)


NO_STATISTICS = nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), make_network()).eval()
MIXED_LOGITS = nn.Sequential(make_network(), nn.BatchNorm1d(5, track_running_stats=False)).eval()


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (
            make_network(lambda x: x.mul_(0.5).add_(0.1)),
            "modifies its input images in place.*; begin its forward with x = x",
        ),
        (make_network(lambda x: x + torch.randn_like(x)), "different logits for the same images when called again"),
        (WithMemory().eval(), "called again; its forward keeps potential for the next call: reset this memory at the"),
        (WithMemories().eval(), r"its forward keeps memories\.v for the next call: reset this memory at the start"),
        (WithRecordedNoise().eval(), "when called again; remove random operations in eval mode"),
        (make_network(lambda x: x - x.mean(0, keepdim=True)), "an image different logits alone than in a batch"),
        (NO_STATISTICS, "an image different logits alone than in a batch"),
        (
            make_network(lambda x: x, lambda y: y if torch.is_grad_enabled() else 2 * y),
            "other logits while torch records",
        ),
        (make_network(lambda x: x.relu() if x.requires_grad else x), "other logits while torch records gradients"),
        (MIXED_LOGITS, r"does not accept a batch of shape 1 x 3 x 6 x 6 \(ValueError: Expected more than 1 value"),
        (
            make_network(lambda x: x[:, :2]),
            r"does not accept a batch of shape 3 x 3 x 6 x 6 \(RuntimeError: Given groups=1",
        ),
        (make_network(lambda x: sys.exit(0)), r"does not accept a batch .* \(RuntimeError: sys.exit\(0\) was called"),
        (make_network(lambda x: x, lambda y: (y, y)), r"returned a tuple .*; expected finite logits \(3, classes\)"),
        (
            make_network(lambda x: x, lambda y: y[:, :, None, None]),
            r"returned float32 of shape \(3, 5, 1, 1\) .*; expected finite logits \(3, classes\); wrap it in a module",
        ),
        (make_network(lambda x: x, lambda y: y / 0), "returned logits that are NaN or infinite"),
    ],
)
def test_check_network_outputs_rejects_unusable_networks(network, said):
    with pytest.raises(CallerError, match=said):
        check_network_outputs(network, IMAGES)


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated", "ignore:.*reduce_range")
def test_network_of_quantisation_aware_training_is_accepted_once_its_observers_are_off():
    network = make_network().train()
    network.qconfig = quantization.get_default_qat_qconfig()
    quantization.prepare_qat(network, inplace=True).eval()
    with pytest.raises(CallerError, match=r"has observers, .*; switch them off by \.apply\(torch"):
        check_network_outputs(network, IMAGES)
    assert check_network_outputs(network.apply(quantization.disable_observer), IMAGES) == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x.flip(3) if random.random() < 1e-9 else x,
        lambda x: x.flip(3) if np.random.rand() < 1e-9 else x,  # noqa: NPY002 (the global one)
        lambda x: torch.where(torch.rand(len(x), 1, 1, 1) < 1e-9, x.flip(3), x),
    ],
)
def test_networks_that_rarely_change_an_image_cause_a_warning(draw):
    """A change in two of a hundred calls would seldom show in the few calls of the checks."""
    (line,) = check_network_outputs(make_network(draw), IMAGES, "net")
    assert line.startswith("net draws random numbers in eval mode")


@pytest.mark.parametrize(
    ("own", "draw"),
    [
        (torch.Generator(), lambda own: torch.rand((), generator=own)),
        (np.random.default_rng(0), lambda own: own.random()),
        (np.random.RandomState(0), lambda own: own.rand()),  # noqa: NPY002
        (random.Random(0), lambda own: own.random()),
    ],
)
def test_networks_that_draw_from_a_generator_of_their_own_cause_a_warning(own, draw):
    network = make_network(lambda x: x.flip(3) if draw(own) < 1e-9 else x)
    network.own = own
    assert [line[:37] for line in check_network_outputs(network, IMAGES, "net")] == [
        "net draws random numbers in eval mode"
    ]


def test_networks_that_seed_each_call_alike_cause_no_warning():
    network = make_network(lambda x: x + torch.rand(x.shape[1:], generator=network.own.manual_seed(0)))
    network.own = torch.Generator().manual_seed(1)
    assert check_network_outputs(network, IMAGES) == []


@pytest.mark.parametrize("logit", [-1e4, -1e9, torch.finfo(torch.float32).min])
def test_logits_of_unused_classes_hide_no_fault(logit):
    """Many heads give classes that the data lack a very small logit, which is not the scale of the other logits."""
    unused = torch.full((3, 20), logit)

    def mask(logits):
        return torch.cat([logits, unused[: len(logits)]], 1)

    with pytest.raises(CallerError, match="when called again"):
        check_network_outputs(make_network(lambda x: F.dropout(x, 0.1), mask), IMAGES)
    with pytest.raises(CallerError, match="alone than in a batch"):
        check_network_outputs(make_network(lambda x: x - 0.1 * x.mean(0, keepdim=True), mask), IMAGES)
    assert check_network_outputs(make_network(lambda x: x, mask), IMAGES) == []


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (lambda y: y, []),
        (lambda y: y.softmax(1), ["net returns probabilities"]),
        (lambda y: y.log_softmax(1), ["net returns logarithms of probabilities"]),
        (lambda y: 0 * y + 1, []),
        (lambda y: y.sigmoid(), ["net returns numbers from 0 to 1"]),
        (lambda y: y.softmax(1) - 0.5, []),  # adds up to a constant, but is no probability
        (lambda y: 1e-6 * y, []),
        (lambda y: 1e-3 * torch.cat([-y[:, :1], y[:, :1]], 1), []),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_check_network_outputs_warns_of_probabilities(after, said, dtype):
    images, kept = IMAGES.to(dtype), IMAGES.to(dtype)
    found = check_network_outputs(make_network(lambda x: x, after).to(dtype), images, "net")
    assert [line.partition(" instead ")[0] for line in found] == said
    torch.testing.assert_close(images, kept, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (lambda y: 100 * y.softmax(1), "net returns probabilities"),
        (lambda y: torch.stack([y, y]).log_softmax(2).logsumexp(0), "net returns logarithms of probabilities"),
    ],
)
def test_check_network_outputs_warns_of_percentages_and_sums_of_probabilities(after, said):
    (line,) = check_network_outputs(make_network(lambda x: x, after), IMAGES, "net")
    assert line.startswith(said)


class ShuffledNet(Net):
    """Shuffles the inputs of its last layer by an order drawn at construction."""

    def __init__(self, seed, buffer):
        super().__init__()
        order = torch.randperm(64, generator=torch.Generator().manual_seed(seed))
        if buffer is None:
            self.order = order
        else:
            self.register_buffer("order", order, persistent=buffer)

    def forward(self, x):
        return self.body[4](self.body[:4](x)[:, self.order])


def check_rebuilt_logits(buffer, *seeds):
    load_state_and_check_logits(*(ShuffledNet(seed, buffer).eval() for seed in seeds), IMAGES)


@pytest.mark.parametrize("buffer", [None, False])
def test_check_rebuilt_logits_rejects_state_missing_from_state_dict(buffer):
    with pytest.raises(CallerError, match=r"gives different logits: its construction draws order; register"):
        check_rebuilt_logits(buffer, 0, 1)


def test_check_rebuilt_logits_accepts_state_in_state_dict():
    check_rebuilt_logits(True, 0, 1)  # in the state dict
    check_rebuilt_logits(None, 0, 0)  # the same order at each construction

"""A network whose logits are not fixed by its weights and one image is refused before anything is computed with it."""

import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from roarbench.common.errors import CallerError
from roarbench.compute.network_checks import check_network_outputs, check_rebuilt_logits

IMAGES = torch.randn(3, 3, 6, 6, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """A small network, with something done before it and something after it."""

    def __init__(self, before=lambda x: x, after=lambda y: y):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
        self.before, self.after = before, after

    def forward(self, x):
        return self.after(self.body(self.before(x)))


def made(*around):
    torch.manual_seed(0)
    return Net(*around).eval()


def without_statistics():
    return nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False), made()).eval()


def mixed_logits():
    return nn.Sequential(made(), nn.BatchNorm1d(5, track_running_stats=False)).eval()


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (made(lambda x: x.mul_(0.5).add_(0.1)), "modifies its input images in place.*; begin its forward with x = x"),
        (nn.Sequential(nn.ReLU(inplace=True), made()).eval(), "modifies its input images"),
        (made(lambda x: x + torch.randn_like(x)), "different logits for the same images when called again"),
        (made(F.dropout), "different logits for the same images when called again"),
        (made(lambda x: x - x.mean(0, keepdim=True)), "an image different logits alone than in a batch"),
        (without_statistics(), "an image different logits alone than in a batch"),
        (mixed_logits(), r"does not accept images of shape 1 x 3 x 6 x 6 \(ValueError: Expected more than 1 value"),
        (made(lambda x: x[:, :2]), r"does not accept images of shape 3 x 3 x 6 x 6 \(RuntimeError: Given groups=1"),
        (made(lambda x: sys.exit(0)), r"does not accept images .* \(RuntimeError: sys.exit\(0\) was called"),
        (made(lambda x: x, lambda y: (y, y)), r"returned a tuple .*; expected finite logits \(3, classes\)"),
        (made(lambda x: x, lambda y: y[:, 0]), r"returned float32 of shape \(3,\)"),
        (made(lambda x: x, lambda y: y.argmax(1)), r"returned int64 of shape \(3,\)"),
        (made(lambda x: x, lambda y: y / 0), "returned logits that are NaN or infinite"),
    ],
)
def test_a_network_whose_logits_hang_on_more_than_one_image_is_refused(network, said):
    with pytest.raises(CallerError, match=said):
        check_network_outputs(network, IMAGES)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (lambda y: y, []),
        (lambda y: y.softmax(1), ["net returns probabilities"]),
        (lambda y: y.log_softmax(1), ["net returns logarithms of probabilities"]),
        (lambda y: y.sigmoid(), ["net returns numbers from 0 to 1"]),
        (lambda y: y.softmax(1) - 0.5, []),  # adds up to a constant, but is no probability
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_probabilities_instead_of_logits_are_told(after, said, dtype):
    images, kept = IMAGES.to(dtype), IMAGES.to(dtype)
    found = check_network_outputs(made(lambda x: x, after).to(dtype), images, "net")
    assert [line.partition(" instead ")[0] for line in found] == said
    torch.testing.assert_close(images, kept, rtol=0, atol=0)


class Mixed(Net):
    """Puts the numbers before its last layer into another order, which is drawn when it is built."""

    def __init__(self, seed, buffer):
        super().__init__()
        order = torch.randperm(64, generator=torch.Generator().manual_seed(seed))
        if buffer is None:
            self.order = order
        else:
            self.register_buffer("order", order, persistent=buffer)

    def forward(self, x):
        return self.body[4](self.body[:4](x)[:, self.order])


@pytest.mark.parametrize("buffer", [None, False])
def test_a_network_that_its_state_dict_does_not_fix_is_refused(buffer):
    with pytest.raises(CallerError, match=r"gives different logits: its construction draws order; register"):
        check_rebuilt_logits(Mixed(0, buffer).eval(), Mixed(1, buffer).eval(), IMAGES)


def test_a_network_that_its_state_dict_fixes_is_accepted():
    check_rebuilt_logits(Mixed(0, True).eval(), Mixed(1, True).eval(), IMAGES)  # in the state dict
    check_rebuilt_logits(Mixed(0, None).eval(), Mixed(0, None).eval(), IMAGES)  # the same at each start

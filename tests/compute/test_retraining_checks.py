"""Networks that are retrained start from random weights, and a step of training reaches all of them."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from roarbench.common.errors import CallerError
from roarbench.compute.external_networks import add_second_logit
from roarbench.compute.retraining_checks import check_training_start

IMAGES = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """A convolution, a batch norm and a head; `part` may compute the features in another way."""

    def __init__(self, part=lambda model, x: model.features(x), momentum=0.1, classes=2):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=momentum), nn.ReLU())
        self.head, self.part = nn.Linear(4, classes), part

    def forward(self, x):
        return self.head(self.part(self, x).mean((2, 3)))


def check(make):
    def build(seed):
        torch.manual_seed(seed)
        return make()

    return check_training_start(build, IMAGES, "net")


def without_gradient(model, x):
    with torch.no_grad():
        return model.features(x)


def freeze(model):
    model.features.requires_grad_(False)
    return model


def load(model, seed=7):
    made = Net()
    generator = torch.Generator().manual_seed(seed)
    state = {key: torch.randn(value.shape, generator=generator) for key, value in made.features[0].state_dict().items()}
    model.features[0].load_state_dict(state)
    return model


class Unused(Net):
    """A network with a layer that its forward never uses."""

    def __init__(self):
        super().__init__()
        self.auxiliary = nn.Linear(4, 2)


class WithAverage(Net):
    """A network that trains `head`, and uses its moving average in eval mode, as copies of weights are used."""

    def __init__(self, updates=True):
        super().__init__()
        self.average, self.updates = nn.Linear(4, 2), updates

    def forward(self, x):
        if self.training and self.updates:
            with torch.no_grad():
                self.average.weight.lerp_(self.head.weight, 0.5)
                self.average.bias.lerp_(self.head.bias, 0.5)
        return (self.head if self.training else self.average)(self.features(x).mean((2, 3)))


class EvaluatingNorm(Net):
    def train(self, mode=True):
        super().train(mode)
        self.features[1].eval()
        return self


def draw_by_numpy():
    model = Net()
    model.head.weight.data = torch.tensor(np.random.default_rng().normal(size=(2, 4)), dtype=torch.float32)
    return model


@pytest.mark.parametrize(
    "make", [Net, Unused, WithAverage, lambda: Net(momentum=None), lambda: add_second_logit(Net(classes=1), IMAGES)]
)
def test_random_trained_weights_need_no_line(make):
    assert check(make) == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: freeze(Net()),
            r"net has frozen weights that are drawn at random \(features\.0\.weight, features\.0\.bias\)",
        ),
        (partial(Net, without_gradient), r"no gradient reaches features\.0\.weight, features\.0\.bias of net"),
        (partial(Net, lambda model, x: model.features(x).detach()), "no gradient reaches features"),
        (
            partial(Net, lambda model, x: model.features[1](F.conv2d(x, model.features[0].weight.data))),
            "no gradient reaches",
        ),
        (
            partial(WithAverage, updates=False),
            r"no gradient reaches average\.weight, average\.bias of net.*the part th",
        ),
        (EvaluatingNorm, r"model\.train\(\) leaves features\.1 of net in eval mode"),
        (partial(Net, momentum=0.0), r"does not change the running statistics of features\.1 of net"),
        (draw_by_numpy, r"other weights when built again with the same seed \(head\.weight\)"),
        (partial(Net, lambda model, x: model.missing(x)), "net cannot be trained .*morf"),
    ],
)
def test_weights_that_stay_random_are_refused(make, words):
    with pytest.raises(CallerError, match=words):
        check(make)


def test_loaded_weights_are_named():
    assert check(lambda: load(Net())) == [
        "net: retrained networks start from the same values of features.0.weight, features.0.bias in every run"
    ]

    def make_loaded_and_frozen():
        model = load(Net())
        model.features[0].requires_grad_(False)
        return model

    assert check(make_loaded_and_frozen) == [
        "net: retrained networks keep the values that its code gives features.0.weight, features.0.bias; not trained"
    ]


def test_frozen_weights_that_each_run_loads_are_accepted():
    def build(seed):
        torch.manual_seed(seed)
        return freeze(Net())

    lines = check_training_start(build, IMAGES, "net", loads=True)
    assert "keep the values that its code gives features.0.weight, features.0.bias" in lines[0]

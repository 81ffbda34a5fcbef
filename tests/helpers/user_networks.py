"""Networks, functions and arrays as users write them in Python."""

import collections
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

SCALE = 0.5


class Scaled(nn.Module):
    """A layer of these tests, with a parameter that no layer of torch owns."""

    def __init__(self, channels):
        super().__init__()
        self.factor = nn.Parameter(torch.full((channels, 1, 1), SCALE))

    def reset_parameters(self):
        nn.init.constant_(self.factor, SCALE)

    def forward(self, images):
        return SCALE * self.factor * images


class WithChangedOutput(nn.Module):
    def __init__(self, model, change):
        super().__init__()
        self.model, self.change = model, change

    def forward(self, images):
        return self.change(self.model(images))


def network():
    torch.manual_seed(0)
    layers = (Scaled(3), nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4, 2))


def arrays(n, seed):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 3, 8, 8)).astype(np.float32), np.arange(n) % 2


def gradient(model, images, targets):
    x = images.requires_grad_()
    model(x).gather(1, targets[:, None]).sum().backward()
    return x.grad


def gradient_x_input(model, inputs, targets):
    """Gradient times input, summed over channels."""
    inputs = inputs.requires_grad_()
    (gradient,) = torch.autograd.grad(model(inputs).gather(1, targets[:, None]).sum(), inputs)
    return (gradient * inputs).sum(1)


Args = collections.namedtuple("Args", ["width", "kernel"], defaults=[3])


class Block(NamedTuple):
    args: Args
    repeats: int = 1


class Act(Enum):
    RELU = "relu"
    TANH = "tanh"


@dataclass
class Config:
    blocks: list
    act: Act = Act.RELU
    names: dict = field(default_factory=dict)


TINY = Config([Block(Args(4)), Block(Args(width=6, kernel=1), repeats=2)], names={"head": (1, 2)})


def doubled(x):
    return 2 * x


class Net(nn.Module):
    def __init__(self, config=TINY):
        super().__init__()
        self.config, self.scale = config, doubled
        width, layers = 3, []
        for block in config.blocks:
            for _ in range(block.repeats):
                act = nn.ReLU() if config.act is Act.RELU else nn.Tanh()
                layers += [nn.Conv2d(width, block.args.width, block.args.kernel, padding="same"), act]
                width = block.args.width
        self.body, self.head = nn.Sequential(*layers), nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.scale(self.body(x)).mean((2, 3)))

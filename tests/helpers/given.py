"""What a caller gives from Python: a function, a network and arrays."""

import numpy as np
import torch
from torch import nn

SCALE = 0.5


class Scaled(nn.Module):
    """A layer of these tests, with a parameter that no layer of torch owns."""

    def __init__(self, channels):
        super().__init__()
        self.factor = nn.Parameter(torch.full((channels, 1, 1), SCALE))

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

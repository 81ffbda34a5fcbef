"""How a network is built with seeded weights."""

from importlib import import_module
from threading import RLock

import torch
from torch import nn

from roarbench.models import MODELS

_DRAWING = RLock()  # of one thread at a time: the global generator is lent


def build(name: str, classes: int, channels: int, size: int, generator: torch.Generator, source: str = "") -> nn.Module:
    """Build a network with random weights, in training mode, on the CPU.

    In the residual networks convolutions are Kaiming-normal by fan-out (He et al. 2015), the linear layer N(0, 0.01)
    with zero bias, the last batch-norm gamma of each block 0, momentum 0.1 and eps 1e-5 (docs/protocol.md, section 5).
    Others have the weights that their own code draws.

    Args:
        name: One of `MODELS`, `torchvision:NAME`, `timm:NAME`, or what a network of `source` is called.
        classes: Number of logits.
        channels: Channels of the images.
        size: Height and width of the images in pixels.
        generator: The only source of chance.
        source: The Python file that makes it; empty for others.

    Raises:
        UnknownName: There is no network of that name.
        CallerError: It cannot be made for these images.
    """
    residual = name in MODELS and not MODELS[name].drawn
    with _DRAWING, torch.random.fork_rng(devices=[]):  # torch's layers draw their first weights from the global one
        if not residual:
            torch.manual_seed(generator.initial_seed())
        model = _made(name, classes, channels, size, source)
    if residual:
        _draw_weights(model, generator)
    return model.train()


def _draw_weights(model: nn.Module, generator: torch.Generator) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01, generator=generator)
            nn.init.zeros_(module.bias)


def _made(name: str, classes: int, channels: int, size: int, source: str) -> nn.Module:
    if name in MODELS:
        file, _, function = MODELS[name].maker.partition(".")
        made: nn.Module = getattr(import_module(f"roarbench.models.{file}"), function)(classes, channels, size)
        return made
    from roarbench.models import others  # what they need takes seconds to import

    return others.make(name, source, classes, channels, size)

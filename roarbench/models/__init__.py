"""The table of networks, and how one is built with seeded weights."""

from collections.abc import Callable

import torch
from torch import nn

from roarbench.errors import UnknownName
from roarbench.models.small import SmallResNet, Stem


def _small(stem: Stem, widths: tuple[int, ...], strides: tuple[int, ...]) -> "Maker":
    return lambda classes, channels, size: SmallResNet(channels, classes, stem, widths, strides)


def _large(block: str, layers: tuple[int, ...]) -> "Maker":
    def make(classes: int, channels: int, size: int) -> nn.Module:
        from roarbench.models import large  # it needs torchvision, which takes a second to import

        return large.large_resnet(getattr(large, block), layers, classes, channels, size)

    return make


Maker = Callable[[int, int, int], nn.Module]  # (classes, channels, size) -> network
MODELS: dict[str, Maker] = {
    "resnet8": _small(Stem(16, kernel=3, stride=1, padding=1), widths=(16, 32, 64), strides=(1, 2, 2)),
    "resnet-quick": _small(Stem(8, kernel=5, stride=2, padding=2), widths=(16, 32, 32), strides=(2, 2, 1)),
    "resnet-planted": _small(Stem(16, kernel=3, stride=1, padding=1), widths=(16, 32), strides=(1, 2)),
    "resnet18": _large("BasicBlock", (2, 2, 2, 2)),
    "resnet50": _large("Bottleneck", (3, 4, 6, 3)),
}


def build(name: str, classes: int, channels: int, size: int, generator: torch.Generator) -> nn.Module:
    """Build a network with random weights, in training mode, on the CPU.

    Convolutions are Kaiming-normal by fan-out (He et al. 2015), the linear layer N(0, 0.01) with zero bias, the last
    batch-norm gamma of each block 0, momentum 0.1 and eps 1e-5 (docs/protocol.md, section 5).

    Args:
        name: One of `MODELS`.
        classes: Number of logits.
        channels: Channels of the images.
        size: Height and width of the images in pixels.
        generator: The only source of chance.

    Raises:
        UnknownName: There is no network of that name.
    """
    if name not in MODELS:
        raise UnknownName("model", name, MODELS)
    with torch.random.fork_rng(devices=[]):  # torch's layers draw weights from the global generator when made
        model = MODELS[name](classes, channels, size)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01, generator=generator)
            nn.init.zeros_(module.bias)
    return model

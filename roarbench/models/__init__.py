"""The table of networks, and how one is built with seeded weights."""

from collections.abc import Callable

import torch
from torch import nn

from roarbench.models.small import SmallResNet, Stem, multilayer_perceptron


def _small(stem: Stem, widths: tuple[int, ...], strides: tuple[int, ...]) -> "Maker":
    return lambda classes, channels, size: SmallResNet(channels, classes, stem, widths, strides)


def _large(block: str, layers: tuple[int, ...]) -> "Maker":
    def make(classes: int, channels: int, size: int) -> nn.Module:
        from roarbench.models import large  # it needs torchvision, which takes a second to import

        return large.large_resnet(getattr(large, block), layers, classes, channels, size)

    return make


def _modern(maker: str) -> "Maker":
    def make(classes: int, channels: int, size: int) -> nn.Module:
        from roarbench.models import modern

        made: nn.Module = getattr(modern, maker)(classes, channels, size)
        return made

    return make


Maker = Callable[[int, int, int], nn.Module]  # (classes, channels, size) -> network
MODELS: dict[str, Maker] = {
    "resnet8": _small(Stem(16, kernel=3, stride=1, padding=1), widths=(16, 32, 64), strides=(1, 2, 2)),
    "resnet-quick": _small(Stem(8, kernel=5, stride=2, padding=2), widths=(16, 32, 32), strides=(2, 2, 1)),
    "resnet-planted": _small(Stem(16, kernel=3, stride=1, padding=1), widths=(16, 32), strides=(1, 2)),
    "resnet18": _large("BasicBlock", (2, 2, 2, 2)),
    "resnet50": _large("Bottleneck", (3, 4, 6, 3)),
    "vit-quick": _modern("small_vit"),
    "convnext-quick": _modern("small_convnext"),
    "mlp": multilayer_perceptron,
}
DRAWN = ("vit-quick", "convnext-quick", "mlp")  # torchvision's or torch's code draws their weights


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
    residual = name in MODELS and name not in DRAWN
    with torch.random.fork_rng(devices=[]):  # torch's layers draw weights from the global generator when made
        if not residual:
            torch.manual_seed(generator.initial_seed())
        model = _made(name, classes, channels, size, source)
    if not residual:
        return model.train()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01, generator=generator)
            nn.init.zeros_(module.bias)
    return model


def _made(name: str, classes: int, channels: int, size: int, source: str) -> nn.Module:
    if name in MODELS:
        return MODELS[name](classes, channels, size)
    from roarbench.models import others  # what they need takes seconds to import

    return others.make(name, source, classes, channels, size)

"""How a network is built with seeded weights."""

from importlib import import_module
from threading import RLock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from roarbench.models import MODELS

_DRAWING = RLock()  # of one thread at a time: the global generator is lent
BLOCK = 16  # channels that oneDNN holds together with AVX-512; 8 with AVX2
SMALL = 32  # pixels a side, of which 8 channels fit; strides are faster, and published rows were made with them


class StridedProjection(nn.Conv2d):
    """A 1x1 convolution with a stride that leaves out the other positions first, and so convolves without a stride.

    With a stride, channels last and fewer of them than it holds together, oneDNN's gradient of the weights writes past
    its workspace: it is wrong, or the process dies (github.com/uxlfoundation/oneDNN, issue 6035). With 8 channels and
    AVX-512 it did so from 56 x 56 inputs on, and not up to 54 x 54. Trainings are safe without this class, too
    (`roarbench.kernels.weight_gradients`); the bits of maps hang on it.
    """

    __module__ = nn.Conv2d.__module__  # by which torch.fx knows that this is one layer

    def forward(self, input: Tensor) -> Tensor:
        """Map (n, c, h, w) as `nn.Conv2d` does."""
        if self.in_channels >= 8 and input.shape[-1] <= SMALL:
            return super().forward(input)
        down, across = self.stride
        return F.conv2d(input[..., ::down, ::across], self.weight, self.bias)


def build_network(
    name: str, classes: int, channels: int, size: int, generator: torch.Generator, source: str = ""
) -> nn.Module:
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
        model = _make(name, classes, channels, size, source)
    if residual:
        _draw_weights(model, generator)
    for module in model.modules():
        if _overflows(module):
            module.__class__ = StridedProjection
    return model.train()


def _overflows(module: nn.Module) -> bool:
    return (
        type(module) is nn.Conv2d
        and (module.kernel_size, module.padding, module.groups) == ((1, 1), (0, 0), 1)
        and module.stride != (1, 1)
        and module.in_channels < BLOCK
    )


def _draw_weights(model: nn.Module, generator: torch.Generator) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01, generator=generator)
            nn.init.zeros_(module.bias)


def _make(name: str, classes: int, channels: int, size: int, source: str) -> nn.Module:
    if name in MODELS:
        file, _, function = MODELS[name].maker.partition(".")
        made: nn.Module = getattr(import_module(f"roarbench.models.{file}"), function)(classes, channels, size)
        return made
    from roarbench.models import external_networks  # what they need takes seconds to import

    return external_networks.make_external_network(name, source, classes, channels, size)

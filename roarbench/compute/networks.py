"""Build small residual networks, or any network with seeded weights, and count a network's computational cost.

Every ReLU is a separate module and does not work in place, and no sum works in place, because captum's guided backprop
and DeepLIFT hook each ReLU and read the gradient at its output.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn import init
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from roarbench.common.errors import CallerError
from roarbench.compute.builtin_network_table import MODELS
from roarbench.compute.external_networks import make_user_or_library_network

_DIRECT = 0.3  # share of the normal distribution within the bounds, above which normal draws are rejected


def fill_truncated_normal(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: torch.Generator | None = None
) -> Tensor:
    """Fill a tensor in place with draws from N(mean, std^2) within [a, b], by rejection as torch 2.13 does.

    Normal draws outside the bounds are drawn again; if the bounds hold less than 0.3 of the distribution, uniform
    draws are accepted in proportion to their density. The draws are bit-equal to torch 2.13's and 2.15's.
    """
    if tensor.is_meta:
        return tensor
    share = (math.erf((b - mean) / std / math.sqrt(2)) - math.erf((a - mean) / std / math.sqrt(2))) / 2
    low, high = (tensor.new_tensor(bound, device="cpu").item() for bound in (a, b))
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def draw() -> tuple[Tensor, Tensor]:
        drawn = torch.empty_like(tensor)
        if share > _DIRECT:
            drawn.normal_(mean, std, generator=generator)
            return drawn, (drawn < low) | (drawn > high)
        drawn.uniform_(a, b, generator=generator)
        density = drawn.clone().sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        return drawn, torch.empty_like(tensor).uniform_(generator=generator).log_() > density

    with torch.no_grad():
        result, rejected = draw()
        while rejected.any():
            drawn, again = draw()
            result, rejected = drawn.where(rejected, result), again & rejected
        return tensor.copy_(result)


@contextmanager
def use_own_truncated_normal() -> Iterator[None]:
    """Let all truncated normal weights of the `with` block come from `fill_truncated_normal`.

    torch up to 2.11 inverts the distribution function instead, so the same seed gives other weights, and run keys do
    not contain torch's version. The function is replaced under the name that `torch.nn.init.trunc_normal_` calls,
    because networks may hold `trunc_normal_` itself; one thread at a time may enter.
    """
    original = init._no_grad_trunc_normal_
    init._no_grad_trunc_normal_ = fill_truncated_normal
    try:
        yield
    finally:
        init._no_grad_trunc_normal_ = original


DRAWING = RLock()  # one thread at a time may use the global generator
ONEDNN_BLOCK = 16  # channels per block of oneDNN with AVX-512; 8 with AVX2
# maximum side in pixels at which a convolution of 8 channels keeps its stride: oneDNN's gradient stays in its workspace
# up to this side, strides are faster, and the published rows were computed with strides
MAX_STRIDED_SIDE = 32
_OPS = torch.ops.aten
_FORMULAS = {
    **flop_registry,
    _OPS._scaled_dot_product_flash_attention_for_cpu: flop_registry[_OPS._scaled_dot_product_flash_attention],
}
_WITHOUT_STORED_OUTPUT = {  # sums and copies, whose backward passes need no stored activations
    *(_OPS.add, _OPS.add_, _OPS.sub, _OPS.sub_, _OPS.cat, _OPS.stack, _OPS.roll, _OPS.constant_pad_nd, _OPS.index),
    *(_OPS.clone, _OPS.copy_, _OPS._to_copy, _OPS._unsafe_view, _OPS.zeros, _OPS.ones, _OPS.empty),
}


class StridedProjection(nn.Conv2d):
    """A strided 1x1 convolution that selects its positions and convolves unstrided where oneDNN is not safe.

    With a stride, channels last and fewer channels than one block of oneDNN (16), oneDNN's gradient of the weights
    writes past its workspace: the gradient is wrong, or the process dies (github.com/uxlfoundation/oneDNN, issue 6035).
    With 8 channels and AVX-512, the fault occurred from 56 x 56 inputs upwards, but not up to 54 x 54. Training runs
    are also safe without this class (`roarbench.compute.onednn_workaround`), but the exact bits of maps depend on it.
    """

    # torch.fx does not trace into layers of torch, which it recognises by the name of their Python module
    __module__ = nn.Conv2d.__module__

    def forward(self, input: Tensor) -> Tensor:
        """Map (n, c, h, w) as `nn.Conv2d` does."""
        if self.in_channels >= 8 and input.shape[-1] <= MAX_STRIDED_SIDE:
            return super().forward(input)
        down, across = self.stride
        return F.conv2d(input[..., ::down, ::across], self.weight, self.bias)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Name a function of this file in pickles, because pickle would look for the class in torch's module."""
        parts: Any = super().__reduce_ex__(protocol)
        return _make_without_weights, (), *parts[2:]


def _make_without_weights() -> StridedProjection:
    return StridedProjection.__new__(StridedProjection)


def build_network(
    name: str, classes: int, channels: int, size: int, generator: torch.Generator, source: str = ""
) -> nn.Module:
    """Build a network with random weights, in training mode, on the CPU.

    The residual networks of `MODELS` are initialised as docs/protocol.md (section 5) says: Kaiming-normal convolutions
    by fan-out (He et al. 2015), a linear layer from N(0, 0.01) with zero bias, gamma 0 in the last batch norm of each
    block, momentum 0.1 and eps 1e-5. Other networks draw their weights in their own code.

    Args:
        name: One of `MODELS`, `torchvision:NAME`, `timm:NAME`, or the name of a network from `source`.
        classes: Number of logits.
        channels: Channels of the images.
        size: Height and width of the images in pixels.
        generator: Draws the weights of residual networks; for other networks, its seed seeds the global generator,
            and truncated normal weights are drawn by `fill_truncated_normal`.
        source: Text of the Python file that defines the network; empty without such a file.

    Raises:
        UnknownName: There is no network of that name.
        CallerError: The network cannot be built for these images.
    """
    residual = name in MODELS and not MODELS[name].drawn
    # torch's layers draw their initial weights from the global generator
    with DRAWING, torch.random.fork_rng(devices=[]), use_own_truncated_normal():
        if not residual:
            torch.manual_seed(generator.initial_seed())
        if name in MODELS:
            file, _, function = MODELS[name].maker.partition(".")
            make = getattr(import_module(f"roarbench.compute.{file}"), function)
        else:
            make = partial(make_user_or_library_network, name, source)
        model: nn.Module = make(classes, channels, size)
    for module in model.modules():
        if residual and isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif residual and isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01, generator=generator)
            nn.init.zeros_(module.bias)
        if (
            type(module) is nn.Conv2d
            and (module.kernel_size, module.padding, module.groups) == ((1, 1), (0, 0), 1)
            and module.stride != (1, 1)
            and module.in_channels < ONEDNN_BLOCK
        ):
            module.__class__ = StridedProjection
    if model.train() is not model:  # calls such as `model.eval()` are chained
        seen = f"{type(model).__name__}.train() does not return the network"
        raise CallerError(f"{seen}; end the method with `return self`, as that of torch")
    return model


def set_batch_norm_scales_to_one(model: nn.Module) -> nn.Module:
    """Set all batch-norm scales to 1 in place, because residual blocks whose scales start at 0 have no effect."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
    return model


def draw_zero_parameters(model: nn.Module, generator: torch.Generator) -> nn.Module:
    """Draw parameters that are all 0, such as batch norms' first biases, in place.

    Without biases, gradients are equal at all points of a line from 0, so a method that draws points there seems to
    draw none.
    """
    for parameter in model.parameters():
        if parameter.is_floating_point() and not parameter.any():
            nn.init.normal_(parameter, std=0.1, generator=generator)
    return model


class ResidualBlock(nn.Module):
    """Basic residual block (He et al. 2016, figure 2): two 3x3 convolutions, and an identity or 1x1 projection.

    The last batch norm starts with gamma 0, so the block starts as its shortcut (Goyal et al. 2017, section 5.1).
    """

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if inputs != width or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        nn.init.zeros_(self.norm2.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Map float (n, inputs, h, w) to (n, width, h / stride, w / stride)."""
        y = self.relu1(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        out: Tensor = self.relu2(y + self.shortcut(x))
        return out


class SmallResNet(nn.Module):
    """A first convolution, residual blocks with these widths and strides, average pooling, and a linear layer."""

    def __init__(self, stem: nn.Conv2d, classes: int, widths: tuple[int, ...], strides: tuple[int, ...]) -> None:
        super().__init__()
        self.conv = stem
        self.norm = nn.BatchNorm2d(stem.out_channels)
        self.relu = nn.ReLU()
        inputs = (stem.out_channels, *widths[:-1])
        self.blocks = nn.Sequential(*(ResidualBlock(*shape) for shape in zip(inputs, widths, strides, strict=True)))
        self.linear = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map normalised images, float (n, channels, h, w), to logits (n, classes)."""
        x = self.blocks(self.relu(self.norm(self.conv(x))))
        # the gradient of this mean then has the memory format of the layers before
        channels_last = x.permute(0, 2, 3, 1)
        logits: Tensor = self.linear(channels_last.mean(dim=(1, 2)))
        return logits


def multilayer_perceptron(classes: int, channels: int, size: int) -> nn.Module:
    """Build a perceptron with two hidden layers of 64 ReLUs, with torch's default initialisation."""
    width = 64
    return nn.Sequential(
        nn.Flatten(),
        *(nn.Linear(channels * size**2, width), nn.ReLU()),
        *(nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, classes),
    )


def resnet8(classes: int, channels: int, size: int) -> nn.Module:
    """Build a ResNet with three blocks of 16, 32 and 64 channels, for images of 28 or 32 pixels."""
    stem = nn.Conv2d(channels, 16, 3, stride=1, padding=1, bias=False)
    return SmallResNet(stem, classes, widths=(16, 32, 64), strides=(1, 2, 2))


def resnet_quick(classes: int, channels: int, size: int) -> nn.Module:
    """Build a ResNet with three blocks of 16, 32 and 32 channels, for images of 64 pixels."""
    stem = nn.Conv2d(channels, 8, 5, stride=2, padding=2, bias=False)
    return SmallResNet(stem, classes, widths=(16, 32, 32), strides=(2, 2, 1))


def resnet_planted(classes: int, channels: int, size: int) -> nn.Module:
    """Build a ResNet with two blocks of 16 and 32 channels, for images of 16 pixels."""
    stem = nn.Conv2d(channels, 16, 3, stride=1, padding=1, bias=False)
    return SmallResNet(stem, classes, widths=(16, 32), strides=(1, 2))


class NetworkCost(NamedTuple):
    """Computational cost of a network, per image."""

    # floating-point operations of a forward pass: two per weight and position. A backward pass for the gradient of the
    # image takes the same number; a backward pass for the gradients of image and weights takes twice as many
    flops: int
    activations: int  # number of layer outputs, all stored for the backward pass
    parameters: int  # number of weights


@cache
def count_network_cost(name: str, classes: int, channels: int, size: int, source: str = "") -> NetworkCost:
    """Count a network's cost from its convolutions, linear layers and attention; the others take less than 1 %."""
    model = build_network(name, classes, channels, size, torch.Generator(), source).eval()
    # without requires_grad, torch would run a transformer layer as one fused operation, which has no formula
    image = torch.zeros(1, channels, size, size, requires_grad=True)
    with _OperationCounter() as counter:  # type: ignore[no-untyped-call]
        model(image.clone())  # this pass runs on the CPU, because the meta device needs imports that take seconds
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return NetworkCost(max(1, counter.flops), max(1, counter.activations), parameters)  # times are divided by these


class _OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that counts floating-point operations by torch's formulas, in any module, function or script.

    torch's `FlopCounterMode` gives the same counts, but first imports the compiler, which takes seconds, and has no
    formula for attention on a CPU.
    """

    flops = activations = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        output, operation = func(*args, **kwargs), func.overloadpacket
        if operation in _FORMULAS:
            self.flops += _FORMULAS[operation](*args, **kwargs, out_val=output)
        if not func.is_view and operation not in _WITHOUT_STORED_OUTPUT:
            tensors = (leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor))
            self.activations += sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
        return output

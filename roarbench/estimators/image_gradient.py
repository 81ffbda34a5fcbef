"""Compute the gradient of images through a strided convolution of few channels faster than oneDNN does on a CPU.

oneDNN pads the 3 channels of the images' gradient to 8 or 16, and its backward pass with a stride takes as long as that
of all later layers of a small network. But with stride 2, each of the four pixels of a 2 x 2 square depends on the
output's gradient as in a convolution with stride 1. So one such convolution with 4 x 3 channels computes the gradients
of all squares, and the channels are then moved to their pixels.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_PRECISIONS = {torch.float32, torch.bfloat16}
_BLOCK = 8  # channels that oneDNN computes together with AVX2; 16 with AVX-512
MAX_CHANNELS = 4  # oneDNN pads fewer channels; from 8 channels on, its own backward pass is as fast


class StridedConvolution(nn.Conv2d):
    """A convolution with a stride, whose gradient of the images is computed without a stride.

    The output is that of `nn.Conv2d`, bit for bit; gradients are equal up to rounding. Weights get no gradients. In
    other precisions than float32 and autocast's bfloat16, on GPUs, and for sides that the stride does not divide, torch
    computes the gradient.
    """

    # torch.fx does not trace into layers of torch, which it recognises by the name of their Python module
    __module__ = nn.Conv2d.__module__

    def forward(self, input: Tensor) -> Tensor:
        """Map (n, c, h, w) as `nn.Conv2d` does."""
        autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32
        is_fast = input.dtype is torch.float32 and input.device.type == "cpu" and autocast in _PRECISIONS
        if not is_fast or input.ndim != 4:  # a batch of one image may lack its axis, as in `torch.vmap`
            return super().forward(input)
        settings = zip(input.shape[2:], self.stride, self.kernel_size, map(int, self.padding), strict=True)
        if not all(
            side % stride == 0 and (side + 2 * padding - kernel) // stride + 1 == side // stride
            for side, stride, kernel, padding in settings
        ):
            return super().forward(input)
        weights = (self.weight.detach(), self.bias)
        output: Tensor = _StridedConvolve.apply(input, *weights, self.stride, self.padding)  # type: ignore[no-untyped-call]
        return output


def speed_up_image_gradient(network: nn.Module) -> nn.Module:
    """Replace the class of strided convolutions of few channels by `StridedConvolution`, in place; return the network.

    The network must be a copy that is used for maps only, because the weights of these convolutions get no gradients.
    """
    for module in network.modules():
        if (
            type(module) is nn.Conv2d
            and module.in_channels <= MAX_CHANNELS
            and (module.groups, module.dilation, module.padding_mode) == (1, (1, 1), "zeros")
            and module.padding not in ("same", "valid")
            and max(module.stride) > 1
        ):
            module.__class__ = StridedConvolution
    return network


class _StridedConvolve(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, images: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, ...], padding: tuple[int, ...]
    ) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.stride, ctx.padding = stride, padding
        return F.conv2d(images, weight, None if bias is None else bias.detach(), stride, padding)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradient,), (weight,) = gradients, ctx.saved_tensors
        return compute_image_gradient(gradient, weight, ctx.stride, ctx.padding), None, None, None, None


def compute_image_gradient(
    gradient: Tensor, weight: Tensor, stride: tuple[int, ...], padding: tuple[int, ...]
) -> Tensor:
    """Compute the gradient of a convolution's images from the gradient of its output, float (n, k, h, w).

    `weight` is (k, c, kernel height, kernel width), and is rounded to the dtype of `gradient`. With stride s and
    padding p, weight d + p - s b connects pixel s m + d of an image with output m + b. So the d-th pixels of all
    squares are a convolution of the output's gradient with stride 1, whose weights are in reverse order.

    Returns:
        (n, c, stride h, stride w), in channels-last memory format and in the weight's dtype.
    """
    (n, _, height, width), (outputs, channels, *sides) = gradient.shape, weight.shape
    (rows, (above, below)), (columns, (left, right)) = map(_find_connections, sides, stride, padding)
    zero = F.pad(weight, (0, 1, 0, 1))  # connections that do not exist have index -1, the added weight
    picked = zero[:, :, rows.flatten()][..., columns.flatten()]
    down, across = stride
    by_pixel = picked.view(outputs, channels, down, -1, across, columns.shape[1]).permute(2, 4, 1, 0, 3, 5)
    kernel = by_pixel.reshape(down * across * channels, outputs, *by_pixel.shape[4:])
    # oneDNN computes 16 channels faster than 12
    padded_kernel = F.pad(kernel, (0, 0, 0, 0, 0, 0, 0, -len(kernel) % _BLOCK)).to(gradient.dtype)
    # a convolution pads both sides alike
    padded = F.pad(gradient, (0, right - left, 0, below - above)) if (above, left) != (below, right) else gradient
    # float32 numbers move to their pixels faster than bfloat16
    squares = F.conv2d(padded, padded_kernel, padding=(above, left)).to(weight.dtype)[:, : len(kernel)]
    pixels = squares.permute(0, 2, 3, 1).reshape(n, height, width, down, across, channels).transpose(2, 3)
    return pixels.reshape(n, height * down, width * across, channels).permute(0, 3, 1, 2)


@cache
def _find_connections(kernel: int, stride: int, padding: int) -> tuple[Tensor, tuple[int, int]]:
    """Find the outputs with which the pixels of a square are connected, along one side.

    Returns:
        The index of the weight, int64 (stride, outputs), -1 for none; and the numbers of outputs before and after the
            square's own.
    """
    before, after = (kernel - 1 - padding) // stride, (stride - 1 + padding) // stride
    distances = torch.arange(-before, after + 1)
    weights = torch.arange(stride)[:, None] + padding - stride * distances
    return weights.where((weights >= 0) & (weights < kernel), -1), (before, after)

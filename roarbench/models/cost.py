"""What a network costs, counted while one image passes through it."""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.models.build import build


class NetworkCost(NamedTuple):
    """Cost of one image."""

    # floating-point operations of a forward pass: two for each weight that meets a number. The backward pass to the
    # image takes as many again, to the weights too twice as many
    flops: int
    activations: int  # numbers that the layers put out; a backward pass needs them all
    parameters: int  # weights of the network, whatever the number of images


@cache
def network_cost(name: str, classes: int, channels: int, size: int, source: str = "") -> NetworkCost:
    """Count a network; convolutions and linear layers are what counts, the rest is below 1 %."""
    counted = _Counted()
    model = build(name, classes, channels, size, torch.Generator(), source).eval()
    for layer in model.modules():
        if isinstance(layer, nn.MultiheadAttention):
            layer.register_forward_hook(counted.attention)
        elif not list(layer.children()) and not isinstance(layer, nn.Identity):
            layer.register_forward_hook(counted.layer)
    with torch.inference_mode():
        model(torch.zeros(1, channels, size, size))  # on the meta device torch would first import for seconds
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return NetworkCost(counted.flops, counted.activations, parameters)


class _Counted:
    """Hooks that count what passes."""

    flops = activations = 0

    def layer(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        self.activations += output.numel()
        if isinstance(layer, nn.Conv2d | nn.Linear):
            self.flops += 2 * output.numel() * layer.weight[0].numel()  # each output is a sum over one filter

    def attention(self, layer: nn.Module, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> None:
        """Count an attention, whose own layers are never called: four projections, and each token with each."""
        tokens, width = outputs[0].shape[-2:]
        self.flops += 2 * tokens * 4 * width**2 + 2 * 2 * tokens**2 * width
        self.activations += 4 * tokens * width + tokens**2

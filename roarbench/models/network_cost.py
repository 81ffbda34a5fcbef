"""What a network costs, counted while one image passes through it."""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from roarbench.models.build import build_network

_OPS = torch.ops.aten
_FORMULAS = {
    **flop_registry,
    _OPS._scaled_dot_product_flash_attention_for_cpu: flop_registry[_OPS._scaled_dot_product_flash_attention],
}
_KEPT_BY_NOBODY = {  # a backward pass through sums and copies needs none of the numbers that they put out
    *(_OPS.add, _OPS.add_, _OPS.sub, _OPS.sub_, _OPS.cat, _OPS.stack, _OPS.roll, _OPS.constant_pad_nd, _OPS.index),
    *(_OPS.clone, _OPS.copy_, _OPS._to_copy, _OPS._unsafe_view, _OPS.zeros, _OPS.ones, _OPS.empty),
}


class NetworkCost(NamedTuple):
    """Cost of one image."""

    # floating-point operations of a forward pass: two for each weight that meets a number. The backward pass to the
    # image takes as many again, to the weights too twice as many
    flops: int
    activations: int  # numbers that the layers put out; a backward pass needs them all
    parameters: int  # weights of the network, whatever the number of images


@cache
def count_network_cost(name: str, classes: int, channels: int, size: int, source: str = "") -> NetworkCost:
    """Count a network; convolutions, linear layers and attention are what counts, the rest is below 1 %."""
    model = build_network(name, classes, channels, size, torch.Generator(), source).eval()
    image = torch.zeros(1, channels, size, size, requires_grad=True)  # else torch takes transformers as one operation
    with _Counted() as counted:  # type: ignore[no-untyped-call]
        model(image.clone())  # on the meta device torch would first import for seconds
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return NetworkCost(counted.flops, counted.activations, parameters)


class _Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count every operation, whatever module, function or script it is part of, by torch's own formulas.

    torch's `FlopCounterMode` counts the same, but imports its compiler first, for seconds, and knows no attention of a
    processor.
    """

    flops = activations = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Do one operation of torch."""
        kwargs = kwargs or {}
        output, operation = func(*args, **kwargs), func.overloadpacket
        if operation in _FORMULAS:
            self.flops += _FORMULAS[operation](*args, **kwargs, out_val=output)
        if not func.is_view and operation not in _KEPT_BY_NOBODY:
            made = (each for each in tree_leaves(output) if isinstance(each, Tensor) and each.is_floating_point())
            self.activations += sum(each.numel() for each in made)
        return output

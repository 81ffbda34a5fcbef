"""Guided backprop as a ReLU with a backward pass of its own: nothing is hooked, so that it may be compiled."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn.functional import relu
from torch.overrides import TorchFunctionMode

_NEW, _IN_PLACE = {torch.relu, Tensor.relu}, {torch.relu_, Tensor.relu_}


class Guided(TorchFunctionMode):
    """While it is entered, the ReLUs of torch that are called go back by guided backprop's rule, if `on` says so then.

    So one forward pass serves both rules. It meets `nn.ReLU`, `torch.nn.functional.relu`, `torch.relu` and a tensor's
    own, in place or not, and those of a scripted network not.

    Attributes:
        on: A backward pass lets only gradients above 0 into each ReLU; what is compiled keeps what it said then.
        met: Whether a ReLU was called.
    """

    def __init__(self, on: bool = False) -> None:
        super().__init__()
        self.on, self.met = on, False

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """Call a function of torch, or the ReLU here instead of torch's."""
        named = dict(options or {})
        if call in _IN_PLACE:
            named["inplace"] = True
        if call is relu or call in _NEW or call in _IN_PLACE:
            return self._relu(*arguments, **named)
        return call(*arguments, **named)

    def _relu(self, input: Tensor, inplace: bool = False) -> Tensor:
        self.met = True
        found: Tensor = _Relu.apply(input, inplace, self)  # type: ignore[no-untyped-call]
        return found


class _Relu(torch.autograd.Function):
    """max(x, 0); back through it goes what goes through torch's, of gradients above 0 alone where its guide is on."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, in_place: bool, guide: Guided) -> Tensor:
        if in_place:
            ctx.mark_dirty(x)
        y = x.relu_() if in_place else x.relu()
        ctx.save_for_backward(y)
        ctx.guide = guide  # type: ignore[attr-defined]
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (y,), (gradient,) = ctx.saved_tensors, gradients
        if ctx.guide.on:
            gradient = gradient.clamp(min=0)
        return torch.ops.aten.threshold_backward(gradient, y, 0), None, None

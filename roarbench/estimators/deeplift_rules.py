"""The rescale rule of DeepLIFT (Shrikumar et al. 2017): nonlinear steps with backward passes of their own.

Captum has the same rule, but lets overlapping windows of a max-pool overwrite each other, and finds modules alone, each
of which may be used once.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

_POOLS = {F.max_pool2d, torch.max_pool2d}
_ELEMENTWISE = {
    *(F.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_),
    *(F.relu6, F.hardtanh, F.hardtanh_, F.threshold, torch.threshold, torch.threshold_),
    *(torch.clamp, torch.clamp_, torch.clip, torch.clip_, torch.clamp_min, torch.clamp_min_, torch.clamp_max),
    *(Tensor.clamp, Tensor.clamp_, Tensor.clip, Tensor.clip_, Tensor.clamp_min, Tensor.clamp_min_, Tensor.clamp_max),
    *(F.leaky_relu, F.elu, F.softplus, torch.sigmoid, Tensor.sigmoid, torch.tanh, Tensor.tanh),
}
_NONE = 1e-10  # inputs that differ by less do not, and the slope between them is the derivative; captum's number


class Rescaled(TorchFunctionMode):
    """While it is entered, nonlinear steps go back by the rescale rule: by the slope from the baseline to the image.

    The second half of a batch are the baselines of the first. It meets functions, modules and methods of tensors, in
    place or not, however often each is used; steps that no rule is known for, and those of a scripted network, go back
    by their derivative.
    """

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """Call a function of torch, or the step here instead of torch's."""
        named = dict(options or {})
        if arguments and call in _ELEMENTWISE:
            return _Elementwise.apply(arguments[0], call, arguments[1:], named)  # type: ignore[no-untyped-call]
        if arguments and call in _POOLS and not named.get("return_indices"):
            return _MaxPool.apply(arguments[0], arguments[1:], named)  # type: ignore[no-untyped-call]
        return call(*arguments, **named)


class _Elementwise(torch.autograd.Function):
    """A function of each number by itself."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, call: Callable[..., Tensor], others: Sequence[Any], named: dict[str, Any]
    ) -> Tensor:
        with torch.enable_grad():
            own = x.detach().requires_grad_()
            given = own.clone()
            y = call(given, *others, **named)
            (derivative,) = torch.autograd.grad(y.sum(), own)
        ctx.save_for_backward(_difference(own.detach()), _difference(y.detach()), derivative)
        if y is not given:
            return y.detach()
        ctx.mark_dirty(x)
        return x.copy_(y.detach())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,), (dx, dy, derivative) = gradients, ctx.saved_tensors
        dx, dy = torch.cat([dx, dx]), torch.cat([dy, dy])
        return torch.where(dx.abs() < _NONE, gradient * derivative, gradient * dy / dx), None, None, None


class _MaxPool(torch.autograd.Function):
    """The largest number of each window; the image's and the baseline's may lie at different places of it.

    What a window changes by belongs to the place of the larger of both: the image's where the maximum rises, since the
    baseline was smaller there, too, and the baseline's where it falls. There the input changes by as much or more, so
    that no slope is above 1. A place in several windows has the sum of what they give it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, others: Sequence[Any], named: dict[str, Any]) -> Tensor:
        y, places = F.max_pool2d(x, *others, **named | {"return_indices": True})
        dx, dy = _difference(x).flatten(2), _difference(y).flatten(2)
        image, baseline = places.flatten(2).chunk(2)
        place = torch.where(dy > 0, image, baseline)
        change = dx.gather(2, place)
        ctx.save_for_backward(place, torch.where(change.abs() < _NONE, 1, dy / change))
        ctx.shape = x.shape
        return cast(Tensor, y)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,), (place, slope) = gradients, ctx.saved_tensors
        back = gradient.new_zeros(ctx.shape).flatten(2)
        back.scatter_add_(2, place.repeat(2, 1, 1), gradient.flatten(2) * slope.repeat(2, 1, 1))
        return back.view(ctx.shape), None, None


def _difference(both: Tensor) -> Tensor:
    image, baseline = both.chunk(2)
    return image - baseline

"""Copy a network for use in other threads; batch norms are folded into convolutions, which makes passes faster."""

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from roarbench.common.device_settings import is_out_of_memory

_OBSERVED = (nn.Conv2d, nn.BatchNorm2d, nn.Linear)


def copy_with_folded_batchnorm(model: nn.Module, images: Tensor) -> nn.Module | None:
    """Copy a network, and fold each batch norm into the convolution before it.

    Unlike `faster_networks.fold_batchnorm`, this function does not trace the network: hooks observe the order of layers
    in one pass, so the function also works for networks that torch.fx cannot trace and for subclasses of convolutions.
    The caller must compare the logits of the network and the copy, because the network may also use the output of a
    convolution elsewhere.

    Args:
        model: In eval mode; not changed.
        images: A few inputs that show the order of layers, float (n, c, h, w).

    Returns:
        The copy; None if the network is on a GPU, is compiled or has hooks, if copying fails, or if the copy still runs
        modules of the original, for example because an attribute of the network is a function that calls them.
    """
    weights = (*model.parameters(), *model.buffers())
    if any(weight.device.type != "cpu" for weight in weights) or any(map(_has_hooks_or_is_compiled, model.modules())):
        return None
    try:
        copied, seen = copy_sharing_weights(model), _observe_layer_calls(model, images)
        if _observe_layer_calls(copied, images) != seen:
            return None
        for norm, convolution in seen.pairs.items():
            if seen.calls[norm] == seen.calls[convolution] == 1:
                before: Any = copied.get_submodule(convolution)
                after: Any = copied.get_submodule(norm)
                copied.set_submodule(convolution, fuse_conv_bn_eval(before, after))
                copied.set_submodule(norm, nn.Identity().eval())
    except Exception as error:  # the user's network may raise anything
        if is_out_of_memory(error):
            raise
        return None
    return copied


def copy_sharing_weights(model: nn.Module) -> nn.Module:
    """Copy a network's modules but share the weights in memory; the copy's parameters have requires_grad=False."""
    frozen = {id(tensor): nn.Parameter(tensor.detach(), requires_grad=False) for tensor in model.parameters()}
    return copy.deepcopy(model, frozen | {id(tensor): tensor for tensor in model.buffers()})


class _LayerCalls(NamedTuple):
    """Calls of modules in one forward pass."""

    calls: Counter[str]  # from a module's name to its number of calls
    pairs: dict[str, str]  # from a batch norm's name to the name of the convolution whose output is its input


@torch.no_grad()
def _observe_layer_calls(model: nn.Module, images: Tensor) -> _LayerCalls:
    """Count calls of convolutions, batch norms and linear layers, and pair each batch norm with its convolution."""
    names: dict[nn.Module, str] = {part: name for name, part in model.named_modules() if isinstance(part, _OBSERVED)}
    seen, outputs = _LayerCalls(Counter(), {}), list[tuple[str, Tensor]]()

    def keep(module: nn.Module, inputs: Sequence[Any], output: Any) -> None:
        seen.calls[names[module]] += 1
        if isinstance(module, nn.Conv2d):
            outputs.append((names[module], output))
        elif type(module) is nn.BatchNorm2d and module.running_mean is not None:
            seen.pairs.update((names[module], before) for before, made in outputs if inputs and made is inputs[0])

    hooks = [part.register_forward_hook(keep) for part in names]
    try:
        model(images.clone())
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _has_hooks_or_is_compiled(part: nn.Module) -> bool:
    """Return whether a module has hooks or is compiled."""
    hooks = part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks
    compiled = isinstance(part, torch.jit.ScriptModule) or hasattr(part, "_orig_mod") or part._compiled_call_impl
    return any(hooks) or bool(compiled)

"""Copies of networks: with batch norms folded, split after the affine stem, in bfloat16, or for threads.

The stem, which is the first convolution with its batch norm folded in, is affine, so it maps a straight path of images
to a straight path of outputs. Gradients at the points of the output path can therefore be summed before they are passed
back through the stem. The stem then needs one forward pass for each end of the path and one backward pass, instead of a
forward and a backward pass for every point.
"""

import copy
from collections import Counter
from contextlib import ExitStack

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node, symbolic_trace
from torch.nn.utils.fusion import fuse_conv_bn_eval

from roarbench.common.device_settings import is_out_of_memory
from roarbench.common.enums import Precision
from roarbench.estimators.plain_layers import copy_with_plain_layers, is_plain, replace_calls_with_constant_weights


class Bf16Network(nn.Module):
    """A float32 network whose passes run in bfloat16; the logits and the gradients of images are float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.training = model.training
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, float32 (n, classes)."""
        images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast(images.device.type, torch.bfloat16):
            logits: Tensor = self.model(images)
        return logits.float()


class SplitStem(nn.Module):
    """A network in eval mode, split into an affine `stem` and the `rest`, which maps the stem's output to logits."""

    def __init__(self, stem: nn.Module, rest: nn.Module) -> None:
        super().__init__()
        self.stem, self.rest = stem, rest
        self.training = False  # both are in eval mode; a program of torch.export refuses `eval`

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, (n, classes)."""
        logits: Tensor = self.rest(self.stem(images))
        return logits


def convert_precision(model: nn.Module, precision: Precision) -> nn.Module:
    """Return a network whose passes run in this precision; the stem of a `SplitStem` stays in float32."""
    if precision is Precision.FLOAT32:
        return model
    return SplitStem(model.stem, Bf16Network(model.rest)) if isinstance(model, SplitStem) else Bf16Network(model)


def split_after_first_convolution(network: GraphModule) -> nn.Module:
    """Split a traced network after its first convolution, or return the network if another operation uses the images.

    Batch norms should have been folded by `fold_batchnorm`. The traced network is modified.
    """
    images = next(node for node in network.graph.nodes if node.op == "placeholder")
    first, *other_users = images.users
    if other_users or first.op != "call_module":
        return network
    stem = network.get_submodule(str(first.target))
    if not isinstance(stem, nn.Conv2d):
        return network
    first.replace_all_uses_with(images)
    network.graph.erase_node(first)
    network.delete_all_unused_submodules()
    network.recompile()
    return SplitStem(stem, network)


def fold_batchnorm(model: nn.Module) -> GraphModule:
    """Copy a network in eval mode and fold its batch norms into convolutions, which makes passes faster.

    Weights that hooks or parametrizations recompute become plain weights first. The copy's logits are equal up to
    rounding. ReLUs stay separate modules, as does a batch norm that does not directly follow a convolution, or follows
    one that is used twice. `benchmarks/peers/test_maps.py` compares the time of maps with and without folding.
    """
    return trace_and_fold_batchnorm(copy_with_plain_layers(model))


def trace_and_fold_batchnorm(copied: nn.Module) -> GraphModule:
    """Trace a result of `copy_with_plain_layers` and fold its batch norms, for `fold_batchnorm`."""
    traced = symbolic_trace(copied)
    output = traced.graph.output_node()
    (result,) = output.args
    if isinstance(result, Node) and "logits" in result.kwargs:
        output.args = (result.kwargs["logits"],)
        traced.graph.erase_node(result)
    replace_calls_with_constant_weights(traced)
    modules = dict(traced.named_modules())
    calls = Counter(node.target for node in traced.graph.nodes if node.op == "call_module")
    for node in traced.graph.nodes:
        if node.op != "call_module" or not isinstance(norm := modules[node.target], nn.BatchNorm2d):
            continue
        (before,) = node.args
        used_once = isinstance(before, Node) and before.op == "call_module" and len(before.users) == 1
        if not used_once or calls[before.target] > 1:
            continue
        if isinstance(convolution := modules[before.target], nn.Conv2d) and is_plain(convolution) and is_plain(norm):
            traced.set_submodule(before.target, fuse_conv_bn_eval(convolution, norm))
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    traced.eval()
    return traced


def copy_for_threads(model: nn.Module, images: Tensor) -> nn.Module | None:
    """Copy a network in eval mode for use in another thread; `images` are a few inputs, float (n, c, h, w).

    The result is None if the network is on a GPU, is compiled or has hooks, if copying fails, or if the copy still runs
    modules of the original, for example because an attribute of the network is a function that calls them.
    """
    weights = (*model.parameters(), *model.buffers())
    if any(weight.device.type != "cpu" for weight in weights) or any(map(_has_hooks_or_is_compiled, model.modules())):
        return None
    called_originals: list[nn.Module] = []
    try:
        copied = copy_frozen_sharing_weights(model)
        with ExitStack() as hooks, torch.no_grad():
            for module in model.modules():
                hooks.enter_context(module.register_forward_hook(lambda module, *rest: called_originals.append(module)))
            copied(images.clone())
    except Exception as error:  # the user's network may raise anything
        if is_out_of_memory(error):
            raise
        return None
    return None if called_originals else copied


def copy_frozen_sharing_weights(model: nn.Module) -> nn.Module:
    """Copy a network's modules but share the weights in memory; the copy's parameters have requires_grad=False."""
    frozen = {id(tensor): nn.Parameter(tensor.detach(), requires_grad=False) for tensor in model.parameters()}
    return copy.deepcopy(model, frozen | {id(tensor): tensor for tensor in model.buffers()})


def _has_hooks_or_is_compiled(module: nn.Module) -> bool:
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    compiled = isinstance(module, torch.jit.ScriptModule) or hasattr(module, "_orig_mod") or module._compiled_call_impl
    return any(hooks) or bool(compiled)

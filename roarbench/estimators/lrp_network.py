"""Rewrite a network into modules that have rules of layer-wise relevance propagation (LRP)."""

import copy
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.nn import functional as F
from torch.nn.modules import container

from roarbench.common.device_settings import is_out_of_memory
from roarbench.common.errors import RunError
from roarbench.estimators.network_copies import (
    copy_with_plain_layers,
    is_plain,
    separate_shared_weights,
    trace_and_fold_batchnorm,
)

_POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
_PADS = (nn.ZeroPad2d, nn.ConstantPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d, nn.CircularPad2d)
_WEIGHTED = (nn.Conv2d, nn.Linear, nn.BatchNorm2d)
_LINEAR = (*_WEIGHTED, *_POOLS, *_PADS)
_LINEAR_CALLS = (
    *(F.max_pool2d, torch.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.adaptive_max_pool2d, F.pad),
    *(torch.mean, "mean"),
)
_SAME = (nn.Identity, nn.Dropout)  # layers that return their input in eval mode
_MOVES = (
    *(torch.flatten, torch.squeeze, torch.unsqueeze, torch.reshape, torch.permute, operator.getitem, getattr),
    *("flatten", "squeeze", "unsqueeze", "view", "reshape", "permute", "contiguous", "size"),
)
_ADDS = (operator.add, operator.iadd, torch.add, "add", "add_")
_IN_PLACE = (operator.iadd, torch.relu_, F.relu_, "add_", "relu_")
_RELUS = (torch.relu, torch.relu_, F.relu, "relu", "relu_")


class BranchSum(nn.Module):
    """The sum of two branches."""

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return first + second


class LinearFunctionCall(nn.Module):
    """A module for a function call that is linear in its input, or selects values of its input as max-pooling does."""

    def __init__(self, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x)


class PositiveConvolution(nn.Conv2d):
    """A convolution for rule z+: of an input below 0, only negative weights make positive contributions.

    Its weights are those above 0, and `negative` has the others; inputs below 0 come from layers without a ReLU.
    """

    negative: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Return the sums of positive contributions."""
        if not bool((x < 0).any()):
            return super().forward(x)
        sums: Tensor = super().forward(x.clamp(min=0)) + self._conv_forward(x.clamp(max=0), self.negative, None)
        return sums


class ClippedRelu(LinearFunctionCall):
    """A ReLU with an upper limit; each value is multiplied by a constant, so that all relevance passes through."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.call(x.detach()) / x.detach()).nan_to_num(0.0)


def rewrite_for_relevance_rules(model: nn.Module) -> GraphModule:
    """Copy a network so that each of its modules is used once; the copy's logits are equal up to rounding.

    Batch norms are folded into convolutions, sums of branches become `BranchSum` modules, and operations without
    effect in eval mode are removed. No two modules share weights, and no hook or parametrization recomputes a weight,
    so rules can change weights. Raises RunError if an operation has no relevance rule.
    """
    try:
        copied = copy_with_plain_layers(model)
        for part in copied.modules():
            known = isinstance(part, (*_LINEAR, *_SAME, nn.Flatten, nn.Unflatten, nn.ReLU, nn.Hardtanh))
            is_layer = type(part).__module__.startswith("torch.nn") and type(part).__module__ != container.__name__
            if is_layer and not known and not any(part.children()):
                raise _make_no_rule_error(type(part).__name__)
        traced = trace_and_fold_batchnorm(copied)
    except RunError:
        raise
    except Exception as error:  # torch.fx cannot follow branches on values, and user code may raise anything
        if is_out_of_memory(error):
            raise
        raise RunError("lrp cannot trace the operations of the network; leave lrp out") from error
    _let_later_operations_read_changes(traced)
    modules, seen = dict(traced.named_modules()), set[object]()
    for node in list(traced.graph.nodes):
        module = modules[str(node.target)] if node.op == "call_module" else None
        if node.op in ("placeholder", "output") or (module is None and node.target in _MOVES):
            continue
        if isinstance(module, _WEIGHTED) and not is_plain(module):
            raise _make_no_rule_error(f"{type(module).__name__} '{node.target}', whose weights change in each pass")
        if isinstance(module, _LINEAR) and node.target not in seen:
            seen.add(node.target)
        elif isinstance(module, _SAME):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
        elif isinstance(module, nn.Flatten):
            arguments = (*node.args, module.start_dim, module.end_dim)
            node.op, node.target, node.args = "call_function", torch.flatten, arguments
        elif isinstance(module, nn.Unflatten):
            arguments = (*node.args, module.dim, module.unflattened_size)
            node.op, node.target, node.args = "call_function", torch.unflatten, arguments
        else:
            step, name = _make_module_of_node(node, module), f"step_{node.name}"
            traced.add_submodule(name, step)
            node.op, node.target, node.args, node.kwargs = "call_module", name, tuple(node.all_input_nodes), {}
    traced.delete_all_unused_submodules()
    traced.recompile()
    separate_shared_weights(traced)
    return traced.eval()


def _let_later_operations_read_changes(traced: GraphModule) -> None:
    """Replace an input that an operation changes in place, such as `relu_`, by its result in all later operations."""
    place = {node: number for number, node in enumerate(traced.graph.nodes)}
    for node in place:
        if node.op == "call_module":
            in_place = bool(getattr(traced.get_submodule(str(node.target)), "inplace", False))
        else:
            in_place = bool(node.kwargs.get("inplace")) or node.target in _IN_PLACE
        if in_place and isinstance(changed := node.args[0], Node):
            for user in [user for user in changed.users if place[user] > place[node]]:
                user.replace_input_with(changed, node)


def _make_module_of_node(node: Node, module: nn.Module | None) -> nn.Module:
    if isinstance(module, nn.ReLU) or (module is None and node.target in _RELUS):
        return nn.ReLU()  # each use gets its own module, which does not work in place
    if isinstance(module, (*_POOLS, *_PADS)):
        return copy.deepcopy(module)
    if isinstance(module, _LINEAR):
        raise RunError(f"lrp supports only modules that are used once, but {node.target} is used twice; leave lrp out")
    tensors = len(node.all_input_nodes)
    if module is None and node.target in _ADDS and tensors == 2:
        return BranchSum()
    if module is None and node.target in _LINEAR_CALLS and tensors == 1:
        function: Any = getattr(Tensor, node.target) if isinstance(node.target, str) else node.target
        arguments = node.args[1:]
        keywords = {name: value for name, value in node.kwargs.items() if not isinstance(value, Node)}
        return LinearFunctionCall(lambda x: function(x, *arguments, **keywords))
    if isinstance(module, nn.Hardtanh) and module.min_val == 0:  # includes nn.ReLU6, a subclass
        return ClippedRelu(partial(F.hardtanh, min_val=0, max_val=module.max_val))
    if node.target is F.relu6:
        return ClippedRelu(F.relu6)
    name = getattr(node.target, "__name__", str(node.target)) if module is None else type(module).__name__
    raise _make_no_rule_error(name)


def _make_no_rule_error(operation: str) -> RunError:
    return RunError(f"lrp has no rule for {operation}, an operation of the network; leave lrp out")

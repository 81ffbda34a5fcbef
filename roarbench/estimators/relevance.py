"""A copy of a network whose every step is a module, so that a rule for relevance can be hung on each."""

import operator

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from roarbench.devices import out_of_memory
from roarbench.errors import RunError
from roarbench.estimators.stem import folded

_LINEAR = (nn.Conv2d, nn.Linear, nn.BatchNorm2d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)
_SAME = (nn.Identity, nn.Dropout)  # in eval mode
_MOVES = (torch.flatten, operator.getitem, getattr, "flatten", "view", "reshape", "permute", "contiguous", "size")
_ADDS = (operator.add, operator.iadd, torch.add, "add", "add_")
_RELUS = (torch.relu, nn.functional.relu, "relu", "relu_")


class Sum(nn.Module):
    """The sum of two branches."""

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Return the sum of two tensors of one shape."""
        return one + other


class Mean(nn.Module):
    """The mean over some axes."""

    def forward(self, x: Tensor, *axes: object, **named: object) -> Tensor:
        """Return the mean as `Tensor.mean` does."""
        return x.mean(*axes, **named)  # type: ignore[call-overload,no-any-return]


def unrolled(model: nn.Module) -> GraphModule:
    """Return a copy of a network: the same function up to rounding, in modules of which each is used once.

    Batch norms are folded into the convolutions before them, sums of branches are `Sum`, means `Mean`, and what does
    nothing in eval mode is gone. RunError where it has a step that no rule for relevance is known for.
    """
    traced = _traced(model)
    modules, seen = dict(traced.named_modules()), set[object]()
    for node in list(traced.graph.nodes):
        module = modules[str(node.target)] if node.op == "call_module" else None
        if node.op in ("placeholder", "output") or node.target in _MOVES:
            continue
        if isinstance(module, _LINEAR) and node.target not in seen:
            seen.add(node.target)
        elif isinstance(module, _SAME):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
        elif isinstance(module, nn.Flatten):
            node.op, node.target, node.args = "call_function", torch.flatten, (*node.args, module.start_dim)
        else:
            _as_module(traced, node, _step(node, module))
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.eval()


def _traced(model: nn.Module) -> GraphModule:
    for part in model.modules():
        known = any(part.children()) or isinstance(part, (*_LINEAR, *_SAME, nn.Flatten, nn.ReLU))
        if type(part).__module__.startswith("torch.nn") and not known:
            raise _no_rule(type(part).__name__)
    try:
        return folded(model)
    except Exception as error:  # of whoever wrote the network: torch.fx follows no branches that depend on numbers
        if out_of_memory(error):
            raise
        raise RunError(f"lrp cannot follow the steps of {type(model).__name__}; leave it out") from error


def _step(node: Node, module: nn.Module | None) -> nn.Module:
    """Return a module that does what a node does."""
    if isinstance(module, nn.ReLU) or node.target in _RELUS:
        return nn.ReLU()  # one for each use, and never in place
    if node.target in _ADDS and len(node.all_input_nodes) == 2:
        return Sum()
    if node.target in ("mean", torch.mean):
        return Mean()
    if isinstance(module, _LINEAR):
        raise RunError(f"lrp takes a module once and {node.target} is used twice; leave it out")
    raise _no_rule(type(module).__name__ if module is not None else getattr(node.target, "__name__", str(node.target)))


def _no_rule(step: str) -> RunError:
    return RunError(f"lrp has no rule for {step}, which the network has; leave it out")


def _as_module(traced: GraphModule, node: Node, step: nn.Module) -> None:
    tensors, others = node.all_input_nodes, [arg for arg in node.args if not isinstance(arg, Node)]
    node.args = (*tensors, *others) if isinstance(step, Mean) else tuple(tensors)
    node.kwargs = node.kwargs if isinstance(step, Mean) else {}
    name = f"step_{node.name}"
    traced.add_submodule(name, step)
    node.op, node.target = "call_module", name

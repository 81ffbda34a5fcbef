"""A copy of a network whose every step is a module, so that a rule for relevance can be hung on each."""

import copy
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.nn import functional as F

from roarbench.devices import is_out_of_memory
from roarbench.errors import RunError
from roarbench.estimators.affine_stem import fold_batchnorm

_POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
_PADS = (nn.ZeroPad2d, nn.ConstantPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d, nn.CircularPad2d)
_LINEAR = (nn.Conv2d, nn.Linear, nn.BatchNorm2d, *_POOLS, *_PADS)
_LINEAR_CALLS = (
    *(F.max_pool2d, torch.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.adaptive_max_pool2d, F.pad),
    *(torch.mean, "mean"),
)
_SAME = (nn.Identity, nn.Dropout)  # in eval mode
_MOVES = (torch.flatten, operator.getitem, getattr, "flatten", "view", "reshape", "permute", "contiguous", "size")
_ADDS = (operator.add, operator.iadd, torch.add, "add", "add_")
_RELUS = (torch.relu, torch.relu_, F.relu, "relu", "relu_")
_CLIPS = (
    *(F.relu6, F.hardtanh, F.hardtanh_, F.threshold, torch.threshold, torch.clamp, torch.clip, torch.clamp_min),
    *("clamp", "clamp_", "clip", "clip_", "clamp_min", "clamp_min_"),
)


class Sum(nn.Module):
    """The sum of two branches."""

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Return the sum of two tensors of one shape."""
        return one + other


class Linear(nn.Module):
    """A call that is linear in its tensor, or like a max-pool chooses numbers of it."""

    def __init__(self, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        """Return what the call does."""
        return self.call(x)


class Clip(Linear):
    """A ReLU that ends at a largest number, as the factor that it is for each number: all relevance goes through."""

    def forward(self, x: Tensor) -> Tensor:
        """Return what the call does."""
        return x * (self.call(x.detach().clone()) / x.detach()).nan_to_num(0.0)


def trace_to_modules(model: nn.Module) -> GraphModule:
    """Return a copy of a network: the same function up to rounding, in modules of which each is used once.

    Batch norms are folded into the convolutions before them, sums of branches are `Sum`, and what does nothing
    in eval mode is gone. RunError where it has a step that no rule for relevance is known for.
    """
    traced = _trace(model)
    modules, seen = dict(traced.named_modules()), set[object]()
    for node in list(traced.graph.nodes):
        module = modules[str(node.target)] if node.op == "call_module" else None
        if node.op in ("placeholder", "output") or (module is None and node.target in _MOVES):
            continue
        if isinstance(module, _LINEAR) and node.target not in seen:
            seen.add(node.target)
        elif isinstance(module, _SAME):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
        elif isinstance(module, nn.Flatten):
            node.op, node.target, node.args = "call_function", torch.flatten, (*node.args, module.start_dim)
        else:
            _replace_by_module(traced, node, _step(node, module))
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.eval()


def _trace(model: nn.Module) -> GraphModule:
    for part in model.modules():
        known = any(part.children()) or isinstance(part, (*_LINEAR, *_SAME, nn.Flatten, nn.ReLU, nn.Hardtanh))
        if type(part).__module__.startswith("torch.nn") and not known:
            raise _no_rule(type(part).__name__)
    try:
        return fold_batchnorm(model)
    except Exception as error:  # of whoever wrote the network: torch.fx follows no branches that depend on numbers
        if is_out_of_memory(error):
            raise
        raise RunError(f"lrp cannot follow the steps of {type(model).__name__}; leave it out") from error


def _step(node: Node, module: nn.Module | None) -> nn.Module:
    """Return a module that does what a node does."""
    if isinstance(module, nn.ReLU) or (module is None and node.target in _RELUS):
        return nn.ReLU()  # one for each use, and never in place
    if isinstance(module, (*_POOLS, *_PADS)):
        return copy.deepcopy(module)
    if isinstance(module, _LINEAR):
        raise RunError(f"lrp takes a module once and {node.target} is used twice; leave it out")
    tensors = len(node.all_input_nodes)
    if module is None and node.target in _ADDS and tensors == 2:
        return Sum()
    if module is None and node.target in _LINEAR_CALLS and tensors == 1:
        return Linear(_call_of(node))
    if isinstance(module, nn.Hardtanh):  # nn.ReLU6 is one
        clip = Clip(partial(F.hardtanh, min_val=module.min_val, max_val=module.max_val))
    elif module is None and node.target in _CLIPS and tensors == 1:
        clip = Clip(_call_of(node))
    else:
        clip = None
    if clip and _is_rectifier(clip.call):
        return clip
    raise _no_rule(type(module).__name__ if module is not None else getattr(node.target, "__name__", str(node.target)))


def _no_rule(step: str) -> RunError:
    return RunError(f"lrp has no rule for {step}, which the network has; leave it out")


def _call_of(node: Node) -> Callable[[Tensor], Tensor]:
    """Return the call of a node as a function of its tensor."""
    function: Any = getattr(Tensor, node.target) if isinstance(node.target, str) else node.target
    others = node.args[1:]
    named = {name: value for name, value in node.kwargs.items() if not isinstance(value, Node)}
    return lambda x: function(x, *others, **named)


def _is_rectifier(call: Callable[[Tensor], Tensor]) -> bool:
    """Say whether a function is 0 up to 0 and then at first the number itself."""
    line = torch.tensor([-1e6, -1.0, -1e-3, 0.0, 1e-3])
    return bool((call(line.clone()) == line.clamp(min=0)).all())


def _replace_by_module(traced: GraphModule, node: Node, step: nn.Module) -> None:
    node.args, node.kwargs = tuple(node.all_input_nodes), {}
    name = f"step_{node.name}"
    traced.add_submodule(name, step)
    node.op, node.target = "call_module", name

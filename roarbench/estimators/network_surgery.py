"""Transform networks: split off the affine stem, read a layer's output, and trace a network to separate modules.

The stem, which is the first convolution with its batch norm folded in, is affine, so it maps a straight path of images
to a straight path of outputs. Gradients at the points of the output path can therefore be summed before they are passed
back through the stem. The stem then needs one forward pass for each end of the path and one backward pass, instead of a
forward and a backward pass for every point.
"""

import copy
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node, symbolic_trace
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from roarbench.device_settings import is_out_of_memory
from roarbench.enums import Precision
from roarbench.errors import RunError

GradNode = torch.autograd.graph.Node
_GATES = {"SigmoidBackward0", "HardsigmoidBackward0", "HardtanhBackward0", "SoftmaxBackward0", "TanhBackward0"}
# a sum, quotient or product with a constant has one parent in the graph, and one of two tensors has two
_ARITHMETIC = {"AddBackward0", "DivBackward0", "MulBackward0"}
_VIEWS = {"ExpandBackward0", "ReshapeAliasBackward0", "UnsqueezeBackward0", "ViewBackward0", "UnsafeViewBackward0"}
_POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
_PADS = (nn.ZeroPad2d, nn.ConstantPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d, nn.CircularPad2d)
_LINEAR = (nn.Conv2d, nn.Linear, nn.BatchNorm2d, *_POOLS, *_PADS)
_LINEAR_CALLS = (
    *(F.max_pool2d, torch.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.adaptive_max_pool2d, F.pad),
    *(torch.mean, "mean"),
)
_SAME = (nn.Identity, nn.Dropout)  # layers that return their input in eval mode
_MOVES = (torch.flatten, operator.getitem, getattr, "flatten", "view", "reshape", "permute", "contiguous", "size")
_ADDS = (operator.add, operator.iadd, torch.add, "add", "add_")
_RELUS = (torch.relu, torch.relu_, F.relu, "relu", "relu_")


class Bf16Network(nn.Module):
    """A float32 network whose passes run in bfloat16; the logits and the gradients of images are float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.train(model.training)
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
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, (n, classes)."""
        logits: Tensor = self.rest(self.stem(images))
        return logits


def convert_precision(model: nn.Module, precision: Precision) -> nn.Module:
    """Return a network whose passes run in this precision; the stem of a `SplitStem` stays in float32."""
    if precision is Precision.FLOAT32:
        return model
    return SplitStem(model.stem, Bf16Network(model.rest)) if isinstance(model, SplitStem) else Bf16Network(model)


def split_stem(network: GraphModule) -> nn.Module:
    """Split a traced network after its first convolution; return it unchanged if another operation uses the images.

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

    The copy's logits are equal up to rounding. ReLUs stay separate modules, as does a batch norm that does not directly
    follow a convolution.
    `benchmarks/peers/test_maps.py` compares the time of maps with and without folding.
    """
    traced = symbolic_trace(copy.deepcopy(model))
    _return_logits_field(traced.graph)
    modules = dict(traced.named_modules())
    for node in traced.graph.nodes:
        if node.op != "call_module" or not isinstance(norm := modules[node.target], nn.BatchNorm2d):
            continue
        (before,) = node.args
        alone = isinstance(before, Node) and before.op == "call_module" and len(before.users) == 1
        if alone and isinstance(convolution := modules[before.target], nn.Conv2d):
            traced.set_submodule(before.target, fuse_conv_bn_eval(convolution, norm))
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    traced.eval()
    return traced


def _return_logits_field(graph: Graph) -> None:
    """Make a traced network return only `logits` if its output is an object with this attribute."""
    output = graph.output_node()
    (result,) = output.args
    if isinstance(result, Node) and "logits" in result.kwargs:
        output.args = (result.kwargs["logits"],)
        graph.erase_node(result)


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the smallest proper submodules with at least two convolutions, in order: a ResNet's residual blocks."""
    parts = [module for module in model.modules() if module is not model and count_convolutions(module) >= 2]
    return [part for part in parts if not any(count_convolutions(child) >= 2 for child in part.children())]


def count_convolutions(module: nn.Module) -> int:
    """Count the two-dimensional convolutions in a module, including the module itself."""
    return sum(isinstance(part, nn.Conv2d) for part in module.modules())


def compute_layer_output_and_logits(model: nn.Module, images: Tensor, layer: str) -> tuple[Tensor, Tensor]:
    """Run images through a network and return a layer's output, (n, k, a, b), and the logits, in one autograd graph.

    Args:
        model: In eval mode.
        images: Float (n, c, h, w).
        layer: `block1`, `block2`, …, or `last` for the last block. If the output of the last block has a single
            position, or is a gate as in squeeze and excitation, `last` means the last module whose output has several
            positions and is not a gate.

    Raises:
        RunError: There is no such layer.
    """
    outputs: list[tuple[nn.Module, Tensor]] = []  # in order of execution

    def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if not isinstance(output, Tensor) or output.ndim != 4 or output.shape[2:].numel() == 1:
            return
        if count_convolutions(module) or inputs[0].shape[2:] == output.shape[2:]:  # excludes pooling layers
            outputs.append((module, output))

    parts = [part for part in model.modules() if part is not model and not isinstance(part, torch.jit.ScriptModule)]
    hooks = [part.register_forward_hook(keep) for part in parts]
    try:
        with torch.enable_grad():
            logits: Tensor = model(images.detach().clone().requires_grad_())
    finally:
        for hook in hooks:
            hook.remove()
    used = _find_nodes_reaching_logits(logits)
    return _choose_output(model, layer, [(module, out) for module, out in outputs if out.grad_fn in used]), logits


def _choose_output(model: nn.Module, layer: str, outputs: list[tuple[nn.Module, Tensor]]) -> Tensor:
    blocks = find_blocks(model)
    number = len(blocks) if layer == "last" else int(layer.removeprefix("block"))
    block_outputs = [out for module, out in outputs if 1 <= number <= len(blocks) and module is blocks[number - 1]]
    if block_outputs:
        return block_outputs[-1]
    if layer != "last":
        present = f"blocks 1 to {len(blocks)}" if blocks else "no block with two convolutions"
        lacks = (
            "has a single position or is a gate"
            if number <= len(blocks)
            else f"does not exist: the network has {present}"
        )
        raise RunError(f"layer {layer} {lacks}; use layer=last")
    if outputs and count_convolutions(model) > 1:
        return outputs[-1][1]
    raise RunError(
        "no layer is suitable: expected two convolutions, and a layer with several positions that is not a gate"
    )


def _find_nodes_reaching_logits(logits: Tensor) -> set[GradNode]:
    """Find the operations of the autograd graph that reach the logits, except those that do so only as a gate."""
    used: set[GradNode] = set()
    front = [logits.grad_fn]
    while front:
        node = front.pop()
        if node is not None and node not in used:
            used.add(node)
            parents = _list_parents(node)
            gates = [parent for parent in parents if _is_gate(parent)] if node.name() == "MulBackward0" else []
            front += [parent for parent in parents if len(parents) == 1 or parent not in gates]
    return used


def _list_parents(node: GradNode) -> list[GradNode]:
    return [parent for parent, _ in node.next_functions if parent is not None]


def _is_gate(node: GradNode) -> bool:
    """Return whether an operation is a squashing function, possibly followed by views and arithmetic with constants."""
    while node.name() in _VIEWS | _ARITHMETIC and len(_list_parents(node)) == 1:
        (node,) = _list_parents(node)
    return node.name() in _GATES


class Sum(nn.Module):
    """The sum of two branches."""

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Return the sum of two tensors of one shape."""
        return one + other


class Linear(nn.Module):
    """A module for a function call that is linear in its input, or selects values of its input as max-pooling does."""

    def __init__(self, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        """Return the result of the call."""
        return self.call(x)


class Clip(Linear):
    """A ReLU with an upper limit, computed as each value times a constant, so that all relevance passes through."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the result of the call."""
        return x * (self.call(x.detach()) / x.detach()).nan_to_num(0.0)


def rewrite_for_relevance_rules(model: nn.Module) -> GraphModule:
    """Copy a network so that each of its modules is used once; the copy's logits are equal up to rounding.

    Batch norms are folded into convolutions, sums of branches become modules of class `Sum`, and operations without
    effect in eval mode are removed. Raises RunError if an operation has no relevance rule.
    """
    traced = _trace_for_lrp(model)
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
            step, name = _make_module_of_node(node, module), f"step_{node.name}"
            traced.add_submodule(name, step)
            node.op, node.target, node.args, node.kwargs = "call_module", name, tuple(node.all_input_nodes), {}
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.eval()


def _trace_for_lrp(model: nn.Module) -> GraphModule:
    for part in model.modules():
        known = any(part.children()) or isinstance(part, (*_LINEAR, *_SAME, nn.Flatten, nn.ReLU, nn.Hardtanh))
        if type(part).__module__.startswith("torch.nn") and not known:
            raise _make_no_rule_error(type(part).__name__)
    try:
        return fold_batchnorm(model)
    except Exception as error:  # torch.fx cannot follow branches on values, and user code may raise anything
        if is_out_of_memory(error):
            raise
        raise RunError(f"lrp cannot trace the operations of {type(model).__name__}; leave lrp out") from error


def _make_module_of_node(node: Node, module: nn.Module | None) -> nn.Module:
    if isinstance(module, nn.ReLU) or (module is None and node.target in _RELUS):
        return nn.ReLU()  # each use gets its own module, which does not work in place
    if isinstance(module, (*_POOLS, *_PADS)):
        return copy.deepcopy(module)
    if isinstance(module, _LINEAR):
        raise RunError(f"lrp supports only modules that are used once, but {node.target} is used twice; leave lrp out")
    tensors = len(node.all_input_nodes)
    if module is None and node.target in _ADDS and tensors == 2:
        return Sum()
    if module is None and node.target in _LINEAR_CALLS and tensors == 1:
        return Linear(_make_call_of_node(node))
    if isinstance(module, nn.Hardtanh) and module.min_val == 0:  # includes nn.ReLU6, a subclass
        return Clip(partial(F.hardtanh, min_val=0, max_val=module.max_val))
    if node.target is F.relu6:
        return Clip(F.relu6)
    raise _make_no_rule_error(
        type(module).__name__ if module is not None else getattr(node.target, "__name__", str(node.target))
    )


def _make_no_rule_error(step: str) -> RunError:
    return RunError(f"lrp has no rule for {step}, an operation of the network; leave lrp out")


def _make_call_of_node(node: Node) -> Callable[[Tensor], Tensor]:
    function: Any = getattr(Tensor, node.target) if isinstance(node.target, str) else node.target
    arguments = node.args[1:]
    keywords = {name: value for name, value in node.kwargs.items() if not isinstance(value, Node)}
    return lambda x: function(x, *arguments, **keywords)

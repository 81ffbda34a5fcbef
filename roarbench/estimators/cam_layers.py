"""The layer that class activation maps look at: it has more than one place, and not only gates use its output."""

from typing import Any

import torch
from torch import Tensor, nn

from roarbench.errors import RunError

Node = torch.autograd.graph.Node
_GATES = {"SigmoidBackward0", "HardsigmoidBackward0", "HardtanhBackward0", "SoftmaxBackward0", "TanhBackward0"}
_ARITHMETIC = {"AddBackward0", "DivBackward0", "MulBackward0"}  # with a number: what is left has one parent
_VIEWS = {"ExpandBackward0", "ReshapeAliasBackward0", "UnsqueezeBackward0", "ViewBackward0", "UnsafeViewBackward0"}


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return a network's blocks, from the image on: its smallest parts that have two convolutions or more.

    The whole network is none of its parts. For a ResNet they are its residual blocks.
    """
    parts = [module for module in model.modules() if module is not model and count_convolutions(module) >= 2]
    return [part for part in parts if not any(count_convolutions(child) >= 2 for child in part.children())]


def count_convolutions(module: nn.Module) -> int:
    """Count the two-dimensional convolutions of a module, itself among them."""
    return sum(isinstance(each, nn.Conv2d) for each in module.modules())


def run_to_layer(model: nn.Module, images: Tensor, layer: str) -> tuple[Tensor, Tensor]:
    """Run images through a network and return a layer's output, (n, k, a, b), and the logits, on one graph.

    Args:
        model: In eval mode.
        images: Float (n, c, h, w).
        layer: `block1`, `block2` and so on, or `last`: the last block, or where that has a single place or is a gate,
            as in squeeze and excitation, the last module of which neither is true.

    Raises:
        RunError: There is no such layer.
    """
    outputs: list[tuple[nn.Module, Tensor]] = []  # in the order in which they were made

    def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if _has_places(output) and (count_convolutions(module) or inputs[0].shape[2:] == output.shape[2:]):  # no pool
            outputs.append((module, output))

    parts = [part for part in model.modules() if part is not model and not isinstance(part, torch.jit.ScriptModule)]
    hooks = [part.register_forward_hook(keep) for part in parts]
    try:
        with torch.enable_grad():
            logits: Tensor = model(images.detach().clone().requires_grad_())
    finally:
        for hook in hooks:
            hook.remove()
    used = _find_used(logits)
    return _choose_output(model, layer, [(module, out) for module, out in outputs if out.grad_fn in used]), logits


def _has_places(output: Any) -> bool:
    return isinstance(output, Tensor) and output.ndim == 4 and output.shape[2:].numel() > 1


def _choose_output(model: nn.Module, layer: str, outputs: list[tuple[nn.Module, Tensor]]) -> Tensor:
    """Return the output of the layer that is asked for, of those that may be looked at."""
    blocks = find_blocks(model)
    number = len(blocks) if layer == "last" else int(layer.removeprefix("block"))
    found = [out for module, out in outputs if 1 <= number <= len(blocks) and module is blocks[number - 1]]
    if found:
        return found[-1]
    if layer != "last":
        has = f"blocks 1 to {len(blocks)}" if blocks else "no block of two convolutions"
        lacks = "has a single place or is a gate" if number <= len(blocks) else f"is not there: the network has {has}"
        raise RunError(f"layer {layer} {lacks}; write layer=last")
    if outputs and count_convolutions(model) > 1:
        return outputs[-1][1]
    raise RunError("the network has no layer to look at: two convolutions, an output with more than one place, no gate")


def _find_used(logits: Tensor) -> set[Node]:
    """Return the steps of a graph whose output reaches the logits, not only as what a product weighs features with."""
    found: set[Node] = set()
    front = [logits.grad_fn]
    while front:
        node = front.pop()
        if node is not None and node not in found:
            found.add(node)
            parents = _parents(node)
            gates = [parent for parent in parents if _is_gate(parent)] if node.name() == "MulBackward0" else []
            front += [parent for parent in parents if len(parents) == 1 or parent not in gates]
    return found


def _parents(node: Node) -> list[Node]:
    return [parent for parent, _ in node.next_functions if parent is not None]


def _is_gate(node: Node) -> bool:
    """Say whether a step squashes its input, but for views of it and arithmetic with numbers."""
    while node.name() in _VIEWS | _ARITHMETIC and len(_parents(node)) == 1:
        (node,) = _parents(node)
    return node.name() in _GATES

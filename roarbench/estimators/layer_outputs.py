"""Read the output of a layer in the middle of a network, together with the logits."""

from typing import Any

import torch
from torch import Tensor, nn

from roarbench.common.errors import RunError

GradNode = torch.autograd.graph.Node
_GATES = {"SigmoidBackward0", "HardsigmoidBackward0", "HardtanhBackward0", "SoftmaxBackward0", "TanhBackward0"}
# a sum, quotient or product with a constant has one parent in the graph, and one of two tensors has two
_ARITHMETIC = {"AddBackward0", "DivBackward0", "MulBackward0"}
_VIEWS = {"ExpandBackward0", "ReshapeAliasBackward0", "UnsqueezeBackward0", "ViewBackward0", "UnsafeViewBackward0"}


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
        if count_convolutions(module) or inputs[0].shape[2:] == output.shape[2:]:  # this is false for pooling layers
            outputs.append((module, output))

    parts = [part for part in model.modules() if part is not model and not isinstance(part, torch.jit.ScriptModule)]
    hooks = [part.register_forward_hook(keep) for part in parts]
    try:
        with torch.enable_grad():
            logits: Tensor = model(images.detach().clone().requires_grad_())
    finally:
        for hook in hooks:
            hook.remove()
    used = _find_nodes_with_ungated_path_to_logits(logits)
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


def _find_nodes_with_ungated_path_to_logits(logits: Tensor) -> set[GradNode]:
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

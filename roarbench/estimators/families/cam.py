"""Class activation maps: weighted sums of a layer's channels."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from roarbench.common.errors import CallerError, RunError
from roarbench.estimators.estimator import Estimator, Passes
from roarbench.estimators.families.gradients import compute_logit_gradients
from roarbench.estimators.lazy_torch import F, Tensor, backward_rules, nn, torch
from roarbench.estimators.map_input import MapInput

# operations of autograd graphs whose output gates another layer, as in squeeze and excitation
_GATES = {"SigmoidBackward0", "HardsigmoidBackward0", "HardtanhBackward0", "SoftmaxBackward0", "TanhBackward0"}
# with a constant, these operations have one parent in the graph; with two tensors, two parents
_ARITHMETIC = {"AddBackward0", "DivBackward0", "MulBackward0"}
_VIEWS = {"ExpandBackward0", "ReshapeAliasBackward0", "UnsqueezeBackward0", "ViewBackward0", "UnsafeViewBackward0"}
# channels of ResNet-18's last block; cost estimates assume this number, because Score-CAM takes one pass per channel
_CHANNELS = 512


def resize_maps_to_images(importance: Tensor, images: Tensor) -> Tensor:
    """Resize maps (n, k, a, b) bilinearly to the size of the images; a constant map keeps its exact value."""
    low, high = importance.amin((2, 3), keepdim=True), importance.amax((2, 3), keepdim=True)
    stretched = F.interpolate(importance, images.shape[-2:], mode="bilinear", align_corners=False)
    return torch.where(low == high, low, stretched)


def _compute_requested_layer_and_logit(inputs: MapInput) -> tuple[Tensor, Tensor]:
    """Return the requested layer's output, (n, k, a, b), and the target logits, (n, 1)."""
    channels, logits = compute_layer_output_and_logits(
        inputs.model, inputs.images, str(inputs.estimator.get_value("layer"))
    )
    return channels, logits.gather(1, inputs.batch.targets[:, None])


def _weight_channels(inputs: MapInput, weights: Callable[[Tensor], Tensor]) -> Tensor:
    """Sum the channels with weights `weights(gradient)`, set negative sums to 0, and resize the map to the images."""
    with torch.enable_grad():
        channels, logits = _compute_requested_layer_and_logit(inputs)
        (gradient,) = torch.autograd.grad(logits.sum(), channels)
    return resize_maps_to_images((weights(gradient) * channels.detach()).sum(1, keepdim=True).relu(), inputs.images)


def gradcam(inputs: MapInput) -> Tensor:
    """Compute Grad-CAM (Selvaraju et al. 2017): channels weighted by their mean gradient."""
    return _weight_channels(inputs, lambda gradient: gradient.mean((2, 3), keepdim=True))


def guided_gradcam(inputs: MapInput) -> Tensor:
    """Compute guided backprop times Grad-CAM (Selvaraju et al. 2017), signed; the network needs ReLUs."""
    try:
        fine = compute_logit_gradients(inputs.model, inputs.images, inputs.batch.targets, {"gb"})["gb"]
    except CallerError as error:
        seen = str(error).partition(";")[0].replace("guided backprop", "guided-gradcam")
        raise RunError(f"{seen}; leave guided-gradcam out") from error
    return fine * gradcam(inputs)


def hires_cam(inputs: MapInput) -> Tensor:
    """Compute HiResCAM (Draelos & Carin, arXiv 2011.08891): channels weighted elementwise by their gradient."""
    return _weight_channels(inputs, lambda gradient: gradient)


def layer_cam(inputs: MapInput) -> Tensor:
    """Compute Layer-CAM (Jiang et al. 2021): channels weighted elementwise by their positive gradient."""
    return _weight_channels(inputs, lambda gradient: gradient.relu())


def score_cam(inputs: MapInput) -> Tensor:
    """Compute Score-CAM (Wang et al. 2020, algorithm 1): channels weighted by the logits of masked images.

    Each channel is resized to the image, scaled to [0, 1], and used as a mask that blends the image with the baseline.
    The weights are the softmax of the masked images' logits over the channels. A constant channel has weight 0.
    """
    images, baseline, scores = inputs.images, inputs.baseline, []
    channels = _compute_requested_layer_and_logit(inputs)[0].detach()
    for channel in channels.unbind(1):
        mask = resize_maps_to_images(channel[:, None], images)
        low, high = mask.amin((2, 3), keepdim=True), mask.amax((2, 3), keepdim=True)
        logit = inputs.compute_logit(torch.lerp(baseline, images, ((mask - low) / (high - low)).nan_to_num(0.0)))
        scores.append(logit.where((high > low).flatten(1), torch.full_like(logit, -math.inf)))
    # the softmax is NaN if all channels are constant; all weights are then 0
    weights = torch.cat(scores, 1).softmax(1).nan_to_num(0.0)
    return resize_maps_to_images((weights[:, :, None, None] * channels).sum(1, keepdim=True).relu(), images)


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the smallest proper submodules with at least two convolutions, in order: a ResNet's residual blocks."""
    blocks = [module for module in model.modules() if module is not model and count_convolutions(module) >= 2]
    return [block for block in blocks if not any(count_convolutions(child) >= 2 for child in block.children())]


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
    outputs: list[tuple[nn.Module, Tensor]] = []  # candidate modules and their outputs, in order of execution

    def collect_output(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if not torch.is_tensor(output) or output.ndim != 4 or output.shape[2:].numel() == 1:
            return
        if count_convolutions(module) or inputs[0].shape[2:] == output.shape[2:]:  # excludes pooling layers
            outputs.append((module, output))

    modules = [part for part in model.modules() if part is not model and not isinstance(part, torch.jit.ScriptModule)]
    with torch.enable_grad(), ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_hook(collect_output))
        logits: Tensor = model(images.detach().clone().requires_grad_())
    nodes = backward_rules.find_reachable_nodes(logits, _list_parents_except_gates)
    return _choose_output(model, layer, [(module, out) for module, out in outputs if out.grad_fn in nodes]), logits


def _choose_output(model: nn.Module, layer: str, outputs: list[tuple[nn.Module, Tensor]]) -> Tensor:
    blocks = find_blocks(model)
    number = len(blocks) if layer == "last" else int(layer.removeprefix("block"))
    block_outputs = [out for module, out in outputs if 1 <= number <= len(blocks) and module is blocks[number - 1]]
    if block_outputs:
        return block_outputs[-1]
    if layer != "last":
        present = f"blocks 1 to {len(blocks)}" if blocks else "no block with two convolutions"
        missing = f"does not exist: the network has {present}"
        problem = "has a single position or is a gate" if number <= len(blocks) else missing
        raise RunError(f"layer {layer} {problem}; use layer=last")
    if outputs and count_convolutions(model) > 1:
        return outputs[-1][1]
    raise RunError(
        "no layer is suitable: expected two convolutions, and a layer with several positions that is not a gate"
    )


def _list_parents_except_gates(node: torch.autograd.graph.Node) -> list[torch.autograd.graph.Node]:
    parents = backward_rules.list_parents(node)
    if node.name() != "MulBackward0" or len(parents) == 1:
        return parents
    return [parent for parent in parents if not _comes_from_squashing(parent)]


def _comes_from_squashing(node: torch.autograd.graph.Node) -> bool:
    """Return whether an operation is a squashing function, possibly followed by views and arithmetic with constants."""
    while node.name() in _VIEWS | _ARITHMETIC and len(backward_rules.list_parents(node)) == 1:
        (node,) = backward_rules.list_parents(node)
    return node.name() in _GATES


_BLOCK = {"layer": "last"}
ESTIMATORS = (
    Estimator("gradcam", title="Grad-CAM",
        about="Grad-CAM: channels of the last block, weighted by their mean gradient", maps=gradcam,
        parameters=_BLOCK, cost=Passes(1, 1), papers=("selvaraju2017gradcam",), neighbours=True),
    Estimator("guided-gradcam", title="Guided Grad-CAM", about="guided backprop times Grad-CAM", maps=guided_gradcam,
        parameters=_BLOCK, cost=Passes(2, 2),
        papers=("selvaraju2017gradcam", "springenberg2015striving"), neighbours=True),
    Estimator("hires-cam", title="HiResCAM", about="HiResCAM: channels of the last block times their gradient",
        maps=hires_cam, parameters=_BLOCK, cost=Passes(1, 1), papers=("draelos2020hirescam",), neighbours=True),
    Estimator("layer-cam", title="LayerCAM",
        about="Layer-CAM: channels of the last block times their positive gradient", maps=layer_cam,
        parameters=_BLOCK, cost=Passes(1, 1), papers=("jiang2021layercam",), neighbours=True),
    Estimator("score-cam", title="Score-CAM",
        about="Score-CAM: channels of the last block, weighted by logits of masked images", maps=score_cam,
        parameters={"baseline": "mean", **_BLOCK}, cost=Passes(1 + _CHANNELS, 0),
        papers=("wang2020scorecam",), neighbours=True),
)  # fmt: skip

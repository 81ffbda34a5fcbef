"""Estimators that look at the output of a block of convolutions, and which block that is."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from roarbench.errors import RunError
from roarbench.estimators.base import MethodInput
from roarbench.estimators.baselines import baseline_images


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Return a network's blocks, from the image on: its smallest parts that have two convolutions or more.

    The whole network is none of its parts. For a ResNet they are its residual blocks.
    """
    parts = [module for module in model.modules() if module is not model and _convolutions(module) >= 2]
    return [part for part in parts if not any(_convolutions(child) >= 2 for child in part.children())]


def _convolutions(module: nn.Module) -> int:
    return sum(isinstance(each, nn.Conv2d) for each in module.modules())


def block_of(model: nn.Module, layer: str) -> nn.Module:
    """Return the block of this name, `last` or `block1`, `block2` and so on.

    Raises:
        RunError: The network has no such block.
    """
    found = blocks_of(model)
    number = len(found) if layer == "last" else int(layer.removeprefix("block"))
    if not 1 <= number <= len(found):
        has = f"blocks 1 to {len(found)}" if found else "no block of two convolutions, so no layer to look at"
        raise RunError(f"layer {layer} is not there: the network has {has}")
    return found[number - 1]


def over_image(importance: Tensor, images: Tensor) -> Tensor:
    """Stretch maps (n, k, a, b) over the images, bilinearly."""
    return F.interpolate(importance, images.shape[-2:], mode="bilinear", align_corners=False)


def _channels(model: nn.Module, block: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Return what a block puts out, (n, k, a, b), and the logits, (n, classes)."""
    kept: list[Tensor] = []
    hook = block.register_forward_hook(lambda module, inputs, output: kept.append(output))
    try:
        logits = model(images)
    finally:
        hook.remove()
    return kept[-1], logits


def layer_cam(asked: MethodInput) -> Tensor:
    """Return Layer-CAM (Jiang et al. 2021): channels weighted place by place with their gradient where that is above 0.

    captum has no part for it.
    """
    with torch.enable_grad():
        images = asked.batch.images.detach().clone().requires_grad_()
        channels, logits = _channels(asked.model, block_of(asked.model, asked.word("layer")), images)
        chosen = logits.gather(1, asked.batch.targets[:, None]).sum()
    (gradient,) = torch.autograd.grad(chosen, channels)
    return over_image((gradient.relu() * channels.detach()).sum(1, keepdim=True).relu(), asked.batch.images)


@torch.no_grad()
def score_cam(asked: MethodInput) -> Tensor:
    """Return Score-CAM (Wang et al. 2020, algorithm 1): channels weighted by the logit of what they let through.

    Each channel is stretched over the image and brought to [0, 1]; it lets the image through over the baseline. The
    weights are a softmax over the channels. One that is the same everywhere has no shape and no weight.
    """
    images, targets = asked.batch.images, asked.batch.targets
    channels, _ = _channels(asked.model, block_of(asked.model, asked.word("layer")), images)
    baseline = baseline_images(asked.word("baseline"), images, asked.black)
    scores = []
    for channel in channels.unbind(1):
        mask = over_image(channel[:, None], images)
        low, high = mask.amin((2, 3), keepdim=True), mask.amax((2, 3), keepdim=True)
        shown = torch.lerp(baseline, images, ((mask - low) / (high - low)).nan_to_num(0.0))
        logit = asked.model(shown).gather(1, targets[:, None])
        scores.append(logit.where((high > low).flatten(1), torch.full_like(logit, -math.inf)))
    weights = torch.cat(scores, 1).softmax(1).nan_to_num(0.0)  # no channel has a shape: no weight at all
    return over_image((weights[:, :, None, None] * channels).sum(1, keepdim=True).relu(), images)

"""Compute the logits of trained networks on degraded images or masks."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.common.device_settings import choose_fastest_float32_layout, find_device
from roarbench.common.process_settings import use_exact_float32
from roarbench.compute.degraded_images import Inputs, read_batches
from roarbench.compute.normalisation import Normalisation, normalise


def choose_scoring_batch_size(size: int) -> int:
    """Return the number of images per batch in scoring: 128 for a side of up to 64 pixels, else 32.

    The number depends on the size alone, because logits may depend on the batch size (see `predict_logits`). Every
    batch is filled up, so a batch of more photographs would slow down the scoring of a few; 32 photographs keep a GPU
    busy.
    """
    return 128 if size <= 64 else 32


class NormalisedNetwork(NamedTuple):
    """A network and the normalisation of its inputs."""

    model: nn.Module
    norm: Normalisation


def predict_logits(model: nn.Module, inputs: Inputs, norm: Normalisation, batch: int) -> Tensor:
    """Compute the logits of all inputs, float32 (n, classes) on the CPU, and leave the model in evaluation mode.

    The computation is in float32, without autocast and TF32, on every device. Copies of the last input fill the last
    batch, because the rounding of a convolution depends on the batch size (`choose_scoring_batch_size`).
    """
    return predict_logits_of_networks([NormalisedNetwork(model, norm)], inputs, batch)[0]


def predict_logits_of_networks(networks: Sequence[NormalisedNetwork], inputs: Inputs, batch: int) -> list[Tensor]:
    """Compute the logits of several networks on one device; each batch of inputs is prepared once for all of them."""
    device = find_device(networks[0].model)
    layout = choose_fastest_float32_layout(device)
    for network in networks:
        network.model.to(memory_format=layout).eval()  # type: ignore[call-overload]
    starts = range(0, len(inputs), batch)
    indices = [torch.arange(start, start + batch).clamp(max=len(inputs) - 1) for start in starts]
    logits: list[list[Tensor]] = [[] for _ in networks]
    with torch.inference_mode(), use_exact_float32():
        for images in read_batches(inputs, indices):
            on_device = images.to(device)
            normalised = {norm: normalise(on_device, norm, layout) for norm in {norm for _, norm in networks}}
            for (model, norm), batches in zip(networks, logits, strict=True):
                batches.append(model(normalised[norm]))
        return [torch.cat(batches)[: len(inputs)].cpu() for batches in logits]

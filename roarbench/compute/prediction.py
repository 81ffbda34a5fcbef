"""Compute the logits of trained networks on normalised inputs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.common.device_settings import choose_fastest_float32_layout, find_device
from roarbench.common.process_settings import use_exact_float32
from roarbench.compute.normalised_inputs import (
    INPUTS_PER_PART,
    DeviceNormalisation,
    FixedInputs,
    Inputs,
    Normalisation,
    copy_normalisation_to_device,
    normalise_on_device,
)
from roarbench.compute.streamed_degraded_images import Streamed


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
    for network in networks:
        network.model.to(memory_format=choose_fastest_float32_layout(device)).eval()  # type: ignore[call-overload]
    starts = range(0, len(inputs), batch)
    indices = [torch.arange(start, start + batch).clamp(max=len(inputs) - 1) for start in starts]
    scales = {norm: copy_normalisation_to_device(norm, device) for _, norm in networks}
    logits: list[list[Tensor]] = [[] for _ in networks]
    with torch.inference_mode(), use_exact_float32():
        for normalised in _normalise_batches(inputs, indices, scales, device):
            for (model, norm), batches in zip(networks, logits, strict=True):
                batches.append(model(normalised[norm]))
        return [torch.cat(batches)[: len(inputs)].cpu() for batches in logits]


def _normalise_batches(
    inputs: Inputs, indices: Sequence[Tensor], scales: Mapping[Normalisation, DeviceNormalisation], device: torch.device
) -> Iterator[dict[Normalisation, Tensor]]:
    """Yield each batch on the device as a dict from each normalisation in `scales` to the normalised images.

    On a CPU, `FixedInputs` are prepared in parts that fit in the processor's cache.
    """
    if device.type == "cpu" and isinstance(inputs, FixedInputs):
        for index in indices:
            yield {norm: _normalise_in_parts(inputs, index, scale) for norm, scale in scales.items()}
        return
    read = inputs.read(indices) if isinstance(inputs, Streamed) else map(inputs.batch, indices)
    layout = choose_fastest_float32_layout(device)
    for images in read:
        on_device = images.to(device)
        yield {norm: normalise_on_device(on_device, scale, layout) for norm, scale in scales.items()}


def _normalise_in_parts(inputs: FixedInputs, index: Tensor, scale: DeviceNormalisation) -> Tensor:
    normalised = torch.empty((len(index), *inputs.shape), memory_format=torch.channels_last)
    parts, targets = (torch.split(tensor, INPUTS_PER_PART) for tensor in (index, normalised))
    for part, target in zip(parts, targets, strict=True):
        target.copy_(inputs.batch(part).sub(scale.mean).div_(scale.std))
    return normalised

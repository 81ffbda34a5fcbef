"""Check and wrap a caller's networks, split images into batches, and compute logits."""

import warnings
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from roarbench.api.inputs import convert_to_float32, move_to_model
from roarbench.common.device_settings import choose_float32_layout
from roarbench.common.errors import CallerError
from roarbench.common.text import describe_type
from roarbench.compute.external_networks import (
    add_second_logit,
    extract_logits,
    wrap_if_channels_last_fails,
    wrap_to_return_logits,
)
from roarbench.compute.network_checks import check_network_outputs, list_single_logit_warnings
from roarbench.compute.prediction import choose_scoring_batch_size
from roarbench.estimators.compute_maps import IMAGES_PER_PASS

_PIXELS = 2**17  # pixels per batch of images to explain: larger batches take more memory and are not faster on a CPU
_SCORED = 4 * 224**2  # pixels per forward pass, for the same reason
_FEW = 4  # images for checks of a network
_SOME = 64  # images for the check of a network with one output


def read_several_networks(networks: Any) -> list[nn.Module]:
    """Return several networks as a list; CallerError for anything else."""
    if isinstance(networks, nn.Module) or not isinstance(networks, Iterable):
        raise CallerError(f"networks is a single {type(networks).__name__}; write [model, sibling_1, sibling_2]")
    listed = list(networks)
    for number, network in enumerate(listed, 1):
        if not isinstance(network, nn.Module):
            raise CallerError(f"network {number} is {describe_type(network)}, expected a torch.nn.Module")
    return listed


def check_and_wrap_network(model: nn.Module, pixels: Tensor, name: str = "the network") -> nn.Module:
    """Return the network in float32 with a logit per class; warn of doubtful outputs, CallerError for unusable ones."""
    model = convert_to_float32(model, name, lambda line: warnings.warn(line, stacklevel=5))
    few = move_to_model(model, pixels[:_FEW] if len(pixels) > 1 else pixels.repeat(2, 1, 1, 1))
    wrapped = wrap_to_return_logits(wrap_if_channels_last_fails(model, few), few)
    network = add_second_logit(wrapped, few)
    warnings_found = check_network_outputs(network, few, name)
    if network is not wrapped:
        warnings_found += find_single_logit_warnings(network, pixels, name)
    for warning in warnings_found:
        warnings.warn(warning, stacklevel=3)
    return network


def find_single_logit_warnings(network: nn.Module, pixels: Tensor, name: str = "the network") -> list[str]:
    """Return `list_single_logit_warnings` of evenly spaced images, because files are often sorted by class."""
    some = pixels[:: -(-len(pixels) // _SOME)]
    return list_single_logit_warnings(network, move_to_model(network, some.clone()), name)


def check_logits_of_all_images(logits: Sequence[Tensor]) -> None:
    """Raise CallerError if logits, (n, classes) for each network, are NaN, or if two networks have the same logits."""
    for number, one in enumerate(logits, 1):
        if (undefined := one.isnan().any(1)).any():
            seen = f"network {number} returns logits that are NaN for image {int(undefined.int().argmax())}"
            raise CallerError(f"{seen}; leave the image out, or make the network's logits finite")
    for (number, one), (other_number, other) in combinations(enumerate(logits, 1), 2):
        if torch.equal(one, other):
            seen = f"networks {number} and {other_number} return the same logits for all images"
            raise CallerError(f"{seen}; expected siblings with other weights")


def split_into_batches(pixels: Tensor, networks: Sequence[nn.Module] = ()) -> list[slice]:
    """Divide images into batches to explain; if all networks are on a GPU, batches are as large as in a suite.

    If memory runs out, `compute_importance_maps` halves a batch.
    """
    size = max(1, _PIXELS // pixels[0, 0].numel())
    if networks and all(map(_is_on_gpu, networks)):
        size = max(size, min(IMAGES_PER_PASS, IMAGES_PER_PASS * 224**2 // pixels[0, 0].numel()))
    return [slice(start, min(start + size, len(pixels))) for start in range(0, len(pixels), size)]


def _is_on_gpu(network: nn.Module) -> bool:
    return any(weights.is_cuda for weights in network.parameters())


def _split_for_scoring(images: Tensor, network: nn.Module) -> list[slice]:
    """Divide images evenly into batches for one forward pass each; on a GPU, batches are as large as in a suite."""
    count = len(images)
    if _is_on_gpu(network):
        size = choose_scoring_batch_size(images.shape[3])
        return [slice(start, start + size) for start in range(0, count, size)]
    parts = min(max(1, count * images[0, 0].numel() // _SCORED), count)
    return [slice(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def compute_logits(model: nn.Module, images: Tensor) -> Tensor:
    """Compute logits, float32 (n, classes) on the CPU, in batches; the network stays in its mode (train or eval)."""
    with torch.inference_mode():
        parts = (move_to_model(model, images[part]) for part in _split_for_scoring(images, model))
        fast = (part.contiguous(memory_format=choose_float32_layout(part.device)) for part in parts)
        return torch.cat([extract_logits(model(part)).cpu().float() for part in fast])


def predict_degraded_images(model: nn.Module, images: Tensor) -> Tensor:
    """Predict the classes of images without some features, int64 (n,) on the CPU; CallerError if logits are NaN."""
    logits = compute_logits(model, images)
    if logits.isnan().any():
        seen = "a network returns logits that are NaN after features of an image are removed"
        raise CallerError(f"{seen}; pass smaller levels, or make the network's logits finite")
    return logits.argmax(1)

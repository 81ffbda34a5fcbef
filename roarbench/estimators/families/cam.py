"""Class activation maps: weighted sums of a layer's channels."""

from __future__ import annotations

import math
from collections.abc import Callable

from roarbench.common.errors import CallerError, RunError
from roarbench.estimators.estimator import Estimator, MapInput, Passes
from roarbench.estimators.families.gradients import compute_logit_gradients
from roarbench.estimators.lazy_torch import F, Tensor, layer_search, torch

# channels of ResNet-18's last block; cost estimates assume this number, because Score-CAM takes one pass per channel
_CHANNELS = 512


def resize_maps_to_images(importance: Tensor, images: Tensor) -> Tensor:
    """Resize maps (n, k, a, b) bilinearly to the size of the images; a constant map keeps its exact value."""
    low, high = importance.amin((2, 3), keepdim=True), importance.amax((2, 3), keepdim=True)
    stretched = F.interpolate(importance, images.shape[-2:], mode="bilinear", align_corners=False)
    return torch.where(low == high, low, stretched)


def _compute_requested_layer(inputs: MapInput) -> layer_search.LayerOutput:
    layer = str(inputs.estimator.get_value("layer"))
    return layer_search.compute_layer_output(inputs.model, inputs.images, layer)


def _weight_channels(inputs: MapInput, weights: Callable[[Tensor], Tensor]) -> Tensor:
    """Sum the channels with weights `weights(gradient)`, set negative sums to 0, and resize the map to the images."""
    with torch.enable_grad():
        output = _compute_requested_layer(inputs)
        gradient = output.compute_gradient(inputs.batch.targets)
    return resize_maps_to_images((weights(gradient) * output.arrange()).sum(1, keepdim=True).relu(), inputs.images)


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
    channels = _compute_requested_layer(inputs).arrange()
    for channel in channels.unbind(1):
        mask = resize_maps_to_images(channel[:, None], images)
        low, high = mask.amin((2, 3), keepdim=True), mask.amax((2, 3), keepdim=True)
        logit = inputs.compute_logit(torch.lerp(baseline, images, ((mask - low) / (high - low)).nan_to_num(0.0)))
        scores.append(logit.where((high > low).flatten(1), torch.full_like(logit, -math.inf)))
    # the softmax is NaN if all channels are constant; all weights are then 0
    weights = torch.cat(scores, 1).softmax(1).nan_to_num(0.0)
    return resize_maps_to_images((weights[:, :, None, None] * channels).sum(1, keepdim=True).relu(), images)


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
        parameters={"baseline": "mean", **_BLOCK}, cost=Passes(1 + _CHANNELS, 0), cost_is_assumed=True,
        papers=("wang2020scorecam",), neighbours=True),
)  # fmt: skip

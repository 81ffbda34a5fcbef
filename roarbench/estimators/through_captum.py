"""Estimators that captum computes; nothing else imports it (Kokhlikyan et al., arXiv 2009.07896)."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from captum.attr import (
    LRP,
    FeatureAblation,
    InputXGradient,
    LayerGradCam,
    LayerGradientXActivation,
    Occlusion,
)
from captum.attr._utils.lrp_rules import Alpha1_Beta0_Rule, EpsilonRule  # it exports them nowhere else
from torch import Tensor, nn

from roarbench.errors import CallerError, RunError
from roarbench.estimators.base import MethodInput
from roarbench.estimators.baselines import baseline_images
from roarbench.estimators.blocks import block_of, over_image
from roarbench.estimators.gradients import logit_gradients
from roarbench.estimators.grids import squares
from roarbench.estimators.relevance import unrolled


def input_x_grad(asked: MethodInput) -> Tensor:
    """Return the image times the gradient of the logit (Shrikumar et al., arXiv 1605.01713), signed."""
    found: Tensor = InputXGradient(asked.model).attribute(_inputs(asked), target=asked.batch.targets)
    return found


def lrp(asked: MethodInput) -> Tensor:
    """Return layer-wise relevance (Bach et al. 2015) by rules that differ with the layer, signed.

    Convolutions but the first pass relevance on by the rule z+, without biases; all else that is linear by the rule
    epsilon. Such mixtures are those of Kohlbrenner et al. (2020); epsilon in the first convolution is a choice made
    here. zennit's `EpsilonPlus` has z+ there and its `EpsilonPlusFlat` the flat rule, and their maps are quite other
    ones. Epsilon everywhere, captum's default, is the gradient times the image in a network of ReLUs (Ancona et al.
    2018).

    Raises:
        RunError: The network has a step that no rule is known for.
    """
    model = unrolled(asked.model)
    later = [module for module in model.modules() if isinstance(module, nn.Conv2d)][1:]
    for module in model.modules():
        if not (isinstance(module, nn.ReLU) or any(module.children())):
            module.rule = Alpha1_Beta0_Rule(set_bias_to_zero=True) if module in later else EpsilonRule()
    with _hooking():
        found: Tensor = LRP(model).attribute(_inputs(asked), target=asked.batch.targets)
    return found


def gradcam(asked: MethodInput) -> Tensor:
    """Return Grad-CAM (Selvaraju et al. 2017), at least 0, stretched over the image; (n, 1, h, w)."""
    layer = block_of(asked.model, asked.word("layer"))
    found = LayerGradCam(asked.model, layer).attribute(
        _inputs(asked), target=asked.batch.targets, relu_attributions=True
    )
    return over_image(found, asked.batch.images)


def guided_gradcam(asked: MethodInput) -> Tensor:
    """Return guided backprop times Grad-CAM over the image (Selvaraju et al. 2017), signed.

    Raises:
        RunError: The network has no ReLU.
    """
    try:
        guided = logit_gradients(asked.model, asked.batch.images, asked.batch.targets, {"gb"})["gb"]
    except CallerError as error:
        raise RunError("guided-gradcam needs ReLUs and the network has none; leave it out") from error
    return guided * gradcam(asked)


def hires_cam(asked: MethodInput) -> Tensor:
    """Return HiResCAM (Draelos & Carin, arXiv 2011.08891), at least 0, stretched over the image; (n, 1, h, w)."""
    layer = block_of(asked.model, asked.word("layer"))
    found = LayerGradientXActivation(asked.model, layer).attribute(_inputs(asked), target=asked.batch.targets)
    return over_image(found.sum(1, keepdim=True).relu(), asked.batch.images)


def occlusion(asked: MethodInput) -> Tensor:
    """Return the mean fall of the logit under each sliding square that holds a pixel (Zeiler & Fergus 2014).

    A square is two patches wide and moves by one patch, so that most pixels lie under four of them.
    """
    n, channels, h, w = asked.batch.images.shape
    patches = min(asked.whole("patches"), h, w)
    window = (channels, min(h, max(1, 2 * h // patches)), min(w, max(1, 2 * w // patches)))
    strides = (channels, max(1, h // patches), max(1, w // patches))
    with torch.no_grad():
        found: Tensor = Occlusion(asked.model).attribute(
            asked.batch.images, window, strides, _baseline(asked), target=asked.batch.targets
        )
    return found


def feature_ablation(asked: MethodInput) -> Tensor:
    """Return the fall of the logit where one square of the grid is the baseline."""
    mask = squares(asked.batch.images, asked.whole("patches"))
    with torch.no_grad():
        found: Tensor = FeatureAblation(asked.model).attribute(
            asked.batch.images, _baseline(asked), target=asked.batch.targets, feature_mask=mask[None, None]
        )
    return found


def _inputs(asked: MethodInput) -> Tensor:
    return asked.batch.images.detach().clone().requires_grad_()


def _baseline(asked: MethodInput) -> Tensor:
    return baseline_images(asked.word("baseline"), asked.batch.images, asked.black)


@contextmanager
def _hooking() -> Iterator[None]:
    """Keep captum from telling every time that it puts hooks on the model, which it takes off again."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Setting (forward, )?backward hooks")
        yield

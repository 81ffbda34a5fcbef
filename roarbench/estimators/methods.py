"""Estimators with passes of their own: which function makes each map, and what it costs.

Every map is made of a whole batch at once, and the engine halves a batch that does not fit. Memory beside the network's
own is that of a few batches of images: masks, squares and channels are looked at one after the other.
"""

from typing import NamedTuple

from torch import Tensor

from roarbench.estimators import Estimator
from roarbench.estimators.base import MethodInput

FEATURES = 10  # of breast-cancer-10; Shapley values take a pass for each coalition of an image's features
_CHANNELS = 512  # of the last block of a ResNet-18; Score-CAM looks at each, and only a network says how many it has


class Passes(NamedTuple):
    """Passes of one image through a model."""

    forward: int
    backward: int


def method_passes(estimator: Estimator, features: int = FEATURES) -> Passes:
    """Return what an image's map costs.

    Occlusion: where the number of patches divides the image's side. Score-CAM: with a layer of 512 channels.

    Args:
        estimator: Of those in `METHODS`.
        features: Numbers of an image, all of whose coalitions exact Shapley values take.
    """
    value = {name: estimator.value(name) for name in estimator.parameters}
    samples, patches = int(value.get("samples", 0)), int(value.get("patches", 0))
    forward, backward = {
        "input-x-grad": (1, 1),
        "deeplift": (2, 2),
        "lrp": (2, 1),
        "gradient-shap": (samples, samples),
        "gradcam": (1, 1),
        "guided-gradcam": (2, 2),
        "hires-cam": (1, 1),
        "layer-cam": (1, 1),
        "score-cam": (1 + _CHANNELS, 0),
        "occlusion": (1 + (patches - 1) ** 2, 0),
        "feature-ablation": (1 + patches**2, 0),
        "kernel-shap": (2 + samples, 0),
        "rise": (samples, 0),
        "shapley": (2**features, 0),
    }[estimator.base]
    return Passes(forward, backward)


def method_map(asked: MethodInput) -> Tensor:
    """Return an importance map like the images, float (n, c, h, w); one number for all channels where it has no more.

    Raises:
        RunError: The network lacks what the estimator needs.
    """
    from roarbench.estimators import (  # captum takes more than a second to import
        blocks,
        coalitions,
        rescaled,
        sampled,
        through_captum,
    )

    function = {
        "input-x-grad": through_captum.input_x_grad,
        "deeplift": rescaled.deeplift,
        "lrp": through_captum.lrp,
        "gradient-shap": sampled.gradient_shap,
        "gradcam": through_captum.gradcam,
        "guided-gradcam": through_captum.guided_gradcam,
        "hires-cam": through_captum.hires_cam,
        "layer-cam": blocks.layer_cam,
        "score-cam": blocks.score_cam,
        "occlusion": through_captum.occlusion,
        "feature-ablation": through_captum.feature_ablation,
        "kernel-shap": sampled.kernel_shap,
        "rise": sampled.rise,
        "shapley": coalitions.shapley,
    }[asked.estimator.base]
    images = asked.batch.images
    return function(asked).detach().expand_as(images).to(images.dtype).contiguous()

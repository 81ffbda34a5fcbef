"""Captum as an oracle for what we compute by our own passes and it has, too.

Gradients, guided backprop, integrated gradients and the forms over noisy copies are held against it in
`tests/estimators`; LRP, which it computes for us, is derived there by loops.
"""

import warnings

import pytest
import torch
from captum import attr

from roarbench.estimators.base import MapInput
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.families.occlusion import squares
from tests.helpers.networks import assert_near, images_like_photographs, residual_network

BLACK = torch.tensor([-2.1, -2.0, -1.8], dtype=torch.float64)[:, None, None]


def captum(name, network, batch):
    images, targets = batch.images.clone().requires_grad_(), batch.targets
    if name == "deeplift":  # no step is used twice and none is a max-pool, where captum's windows overwrite each other
        black = BLACK.to(images).expand(images.shape).contiguous()
        return attr.DeepLift(network).attribute(images, black, target=targets)
    if name == "input-x-grad":
        return attr.InputXGradient(network).attribute(images, target=targets)
    block = network.get_submodule("blocks.2")
    if name in ("gradcam", "hires-cam"):
        of_layer = attr.LayerGradCam if name == "gradcam" else attr.LayerGradientXActivation
        found = of_layer(network, block).attribute(images, target=targets).sum(1, keepdim=True).relu()
        return attr.LayerAttribution.interpolate(found, images.shape[-2:], "bilinear")
    if name == "guided-gradcam":
        return attr.GuidedGradCam(network, block).attribute(images, target=targets, interpolate_mode="bilinear")
    if name == "occlusion(patches=4)":  # squares of 6 pixels, moved by 3
        return attr.Occlusion(network).attribute(images.detach(), (3, 6, 6), (3, 3, 3), 0, target=targets)
    if name == "feature-ablation(patches=3)":
        nine = squares(images, 3)[None, None]
        return attr.FeatureAblation(network).attribute(images.detach(), target=targets, feature_mask=nine)
    with torch.no_grad():  # all 24 orders of four squares
        four = squares(images, 2)[None, None]
        return attr.ShapleyValues(network).attribute(images, target=targets, feature_mask=four)


@pytest.mark.parametrize(
    ("name", "dtype", "share"),
    [
        ("deeplift", torch.float64, 0.0),  # the same sums, bit for bit: stored rows are those of captum's maps
        ("deeplift", torch.float32, 0.0),
        ("input-x-grad", torch.float32, 0.0),
        ("gradcam", torch.float32, 0.0),
        ("hires-cam", torch.float32, 0.0),
        ("occlusion(patches=4)", torch.float32, 0.0),
        ("feature-ablation(patches=3)", torch.float32, 0.0),
        ("guided-gradcam", torch.float64, 0.0),
        ("guided-gradcam", torch.float32, 0.0),
        # the shares of 14 kinds of coalitions are drawn
        pytest.param("kernel-shap(samples=400,patches=2)", torch.float64, 0.1, marks=pytest.mark.slow),
    ],
)
def test_maps_are_captums(name, dtype, share):
    network, batch = residual_network(dtype), images_like_photographs(1 if "shap" in name else 3, dtype)
    order = torch.contiguous_format if name == "deeplift" else torch.channels_last  # in memory; bits depend on it
    batch = batch._replace(images=batch.images.contiguous(memory_format=order))
    row = find_estimator(name)
    with torch.no_grad():
        found = row.maps(MapInput(row, batch, BLACK.to(dtype), network)).expand_as(batch.images).to(dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Setting (forward, )?backward hooks")
        expected = captum(name, network, batch).detach().to(dtype)
    assert_near(found, expected, share)

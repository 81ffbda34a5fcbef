"""Captum as an oracle for what we compute by our own passes and it has, too.

Gradients, guided backprop, integrated gradients and the forms over noisy copies are held against it in
`tests/estimators`; what it computes for us (`through_captum`) is derived there by loops.
"""

import warnings

import pytest
import torch
from captum.attr import DeepLift, GuidedGradCam, ShapleyValues

from roarbench.estimators.base import Batch, MethodInput
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.grids import squares
from roarbench.estimators.methods import method_map
from tests.helpers.networks import images_like_photographs, residual_network

BLACK = torch.tensor([-2.1, -2.0, -1.8], dtype=torch.float64)[:, None, None]


def captum(name: str, network: torch.nn.Module, batch: Batch) -> torch.Tensor:
    images, targets = batch.images.clone().requires_grad_(), batch.targets
    if name == "deeplift":  # no step is used twice and none is a max-pool, where captum's windows overwrite each other
        return DeepLift(network).attribute(images, BLACK.to(images).expand(images.shape).contiguous(), target=targets)
    if name == "guided-gradcam":
        block = network.get_submodule("blocks.2")
        return GuidedGradCam(network, block).attribute(images, target=targets, interpolate_mode="bilinear")
    with torch.no_grad():  # all 24 orders of four squares
        return ShapleyValues(network).attribute(images, target=targets, feature_mask=squares(images, 2)[None, None])


@pytest.mark.parametrize(
    ("name", "dtype", "share"),
    [
        ("deeplift", torch.float64, 0.0),  # the same sums, bit for bit: stored rows are those of captum's maps
        ("deeplift", torch.float32, 0.0),
        ("guided-gradcam", torch.float64, 0.0),
        ("guided-gradcam", torch.float32, 0.0),
        ("kernel-shap(samples=4000,patches=2)", torch.float64, 0.03),  # the shares of 14 kinds of coalitions are drawn
    ],
)
def test_maps_are_captums(name, dtype, share):
    network, batch = residual_network(dtype), images_like_photographs(3, dtype)
    found = method_map(MethodInput(find_estimator(name), network, batch, BLACK.to(dtype)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Setting (forward, )?backward hooks")
        expected = captum(name, network, batch).detach().expand_as(found).to(dtype)
    torch.testing.assert_close(found, expected, rtol=0, atol=share * expected.abs().max().item())

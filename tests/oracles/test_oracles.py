"""Captum and Quantus 0.6.0 as oracles for maps, perturbation curves and the linear fill.

`tests/estimators` compares gradients and their variants with captum. Quantus fills with 0, the mean, here.
"""

import warnings

import numpy as np
import pytest
import torch
from captum import attr
from torch import nn

from roarbench.common.enums import Order, Unit
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.fills import compute_interpolated_fill
from roarbench.compute.prediction import Normalisation, normalise, predict_logits
from roarbench.compute.ranking import Layout, find_removed_bits
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import MapInput
from roarbench.estimators.families.perturbation import assign_pixels_to_grid_squares
from tests.helpers.networks import assert_near, make_residual_network, make_smooth_images
from tests.helpers.trainings import encoded, seeded

BLACK = torch.tensor([-2.1, -2.0, -1.8])[:, None, None]


def explain_with_captum(name, network, batch):
    images, targets = batch.images.clone().requires_grad_(), batch.targets
    if name == "deeplift":  # no step is used twice and none is a max-pool, where captum's windows overwrite each other
        black = BLACK.expand(images.shape).contiguous()
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
    nine = assign_pixels_to_grid_squares(images, 3)[None, None]
    return attr.FeatureAblation(network).attribute(images.detach(), target=targets, feature_mask=nine)


@pytest.mark.parametrize(
    "name",
    [
        *("deeplift", "input-x-grad", "gradcam", "hires-cam", "guided-gradcam"),
        *("occlusion(patches=4)", "feature-ablation(patches=3)"),
    ],
)
def test_estimator_maps_equal_captum(name):
    """Maps are equal bit for bit: stored rows of DeepLIFT were computed from captum's maps."""
    network, batch = make_residual_network(torch.float32), make_smooth_images(3, torch.float32)
    order = torch.contiguous_format if name == "deeplift" else torch.channels_last  # in memory; bits depend on it
    batch = batch._replace(images=batch.images.contiguous(memory_format=order))
    row = find_estimator(name)
    with torch.no_grad():
        found = row.maps(MapInput(row, batch, BLACK, network)).expand_as(batch.images)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Setting (forward, )?backward hooks")
        expected = explain_with_captum(name, network, batch).detach()
    assert_near(found.float(), expected.float(), 0.0)


N, CLASSES, SIDE = 6, 4, 8
NORM = Normalisation((110.5, 127.25, 98.75), (60.0, 55.5, 71.25))
OURS = {"abs": False, "normalise": False, "perturb_baseline": 0.0, "disable_warnings": True}
PIXELS = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (N, 3, SIDE, SIDE), np.uint8))
MAP = np.random.default_rng(2).normal(size=(N, 3, SIDE, SIDE)).astype(np.float32)  # signed, and without ties


def make_network():
    """Return a small nonlinear network with random weights large enough to change probabilities."""
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * SIDE**2, CLASSES))
    for values, spread in zip(network.parameters(), (0.1, 0.1, 0.25, 0.1), strict=True):
        nn.init.normal_(values, std=spread, generator=seeded(0))
    return network.eval()


def predict_degraded_logits(importance, t, unit=Unit.SCALAR, order=Order.MORF):
    """Return the network's logits of images from which our kernels removed the fraction t."""
    layout = Layout((3, SIDE, SIDE), unit, (t,))
    removed = torch.from_numpy(find_removed_bits(encoded(importance, layout), t, order, layout))
    degraded = DegradedImages(PIXELS, removed, torch.tensor(NORM.mean), unit)
    return predict_logits(make_network(), degraded, NORM, batch=128)


def predict_targets():
    """Return the classes that the network predicts for the untouched images."""
    return predict_degraded_logits(MAP, 0.0).argmax(1).numpy()


def compute_our_curve(importance, steps, unit=Unit.SCALAR, order=Order.MORF):
    """Return the probability of the originally predicted class at t = 1 / steps … 1; (n, steps)."""
    levels = [step / steps for step in range(1, steps + 1)]
    curve = [predict_degraded_logits(importance, t, unit, order).softmax(1).numpy() for t in levels]
    return np.stack(curve, axis=1)[np.arange(N), :, predict_targets()]


def assert_equals_quantus(ours, metric):
    """Compare our curve with a Quantus metric on the same images, maps and classes."""
    images = np.ascontiguousarray(normalise(PIXELS, NORM).numpy())
    theirs = np.array(metric(make_network(), images, predict_targets(), MAP, channel_first=True, softmax=True))
    every = theirs.shape[1] // ours.shape[1]  # step of theirs
    # float32 sums in another order, of numbers around 1
    np.testing.assert_allclose(ours, theirs[:, every - 1 :: every], atol=1e-5, rtol=0)


def test_perturbation_curves_match_quantus():
    """Quantus reports the probability, or its drop, of each image's predicted class; the two orders differ."""
    quantus = pytest.importorskip("quantus")
    assert_equals_quantus(compute_our_curve(MAP, 12), quantus.PixelFlipping(features_in_step=16, **OURS))
    assert np.abs(compute_our_curve(MAP, 12) - compute_our_curve(-MAP, 12)).max() > 0.01
    assert len(set(predict_targets())) > 1
    untouched = predict_degraded_logits(MAP, 0.0).softmax(1).amax(1, keepdim=True).numpy()
    for order in Order:
        made = quantus.RegionPerturbation(patch_size=1, regions_evaluation=64, order=order.value, **OURS)
        assert_equals_quantus(untouched - compute_our_curve(MAP, 16, Unit.PIXEL, order), made)


def test_linear_fill_matches_noiseless_road_imputation():
    """Removed pixels include borders, corners and neighbours; Quantus solves each equation to 3e-3 of a brightness."""
    rng = np.random.default_rng(4)
    grey = rng.integers(0, 256, (5, 9, 9)).astype(np.float32)
    gone = rng.random((5, 81)) < np.array([[0.1, 0.3, 0.5, 0.7, 0.9]]).T
    images, holes = torch.from_numpy(grey)[:, None], torch.from_numpy(gone).view(5, 1, 9, 9)
    ours = compute_interpolated_fill(images, holes, torch.zeros(1, 9, 9))
    impute = pytest.importorskip("quantus").functions.perturb_func.noisy_linear_imputation
    for image, removed, found in zip(grey, gone, ours[:, 0].numpy(), strict=True):
        theirs = impute(image[None].astype(float), np.flatnonzero(removed), noise=0.0)[0]
        np.testing.assert_allclose(np.where(removed.reshape(9, 9), found, image), theirs, atol=0.2, rtol=0)

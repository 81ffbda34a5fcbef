"""Quantus 0.6.0 as an oracle for what we count without retraining, where its definitions are ours.

Quantus is told to fill with 0, which is our fill, the mean of the training images, after normalisation.
"""

import numpy as np
import pytest
import torch
from torch import nn

from roarbench.kernels.bit_planes import Layout, encode, removed_bits
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.fill import interpolated
from roarbench.kernels.inputs import Normalisation, normalise
from roarbench.kernels.ranking import features, sort_keys, tie_order
from roarbench.kernels.scoring import predict
from roarbench.terms import Order, Unit

quantus = pytest.importorskip("quantus")

N, CLASSES, SIDE = 6, 4, 8
NORM = Normalisation((110.5, 127.25, 98.75), (60.0, 55.5, 71.25))
GREY = Normalisation((120.5,), (60.0,))
OURS = {"abs": False, "normalise": False, "perturb_baseline": 0.0, "disable_warnings": True}
# The same network in two memory formats and batch sizes: float32 sums in another order, a few units of 6e-8
# of numbers around 1.
ROUNDING = 1e-5


def make_network(channels=3):
    """Small, nonlinear, with random weights that let the probabilities move."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Conv2d(channels, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * SIDE**2, CLASSES)
        network = nn.Sequential(*layers).eval()
    with torch.no_grad():
        network[3].weight *= 10
    return network


def make_pixels(channels=3):
    return torch.from_numpy(np.random.default_rng(1).integers(0, 256, (N, channels, SIDE, SIDE), np.uint8))


def make_map(channels=3):
    """Signed, and without ties."""
    return np.random.default_rng(2).normal(size=(N, channels, SIDE, SIDE)).astype(np.float32)


def norm_of(channels):
    return NORM if channels == 3 else GREY


def logits_at(importance, t, unit=Unit.SCALAR, order=Order.MORF, channels=3):
    """The network's answers to images from which our kernels removed the fraction t."""
    pixels, norm = make_pixels(channels), norm_of(channels)
    layout = Layout((channels, SIDE, SIDE), unit, (t,))
    ties = tie_order(np.arange(N), layout.features)
    planes = encode(sort_keys(features(importance, layout.shape, unit), ties), layout)
    removed = torch.from_numpy(removed_bits(planes, t, order, layout))
    degraded = DegradedImages(pixels, removed, torch.tensor(norm.mean), unit)
    return predict(make_network(channels), degraded, norm, batch=128)


def targets_of(channels=3):
    """The classes that the network predicts for the untouched images."""
    return logits_at(make_map(channels), 0.0, channels=channels).argmax(1).numpy()


def our_curve(importance, steps, unit=Unit.SCALAR, order=Order.MORF):
    """Probability of the originally predicted class at t = 1 / steps … 1; (n, steps)."""
    levels = [step / steps for step in range(1, steps + 1)]
    curve = [logits_at(importance, t, unit, order).softmax(1).numpy() for t in levels]
    return np.stack([chances[np.arange(N), targets_of()] for chances in curve], axis=1)


def call(metric, importance, channels=3, **options):
    """What a metric of Quantus says of the same images, maps and classes."""
    images = np.ascontiguousarray(normalise(make_pixels(channels), norm_of(channels)).numpy())
    asked = {"channel_first": True, "softmax": True} | options
    found = metric(make_network(channels), images, targets_of(channels), importance, **asked)
    return np.array(found)


def flipping(importance, step=16, **options):
    """Pixel flipping, so many of 192 scalars a step; (n, 192 / step)."""
    return call(quantus.PixelFlipping(features_in_step=step, **{**OURS, **options}), importance)


def within_squares(importance, side):
    """A map of pixels that has in each square the sum of its importances."""
    places = SIDE // side
    sums = importance.sum(axis=1).reshape(N, places, side, places, side).sum(axis=(2, 4))
    return sums.repeat(side, axis=1).repeat(side, axis=2)


def untouched():
    return logits_at(make_map(), 0.0).softmax(1).numpy()[np.arange(N), targets_of()]


def assert_same(ours, theirs, atol=ROUNDING):
    np.testing.assert_allclose(ours, theirs, atol=atol, rtol=0)


def differ(one, two):
    return np.abs(np.asarray(one) - np.asarray(two)).max() > 0.01


def test_pixel_flipping_is_morf_without_retraining_at_the_scalar_unit():
    """All 12 levels, of each image's predicted class; on a network on which orders can be told apart."""
    importance = make_map()
    assert_same(our_curve(importance, 12), flipping(importance))
    assert differ(our_curve(importance, 12), our_curve(-importance, 12))
    assert len(set(targets_of())) > 1


@pytest.mark.parametrize("step", [1, 32])
def test_pixel_flipping_agrees_at_every_step_size(step):
    importance, last = make_map(), 192 // step
    theirs = flipping(importance, step)
    assert theirs.shape == (N, last)
    for level in (last // 6, last // 2, last):
        chances = logits_at(importance, level / last).softmax(1).numpy()[np.arange(N), targets_of()]
        assert_same(chances, theirs[:, level - 1])


def test_selectivity_is_morf_at_the_pixel_unit():
    """Of patches of one pixel, whose channels are summed; and of larger ones, of a map that is the same within each."""
    importance = make_map()
    theirs = call(quantus.Selectivity(patch_size=1, **OURS), importance)
    assert_same(our_curve(importance, 16, Unit.PIXEL), theirs[:, 3::4])
    theirs = call(quantus.Selectivity(patch_size=4, **OURS), importance)
    assert_same(our_curve(within_squares(importance, 4), 4, Unit.PIXEL), theirs)


@pytest.mark.parametrize("order", list(Order))
def test_region_perturbation_is_what_is_lost_against_the_untouched_image(order):
    importance = make_map()
    made = quantus.RegionPerturbation(patch_size=1, regions_evaluation=64, order=order.value, **OURS)
    ours = untouched()[:, None] - our_curve(importance, 16, Unit.PIXEL, order)
    assert_same(ours, call(made, importance)[:, 3::4])


def test_aopc_counts_the_untouched_image_and_quantus_does_not():
    """Samek et al. 2017, eq. 12 averages over k = 0 … L, where k = 0 loses nothing; Quantus lists k = 1 … L."""
    importance, regions = make_map(), 16
    theirs = call(quantus.RegionPerturbation(patch_size=2, regions_evaluation=regions, **OURS), importance)
    curve = our_curve(within_squares(importance, 2), regions, Unit.PIXEL)
    aopc = (untouched()[:, None] - np.column_stack([untouched(), curve])).mean()
    assert theirs.shape == (N, regions)
    assert aopc == pytest.approx(theirs.mean() * regions / (regions + 1), abs=ROUNDING)


def test_road_with_our_fill_counts_what_our_reference_still_says():
    """On grey images, at percentages that remove whole numbers; with 0 instead of ROAD's imputation."""

    def fill_with_zero(arr, indices, **_):
        filled = arr.copy().reshape(len(arr), -1)
        filled[:, indices] = 0
        return filled.reshape(arr.shape)

    importance, percentages = make_map(channels=1), [25, 50, 75]
    made = quantus.ROAD(percentages=percentages, perturb_func=fill_with_zero, normalise=False, disable_warnings=True)
    call(made, importance, channels=1, batch_size=N)
    ours = [logits_at(importance, p / 100, channels=1).argmax(1).numpy() == targets_of(1) for p in percentages]
    found = made.evaluation_scores
    assert {p: found[p] for p in percentages} == {p: ok.mean() for p, ok in zip(percentages, ours, strict=True)}


def test_road_s_imputation_is_the_fill_linear_without_its_noise():
    """Borders, corners and removed neighbours among them; Quantus stops at 3e-3 of a brightness in each equation."""
    rng = np.random.default_rng(4)
    grey = rng.integers(0, 256, (5, 9, 9)).astype(np.float32)
    gone = rng.random((5, 81)) < np.array([[0.1, 0.3, 0.5, 0.7, 0.9]]).T
    ours = interpolated(torch.from_numpy(grey)[:, None], torch.from_numpy(gone).view(5, 1, 9, 9), torch.zeros(1, 9, 9))
    impute = quantus.functions.perturb_func.noisy_linear_imputation
    for image, removed, found in zip(grey, gone, ours[:, 0].numpy(), strict=True):
        theirs = impute(image[None].astype(float), np.flatnonzero(removed), noise=0.0)[0]
        assert_same(np.where(removed.reshape(9, 9), found, image), theirs, atol=0.2)


def test_abs_is_an_option_there_and_an_estimator_of_its_own_here():
    """We rank the signed map; its square, which orders as the magnitude does, is another estimator."""
    importance = make_map()
    theirs = flipping(importance, abs=True)
    assert differ(theirs, our_curve(importance, 12))
    assert_same(our_curve(importance**2, 12), theirs)

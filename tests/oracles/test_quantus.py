"""Quantus as an oracle for what we count without retraining, and every place where its definition is another one.

Where the definitions coincide the same maps give the same curves: pixel flipping is our MoRF at the scalar unit,
selectivity with patches of one pixel our MoRF at the pixel unit, region perturbation what both lose against the
untouched image, and its mean the AOPC. All of that holds with Quantus told to fill with 0, which is our fill, the mean
of the training images, after normalisation. Read with the code of Quantus 0.6.0.
"""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.fill import interpolated
from roarbench.kernels.inputs import Normalisation, normalise
from roarbench.kernels.ranking import Layout, encode, features, removed_bits, removed_count, sort_keys, tie_order
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


def differ(one, two):
    return np.abs(np.asarray(one) - np.asarray(two)).max() > 0.01


# Where the definitions coincide


def test_the_network_is_one_on_which_orders_can_be_told_apart():
    importance = make_map()
    assert differ(our_curve(importance, 12), our_curve(-importance, 12))
    assert len(set(targets_of())) > 1


def test_pixel_flipping_is_morf_without_retraining_at_the_scalar_unit():
    """16 of 192 scalars a step, all 12 levels, probability of the predicted class of each image."""
    importance = make_map()
    theirs = call(quantus.PixelFlipping(features_in_step=16, **OURS), importance)
    np.testing.assert_allclose(our_curve(importance, 12), theirs, atol=ROUNDING, rtol=0)


@pytest.mark.parametrize("step", [1, 4, 32])
def test_pixel_flipping_agrees_at_every_step_size(step):
    importance, last = make_map(), 192 // step
    theirs = call(quantus.PixelFlipping(features_in_step=step, **OURS), importance)
    assert theirs.shape == (N, last)
    for level in (last // 6, last // 2, last):
        chances = logits_at(importance, level / last).softmax(1).numpy()[np.arange(N), targets_of()]
        np.testing.assert_allclose(chances, theirs[:, level - 1], atol=ROUNDING, rtol=0)


def test_selectivity_of_one_pixel_is_morf_at_the_pixel_unit():
    """A patch of one pixel has all its channels, and its attributions are summed: that is our pixel unit."""
    importance = make_map()
    theirs = call(quantus.Selectivity(patch_size=1, **OURS), importance)
    np.testing.assert_allclose(our_curve(importance, 16, Unit.PIXEL), theirs[:, 3::4], atol=ROUNDING, rtol=0)


@pytest.mark.parametrize("order", list(Order))
def test_region_perturbation_is_what_is_lost_against_the_untouched_image(order):
    importance = make_map()
    made = quantus.RegionPerturbation(patch_size=1, regions_evaluation=64, order=order.value, **OURS)
    clean = logits_at(importance, 0.0).softmax(1).numpy()[np.arange(N), targets_of()]
    ours = clean[:, None] - our_curve(importance, 16, Unit.PIXEL, order)
    np.testing.assert_allclose(ours, call(made, importance)[:, 3::4], atol=ROUNDING, rtol=0)


def test_larger_patches_are_the_pixel_unit_of_a_map_that_is_the_same_within_each():
    """Regions of 4 x 4 with the sums of their attributions: the same as our pixels, each with its region's sum."""
    importance = make_map()
    sums = importance.sum(axis=1).reshape(N, 2, 4, 2, 4).sum(axis=(2, 4))
    spread = sums.repeat(4, axis=1).repeat(4, axis=2)
    theirs = call(quantus.Selectivity(patch_size=4, **OURS), importance)
    np.testing.assert_allclose(our_curve(spread, 4, Unit.PIXEL), theirs, atol=ROUNDING, rtol=0)


def test_aopc_counts_the_untouched_image_and_quantus_does_not():
    """Samek et al. 2017, eq. 12 averages over k = 0 … L, where k = 0 loses nothing; Quantus lists k = 1 … L."""
    importance, regions = make_map(), 16
    made = quantus.RegionPerturbation(patch_size=2, regions_evaluation=regions, **OURS)
    theirs = call(made, importance)
    spread = importance.sum(axis=1).reshape(N, 4, 2, 4, 2).sum(axis=(2, 4)).repeat(2, axis=1).repeat(2, axis=2)
    clean = logits_at(importance, 0.0).softmax(1).numpy()[np.arange(N), targets_of()]
    curve = np.column_stack([clean, our_curve(spread, regions, Unit.PIXEL)])
    aopc = (clean[:, None] - curve).mean()
    assert theirs.shape == (N, regions)
    assert aopc == pytest.approx(theirs.mean() * regions / (regions + 1), abs=ROUNDING)


def test_road_with_our_fill_counts_what_our_reference_still_says():
    """On grey images, at percentages that remove whole numbers; with 0 instead of ROAD's imputation."""
    importance = make_map(channels=1)
    percentages = [25, 50, 75]
    made = quantus.ROAD(percentages=percentages, perturb_func=fill_with_zero, normalise=False, disable_warnings=True)
    theirs = call(made, importance, channels=1, batch_size=N)
    ours = [logits_at(importance, p / 100, channels=1).argmax(1).numpy() == targets_of(1) for p in percentages]
    found = made.evaluation_scores
    assert {p: found[p] for p in percentages} == {p: ok.mean() for p, ok in zip(percentages, ours, strict=True)}
    assert theirs is not None


def fill_with_zero(arr, indices, **_):
    filled = arr.copy().reshape(len(arr), -1)
    filled[:, indices] = 0
    return filled.reshape(arr.shape)


# Where they do not


def test_fill_black_is_the_darkest_value_of_the_image_and_not_black():
    """Quantus' default fill is the smallest number of each image over all channels, as it is normalised; ours is the
    mean of the training images, channel by channel, the same for every image."""
    filled = quantus.functions.perturb_func.batch_baseline_replacement_by_indices(
        np.array([[3.0, -1.0, 2.0], [5.0, 4.0, 6.0]]), np.array([[0], [2]]), "black"
    )
    np.testing.assert_array_equal(filled, [[-1, -1, 2], [5, 4, 4]])
    theirs = call(quantus.PixelFlipping(features_in_step=16, **{**OURS, "perturb_baseline": "black"}), make_map())
    assert differ(theirs, our_curve(make_map(), 12))


def test_fill_mean_is_the_image_s_own_and_moves_with_every_step():
    """Quantus' `mean` is over all channels of one image, and taken again after each step from what was filled so far.
    So no two steps fill with the same number. Ours is fixed before anything is removed."""
    replace = quantus.functions.perturb_func.batch_baseline_replacement_by_indices
    once = replace(np.array([[0.0, 3.0, 9.0]]), np.array([[2]]), "mean")
    np.testing.assert_array_equal(once, [[0, 3, 4]])
    np.testing.assert_allclose(replace(once, np.array([[1]]), "mean"), [[0, 7 / 3, 4]])
    theirs = call(quantus.PixelFlipping(features_in_step=16, **{**OURS, "perturb_baseline": "mean"}), make_map())
    assert differ(theirs, our_curve(make_map(), 12))


def test_no_fill_of_quantus_has_a_value_for_each_channel():
    """Only because images are normalised is the mean of each channel the same number, 0. On images in [0, 255] our
    fill, a number for each channel, cannot be asked for."""
    images, per_channel = np.zeros((1, 3 * SIDE**2)), np.array(NORM.mean)
    with pytest.raises(ValueError, match="cannot be fitted"):
        quantus.functions.perturb_func.batch_baseline_replacement_by_indices(images, np.array([[0, 64]]), per_channel)


def test_ties_fall_in_an_order_that_all_images_share():
    """Guided backprop gives long runs of exact zeros. Quantus sorts them by `argsort`, which knows the place only: the
    same features go in every image, and the removed features would tell a retrained network where zeros lie. Ours
    fall by a random order of each image."""
    importance = np.zeros((N, 3, SIDE, SIDE), np.float32)
    importance[:, 0, 0, 0] = 1
    theirs = np.argsort(-importance.reshape(N, -1), axis=1)[:, :96]  # as in PixelFlipping.evaluate_batch
    assert all((theirs == theirs[0]).all(axis=0))
    flat = features(importance, (3, SIDE, SIDE), Unit.SCALAR)
    keys = sort_keys(flat, tie_order(np.arange(N), flat.shape[1]))
    ours = [set(row) for row in np.argsort(keys, axis=1)[:, ::-1][:, :96].tolist()]
    assert all(one != two for one, two in pairwise(ours))
    assert differ(call(quantus.PixelFlipping(features_in_step=16, **OURS), importance), our_curve(importance, 12))


@pytest.mark.slow
def test_a_map_without_channels_is_copied_to_each_and_the_copies_tie():
    """Quantus flips scalars one by one, also where all channels of a pixel have the same importance, so a step may end
    within a pixel. Our pixel unit takes them together; at whole pixels, as below, the two agree, within one not."""
    importance = make_map(channels=1)
    theirs = call(quantus.PixelFlipping(features_in_step=2, **OURS), importance)  # three steps are two pixels
    whole = our_curve(importance[:, 0], 32, Unit.PIXEL)
    np.testing.assert_allclose(whole, theirs[:, 2::3], atol=ROUNDING, rtol=0)
    within = our_curve(importance[:, 0], 96, Unit.SCALAR)
    assert np.abs(within - theirs).max(axis=0)[[0, 1]].max() > 1e-3


def test_normalising_a_map_joins_what_float32_told_apart():
    """Quantus by default divides by the largest importance of the whole batch. That keeps the order except where two
    neighbouring numbers become one: a tie that the map did not have. We never scale a map."""
    neighbours = 2 - np.arange(1, 9) * 2.0**-23  # all that float32 has just below 2; below 2 / 3.9 it has half as many
    values = np.append(neighbours, 3.9).astype(np.float32)
    scaled = quantus.functions.normalise_func.normalise_by_max(values)
    assert len(set(values.tolist())) == 9
    assert len(set(scaled.tolist())) < 9
    importance = make_map()  # far from such neighbours it changes nothing
    same = [call(quantus.PixelFlipping(features_in_step=16, **{**OURS, "normalise": n}), importance) for n in (0, 1)]
    np.testing.assert_array_equal(*same)


def test_abs_is_an_option_there_and_an_estimator_of_its_own_here():
    """`abs=True` ranks by magnitude. We rank the signed map: the paper's GRAD is signed, and its square, which orders
    as the magnitude does, is another estimator."""
    importance = make_map()
    theirs = call(quantus.PixelFlipping(features_in_step=16, **{**OURS, "abs": True}), importance)
    assert differ(theirs, our_curve(importance, 12))
    np.testing.assert_allclose(our_curve(importance**2, 12), theirs, atol=ROUNDING, rtol=0)


def test_logits_where_softmax_is_switched_off():
    """Our probability is a softmax; with `softmax=False` Quantus gives the same class's logit."""
    importance = make_map()
    theirs = call(quantus.PixelFlipping(features_in_step=32, **OURS), importance, softmax=False)
    ours = [logits_at(importance, t).numpy()[np.arange(N), targets_of()] for t in np.arange(1, 7) / 6]
    np.testing.assert_allclose(np.stack(ours, axis=1), theirs, atol=1e-4, rtol=0)  # logits are around 10
    assert theirs.min() < 0 or theirs.max() > 1


def test_steps_must_divide_the_pixels_of_one_channel():
    """Quantus refuses other steps, also where they divide the scalars: t = .1 or .9 of 192 scalars cannot be asked
    for. We take any level and round the number of features."""
    with pytest.raises(AssertionError, match="features_in_step"):
        call(quantus.PixelFlipping(features_in_step=12, **OURS), make_map())
    assert removed_count(0.9, 192) == 173
    assert logits_at(make_map(), 0.9).shape == (N, CLASSES)


def test_the_curve_starts_after_the_first_step_and_its_area_is_in_steps():
    """There is no point at t = 0 in Quantus' curves, and the area counts a step as 1: 12 steps have one near 11 where
    ours has one near 1. It also calls np.trapz, which NumPy 2.4 no longer has."""
    importance = make_map()
    made = quantus.PixelFlipping(features_in_step=16, **OURS)
    theirs = call(made, importance)
    assert theirs.shape == (N, 12)
    if not hasattr(np, "trapz"):
        with pytest.raises(AttributeError, match="trapz"):
            _ = made.get_auc_score
    area = np.trapezoid(theirs, axis=1).mean()
    levels = np.arange(13) / 12
    clean = logits_at(importance, 0.0).softmax(1).numpy()[np.arange(N), targets_of()]
    ours = np.trapezoid(np.column_stack([clean, our_curve(importance, 12)]), levels, axis=1).mean()
    first = (clean + theirs[:, 0]).mean() / 24
    assert ours == pytest.approx(area / 12 + first, abs=ROUNDING)


def test_road_cuts_off_where_we_round():
    """ROAD removes int(d p / 100): of 64 pixels 18 at 29 %. We remove round(t d), 19."""
    counts = []

    def count(arr, indices, **_):
        counts.append(len(indices))
        return arr + 1

    call(quantus.ROAD(percentages=[29], perturb_func=count, disable_warnings=True), make_map(1), channels=1)
    assert set(counts) == {18}
    assert removed_count(0.29, 64) == 19


def test_road_imputes_from_the_neighbours_and_adds_noise():
    """Rong et al. 2022: a removed pixel becomes the weighted mean of its neighbours (1/6 across an edge, 1/12 across a
    corner), solved for all removed pixels together, plus noise. Our default fill, the mean, looks at no neighbour. On a
    picture that changes evenly the imputation gives back what was removed, so nothing is lost; ours loses it."""
    grey = np.add.outer(10 * np.arange(5.0), np.arange(5.0))[None]  # a plane: each pixel is the mean of its neighbours
    removed = np.array([6, 7, 8, 11, 12, 13, 16, 17, 18])  # all that do not lie at the border
    impute = quantus.functions.perturb_func.noisy_linear_imputation
    np.testing.assert_allclose(impute(grey, removed, noise=0.0), grey, atol=1e-9)
    spot = grey.copy()
    spot[0, 2, 2] = 1000.0
    by_hand = sum(spot[0, y, x] for y, x in ((1, 2), (3, 2), (2, 1), (2, 3))) / 6
    by_hand += sum(spot[0, y, x] for y in (1, 3) for x in (1, 3)) / 12
    assert impute(spot, np.array([12]), noise=0.0)[0, 2, 2] == pytest.approx(by_hand, abs=1e-9)
    pixels = torch.from_numpy(grey.astype(np.uint8))[None]
    bits = torch.from_numpy(np.packbits(np.isin(np.arange(25), removed))[None])
    ours = DegradedImages(pixels, bits, torch.tensor([22.5]), Unit.SCALAR).batch(torch.tensor([0]))
    assert set(ours[0, 0, 1:4, 1:4].flatten().tolist()) == {22.5}


def test_road_s_imputation_is_the_fill_linear_without_its_noise():
    """Borders, corners and removed neighbours among them. Conjugate gradients stop at 3e-3 of a brightness in each
    equation, a plain solution does not."""
    rng = np.random.default_rng(4)
    grey, gone = (
        rng.integers(0, 256, (5, 9, 9)).astype(np.float32),
        rng.random((5, 81)) < np.array([[0.1, 0.3, 0.5, 0.7, 0.9]]).T,
    )
    ours = interpolated(torch.from_numpy(grey)[:, None], torch.from_numpy(gone).view(5, 1, 9, 9), torch.zeros(1, 9, 9))
    impute = quantus.functions.perturb_func.noisy_linear_imputation
    for image, removed, found in zip(grey, gone, ours[:, 0].numpy(), strict=True):
        theirs = impute(image[None].astype(float), np.flatnonzero(removed), noise=0.0)[0]
        np.testing.assert_allclose(np.where(removed.reshape(9, 9), found, image), theirs, atol=0.2)


def test_road_of_quantus_draws_its_noise_from_numpy_s_global_generator():
    """Called twice it fills differently unless NumPy is seeded globally, which nothing here does."""
    impute = quantus.functions.perturb_func.noisy_linear_imputation
    grey, removed = np.zeros((1, 5, 5)), np.array([7, 12])
    assert (impute(grey, removed) != impute(grey, removed)).any()


def test_road_of_quantus_cannot_take_images_with_channels():
    """Its places count scalars, its imputation pixels: with three channels a place lies beyond the image. That is why
    `run --with quantus` has no ROAD."""
    with warnings.catch_warnings(), pytest.raises(IndexError):
        call(quantus.ROAD(percentages=[50], disable_warnings=True), make_map())


def test_selectivity_pads_images_that_its_patches_do_not_fit():
    """With patches of 3 pixels an image of 8 is padded to 9: the last regions are smaller than the others, so a step
    is no fixed fraction t. We have no patches."""
    theirs = call(quantus.Selectivity(patch_size=3, **OURS), make_map())
    assert theirs.shape == (N, 9)
    assert 64 % 9 != 0

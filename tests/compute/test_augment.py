"""Augmentation equals slow derivations and hand-made cases, and draws from its generator alone."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import interpolate

from roarbench.common.enums import Unit
from roarbench.compute.augment import augment, draw_crops, flip_images, shrink_images
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.prediction import Normalisation, normalise
from roarbench.compute.recipe import Augmentation
from tests.helpers.trainings import seeded


def make_images(n=6, size=32):
    return 255 * torch.rand(n, 3, size, size, generator=seeded(5))


@pytest.mark.parametrize("kind", Augmentation)
def test_augment_depends_only_on_generator_and_keeps_its_input(kind):
    images, state = make_images(20), torch.get_rng_state()
    before = images.clone()
    out = augment(images, kind, seeded(1))
    assert (out.shape, out.dtype) == (images.shape, torch.float32)
    torch.testing.assert_close((images, torch.get_rng_state()), (before, state), rtol=0, atol=0)
    torch.testing.assert_close(augment(images, kind, seeded(1)), out, rtol=0, atol=0)
    assert torch.equal(augment(images, kind, seeded(2)), out) is (kind is Augmentation.NONE)


def test_shift_augmentation_matches_numpy_padding_and_cropping():
    """The generator draws mirroring last, here and below: published trainings depend on this order."""
    images, generator, expected = make_images(10, size=32), seeded(6), []
    down, right = torch.randint(0, 5, (2, 10), generator=generator).tolist()  # 32 / 16 = 2 pixels each way
    mirrored = torch.rand(10, generator=generator) < 0.5
    for image, y, x in zip(images.numpy(), down, right, strict=True):
        expected.append(np.pad(image, ((0, 0), (2, 2), (2, 2)), mode="reflect")[:, y : y + 32, x : x + 32])
    moved, turned = (augment(images, kind, seeded(6)) for kind in (Augmentation.SHIFT, Augmentation.SHIFT_FLIP))
    torch.testing.assert_close(moved, torch.tensor(np.stack(expected)), rtol=0, atol=0)
    torch.testing.assert_close(turned, flip_images(moved, mirrored), rtol=0, atol=0)


def split_transforms(maps):
    """Centres and sizes, (n, 2) each, x before y."""
    return maps[:, :, 2], torch.stack([maps[:, 0, 0], maps[:, 1, 1]], dim=1)


@given(seed=st.integers(0, 2**31), shape=st.sampled_from([1.0, 1.5]))
def test_crop_transforms_stay_inside_image_and_within_area_and_aspect(seed, shape):
    centres, sizes = split_transforms(draw_crops(50, shape, seeded(seed)))
    assert (centres.abs() + sizes <= 1 + 1e-6).all()
    area, aspect = sizes.prod(1), shape * sizes[:, 0] / sizes[:, 1]
    whole = (sizes < 1).all(1)  # the others were made to fit
    assert (area[whole] >= 0.08 - 1e-6).all()
    assert (area <= 1).all()
    assert (aspect[whole] >= 3 / 4 - 1e-5).all()
    assert (aspect[whole] <= 4 / 3 + 1e-5).all()


def test_noise_augmentation_draws_one_strength_per_image():
    images, generator = make_images(6, size=8), seeded(1)
    strengths = torch.rand(6, 1, 1, 1, generator=generator)
    noisy = images + 90 * strengths * torch.randn(6, 3, 8, 8, generator=generator)
    turned = (torch.rand(6, generator=generator) < 0.5)[:, None, None, None]
    expected = torch.where(turned, noisy.flip(3), noisy)
    torch.testing.assert_close(augment(images, Augmentation.NOISE_FLIP, seeded(1)), expected, rtol=0, atol=0)


def compute_cubic_weight(x):
    """Keys' kernel with a = -0.75, the one of TensorFlow 1 and torch."""
    x, a = abs(x), -0.75
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def make_stretch_matrix(n, start, length):
    """Weight of each of n pixels in each pixel of a line that is stretched from `start` over `length` to n pixels."""
    mirrored, weights = np.pad(np.arange(n), n, mode="symmetric"), np.zeros((n, n))  # about the outermost edge
    for place in range(n):
        at = start + (place + 0.5) * length / n - 0.5
        for pixel in range(math.floor(at) - 1, math.floor(at) + 3):
            weights[place, mirrored[n + pixel]] += compute_cubic_weight(at - pixel)
    return weights


def test_degrade_crop_flip_normalise_matches_per_image_float64_reference():
    """The reference computes image by image in float64, from uint8 pixels and removal bits."""
    n, size = 5, 12
    pixels = torch.randint(256, (n, 3, size, size), dtype=torch.uint8, generator=seeded(8))
    removed = torch.rand(n, 3, size, size, generator=seeded(9)) < 0.4
    fill, norm = torch.tensor([124.0, 117.0, 104.0]), Normalisation((120.0, 110.0, 100.0), (60.0, 50.0, 40.0))
    packed = torch.from_numpy(np.packbits(removed.flatten(1).numpy(), axis=1))
    images = DegradedImages(pixels, packed, fill, Unit.SCALAR).batch(torch.arange(n))
    augmented = augment(images, Augmentation.CROP_FLIP, seeded(7))
    before, found = augmented.clone(), normalise(augmented, norm)
    torch.testing.assert_close(augmented, before, rtol=0, atol=0)

    generator = seeded(7)
    centres, sizes = split_transforms(draw_crops(n, 1.0, generator))
    heads = torch.rand(n, generator=generator) < 0.5
    assert 0 < heads.sum() < n
    for i in range(n):
        image = np.where(removed[i].numpy(), fill.numpy()[:, None, None], pixels[i].numpy()).astype(np.float64)
        (x, y), (width, height) = centres[i].tolist(), (sizes[i] * size).tolist()
        down = make_stretch_matrix(size, (y + 1) / 2 * size - height / 2, height)
        image = down @ image @ make_stretch_matrix(size, (x + 1) / 2 * size - width / 2, width).T
        image = image[:, :, ::-1] if heads[i] else image
        expected = (image - np.reshape(norm.mean, (3, 1, 1))) / np.reshape(norm.std, (3, 1, 1))
        # float32 places and weights on pixels up to 255, over a standard deviation of 40
        np.testing.assert_allclose(found[i].numpy(), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize(("full", "side"), [(64, 32), (64, 48), (21, 18), (63, 21), (224, 160)])
def test_shrink_images_equals_torch_area_interpolation(full, side):
    images = make_images(3, size=full)
    expected = interpolate(images, size=(side, side), mode="area")
    torch.testing.assert_close(shrink_images(images, side), expected, rtol=0, atol=0)

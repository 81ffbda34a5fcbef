"""Controls and blur match scipy and hand-made cases; controls need their inputs."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from roarbench.common.errors import DataError
from roarbench.estimators.estimator import SEED, blur
from roarbench.estimators.random_draws import draw_random_importance
from tests.helpers.networks import importance
from tests.helpers.trainings import seeded


def test_edge_controls_match_scipy(batch):
    images = batch.images.numpy()
    channels = images.reshape(-1, *images.shape[2:])
    slopes = [[ndimage.sobel(channel, axis=axis, mode="mirror") for channel in channels] for axis in (0, 1)]
    expected = np.hypot(*slopes).reshape(images.shape)
    np.testing.assert_allclose(importance("sobel", None, batch), expected, rtol=1e-12, atol=1e-12)
    image = torch.zeros(1, 1, 4, 6)
    image[..., 3:] = 1  # an edge between columns 2 and 3, none at the border
    found = importance("sobel", None, batch._replace(images=image))
    torch.testing.assert_close(found, torch.tensor([0.0, 0, 4, 4, 0, 0]).expand(1, 1, 4, 6))
    released = [ndimage.sobel(image.transpose(1, 2, 0), axis=0).transpose(2, 0, 1) for image in images]
    np.testing.assert_allclose(importance("sobel-released", None, batch), released, rtol=1e-12, atol=1e-12)
    around = ndimage.uniform_filter(images, (0, 0, 5, 5), mode="mirror")
    np.testing.assert_allclose(importance("contrast", None, batch), np.abs(images - around), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 2, 1, 9), (1, 2, 9, 1)])
def test_controls_of_signal_work_along_the_signal(shape, batch):
    signals = np.random.default_rng(0).normal(size=(2, 9))
    images = batch._replace(images=torch.from_numpy(signals).view(shape), ids=batch.ids[:1])
    slopes = ndimage.correlate1d(signals, [-4, 0, 4], mode="mirror")  # the other direction has the weights 1, 2 and 1
    np.testing.assert_allclose(importance("sobel", None, images), abs(slopes).reshape(shape), atol=1e-12)
    distances = abs(signals - ndimage.uniform_filter1d(signals, 5, mode="mirror"))
    np.testing.assert_allclose(importance("contrast", None, images), distances.reshape(shape), atol=1e-12)
    assert importance("random-smooth(width=0.2)", None, images).std() > 0


def test_truth_and_truth_inverted_have_opposite_order(batch):
    truth, inverted = importance("truth", None, batch), importance("truth-inverted", None, batch)
    torch.testing.assert_close(truth, batch.truth, rtol=0, atol=0)
    assert torch.equal(truth.flatten(1).argsort(1), inverted.flatten(1).argsort(1).flip(1))


@pytest.mark.parametrize(
    ("name", "field", "words"), [("truth", "truth", "planted"), ("class-template", "class_images", "images")]
)
def test_control_without_its_input_raises_data_error(name, field, words, batch):
    with pytest.raises(DataError, match=words):
        importance(name, None, batch._replace(**{field: None}))


def test_blur_and_random_smooth_match_scipy(batch):
    for shape in ((1, 1, 28, 40), (1, 2, 9, 7)):
        drawn = torch.randn(shape, generator=seeded(3), dtype=torch.float64)
        sigma = (0, 0, 0.05 * shape[2], 0.05 * shape[3])
        expected = ndimage.gaussian_filter(drawn.numpy(), sigma, mode="mirror", truncate=4.0)
        np.testing.assert_allclose(blur(drawn).numpy(), expected, rtol=0, atol=1e-12)
    random = draw_random_importance(batch.images, batch.ids, SEED + 3).numpy()
    slow = ndimage.gaussian_filter(random, 0.2 * 12, axes=(2, 3), mode="mirror", radius=round(4 * 0.2 * 12))
    np.testing.assert_allclose(importance("random-smooth(width=0.2)", None, batch), slow, rtol=1e-6)


def test_centre_control_decreases_with_distance_from_centre(batch):
    found = importance("centre", None, batch._replace(images=torch.zeros(2, 3, 12, 12, dtype=torch.float64)))
    down, across = np.mgrid[:12, :12] - 5.5
    order = np.argsort(-found[1, 2].numpy(), axis=None, kind="stable")
    assert (np.diff(np.hypot(down, across).ravel()[order]) > -1e-9).all()
    assert found.flatten(2).unique(dim=1).shape[1] == 1
    torch.testing.assert_close(found[0, 0, 5, 0].item(), float(np.exp(-0.5 * ((5.5 / 3) ** 2 + (0.5 / 3) ** 2))))


def test_class_template_and_linear_classifier_match_scipy_reference(batch):
    """The reference computes local entropy by scipy's blur of each grey level."""
    found, images = importance("class-template", None, batch).numpy(), batch.images.numpy()
    level = np.clip(np.floor((images.mean(1) + 2) * 2), 0, 7)
    detail = 0.0
    for grey in range(8):
        share = ndimage.gaussian_filter((level == grey) * 1.0, (0, 12 / 32, 12 / 32), mode="mirror", radius=2)
        detail = detail - np.maximum(share, 1e-6) * np.log(np.maximum(share, 1e-6))
    means, weights = (each[batch.targets].numpy() * detail[:, None] for each in batch.class_images)
    centre = importance("centre", None, batch).numpy()
    np.testing.assert_allclose(found, images * means * centre, rtol=1e-6, atol=1e-9)
    linear = importance("linear-classifier", None, batch).numpy()
    np.testing.assert_allclose(linear, images * weights, rtol=1e-6, atol=1e-9)


def test_deviation_control_is_absolute_difference_from_baseline(batch):
    black = -torch.arange(1, 4).to(batch.images)[:, None, None]
    starts = {"mean": torch.zeros_like(black), "black": black, "blur": blur(batch.images)}
    for name, start in starts.items():
        forms = (f"deviation(baseline={name})", f"deviation-blurred(baseline={name})")
        plain, smooth = (importance(form, None, batch, black) for form in forms)
        expected = (batch.images - start).abs()
        torch.testing.assert_close((plain, smooth), (expected, blur(expected)), rtol=0, atol=0)

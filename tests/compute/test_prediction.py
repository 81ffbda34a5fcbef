"""Class templates and the linear classifier of the training images, against class means and sklearn's ridge."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from roarbench.compute.prediction import Normalisation, fit_class_templates_and_classifier, normalise
from tests.helpers.tiny_suite import make_work


@pytest.fixture
def images(tmp_path):
    return make_work(tmp_path).images


def test_class_templates_and_classifier_match_means_and_sklearn_ridge(images):
    """The reference: class means, and sklearn's ridge on thumbnails and their mirror images."""
    train, norm = images.train, Normalisation.of(images)
    class_images, classes = fit_class_templates_and_classifier(images), images.record.classes
    means = np.stack([train.pixels[train.labels == number].mean(0) for number in range(classes)])
    expected = (means - train.pixels.mean(0)) / np.array(images.std)[:, None, None]
    np.testing.assert_allclose(class_images.means, expected, rtol=1e-4, atol=1e-6)
    small = torch.nn.functional.adaptive_avg_pool2d(normalise(torch.from_numpy(train.pixels), norm), 6)
    seen = torch.cat([small, small.flip(3)]).flatten(1).numpy()
    ridge = Ridge(alpha=0.1 * len(seen)).fit(seen, np.eye(classes)[np.tile(train.labels, 2)])
    weights = torch.from_numpy(ridge.coef_).view(-1, *small.shape[1:])
    weights = torch.nn.functional.interpolate(weights, train.pixels.shape[2:], mode="bilinear")
    np.testing.assert_allclose(class_images.weights, weights, rtol=1e-3, atol=1e-5)

"""Compute class templates and a linear classifier from training images, for controls that know the predicted class."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from roarbench.common.device_settings import choose_device
from roarbench.compute.normalisation import Normalisation, normalise
from roarbench.datasets.open_decoded import ImageData
from roarbench.estimators.map_input import ClassImages

_THUMBNAIL_SIDE = 6  # side of the linear classifier's thumbnails, in pixels
_RIDGE_PENALTY = 0.1  # relative to the variance of normalised pixels, which is about 1
_BATCH = 1024  # images per batch


@lru_cache(maxsize=1)  # the templates and the classifier have 1.2 GB for ImageNet
def compute_class_images(images: ImageData) -> ClassImages:
    """Compute class templates and a linear classifier from the training images, float32 (classes, c, h, w) each."""
    train, classes = images.train, range(images.record.classes)
    # float64 sums of integers are exact
    sums = np.stack([train.pixels[train.labels == number].sum(0, dtype=np.float64) for number in classes])
    counts = np.bincount(train.labels, minlength=len(classes))[:, None, None, None]
    # a class without images gets the zero image
    differences = np.where(counts > 0, sums / counts.clip(1) - sums.sum(0) / len(train.labels), 0)
    std = np.array(Normalisation.of(images).std)[:, None, None]
    return ClassImages(torch.from_numpy(differences / std).float(), _fit_classifier_weights(images)).to(choose_device())


def _fit_classifier_weights(images: ImageData) -> Tensor:
    """Fit the linear classifier by ridge regression on thumbnails of the training images and of their mirror images."""
    train, norm, (height, width) = images.train, Normalisation.of(images), images.record.shape[1:]
    side = (min(_THUMBNAIL_SIDE, height), min(_THUMBNAIL_SIDE, width))
    parts = torch.split(torch.from_numpy(train.pixels), _BATCH)
    small = torch.cat([F.interpolate(normalise(part, norm), side, mode="area") for part in parts]).double()
    x = torch.cat([small, small.flip(3)]).flatten(1)
    x -= x.mean(0)
    labels, class_sums = torch.from_numpy(train.labels).repeat(2), x.new_zeros(images.record.classes, x.shape[1])
    class_sums.index_add_(0, labels, x)  # a product with one-hot labels is equal, but they have 20 GB for ImageNet
    covariance = x.T @ x / len(x) + _RIDGE_PENALTY * torch.eye(x.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(covariance, class_sums.T / len(x)).T.unflatten(1, small.shape[1:])
    return F.interpolate(weights, (height, width), mode="bilinear").float()

"""What the training images tell of each class without a network: their mean, and a linear classifier fitted to them."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from roarbench.datasets.decoded import ImageData
from roarbench.estimators.inputs import ClassImages
from roarbench.kernels.inputs import Normalisation, normalise

_SIDE = 6  # of the thumbnails that the classifier sees
_RIDGE = 0.1  # beside the variance of a normalised number, which is about 1
_AT_ONCE = 1024  # images


@lru_cache(maxsize=1)
def make_class_images(images: ImageData) -> ClassImages:
    """Return both, float32 (classes, c, h, w), normalised. Reads all training images, once in a process."""
    train, classes = images.train, range(images.record.classes)
    sums = np.stack([train.pixels[train.labels == number].sum(0, dtype=np.float64) for number in classes])  # exact
    counts = np.bincount(train.labels, minlength=len(classes))[:, None, None, None]
    # of a class without images nothing is known that would set it apart
    apart = np.where(counts > 0, sums / counts.clip(1) - sums.sum(0) / len(train.labels), 0)
    std = np.array(Normalisation.of(images).std)[:, None, None]
    return ClassImages(torch.from_numpy(apart / std).float(), _weights(images))


def _weights(images: ImageData) -> Tensor:
    """Fit the classifier by ridge regression on thumbnails of the training images and of their mirror images."""
    train, norm, (height, width) = images.train, Normalisation.of(images), images.record.shape[1:]
    side = (min(_SIDE, height), min(_SIDE, width))
    parts = [
        F.interpolate(normalise(torch.from_numpy(train.pixels[start : start + _AT_ONCE]), norm), side, mode="area")
        for start in range(0, len(train.labels), _AT_ONCE)
    ]
    small = torch.cat(parts).double()
    seen = torch.cat([small, small.flip(3)]).flatten(1)
    seen -= seen.mean(0)
    labels, of_class = torch.from_numpy(train.labels).repeat(2), seen.new_zeros(images.record.classes, seen.shape[1])
    of_class.index_add_(0, labels, seen)  # as one-hot answers would give it, which for ImageNet take 20 GB
    spread = seen.T @ seen / len(seen) + _RIDGE * torch.eye(seen.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(spread, of_class.T / len(seen)).T.unflatten(1, small.shape[1:])
    return F.interpolate(weights, (height, width), mode="bilinear").float()

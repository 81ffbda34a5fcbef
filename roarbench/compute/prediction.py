"""Normalise images, and predict their classes: logits of trained networks, class templates, a linear classifier.

Controls that know the predicted class use the class templates and the linear classifier.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from roarbench.common.device_settings import (
    choose_device,
    choose_fastest_float32_layout,
    find_device,
    put_convolutions_in_layout,
    use_exact_float32,
)
from roarbench.compute.degraded_images import Inputs, Streamed
from roarbench.datasets.open_decoded import ImageData
from roarbench.estimators.estimator import ClassImages

_THUMBNAIL_SIDE = 6  # side of the linear classifier's thumbnails, in pixels
_RIDGE_PENALTY = 0.1  # relative to the variance of normalised pixels, which is about 1
_BATCH = 1024  # images per batch


class Normalisation(NamedTuple):
    """Mean and standard deviation of each channel, in the range of the inputs."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, images: ImageData) -> Self:
        """Return the normalisation in the data set's record or, if there is none, that of the training images."""
        record = images.record
        return cls(record.mean or images.mean, record.std or images.std)

    @property
    def black(self) -> Tensor:
        """Return a black pixel after normalisation, float32 (c, 1, 1)."""
        return (-torch.tensor(self.mean) / torch.tensor(self.std))[:, None, None]


def normalise(images: Tensor, norm: Normalisation, layout: torch.memory_format = torch.channels_last) -> Tensor:
    """Normalise images (n, c, h, w) per channel."""
    mean, std = _copy_to_device(norm, images.device)
    return images.sub(mean).div_(std).contiguous(memory_format=layout)


@lru_cache(64)  # a copy waits for the GPU
@torch.inference_mode(False)
def _copy_to_device(norm: Normalisation, device: torch.device) -> tuple[Tensor, Tensor]:
    mean, std = (torch.tensor(part, device=device)[:, None, None] for part in norm)
    return mean, std


def choose_scoring_batch_size(size: int) -> int:
    """Return the number of images per batch in scoring: 128 for a side of up to 64 pixels, else 32.

    The number depends on the size alone, because logits may depend on the batch size (see `predict_logits`). Every
    batch is filled up, so a batch of more photographs would slow down the scoring of a few; 32 photographs keep a GPU
    busy.
    """
    return 128 if size <= 64 else 32


class NormalisedNetwork(NamedTuple):
    """A network and the normalisation of its inputs."""

    model: nn.Module
    norm: Normalisation


def predict_logits(model: nn.Module, inputs: Inputs, norm: Normalisation, batch: int) -> Tensor:
    """Compute the logits of all inputs, float32 (n, classes) on the CPU, and leave the model in evaluation mode.

    The computation is in float32, without autocast and TF32, on every device. Copies of the last input fill the last
    batch, because the rounding of a convolution depends on the batch size (`choose_scoring_batch_size`).
    """
    return predict_logits_of_networks([NormalisedNetwork(model, norm)], inputs, batch)[0]


def predict_logits_of_networks(networks: Sequence[NormalisedNetwork], inputs: Inputs, batch: int) -> list[Tensor]:
    """Compute the logits of several networks on one device; each batch of inputs is prepared once for all of them."""
    device = find_device(networks[0].model)
    layout = choose_fastest_float32_layout(device)
    for network in networks:
        put_convolutions_in_layout(network.model.eval(), layout)
    starts = range(0, len(inputs), batch)
    indices = [torch.arange(start, start + batch).clamp(max=len(inputs) - 1) for start in starts]
    logits: list[list[Tensor]] = [[] for _ in networks]
    with torch.no_grad(), use_exact_float32():  # in inference mode, a forward that computes a gradient fails
        batches_of_inputs = inputs.read(indices) if isinstance(inputs, Streamed) else map(inputs.batch, indices)
        for images in batches_of_inputs:  # streamed inputs are read ahead
            on_device = images.to(device)
            normalised = {norm: normalise(on_device, norm, layout) for norm in {norm for _, norm in networks}}
            for (model, norm), batches in zip(networks, logits, strict=True):
                batches.append(model(normalised[norm]).detach())
        return [torch.cat(batches)[: len(inputs)].cpu() for batches in logits]


@lru_cache(maxsize=1)  # the templates and the classifier have 1.2 GB for ImageNet
def fit_class_templates_and_classifier(images: ImageData) -> ClassImages:
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

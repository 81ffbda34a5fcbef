"""Define the inputs of training and scoring, and normalise them."""

from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from roarbench.compute.degraded_images import DegradedImages, RemovalMasks
from roarbench.datasets.open_decoded import ImageData

# inputs that are the same at every reading, so images that were prepared once serve all epochs
FixedInputs = DegradedImages | RemovalMasks
MEMORY_SHARE = 0.6  # maximum share of memory for a data set's pixels and bits; the network needs the rest
INPUTS_PER_PART = 32  # inputs that are prepared together; their intermediate arrays fit in the cache of a core


class Inputs(Protocol):
    """Inputs for training and testing: degraded images or removal masks."""

    def __len__(self) -> int:
        """Return the number of inputs."""

    def batch(self, index: Tensor) -> Tensor:
        """Return inputs by index, int64 (b,), as float32 (b, c, h, w): images in [0, 255] or masks of 0 and 1."""


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


def normalise(images: Tensor, norm: Normalisation) -> Tensor:
    """Normalise images (n, c, h, w) per channel; the result is in channels-last memory format."""
    return normalise_on_device(images, copy_normalisation_to_device(norm, images.device))


class DeviceNormalisation(NamedTuple):
    """Means and standard deviations on a device, each float32 (c, 1, 1)."""

    mean: Tensor
    std: Tensor


def copy_normalisation_to_device(norm: Normalisation, device: torch.device) -> DeviceNormalisation:
    """Copy a normalisation to a device."""
    return DeviceNormalisation(*(torch.tensor(part, device=device)[:, None, None] for part in norm))


def normalise_on_device(
    images: Tensor, scale: DeviceNormalisation, layout: torch.memory_format = torch.channels_last
) -> Tensor:
    """Normalise images with a normalisation on the same device."""
    return images.sub(scale.mean).div_(scale.std).contiguous(memory_format=layout)

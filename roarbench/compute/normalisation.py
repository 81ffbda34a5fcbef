"""Normalise images by the mean and standard deviation of each channel."""

from functools import lru_cache
from typing import NamedTuple, Self

import torch
from torch import Tensor

from roarbench.datasets.open_decoded import ImageData


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

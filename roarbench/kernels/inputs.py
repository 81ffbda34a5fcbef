"""What a network is trained and tested on, in which order, and how it is normalised."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from roarbench.datasets.decoded import ImageData


class Inputs(Protocol):
    """Inputs that a network is trained and tested on: degraded images or removal masks."""

    def __len__(self) -> int:
        """Count the inputs."""

    def batch(self, index: Tensor) -> Tensor:
        """Return inputs by index, int64 (b,): float32 (b, c, h, w) in the range of the pixels, [0, 255], or 0 and 1."""


class Batches:
    """Indices of batch after batch: one shuffled pass after another, cut without regard to where a pass ends.

    So every batch is full, and after k passes each of n images was used k times, give or take the batch at the seam.
    The generator shuffles, and is asked only when the images drawn before do not fill a batch.
    """

    def __init__(self, n: int, batch: int, generator: torch.Generator) -> None:
        self._n, self._batch, self._generator = n, batch, generator
        self.waiting = torch.empty(0, dtype=torch.int64)  # drawn and not yet used

    def next(self) -> Tensor:
        """Return the next batch, int64 (batch,)."""
        while len(self.waiting) < self._batch:
            self.waiting = torch.cat([self.waiting, torch.randperm(self._n, generator=self._generator)])
        index, self.waiting = self.waiting[: self._batch], self.waiting[self._batch :]
        return index

    def coming(self) -> Iterator[Tensor]:
        """Return those after it, as far as they are drawn already."""
        full = len(self.waiting) // self._batch * self._batch
        return (self.waiting[start : start + self._batch] for start in range(0, full, self._batch))


class Normalisation(NamedTuple):
    """Mean and standard deviation that inputs are normalised with, of each channel, in the range of the inputs."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, images: ImageData) -> Self:
        """Return what images are normalised with for all networks that are trained here, and for controls.

        It is what their record says, or else mean and standard deviation of the training images.
        """
        record = images.record
        return cls(record.mean or images.mean, record.std or images.std)

    @property
    def black(self) -> Tensor:
        """Return the black pixel, normalised, float32 (c, 1, 1)."""
        return (-torch.tensor(self.mean) / torch.tensor(self.std))[:, None, None]


def normalise(images: Tensor, norm: Normalisation) -> Tensor:
    """Return images (n, c, h, w) minus the mean, over the standard deviation, per channel; channels last in memory."""
    return scale_images(images, send_normalisation(norm, images.device))


class DeviceNormalisation(NamedTuple):
    """A normalisation on a device, float32 (c, 1, 1) each: sent there once, not with every batch."""

    mean: Tensor
    std: Tensor


def send_normalisation(norm: Normalisation, device: torch.device) -> DeviceNormalisation:
    """Send a normalisation to a device."""
    return DeviceNormalisation(*(torch.tensor(part, device=device)[:, None, None] for part in norm))


def scale_images(images: Tensor, scale: DeviceNormalisation) -> Tensor:
    """Return what `normalise` does, by a normalisation that is on the device of the images."""
    return images.sub(scale.mean).div_(scale.std).contiguous(memory_format=torch.channels_last)

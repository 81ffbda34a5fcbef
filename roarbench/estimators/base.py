"""What an estimator is given."""

from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """Images with all that estimators and controls may look at beside the model.

    Attributes:
        images: Float32 (n, c, h, w), normalised; float64 gives float64 maps.
        targets: Int64 (n,), the classes to explain.
        ids: Int64 (n,), one number per image of the data set, unique over both splits; the key of its chance.
        truth: Planted data's true importance, (n, c, h, w), larger = more important; None for other data.
        labels: Int64 (n,), the true classes, for the control that gives them away; None where nothing may know them.
    """

    images: Tensor
    targets: Tensor
    ids: Tensor
    truth: Tensor | None = None
    labels: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device; numbers and labels stay on the CPU, where their chance is drawn."""
        truth = None if self.truth is None else self.truth.to(device)
        return Batch(self.images.to(device), self.targets.to(device), self.ids, truth, self.labels)

    def part(self, rows: slice) -> "Batch":
        """Return these rows of the batch."""
        truth = None if self.truth is None else self.truth[rows]
        labels = None if self.labels is None else self.labels[rows]
        return Batch(self.images[rows], self.targets[rows], self.ids[rows], truth, labels)

"""What an estimator is given."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.estimators import IG_STEPS, NOISE, SAMPLES, Estimator


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


class Settings(NamedTuple):
    """Parameters of the shared pass; those of the paper by default.

    Attributes:
        noise: Standard deviation of the noise on copies, as a share of the image's range.
        samples: Noisy copies of an image.
        steps: Points on the path of integrated gradients.
        baseline: Where that path begins, a name that `baselines.baseline_images` takes.
    """

    noise: float = NOISE
    samples: int = SAMPLES
    steps: int = IG_STEPS
    baseline: str = "black"


PAPERS = Settings()


class MethodInput(NamedTuple):
    """Input of an estimator with passes of its own.

    Attributes:
        estimator: With its parameters; of those in `METHODS`.
        model: Logits out, eval mode; it is left as it is.
        batch: The images and the classes to explain.
        black: Float (c, 1, 1), the black pixel, normalised.
    """

    estimator: Estimator
    model: nn.Module
    batch: Batch
    black: Tensor

    def whole(self, name: str) -> int:
        """Return the value of a parameter that is a whole number."""
        return int(self.estimator.value(name))

    def word(self, name: str) -> str:
        """Return the value of a parameter that is a word."""
        return str(self.estimator.value(name))

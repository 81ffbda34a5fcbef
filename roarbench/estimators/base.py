"""What an estimator is given. Nothing here imports torch before a map is made."""

from __future__ import annotations

from typing import NamedTuple

from roarbench.estimators import IG_STEPS, NOISE, SAMPLES, Estimator
from roarbench.estimators.baselines import baseline_images
from roarbench.estimators.lazy import Tensor, nn, torch


class ClassImages(NamedTuple):
    """What training images tell of each class without a network, float32 (classes, c, h, w), normalised.

    Attributes:
        means: How far the mean image of each class lies from that of all.
        weights: Of a linear classifier, fitted to thumbnails of 6 x 6 pixels and enlarged to the images' size.
    """

    means: Tensor
    weights: Tensor

    def to(self, device: torch.device) -> ClassImages:
        """Return both on a device."""
        return ClassImages(self.means.to(device), self.weights.to(device))


class Batch(NamedTuple):
    """Images with all that estimators and controls may look at beside the model.

    Attributes:
        images: Float32 (n, c, h, w), normalised; float64 gives float64 maps.
        targets: Int64 (n,), the classes to explain.
        ids: Int64 (n,), one number per image of the data set, unique over both splits; the key of its chance.
        truth: Planted data's true importance, (n, c, h, w), larger = more important; None for other data.
        labels: Int64 (n,), the true classes, for the control that gives them away; None where nothing may know them.
        by_class: What training images tell of each class; None where no control asks for it.
    """

    images: Tensor
    targets: Tensor
    ids: Tensor
    truth: Tensor | None = None
    labels: Tensor | None = None
    by_class: ClassImages | None = None

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device; numbers and labels stay on the CPU, where their chance is drawn."""
        truth = None if self.truth is None else self.truth.to(device)
        by_class = None if self.by_class is None else self.by_class.to(device)
        return Batch(self.images.to(device), self.targets.to(device), self.ids, truth, self.labels, by_class)

    def part(self, rows: slice) -> Batch:
        """Return these rows of the batch."""
        truth = None if self.truth is None else self.truth[rows]
        labels = None if self.labels is None else self.labels[rows]
        return Batch(self.images[rows], self.targets[rows], self.ids[rows], truth, labels, self.by_class)


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


class MapInput(NamedTuple):
    """Input of the function that makes an estimator's maps.

    Attributes:
        black: Float (c, 1, 1), the black pixel, normalised.
        network: Logits out, eval mode; it is left as it is. None for controls.
    """

    estimator: Estimator
    batch: Batch
    black: Tensor
    network: nn.Module | None = None

    @property
    def images(self) -> Tensor:
        """Return the images, float (n, c, h, w), normalised."""
        return self.batch.images

    @property
    def model(self) -> nn.Module:
        """Return the network."""
        assert self.network is not None, "a control never sees the network"
        return self.network

    @property
    def baseline(self) -> Tensor:
        """Return each image without its features, as the estimator's `baseline` says, like the images."""
        return baseline_images(str(self.estimator.value("baseline")), self.images, self.black)

    def logit(self, images: Tensor) -> Tensor:
        """Return the logit of the class to explain, (n, 1), for images that stand in for the batch's."""
        found: Tensor = self.model(images).gather(1, self.batch.targets[:, None])
        return found

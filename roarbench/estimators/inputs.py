"""What an estimator is given. Nothing here imports torch before a map is made."""

from __future__ import annotations

from typing import NamedTuple

from roarbench.estimators.baselines import make_baseline_images
from roarbench.estimators.estimator import IG_STEPS, NOISE, SAMPLES, Estimator
from roarbench.estimators.lazy_imports import Tensor, nn, torch


class ClassImages(NamedTuple):
    """Images of the classes, made of training images without a network, float32 (classes, c, h, w), normalised."""

    means: Tensor  # how far the mean image of each class lies from that of all
    weights: Tensor  # of a linear classifier, fitted to thumbnails of 6 x 6 pixels and enlarged to the images' size

    def to(self, device: torch.device) -> ClassImages:
        """Return both on a device."""
        return ClassImages(self.means.to(device), self.weights.to(device))


class Batch(NamedTuple):
    """Images with all that estimators and controls may look at beside the model."""

    images: Tensor  # float32 (n, c, h, w), normalised; float64 gives float64 maps
    targets: Tensor  # int64 (n,), the classes to explain
    ids: Tensor  # int64 (n,), one number per image of the data set, unique over both splits; the key of its chance
    # planted data's true importance, (n, c, h, w), larger = more important; None for other data
    truth: Tensor | None = None
    by_class: ClassImages | None = None  # what training images tell of each class; None where no control asks for it
    seed: int = 0  # of the explained network's training, for maps that are told which features it uses

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device; numbers stay on the CPU, where their chance is drawn."""
        truth = None if self.truth is None else self.truth.to(device)
        by_class = None if self.by_class is None else self.by_class.to(device)
        return Batch(self.images.to(device), self.targets.to(device), self.ids, truth, by_class, self.seed)

    def part(self, rows: slice) -> Batch:
        """Return these rows of the batch."""
        truth = None if self.truth is None else self.truth[rows]
        return Batch(self.images[rows], self.targets[rows], self.ids[rows], truth, self.by_class, self.seed)


class Settings(NamedTuple):
    """Parameters of the shared pass; those of the paper by default."""

    noise: float = NOISE  # standard deviation of the noise on copies, as a share of the image's range
    samples: int = SAMPLES  # noisy copies of an image
    steps: int = IG_STEPS  # points on the path of integrated gradients
    baseline: str = "black"  # where that path begins, a name that `baselines.baseline_images` takes


PAPERS = Settings()


class MapInput(NamedTuple):
    """Input of the function that makes an estimator's maps."""

    estimator: Estimator
    batch: Batch
    black: Tensor  # float (c, 1, 1), the black pixel, normalised
    network: nn.Module | None = None  # logits out, eval mode; it is left as it is. None for controls

    @property
    def images(self) -> Tensor:
        """Return the images, float (n, c, h, w), normalised."""
        return self.batch.images

    @property
    def model(self) -> nn.Module:
        """Return the network."""
        assert self.network is not None, "a control never asks the network"
        return self.network

    @property
    def baseline(self) -> Tensor:
        """Return each image without its features, as the estimator's `baseline` says, like the images."""
        return make_baseline_images(str(self.estimator.value("baseline")), self.images, self.black)

    def logit(self, images: Tensor) -> Tensor:
        """Return the logit of the class to explain, (n, 1), for images that stand in for the batch's."""
        found: Tensor = self.model(images).gather(1, self.batch.targets[:, None])
        return found

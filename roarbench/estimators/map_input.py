"""Input of the functions that compute maps, with baselines of images and the blur of images and maps.

torch is imported at first use.
"""

from __future__ import annotations

from typing import NamedTuple

from roarbench.common.enums import TEST_IDS, Split
from roarbench.estimators.estimator import BLUR, Estimator
from roarbench.estimators.lazy_torch import F, Tensor, nn, torch


class ClassImages(NamedTuple):
    """One image per class, computed from training images without the explained network.

    Both tensors are float32 (classes, c, h, w), in the range of normalised images.
    """

    means: Tensor  # mean image of each class minus the mean of all images
    weights: Tensor  # weights of a linear classifier of thumbnails (6 x 6 pixels), enlarged to the size of the images

    def to(self, device: torch.device) -> ClassImages:
        return ClassImages(self.means.to(device), self.weights.to(device))


class Batch(NamedTuple):
    """Images, targets and all other data that estimators and controls may use, except the model."""

    images: Tensor  # float32 (n, c, h, w), normalised; float64 gives float64 maps
    targets: Tensor  # int64 (n,), the classes to explain
    # int64 (n,), each image's number in the data set, unique over both splits; it seeds the image's random numbers
    ids: Tensor
    # planted data's true importance, (n, c, h, w), larger = more important; None for other data
    truth: Tensor | None = None
    class_images: ClassImages | None = None  # class statistics of the training images; None if no control needs them
    seed: int = 0  # seed with which the explained network was trained, for the controls of `planted-corners`

    def to(self, device: torch.device) -> Batch:
        """Copy the batch to a device; `ids` stays on the CPU, where random numbers are drawn."""
        truth = None if self.truth is None else self.truth.to(device)
        class_images = None if self.class_images is None else self.class_images.to(device)
        return Batch(self.images.to(device), self.targets.to(device), self.ids, truth, class_images, self.seed)

    def select_rows(self, rows: slice) -> Batch:
        """Return these rows of the batch."""
        truth = None if self.truth is None else self.truth[rows]
        return Batch(self.images[rows], self.targets[rows], self.ids[rows], truth, self.class_images, self.seed)


class MapInput(NamedTuple):
    """Input of a function that computes an estimator's maps."""

    estimator: Estimator
    batch: Batch
    black: Tensor  # float (c, 1, 1), the black pixel, normalised
    network: nn.Module | None = None  # explained network, which returns logits, in eval mode; None for controls

    @property
    def images(self) -> Tensor:
        """Return the images, float (n, c, h, w), normalised."""
        return self.batch.images

    @property
    def model(self) -> nn.Module:
        """Return the network."""
        assert self.network is not None, "a control does not use the network"
        return self.network

    @property
    def baseline(self) -> Tensor:
        """Return one baseline per image, (n, c, h, w), as set by the estimator's parameter `baseline`."""
        return make_baseline_images(str(self.estimator.get_value("baseline")), self.images, self.black)

    def compute_logit(self, images: Tensor) -> Tensor:
        """Return the target logits, (n, 1), of modified images, (n, c, h, w)."""
        logit: Tensor = self.model(images).gather(1, self.batch.targets[:, None])
        return logit


def make_image_ids(split: Split, start: int, stop: int) -> Tensor:
    """Return the ids of images `start` to `stop - 1` of a split, int64; no two images of the splits share an id."""
    return torch.arange(start, stop) + (TEST_IDS if split is Split.TEST else 0)


def make_baseline_images(name: str, images: Tensor, black: Tensor) -> Tensor:
    """Return the baseline of each image, float (n, c, h, w), normalised, as a new tensor.

    Args:
        name: `black` for black images, `mean` for the mean colour of the training images, which is 0 after
            normalisation, or `blur` for the images after a Gaussian blur.
        images: Float (n, c, h, w), normalised.
        black: The black pixel, normalised, (c, 1, 1).
    """
    if name == "black":
        return torch.empty_like(images).copy_(black)
    return torch.zeros_like(images) if name == "mean" else blur(images)


def blur(importance: Tensor, width: float = BLUR) -> Tensor:
    """Blur each channel of a map (n, c, h, w) with a Gaussian, which adds no information (Song et al. 2023).

    The standard deviation is `width` times the side; `width` is at most 0.2. The kernel is cut off at 4 standard
    deviations, and the map is mirrored at its border (Song et al., arXiv 2304.13836).
    """
    h, w = importance.shape[2:]
    return _make_blur_matrix(h, width, importance).T @ importance @ _make_blur_matrix(w, width, importance)


def _make_blur_matrix(side: int, width: float, like: Tensor) -> Tensor:
    """Return the blur along one side as a matrix (side, side): row i is the blurred unit impulse at position i."""
    sigma = width * side
    radius = min(round(4 * sigma), side - 1)  # mirroring adds at most `side` - 1 pixels
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (offsets / sigma) ** 2)
    lines = F.pad(torch.eye(side, dtype=torch.float64)[:, None], (radius, radius), mode="reflect")
    return F.conv1d(lines, (kernel / kernel.sum())[None, None])[:, 0].to(like)

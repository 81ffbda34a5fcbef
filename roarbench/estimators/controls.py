"""Controls, which never see the model, and the blur that makes a twin of any map."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from roarbench.errors import DataError
from roarbench.estimators import BLUR, SEED
from roarbench.estimators.base import Batch
from roarbench.estimators.noise import random_importance

NOISE_ON_TRUTH = 4.0  # of the true places, which lie in (0, 1]
_FINE = 1 / 32  # of the image's side: two pixels of 64, the strongest width on development images (studies/corpus)
_NOISY_SEED, _LEAK_SEED, _SMOOTH_SEED = SEED + 1, SEED + 2, SEED + 3  # apart from that of the random control


def control_map(base: str, form: str, batch: Batch, width: float = 0.1) -> Tensor:
    """Return the importance map of one control, float (n, c, h, w); `width` is that of `random-smooth`."""
    return random_smooth(batch, width) if base == "random-smooth" else CONTROL_MAPS[base, form](batch)


def random(batch: Batch) -> Tensor:
    """Return uniform importance, fixed per image."""
    return random_importance(batch.images, batch.ids, SEED)


def sobel(batch: Batch) -> Tensor:
    """Return the gradient magnitude of the 3x3 Sobel pair on the normalised image, per channel.

    Beyond the border the image is mirrored about its outermost pixels, as in TensorFlow's `sobel_edges`, so the
    border itself is no edge.
    """
    across = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    pair = torch.stack((across, across.T))[:, None].to(batch.images)  # (2, 1, 3, 3)
    channels = F.pad(batch.images, (1, 1, 1, 1), mode="reflect").flatten(0, 1)[:, None]  # (n c, 1, h + 2, w + 2)
    return torch.hypot(*F.conv2d(channels, pair).unbind(1)).view(batch.images.shape)


def sobel_released(batch: Batch) -> Tensor:
    """Return `scipy.ndimage.sobel(image, axis=0)` of the normalised image, height x width x channel, signed.

    The code that Hooker et al. 2019 released ranks by it: the derivative in one direction, smoothed by 1, 2, 1 across
    the width and across the channels, whose ends are repeated.
    """
    _, channels, h, w = batch.images.shape
    images = F.pad(batch.images, (1, 1, 1, 1), mode="replicate")
    down = images.narrow(2, 2, h) - images.narrow(2, 0, h)
    across = down.narrow(3, 0, w) + 2 * down.narrow(3, 1, w) + down.narrow(3, 2, w)
    ends = torch.cat((across.narrow(1, 0, 1), across, across.narrow(1, channels - 1, 1)), dim=1)
    return ends.narrow(1, 0, channels) + 2 * across + ends.narrow(1, 2, channels)


def truth(batch: Batch) -> Tensor:
    """Return planted data's true importance.

    Raises:
        DataError: The data set carries none.
    """
    if batch.truth is None:
        raise DataError("this data set has no true importance; 'truth' and 'truth-inverted' need planted data")
    return batch.truth


def truth_noisy(batch: Batch) -> Tensor:
    """Return planted data's true places, in (0, 1], under uniform noise in [0, NOISE_ON_TRUTH).

    What hides the truth differs from feature to feature, so a blur of this map is nearer to the truth than the map.

    Raises:
        DataError: The data set carries none.
    """
    importance = truth(batch).flatten(1)
    place = (1 + importance.argsort(1).argsort(1)).to(batch.images) / importance.shape[1]
    return place.view(batch.images.shape) + NOISE_ON_TRUTH * random_importance(batch.images, batch.ids, _NOISY_SEED)


def leak(batch: Batch) -> Tensor:
    """Return a uniform importance for each true class, the same for all of its images.

    Its removal masks tell the class to whoever knows the four, and nothing in the image has a part in them.

    Raises:
        DataError: The true classes are not at hand.
    """
    if batch.labels is None:
        raise DataError("the true classes are not at hand; 'leak' needs them")
    return random_importance(batch.images, batch.labels, _LEAK_SEED)


def random_smooth(batch: Batch, width: float) -> Tensor:
    """Return a random map after a Gaussian of this standard deviation, as a share of the image's side.

    With the width of the twins' blur it is another draw of `random-blurred`: an estimator can be held against the
    random map of its own smoothness.
    """
    return blurred(random_importance(batch.images, batch.ids, _SMOOTH_SEED), width)


def centre(batch: Batch) -> Tensor:
    """Return a Gaussian around the middle of the image, in (0, 1], the same for all images and channels.

    Its width, a quarter of the side, has no say: only the distance from the middle ranks.
    """
    h, w = batch.images.shape[2:]
    down, across = (torch.arange(side).to(batch.images) - (side - 1) / 2 for side in (h, w))
    distance = (4 * down[:, None] / h) ** 2 + (4 * across / w) ** 2  # in standard deviations, squared
    return torch.exp(-distance / 2).expand(batch.images.shape).contiguous()


def contrast(batch: Batch) -> Tensor:
    """Return how far each number lies from the mean of the 5 x 5 around it, mirrored about the outermost pixels."""
    around = F.avg_pool2d(F.pad(batch.images, (2, 2, 2, 2), mode="reflect"), 5, stride=1)
    return (batch.images - around).abs()


def deviation(batch: Batch) -> Tensor:
    """Return the size of each number: how far it lies from what was taken off, in standard deviations."""
    return batch.images.abs()


def saturation_deviation(batch: Batch) -> Tensor:
    """Return a pixel's saturation, largest minus smallest number, times the deviation of the blurred image."""
    images = batch.images
    return (images.amax(1, keepdim=True) - images.amin(1, keepdim=True)) * blurred(images, _FINE).abs()


CONTROL_MAPS: dict[tuple[str, str], Callable[[Batch], Tensor]] = {
    ("random", "base"): random,
    ("sobel", "base"): sobel,
    ("sobel", "released"): sobel_released,
    ("truth", "base"): truth,
    ("truth", "inverted"): lambda batch: -truth(batch),
    ("truth", "noisy"): truth_noisy,
    ("truth", "noisy-blurred"): lambda batch: blurred(truth_noisy(batch)),
    ("leak", "base"): leak,
    ("centre", "base"): centre,
    ("contrast", "base"): contrast,
    ("deviation", "base"): deviation,
    ("deviation-blurred", "base"): lambda batch: blurred(deviation(batch)),
    ("colour-deviation", "base"): lambda batch: batch.images * (batch.images - batch.images.mean(1, keepdim=True)),
    ("saturation-deviation", "base"): saturation_deviation,
}


def blurred(importance: Tensor, width: float = BLUR) -> Tensor:
    """Blur each channel of the map by a Gaussian: it adds no information (Song et al., arXiv 2304.13836).

    The kernel ends at 4 standard deviations, and beyond the border the map is mirrored about its outermost features.

    Args:
        importance: Float (n, c, h, w).
        width: Standard deviation as a share of the side, at most 0.2.

    Returns:
        Float (n, c, h, w).
    """
    h, w = importance.shape[2:]
    return _blur_matrix(h, width, importance).T @ importance @ _blur_matrix(w, width, importance)


def _blur_matrix(side: int, width: float, like: Tensor) -> Tensor:
    """Return a (side, side) matrix; row i is the blur of a line that is 1 at i and 0 elsewhere."""
    sigma = width * side
    radius = round(4 * sigma)
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (offsets / sigma) ** 2)
    lines = F.pad(torch.eye(side, dtype=torch.float64)[:, None], (radius, radius), mode="reflect")
    return F.conv1d(lines, (kernel / kernel.sum())[None, None])[:, 0].to(like)

"""Differences that parts of the image make when they are taken away."""

from collections.abc import Iterable, Iterator
from itertools import product

from roarbench.estimators.estimator import Estimator, Passes
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import Tensor, torch
from roarbench.estimators.papers import Paper

ZEILER = Paper("""@inproceedings{zeiler2014visualizing,
    title = {Visualizing and Understanding Convolutional Networks},
    author = {Matthew D. Zeiler and Rob Fergus},
    booktitle = {European Conference on Computer Vision}, year = {2014}, eprint = {1311.2901}}""")


def number_squares(images: Tensor, patches: int) -> Tensor:
    """Return for each pixel the number of its square, int64 (h, w): row by row, `patches` of them along a side.

    Where a side is shorter than that, each pixel is a square of its own.
    """
    h, w = images.shape[-2:]
    down, across = (torch.arange(side, device=images.device) * min(patches, side) // side for side in (h, w))
    return down[:, None] * min(patches, w) + across


def count_squares(images: Tensor, patches: int) -> int:
    """Return how many squares `squares` numbers."""
    h, w = images.shape[-2:]
    return min(patches, h) * min(patches, w)


def occlusion(inputs: MapInput) -> Tensor:
    """Return the mean fall of the logit under each sliding square that holds a pixel (Zeiler & Fergus 2014).

    A square is two patches wide and moves by one patch, so that most pixels lie under four of them. Those at the far
    edges may be cut off.
    """
    down, across = (_spans(side, inputs) for side in inputs.images.shape[-2:])
    gone = [rows[:, None] & columns for columns, rows in product(across, down)]
    return sum(_falls(inputs, gone), inputs.images.new_zeros(())) / torch.stack(gone).sum(0)


def _spans(side: int, inputs: MapInput) -> list[Tensor]:
    """Return which pixels the squares hold along a side, bool (side,) for each."""
    patches = min(inputs.estimator.whole("patches"), *inputs.images.shape[-2:])
    width, stride, pixels = max(1, 2 * side // patches), max(1, side // patches), torch.arange(side)
    starts = range(0, max(1, side - width + stride), stride)
    return [((pixels >= start) & (pixels < start + width)).to(inputs.images.device) for start in starts]


def _falls(inputs: MapInput, gone: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield by how much the logit falls where these pixels, bool (h, w), are the baseline: (n, 1, h, w), else 0."""
    whole, baseline = inputs.logit(inputs.images), inputs.baseline
    for pixels in gone:
        without = torch.where(pixels, baseline, inputs.images).contiguous(memory_format=torch.channels_last)
        yield (whole - inputs.logit(without))[:, :, None, None] * pixels


def feature_ablation(inputs: MapInput) -> Tensor:
    """Return the fall of the logit where one square of the grid is the baseline."""
    images, patches = inputs.images, inputs.estimator.whole("patches")
    numbers = number_squares(images, patches)
    gone = (numbers == square for square in range(count_squares(images, patches)))
    return sum(_falls(inputs, gone), images.new_zeros(()))


ESTIMATORS = (
    Estimator("occlusion", title="Occlusion",
        about="fall of the logit when a sliding square becomes the mean colour", maps=occlusion,
        parameters={"baseline": "mean", "patches": 8},
        cost=lambda row, features: Passes(1 + (row.whole("patches") - 1) ** 2, 0), papers=(ZEILER,), neighbours=True),
    Estimator("feature-ablation", title="Feature Ablation",
        about="fall of the logit when one square of a grid becomes the mean", maps=feature_ablation,
        parameters={"baseline": "mean", "patches": 8},
        cost=lambda row, features: Passes(1 + row.whole("patches") ** 2, 0), papers=(ZEILER,), neighbours=True),
)  # fmt: skip

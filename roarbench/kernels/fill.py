"""What replaces removed features: the training mean, or what is made from what is left of an image, or drawn.

All fills but the mean are rounded to whole numbers in [0, 255], so that images with them are kept as images are.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from roarbench.enums import Unit
from roarbench.estimators.baselines import blur
from roarbench.estimators.noise import draw_fill_noise
from roarbench.kernels.degrade import degrade

_ROAD_NOISE = 2.55  # standard deviation; 0.01 of images in [0, 1] in the code of Rong et al. 2022
_AROUND = ((1 / 12, 1 / 6, 1 / 12), (1 / 6, 0.0, 1 / 6), (1 / 12, 1 / 6, 1 / 12))  # weights of neighbours, as there
_RESIDUAL = 3e-3  # of a brightness; what is left of each equation of the linear system
_ITERATIONS = 2000


def replace_features(images: Tensor, removed: Tensor, fill: str, mean: Tensor, ids: Tensor) -> Tensor:
    """Replace the removed features of images by any fill, float32 (n, c, h, w); arguments as for `fill_features`."""
    return degrade(images, removed, mean) if fill == "mean" else fill_features(images, removed, fill, mean, ids).float()


def fill_features(images: Tensor, removed: Tensor, fill: str, mean: Tensor, ids: Tensor) -> Tensor:
    """Replace the removed features of images by a fill other than the training mean.

    Args:
        images: uint8 (n, c, h, w); left as they are.
        removed: bool (n, c, h, w), or (n, 1, h, w) for all channels of a pixel; True where a feature is replaced.
        fill: Of `FILLS`, but for `mean`: `zero`, black; `blur`, the image after the Gaussian of the blurred twins;
            `noise`, uniform numbers in 0 … 255; `linear`, the noisy linear interpolation of ROAD; `neighbours`, the
            mean of those that are left next to it, and of those that were filled before it further inside.
        mean: float32 (c,), the training mean, for channels of which nothing is left.
        ids: int64 (n,), the images' numbers, which their chance belongs to.

    Returns:
        uint8 (n, c, h, w), a new tensor; kept values are exact.
    """
    gone = removed.expand(images.shape)
    values = _FILLS[fill](images.float(), gone, mean[:, None, None].expand(images.shape[1:]), ids)
    return torch.where(gone, values.round().clamp(0, 255).to(torch.uint8), images)


def _neighbours(images: Tensor, gone: Tensor, mean: Tensor, ids: Tensor) -> Tensor:
    known, values = (~gone).float(), images * ~gone
    known, values = known.flatten(0, 1)[:, None], values.flatten(0, 1)[:, None]  # channels are filled by themselves
    around = torch.ones(1, 1, 3, 3, device=images.device)
    while bool(((known == 0) & (nearby := F.conv2d(known, around, padding=1)).gt(0)).any()):
        layer = (known == 0) & (nearby > 0)
        values = torch.where(layer, F.conv2d(values, around, padding=1) / nearby.clamp(min=1), values)
        known = known.maximum(layer.float())
    return torch.where(known.view(images.shape) > 0, values.view(images.shape), mean)


def _linear(images: Tensor, gone: Tensor, mean: Tensor, ids: Tensor) -> Tensor:
    drawn = draw_fill_noise(images, ids, normal=True)
    return interpolate(images, gone, mean) + _ROAD_NOISE * drawn


def interpolate(images: Tensor, gone: Tensor, mean: Tensor) -> Tensor:
    """Return each removed number as the weighted mean of its up to eight neighbours, removed ones among them.

    That is the linear system of ROAD (Rong et al., ICML 2022): a direct neighbour weighs 1/6, a diagonal one 1/12, and
    beyond the border there are none. It is symmetric and positive definite where anything is left of a channel, so
    conjugate gradients solve it for all images at once, without a matrix.

    Images are float32 (n, c, h, w), and so is the outcome, which says nothing where nothing is removed; `gone`, bool of
    that shape, is True where a number is removed; `mean`, (c, h, w), serves channels of which nothing is left.
    """
    known, unknown = (part.flatten(0, 1)[:, None].float() for part in (~gone, gone))
    kernel = torch.tensor(_AROUND, device=images.device)[None, None]

    def around(values: Tensor) -> Tensor:
        return F.conv2d(values, kernel, padding=1)

    given = images.flatten(0, 1)[:, None] * known
    weights = around(torch.ones_like(given[:1]))
    found = _solve(_coarse_to_fine(given, known) * unknown, around(given), around, weights, unknown)
    nothing = (known.sum((2, 3), keepdim=True) == 0).view(*images.shape[:2], 1, 1)
    return torch.where(nothing, mean, found.view(images.shape))


def _solve(
    found: Tensor, given: Tensor, around: Callable[[Tensor], Tensor], weights: Tensor, unknown: Tensor
) -> Tensor:
    """Solve (weights - around) x = given on what is unknown by conjugate gradients, beginning at `found`.

    Each image stops by itself: its solution does not depend on the others, and they do not wait for it.
    """
    solved, going = torch.empty_like(found), torch.arange(len(found), device=found.device)
    left = (given - weights * found + around(found)) * unknown
    step = scaled = left / weights
    product = (left * scaled).sum((2, 3), keepdim=True)
    for _ in range(_ITERATIONS):
        if bool((stops := left.abs().amax((1, 2, 3)) <= _RESIDUAL).any()):
            solved[going[stops]] = found[stops]
            kept = (each[~stops] for each in (going, found, left, step, product, unknown))
            going, found, left, step, product, unknown = kept
        if not len(going):
            break
        image = (weights * step - around(step)) * unknown
        length = product / (step * image).sum((2, 3), keepdim=True).clamp(min=1e-30)
        found, left = found + length * step, left - length * image
        scaled = left / weights
        before, product = product, (left * scaled).sum((2, 3), keepdim=True)
        step = scaled + product / before.clamp(min=1e-30) * step
    solved[going] = found
    return solved


def _coarse_to_fine(given: Tensor, known: Tensor) -> Tensor:
    """Return a first guess at removed numbers, (n, 1, h, w): means of what is left in squares as small as have any."""
    if max(given.shape[2:]) == 1:
        return given
    sums, counts = (F.avg_pool2d(values, 2, ceil_mode=True) for values in (given, known))
    coarse = _coarse_to_fine(sums / counts.clamp(min=1e-9), (counts > 0).float())
    return torch.where(known > 0, given, F.interpolate(coarse, given.shape[2:], mode="bilinear"))


_Fill = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_FILLS: dict[str, _Fill] = {
    "zero": lambda images, gone, mean, ids: torch.zeros_like(images),
    "blur": lambda images, gone, mean, ids: blur(images),
    "noise": lambda images, gone, mean, ids: draw_fill_noise(images, ids, normal=False),
    "linear": _linear,
    "neighbours": _neighbours,
}


def compute_removal_magnitude(images: Tensor, replaced: Tensor, unit: Unit) -> list[NDArray[np.uint8]]:
    """Return how much removal changes each feature, |x - fill|, and the same after the blur of all twins, uint8 (n, d).

    The first alone where images, uint8 (n, c, h, w), are rows of a table, which have no neighbours. `replace_features`,
    float32 in [0, 255], has every feature removed. The number of a pixel is the mean of its channels.
    """
    change = (images.float() - replaced).abs()
    made = [change, blur(change)] if images.shape[2] > 1 else [change]
    if unit is not Unit.SCALAR:
        made = [each.mean(1, keepdim=True) for each in made]
    return [each.flatten(1).round().to(torch.uint8).numpy() for each in made]

"""Degrade images: replace removed features by fill values, and measure how much the removal changes each feature.

All fill values except the mean are rounded to whole numbers in [0, 255], so that filled images can be stored as uint8.
"""

from collections.abc import Callable
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from roarbench.common.device_settings import send_to_device, use_exact_float32
from roarbench.common.enums import Unit
from roarbench.estimators.map_input import blur
from roarbench.estimators.random_draws import draw_fill_noise

_ROAD_NOISE = 2.55  # standard deviation: 0.01 for images in [0, 1] in the code of Rong et al. 2022
# weights of the eight neighbours, from the same code
_AROUND = ((1 / 12, 1 / 6, 1 / 12), (1 / 6, 0.0, 1 / 6), (1 / 12, 1 / 6, 1 / 12))
_RESIDUAL = 3e-3  # maximum residual of each equation of the linear system, in brightness steps
_ITERATIONS = 2000


def degrade(images: Tensor, removed: Tensor, fill: Tensor) -> Tensor:
    """Replace removed features by the fill value, as a new float32 tensor (n, c, h, w); the other values stay exact.

    Args:
        images: (n, c, h, w), values in [0, 255]; uint8 is fastest.
        removed: bool (n, c, h, w), or (n, 1, h, w) for all channels of a pixel; True where a feature is removed.
        fill: float32 (c,), the fill value of each channel, in [0, 255].
    """
    bits = removed.view(torch.uint8)
    # the sum is exact, because one of its terms is 0; on a CPU the sum is ten times as fast as torch.where
    return (images * (1 - bits)).float().addcmul_(bits.float(), fill[:, None, None])


def unpack_removal_masks(packed: Tensor, shape: tuple[int, int, int], unit: Unit) -> Tensor:
    """Unpack removal masks, uint8 (n, ceil(d / 8)), most significant bit first, to bool tensors; True where removed.

    `shape` is (c, h, w). The tensors are (n, c, h, w) for scalar features and (n, 1, h, w) for pixels.
    """
    grid = unit.grid(shape)
    d = prod(grid)
    if packed.is_cuda:
        shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
        bits = ((packed[:, :, None] >> shifts) & 1).flatten(1)[:, :d].contiguous()
    else:
        # on a CPU, unpackbits is ten times as fast as shifts
        bits = torch.from_numpy(np.unpackbits(packed.numpy(), axis=1, count=d))
    return bits.view(torch.bool).view(len(packed), *grid)


def take_rows(data: Tensor, index: Tensor) -> Tensor:
    """Return rows by index, on the data's device; for uint8, `index_select` is 20 times as fast as `data[index]`."""
    return data.index_select(0, send_to_device(index, data.device))


def replace_features(images: Tensor, removed: Tensor, fill: str, mean: Tensor, ids: Tensor) -> Tensor:
    """Replace removed features with any fill, as float32 (n, c, h, w); arguments as in `apply_non_mean_fill`."""
    if fill == "mean":
        return degrade(images, removed, mean)
    return apply_non_mean_fill(images, removed, fill, mean, ids).float()


def apply_non_mean_fill(images: Tensor, removed: Tensor, fill: str, mean: Tensor, ids: Tensor) -> Tensor:
    """Replace removed features with a fill other than the training mean, in exact float32 on every device.

    Args:
        images: uint8 (n, c, h, w), not changed.
        removed: bool (n, c, h, w), or (n, 1, h, w) for all channels of a pixel; True where a feature is removed.
        fill: One of `FILLS` except `mean`: `zero`, black; `blur`, the Gaussian blur of the image; `noise`, uniform
            integers in 0 … 255; `linear`, ROAD's noisy linear interpolation; `neighbours`, the mean of adjacent values
            that are kept or were filled before, from the edge of the removed region inwards.
        mean: float32 (c,), the training mean, used for channels without kept features.
        ids: int64 (n,), the images' indices in the data set, which seed the noise.

    Returns:
        uint8 (n, c, h, w), a new tensor; kept values are exact.
    """
    removed = removed.expand(images.shape)
    with use_exact_float32():  # TF32, cuDNN's default, would round brightness to eighths
        values = _FILLS[fill](images.float(), removed, mean[:, None, None].expand(images.shape[1:]), ids)
    return torch.where(removed, values.round().clamp(0, 255).to(torch.uint8), images)


def _fill_inwards_by_neighbour_mean(images: Tensor, removed: Tensor, mean: Tensor) -> Tensor:
    known, values = (~removed).float(), images * ~removed
    known, values = known.flatten(0, 1)[:, None], values.flatten(0, 1)[:, None]  # each channel is filled independently
    window = torch.ones(1, 1, 3, 3, device=images.device)
    while bool(((known == 0) & (nearby := F.conv2d(known, window, padding=1)).gt(0)).any()):
        layer = (known == 0) & (nearby > 0)
        values = torch.where(layer, F.conv2d(values, window, padding=1) / nearby.clamp(min=1), values)
        known = known.maximum(layer.float())
    return torch.where(known.view(images.shape) > 0, values.view(images.shape), mean)


def compute_interpolated_fill(images: Tensor, removed: Tensor, mean: Tensor) -> Tensor:
    """Interpolate each removed value as the weighted mean of its up to eight neighbours (ROAD, Rong et al., ICML 2022).

    Direct neighbours have weight 1/6, diagonal neighbours 1/12. Removed neighbours are unknown too, so the values solve
    a linear system, which is symmetric, and positive definite if a channel has a kept value. Conjugate gradients solve
    the systems of all images at once.

    `images` is float32 and `removed` bool, both (n, c, h, w); `mean`, (c, h, w), is for channels without kept values.
    In the result, float32 (n, c, h, w), only the removed positions are meaningful.
    """
    known, unknown = (part.flatten(0, 1)[:, None].float() for part in (~removed, removed))
    kernel = torch.tensor(_AROUND, device=images.device)[None, None]

    # each image is a group of the convolution, because the same sums then take a third of the time on a CPU
    def sum_neighbours(values: Tensor) -> Tensor:
        n = len(values)
        return F.conv2d(values.transpose(0, 1), kernel.expand(n, -1, -1, -1), padding=1, groups=n).transpose(0, 1)

    kept = images.flatten(0, 1)[:, None] * known
    weights = sum_neighbours(torch.ones_like(kept[:1]))
    start = _estimate_coarse_to_fine(kept, known) * unknown
    interpolated = _solve_by_conjugate_gradients(start, sum_neighbours(kept), sum_neighbours, weights, unknown)
    all_removed = (known.sum((2, 3), keepdim=True) == 0).view(*images.shape[:2], 1, 1)
    return torch.where(all_removed, mean, interpolated.view(images.shape))


def _solve_by_conjugate_gradients(
    start: Tensor, right_side: Tensor, sum_neighbours: Callable[[Tensor], Tensor], weights: Tensor, unknown: Tensor
) -> Tensor:
    """Solve `weights * x - sum_neighbours(x) = right_side` at the unknown positions of each image."""
    values, solved = start, torch.empty_like(start)
    unsolved = torch.arange(len(values), device=values.device)
    residual = (right_side - weights * values + sum_neighbours(values)) * unknown
    step = scaled = residual / weights
    product = (residual * scaled).sum((2, 3), keepdim=True)
    for _ in range(_ITERATIONS):
        if bool((stops := residual.abs().amax((1, 2, 3)) <= _RESIDUAL).any()):
            solved[unsolved[stops]] = values[stops]
            remaining = (tensor[~stops] for tensor in (unsolved, values, residual, step, product, unknown))
            unsolved, values, residual, step, product, unknown = remaining
        if not len(unsolved):
            break
        image = (weights * step - sum_neighbours(step)) * unknown
        length = product / (step * image).sum((2, 3), keepdim=True).clamp(min=1e-30)
        values, residual = values + length * step, residual - length * image
        scaled = residual / weights
        before, product = product, (residual * scaled).sum((2, 3), keepdim=True)
        step = scaled + product / before.clamp(min=1e-30) * step
    solved[unsolved] = values
    return solved


def _estimate_coarse_to_fine(values: Tensor, known: Tensor) -> Tensor:
    """Estimate removed values, (n, 1, h, w), from the mean of the smallest square around them that has a kept value."""
    if max(values.shape[2:]) == 1:
        return values
    sums, counts = (F.avg_pool2d(part, 2, ceil_mode=True) for part in (values, known))
    coarse = _estimate_coarse_to_fine(sums / counts.clamp(min=1e-9), (counts > 0).float())
    return torch.where(known > 0, values, F.interpolate(coarse, values.shape[2:], mode="bilinear"))


_Fill = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_FILLS: dict[str, _Fill] = {
    "zero": lambda images, removed, mean, ids: torch.zeros_like(images),
    "blur": lambda images, removed, mean, ids: blur(images),
    "noise": lambda images, removed, mean, ids: draw_fill_noise(images, ids, normal=False),
    "linear": lambda images, removed, mean, ids: (
        compute_interpolated_fill(images, removed, mean) + _ROAD_NOISE * draw_fill_noise(images, ids, normal=True)
    ),
    "neighbours": lambda images, removed, mean, ids: _fill_inwards_by_neighbour_mean(images, removed, mean),
}


def compute_removal_magnitudes(images: Tensor, fully_removed: Tensor, unit: Unit) -> list[NDArray[np.uint8]]:
    """Return how much removal changes each feature, |x - fill|, and a blurred copy, both as uint8 (n, d).

    The blur is that of the twin `blurred`. The columns of a table have no neighbours, so for tables the list has no
    blurred copy. `images` is uint8 (n, c, h, w), and `fully_removed`, float32 in [0, 255], holds the images with every
    feature removed. The magnitude of a pixel is the mean over its channels.
    """
    change = (images.float() - fully_removed).abs()
    magnitudes = [change, blur(change)] if images.shape[2] > 1 else [change]
    if unit is not Unit.SCALAR:
        magnitudes = [magnitude.mean(1, keepdim=True) for magnitude in magnitudes]
    return [magnitude.flatten(1).round().to(torch.uint8).numpy() for magnitude in magnitudes]

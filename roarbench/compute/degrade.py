"""Degraded images, whose removed features are replaced by fill values when the images are read.

Each class in this module is a set of images with a length and a method `batch`, which training and scoring call.

All fill values except the mean are rounded to whole numbers in [0, 255], so that filled images can be stored as uint8.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from roarbench.common.device_settings import send_to_device
from roarbench.common.enums import Unit
from roarbench.common.process_settings import use_exact_float32
from roarbench.estimators.map_input import blur
from roarbench.estimators.noise_and_random_draws import draw_fill_noise

_ROAD_NOISE = 2.55  # standard deviation: 0.01 for images in [0, 1] in the code of Rong et al. 2022
# weights of the eight neighbours, from the same code
_AROUND = ((1 / 12, 1 / 6, 1 / 12), (1 / 6, 0.0, 1 / 6), (1 / 12, 1 / 6, 1 / 12))
_RESIDUAL = 3e-3  # maximum residual of each equation of the linear system, in brightness steps
_ITERATIONS = 2000


def degrade(images: Tensor, removed: Tensor, fill: Tensor) -> Tensor:
    """Replace removed features by the fill value; the result is a new float32 (n, c, h, w) with exact kept values.

    Args:
        images: (n, c, h, w), values in [0, 255]; uint8 is fastest.
        removed: bool (n, c, h, w), or (n, 1, h, w) for all channels of a pixel; True where a feature is removed.
        fill: float32 (c,), the fill value of each channel, in [0, 255].
    """
    bits = removed.view(torch.uint8)
    # the sum is exact, because one of its terms is 0; on a CPU the sum is ten times as fast as torch.where
    return (images * (1 - bits)).float().addcmul_(bits.float(), fill[:, None, None])


def unpack_removal_masks(packed: Tensor, shape: tuple[int, int, int], unit: Unit) -> Tensor:
    """Unpack removed bits, uint8 (n, ceil(d / 8)), most significant bit first, to bool arrays; True where removed.

    `shape` is (c, h, w). The arrays are (n, c, h, w) for scalars and (n, 1, h, w) for pixels.
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


@dataclass(frozen=True)
class DegradedImages:
    """Images with a fixed removal mask each, so that every reading removes the same features."""

    pixels: Tensor  # uint8 (n, c, h, w)
    removed: Tensor | None  # uint8 (n, ceil(d / 8)), packed as `find_removed_bits` does; None removes nothing
    fill: Tensor  # float32 (c,), fill value of each channel, in [0, 255]
    unit: Unit

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width of an image."""
        _, channels, height, width = self.pixels.shape
        return channels, height, width

    def batch(self, index: Tensor) -> Tensor:
        """Return degraded images, float32 (b, c, h, w) in [0, 255], for int64 indices (b,)."""
        images = take_rows(self.pixels, index)
        if self.removed is None:
            return images.float()
        return degrade(images, unpack_removal_masks(take_rows(self.removed, index), self.shape, self.unit), self.fill)


@dataclass(frozen=True)
class RemovalMasks:
    """Removal masks as images; a network's accuracy on them shows how much the masks reveal of the class."""

    shape: tuple[int, int, int]  # channels, height and width of an image
    removed: Tensor  # uint8 (n, ceil(d / 8)), packed
    unit: Unit  # unit of a feature; a pixel's bit is repeated over its channels

    def __len__(self) -> int:
        return len(self.removed)

    def batch(self, index: Tensor) -> Tensor:
        """Return masks, float32 (b, c, h, w), 1 where removed and 0 elsewhere, for int64 indices (b,)."""
        removed = unpack_removal_masks(take_rows(self.removed, index), self.shape, self.unit)
        return removed.view(torch.uint8).float().expand(-1, *self.shape).contiguous()


@dataclass(frozen=True)
class RandomlyDegradedImages:
    """Images with a random removal mask each, redrawn at every reading, as in the code of Hooker et al. 2019.

    The network sees every pixel in some epoch, which raises the accuracy of Random; the control `random-redrawn`
    measures by how much.
    """

    pixels: Tensor  # uint8 (n, c, h, w)
    t: float  # probability of removal, independent for each feature
    fill: Tensor  # float32 (c,), fill value of each channel, in [0, 255]
    unit: Unit
    generator: torch.Generator  # generator on the CPU, whose numbers are the same on all machines

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, index: Tensor) -> Tensor:
        """Return newly degraded images, float32 (b, c, h, w) in [0, 255], for int64 indices (b,)."""
        return self.apply_new_masks(take_rows(self.pixels, index), index)

    def apply_new_masks(self, images: Tensor, index: Tensor) -> Tensor:
        """Degrade pixels (b, c, h, w) that have been read already; the result is the same as that of `batch`."""
        count, channels, height, width = images.shape
        shape = channels, height, width
        drawn = torch.rand((count, *self.unit.grid(shape)), generator=self.generator) < self.t
        return degrade(images, send_to_device(drawn, images.device), self.fill)


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


def interpolate_removed_values(images: Tensor, removed: Tensor, mean: Tensor) -> Tensor:
    """Interpolate each removed value as the weighted mean of its up to eight neighbours (ROAD, Rong et al., ICML 2022).

    Direct neighbours have weight 1/6, diagonal neighbours 1/12. Removed neighbours are unknown too, so the values solve
    a linear system, which is symmetric, and positive definite if a channel has a kept value. Conjugate gradients solve
    the systems of all images at once.

    `images` is float32 and `removed` bool, both (n, c, h, w); `mean`, (c, h, w), is for channels without kept values.
    In the result, float32 (n, c, h, w), only the removed positions are meaningful.
    """
    known, unknown = (part.flatten(0, 1)[:, None].float() for part in (~removed, removed))
    kernel = torch.tensor(_AROUND, device=images.device)[None, None]

    # with each image as a group of the convolution, the same sums take a third of the time on a CPU
    def sum_neighbours(values: Tensor) -> Tensor:
        n = len(values)
        return F.conv2d(values.transpose(0, 1), kernel.expand(n, -1, -1, -1), padding=1, groups=n).transpose(0, 1)

    kept = images.flatten(0, 1)[:, None] * known
    weights = sum_neighbours(torch.ones_like(kept[:1]))
    interpolated = _solve_by_conjugate_gradients(
        _estimate_coarse_to_fine(kept, known) * unknown, sum_neighbours(kept), sum_neighbours, weights, unknown
    )
    nothing = (known.sum((2, 3), keepdim=True) == 0).view(*images.shape[:2], 1, 1)
    return torch.where(nothing, mean, interpolated.view(images.shape))


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
        interpolate_removed_values(images, removed, mean) + _ROAD_NOISE * draw_fill_noise(images, ids, normal=True)
    ),
    "neighbours": lambda images, removed, mean, ids: _fill_inwards_by_neighbour_mean(images, removed, mean),
}


def compute_removal_magnitudes(images: Tensor, fully_removed: Tensor, unit: Unit) -> list[NDArray[np.uint8]]:
    """Return two arrays, uint8 (n, d): how much removal changes each feature, |x - fill|, and a blurred copy.

    The blur is that of the twin `blurred`. Rows of a table have no neighbours, so for them the list has only the first
    array. `images` is uint8 (n, c, h, w), and `fully_removed`, float32 in [0, 255], has every feature removed. The
    magnitude of a pixel is the mean over its channels.
    """
    change = (images.float() - fully_removed).abs()
    magnitudes = [change, blur(change)] if images.shape[2] > 1 else [change]
    if unit is not Unit.SCALAR:
        magnitudes = [magnitude.mean(1, keepdim=True) for magnitude in magnitudes]
    return [magnitude.flatten(1).round().to(torch.uint8).numpy() for magnitude in magnitudes]

"""Declare the fills: the values that replace removed features. A fill is one function with its declaration.

torch is imported at first use, because every start of the program reads the names of the fills.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roarbench.estimators.estimator import blur
from roarbench.estimators.lazy_torch import F, Tensor, random_draws, torch

_ROAD_NOISE = 2.55  # standard deviation: 0.01 for images in [0, 1] in the code of Rong et al. 2022
# weights of the eight neighbours, from the same code
_AROUND = ((1 / 12, 1 / 6, 1 / 12), (1 / 6, 0.0, 1 / 6), (1 / 12, 1 / 6, 1 / 12))
_RESIDUAL = 3e-3  # maximum residual of each equation of the linear system, in brightness steps
_ITERATIONS = 2000


@dataclass(frozen=True, kw_only=True)
class Fill:
    """A fill.

    `compute` takes float32 images (n, c, h, w), the removed features as a bool tensor of the same shape, the training
    mean (c, h, w) and the images' numbers in the data set, int64 (n,), which seed random numbers. Of its values,
    float32 (n, c, h, w), only those of removed features count; they are rounded to whole numbers in [0, 255].
    """

    name: str  # in records and for `--fill`; never changes
    compute: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    uses_other_pixels: bool  # tables, whose rows are single pixels, do not have such fills
    # whether the values depend on the other removed features; then they are too slow for masks that change every epoch
    uses_removed: bool = False
    word: str = ""  # word of users, the name of the same baseline; the name itself if empty


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


_TABLE = (
    # `degrade` fills with the exact mean, which need not be a whole number
    Fill(name="mean", compute=lambda images, removed, mean, ids: mean.expand_as(images), uses_other_pixels=False),
    Fill(name="zero", compute=lambda images, removed, mean, ids: torch.zeros_like(images), uses_other_pixels=False,
        word="black"),
    Fill(name="blur", compute=lambda images, removed, mean, ids: blur(images), uses_other_pixels=True),
    Fill(name="noise", uses_other_pixels=False,  # uniform integers in 0 … 255
        compute=lambda images, removed, mean, ids: random_draws.draw_fill_noise(images, ids, normal=False)),
    Fill(name="linear", uses_other_pixels=True, uses_removed=True,  # ROAD's noisy linear interpolation
        compute=lambda images, removed, mean, ids: (
            compute_interpolated_fill(images, removed, mean)
            + _ROAD_NOISE * random_draws.draw_fill_noise(images, ids, normal=True))),
    # the mean of adjacent values that are kept or filled already, from the edge inwards
    Fill(name="neighbours", uses_other_pixels=True, uses_removed=True,
        compute=lambda images, removed, mean, ids: _fill_inwards_by_neighbour_mean(images, removed, mean)),
)  # fmt: skip
FILLS = {fill.name: fill for fill in _TABLE}
PLAIN_FILLS = tuple(fill.name for fill in FILLS.values() if not fill.uses_removed)
TABULAR_FILLS = tuple(fill.name for fill in FILLS.values() if not fill.uses_other_pixels)
FILL_WORDS = {fill.word: fill.name for fill in FILLS.values() if fill.word}

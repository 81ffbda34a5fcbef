"""Augment degraded training images; every image has its own random numbers.

All random numbers come from a generator on the CPU, even if the images are on a GPU, so a seed gives the same numbers
on every machine.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate

from roarbench.common.device_settings import send_to_device
from roarbench.compute.recipe import Augmentation
from roarbench.datasets import planted_images

# range of a random-resized crop's area as a share of the image (Szegedy et al. 2015; protocol section 5)
AREA = (0.08, 1.0)
ASPECT = (3 / 4, 4 / 3)  # range of the crop's width / height, which is log-uniform
NOISE = 90.0  # largest standard deviation, in [0, 255]: twice that of SmoothGrad's noisy copies
CLASSES = 10  # classes of `planted-corners`
SHIFT = 16  # the largest shift is the side of the image divided by this number: 4 of 64 pixels
Draws = tuple[Tensor, ...]  # random numbers for the images of a batch; the last tensor marks mirrored images


class _Step(NamedTuple):
    """A part of an augmentation."""

    draw: Callable[[tuple[int, ...], torch.Generator], Tensor]  # random numbers for images of a shape, (n, c, h, w)
    apply: Callable[[Tensor, Tensor], Tensor]  # changes images by the random numbers


def augment(images: Tensor, kind: Augmentation, generator: torch.Generator) -> Tensor:
    """Augment images (n, c, h, w) in [0, 255]; the result stays on their device, and `generator` is on the CPU."""
    drawn = draw_augmentation(tuple(images.shape), kind, generator)
    on_device = [send_to_device(draw, images.device) for draw in drawn]
    for step, draw in zip(_STEPS[kind], on_device, strict=True):
        images = step.apply(images, draw)
    return images


def draw_augmentation(shape: tuple[int, ...], kind: Augmentation, generator: torch.Generator) -> Draws:
    """Draw the random numbers that `augment` uses for images of this shape, (n, c, h, w), on the CPU."""
    return tuple(step.draw(shape, generator) for step in _STEPS[kind])


def shrink_images(images: Tensor, side: int) -> Tensor:
    """Average square images (n, c, h, h) down to (n, c, side, side); a pixel that a mean covers partly counts fully."""
    if side == images.shape[3]:
        return images
    step = math.gcd(side, images.shape[3])
    # if k + 1 pixels per side become k, each new pixel is the mean of 2 x 2 pixels. Adding whole arrays is 2.6 times as
    # fast as `interpolate`, which adds pixel by pixel, and equal bit for bit
    if images.device.type == "cpu" and images.shape[3] - side == step:
        n, channels, full, _ = images.shape
        per_group = full // step - 1  # one of `step` groups has `per_group` + 1 rows or columns and gives `per_group`
        parts = images.reshape(n, channels, step, per_group + 1, step, per_group + 1)
        first, second = slice(0, per_group), slice(1, per_group + 1)
        total = parts[:, :, :, first, :, first] + parts[:, :, :, first, :, second]
        total += parts[:, :, :, second, :, first]
        total += parts[:, :, :, second, :, second]
        return total.reshape(n, channels, side, side).div_(4)
    return interpolate(images, size=(side, side), mode="area")


def flip_images(images: Tensor, mirrored: Tensor) -> Tensor:
    """Mirror images (n, c, h, w) left to right where `mirrored`, bool (n,), is True."""
    return torch.where(mirrored[:, None, None, None], images.flip(3), images)


def draw_noise_of_random_strength(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw normal noise of this shape, not clipped; each image's standard deviation is uniform in [0, `NOISE`]."""
    strength = NOISE * torch.rand(shape[0], 1, 1, 1, generator=generator)
    return strength * torch.randn(shape, generator=generator)


def draw_flips(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw which images of a shape are mirrored, each with probability 1/2, as bool (n,)."""
    return torch.rand(shape[0], generator=generator) < 0.5


def find_largest_shift(height: int) -> int:
    """Return the largest shift in pixels for images of this height: height / 16, at least 1."""
    return max(1, height // SHIFT)


def shift_images(images: Tensor, shifts: Tensor) -> Tensor:
    """Shift each image (n, c, h, w) by its own whole number of pixels; reflection at the edge fills the gaps.

    `shifts`, int64 (2, n, 1), holds each image's shift down and its shift to the right, in pixels, smaller than the
    height and the width.
    """
    (n, channels, height, width), device = images.shape, images.device
    down, right = shifts
    rows = _reflect_positions(torch.arange(height, device=device) + down, height)  # source row of each row, (n, h)
    columns = _reflect_positions(torch.arange(width, device=device) + right, width)
    source_rows = (torch.arange(n * channels, device=device) * height).view(n, channels, 1) + rows[:, None]
    moved = images.reshape(-1, width).index_select(0, source_rows.flatten()).view(n, channels * height, width)
    return moved.gather(2, columns[:, None].expand(moved.shape)).view(images.shape)


def draw_shifts(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw the shifts of images of a shape down and to the right, at most the largest shift, int64 (2, n, 1)."""
    largest = find_largest_shift(shape[2])
    return torch.randint(-largest, largest + 1, (2, shape[0], 1), generator=generator)


def _reflect_positions(positions: Tensor, side: int) -> Tensor:
    """Reflect positions outside 0 … side - 1 at the outermost pixel."""
    inside = positions.abs()
    return torch.where(inside < side, inside, 2 * (side - 1) - inside)


def crop_and_resize_images(images: Tensor, crops: Tensor) -> Tensor:
    """Stretch a crop of each image (n, c, h, w) to the full size with bicubic interpolation.

    The crops come from `draw_crops` and may start between pixels. Values may slightly exceed the pixel range;
    like the code of the ROAR paper's authors, this function does not clip them.
    """
    grid = affine_grid(crops, list(images.shape), align_corners=False)
    return grid_sample(images, grid, mode="bicubic", padding_mode="reflection", align_corners=False)


def draw_crops(n: int, image_aspect: float, generator: torch.Generator) -> Tensor:
    """Draw a crop of each of n images as an affine map, float32 (n, 2, 3); `image_aspect` is width / height.

    The diagonal of an affine map holds the width and height of the crop relative to the image, in (0, 1]; the last
    column holds the centre, in [-1, 1], x before y. The area and the position are uniform, and the aspect ratio is
    log-uniform. A crop that is wider or higher than the image is cut to the image's width or height (torchvision would
    draw another crop).
    """
    area, aspect, *position = torch.rand(4, n, generator=generator)
    area = AREA[0] + (AREA[1] - AREA[0]) * area
    low, high = math.log(ASPECT[0]), math.log(ASPECT[1])
    aspect = torch.exp(low + (high - low) * aspect) / image_aspect
    sizes = torch.stack([(area * aspect).sqrt(), (area / aspect).sqrt()], dim=1).clamp(max=1)
    centres = (1 - sizes) * (2 * torch.stack(position, dim=1) - 1)
    return torch.cat([torch.diag_embed(sizes), centres[:, :, None]], dim=2)


def draw_classes_for_other_corners(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw a class for each corner of n images, int64 (n, 4); the network's corner, which the seed fixes, gets -1."""
    drawn = torch.randint(CLASSES, (shape[0], planted_images.CORNERS), generator=generator)
    drawn[:, planted_images.find_corner_of_network(generator.initial_seed())] = -1
    return drawn


def stamp_corners(images: Tensor, classes: Tensor) -> Tensor:
    """Stamp the pattern of a class into each corner of images (n, 3, h, w) in [0, 255].

    `classes`, int64 (n, 4), holds a class for each corner; -1 leaves the corner unchanged.
    """
    stamped, size = images.clone(), images.shape[3]
    patterns = torch.from_numpy(planted_images.draw_corner_patterns(CLASSES, size)).float()
    patterns = send_to_device(patterns, images.device)
    for corner in range(planted_images.CORNERS):
        corner_classes, (rows, columns) = classes[:, corner], planted_images.locate_patch(corner, size)
        patches = patterns.index_select(0, corner_classes.clamp(min=0))
        is_stamped = (corner_classes >= 0)[:, None, None, None]
        stamped[:, :, rows, columns] = torch.where(is_stamped, patches, images[:, :, rows, columns])
    return stamped


_FLIP, _SHIFT = _Step(draw_flips, flip_images), _Step(draw_shifts, shift_images)
_CROP = _Step(lambda shape, generator: draw_crops(shape[0], shape[3] / shape[2], generator), crop_and_resize_images)
_STEPS = {
    Augmentation.NONE: (),
    Augmentation.FLIP: (_FLIP,),
    Augmentation.SHIFT: (_SHIFT,),
    Augmentation.SHIFT_FLIP: (_SHIFT, _FLIP),
    Augmentation.NOISE_FLIP: (_Step(draw_noise_of_random_strength, torch.add), _FLIP),
    Augmentation.CROP_FLIP: (_CROP, _FLIP),
    Augmentation.CORNERS: (_Step(draw_classes_for_other_corners, stamp_corners),),
}

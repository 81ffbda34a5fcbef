"""Augmentation of degraded training images, each image by its own draw.

The draws come from a generator on the CPU whatever the device of the images, so that a seed means the same anywhere.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate

from roarbench.compute.recipe import Augmentation
from roarbench.datasets import planted_corners
from roarbench.devices import send_to_device

AREA = (0.08, 1.0)  # share of the image that a random-resized crop covers (Szegedy et al. 2015; protocol section 5)
ASPECT = (3 / 4, 4 / 3)  # width to height of the crop, log-uniform
NOISE = 90.0  # largest standard deviation, in [0, 255]: twice that of the noisy copies which SmoothGrad explains
CLASSES = 10  # of `planted-corners`
SHIFT = 16  # a shift moves an image by up to 1/16 of its size: 4 of 64 pixels

Draws = tuple[Tensor, ...]  # what chance decides for the images of a batch; which are mirrored comes last


def augment(images: Tensor, kind: Augmentation, generator: torch.Generator) -> Tensor:
    """Return degraded images, float32 (n, c, h, w), as the network sees them in training, before they are normalised.

    They are on the same device; the generator, on the CPU, is the only source of chance.
    """
    drawn = [send_to_device(part, images.device) for part in draw_augmentation(tuple(images.shape), kind, generator)]
    match kind:
        case Augmentation.NONE:
            return images
        case Augmentation.FLIP:
            return flip_images(images, *drawn)
        case Augmentation.SHIFT | Augmentation.SHIFT_FLIP:
            return shift_images(images, *drawn)
        case Augmentation.NOISE_FLIP:
            return flip_images(images + drawn[0], drawn[1])
        case Augmentation.CROP_FLIP:
            return flip_images(crop_images(images, drawn[0]), drawn[1])
        case Augmentation.CORNERS:
            return stamp_corners(images, *drawn)


def draw_augmentation(shape: tuple[int, ...], kind: Augmentation, generator: torch.Generator) -> Draws:
    """Draw all that `augment` leaves to chance, for images of this shape, (n, c, h, w), on the processor."""
    n, _, height, width = shape
    match kind:
        case Augmentation.NONE:
            return ()
        case Augmentation.FLIP:
            return (draw_mirrored(n, generator),)
        case Augmentation.SHIFT:
            return (draw_shifts(n, find_largest_shift(height), generator),)
        case Augmentation.SHIFT_FLIP:
            return draw_shifts(n, find_largest_shift(height), generator), draw_mirrored(n, generator)
        case Augmentation.NOISE_FLIP:
            return draw_noise(shape, generator), draw_mirrored(n, generator)
        case Augmentation.CROP_FLIP:
            return draw_crops(n, width / height, generator), draw_mirrored(n, generator)
        case Augmentation.CORNERS:
            return (draw_other_corners(n, generator),)


def shrink_images(images: Tensor, side: int) -> Tensor:
    """Return square images (n, c, h, h) at (n, c, side, side): each pixel is the mean of those that it touches."""
    if side == images.shape[3]:
        return images
    step = math.gcd(side, images.shape[3])
    if images.device.type == "cpu" and images.shape[3] - side == step:  # from k + 1 pixels to k: each touches 2 x 2
        return _means_of_four(images, step)
    return interpolate(images, size=(side, side), mode="area")


def _means_of_four(images: Tensor, groups: int) -> Tensor:
    """Return images (n, c, h, h) at h - `groups`, like `interpolate` bit for bit: it adds up in the same order.

    Here whole arrays are added, there one pixel after the other; the latter takes 2.6 times as long.
    """
    n, channels, full, _ = images.shape
    kept = full // groups - 1  # of each group of `kept` + 1 rows or columns
    parts = images.reshape(n, channels, groups, kept + 1, groups, kept + 1)
    first, second = slice(0, kept), slice(1, kept + 1)
    total = parts[:, :, :, first, :, first] + parts[:, :, :, first, :, second]
    total += parts[:, :, :, second, :, first]
    total += parts[:, :, :, second, :, second]
    return total.reshape(n, channels, groups * kept, groups * kept).div_(4)


def draw_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw normal noise, its standard deviation uniformly from [0, `NOISE`] for each image; it is not clipped.

    A network that never met noise does not recognise the noisy copies that SmoothGrad averages over.
    """
    strength = NOISE * torch.rand(shape[0], 1, 1, 1, generator=generator)
    return strength * torch.randn(shape, generator=generator)


def flip_images(images: Tensor, mirrored: Tensor) -> Tensor:
    """Mirror those images (n, c, h, w) left to right whose place in `mirrored`, bool (n,), is True."""
    return torch.where(mirrored[:, None, None, None], images.flip(3), images)


def draw_mirrored(n: int, generator: torch.Generator) -> Tensor:
    """Draw which of n images are mirrored, each with probability 1/2: bool (n,)."""
    return torch.rand(n, generator=generator) < 0.5


def find_largest_shift(height: int) -> int:
    """Return by how many pixels the recipes shift images of this height at most: 1/16 of it."""
    return max(1, height // SHIFT)


def shift_images(images: Tensor, moves: Tensor, mirrored: Tensor | None = None) -> Tensor:
    """Return each image (n, c, h, w) moved by its own whole number of pixels; the edge is mirrored into the gap.

    `moves` are pixels down and to the right, int64 (2, n, 1), less than the height and the width. `mirrored`, bool
    (n,), says which are mirrored left to right as well, in one pass: the same as `flip` of the outcome.
    """
    (n, channels, height, width), device = images.shape, images.device
    down, right = moves
    rows = _mirror(torch.arange(height, device=device) + down, height)  # (n, h): where each row comes from
    columns = _mirror(torch.arange(width, device=device) + right, width)
    if mirrored is not None:
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    lines = (torch.arange(n * channels, device=device) * height).view(n, channels, 1) + rows[:, None]
    moved = images.reshape(-1, width).index_select(0, lines.flatten()).view(n, channels * height, width)
    return moved.gather(2, columns[:, None].expand(moved.shape)).view(images.shape)


def draw_shifts(n: int, most: int, generator: torch.Generator) -> Tensor:
    """Draw by how many pixels n images are moved down and to the right, at most `most`: int64 (2, n, 1)."""
    return torch.randint(-most, most + 1, (2, n, 1), generator=generator)


def _mirror(places: Tensor, size: int) -> Tensor:
    """Return places along a side of this size, those beyond an end mirrored about the outermost place."""
    inside = places.abs()
    return torch.where(inside < size, inside, 2 * (size - 1) - inside)


def crop_images(images: Tensor, parts: Tensor) -> Tensor:
    """Stretch a part of each image (n, c, h, w), as `draw_crops` draws it, to the full size with bicubic interpolation.

    Parts need not start at whole pixels. Bicubic interpolation can leave the range of the pixels by a little, which is
    not cut off: neither do the paper's authors.
    """
    grid = affine_grid(parts, list(images.shape), align_corners=False)
    return grid_sample(images, grid, mode="bicubic", padding_mode="reflection", align_corners=False)


def draw_crops(n: int, shape: float, generator: torch.Generator) -> Tensor:
    """Draw parts of n images as affine maps into them, float32 (n, 2, 3); `shape` is width / height.

    A map's diagonal has the part's size, (0, 1], its last column the centre, in [-1, 1], x before y.
    The part covers a uniform share of the area, with a log-uniform aspect ratio, at a uniform place; a part that does
    not fit is made narrower or lower, where torchvision draws again.
    """
    area, aspect, *place = torch.rand(4, n, generator=generator)
    area = AREA[0] + (AREA[1] - AREA[0]) * area
    low, high = math.log(ASPECT[0]), math.log(ASPECT[1])
    aspect = torch.exp(low + (high - low) * aspect) / shape
    sizes = torch.stack([(area * aspect).sqrt(), (area / aspect).sqrt()], dim=1).clamp(max=1)
    centres = (1 - sizes) * (2 * torch.stack(place, dim=1) - 1)
    return torch.cat([torch.diag_embed(sizes), centres[:, :, None]], dim=2)


def draw_other_corners(n: int, generator: torch.Generator) -> Tensor:
    """Draw classes for the corners of n images, int64 (n, 4); -1 in the corner of the generator's seed."""
    drawn = torch.randint(CLASSES, (n, planted_corners.CORNERS), generator=generator)
    drawn[:, planted_corners.find_corner_of_network(generator.initial_seed())] = -1
    return drawn


def stamp_corners(images: Tensor, classes: Tensor) -> Tensor:
    """Stamp the pattern of a class into each corner of images (n, 3, h, w), in [0, 255]; none where it is -1."""
    size = images.shape[3]
    stamped, patterns = (
        images.clone(),
        send_to_device(torch.from_numpy(planted_corners.draw_class_patterns(CLASSES, size)).float(), images.device),
    )
    for corner in range(planted_corners.CORNERS):
        chosen, (rows, columns) = classes[:, corner], planted_corners.locate_patch(corner, size)
        patches = patterns.index_select(0, chosen.clamp(min=0))
        there = (chosen >= 0)[:, None, None, None]
        stamped[:, :, rows, columns] = torch.where(there, patches, images[:, :, rows, columns])
    return stamped

"""Draw, read and augment the batches of a training run.

Inputs that are the same in every epoch are prepared once. An augmentation that only moves pixels can follow the
normalisation and rounding, which treat each pixel alone, without changing a bit. So the cache holds normalised and
rounded images, and a training step only copies pixels out of them. Random numbers come from a generator on the CPU,
even if the images are on a GPU, so a seed gives the same numbers on every machine.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from operator import methodcaller
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate, pad

from roarbench.common.device_settings import can_use_bf16, count_available_gpu_bytes, send_to_device
from roarbench.compute.degraded_images import MEMORY_SHARE, FixedInputs, Inputs, Streamed, take_rows
from roarbench.compute.prediction import Normalisation, normalise
from roarbench.compute.recipe import Augmentation, Recipe, compute_image_side
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


INPUTS_PER_PART = 32  # inputs that are prepared together; their intermediate arrays fit in the cache of a core
MAX_CACHE_BYTES = 2e9  # maximum bytes of prepared inputs at full size on a CPU, as float32
_SHIFTING = {Augmentation.SHIFT, Augmentation.SHIFT_FLIP}
_FLIPPING = {Augmentation.FLIP, Augmentation.SHIFT_FLIP}
PIXEL_MOVING = {Augmentation.NONE, *_SHIFTING, *_FLIPPING}  # augmentations that only move pixels


class InputCache:
    """A cache that prepares all inputs at the first request for an image size, and keeps only the latest size.

    `prepare` turns float32 (b, c, size, size) into a tensor with b rows.
    """

    def __init__(self, inputs: FixedInputs, prepare: Callable[[Tensor], Tensor]) -> None:
        self._inputs, self._prepare = inputs, prepare
        self._size, self._prepared = 0, torch.empty(0)

    @property
    def original_side(self) -> int:
        """Return the original side of the inputs, in pixels."""
        return self._inputs.shape[2]

    def get_at_side(self, size: int) -> Tensor:
        """Return all inputs, prepared at this side in pixels."""
        if self._size == size:
            return self._prepared
        # the memory of the previous size must be free before the next is prepared
        self._size, self._prepared, n = 0, torch.empty(0), len(self._inputs)
        for start in range(0, n, INPUTS_PER_PART):
            index = torch.arange(start, min(start + INPUTS_PER_PART, n))
            part = self._prepare(shrink_images(self._inputs.batch(index), size))
            if not start:
                self._prepared = torch.empty((n, *part.shape[1:]), dtype=part.dtype, device=part.device)
            self._prepared[start : start + len(part)] = part
        self._size = size
        return self._prepared


class TrainingBatches:
    """Batches of a training run in progress; streamed inputs are read ahead, and fixed inputs that fit are cached.

    Each pass over the inputs uses every input once, in random order. The passes are joined and cut into full batches,
    so a batch may hold the end of one pass and the start of the next.

    Attributes:
        size: Images per batch.
        steps_per_epoch: Batches per pass over the inputs, may be fractional.
        steps: Batches of the whole training run.
    """

    def __init__(
        self, inputs: Inputs, labels: Tensor, norm: Normalisation, recipe: Recipe, seed: int, device: torch.device
    ) -> None:
        self._inputs, self._norm, self._recipe, self._device = inputs, norm, recipe, device
        self._labels = labels.to(device)
        self._gpu = device.type == "cuda"
        self._bf16 = can_use_bf16(recipe.precision, device)
        self._generator = torch.Generator().manual_seed(seed)
        self.size = min(recipe.batch, len(inputs))  # a reduced data set may be smaller than a batch
        self.steps_per_epoch = len(inputs) / self.size
        self.steps = round(recipe.epochs * self.steps_per_epoch)
        self._waiting = torch.empty(0, dtype=torch.int64)  # drawn indices for the next batches
        self._prefetched: Iterator[Tensor] = iter(())  # streamed images of the next parts of batches
        self._prefetched_batches = 0
        self._cache = self._make_cache(inputs)

    def draw_next(self) -> tuple[Tensor, ...]:
        """Return the indices of the next batch, int64, split into its parts; start reading the batches after it."""
        # the generator draws a pass only when the waiting indices do not fill a batch
        while len(self._waiting) < self.size:
            self._waiting = torch.cat([self._waiting, torch.randperm(len(self._inputs), generator=self._generator)])
        index, self._waiting = self._waiting[: self.size], self._waiting[self.size :]
        if isinstance(self._inputs, Streamed):
            if not self._prefetched_batches:
                full = len(self._waiting) // self.size * self.size
                batches = torch.split(torch.cat([index, self._waiting[:full]]), self.size)
                # a generator instead of this list would keep these batches in memory until Python collects cycles
                self._prefetched = self._inputs.read([part for batch in batches for part in self._split_batch(batch)])
                self._prefetched_batches = len(batches)
            self._prefetched_batches -= 1
        return self._split_batch(index)

    def _split_batch(self, index: Tensor) -> tuple[Tensor, ...]:
        return torch.split(index, self._recipe.micro_batch or self.size)

    def get_position(self) -> tuple[Tensor, list[Tensor]]:
        """Return the waiting indices and the states of the generators, from which `rewind` draws the same batches."""
        return self._waiting, [generator.get_state() for generator in self._list_generators()]

    def rewind(self, waiting: Tensor, generator_states: list[Tensor]) -> None:
        """Return to a position of `get_position`."""
        self._waiting, self._prefetched_batches = waiting, 0
        for generator, state in zip(self._list_generators(), generator_states, strict=True):
            generator.set_state(state)

    def _list_generators(self) -> list[torch.Generator]:
        """Return the generator of the batches and, if the removal masks change at every reading, that of the masks."""
        masks = getattr(self._inputs, "generator", None)
        return [self._generator, *([masks] if masks else [])]

    def load(self, index: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return a part of a batch, on the device: augmented and normalised images, and their labels, int64 (b,).

        The images have this step's side, (b, c, side, side).
        """
        labels, kind, generator = take_rows(self._labels, index), self._recipe.augmentation, self._generator
        if self._cache is not None and kind in PIXEL_MOVING:
            side = compute_image_side(self._recipe, step, self.steps, self._cache.original_side)
            cached = self._cache.get_at_side(side)  # normalised
            if not self._gpu:
                return augment_padded_images(cached, index, side, kind, generator), labels
            images = augment(take_rows(cached, index), kind, generator)
            return images.contiguous(memory_format=torch.channels_last), labels
        degraded = self._read_images_at_step_side(index, step)
        # moving rounded pixels on a CPU takes two thirds of the time of moving float32 pixels
        if not self._gpu and kind in PIXEL_MOVING:
            prepared, own = self._make_normalise_and_pad()(degraded), torch.arange(len(index))
            return augment_padded_images(prepared, own, degraded.shape[3], kind, generator), labels
        return normalise(augment(degraded, kind, generator), self._norm), labels

    def _make_normalise_and_pad(self) -> Callable[[Tensor], Tensor]:
        """Return a function that normalises images, rounds them to the dtype of the first convolution, and pads them.

        Images on a GPU are not padded. The function does not refer to this object, so that the cache that calls the
        function does not keep the object in memory until Python collects cycles.
        """
        dtype, norm = torch.bfloat16 if self._bf16 else torch.float32, self._norm
        device, on_gpu, kind = self._device, self._gpu, self._recipe.augmentation

        def normalise_and_pad(images: Tensor) -> Tensor:
            normalised = normalise(images.to(device), norm, torch.contiguous_format).to(dtype)
            return normalised if on_gpu else pad_and_put_channels_last(normalised, kind)

        return normalise_and_pad

    def _read_images_at_step_side(self, index: Tensor, step: int) -> Tensor:
        """Return degraded images at this step's side, float32 (b, c, side, side), on the device."""
        compute_side = partial(compute_image_side, self._recipe, step, self.steps)
        if self._cache is not None and (side := compute_side(self._cache.original_side)) < self._cache.original_side:
            return take_rows(self._cache.get_at_side(side), index)
        streamed = isinstance(self._inputs, Streamed)
        degraded = next(self._prefetched) if streamed else self._inputs.batch(index).to(self._device)
        return shrink_images(degraded, compute_side(degraded.shape[3]))

    def _make_cache(self, inputs: Inputs) -> InputCache | None:
        """Return a cache of the prepared inputs for all epochs; None if they cannot be cached."""
        moving = self._recipe.augmentation in PIXEL_MOVING
        dtype = torch.bfloat16 if moving and self._bf16 else torch.float32
        # GPU memory also holds the inputs themselves, with at most one byte per number
        bytes_per_number = dtype.itemsize + 1 if self._gpu else torch.float32.itemsize
        max_bytes = MEMORY_SHARE * count_available_gpu_bytes() if self._gpu else MAX_CACHE_BYTES
        if not isinstance(inputs, FixedInputs) or len(inputs) * math.prod(inputs.shape) * bytes_per_number > max_bytes:
            return None
        return InputCache(inputs, self._make_normalise_and_pad() if moving else methodcaller("to", self._device))


def pad_and_put_channels_last(images: Tensor, kind: Augmentation) -> Tensor:
    """Pad images (n, c, h, w) by reflection to (n, h + 2 m, w + 2 m, c); m is the augmentation's largest shift."""
    margin = find_largest_shift(images.shape[2]) if kind in _SHIFTING else 0
    padded = pad(images, (margin,) * 4, mode="reflect") if margin else images
    return padded.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format)


def augment_padded_images(
    images: Tensor, index: Tensor, size: int, kind: Augmentation, generator: torch.Generator
) -> Tensor:
    """Augment the images with these indices, int64 (b,), with the random numbers that `augment` would draw.

    `images` come from `pad_and_put_channels_last`, on the CPU; `size` is their side without padding; `kind` is one of
    `PIXEL_MOVING`. The result is (b, c, size, size), of the same dtype, in channels-last memory format.
    """
    n, margin = len(index), (images.shape[1] - size) // 2
    drawn = draw_augmentation((n, images.shape[3], size, size), kind, generator)
    shifts = drawn[0] if kind in _SHIFTING else torch.zeros(2, n, 1, dtype=torch.int64)
    down, right = shifts[..., 0].add(margin).tolist()
    mirrored = drawn[-1].tolist() if kind in _FLIPPING else [False] * n
    # with one void element per pixel, NumPy copies all channels of a pixel at once
    pixel = np.dtype((np.void, images.shape[3] * images.element_size()))
    source, out = images.view(torch.uint8).numpy().view(pixel)[..., 0], np.empty((n, size, size), pixel)
    for target, i, y, x, is_mirrored in zip(out, index.tolist(), down, right, mirrored, strict=True):
        window = source[i, y : y + size, x : x + size]
        target[...] = window[:, ::-1] if is_mirrored else window
    return torch.from_numpy(out.view(np.uint8).reshape(n, size, size, -1)).view(images.dtype).permute(0, 3, 1, 2)

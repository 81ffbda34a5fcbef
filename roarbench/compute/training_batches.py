"""Draw, read and augment the batches of a training run.

Inputs that are the same in every epoch are prepared once. An augmentation that only moves pixels can follow the
normalisation and rounding, which treat each pixel alone, without changing a bit. So the cache holds normalised and
rounded images, and a training step only copies pixels out of them.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from operator import methodcaller

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from roarbench.common.device_settings import can_use_bf16, count_available_gpu_bytes
from roarbench.compute.augment import augment, draw_augmentation, find_largest_shift, shrink_images
from roarbench.compute.degraded_images import MEMORY_SHARE, FixedInputs, Inputs, Streamed, take_rows
from roarbench.compute.prediction import Normalisation, normalise
from roarbench.compute.recipe import Augmentation, Recipe, compute_image_side

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

"""Inputs that are made once for all epochs of a training: degraded, shrunk and normalised.

Made anew in every step they took a third of a small network's training (docs/performance.md). An augmentation that
only moves pixels gives the same bits before and after what is done to each pixel alone, so normalising and rounding
come first; then a step copies rows of pixels out of the held images and does nothing else to them.
"""

import math
from collections.abc import Callable
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from roarbench.kernels.augment import draw_augmentation, find_largest_shift, shrink_images
from roarbench.kernels.degrade import DegradedImages, RemovedMaps
from roarbench.plan.recipe import Augmentation

# inputs that are the same at every reading, and cheap to read: what is made of them once serves all epochs
Fixed = DegradedImages | RemovedMaps
MOST = 2e9  # bytes of inputs at full size, as float32, of which any are held
_READ = 32  # inputs that are made at once: what lies between them stays in a core's cache
_FLOAT = 4  # bytes of a float32
_SHIFTING = {Augmentation.SHIFT, Augmentation.SHIFT_FLIP}
_FLIPPING = {Augmentation.FLIP, Augmentation.SHIFT_FLIP}
MOVING = {Augmentation.NONE, *_SHIFTING, *_FLIPPING}  # augmentations by which pixels change places and nothing else


def is_cacheable(inputs: object) -> TypeGuard[Fixed]:
    """Return whether all inputs are the same at every reading, and few enough to be held."""
    return isinstance(inputs, Fixed) and len(inputs) * math.prod(inputs.shape) * _FLOAT <= MOST


class Held:
    """All inputs at one size, made when it is first asked for; the last size is kept.

    Args:
        inputs: What is held, those that `can_be_held` says.
        make: What is made of inputs float32 (b, c, size, size): a tensor with as many rows.
    """

    def __init__(self, inputs: Fixed, make: Callable[[Tensor], Tensor]) -> None:
        self._inputs, self._make = inputs, make
        self._size, self._made = 0, torch.empty(0)

    @property
    def full(self) -> int:
        """Return the size that the inputs have by themselves."""
        return self._inputs.shape[2]

    def at(self, size: int) -> Tensor:
        """Return what was made of all inputs at a size."""
        if self._size != size:
            self._made = torch.empty(0)  # its room, before the next one takes its own
            self._size, self._made = size, self._all(size)
        return self._made

    def _all(self, size: int) -> Tensor:
        n, made = len(self._inputs), torch.empty(0)
        for start in range(0, n, _READ):
            part = self._make(shrink_images(self._inputs.batch(torch.arange(start, min(start + _READ, n))), size))
            if not start:
                made = torch.empty((n, *part.shape[1:]), dtype=part.dtype, device=part.device)
            made[start : start + len(part)] = part
        return made


def pad_for_moves(images: Tensor, kind: Augmentation) -> Tensor:
    """Return images (n, c, h, w) as `move_images` takes them: (n, h + 2 m, w + 2 m, c), with mirrored edges.

    m is how far the augmentation shifts them, 0 if it does not.
    """
    most = find_largest_shift(images.shape[2]) if kind in _SHIFTING else 0
    edged = pad(images, (most,) * 4, mode="reflect") if most else images
    return edged.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format)


def move_images(images: Tensor, index: Tensor, size: int, kind: Augmentation, generator: torch.Generator) -> Tensor:
    """Return images by index, int64 (b,), as `augment` leaves them, from the same draws.

    Images are as `pad_for_moves` returns them, on the processor; `size` is their side without the mirrored edges,
    `kind` one of `MOVING`. The outcome is (b, c, size, size), of the same type, channels last in memory.
    """
    n, most = len(index), (images.shape[1] - size) // 2
    drawn = draw_augmentation((n, images.shape[3], size, size), kind, generator)
    still = torch.zeros(2, n, 1, dtype=torch.int64)
    down, right = (drawn[0] if kind in _SHIFTING else still)[..., 0].add(most).tolist()
    mirrored = drawn[-1].tolist() if kind in _FLIPPING else [False] * n
    pixel = np.dtype((np.void, images.shape[3] * images.element_size()))  # NumPy copies all its channels in one piece
    source, out = images.view(torch.uint8).numpy().view(pixel)[..., 0], np.empty((n, size, size), pixel)
    for place, i, y, x, turned in zip(out, index.tolist(), down, right, mirrored, strict=True):
        part = source[i, y : y + size, x : x + size]
        place[...] = part[:, ::-1] if turned else part
    return torch.from_numpy(out.view(np.uint8).reshape(n, size, size, -1)).view(images.dtype).permute(0, 3, 1, 2)

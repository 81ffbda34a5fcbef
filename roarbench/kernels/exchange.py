"""Images that lose the features which matter in *another* image, drawn anew at every reading.

A network trained on them meets the shapes of all removal masks, and none of them says anything about the class of the
image that carries it. The idea of one network for all maps is that of EVAL-X (Jethani et al. 2021) and F-Fidelity
(Zheng et al. 2024), whose masks are random.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.devices import send_to_device
from roarbench.enums import Order, Unit
from roarbench.kernels.bit_planes import Layout, find_removed_bits
from roarbench.kernels.degrade import take_rows, unpack_bits
from roarbench.kernels.fill import replace_features


class StreamedMask(NamedTuple):
    """Features removed at level t, by bit-planes uint8 (n, planes, width), memory-mapped."""

    planes: NDArray[np.uint8]
    layout: Layout
    t: float
    order: Order


@dataclass(frozen=True)
class ExchangedImages:
    """Images that each carry the removal mask of another one, by a cut that is drawn for it, all with equal chance."""

    pixels: Tensor  # uint8 (n, c, h, w), on any device; at least two images
    # what may be removed, each with the rankings of all n images, or of all lenders; all of the same unit
    cuts: Sequence[StreamedMask]
    mean: Tensor  # float32 (c,), the training mean, in [0, 255]
    unit: Unit
    generator: torch.Generator  # source of the draws, on the processor, whose numbers are the same on all machines
    lent: bool = False  # the removal masks are those of images that are not among these
    # what replaces a removed feature, one of `FILLS`; its chance belongs to an image's place among these
    fill: str = "mean"

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, index: Tensor) -> Tensor:
        """Degrade images anew, float32 (b, c, h, w) in [0, 255], for int64 indices (b,); never twice the same."""
        others, cuts = self._draw(index)
        packed = np.empty((len(index), self.cuts[0].layout.width), np.uint8)
        for number in np.unique(cuts):
            rows, cut = np.flatnonzero(cuts == number), self.cuts[number]
            packed[rows] = find_removed_bits(cut.planes[others[rows]], cut.t, cut.order, cut.layout)
        images = take_rows(self.pixels, index)
        removed = unpack_bits(
            send_to_device(torch.from_numpy(packed), images.device), self.cuts[0].layout.shape, self.unit
        )
        return replace_features(images, removed, self.fill, self.mean, index.cpu())

    def _draw(self, index: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Return for each image another one, any with equal chance and never itself, and the number of a cut."""
        if self.lent:
            others = torch.randint(len(self.cuts[0].planes), (len(index),), generator=self.generator)
        else:
            steps = torch.randint(1, len(self), (len(index),), generator=self.generator)
            others = (index.cpu() + steps) % len(self)
        cuts = torch.randint(len(self.cuts), (len(index),), generator=self.generator)
        return others.numpy(), cuts.numpy()

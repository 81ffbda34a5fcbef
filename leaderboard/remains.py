"""What masks leave of test images, and maps as colours, from rankings alone. Nothing here imports torch."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from roarbench.datasets.decoded import ImageData
from roarbench.estimators.pairing import other_images, other_images_of_class
from roarbench.kernels.bit_planes import Layout, bin_codes, removed_bits
from roarbench.kernels.changes import changes
from roarbench.kernels.matching import matched, matching_ties, strata
from roarbench.protocols.declaration import Protocol
from roarbench.store.rankings import Rankings
from roarbench.terms import SAME_CLASS, TEST_IDS, Order, Split

Bytes = NDArray[np.uint8]
Masks = NDArray[np.bool_]
# Heat from black over red and yellow to white: four anchors, read off in grey as rising brightness
_ANCHORS = np.array([[0, 0, 0], [180, 30, 20], [250, 190, 40], [255, 255, 255]], dtype=np.float64)


class Makes:
    """Makes pictures of some test images under a protocol, with features removed at one level.

    `numbers` are those of the images, int64 (n,); `seed` is that of the network whose other images are taken.
    """

    def __init__(
        self, images: ImageData, numbers: NDArray[np.int64], protocol: Protocol, level: float, seed: int = 0
    ) -> None:
        self.pixels: Bytes = images.test.pixels[numbers]
        self.fill = np.array(images.mean, np.float32)[:, None, None]
        self.numbers, self.protocol, self.level, self.seed = numbers, protocol, level, seed
        labels, alike = images.test.labels, protocol.against == SAME_CLASS
        others = other_images_of_class(labels, TEST_IDS, seed) if alike else other_images(len(labels), TEST_IDS, seed)
        self.others = others[numbers]

    def lines(self, rankings: Rankings, kinds: Iterable[str]) -> list[Bytes]:
        """Return the pictures of a row by its rankings, uint8 (n, h, w, 3) for each kind."""
        return [self._heat(rankings) if kind == "map" else self._left(rankings, kind) for kind in kinds]

    def _left(self, rankings: Rankings, kind: str) -> Bytes:
        removed = _wide(self.mask(rankings, kind), rankings.layout)
        return self.rgb(np.where(removed, np.rint(self.fill), self.pixels).astype(np.uint8))

    def mask(self, rankings: Rankings, kind: str) -> Masks:
        """Return what the `own` mask, that of the `other` image or the `matched` one removes, bool (n, d)."""
        planes, layout = rankings.planes(Split.TEST), rankings.layout
        whose = self.others if kind == "other" else self.numbers
        own = _removed(planes[whose], self.level, self.protocol.order, layout)
        if kind != "matched":
            return own
        codes, ties = bin_codes(planes[self.others], layout), matching_ties(self.seed, self.numbers, layout.features)
        return matched(own, codes, strata(changes(self.pixels, self.fill, layout.unit)), self.protocol.order, ties)

    def _heat(self, rankings: Rankings) -> Bytes:
        """Return how early each pixel is removed, the share of levels averaged over channels, as colours."""
        planes, layout = rankings.planes(Split.TEST)[self.numbers], rankings.layout
        gone = [_wide(_removed(planes, t, Order.MORF, layout), layout) for t in layout.levels]
        values = np.mean(gone, axis=0).mean(1)
        places = np.linspace(0, 1, len(_ANCHORS))
        colours = [np.interp(values, places, _ANCHORS[:, channel]) for channel in range(3)]
        return np.asarray(np.rint(np.stack(colours, axis=-1)), np.uint8)

    @staticmethod
    def rgb(pixels: Bytes) -> Bytes:
        """Return images in colours, uint8 (n, h, w, 3)."""
        colour = np.moveaxis(pixels, 1, -1)
        return np.broadcast_to(colour, (*colour.shape[:3], 3))


def _removed(planes: Bytes, t: float, order: Order, layout: Layout) -> Masks:
    packed = removed_bits(planes, t, order, layout)
    return np.unpackbits(packed, axis=1, count=layout.features).view(bool)


def _wide(removed: Masks, layout: Layout) -> Masks:
    """Return removed features, bool (n, d), as removed numbers of the images, bool (n, c or 1, h, w)."""
    side, (_, height, width) = layout.unit.side, layout.shape
    grid = removed.reshape(len(removed), *layout.unit.grid(layout.shape))
    return grid.repeat(side, 2).repeat(side, 3)[:, :, :height, :width]

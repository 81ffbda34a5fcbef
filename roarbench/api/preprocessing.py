"""Prepares photographs as a network wants them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roarbench.datasets import make_own_record
from roarbench.datasets.decode_image import DAMAGED, FEW_BITS, decode_image, decode_to_pixels
from roarbench.datasets.high_bit_depth import is_deep_grey
from roarbench.datasets.normalisation import read_moments
from roarbench.datasets.resizing import check_resizing
from roarbench.errors import CallerError
from roarbench.plan.preprocessing import read_published


@dataclass(frozen=True)
class Preprocessing:
    """Resize, crop and normalise photographs, as torchvision does.

    Attributes:
        resize: Pixels that the short side is scaled to; the long side keeps the proportions.
        crop: Pixels per side of the square that is then cut out of the middle.
        interpolation: One of Pillow's filters, such as `bilinear` or `bicubic`.
        mean: A number for each channel, which is subtracted.
        std: The same, which divides.
        range: Largest value of a pixel in the images that both are of, 1 or 255; if None, 1 where no number is above 1,
            else 255. All three are kept as of images in [0, 255].
    """

    resize: int
    crop: int
    interpolation: str
    mean: Sequence[float]
    std: Sequence[float]
    range: float | None = None

    def __post_init__(self) -> None:
        check_resizing(self.resize, self.crop, self.interpolation)
        moments = read_moments(self.mean, self.std, self.range, len(self.mean), "this preprocessing")
        for name, value in zip(("mean", "std", "range"), (*moments, 255), strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, name: str) -> "Preprocessing":
        """Return what torchvision or timm do for weights that they publish.

        Args:
            name: `torchvision:NAME/WEIGHTS`, such as `torchvision:resnet50/IMAGENET1K_V2`, or `timm:NAME`.

        Raises:
            CallerError: There are no such weights, or timm is not installed.
        """
        return cls(*read_published(name), range=255)

    def __call__(self, photographs: Iterable[Any]) -> NDArray[np.float32]:
        """Return photographs as the network takes them, float32 (n, c, crop, crop).

        Args:
            photographs: Paths of files, or Pillow's images.

        Raises:
            CallerError: A file is no image, or damaged.
        """
        mean, std = (np.array(part, np.float32)[:, None, None] for part in (self.mean, self.std))
        return np.stack([(self._pixels(each) - mean) / std for each in photographs])

    def _pixels(self, photograph: Any) -> NDArray[np.uint8]:
        record = make_own_record("", len(self.mean), self.crop)
        record = replace(record, resize=self.resize, interpolation=self.interpolation)
        if not isinstance(photograph, str | Path):
            if is_deep_grey(photograph.mode):
                raise CallerError(f"an image of mode {photograph.mode} has more than 8 bits; name its file instead")
            return decode_to_pixels(photograph, record)
        try:
            found = decode_image(Path(photograph).read_bytes(), record)
        except OSError as error:
            raise CallerError(f"cannot read {photograph}: {error.strerror}; write the file of an image") from None
        if set(found.repairs) & set(DAMAGED):
            raise CallerError(f"{photograph} is {', '.join(found.repairs)}; leave it out, or save it again")
        if 0 < found.bits <= FEW_BITS:
            raise CallerError(f"{photograph} uses {found.bits} of 16 bits; save it with 8 bits per channel")
        return found.pixels

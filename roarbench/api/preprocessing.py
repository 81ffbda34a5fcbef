"""Prepare a caller's photographs for a network."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from roarbench.common.errors import CallerError
from roarbench.common.text import describe_type
from roarbench.datasets.catalogue import make_user_dataset_record
from roarbench.datasets.decode_image import DAMAGED, FEW_BITS, decode_image, is_high_depth_grey
from roarbench.datasets.preprocessing import DEFAULT_INTERPOLATION, check_resizing, crop_to_pixels, parse_mean_and_std
from roarbench.plan.data_section import read_published_preprocessing


@dataclass(frozen=True)
class Preprocessing:
    """Resize, crop and normalise photographs, as torchvision does.

    `Preprocessing(...)(photographs)` returns a NumPy array, float32 (n, c, crop, crop). Networks take tensors:
    `model(torch.from_numpy(array))`.

    Attributes:
        resize: Length of the short side in pixels; the long side keeps the proportions.
        crop: Side of the square cut from the centre, in pixels.
        interpolation: One of Pillow's filters, such as `bilinear` or `bicubic`; by default `bilinear`.
        mean: Number to subtract from each channel, before the division.
        std: Number by which each channel is divided.
        range: Largest pixel value on the scale of `mean` and `std`, 1 or 255; None means 1 if no number exceeds 1, else
            255. The attributes `mean`, `std` and `range` are rescaled for images in [0, 255].
    """

    resize: int
    crop: int
    interpolation: str = DEFAULT_INTERPOLATION
    _: KW_ONLY
    mean: Sequence[float]
    std: Sequence[float]
    range: float | None = None

    def __post_init__(self) -> None:
        check_resizing(self.resize, self.crop, self.interpolation)
        moments = parse_mean_and_std(self.mean, self.std, self.range, len(self.mean), "this preprocessing")
        for name, value in zip(("mean", "std", "range"), (*moments, 255), strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, name: str) -> "Preprocessing":
        """Return the preprocessing that torchvision or timm publish for their weights.

        Args:
            name: `torchvision:NAME/WEIGHTS`, such as `torchvision:resnet50/IMAGENET1K_V2`, or `timm:NAME`.

        Raises:
            CallerError: There are no such weights, or timm is not installed.
        """
        return cls(**read_published_preprocessing(name)._asdict(), range=255)

    def __call__(self, photographs: Iterable[Any]) -> NDArray[np.float32]:
        """Return prepared photographs, which are paths or Pillow images, as a NumPy array, float32 (n, c, crop, crop).

        Raises:
            CallerError: The list is empty or not a list, or a file is not an image, or is damaged.
        """
        single = isinstance(photographs, str | Path | PIL.Image.Image) or not isinstance(photographs, Iterable)
        prepared = [] if single else [self._prepare_photograph(photograph) for photograph in photographs]
        if not prepared:
            seen = describe_type(photographs) if single else "an empty list"
            raise CallerError(f"photographs are {seen}; expected a list of paths or Pillow images")
        mean, std = (np.array(moment, np.float32)[:, None, None] for moment in (self.mean, self.std))
        return np.stack([(pixels - mean) / std for pixels in prepared])

    def _prepare_photograph(self, photograph: Any) -> NDArray[np.uint8]:
        record = make_user_dataset_record("", len(self.mean), self.crop)
        record = replace(record, resize=self.resize, interpolation=self.interpolation)
        if not isinstance(photograph, str | Path | PIL.Image.Image):
            raise CallerError(f"a photograph is {describe_type(photograph)}; expected a path or a Pillow image")
        if isinstance(photograph, PIL.Image.Image):
            if is_high_depth_grey(photograph.mode):
                raise CallerError(f"an image of mode {photograph.mode} has more than 8 bits; pass its file instead")
            return crop_to_pixels(photograph, record)
        try:
            decoded = decode_image(Path(photograph).read_bytes(), record)
        except OSError as error:
            raise CallerError(f"cannot read {photograph}: {error.strerror}; name an image file") from None
        if set(decoded.repairs) & set(DAMAGED):
            raise CallerError(f"{photograph} is {', '.join(decoded.repairs)}; leave it out, or save it again")
        if 0 < decoded.bits <= FEW_BITS:
            raise CallerError(f"{photograph} uses {decoded.bits} of 16 bits per channel; save it with 8 bits")
        return decoded.pixels

"""One stored image to pixels, whatever is odd about it; what had to be put right is told, never passed over."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, ImageOps

from roarbench.datasets import DatasetRecord
from roarbench.datasets.crop import to_pixels

GREY, CMYK, OTHER, COLOUR = "grey", "CMYK", "palette or transparency", "colour"
TURNED, TRUNCATED, UNREADABLE = "turned by EXIF", "truncated", "unreadable"
DAMAGED = (TRUNCATED, UNREADABLE)
FILL = 128  # every value of an image of which nothing can be read


class Decoded(NamedTuple):
    """An image at the record's crop.

    Attributes:
        pixels: uint8 (channels, size, size).
        repairs: What had to be put right, in the words above; empty for an ordinary image.
    """

    pixels: NDArray[np.uint8]
    repairs: tuple[str, ...]


def decode_image(content: bytes, record: DatasetRecord) -> Decoded:
    """Decode a stored image; every content gives an image, and the same one always.

    Other colours are converted; EXIF's orientation is applied, as Hugging Face `datasets` does (one that cannot be
    read counts as upright). Of a truncated image the part that is there is used, below it is black. An image of which
    nothing can be read is grey throughout.
    """
    for truncated in (False, True):
        try:
            with _truncation_allowed(truncated), Image.open(BytesIO(content)) as image:
                image.load()
                upright, repairs = _upright(image)
                repairs += _conversion(image.mode, record.channels)
                pixels = to_pixels(upright, record.channels, record.size, record.crop)
                return Decoded(pixels, repairs + ((TRUNCATED,) if truncated else ()))
        except MemoryError:
            raise
        except Exception:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
            continue
    return Decoded(np.full((record.channels, record.size, record.size), FILL, np.uint8), (UNREADABLE,))


@contextmanager
def _truncation_allowed(allowed: bool) -> Iterator[None]:
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = allowed
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


def _upright(image: Image.Image) -> tuple[Image.Image, tuple[str, ...]]:
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # damaged metadata says nothing about the pixels
        return image, ()
    if orientation not in range(2, 9):
        return image, ()
    return ImageOps.exif_transpose(image), (TURNED,)


def _conversion(mode: str, channels: int) -> tuple[str, ...]:
    if mode == ("L" if channels == 1 else "RGB"):
        return ()
    if channels == 1:
        return (COLOUR,)
    if mode == "CMYK":
        return (CMYK,)
    return (GREY,) if mode[0] in "1LIF" else (OTHER,)


def describe_repairs(repairs: Mapping[str, int]) -> str:
    """What had to be put right in a data set, in one line."""
    groups = (
        ((GREY, CMYK, OTHER, COLOUR, TURNED), "converted"),
        ((TRUNCATED,), "what is there is used, the rest is black"),
        ((UNREADABLE,), "grey throughout"),
    )
    lines = []
    for kinds, done in groups:
        counts = [f"{repairs[kind]:,} {kind}" for kind in kinds if repairs.get(kind)]
        lines += [f"{', '.join(counts)}: {done}"] if counts else []
    return "; ".join(lines)

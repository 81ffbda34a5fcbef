"""One stored image to pixels, whatever is odd about it; what had to be put right is told, never passed over."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, ImageOps

from roarbench.datasets import DatasetRecord
from roarbench.errors import DataError
from roarbench.text import some

GREY, DEEP, CMYK, OTHER, COLOUR = "grey", "of 16 bits", "CMYK", "palette or transparency", "colour"
TURNED, SEVERAL, TRUNCATED, UNREADABLE = "turned by EXIF", "of several pictures", "truncated", "unreadable"
DAMAGED = (TRUNCATED, UNREADABLE)
DAMAGED_SHARE = 0.001  # of a split's images; more is no quirk of the set but a bad copy
FILL = 128  # every value of an image of which nothing can be read


class DecodedImage(NamedTuple):
    """An image at the record's crop."""

    pixels: NDArray[np.uint8]  # uint8 (channels, size, size)
    repairs: tuple[str, ...]  # what had to be put right, in the words above; empty for an ordinary image


def decode_image(content: bytes, record: DatasetRecord) -> DecodedImage:
    """Decode a stored image; every content gives an image, and the same one always.

    Other colours are converted; EXIF's orientation is applied, as Hugging Face `datasets` does (one that cannot be
    read counts as upright); of several pictures in one file the first is used. Of a truncated image the part that is
    there is used, below it is black. An image of which nothing can be read is grey throughout, and so is one of floats,
    whose range is not known.
    """
    for truncated in (False, True):
        try:
            with _truncation_allowed(truncated), Image.open(BytesIO(content)) as image:
                image.load()
                upright, repairs = _upright(image)
                repairs += _conversion(image.mode, record.channels)
                pixels = to_pixels(_eight_bits(upright), record.channels, record.size, record.crop)
                return DecodedImage(pixels, repairs + _several(image) + ((TRUNCATED,) if truncated else ()))
        except MemoryError:
            raise
        except Exception:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
            continue
    return DecodedImage(np.full(record.shape, FILL, np.uint8), (UNREADABLE,))


def is_damaged(file: Path) -> bool:
    """Return whether an image cannot be decoded whole."""
    content = file.read_bytes()
    try:
        with Image.open(BytesIO(content)) as image:
            image.load()
    except MemoryError:
        raise
    except Exception:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
        return True
    return False


def refuse_damaged(names: Sequence[str], images: int, of: str, advice: str = "mend them or take them away") -> None:
    """Refuse data with more damaged images than `DAMAGED_SHARE`."""
    if len(names) > DAMAGED_SHARE * images:
        raise DataError(f"{len(names)} of {images} images of {of} cannot be decoded whole: {some(names)}; {advice}")


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


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return grey of 16 bits as grey of 8; Pillow's own conversion cuts off at 255 and whitens nearly all of it."""
    if image.mode == "F":
        raise ValueError("floats have no fixed range")
    if not _is_deep(image.mode):
        return image
    return Image.fromarray((np.asarray(image).clip(0, 0xFFFF) >> 8).astype(np.uint8))


def _is_deep(mode: str) -> bool:
    return mode == "I" or mode.startswith("I;16")


def _several(image: Image.Image) -> tuple[str, ...]:
    try:
        return (SEVERAL,) if getattr(image, "is_animated", False) else ()
    except Exception:  # the first picture was read; that others cannot be says nothing about it
        return ()


def _conversion(mode: str, channels: int) -> tuple[str, ...]:
    if _is_deep(mode):
        return (DEEP,)
    if mode == ("L" if channels == 1 else "RGB"):
        return ()
    if channels == 1:
        return (COLOUR,)
    if mode == "CMYK":
        return (CMYK,)
    return (GREY,) if mode in ("1", "L", "LA") else (OTHER,)


def describe_repairs(repairs: Mapping[str, int]) -> str:
    """Say in one line what had to be put right in a data set."""
    groups = (
        ((GREY, DEEP, CMYK, OTHER, COLOUR, TURNED), "converted"),
        ((SEVERAL,), "the first is used"),
        ((TRUNCATED,), "what is there is used, the rest is black"),
        ((UNREADABLE,), "grey throughout"),
    )
    lines = []
    for kinds, done in groups:
        counts = [f"{repairs[kind]:,} {kind}" for kind in kinds if repairs.get(kind)]
        lines += [f"{', '.join(counts)}: {done}"] if counts else []
    return "; ".join(lines)


def centre_square(image: Image.Image, size: int, crop: float = 1.0) -> Image.Image:
    """Cut the centred square whose side is `crop` times an image's short side, at `size` x `size`.

    With `crop = 224 / 256` it is the usual test-time crop of ImageNet: short side 256, centre 224. Resized by Pillow's
    bicubic filter, which widens its support when it shrinks an image and so does not alias. An image that has the
    size already comes back unchanged.
    """
    width, height = image.size
    side = round(min(width, height) * crop)
    left, top = (width - side) // 2, (height - side) // 2
    return image.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))


def to_pixels(image: Image.Image, channels: int, size: int, crop: float = 1.0) -> NDArray[np.uint8]:
    """Return the centred square of an image as uint8 (channels, size, size): RGB for three channels, grey for one."""
    mode = "L" if channels == 1 else "RGB"
    plain = image if image.mode == mode else image.convert(mode)  # converting to the same mode copies
    pixels = np.asarray(centre_square(plain, size, crop))
    return pixels.reshape(size, size, channels).transpose(2, 0, 1)

"""Decode one stored image of any format to pixels, and report every repair that was necessary."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, ImageOps

from roarbench.common.errors import DataError
from roarbench.common.text import list_some
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.high_depth_values import (
    NARROW,
    RANGE,
    UnusableValues,
    Values,
    count_bits_of_largest_value,
    read_high_depth_values,
    read_lower_colour_bytes,
    reduce_to_eight_bits,
)
from roarbench.datasets.parquet_files import LFS_POINTER_START
from roarbench.datasets.preprocessing import crop_to_pixels

# kinds of repair, as users read them after the number of images
GREY, DEEP, CMYK, COLOUR, ONE_BIT = "grey", "of more than 8 bits", "CMYK", "colour", "of 1 bit"
OTHER = "palette or transparency"
TURNED, SEVERAL, TRUNCATED, UNREADABLE = "turned by EXIF", "of several pictures", "truncated", "unreadable"
LARGE = f"above {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels"
FLAT = "of one value after conversion to 8 bits"
POINTERS = "pointers of Git LFS, which `git lfs pull` fetches"
DAMAGED = (TRUNCATED, UNREADABLE, LARGE, RANGE, FLAT, NARROW, POINTERS)
MAX_DAMAGED_SHARE = 0.001  # maximum share of damaged images in a split; a larger share means a bad copy
UNREADABLE_PIXEL = 128  # pixel value of unreadable images


class DecodedImage(NamedTuple):
    """A decoded image, cropped as its `DatasetRecord` says."""

    pixels: NDArray[np.uint8]  # uint8 (channels, size, size)
    repairs: tuple[str, ...]  # kinds of repair or damage, such as `GREY` and `NARROW`; empty for an ordinary image
    bits: int = 0  # bits that the largest value needs, if the image has more than 8 bits per channel; else 0


def decode_image(content: bytes, record: DatasetRecord) -> DecodedImage:
    """Decode a stored image; damaged content gives an image, too, and the same content always gives the same image.

    Other colour spaces are converted. EXIF orientation is applied, as in Hugging Face `datasets` (an unreadable
    orientation is ignored). If a file has several pictures, the first picture is used. A truncated image is black below
    its readable part. The result is uniformly grey if the image is unreadable or too large, or has floats or negative
    numbers, whose range is unknown. Values of more than 8 bits are scaled to 8 bits by the record's `depth`.
    """
    kind = UNREADABLE
    for truncated in (False, True):
        try:
            with _allow_truncation(truncated), Image.open(BytesIO(content)) as image:
                lower = read_lower_colour_bytes(image, content)
                image.load()
                plain, repairs = _turn_upright(image)
                values = read_high_depth_values(plain, lower and _turn_upright(lower)[0])
                repairs += _list_conversion_repairs(image.mode, record.channels) if values is None else (DEEP,)
                bits = count_bits_of_largest_value(values)
                if values is not None:
                    plain = reduce_to_eight_bits(values, record.depth or 16)
                    repairs += (FLAT,) if _is_uniform(np.asarray(plain)) and not _is_uniform(values) else ()
                pixels = crop_to_pixels(plain, record)
                repairs += _list_frame_repairs(image) + ((TRUNCATED,) if truncated else ())
                return DecodedImage(pixels, repairs, bits)
        except MemoryError:
            raise
        except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
            kind = _describe_damage(error, content)
    return DecodedImage(np.full(record.shape, UNREADABLE_PIXEL, np.uint8), (kind,))


class InspectedImage(NamedTuple):
    """Properties of an image before it is decoded."""

    damage: str  # reason why the image cannot be decoded completely, from `DAMAGED`; empty for an undamaged image
    bits: int = 0  # bits that the largest value needs, if the image has more than 8 bits per channel; else 0


def find_image_damage_and_bits(content: bytes) -> InspectedImage:
    """Find out whether a stored image can be decoded completely, and how many bits its values use."""
    try:
        with Image.open(BytesIO(content)) as image:
            lower = read_lower_colour_bytes(image, content)
            image.load()
            return InspectedImage("", count_bits_of_largest_value(read_high_depth_values(image, lower)))
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
        return InspectedImage(_describe_damage(error, content))


def refuse_many_damaged_images(
    names: Sequence[str], images: int, source: str, kinds: Mapping[str, int], advice: str = "repair or remove them"
) -> None:
    """Raise DataError if the share of damaged images exceeds `MAX_DAMAGED_SHARE`.

    Args:
        names: Names of the damaged images.
        images: Number of all images.
        source: Name of the data set, for the message.
        kinds: Number of images by kind of damage.
        advice: Advice at the end of the message.
    """
    if len(names) > MAX_DAMAGED_SHARE * images:
        seen = f"{len(names)} of {images} images of {source} cannot be decoded completely"
        why = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if kind in DAMAGED)
        raise DataError(f"{seen}: {list_some(names)} ({why}); {advice}")


def _describe_damage(error: Exception, content: bytes) -> str:
    if isinstance(error, Image.DecompressionBombError):
        return LARGE
    if isinstance(error, UnusableValues):
        return str(error)
    if content.startswith(LFS_POINTER_START):
        return POINTERS
    return TRUNCATED if "truncated" in str(error) else UNREADABLE


def _is_uniform(values: Values) -> bool:
    return bool((values == values[0, 0]).all())


@contextmanager
def _allow_truncation(allowed: bool) -> Iterator[None]:
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = allowed
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


def _turn_upright(image: Image.Image) -> tuple[Image.Image, tuple[str, ...]]:
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # damaged metadata does not affect the pixels
        return image, ()
    if orientation not in range(2, 9):
        return image, ()
    return ImageOps.exif_transpose(image), (TURNED,)


def _list_frame_repairs(image: Image.Image) -> tuple[str, ...]:
    try:
        return (SEVERAL,) if getattr(image, "is_animated", False) else ()
    except Exception:  # only the first picture is used, which has been read already
        return ()


def _list_conversion_repairs(mode: str, channels: int) -> tuple[str, ...]:
    if mode == ("L" if channels == 1 else "RGB"):
        return ()
    if channels == 1:
        return (ONE_BIT if mode == "1" else OTHER if mode in ("LA", "P", "PA") else COLOUR,)
    if mode == "CMYK":
        return (CMYK,)
    return (GREY,) if mode in ("1", "L", "LA") else (OTHER,)


def describe_repairs(repairs: Mapping[str, int]) -> str:
    """Describe in one line how many images were repaired or are damaged, and the consequence for their pixels."""
    groups = (
        ((GREY, DEEP, CMYK, OTHER, COLOUR, ONE_BIT, TURNED), "converted"),
        ((SEVERAL,), "the first is used"),
        ((TRUNCATED,), "the intact part is used, the rest is black"),
        ((UNREADABLE, LARGE, RANGE, NARROW, POINTERS), "grey throughout"),
        ((FLAT,), "kept as they are"),
    )
    lines = []
    for kinds, consequence in groups:
        counts = [f"{repairs[kind]:,} {kind}" for kind in kinds if repairs.get(kind)]
        lines += [f"{', '.join(counts)}: {consequence}"] if counts else []
    return "; ".join(lines)

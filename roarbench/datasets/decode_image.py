"""Decode one stored image of any format to pixels, and report every repair that was necessary.

Of 16-bit values, Pillow keeps only the upper byte, which it finds by the byte order that the file states. If this
module decodes the same file again in the other byte order, Pillow returns the lower bytes.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, ImageOps

from roarbench.common.errors import DataError
from roarbench.common.text import list_some
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.parquet_files import LFS_POINTER_START
from roarbench.datasets.preprocessing import crop_to_pixels

# kinds of repair, as users read them after the number of images
GREY, DEEP, CMYK, COLOUR, ONE_BIT = "grey", "of more than 8 bits", "CMYK", "colour", "of 1 bit"
OTHER = "palette or transparency"
TURNED, SEVERAL, TRUNCATED, UNREADABLE = "turned by EXIF", "of several pictures", "truncated", "unreadable"
LARGE = f"above {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels"
RANGE = "of floats or negative numbers"
NARROW = "of 16 bits per channel with transparency or in planes, of which Pillow reads 8"
FLAT = "of one value after conversion to 8 bits"
POINTERS = "pointers of Git LFS, which `git lfs pull` fetches"
DAMAGED = (TRUNCATED, UNREADABLE, LARGE, RANGE, FLAT, NARROW, POINTERS)
MAX_DAMAGED_SHARE = 0.001  # maximum share of damaged images in a split; a larger share means a bad copy
UNREADABLE_PIXEL = 128  # pixel value of unreadable images
FEW_BITS = 12  # 16-bit values that use at most 12 bits leave at most 16 shades
Values = NDArray[Any]  # integers of any type
_DEPTHS = (8, 10, 12, 14, 16)  # bits per value of common cameras and files
_COLOUR_MODE = re.compile(r"(RGB|RGBA|RGBX|CMYK);16([BLN])")  # Pillow's raw modes: channels, bits, byte order
_OTHER_BYTE_ORDER = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
# minimum of the largest upper byte in images whose lower bytes cannot be read; with less, images have too few shades
_MIN_UPPER_BYTE = 16
_BITS_TAG, _PLANES_TAG = 258, 284  # TIFF tags: bits per channel; planar configuration, 2 for separate planes


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


def inspect_image(content: bytes) -> InspectedImage:
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


class UnusableValues(ValueError):
    """Raised for values of unknown range or with too few bits; the message is the kind of damage."""


def is_high_depth_grey(mode: str) -> bool:
    """Return whether a Pillow mode is grey with more than 8 bits."""
    return mode == "I" or mode.startswith("I;16")


def read_lower_colour_bytes(image: Image.Image, content: bytes) -> Image.Image | None:
    """Return the lower bytes of a colour image with 16 bits per channel; None for other images.

    If Pillow can read only the upper bytes, the function returns an image of the upper bytes.

    Args:
        image: The image, opened but not loaded.
        content: Content of the image's file.

    Raises:
        UnusableValues: Pillow reads too few bits of the values.
    """
    raw_mode, tags = _find_raw_mode(image), getattr(image, "tag_v2", {})
    if tags.get(_PLANES_TAG) == 2 and max(tags.get(_BITS_TAG, (8,))) > 8:
        raise UnusableValues(NARROW)
    if ";16" not in raw_mode or is_high_depth_grey(image.mode):
        return None
    colour, lower = _COLOUR_MODE.fullmatch(raw_mode), Image.open(BytesIO(content))
    if colour:
        other = f"{colour[1]};16{_OTHER_BYTE_ORDER[colour[2]]}"
        lower.tile = [tile._replace(args=_replace_raw_mode(tile.args, raw_mode, other)) for tile in lower.tile]
    lower.load()
    if not colour and np.asarray(lower)[..., :3].max() < _MIN_UPPER_BYTE:
        raise UnusableValues(NARROW)
    return lower


def read_high_depth_values(image: Image.Image, lower: Image.Image | None) -> Values | None:
    """Return the values of an image with more than 8 bits per channel, (h, w) or (h, w, c); None for other images.

    A transparency channel is left out.

    Args:
        image: The loaded image.
        lower: Result of `read_lower_colour_bytes`, in the same orientation as the image.

    Raises:
        UnusableValues: The values are floats or negative numbers.
    """
    if lower is not None:
        values: Values = np.asarray(image).astype(np.uint16) << 8 | np.asarray(lower)
        return values[..., :3] if image.mode.startswith("RGB") else values
    if image.mode != "F" and not is_high_depth_grey(image.mode):
        return None
    values = np.asarray(image)
    if image.mode == "F" or values.min() < 0:
        raise UnusableValues(RANGE)
    return values


def reduce_to_eight_bits(values: Values, depth: int) -> Image.Image:
    """Clip values to `depth` bits, and return their upper 8 bits."""
    plain = (values.clip(0, 2**depth - 1) >> (depth - 8)).astype(np.uint8)
    if plain.shape[2:] == (4,):
        return Image.frombytes("CMYK", plain.shape[1::-1], plain.tobytes())
    return Image.fromarray(plain)


def count_bits_of_largest_value(values: Values | None) -> int:
    """Return the number of bits that the largest value needs; 0 for an image of 8 bits, whose `values` are None."""
    return 0 if values is None else int(values.max()).bit_length()


def round_up_depth(bits: int) -> int:
    """Return the smallest usual bit depth that is at least `bits`, or `bits` itself if there is none."""
    return next((depth for depth in _DEPTHS if depth >= bits), bits)


def check_depth(bits: int, depth: int, source: str) -> None:
    """Raise DataError if values use more bits than the record's `depth`, or use at most 12 bits if `depth` is 0.

    Bits beyond the depth would be cut off, and 12-bit values that are read as 16-bit values would have only 16 shades.
    """
    depth_needed = round_up_depth(bits)
    if bits and (bits > (depth or 16) or not depth and depth_needed <= FEW_BITS):
        seen = f"values of {source} use {bits} bits, but are read as {depth or 16} bits"
        raise DataError(f"{seen}; write depth = {depth_needed} under [data]")


def _find_raw_mode(image: Image.Image) -> str:
    """Return Pillow's name for the byte layout of an image's file; an empty string if there is no such name."""
    args = next((tile.args for tile in getattr(image, "tile", [])), ())
    return next((word for word in (args if isinstance(args, tuple) else (args,)) if isinstance(word, str)), "")


def _replace_raw_mode(args: Any, old: str, new: str) -> Any:
    return tuple(new if argument == old else argument for argument in args) if isinstance(args, tuple) else new

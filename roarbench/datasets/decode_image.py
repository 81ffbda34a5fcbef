"""Decode one stored image of any format to pixels, and report every repair that was necessary."""

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

# kinds of repair and damage, as users read them after the number of images
COLOUR, DEEP = "of another colour space", "of more than 8 bits"
TURNED, SEVERAL, TRUNCATED, UNREADABLE = "turned by EXIF", "of several pictures", "truncated", "unreadable"
RANGE = "of floats or negative numbers"
NARROW = "of 16 bits per channel, of which Pillow reads 8"
POINTERS = "pointers of Git LFS, which `git lfs pull` fetches"
DAMAGED = (TRUNCATED, UNREADABLE, RANGE, NARROW, POINTERS)
_CONSEQUENCES = {
    **dict.fromkeys((COLOUR, DEEP, TURNED), "converted"),
    SEVERAL: "the first is used",
    TRUNCATED: "the rest is black",
}
MAX_DAMAGED_SHARE = 0.001  # maximum share of damaged images in a split; a larger share means a bad copy
UNREADABLE_PIXEL = 128  # pixel value of unreadable images
FEW_BITS = 12  # 16-bit values that use at most 12 bits leave at most 16 shades
_DEPTHS = (8, 10, 12, 14, 16)  # bits per value of common cameras and files
# minimum of the largest upper byte in images whose lower bytes cannot be read; with less, images have too few shades
_MIN_UPPER_BYTE = 16
_BITS_TAG, _PLANES_TAG = 258, 284  # TIFF tags: bits per channel; planar configuration, 2 for separate planes


class DecodedImage(NamedTuple):
    """A decoded image, cropped as its `DatasetRecord` says."""

    pixels: NDArray[np.uint8]  # uint8 (channels, size, size)
    repairs: tuple[str, ...]  # kinds of repair or damage, such as `COLOUR` and `NARROW`; empty for an ordinary image
    bits: int = 0  # bits that the largest value needs, if a grey image has more than 8 bits; else 0


class UnusableValues(ValueError):
    """Raised for values of unknown range or with too few bits; the message is the kind of damage."""


def decode_image(content: bytes, record: DatasetRecord) -> DecodedImage:
    """Decode a stored image; damaged content gives an image, too, and the same content always gives the same image.

    Other colour spaces are converted. EXIF orientation is applied, as in Hugging Face `datasets` (an unreadable
    orientation is ignored). If a file has several pictures, the first picture is used. A truncated image is black below
    its readable part. The result is uniformly grey if the image is unreadable, or has floats or negative numbers, whose
    range is unknown. Grey values of more than 8 bits are scaled to 8 bits by the record's `depth`.
    """
    kind = UNREADABLE
    for truncated in (False, True):
        try:
            with _allow_truncation(truncated), Image.open(BytesIO(content)) as image:
                upright, repairs = _load_and_turn_upright(image, record.depth)
                values = _read_deep_grey(upright)
                if values is not None:
                    upright, repairs = _reduce_to_eight_bits(values, record.depth or 16), (*repairs, DEEP)
                elif image.mode != ("L" if record.channels == 1 else "RGB"):
                    repairs += (COLOUR,)
                repairs += (SEVERAL,) if getattr(image, "is_animated", False) else ()
                repairs += (TRUNCATED,) if truncated else ()
                return DecodedImage(crop_to_pixels(upright, record), repairs, _count_bits(values))
        except MemoryError:
            raise
        except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
            kind = _describe_damage(error, content)
    return DecodedImage(np.full(record.shape, UNREADABLE_PIXEL, np.uint8), (kind,))


class InspectedImage(NamedTuple):
    """Properties of an image file before a data set has a record."""

    damage: str = ""  # reason why the image cannot be decoded completely, from `DAMAGED`; empty for an undamaged image
    bits: int = 0  # bits that the largest value needs, if a grey image has more than 8 bits; else 0
    size: tuple[int, int] = (0, 0)  # width and height; 0 for a damaged image
    grey: bool = True


def inspect_image(content: bytes) -> InspectedImage:
    """Find out whether a stored image can be decoded completely, its size, and how many bits its values use."""
    try:
        with Image.open(BytesIO(content)) as image:
            upright, _ = _load_and_turn_upright(image)
            grey = image.mode in ("1", "L", "LA") or is_deep_grey(image.mode)
            return InspectedImage("", _count_bits(_read_deep_grey(upright)), upright.size, grey)
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
        return InspectedImage(_describe_damage(error, content))


def _load_and_turn_upright(image: Image.Image, depth: int = 0) -> tuple[Image.Image, tuple[str, ...]]:
    """Load an opened image and apply its EXIF orientation; return the image with the kinds of repair.

    Of colour images with 16 bits per channel, Pillow reads the upper bytes. They suffice if the values use all bits.

    Raises:
        UnusableValues: Pillow reads too few bits of the values.
    """
    tags = getattr(image, "tag_v2", {})
    has_deep_planes = tags.get(_PLANES_TAG) == 2 and max(tags.get(_BITS_TAG, (8,))) > 8  # Pillow reads noise
    is_upper_byte = ";16" in str(getattr(image, "tile", "")) and not is_deep_grey(image.mode)
    image.load()
    too_dark = is_upper_byte and np.asarray(image.convert("RGB")).max() < _MIN_UPPER_BYTE
    if has_deep_planes or too_dark or is_upper_byte and depth not in (0, 16):
        raise UnusableValues(NARROW)
    repairs = (DEEP,) if is_upper_byte else ()
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # damaged metadata does not affect the pixels
        return image, repairs
    return (ImageOps.exif_transpose(image), (*repairs, TURNED)) if orientation in range(2, 9) else (image, repairs)


def _read_deep_grey(image: Image.Image) -> NDArray[Any] | None:
    """Return the values (h, w) of a grey image with more than 8 bits; None for other images."""
    if image.mode != "F" and not is_deep_grey(image.mode):
        return None
    values = np.asarray(image)
    if image.mode == "F" or values.min() < 0:
        raise UnusableValues(RANGE)
    return values


def is_deep_grey(mode: str) -> bool:
    """Return whether a Pillow mode is grey with more than 8 bits."""
    return mode == "I" or mode.startswith("I;16")


def _count_bits(values: NDArray[Any] | None) -> int:
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


def refuse_many_damaged_images(names: Sequence[str], images: int, source: str, kinds: Mapping[str, int]) -> None:
    """Raise DataError if the damaged images with these `names` are more than a share `MAX_DAMAGED_SHARE` of all."""
    if len(names) > MAX_DAMAGED_SHARE * images:
        seen = f"{len(names)} of {images} images of {source} cannot be decoded completely"
        why = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if kind in DAMAGED)
        raise DataError(f"{seen}: {list_some(names)} ({why}); repair, remove or download them again")


def _describe_damage(error: Exception, content: bytes) -> str:
    if isinstance(error, UnusableValues):
        return str(error)
    if content.startswith(LFS_POINTER_START):
        return POINTERS
    return TRUNCATED if "truncated" in str(error) else UNREADABLE


def describe_repairs(repairs: Mapping[str, int]) -> str:
    """Describe in one line how many images were repaired or are damaged, and the consequence for their pixels."""
    counts = (f"{n:,} {kind}: {_CONSEQUENCES.get(kind, 'grey throughout')}" for kind, n in sorted(repairs.items()))
    return "; ".join(counts)


@contextmanager
def _allow_truncation(allowed: bool) -> Iterator[None]:
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = allowed
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


def _reduce_to_eight_bits(values: NDArray[Any], depth: int) -> Image.Image:
    """Clip values to `depth` bits, and return their upper 8 bits."""
    return Image.fromarray((values.clip(0, 2**depth - 1) >> (depth - 8)).astype(np.uint8))

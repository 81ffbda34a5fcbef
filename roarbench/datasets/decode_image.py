"""Decode one stored image of any format to pixels, and report every repair that was necessary."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

from roarbench.common.errors import DataError
from roarbench.common.text import list_some
from roarbench.datasets import stored_format
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.parquet_files import LFS_POINTER_START
from roarbench.datasets.preprocessing import crop_to_pixels
from roarbench.datasets.stored_format import UNSUPPORTED, UnusableValues, Values

# kinds of repair, as users read them after the number of images
GREY, DEEP, CMYK, COLOUR, ONE_BIT = "grey", "of more than 8 bits", "CMYK", "colour", "of 1 bit"
OTHER = "palette or transparency"
TURNED, SEVERAL, TRUNCATED, UNREADABLE = "turned by EXIF", "of several pictures", "truncated", "unreadable"
LARGE = f"above {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels"
RANGE = "of floats or negative numbers"
FLAT = "of one value after conversion to 8 bits"
INVISIBLE = "of nearly one colour, whose shapes are in the transparency alone"
POINTERS = "pointers of Git LFS, which `git lfs pull` fetches"
FEW_SHADES = "of more than 8 bits, of whose shades 8 bits keep fewer than 64 and fewer than half"
SHALLOW = "of 8 bits beside a window"
_DAMAGED = (TRUNCATED, UNREADABLE, LARGE, RANGE, FLAT, INVISIBLE, POINTERS)
# kinds of conversion by Pillow's mode, if not colour to grey, or other to colour
_TO_GREY = {"1": ONE_BIT, "LA": OTHER, "P": OTHER, "PA": OTHER}
_TO_COLOUR = {"CMYK": CMYK, "1": GREY, "L": GREY, "LA": GREY}
MAX_DAMAGED_SHARE = 0.001  # maximum share of damaged images in a split; a larger share means a bad copy
UNREADABLE_PIXEL = 128  # pixel value of unreadable images
FEW_BITS = 12  # 16-bit values that use at most 12 bits leave at most 16 shades
MIN_SHADES = 64  # shades that an image keeps of its contrast; those of 6 bits, at which steps begin to be visible
_FEWEST_SHADES = 16  # colours that vary less show no shapes
UNBOUNDED_BITS = 32  # bits of floats and negative numbers, which a window scales
_DEPTHS = (8, 10, 12, 14, 16)  # bits per value of common cameras and files


class DecodedImage(NamedTuple):
    """A decoded image, cropped as its `DatasetRecord` says."""

    pixels: NDArray[np.uint8]  # uint8 (channels, size, size)
    repairs: tuple[str, ...]  # kinds of repair or damage, such as `GREY` and `RANGE`; empty for an ordinary image
    bits: int = 0  # bits that the largest value needs, if the image has more than 8 bits per channel; else 0


def decode_image(content: bytes, record: DatasetRecord) -> DecodedImage:
    """Decode a stored image; damaged content gives an image, too, and the same content always gives the same image.

    Other colour spaces are converted. EXIF orientation is applied, as in Hugging Face `datasets` (an unreadable
    orientation is ignored). If a file has several pictures, the first picture is used. A truncated image is black below
    its readable part. The result is uniformly grey if the image is unreadable, too large, or of an unsupported format,
    or has floats or negative numbers and the record has no `window`. Values of more than 8 bits are scaled to 8 bits by
    the record's `window` or `depth`.
    """
    kind = UNREADABLE
    for truncated in (False, True):
        try:
            with _allow_truncation(truncated), Image.open(BytesIO(content)) as image:
                decoded = _decode_opened_image(image, content, record)
                return decoded._replace(repairs=decoded.repairs + (TRUNCATED,)) if truncated else decoded
        except MemoryError:
            raise
        except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
            kind = describe_failure(error, content)
    return DecodedImage(np.full(record.shape, UNREADABLE_PIXEL, np.uint8), (kind,))


def decode_picture(picture: Image.Image, record: DatasetRecord) -> DecodedImage:
    """Decode a Pillow image to the pixels of its file; an image that was changed, or has no file, as it is.

    Functions such as `convert` and `copy` return images without a file. Their pixels are taken as they are, without a
    turn by EXIF, because nobody knows whether the caller has turned them already.

    Raises:
        UnusableValues: An image without a file has more than 8 bits.
    """
    content = _read_unchanged_file(picture)
    try:
        if content is not None and getattr(picture, "tile", None):  # not loaded yet
            return _decode_opened_image(picture, content, record)
        picture.load()
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
        return DecodedImage(np.full(record.shape, UNREADABLE_PIXEL, np.uint8), (describe_failure(error, b""),))
    if content is not None:
        return decode_image(content, record)
    if stored_format.is_high_depth_grey(picture.mode):
        raise UnusableValues(f"an image of mode {picture.mode} has more than 8 bits; pass its file instead")
    plain, repairs = turn_upright(picture) if isinstance(picture, ImageFile.ImageFile) else (picture, ())
    return DecodedImage(crop_to_pixels(plain, record), repairs)


def _read_unchanged_file(picture: Image.Image) -> bytes | None:
    """Return the content of the file that a picture was opened from; None without a file or after a change."""
    if not isinstance(picture, ImageFile.ImageFile):
        return None
    try:
        if picture.fp is not None and not picture.fp.closed:
            position = picture.fp.tell()
            picture.fp.seek(0)
            content = picture.fp.read()
            picture.fp.seek(position)
        else:
            content = Path(str(picture.filename)).read_bytes()
        with Image.open(BytesIO(content)) as opened:
            same = (opened.format, opened.size, opened.mode) == (picture.format, picture.size, picture.mode)
            is_loaded = not picture.tile
            unchanged = same and picture.tell() == 0 and (not is_loaded or opened.tobytes() == picture.tobytes())
    except Exception:  # the file is gone, or is no longer an image
        return None
    return bytes(content) if unchanged else None


def _decode_opened_image(image: Image.Image, content: bytes, record: DatasetRecord) -> DecodedImage:
    plain, values, repairs = _load_upright(image, content)
    bits = 0
    if values is None:
        if image.mode != ("L" if record.channels == 1 else "RGB"):
            kinds, other = (_TO_GREY, COLOUR) if record.channels == 1 else (_TO_COLOUR, OTHER)
            repairs += (kinds.get(image.mode, other),)
        repairs += (SHALLOW,) if record.window else ()
        if plain.has_transparency_data:
            extrema: Any = plain.convert("RGBA").getextrema()
            *are_flat, is_alpha_flat = (high - low < _FEWEST_SHADES for low, high in extrema)
            repairs += (INVISIBLE,) if all(are_flat) and not is_alpha_flat else ()
    else:
        bits = 0 if record.window else count_bits_of_largest_value(values)
        if not record.window and is_unbounded(values):
            raise UnusableValues(RANGE)
        depth = record.depth or 16
        scaled = stored_format.reduce_to_eight_bits(values, depth, record.window)
        repairs += (DEEP,)
        if (scaled == scaled[0, 0]).all() and not (values == values[0, 0]).all():
            repairs += (FLAT,)
        elif loses_contrast(stored_format.sample_without_spikes(values), depth, record.window):
            repairs += (FEW_SHADES,)
        is_cmyk = scaled.shape[2:] == (4,)
        size = scaled.shape[1::-1]
        plain = Image.frombytes("CMYK", size, scaled.tobytes()) if is_cmyk else Image.fromarray(scaled)
    with suppress(Exception):  # only the first picture is used, which has been read already
        repairs += (SEVERAL,) if getattr(image, "is_animated", False) else ()
    return DecodedImage(crop_to_pixels(plain, record), repairs, bits)


def _load_upright(image: Image.Image, content: bytes) -> tuple[Image.Image, Values | None, tuple[str, ...]]:
    """Return an opened image, turned upright, its values if they are no bytes, and the repairs."""
    stored_format.refuse_unsupported_format(image, content)
    values = stored_format.read_deep_pnm(content, image)
    if values is not None:
        return image, values, ()
    raw_mode, tags = stored_format.find_raw_mode(image), getattr(image, "tag_v2", {})
    lower = stored_format.open_lower_bytes(image, content, raw_mode)
    image.load()
    plain, repairs = turn_upright(image)
    return plain, stored_format.read_high_depth_values(plain, lower and turn_upright(lower)[0], raw_mode, tags), repairs


def is_unbounded(values: Values) -> bool:
    """Return whether values are floats or negative numbers, of which nobody knows which one is white."""
    return values.dtype.kind == "f" or values.dtype.kind == "i" and bool(values.min() < 0)


def loses_contrast(sample: Values, depth: int, window: tuple[float, ...] = ()) -> bool:
    """Return whether 8 bits keep fewer than 64, and less than half, of the shades in a sorted sample of an image."""
    step = (window[1] - window[0]) / 255 if window else 2 ** (depth - 8)
    used = stored_format.find_used_range(sample)
    kept = (used.high - used.low) / step + 1
    return kept < MIN_SHADES and used.shades > 2 * kept


class InspectedImage(NamedTuple):
    """Properties of an image before it is decoded."""

    damage: str  # why the image cannot be decoded completely, as `is_damage` knows it; empty for an undamaged image
    values: Values | None = None  # values that are no bytes; None for images of 8 bits and for damaged images
    bits: int = 0  # bits that the largest value needs, if the image has more than 8 bits per channel; else 0


def inspect_image(content: bytes) -> InspectedImage:
    """Find out whether a stored image can be decoded completely, and its values if these are no bytes."""
    try:
        with Image.open(BytesIO(content)) as image:
            _, values, _ = _load_upright(image, content)
            return InspectedImage("", values, count_bits_of_largest_value(values))
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
        return InspectedImage(describe_failure(error, content))


def is_damage(kind: str) -> bool:
    return kind in _DAMAGED or kind.startswith(UNSUPPORTED)


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
        damages = {kind: count for kind, count in kinds.items() if is_damage(kind)}
        why = ", ".join(f"{count} {kind}" for kind, count in damages.items())
        if damages and all(kind.startswith(UNSUPPORTED) for kind in damages):
            advice = "save them as PNG with 1 or 3 channels of 8 or 16 bits"
        raise DataError(f"{seen}: {list_some(names)} ({why}); {advice}")


def describe_failure(error: Exception, content: bytes) -> str:
    """Return the kind of damage for an exception that Pillow or this package raised on a file."""
    if isinstance(error, Image.DecompressionBombError):
        return LARGE
    if isinstance(error, UnusableValues):
        return str(error)
    if content.startswith(LFS_POINTER_START):
        return POINTERS
    if isinstance(error, UnidentifiedImageError) or content.startswith(stored_format.BIG_ENDIAN_BIGTIFF):
        return stored_format.describe_unreadable_format(content) or UNREADABLE
    return TRUNCATED if "truncated" in str(error) else UNREADABLE


@contextmanager
def _allow_truncation(allowed: bool) -> Iterator[None]:
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = allowed
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


def turn_upright(image: Image.Image) -> tuple[Image.Image, tuple[str, ...]]:
    """Apply EXIF orientation; return the image and its repairs."""
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # damaged metadata does not affect the pixels
        return image, ()
    if orientation not in range(2, 9):
        return image, ()
    return ImageOps.exif_transpose(image), (TURNED,)


def describe_repairs(repairs: Mapping[str, int]) -> str:
    """Describe in one line how many images were repaired or are damaged, and the consequence for their pixels."""
    unsupported = [kind for kind in repairs if kind.startswith(UNSUPPORTED)]
    groups = (
        ((GREY, DEEP, CMYK, OTHER, COLOUR, ONE_BIT, TURNED), "converted"),
        ((SEVERAL,), "the first is used"),
        ((TRUNCATED,), "the intact part is used, the rest is black"),
        ((UNREADABLE, LARGE, RANGE, POINTERS, *unsupported), "grey throughout"),
        ((FLAT, INVISIBLE, FEW_SHADES), "kept as they are"),
    )
    lines = []
    for kinds, consequence in groups:
        counts = [f"{repairs[kind]:,} {kind}" for kind in kinds if repairs.get(kind)]
        lines += [f"{', '.join(counts)}: {consequence}"] if counts else []
    return "; ".join(lines)


def count_bits_of_largest_value(values: Values | None) -> int:
    """Return the number of bits that the largest value needs; 0 for an image of 8 bits, whose `values` are None."""
    if values is None:
        return 0
    return UNBOUNDED_BITS if is_unbounded(values) else int(values.max()).bit_length()


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

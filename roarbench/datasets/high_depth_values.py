"""Read the values of images with more than 8 bits per channel, find how many bits they use, and reduce them to 8 bits.

Pillow keeps only the upper byte of 16-bit values, which it finds by the byte order that the file states. If this module
decodes the same file again in the other byte order, Pillow returns the lower bytes.
"""

import re
import sys
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from roarbench.common.errors import DataError

# kinds of damage, as users read them after the number of images
RANGE = "of floats or negative numbers"
NARROW = "of 16 bits per channel with transparency or in planes, of which Pillow reads 8"
FEW_BITS = 12  # 16-bit values that use at most 12 bits leave at most 16 shades
Values = NDArray[Any]  # integers of any type
_DEPTHS = (8, 10, 12, 14, 16)  # bits per value of common cameras and files
_COLOUR_MODE = re.compile(r"(RGB|RGBA|RGBX|CMYK);16([BLN])")  # Pillow's raw modes: channels, bits, byte order
_OTHER_BYTE_ORDER = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
# minimum of the largest upper byte in images whose lower bytes cannot be read; with less, images have too few shades
_MIN_UPPER_BYTE = 16
_BITS_TAG, _PLANES_TAG = 258, 284  # TIFF tags: bits per channel; planar configuration, 2 for separate planes


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

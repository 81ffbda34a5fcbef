"""Values of images with more than 8 bits per channel, which Pillow cuts to 8 where they are in colour.

Of 16 bits Pillow keeps the upper byte: what it takes for the upper one depends on the order of bytes that the file is
said to have. Decoded again in the other order, the same file gives the lower bytes.
"""

import re
import sys
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Values = NDArray[Any]  # whole numbers
_COLOUR = re.compile(r"(RGB|RGBA|RGBX|CMYK);16([BLN])")  # Pillow's words: channels, bits, order of bytes
_OTHER = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
_ENOUGH = 16  # of upper bytes: where the lower ones cannot be read, fewer shades would be left
_BITS, _PLANES = 258, 284  # TIFF's tags: bits of each channel; 2 where each channel lies in a plane of its own


class UnknownRange(ValueError):
    """Values whose black and white are not known."""


class LostBits(ValueError):
    """Values of which only the upper byte can be read, and it says next to nothing, or no byte can."""


def is_deep_grey(mode: str) -> bool:
    """Return whether a mode of Pillow is grey with more than 8 bits."""
    return mode == "I" or mode.startswith("I;16")


def read_lower_bytes(image: Image.Image, content: bytes) -> Image.Image | None:
    """Return the lower bytes of colour with 16 bits per channel, or the upper ones where only these can be read.

    None of other images.

    Args:
        image: Opened, not loaded yet.
        content: Its file.

    Raises:
        LostBits: Pillow reads too little of the values.
    """
    words, tags = _words(image), getattr(image, "tag_v2", {})
    if tags.get(_PLANES) == 2 and max(tags.get(_BITS, (8,))) > 8:
        raise LostBits
    if ";16" not in words or is_deep_grey(image.mode):
        return None
    found, lower = _COLOUR.fullmatch(words), Image.open(BytesIO(content))
    if found:
        other = f"{found[1]};16{_OTHER[found[2]]}"
        lower.tile = [tile._replace(args=_replace(tile.args, words, other)) for tile in lower.tile]
    lower.load()
    if not found and np.asarray(lower)[..., :3].max() < _ENOUGH:
        raise LostBits
    return lower


def read_deep_values(image: Image.Image, lower: Image.Image | None) -> Values | None:
    """Return the values of an image with more than 8 bits per channel, (h, w) or (h, w, c) without transparency.

    None of other images.

    Args:
        image: Loaded.
        lower: Its `read_lower_bytes`, turned as it is.

    Raises:
        UnknownRange: They are floats or negative numbers.
    """
    if lower is not None:
        values: Values = np.asarray(image).astype(np.uint16) << 8 | np.asarray(lower)
        return values[..., :3] if image.mode.startswith("RGB") else values
    if image.mode != "F" and not is_deep_grey(image.mode):
        return None
    values = np.asarray(image)
    if image.mode == "F" or values.min() < 0:
        raise UnknownRange
    return values


def reduce_to_eight_bits(values: Values, depth: int) -> Image.Image:
    """Return the upper 8 bits of values of this depth; larger values are cut off."""
    plain = (values.clip(0, 2**depth - 1) >> (depth - 8)).astype(np.uint8)
    if plain.shape[2:] == (4,):
        return Image.frombytes("CMYK", plain.shape[1::-1], plain.tobytes())
    return Image.fromarray(plain)


def _words(image: Image.Image) -> str:
    """Return Pillow's words for how the bytes of a file are to be read; empty where it has none."""
    args = next((tile.args for tile in getattr(image, "tile", [])), ())
    return next((word for word in (args if isinstance(args, tuple) else (args,)) if isinstance(word, str)), "")


def _replace(args: Any, old: str, new: str) -> Any:
    return tuple(new if each == old else each for each in args) if isinstance(args, tuple) else new

"""Read values of more than 8 bits, floats and negative numbers from a stored image, and scale them to 8 bits.

Of 16-bit colours, Pillow keeps only the upper byte, which it finds by the byte order that the file states. If this
module decodes the same file again in the other byte order, Pillow returns the lower bytes.
"""

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from roarbench.datasets.stored_format import MIN_IS_WHITE, SIGNED, UNSIGNED, UNSUPPORTED, UnusableValues, read_kind

Values = NDArray[Any]  # (h, w) or (h, w, channels): integers of any type, or floats
NOT_FINITE = f"{UNSUPPORTED}floats with NaN or infinity, which have no shade"
_COLOUR_MODE = re.compile(r"(RGB|RGBA|CMYK);16([BLN])")  # Pillow's raw modes: channels, bits, byte order
_OTHER_BYTE_ORDER = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
_GREY_AND_TRANSPARENCY = "LA;16B"
# libtiff returns compressed values in the machine's byte order; Pillow knows this of unsigned 16-bit values alone
_NATIVE_MODES = {"F;32BF": "F;32NF", "I;32BS": "I;32NS", "I;16BS": "I;16NS"}
_BITS, _PHOTOMETRIC = 258, 262  # TIFF tags
_SAMPLED = 2048  # values of an image that are sorted to find the range that it uses
_FEW_SHADES = 16  # an image with at most this many values has no spikes to leave out
_TAIL = 0.01  # share of the values at each end that may lie outside of the range, as in tables (docs/data.md)


class UsedRange(NamedTuple):
    """Range of an image's values, without spikes at its ends and without the outer hundredth at each end."""

    low: float
    high: float
    shades: int  # number of different values in the range, in a sample


def is_high_depth_grey(mode: str) -> bool:
    """Return whether a Pillow mode is grey with more than 8 bits, or floats."""
    return mode in ("I", "F") or mode.startswith("I;16")


def open_lower_bytes(image: Image.Image, content: bytes, raw_mode: str) -> Image.Image | None:
    """Return the lower bytes of a 16-bit colour image, or all bytes of 16-bit grey and transparency; None for others.

    The function also corrects the byte order of compressed TIFF files.

    Args:
        image: The image, opened but not loaded.
        content: Content of the image's file.
        raw_mode: Result of `find_raw_mode` before this call.
    """
    if raw_mode in _NATIVE_MODES and image.tile[0].codec_name == "libtiff":  # type: ignore[attr-defined]
        _replace_raw_mode(image, raw_mode, _NATIVE_MODES[raw_mode])
    colour = _COLOUR_MODE.fullmatch(raw_mode)
    if not colour and raw_mode != _GREY_AND_TRANSPARENCY:
        return None
    lower = Image.open(BytesIO(content))
    if colour:
        _replace_raw_mode(lower, raw_mode, f"{colour[1]};16{_OTHER_BYTE_ORDER[colour[2]]}")
    else:  # four bytes per pixel: both bytes of grey, both bytes of transparency
        lower._mode = "RGBA"
        _replace_raw_mode(lower, raw_mode, "RGBA")
    lower.load()
    return lower


def read_high_depth_values(
    image: Image.Image, lower: Image.Image | None, raw_mode: str, tags: Mapping[int, Any]
) -> Values | None:
    """Return the values of an image that are no bytes, (h, w) or (h, w, channels); None for other images.

    A transparency channel is left out. White is the largest value.

    Args:
        image: The loaded image.
        lower: Result of `open_lower_bytes`, in the same orientation as the image.
        raw_mode: Result of `find_raw_mode` before the image was loaded.
        tags: Tags of a TIFF file; empty for other formats.

    Raises:
        UnusableValues: Floats are not finite.
    """
    if lower is not None:
        lower_bytes = np.asarray(lower)
        if raw_mode == _GREY_AND_TRANSPARENCY:
            grey: Values = lower_bytes[..., 0].astype(np.uint16) << 8 | lower_bytes[..., 1]
            return grey
        values: Values = np.asarray(image).astype(np.uint16) << 8 | lower_bytes
        return values[..., :3] if image.mode.startswith("RGB") else values
    if image.mode == "L" and read_kind(tags) == SIGNED:
        return np.asarray(image).view(np.int8).astype(np.int32)
    if not is_high_depth_grey(image.mode):
        return None
    values = np.asarray(image)
    if image.mode == "F":
        if not np.isfinite(values).all():
            raise UnusableValues(NOT_FINITE)
        return values
    if image.mode != "I":
        values = values.astype(np.uint16, copy=False)  # in the machine's byte order
        return ~values if tags and tags.get(_PHOTOMETRIC, MIN_IS_WHITE) == MIN_IS_WHITE else values
    return values.view(np.uint32) if read_kind(tags) == UNSIGNED and tags.get(_BITS) == (32,) else values


def read_deep_pnm(content: bytes, image: Image.Image) -> Values | None:
    """Return the values of a binary PPM of more than 8 bits, scaled to 16 bits, uint16 (h, w, 3); None for others."""
    if image.format != "PPM" or not content.startswith(b"P6") or image.tile[0].args == "RGB":  # type: ignore[attr-defined]
        return None
    tile = image.tile[0]  # type: ignore[attr-defined]
    largest = tile.args[1]
    if largest < 256:
        return None
    width, height = image.size
    pixels = content[tile.offset :][: 6 * width * height]
    if len(pixels) < 6 * width * height and not ImageFile.LOAD_TRUNCATED_IMAGES:
        raise OSError("image file is truncated")
    values = np.frombuffer(pixels.ljust(6 * width * height, b"\0"), ">u2").reshape(height, width, 3)
    scaled: Values = np.rint(values.clip(0, largest) * (65535 / largest)).astype(np.uint16)
    return scaled


def reduce_to_eight_bits(values: Values, depth: int, window: tuple[float, ...] = ()) -> NDArray[np.uint8]:
    """Scale a window of values to 0 … 255, or keep the upper 8 of `depth` bits; values outside are clipped."""
    if window and values.dtype == np.uint16:
        return _make_lookup_table(window)[values]
    if window:
        return _scale_window(values, window)
    highest = np.iinfo(values.dtype).max
    clipped = values if values.dtype.kind == "u" and 2**depth > highest else values.clip(0, min(2**depth - 1, highest))
    return (clipped >> (depth - 8)).astype(np.uint8)


def make_image(pixels: NDArray[np.uint8]) -> Image.Image:
    """Make an image of pixels (h, w) or (h, w, channels), in grey, RGB or CMYK."""
    if pixels.shape[2:] == (4,):
        return Image.frombytes("CMYK", pixels.shape[1::-1], pixels.tobytes())
    return Image.fromarray(pixels)


def _scale_window(values: Values, window: tuple[float, ...]) -> NDArray[np.uint8]:
    low, high = window
    scaled = (values.astype(np.float64) - low) * (255 / (high - low))
    plain: NDArray[np.uint8] = np.rint(scaled.clip(0, 255)).astype(np.uint8)
    return plain


@lru_cache(1)
def _make_lookup_table(window: tuple[float, ...]) -> NDArray[np.uint8]:
    return _scale_window(np.arange(2**16), window)


def sample_without_spikes(values: Values) -> Values:
    """Return a sorted sample of an image's values, without its smallest and its largest value.

    A burnt-in marker has the largest value, padding the smallest; neither says which range the photograph uses.
    """
    pixels = values.reshape(values.shape[0] * values.shape[1], -1)
    # NumPy's stable sort of 16-bit integers is radix sort
    sample = np.sort(pixels[:: len(pixels) // _SAMPLED | 1], axis=None, kind="stable")
    first, last = np.searchsorted(sample, sample[0], "right"), np.searchsorted(sample, sample[-1], "left")
    inner = sample[first:last]
    return inner if len(inner) and _count_shades(inner) > _FEW_SHADES else sample


def find_used_range(sample: Values) -> UsedRange:
    """Return the range between the 1st and the 99th percentile of a sorted sample."""
    last = len(sample) - 1
    first, final = round(_TAIL * last), round((1 - _TAIL) * last)
    low, high = sample[[first, final]].astype(np.float64).tolist()
    return UsedRange(low, high, _count_shades(sample[first : final + 1]))


def _count_shades(ordered: Values) -> int:
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def find_raw_mode(image: Image.Image) -> str:
    """Return Pillow's name for the byte layout of an image's file; an empty string if there is no such name."""
    args = next((tile.args for tile in getattr(image, "tile", [])), ())
    return next((word for word in (args if isinstance(args, tuple) else (args,)) if isinstance(word, str)), "")


def _replace_raw_mode(image: Any, old: str, new: str) -> None:
    for place, tile in enumerate(image.tile):
        args = tuple(new if word == old else word for word in tile.args) if isinstance(tile.args, tuple) else new
        image.tile[place] = tile._replace(args=args)

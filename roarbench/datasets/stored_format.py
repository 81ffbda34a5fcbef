"""Refuse formats of stored images that Pillow reads wrongly or in part, and scale values of more than 8 bits to 8 bits.

Pillow takes unspecified bands for transparency, wraps values of JPEG 2000 and of signed bytes, and has one message for
all files that it cannot read. docs/works-with.md has the list, with its sources.

Of 16-bit colours, Pillow keeps only the upper byte, which it finds by the byte order that the file states. If this
module decodes the same file again in the other byte order, Pillow returns the lower bytes.
"""

import logging
import re
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, TiffImagePlugin

logging.getLogger("PIL").addHandler(logging.NullHandler())  # Pillow's line on too many bands, one for each file

UNSUPPORTED = "unsupported: "  # the start of a kind of damage that names a format
FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")  # Pillow's names
# TIFF 6.0: tags and their values
_BITS, _COMPRESSION, _PHOTOMETRIC, _SAMPLES, _PLANES, _EXTRA, _KIND = 258, 259, 262, 277, 284, 338, 339
MIN_IS_WHITE, _RGB, _CMYK, _YCBCR, _LAB = 0, 2, 5, 6, 8
_TIFF_STARTS, BIG_ENDIAN_BIGTIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), b"MM\0+"
_JPEG_COMPRESSIONS = (6, 7)
_COLOURS = {_RGB: 3, _CMYK: 4, _YCBCR: 3, _LAB: 3}  # bands of a photometric interpretation, if not 1
_PREMULTIPLIED, _TRANSPARENCY = 1, (1, 2)  # ExtraSamples of transparency
UNSIGNED, SIGNED, FLOAT = 1, 2, 3  # SampleFormat
_KINDS = {UNSIGNED: "bits", SIGNED: "signed bits", FLOAT: "bits of floats", 5: "complex", 6: "complex"}
_OTHER_PHOTOMETRIC = {9: "ICCLAB", 10: "ITULAB", 32803: "a colour filter array", 34892: "linear raw data"}
_CODESTREAM = b"\xff\x4f\xff\x51"  # JPEG 2000: SOC and SIZ (ISO 15444-1, A.4 and A.5)
_MAX_BITS = 16
_FRAMES = (*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0), 0xF7)  # JPEG: SOF markers
_STARTS = (  # formats without a reader here, by their first bytes and the position of these bytes
    (128, b"DICM", "DICOM"),
    (4, b"ftyphei", "HEIC"),
    (4, b"ftypmif1", "HEIF"),
    (4, b"ftypavif", "AVIF, which Pillow reads from version 11.3"),
    (0, b"\xff\x0a", "JPEG XL"),
    (4, b"JXL ", "JPEG XL"),
    (0, b"\x76\x2f\x31\x01", "OpenEXR"),
)


class UnusableValues(ValueError):
    """Raised for values that cannot be read completely; the message is the kind of damage."""


def refuse_unsupported_format(image: Image.Image, content: bytes) -> None:
    """Raise UnusableValues for a format that Pillow opens, but reads wrongly, in part, or untested.

    Args:
        image: The image, opened by Pillow and not loaded.
        content: Content of the image's file.
    """
    name = image.format or ""
    if name not in FORMATS:
        raise UnusableValues(f"{UNSUPPORTED}{name}")
    checks: list[tuple[bool, str]] = []  # whether something is wrong, and what it is
    if name == "TIFF":
        tags: Mapping[int, Any] = image.tag_v2  # type: ignore[attr-defined]
        photometric = tags.get(_PHOTOMETRIC, MIN_IS_WHITE)
        samples, extra = tags.get(_SAMPLES, 1), tuple(tags.get(_EXTRA, ()))
        most, kind = max(tags.get(_BITS, (1,))), read_kind(tags)
        is_raw_ycbcr = photometric == _YCBCR and tags.get(_COMPRESSION) not in _JPEG_COMPRESSIONS
        is_multiplied = extra == (_PREMULTIPLIED,) and (most > 8 or samples < 3)
        is_odd_white = photometric == MIN_IS_WHITE and (kind != UNSIGNED or most not in (1, 2, 4, 8, 16))
        checks = [
            (photometric == _LAB, "TIFF of CIE Lab colours"),
            (_has_too_many_bands(tags), f"TIFF with {samples} bands"),
            (is_raw_ycbcr, "TIFF of YCbCr colours without JPEG compression"),
            (most > 8 and tags.get(_PLANES) == 2 and samples > 1, "TIFF of 16 bits per channel in planes"),
            (is_multiplied, f"TIFF of {samples} bands of {most} bits, multiplied by transparency"),
            (is_odd_white, f"TIFF of {most} {_KINDS.get(kind, '')} whose smallest value is white"),
        ]
    elif name == "JPEG2000":
        start = content.index(_CODESTREAM) + 2
        count = struct.unpack_from(">H", content, start + 38)[0]
        depths = [content[start + 40 + 3 * band] for band in range(count)]
        bits = [(depth & 0x7F) + 1 for depth in depths]
        signed = "signed " if any(depth & 0x80 for depth in depths) else ""
        # Pillow (Jpeg2KDecode.c) shifts values of fewer than 8 bits up: white of 4 bits becomes 240. It rounds values
        # of more bits before it cuts them to 8: the brightest become 0. Only grey keeps 16 bits
        is_wrong = len(set(bits)) > 1 or not 8 <= max(bits) <= _MAX_BITS or (count > 1 and max(bits) > 8)
        # the box `cdef` names the channel of transparency
        has_box = 0 <= content.find(b"cdef") <= content.find(_CODESTREAM)
        is_open = not has_box and (count == 2 or count == 4 and image.mode != "CMYK")
        seen = f"JPEG 2000 with {count} channels of {_join(bits)} {signed}bits"
        checks = [(is_wrong or bool(signed), seen), (is_open, f"JPEG 2000 with {count} bands")]
    elif name == "PPM":
        # Pillow has kinds of its own, such as PyRGBA, and cuts the values of a plain PPM to 8 bits
        is_foreign = content[1:2] not in b"123456f" or not content[2:3].isspace()
        checks = [(is_foreign, f"PNM of the kind {content[:2].decode('ascii', 'replace')}")]
        if content[:2] == b"P3":
            checks.append((image.tile[0].args[1] > 255, "plain PPM of more than 8 bits"))  # type: ignore[attr-defined]
    for is_wrong, seen in checks:
        if is_wrong:
            raise UnusableValues(f"{UNSUPPORTED}{seen}")


def describe_unreadable_format(content: bytes) -> str:
    """Return the kind of a file that Pillow does not open, with its cause; an empty string if it is unknown."""
    cause = ""
    try:
        if content[:3] == b"\xff\xd8\xff":
            cause = _describe_jpeg(content)
        elif content[:4] in _TIFF_STARTS:
            cause = _describe_tiff_file(content)
    except Exception:  # the header is damaged
        return ""
    cause = cause or next((name for at, start, name in _STARTS if content.startswith(start, at)), "")
    return f"{UNSUPPORTED}{cause}" if cause else ""


def _has_too_many_bands(tags: Mapping[int, Any]) -> bool:
    """Return whether a TIFF file has bands beside its colours and one of transparency."""
    extra = tuple(tags.get(_EXTRA, ()))
    with_transparency = len(extra) == 1 and extra[0] in _TRANSPARENCY
    colours = _COLOURS.get(tags.get(_PHOTOMETRIC, MIN_IS_WHITE), 1)
    return bool(tags.get(_SAMPLES, 1) > colours + with_transparency)


def read_kind(tags: Mapping[int, Any]) -> int:
    """Return the SampleFormat of a TIFF file: `UNSIGNED`, `SIGNED`, `FLOAT` or another number."""
    kinds = tags.get(_KIND, (UNSIGNED,))
    return int(kinds[0]) if isinstance(kinds, Sequence) else int(kinds)


def _describe_jpeg(content: bytes) -> str:
    """Describe what Pillow does not read of a JPEG, from its frame header (ITU T.81, B.2.2)."""
    at = 2
    while content[at] == 0xFF and content[at + 1] not in _FRAMES:
        at += 2 + struct.unpack_from(">H", content, at + 2)[0]
    marker, bits, channels = content[at + 1], content[at + 4], content[at + 9]
    if marker == 0xF7:
        return "JPEG-LS"
    lossless = "lossless " if marker in (0xC3, 0xCB) else ""
    if bits != 8:
        return f"{lossless}JPEG of {bits} bits per channel"
    if channels not in (1, 3, 4):
        return f"JPEG with {channels} channels"
    return "lossless JPEG" if lossless else ""


def _describe_tiff_file(content: bytes) -> str:
    if content[:4] == BIG_ENDIAN_BIGTIFF:
        return "BigTIFF of big-endian byte order"
    file = BytesIO(content)
    directory = TiffImagePlugin.ImageFileDirectory_v2(file.read(16 if content[2] == 43 else 8))
    file.seek(directory.next)
    directory.load(file)
    samples, bits, kind = directory.get(_SAMPLES, 1), directory.get(_BITS, (1,)), read_kind(directory)
    photometric = directory.get(_PHOTOMETRIC, MIN_IS_WHITE)
    colours = _OTHER_PHOTOMETRIC.get(photometric)
    if colours or _has_too_many_bands(directory):
        return f"TIFF {f'of {colours}' if colours else f'with {samples} bands'}"
    if tuple(directory.get(_EXTRA, ())) == (_PREMULTIPLIED,):
        return f"TIFF of {samples} bands of {_join(bits)} bits, multiplied by transparency"
    order = "big-endian " if content[:2] == b"MM" else ""
    smallest = " whose smallest value is white" if photometric == MIN_IS_WHITE else ""
    return f"{order}TIFF of {_join(bits)} {_KINDS.get(kind, 'bits')}{smallest}"


def _join(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, dict.fromkeys(numbers)))


Values = NDArray[Any]  # (h, w) or (h, w, channels): integers of any type, or floats
NOT_FINITE = f"{UNSUPPORTED}floats with NaN or infinity, which have no shade"
_COLOUR_MODE = re.compile(r"(RGB|RGBA|CMYK);16([BLN])")  # Pillow's raw modes: channels, bits, byte order
_OTHER_BYTE_ORDER = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
_GREY_AND_TRANSPARENCY = "LA;16B"
# libtiff returns compressed values in the machine's byte order; Pillow knows this of unsigned 16-bit values alone
_NATIVE_MODES = {"F;32BF": "F;32NF", "I;32BS": "I;32NS", "I;16BS": "I;16NS"}
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

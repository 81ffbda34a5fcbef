"""Name the format of a stored image, and refuse formats that Pillow reads wrongly or in part.

Pillow takes unspecified bands for transparency, wraps values of JPEG 2000 and of signed bytes, and has one message for
all files that it cannot read. docs/works-with.md has the list, with its sources.
"""

import logging
import struct
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from PIL import Image, TiffImagePlugin

logging.getLogger("PIL").addHandler(logging.NullHandler())  # Pillow's line on too many bands, one for each file

UNSUPPORTED = "unsupported: "  # the start of a kind of damage that names a format
FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")  # Pillow's names
NARROW = f"{UNSUPPORTED}TIFF of 16 bits per channel in planes"
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
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"\x76\x2f\x31\x01", "OpenEXR"),
    (0, b"\x89HDF", "HDF5"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"\x1f\x8b", "gzip"),
    (0, b"%PDF", "PDF"),
    (0, b"#?RADIANCE", "Radiance HDR"),
    (0, b"PF", "PFM of three channels"),
    (0, b"P7", "PAM"),
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
    if name == "TIFF":
        _refuse_tiff(image.tag_v2)  # type: ignore[attr-defined]
    elif name == "JPEG2000":
        _refuse_jpeg_2000(image, content)
    elif name == "PPM":
        _refuse_pnm(image, content)


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


def _refuse_tiff(tags: Mapping[int, Any]) -> None:
    photometric = tags.get(_PHOTOMETRIC, MIN_IS_WHITE)
    samples, extra = tags.get(_SAMPLES, 1), tuple(tags.get(_EXTRA, ()))
    bits, kind = max(tags.get(_BITS, (1,))), read_kind(tags)
    if photometric == _LAB:
        raise UnusableValues(f"{UNSUPPORTED}TIFF of CIE Lab colours")
    if _has_too_many_bands(tags):
        raise UnusableValues(f"{UNSUPPORTED}TIFF with {samples} bands")
    if photometric == _YCBCR and tags.get(_COMPRESSION) not in _JPEG_COMPRESSIONS:
        raise UnusableValues(f"{UNSUPPORTED}TIFF of YCbCr colours without JPEG compression")
    if bits > 8 and tags.get(_PLANES) == 2 and samples > 1:
        raise UnusableValues(NARROW)
    if extra == (_PREMULTIPLIED,) and (bits > 8 or samples < 3):
        raise UnusableValues(f"{UNSUPPORTED}TIFF of {samples} bands of {bits} bits, multiplied by transparency")
    if photometric == MIN_IS_WHITE and (kind != UNSIGNED or bits not in (1, 2, 4, 8, 16)):
        raise UnusableValues(f"{UNSUPPORTED}TIFF of {bits} {_KINDS.get(kind, '')} whose smallest value is white")


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


def _refuse_jpeg_2000(image: Image.Image, content: bytes) -> None:
    start = content.index(_CODESTREAM) + 2
    count = struct.unpack_from(">H", content, start + 38)[0]
    depths = [content[start + 40 + 3 * band] for band in range(count)]
    bits = [(depth & 0x7F) + 1 for depth in depths]
    signed = "signed " if any(depth & 0x80 for depth in depths) else ""
    # Pillow (Jpeg2KDecode.c) shifts values of fewer than 8 bits up: white of 4 bits becomes 240. It rounds values of
    # more bits before it cuts them to 8: the brightest become 0. Only grey keeps 16 bits
    if len(set(bits)) > 1 or not 8 <= max(bits) <= _MAX_BITS or (count > 1 and max(bits) > 8) or signed:
        raise UnusableValues(f"{UNSUPPORTED}JPEG 2000 with {count} channels of {_join(bits)} {signed}bits")
    if count == 2 or count == 4 and image.mode != "CMYK":  # the box `cdef` names the channel of transparency
        box = content.find(b"cdef")
        if box < 0 or content.find(_CODESTREAM) < box:
            raise UnusableValues(f"{UNSUPPORTED}JPEG 2000 with {count} bands")


def _refuse_pnm(image: Image.Image, content: bytes) -> None:
    kind = content[:2]
    if kind[1:] not in b"123456f" or not content[2:3].isspace():  # Pillow has kinds of its own, such as PyRGBA
        raise UnusableValues(f"{UNSUPPORTED}PNM of the kind {kind.decode('ascii', 'replace')}")
    if kind == b"P3" and image.tile[0].args[1] > 255:  # type: ignore[attr-defined]  # Pillow cuts the values to 8 bits
        raise UnusableValues(f"{UNSUPPORTED}plain PPM of more than 8 bits")


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

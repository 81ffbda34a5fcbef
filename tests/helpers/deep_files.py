"""Files of images with 16 bits per channel, which Pillow does not write in colour."""

import struct
import zlib

_CHANNELS = {1: 0, 2: 4, 3: 2, 4: 6}  # of a PNG's header: grey, grey with transparency, colour, with transparency


def deep_png(values, exif=b""):
    """The PNG of values (h, w, c) below 65,536."""
    height, width, channels = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, _CHANNELS[channels], 0, 0, 0)
    parts = ((b"IHDR", header), *([(b"eXIf", exif)] if exif else []), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    file = b"\x89PNG\r\n\x1a\n"
    for name, data in parts:
        file += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return file


def deep_tiff(values, order="<", packed=False, planes=False):
    """The TIFF of values (h, w, 3) below 65,536, of either order of bytes."""
    height, width, channels = values.shape
    pixels = (values.transpose(2, 0, 1) if planes else values).astype(f"{order}u2").tobytes()
    pixels = zlib.compress(pixels) if packed else pixels
    bits, start = struct.pack(f"{order}3H", 16, 16, 16), 8
    at = start + len(pixels)
    offset = at + len(bits)
    each = height * width * 2
    tags = [(256, 3, 1, width), (257, 3, 1, height), (258, 3, 3, at), (259, 3, 1, 8 if packed else 1), (262, 3, 1, 2)]
    tags += [(273, 4, 1, start), (277, 3, 1, channels), (278, 3, 1, height)]
    tags += [(279, 4, 1, len(pixels)), (284, 3, 1, 1 + planes)]
    extra = b""
    if planes:
        behind = offset + 2 + 12 * len(tags) + 4
        places = struct.pack(f"{order}3I", *(start + each * i for i in range(3)))
        extra = places + struct.pack(f"{order}3I", each, each, each)
        tags[5], tags[8] = (273, 4, 3, behind), (279, 4, 3, behind + 12)
    table = b"".join(_tag(order, *tag) for tag in tags)
    mark = b"II*\0" if order == "<" else b"MM\0*"
    first = mark + struct.pack(f"{order}I", offset)
    return first + pixels + bits + struct.pack(f"{order}H", len(tags)) + table + struct.pack(f"{order}I", 0) + extra


def _tag(order, number, kind, count, value):
    form, values = ("HHIHH", (value, 0)) if kind == 3 and count == 1 else ("HHII", (value,))
    return struct.pack(order + form, number, kind, count, *values)

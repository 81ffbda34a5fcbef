"""Encoders of PNG, TIFF and PPM files from known values, by `struct` and `zlib`, so that no image library is trusted.

Values are integers or floats (h, w, bands), as the file stores them. TIFF 6.0, the BigTIFF design and PNG (ISO 15948)
are followed; section numbers are in the comments.
"""

import struct
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

_ADAM7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


def pack_rows(values: np.ndarray, bits: int, order: str = ">", kind: str = "u") -> list[bytes]:
    """Pack each row of values (h, w, bands) with `bits` bits per value, the highest bit first, to whole bytes."""
    rows = values.reshape(len(values), -1)
    if bits in (8, 16, 32, 64):
        return [row.astype(f"{order}{kind}{bits // 8}").tobytes() for row in rows]
    shifts = np.arange(bits)[::-1]
    ones = (rows.astype(np.int64)[..., None] >> shifts & 1).astype(np.uint8).reshape(len(rows), -1)
    return [np.packbits(row).tobytes() for row in ones]


def encode_png(
    values: np.ndarray, bits: int, colour: int, interlaced: bool = False, chunks: Sequence[tuple[bytes, bytes]] = ()
) -> bytes:
    """Encode values as PNG of a colour type: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGBA."""
    height, width = values.shape[:2]
    passes = [values[y::dy, x::dx] for y, x, dy, dx in _ADAM7] if interlaced else [values]
    lines = b"".join(b"\0" + row for part in passes if part.size for row in pack_rows(part, bits))
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced)
    all_chunks = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in all_chunks
    )


def encode_tiff(
    values: np.ndarray,
    bits: int = 8,
    *,
    order: str = "<",
    kind: str = "u",
    photometric: int | None = None,
    compressed: bool = False,
    predictor: int = 1,
    tile: int = 0,
    planes: bool = False,
    big: bool = False,
    strip: int = 0,
    extra: Sequence[int] = (),
    tags: Mapping[int, Sequence[int]] = {},
    pages: int = 1,
) -> bytes:
    """Encode values as TIFF of `bits` bits per value.

    Args:
        values: Values (h, w, bands).
        bits: Bits per value.
        order: `<` for `II`, `>` for `MM`.
        kind: `u` unsigned, `i` signed, `f` float.
        photometric: PhotometricInterpretation; by default 2 for three bands or more, else 1.
        compressed: Use Deflate (compression 8) instead of no compression.
        predictor: 2 for differences, 3 for differences of floats' bytes.
        tile: Side of square tiles, a multiple of 16; 0 for strips.
        planes: Store each band by itself.
        big: Write BigTIFF.
        strip: Rows of each strip; 0 for all rows.
        extra: ExtraSamples.
        tags: Further tags, of type SHORT.
        pages: Number of pages, all alike.
    """
    height, width, bands = values.shape
    planar = [values[..., [band]] for band in range(bands)] if planes else [values]
    blocks = [part for plane in planar for part in _cut_blocks(plane, tile, strip)]
    data = [_encode_block(block, bits, order, kind, predictor) for block in blocks]
    data = [zlib.compress(block) for block in data] if compressed else data
    photometric = photometric if photometric is not None else 2 if bands > 2 else 1
    found: dict[int, tuple[str, Sequence[int]]] = {
        256: ("I", [width]), 257: ("I", [height]), 258: ("H", [bits] * bands), 259: ("H", [8 if compressed else 1]),
        262: ("H", [photometric]), 277: ("H", [bands]), 284: ("H", [2 if planes else 1]),
        339: ("H", [{"u": 1, "i": 2, "f": 3}[kind]] * bands),
    }  # fmt: skip
    found |= {338: ("H", extra)} if extra else {}
    found |= {317: ("H", [predictor])} if predictor > 1 else {}
    found |= {tag: ("H", items) for tag, items in tags.items()}
    sizes = [len(block) for block in data]
    if tile:
        found |= {322: ("I", [tile]), 323: ("I", [tile]), 324: ("I", sizes), 325: ("I", sizes)}
    else:
        found |= {273: ("I", sizes), 278: ("I", [strip or height]), 279: ("I", sizes)}
    return _join_tiff(found, data, order, big, pages)


def _cut_blocks(plane: np.ndarray, tile: int, strip: int) -> list[np.ndarray]:
    if not tile:
        return [plane[top : top + strip] for top in range(0, len(plane), strip)] if strip else [plane]
    height, width = plane.shape[:2]
    padded = np.pad(plane, ((0, -height % tile), (0, -width % tile), (0, 0)))
    return [
        padded[top : top + tile, left : left + tile] for top in range(0, height, tile) for left in range(0, width, tile)
    ]


def _encode_block(block: np.ndarray, bits: int, order: str, kind: str, predictor: int) -> bytes:
    if predictor == 2:  # section 14: differences to the left neighbour of the same band, modulo 2^bits
        wide = block.astype(np.int64)
        block = np.diff(wide, axis=1, prepend=np.zeros_like(wide[:, :1])) % 2**bits
        return b"".join(pack_rows(block, bits, order))
    if predictor == 3:  # Technical Note 3: bytes of equal weight together, highest first, then differences
        by_value = block.astype(f">f{bits // 8}").view(np.uint8).reshape(len(block), -1, bits // 8)
        row_bytes = by_value.transpose(0, 2, 1).reshape(len(block), -1).astype(np.int64)
        bands = block.shape[2]
        row_bytes[:, bands:] -= row_bytes[:, :-bands].copy()
        return bytes((row_bytes % 256).astype(np.uint8).tobytes())
    return b"".join(pack_rows(block, bits, order, kind))


def _join_tiff(
    found: Mapping[int, tuple[str, Sequence[int]]], data: Sequence[bytes], order: str, big: bool, pages: int
) -> bytes:
    mark = b"II" if order == "<" else b"MM"
    number = "Q" if big else "I"
    room = struct.calcsize(f"{order}{number}")
    start = 16 if big else 8
    content = mark + (struct.pack(f"{order}HHHQ", 43, 8, 0, start) if big else struct.pack(f"{order}HI", 42, start))
    for page in range(pages):
        count = struct.pack(f"{order}{'Q' if big else 'H'}", len(found))
        after = len(content) + len(count) + len(found) * (4 + 2 * room) + room  # first byte behind the directory
        values = {tag: struct.pack(f"{order}{len(items)}{kind}", *items) for tag, (kind, items) in found.items()}
        places, outside = {}, b""
        for tag, packed in values.items():
            if len(packed) > room:
                places[tag] = after + len(outside)
                outside += packed + b"\0" * (len(packed) % 2)
        starts = after + len(outside) + np.cumsum([0, *map(len, data)])
        offsets = struct.pack(f"{order}{len(data)}I", *starts[:-1].tolist())
        key = 324 if 324 in found else 273
        if key in places:
            at = places[key] - after
            outside = outside[:at] + offsets + outside[at + len(offsets) :]
        else:
            values[key] = offsets
        entries = b""
        for tag, (kind, items) in sorted(found.items()):
            held = struct.pack(f"{order}{number}", places[tag]) if tag in places else values[tag].ljust(room, b"\0")
            code = {"H": 3, "I": 4}[kind]
            entries += struct.pack(f"{order}HH{number}", tag, code, len(items)) + held
        next_page = int(starts[-1]) + int(starts[-1]) % 2 if page + 1 < pages else 0
        content += count + entries + struct.pack(f"{order}{number}", next_page) + outside + b"".join(data)
        content += b"\0" * (next_page and len(content) % 2)
    return content


def encode_pnm(values: np.ndarray, largest: int) -> bytes:
    """Encode values as binary PGM (one band) or PPM (three bands) with this maximum value."""
    height, width, bands = values.shape
    kind = ">u2" if largest > 255 else "u1"
    return (
        b"P%d\n# comment\n%d %d\n%d\n" % (5 if bands == 1 else 6, width, height, largest)
        + values.astype(kind).tobytes()
    )

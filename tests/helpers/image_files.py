"""Small image data sets with known pixels: PNG and TIFF files, parquet files, folders of photographs, and a table."""

import struct
import zlib
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from roarbench.datasets.catalogue import find_dataset

COUNTS = {"classes": 3, "train_images": 12, "test_images": 6, "size": 8}
TINY = replace(find_dataset("cifar10"), name="tiny", hub="nobody/tiny", config="", **COUNTS)
MANY = replace(TINY, train_images=1200, test_images=6)


def png(pixels: np.ndarray) -> bytes:
    """uint8 (h, w, 3) or (h, w) as PNG."""
    encoded = BytesIO()
    Image.fromarray(pixels).save(encoded, "PNG")
    return encoded.getvalue()


def write_split(folder: Path, split: str, images: list[bytes], labels: list[int], columns=("img", "label")) -> None:
    """One parquet file as the hub has it."""
    import datasets

    features = datasets.Features({columns[0]: datasets.Image(), columns[1]: datasets.Value("int64")})
    rows = {columns[0]: [{"bytes": image, "path": None} for image in images], columns[1]: labels}
    folder.mkdir(parents=True, exist_ok=True)
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(folder / f"{split}-00000-of-00001.parquet")


def write_rows(path: Path, images: list[bytes], labels: list[object], **options: int) -> None:
    """One parquet file of images and labels of any kind, written by pyarrow."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"img": [{"bytes": image, "path": None} for image in images], "label": labels})
    pq.write_table(table, path, **options)


def tiny_pixels() -> dict[str, np.ndarray]:
    """uint8 (n, 8, 8, 3) of both splits."""
    rng = np.random.default_rng(0)
    counts = {"train": TINY.train_images, "test": TINY.test_images}
    return {split: rng.integers(0, 256, (count, 8, 8, 3), np.uint8) for split, count in counts.items()}


def tiny_images(split: str) -> list[bytes]:
    return [png(image) for image in tiny_pixels()[split]]


TINY_LABELS = {"train": [2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 1, 1], "test": [0, 1, 2, 2, 1, 0]}


CLASSES = ("blue", "green", "red")
TEXT = """
name = "pictures"
protocols = ["roar"]
estimators = ["grad"]
levels = [0.5]
seeds = 1
references = 1

[data]
images = "pictures"
size = 8
test_share = 0.25

[network]
name = "resnet-planted"

[recipe]
like = "planted-brief@1"
epochs = 1
warmup = 0.5
"""


def write_pictures(folder: Path, count: int = 8, seed: int = 0) -> Path:
    """Write `count` pictures of 10 x 9 pixels of each class, into a folder for each."""
    rng = np.random.default_rng(seed)
    for number, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            pixels = rng.integers(0, 128, (10, 9, 3), np.uint8)
            pixels[..., 2 - number] += 127
            (folder / name / f"{i:02}.png").write_bytes(png(pixels))
    return folder


def write_suite(folder: Path, text: str = TEXT) -> Path:
    """Write a suite and, where they are not there, its pictures beside it."""
    if not (folder / "pictures").exists():
        write_pictures(folder / "pictures")
    path = folder / "pictures.toml"
    path.write_text(text)
    return path


def write_table(path: Path, columns: int = 4) -> Path:
    """Write 40 rows of two kinds that the first column tells apart."""
    drawn = np.random.default_rng(0).normal(size=(40, columns)).round(3)
    names = [*("one", "two", "three", "four")[:columns], *(f"c{number}" for number in range(5, columns + 1))]
    lines = [
        f"{a + 4 * (i % 2)},{','.join(map(str, rest))},{'ab'[i % 2]}" for i, (a, *rest) in enumerate(drawn.tolist())
    ]
    path.write_text("\n".join([",".join([*names, "kind"]), *lines]) + "\n")
    return path


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

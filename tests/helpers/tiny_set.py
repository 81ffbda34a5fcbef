"""A tiny data set in the hub's layout: 12 + 6 images of 8 x 8 in three classes, as PNG, whose pixels are known."""

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

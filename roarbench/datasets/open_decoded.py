"""Open data sets in the decoded store, whose files of plain uint8 pixels are memory-mapped.

    FOLDER/imagenette64-bundled-1a2b3c4d/
        train-pixels.bin, test-pixels.bin    uint8 (n, c, h, w)
        train-labels.bin, test-labels.bin    int64 (n,)
        train-truth.bin, test-truth.bin      float32 (n, c, h, w), only if the true importance is known
        manifest.json                        shapes, checksums, means, repairs and source; written last

`decode_dataset` writes these files.
"""

import json
import math
import mmap
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import StoreError
from roarbench.common.files import refuse_altered_file
from roarbench.common.identity import check_checksum
from roarbench.datasets.catalogue import DatasetRecord

FORMAT = 2  # increases with every change of the code that gives the same source other pixels or files
MANIFEST = "manifest.json"
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0  # MAP_NORESERVE, which Python's mmap has from 3.13 on


@dataclass(frozen=True)
class SplitImages:
    """The images of one split; writing to the arrays does not change the files."""

    pixels: NDArray[np.uint8]  # uint8 (n, c, h, w), memory-mapped, because ImageNet's pixels take 193 GB
    labels: NDArray[np.int64]  # int64 (n,), in [0, classes)
    # true importance of each feature, float32 (n, c, h, w), memory-mapped; None if unknown
    truth: NDArray[np.float32] | None


@dataclass(frozen=True, eq=False)
class ImageData:
    """A decoded data set; its pickle holds only the path of the folder, and each process opens the folder once."""

    record: DatasetRecord
    folder: Path  # folder of the decoded data set
    train: SplitImages  # train, test: the two splits
    test: SplitImages
    mean: tuple[float, ...]  # mean, std: of each channel over the training images, in [0, 255]
    std: tuple[float, ...]
    # hash of pixels, labels, true importance, limit, and the record's mean and std, but not of the source: equal images
    # from different sources have the same fingerprint
    fingerprint: str
    limit: int | None  # images per split of a reduced data set; None for the whole
    # number of repaired images, by kind of repair; `decode_image.describe_repairs` formats the counts
    repairs: Mapping[str, int]

    def __getitem__(self, split: Split) -> SplitImages:
        return self.train if split is Split.TRAIN else self.test

    def __reduce__(self) -> tuple[Callable[[Path], "ImageData"], tuple[Path]]:
        return _open_decoded_cached, (self.folder,)


def open_decoded(folder: Path) -> ImageData:
    """Open a decoded data set; raise StoreError if it is missing, damaged or has another format."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if (seen := manifest["format"]) != FORMAT:
            raise StoreError(f"{folder} has format {seen}, but this version reads {FORMAT}; delete the folder")
        check_checksum(manifest)
        record = DatasetRecord(**manifest["record"])
        opened = []
        for split in Split:
            entry = manifest["splits"][split]
            shape = (entry["images"], *record.shape)
            pixels = _map_file(folder / f"{split}-pixels.bin", np.uint8, shape)
            labels = _map_file(folder / f"{split}-labels.bin", np.int64, shape[:1])
            truth = _map_file(folder / f"{split}-truth.bin", np.float32, shape) if "truth" in entry else None
            opened.append(SplitImages(pixels, labels, truth))
        train, test = opened
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{folder} is not a decoded data set ({error}); delete the folder and run again") from error
    mean, std = tuple(manifest["mean"]), tuple(manifest["std"])
    repairs_by_split = manifest.get("repairs", {})
    if record.test_only:  # both splits have the same images
        repairs_by_split.pop(Split.TRAIN, None)
    repairs = sum(map(Counter, repairs_by_split.values()), Counter[str]())
    return ImageData(record, folder, train, test, mean, std, manifest["fingerprint"], manifest["limit"], repairs)


@lru_cache(maxsize=2)
def _open_decoded_cached(folder: Path) -> ImageData:
    return open_decoded(folder)


def refuse_altered_split(folder: Path, split: Split, whole: bool) -> None:
    """Raise StoreError if the files of a split were altered after decoding; `refuse_altered_file` explains `whole`."""
    manifest = json.loads((folder / MANIFEST).read_text())
    for kind in ("pixels", "labels", "truth"):
        if checksum := manifest["splits"][split].get(kind):
            description, remedy = f"{split} images of {manifest['record']['name']}", f"delete {folder} and run again"
            refuse_altered_file(folder / f"{split}-{kind}.bin", checksum, description, remedy, whole)


def _map_file(path: Path, kind: type[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Map a file as an array, copy-on-write and without reserved memory.

    The map is not read-only, because torch would then print a warning for every array. Without `_NO_RESERVE`, a file
    larger than the memory could not be mapped.
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    with path.open("rb") as file:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        mapped = mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE | _NO_RESERVE, prot=access)
    return np.frombuffer(mapped, kind).reshape(shape)

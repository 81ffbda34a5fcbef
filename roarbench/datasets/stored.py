"""Stored images, undecoded: files in folders of classes, and parquet files in the hub's layout.

Both are read a little at a time: labels first, then images, group by group. Of parquet files Hugging Face `datasets`
says which make up which split; `pyarrow` reads them where they lie. Nothing is copied into a cache of `datasets`, which
would take the disk twice.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from roarbench.errors import DataError

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_GROUP = 256  # files that one process decodes in one go
_CHUNK = 64  # images held in memory at once: Birdsnap's are of 1.6 MB
_BUFFER = 2**20  # bytes; without it a row group's whole column, 100 MiB and more, would be read at once


class FileGroup(NamedTuple):
    """Some image files of a split."""

    folder: Path  # of all of them
    files: tuple[str, ...]  # their paths below it, with slashes

    @property
    def rows(self) -> int:
        """Return how many they are."""
        return len(self.files)


def class_names(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, hidden ones left out, in order."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        seen = f"cannot read {folder}: {error.strerror}"
        raise DataError(f"{seen}; write a folder with a folder of images of each class") from error


def read_folder(folder: Path, classes: Sequence[str]) -> tuple[tuple[FileGroup, ...], NDArray[np.int64]]:
    """Return the images of these classes in groups, and the numbers of their classes, int64 (n,), which ascend.

    Each lies in the folder of its class or below it, in the order of the names. DataError where a class has no image,
    or a folder cannot be read.
    """
    files: list[str] = []
    counts = []
    for name in classes:
        found = sorted(_images(folder, name))
        if not found:
            raise DataError(f"{folder / name} has no image; expected files that end in {', '.join(ENDINGS)}")
        files += found
        counts.append(len(found))
    groups = (FileGroup(folder, tuple(files[start : start + _GROUP])) for start in range(0, len(files), _GROUP))
    return tuple(groups), np.repeat(np.arange(len(classes)), counts)


def _images(folder: Path, name: str) -> Iterator[str]:
    try:
        for path in (folder / name).rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if path.suffix.lower() in ENDINGS and not hidden and path.is_file():
                yield path.relative_to(folder).as_posix()
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from error


def read_files(group: FileGroup, rows: NDArray[np.int64]) -> Iterator[list[bytes]]:
    """Yield the contents of image files, `_CHUNK` at most at a time; rows ascend from the start of the group.

    DataError where one cannot be read.
    """
    try:
        for start in range(0, len(rows), _CHUNK):
            yield [(group.folder / group.files[int(row)]).read_bytes() for row in rows[start : start + _CHUNK]]
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from error


class RowGroup(NamedTuple):
    """A part of a parquet file that can be read without the rest of it."""

    file: Path
    number: int
    rows: int


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Add the file's name to an error of pyarrow's: a set has hundreds."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise OSError(f"{file.name}: {error}") from error


def split_files(folder: Path) -> dict[str, list[Path]]:
    """Return the parquet files of each split of a folder, in the order of their rows."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # both are read once, when the library is imported
    os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
    import datasets  # late: it takes half a second

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    found = datasets.load_dataset_builder(str(folder)).config.data_files
    return {str(split): [Path(file) for file in files] for split, files in found.items()}


def row_groups(files: list[Path]) -> tuple[RowGroup, ...]:
    """Return all row groups of a split, in the order of their rows."""
    groups = []
    for file in files:
        with _named(file), pq.ParquetFile(file) as table:
            sizes = [table.metadata.row_group(number).num_rows for number in range(table.num_row_groups)]
        groups += [RowGroup(file, number, rows) for number, rows in enumerate(sizes)]
    return tuple(groups)


def column_names(file: Path) -> list[str]:
    """Return the names of a file's columns."""
    with _named(file):
        names: list[str] = pq.read_schema(file).names
    return names


def read_column(files: list[Path], name: str) -> NDArray[Any]:
    """Read one column of numbers or words, (n,), where missing ones are None or NaN."""
    parts = []
    for file in files:
        with _named(file):
            parts.append(pq.read_table(file, columns=[name], use_threads=False)[name].to_numpy())
    return np.concatenate(parts)


def read_images(group: RowGroup, name: str, rows: NDArray[np.int64]) -> Iterator[list[bytes]]:
    """Yield stored images of a row group, `_CHUNK` at most at a time; a missing one is empty.

    The column is binary, or a struct with a binary field `bytes`; DataError where it has paths of files instead. Rows
    ascend, counted from the start of the row group.
    """
    start = 0
    with pq.ParquetFile(group.file, buffer_size=_BUFFER, pre_buffer=False) as file:
        for batch in file.iter_batches(_CHUNK, row_groups=[group.number], columns=[name], use_threads=False):
            low, high = np.searchsorted(rows, [start, start + len(batch)])
            if low < high:
                column = batch.column(0)
                stored = column.field("bytes") if pa.types.is_struct(column.type) else column
                if stored.null_count == len(stored) and column.null_count < len(column):
                    seen = f"{group.file} has no bytes in its column '{name}', as where paths alone were stored"
                    raise DataError(f"{seen}; expected the bytes of each image's file")
                yield [stored[int(row)].as_py() or b"" for row in rows[low:high] - start]
            start += len(batch)

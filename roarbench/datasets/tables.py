"""Parquet files in the hub's layout, read a little at a time: labels first, then images row group by row group.

Hugging Face `datasets` says which files make up which split; `pyarrow` reads them where they lie. Nothing is copied
into a cache of `datasets`, which would take the disk twice.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from roarbench.errors import DataError

CHUNK = 64  # images held in memory at once: Birdsnap's are of 1.6 MB
_BUFFER = 2**20  # bytes; without it a row group's whole column, 100 MiB and more, would be read at once


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
    """Yield stored images of a row group, `CHUNK` at most at a time; a missing one is empty.

    The column is binary, or a struct with a binary field `bytes`; DataError where it has paths of files instead. Rows
    ascend, counted from the start of the row group.
    """
    start = 0
    with pq.ParquetFile(group.file, buffer_size=_BUFFER, pre_buffer=False) as file:
        for batch in file.iter_batches(CHUNK, row_groups=[group.number], columns=[name], use_threads=False):
            low, high = np.searchsorted(rows, [start, start + len(batch)])
            if low < high:
                column = batch.column(0)
                stored = column.field("bytes") if pa.types.is_struct(column.type) else column
                if stored.null_count == len(stored) and column.null_count < len(column):
                    seen = f"{group.file} has no bytes in its column '{name}', as where paths alone were stored"
                    raise DataError(f"{seen}; expected the bytes of each image's file")
                yield [stored[int(row)].as_py() or b"" for row in rows[low:high] - start]
            start += len(batch)

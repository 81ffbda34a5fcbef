"""Read undecoded images and labels from parquet files in the layout of the Hugging Face hub.

Hugging Face `datasets` assigns the files to splits, and `pyarrow` reads the files in place; copies in the cache of
`datasets` would take the disk space twice.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from roarbench.common.errors import DataError
from roarbench.common.text import list_some
from roarbench.datasets.image_folders import IMAGES_PER_READ, find_split_pairs, is_train_name

LFS_POINTER_START = b"version https://git-lfs.github.com/spec/"  # first bytes of a Git LFS pointer file
_SHARD_NAME = re.compile(r"(?P<split>.*)-(?P<number>\d+)-of-(?P<count>\d+)")
_BUFFER_BYTES = 2**20  # without a buffer, pyarrow reads a row group's whole column, 100 MiB and more


class RowGroup(NamedTuple):
    """A row group of a parquet file, which can be read separately."""

    file: Path
    number: int
    rows: int


@contextmanager
def _add_file_name_to_errors(file: Path) -> Iterator[None]:
    """Add the file's name to pyarrow's errors in this block; raise DataError if the file is a Git LFS pointer."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        refuse_lfs_pointer(file)
        raise OSError(f"{file.name}: {error}") from error


def refuse_lfs_pointer(file: Path) -> None:
    """Raise DataError if a file is a Git LFS pointer, a placeholder for a file that was not downloaded."""
    with suppress(OSError), file.open("rb") as opened:
        if opened.read(len(LFS_POINTER_START)) == LFS_POINTER_START:
            raise DataError(f"{file} is a pointer of Git LFS, not the file itself; run `git lfs pull` there")


def list_split_files(folder: Path) -> dict[str, list[Path]]:
    """Return a dict from each split in a folder to its parquet files, in the order of their rows.

    Hugging Face `datasets` finds the splits. If `datasets` finds a single split, but names of files or folders, such as
    `Train` and `Test`, show two splits, the function returns these two splits.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # the library reads both variables once, at import
    os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
    import datasets  # the import takes half a second

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    if datasets.get_dataset_default_config_name(str(folder)) is None:
        listed = list_some(datasets.get_dataset_config_names(str(folder)))
        remedy = "name the folder that holds the files of one configuration"
        raise DataError(f"{folder} has several configurations: {listed}; {remedy}")
    data_files = datasets.load_dataset_builder(str(folder)).config.data_files
    splits: dict[str, list[Path]] = {}
    for split, paths in data_files.items():
        if tables := [Path(path) for path in paths if path.lower().endswith(".parquet")]:
            splits[str(split)] = tables
    if not splits:
        seen = f"{folder} has splits of files of other kinds, such as {next(iter(data_files.values()))[0]}"
        raise DataError(f"{seen}; move the parquet files into a folder of their own")
    if len(splits) != 1:
        return splits
    (files,), root = splits.values(), folder.resolve()
    names = {file: str(file.relative_to(root)) for file in files if file.is_relative_to(root)}
    split_names = {name for pair in find_split_pairs(names.values()) for name in pair}
    train = [file for file, name in names.items() if name in split_names and is_train_name(name)]
    test = [file for file, name in names.items() if name in split_names and not is_train_name(name)]
    return {"train": train, "test": test} if train else splits


def refuse_missing_shards(files: list[Path]) -> None:
    """Raise DataError if names such as `train-00000-of-00003` show that files of a split are missing."""
    shards = [match for file in files if (match := _SHARD_NAME.fullmatch(file.stem))]
    for split, count, digits in {(shard["split"], shard["count"], len(shard["number"])) for shard in shards}:
        present = {int(shard["number"]) for shard in shards if (shard["split"], shard["count"]) == (split, count)}
        if lacking := [f"{split}-{n:0{digits}}-of-{count}" for n in range(int(count)) if n not in present]:
            seen = f"{files[0].parent} has {len(present)} of the {int(count)} files of '{split}'"
            raise DataError(f"{seen}; download the missing files: {list_some(lacking)}")


def list_row_groups(files: list[Path]) -> tuple[RowGroup, ...]:
    """Return all row groups of a split, in the order of their rows."""
    groups = []
    for file in files:
        with _add_file_name_to_errors(file), pq.ParquetFile(file) as table:
            sizes = [table.metadata.row_group(number).num_rows for number in range(table.num_row_groups)]
        groups += [RowGroup(file, number, rows) for number, rows in enumerate(sizes)]
    return tuple(groups)


def count_missing_images(files: list[Path], name: str) -> int:
    """Count the rows of a split whose image is null, by the files' statistics; no image is read.

    The count is 0 if all are null and paths are stored in their place, which a later check names.
    """
    missing, rows = Counter[str](), 0
    for file in files:
        with _add_file_name_to_errors(file), pq.ParquetFile(file) as table:
            rows += table.metadata.num_rows
            groups = map(table.metadata.row_group, range(table.num_row_groups))
            for column in (group.column(number) for group in groups for number in range(group.num_columns)):
                stored = column.statistics
                missing[column.path_in_schema] += stored.null_count if stored and stored.has_null_count else 0
    lacking = missing[name] + missing[f"{name}.bytes"]
    return 0 if lacking == rows > missing.get(f"{name}.path", rows) else lacking


def read_schema(file: Path) -> pa.Schema:
    """Return the names and types of the columns of a parquet file."""
    with _add_file_name_to_errors(file):
        return pq.read_schema(file)


def read_column(file: Path, name: str) -> pa.ChunkedArray:
    """Return a column of a parquet file; raise DataError if the file lacks the column."""
    if name not in (names := read_schema(file).names):
        raise DataError(f"{file} has the columns {list_some(names)}; expected '{name}', as in the first file")
    with _add_file_name_to_errors(file):
        return pq.read_table(file, columns=[name], use_threads=False)[name]


def read_row_group_column(group: RowGroup, name: str) -> pa.ChunkedArray:
    """Return a column of a row group, also the part of a struct of the name `column.field`."""
    with _add_file_name_to_errors(group.file), pq.ParquetFile(group.file) as file:
        return file.read_row_group(group.number, columns=[name], use_threads=False).column(0)


def has_class_type(kind: pa.DataType) -> bool:
    """Return whether a column type can hold classes: integers, strings, booleans, or categories of these.

    Databases give integers as decimals without decimal places.
    """
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_whole_decimal = pa.types.is_decimal(inner) and inner.scale <= 0
    return bool(pa.types.is_integer(inner) or pa.types.is_boolean(inner) or is_whole_decimal or has_text_type(inner))


def has_text_type(kind: pa.DataType) -> bool:
    """Return whether a column type holds strings, including the types that pandas, polars and `datasets` write."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner))


def read_parquet_images(group: RowGroup, name: str, rows: NDArray[np.int64]) -> Iterator[list[bytes]]:
    """Yield stored images of a row group, at most 64 at a time; a missing image gives empty bytes.

    The column `name` is binary, or a struct with a binary field `bytes`. `rows` are ascending and count from the start
    of the row group. Raises DataError if the column has paths instead of bytes.
    """
    start = 0
    with pq.ParquetFile(group.file, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
        for batch in file.iter_batches(IMAGES_PER_READ, row_groups=[group.number], columns=[name], use_threads=False):
            low, high = np.searchsorted(rows, [start, start + len(batch)])
            if low < high:
                column = batch.column(0)
                stored = column.field("bytes") if pa.types.is_struct(column.type) else column
                if stored.null_count == len(stored) and column.null_count < len(column):
                    seen = f"{group.file} has no bytes in its column '{name}', probably because only paths were stored"
                    raise DataError(f"{seen}; expected the bytes of each image's file")
                yield [stored[int(row)].as_py() or b"" for row in rows[low:high] - start]
            start += len(batch)

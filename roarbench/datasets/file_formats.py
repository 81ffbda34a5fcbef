"""Read stored images without decoding them: files in class folders, IDX files, and parquet files in the hub's layout.

The labels of class folders and parquet files are read first, then the images, group by group. Hugging Face `datasets`
assigns the parquet files to splits, and `pyarrow` reads the files in place; copies in the cache of `datasets` would
take the disk space twice.

An IDX file consists of two zero bytes, a byte for the type (8 is uint8), a byte for the number of dimensions, each
dimension as a big-endian int32, and the values (LeCun, Cortes and Burges, "The MNIST database of handwritten digits").
"""

import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.common.text import list_some

ENDINGS = (
    *(".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"),
    *(".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"),
)
POINTER = b"version https://git-lfs.github.com/spec/"  # first bytes of a Git LFS pointer file
_ARCHIVERS = ("__MACOSX", "__pycache__")  # folders that archive programs and Python create, which hold no class
_SHARD = re.compile(r"(?P<split>.*)-(?P<number>\d+)-of-(?P<count>\d+)")
_GROUP = 256  # files per decoding job
_CHUNK = 64  # images in memory at a time; Birdsnap's images take up to 1.6 MB each
_BUFFER = 2**20  # bytes of pyarrow's buffer; without a buffer it reads a row group's whole column, 100 MiB and more
# keywords of Hugging Face `datasets` (`data_files.SPLIT_KEYWORDS`); test splits come before validation splits
_TRAIN = ("train", "training")
_TEST = ("test", "testing", "eval", "evaluation", "validation", "valid", "val", "dev")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # parts of names like `seg_train`, `TrainImages`, `val2017`
_PREFIX = {Split.TRAIN: "train", Split.TEST: "t10k"}


class FileGroup(NamedTuple):
    """Some image files of a split."""

    folder: Path  # folder that contains all files, in itself or in subfolders
    files: tuple[str, ...]  # paths relative to the folder, with slashes

    @property
    def rows(self) -> int:
        """Return the number of files."""
        return len(self.files)


def list_class_names(folder: Path) -> list[str]:
    """Return the sorted names of the class folders in a folder; hidden folders are left out."""
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.is_dir()]
        return sorted(name for name in names if not name.startswith(".") and name not in _ARCHIVERS)
    except OSError as error:
        seen = f"cannot read {folder}: {error.strerror}"
        raise DataError(f"{seen}; name a folder that has one folder of images per class") from error


def list_labelled_images(folder: Path, classes: Sequence[str]) -> tuple[tuple[FileGroup, ...], NDArray[np.int64]]:
    """Return the images of these classes in groups, and the class number of each image, int64 (n,), ascending.

    The images of a class lie in the class's folder or its subfolders, and are sorted by path. Raises DataError if a
    class has no image, or a folder cannot be read.
    """
    files: list[str] = []
    counts = []
    for name in classes:
        images = sorted(_list_image_names(folder, name))
        if not images:
            raise DataError(f"{folder / name} has no image; expected files that end in {', '.join(ENDINGS)}")
        files += images
        counts.append(len(images))
    groups = (FileGroup(folder, tuple(files[start : start + _GROUP])) for start in range(0, len(files), _GROUP))
    return tuple(groups), np.repeat(np.arange(len(classes)), counts)


def _list_image_names(folder: Path, class_name: str) -> Iterator[str]:
    for path in list_files_below(folder / class_name):
        if has_image_suffix(path) and not is_hidden(path.relative_to(folder)):
            if not path.exists():
                raise DataError(f"{path} is a link to a missing file; repair or remove the link")
            yield path.relative_to(folder).as_posix()


def has_image_suffix(file: Path) -> bool:
    """Return whether the name of a file has the ending of an image."""
    return file.suffix.lower() in ENDINGS


def is_hidden(path: Path) -> bool:
    """Return whether a file or one of its folders is hidden (its name starts with a dot)."""
    return any(part.startswith(".") for part in path.parts)


def list_files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder; raise DataError if a folder cannot be read.

    Links to folders are followed, except links that lead back to a parent folder.
    """
    above = {folder: (folder.resolve(), *folder.resolve().parents)}
    for parent, folders, files in os.walk(folder, onerror=_raise_unreadable_folder, followlinks=True):
        here = above.pop(Path(parent))
        for name in list(folders):
            real = (Path(parent) / name).resolve()
            if real in here:
                folders.remove(name)
            above[Path(parent) / name] = (*here, real)
        yield from (Path(parent) / name for name in files)


def _raise_unreadable_folder(error: OSError) -> None:
    raise DataError(f"cannot read {error.filename}: {error.strerror}") from error


def read_image_files(group: FileGroup, rows: NDArray[np.int64]) -> Iterator[list[bytes]]:
    """Yield the contents of the group's files `rows`, at most `_CHUNK` at a time; raise DataError for a bad file."""
    try:
        for start in range(0, len(rows), _CHUNK):
            yield [(group.folder / group.files[int(row)]).read_bytes() for row in rows[start : start + _CHUNK]]
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from error


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
        if opened.read(len(POINTER)) == POINTER:
            raise DataError(f"{file} is a pointer of Git LFS, not the file itself; run `git lfs pull` there")


def list_split_files(folder: Path) -> dict[str, list[Path]]:
    """Return a dict from each split in a folder to its parquet files, in the order of their rows.

    Hugging Face `datasets` finds the splits. If it finds a single split, but the names of files or folders, such as
    `Train` and `Test`, name two splits, the function returns these two splits.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # the library reads both variables once, at import
    os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
    import datasets  # the import takes half a second

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    if datasets.get_dataset_default_config_name(str(folder)) is None:
        names = list_some(datasets.get_dataset_config_names(str(folder)))
        raise DataError(
            f"{folder} has several configurations: {names}; name the folder that holds the files of one configuration"
        )
    data_files = datasets.load_dataset_builder(str(folder)).config.data_files
    splits = {str(split): [Path(file) for file in files] for split, files in data_files.items()}
    if len(splits) == 1:
        splits = _divide_files_by_split_name(splits, folder.resolve())
    return splits


def _divide_files_by_split_name(only: dict[str, list[Path]], folder: Path) -> dict[str, list[Path]]:
    """Divide the files of a single split into train and test by the names of files or folders, if these name splits."""
    (files,) = only.values()
    names = {file: str(file.relative_to(folder)) for file in files if file.is_relative_to(folder)}
    split_names = {name for pair in find_split_pairs(names.values()) for name in pair}
    train = [file for file, name in names.items() if name in split_names and is_train_name(name)]
    test = [file for file, name in names.items() if name in split_names and not is_train_name(name)]
    return {"train": train, "test": test} if train else only


def refuse_missing_shards(files: list[Path]) -> None:
    """Raise DataError if names such as `train-00000-of-00003` show that files of a split are missing."""
    shards = [match for file in files if (match := _SHARD.fullmatch(file.stem))]
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


def read_schema(file: Path) -> pa.Schema:
    """Read the names and types of the columns of a parquet file."""
    with _add_file_name_to_errors(file):
        return pq.read_schema(file)


def read_column(file: Path, name: str) -> pa.ChunkedArray:
    """Read a column of a parquet file."""
    with _add_file_name_to_errors(file):
        return pq.read_table(file, columns=[name], use_threads=False)[name]


def has_class_type(kind: pa.DataType) -> bool:
    """Return whether a column type can hold classes: integers, strings, booleans, or categories of these."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_integer(inner) or pa.types.is_boolean(inner) or has_text_type(inner))


def has_text_type(kind: pa.DataType) -> bool:
    """Return whether a column type holds strings, including the types that pandas, polars and `datasets` write."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner))


def read_parquet_labels(files: list[Path], name: str) -> NDArray[Any]:
    """Read the column of labels, (n,): strings as str; integers, whole floats and booleans as int64.

    Raises DataError if the column has another type, a row has no label, or the files have different types.
    """
    parts = [_read_labels_of_file(file, name) for file in files]
    kinds = {part.dtype.kind: file.name for part, file in zip(parts, files, strict=True)}
    if len(kinds) > 1:
        seen = f"'{name}' has strings in {kinds['U']} and numbers in {kinds['i']}"
        raise DataError(f"{files[0].parent}: the label column {seen}; use the same type in all files")
    return np.concatenate(parts)


def _read_labels_of_file(file: Path, name: str) -> NDArray[Any]:
    column = read_column(file, name)
    subject = f"{file}: the label column '{name}'"
    if column.null_count:
        raise DataError(f"{subject} is empty in {column.null_count} of {len(column)} rows; expected a class for each")
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if has_text_type(column.type):
        return np.asarray(column.to_numpy().astype(str))
    values = np.asarray(column.to_numpy())
    if values.dtype.kind not in "biuf" or not np.equal(values, np.rint(values.astype(np.float64))).all():
        raise DataError(f"{subject} holds {column.type}; expected a whole number or a string for each image")
    return values.astype(np.int64)


def read_parquet_images(group: RowGroup, name: str, rows: NDArray[np.int64]) -> Iterator[list[bytes]]:
    """Yield stored images of a row group, at most `_CHUNK` at a time; a missing image gives empty bytes.

    The column `name` is binary, or a struct with a binary field `bytes`. `rows` are ascending and count from the start
    of the row group. Raises DataError if the column has paths instead of bytes.
    """
    start = 0
    with pq.ParquetFile(group.file, buffer_size=_BUFFER, pre_buffer=False) as file:
        for batch in file.iter_batches(_CHUNK, row_groups=[group.number], columns=[name], use_threads=False):
            low, high = np.searchsorted(rows, [start, start + len(batch)])
            if low < high:
                column = batch.column(0)
                stored = column.field("bytes") if pa.types.is_struct(column.type) else column
                if stored.null_count == len(stored) and column.null_count < len(column):
                    seen = f"{group.file} has no bytes in its column '{name}', probably because only paths were stored"
                    raise DataError(f"{seen}; expected the bytes of each image's file")
                yield [stored[int(row)].as_py() or b"" for row in rows[low:high] - start]
            start += len(batch)


class _SplitName(NamedTuple):
    keyword: str
    rest: tuple[str, ...]  # all words of the name except the keyword and `set`


def find_split_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Find pairs of a train name and a test name that differ only in the keyword; the preferred pair comes first.

    `Train` and `Test` are a pair, as are `seg_train` and `seg_test`, or `training_set` and `test_set`; `train` and
    `seg_test` are not.
    """
    splits = {name: split for name in names if (split := _parse_split_name(name))}
    pairs = [(a, b) for a in splits for b in splits if splits[a].rest == splits[b].rest]
    pairs = [(a, b) for a, b in pairs if splits[a].keyword in _TRAIN and splits[b].keyword in _TEST]
    return sorted(pairs, key=lambda pair: (splits[pair[0]].rest, _TEST.index(splits[pair[1]].keyword), pair))


def is_split_name(name: str) -> bool:
    """Return whether a name consists only of a split's keyword, such as `train`, and possibly the word `set`."""
    parsed = _parse_split_name(name)
    return parsed is not None and not parsed.rest


def is_train_name(name: str) -> bool:
    """Return whether a name contains the keyword of a training split."""
    parsed = _parse_split_name(name)
    return parsed is not None and parsed.keyword in _TRAIN


def _parse_split_name(name: str) -> _SplitName | None:
    words = [word.lower().removesuffix("set") for word in _WORDS.findall(name)]
    keywords = [word for word in words if word in (*_TRAIN, *_TEST)]
    if len(keywords) != 1:
        return None
    return _SplitName(keywords[0], tuple(word for word in words if word and word not in keywords))


def has_idx_files(folder: Path) -> bool:
    """Return whether a folder contains IDX files of images."""
    return any(folder.glob("*-images-idx3-ubyte*"))


def read_idx(folder: Path, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read pixels, uint8 (n, 1, h, w), and labels, int64 (n,), of a split; raise DataError for a bad file."""
    images = _read_idx_array(folder, f"{_PREFIX[split]}-images-idx3-ubyte", dimensions=3)
    labels = _read_idx_array(folder, f"{_PREFIX[split]}-labels-idx1-ubyte", dimensions=1)
    return images[:, np.newaxis], labels.astype(np.int64)


def _read_idx_array(folder: Path, name: str, dimensions: int) -> NDArray[np.uint8]:
    path = next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)
    if path is None:
        raise DataError(f"{folder} has no {name} or {name}.gz; expected all four IDX files")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if content[:4] != bytes((0, 0, 8, dimensions)):
        raise DataError(f"{path} starts with {content[:4].hex(' ')}, expected an IDX file of {dimensions} dimension(s)")
    header = 4 + 4 * dimensions
    shape = tuple(int(length) for length in np.frombuffer(content[4:header], ">i4"))
    if len(content) - header != np.prod(shape):
        raise DataError(f"{path} has {len(content) - header} values, but its header says {shape}; download it again")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)

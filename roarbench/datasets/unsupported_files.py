"""Recognise files and folders of images that roarbench does not read, and say how to convert them.

Archives, arrays, pickles, databases and shards are recognised by their names, WebDataset's archives by their members.
"""

import re
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn

from roarbench.common.errors import DataError
from roarbench.common.text import list_quoted
from roarbench.datasets.image_folders import describe_endings

_SAVE = "save images as PNG in a folder per class"
_ARRAYS = f"in Python, rb.Suite.from_arrays takes arrays of images (docs/python.md), or {_SAVE}"
_ARCHIVE = r".*\.(tar|zip|7z|rar|tar\.\w+|tgz|tbz2?|txz|gz|bz2|xz|zst)"


class _Kind(NamedTuple):
    """A kind of file that is not read."""

    pattern: str  # regular expression for the whole file name, in lower case
    seen: str  # what such a file is, after `is `
    remedy: str
    needs: str = ""  # name of another file that must lie beside it


# the first kind that fits is meant
_KINDS = (
    _Kind(r"data_batch_\d|test_batch", "CIFAR-10's Python version in pickles", f'write known = "cifar10", or {_SAVE}'),
    _Kind(r"data_batch_\d\.bin|test_batch\.bin", "CIFAR-10's binary version", f'write known = "cifar10", or {_SAVE}'),
    _Kind("train|test", "CIFAR-100's Python version in pickles", _ARRAYS, needs="meta"),
    _Kind(r".*[-.](images|labels)[-.]idx\d-ubyte(\.gz)?", "an IDX file, MNIST's format",
        f"read it with --data FOLDER and a suite on MNIST-like images, such as fashion-mnist, or {_SAVE}"),
    _Kind(r".*\.arrow", "an Arrow file, as save_to_disk of Hugging Face datasets writes",
        'write parquet: datasets.load_from_disk(FOLDER)["train"].to_parquet("train.parquet"), and so for "test"'),
    _Kind(r".*\.feather", "a Feather file", 'write parquet: pandas.read_feather(FILE).to_parquet("table.parquet")'),
    _Kind(r".*\.(npy|npz)", "a file of arrays", _ARRAYS),
    _Kind(r".*\.mat", "a file of MATLAB's arrays", f"read it with scipy.io.loadmat or h5py; {_ARRAYS}"),
    _Kind(r".*\.(h5|hdf5|hdf|nc|zarr)", "a file of arrays (HDF5 or alike)", f"read it with h5py; {_ARRAYS}"),
    _Kind(r".*\.(pkl|pickle|p|joblib)", "a pickle", f"{_ARRAYS}"),
    _Kind(r".*\.(pt|pth)", "a file of torch.save", f"{_ARRAYS}"),
    _Kind(r".*\.(tfrecords?|tfrecord-.*|tfrecords-.*)", "a TFRecord file", _SAVE),
    _Kind(r"(data|lock)\.mdb|.*\.lmdb", "an LMDB database", _SAVE),
    _Kind(r".*\.(rec|beton|msgpack|lance)", "a database of records", _SAVE),
    _Kind(r".*\.(db|sqlite3?|duckdb)", "a database", "write parquet, a CSV file, or image files in a folder per class"),
    _Kind(r".*\.(dcm|dicom|nii|nii\.gz|mha|mhd|nrrd)", "a medical image file", f"{_SAVE}, with 8 or 16 bits"),
    _Kind(r".*\.(heic|heif|jxl|svg|psd|eps|pdf|exr|hdr|cr2|nef|arw|dng|fits?)", "an image in a format that is not read",
        _SAVE),
    _Kind(r".*\.(mp4|avi|mov|mkv|webm)", "a video", f"{_SAVE}, a frame of each scene"),
    _Kind(r".*\.(csv|tsv|txt|parquet)\.\w+", "a packed table", "unpack it and name the unpacked file"),
    _Kind(_ARCHIVE, "an archive", "unpack it and name the folder that holds one folder per class"),
)  # fmt: skip
# kinds that also describe the files beside them
_TABLE_KINDS = (
    _Kind(r".*\.(xlsx?|ods)", "a spreadsheet", "save it as CSV and name the CSV file"),
    _Kind(r".*\.(jsonl?|ndjson)", "a JSON file", "name the folder of the images, or save a table as CSV"),
)


def refuse_unsupported_file(file: Path, is_image: bool) -> None:
    """Raise DataError for a file that is no table, if it is an image or of a known kind."""
    if is_image:
        remedy = "name the folder that holds one folder of images per class"
        raise DataError(f"{file} is a single image; {remedy}")
    if kind := _find_kind(file, (*_KINDS, *_TABLE_KINDS), {file.name}):
        seen, remedy = _describe_kind(kind, file)
        raise DataError(f"{file} is {seen}; {remedy}")


def describe_unread_archives(folder: Path) -> Iterator[str]:
    """Yield a warning about archives in a folder of images, except those that are named like an unpacked folder."""
    unpacked = {folder.name.lower(), *(path.name.lower() for path in folder.iterdir() if path.is_dir())}
    archives = (path.name for path in sorted(folder.iterdir()) if re.fullmatch(_ARCHIVE, path.name.lower()))
    if packed := [name for name in archives if name.lower().partition(".")[0] not in unpacked]:
        yield f"warning: archives are not read: {list_quoted(packed)}; unpack those that hold images of the data set"


def refuse_folder_without_images(folder: Path, files: Sequence[Path], table_suffixes: tuple[str, ...]) -> NoReturn:
    """Raise DataError for a folder without images and parquet files; the message says what the folder holds instead."""
    tables = [file for file in files if file.name.lower().endswith(table_suffixes)]
    for kinds in (_KINDS, () if tables else _TABLE_KINDS):
        if found := _find_files_of_first_kind(files, kinds):
            kind, examples = found
            more = f", as {len(examples) - 1} more," if len(examples) > 1 else ""
            seen, remedy = _describe_kind(kind, examples[0])
            raise DataError(f"{folder} has no image: {examples[0].relative_to(folder)}{more} is {seen}; {remedy}")
    if tables:
        raise DataError(f"{folder} has no image, but the table {tables[0].name}; name the file itself: {tables[0]}")
    held = describe_endings(files)
    seen = f"files of other kinds: {held}" if held else "no file at all"
    remedy = "name a folder that has one folder of images per class, or parquet files"
    raise DataError(f"{folder} has no image, but {seen}; {remedy}" if held else f"{folder} has {seen}; {remedy}")


def _find_files_of_first_kind(files: Sequence[Path], kinds: Sequence[_Kind]) -> tuple[_Kind, list[Path]] | None:
    """Return the first of these kinds that a file has, and the files of this kind."""
    beside: dict[Path, set[str]] = {}
    for file in files:
        beside.setdefault(file.parent, set()).add(file.name.lower())
    by_kind: dict[_Kind, list[Path]] = {}
    for file in sorted(files):
        if kind := _find_kind(file, kinds, beside[file.parent]):
            by_kind.setdefault(kind, []).append(file)
    return min(by_kind.items(), key=lambda item: kinds.index(item[0])) if by_kind else None


def _find_kind(file: Path, kinds: Sequence[_Kind], beside: set[str]) -> _Kind | None:
    name = file.name.lower()
    fitting = (kind for kind in kinds if re.fullmatch(kind.pattern, name) and (not kind.needs or kind.needs in beside))
    return next(fitting, None)


def _describe_kind(kind: _Kind, file: Path) -> tuple[str, str]:
    """Return what a file is, and the remedy; WebDataset's tar archives have samples such as `000.jpg` and `000.cls`."""
    if file.suffix.lower() == ".tar":
        with suppress(OSError, tarfile.TarError, EOFError), tarfile.open(file) as archive:
            if any(member.name.endswith((".cls", ".json")) for member in islice(archive, 8)):
                remedy = "unpack its samples into a folder per class, which their .cls or .json members name"
                return "a WebDataset shard (an archive)", remedy
    return kind.seen, kind.remedy

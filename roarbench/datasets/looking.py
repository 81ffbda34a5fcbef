"""Looks at a folder of somebody's images: how they are stored, split and labelled, how large they are."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from roarbench.datasets import FOLDERS, PARQUET, TABLE, DatasetRecord, folders, own_images, tables
from roarbench.datasets.guessing import LABELS, feature_columns, label_column
from roarbench.datasets.sources import counted
from roarbench.datasets.tabular import ENDINGS, read_table
from roarbench.errors import DataError

SHARE = 0.3  # of the images, drawn for testing where there is no split of that kind
_TRAIN, _TEST = ("train", "training"), ("test", "val", "valid", "validation")
_IMAGES = ("image", "img", "photo", "picture")  # usual names of a column
_LOOKED_AT = 64  # images that say how large images are, and whether they have colours
_SIZES = (8, 16, 28, 32, 48, 64)
_GREY = ("1", "L", "LA", "I;16")


def look(folder: Path) -> DatasetRecord:
    """Return the record of the images in a folder, or of a table in a file, counted; its name is that of either.

    The size of images is that of the shorter side of half of them, 64 pixels at most.

    Raises:
        DataError: There are neither folders of classes nor parquet files with images and labels, or too few images; a
            file is no table, or has no column of classes.
    """
    if folder.is_file() and folder.name.lower().endswith(ENDINGS):
        return counted(_as_table(folder))
    if not folder.is_dir():
        what = "a file" if folder.exists() else "missing"
        raise DataError(f"{folder} is {what}; write a folder of class folders, or of parquet files, or a CSV file")
    record = replace(own_images(folder.resolve().name, channels=3, size=64), folder=str(folder.resolve()))
    found = _in_tables(record, folder) if any(folder.rglob("*.parquet")) else _in_folders(record, folder)
    return counted(found)


def _as_table(path: Path) -> DatasetRecord:
    table = read_table(path)
    label = label_column(table, path)
    found, others = feature_columns(table, label), [name for name in table.column_names if name != label]
    some = found if list(found) != others else ()
    record = replace(own_images(path.name.partition(".")[0], channels=1, size=1), folder=str(path.resolve()))
    return replace(record, own=TABLE, label_column=label, columns=some, share=SHARE)


def _in_folders(record: DatasetRecord, folder: Path) -> DatasetRecord:
    split = _split(folders.class_names(folder), ".")
    place = folder / split[0]
    files = (place / file for file in folders.read_folder(place, folders.class_names(place)).files)
    return _shaped(
        _with_split(replace(record, own=FOLDERS), split), (file.read_bytes() for file in _spread(list(files)))
    )


def _in_tables(record: DatasetRecord, folder: Path) -> DatasetRecord:
    try:
        found = tables.split_files(folder)
    except Exception as error:  # the library below raises a dozen kinds, some of them private
        raise DataError(f"cannot read {folder} ({type(error).__name__}: {error}); expected parquet files") from error
    split = _split(found, next(iter(found)))
    try:
        file = found[split[0]][0]
        schema = pq.read_schema(file)
        images = [field.name for field in schema if _holds_images(field.type)]
        labels = [field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_string(field.type)]
        image, label = _column(file, "images", images, _IMAGES), _column(file, "labels", labels, LABELS)
        group = tables.row_groups(found[split[0]])[0]
        contents = [
            one for part in tables.read_images(group, image, np.arange(min(group.rows, _LOOKED_AT))) for one in part
        ]
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {folder} ({error}); expected parquet files") from error
    plain = replace(record, own=PARQUET, image_column=image, label_column=label)
    return _shaped(_with_split(plain, split), contents)


def _split(names: Iterable[str], only: str) -> tuple[str, str]:
    """Return the names of the splits: twice the same if there is one alone."""
    known = list(names)
    train, test = (next((name for name in usual if name in known), "") for usual in (_TRAIN, _TEST))
    return (train, test) if train and test else (train or only,) * 2


def _with_split(record: DatasetRecord, split: tuple[str, str]) -> DatasetRecord:
    share = SHARE if split[0] == split[1] else 0.0
    return replace(record, train_split=split[0], test_split=split[1], share=share)


def _holds_images(kind: pa.DataType) -> bool:
    inner = kind.field("bytes").type if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
    return bool(pa.types.is_binary(inner) or pa.types.is_large_binary(inner))


def _column(file: Path, what: str, found: Sequence[str], usual: Sequence[str]) -> str:
    """Return the column that is meant: one with a usual name, or the only one."""
    named = [name for name in usual if name in found]
    if not named and len(found) != 1:
        seen = f"{len(found)} columns may hold {what}: {', '.join(found)}" if found else f"no column holds {what}"
        raise DataError(f"{file.name}: {seen}; name it '{usual[0]}', or write the suite's file by hand")
    return named[0] if named else found[0]


def _spread(files: Sequence[Path]) -> Iterator[Path]:
    return islice(files, 0, None, max(1, len(files) // _LOOKED_AT))


def _shaped(record: DatasetRecord, contents: Iterable[bytes]) -> DatasetRecord:
    sides, grey = [], []
    for content in contents:
        with suppress(Exception), Image.open(BytesIO(content)) as image:  # damaged ones are told of when they are read
            sides.append(min(image.size))
            grey.append(image.mode in _GREY)
    if not sides:
        raise DataError(f"none of the images looked at in {record.folder} can be read; expected image files")
    size = max((size for size in _SIZES if size <= median(sides)), default=_SIZES[0])
    return replace(record, size=size, channels=1 if all(grey) else 3)

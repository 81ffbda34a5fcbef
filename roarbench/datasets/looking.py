"""Looks at a folder of somebody's images: how they are stored, split and labelled, how large they are."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import compress, islice
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from roarbench.datasets import FOLDERS, PARQUET, TABLE, DatasetRecord, own_images, stored
from roarbench.datasets.one_image import is_damaged, refuse_damaged
from roarbench.datasets.sources import counted
from roarbench.datasets.tabular import ENDINGS, LABELS, feature_columns, label_column, read_table
from roarbench.errors import DataError
from roarbench.text import some

SHARE = 0.3  # of the images, drawn for testing where there is no split of that kind
_TRAIN, _TEST = ("train", "training"), ("test", "val", "valid", "validation")
_IMAGES = ("image", "img", "photo", "picture")  # usual names of a column
_LOOKED_AT = 64  # images that say how large images are, and whether they have colours
_CHECKED = 20_000  # images that are decoded to find damaged ones; of more, these are spread over all
_FEWEST = 20  # images of a class to train on; fewer get a warning
_SIZES = (8, 16, 28, 32, 48, 64)
_GREY = ("1", "L", "LA", "I;16")


def look(folder: Path, say: Callable[[str], object]) -> DatasetRecord:
    """Return the record of the images in a folder, or of a table in a file, counted; its name is that of either.

    The size of images is that of the shorter side of half of them, 64 pixels at most. `say` is told what should be
    known before hours of work.

    Raises:
        DataError: There are neither folders of classes nor parquet files with images and labels, too few images, or
            damaged ones; a file is no table, or has no column of classes.
    """
    if folder.is_file() and folder.name.lower().endswith(ENDINGS):
        found = _as_table(folder, say)
    elif folder.is_dir():
        record = replace(own_images(folder.resolve().name, channels=3, size=64), folder=str(folder.resolve()))
        found = _in_tables(record, folder) if any(folder.rglob("*.parquet")) else _in_folders(record, folder)
    else:
        what = "a file" if folder.exists() else "missing"
        raise DataError(f"{folder} is {what}; write a folder of class folders, or of parquet files, or a CSV file")
    record = counted(found)
    if record.train_images < _FEWEST * record.classes:
        what = "rows" if record.tabular else "images"
        seen = f"{record.train_images} {what} to train on in {record.classes} classes"
        say(
            f"warning: {seen}; with fewer than {_FEWEST} of each, networks may learn nothing that a guess does not know"
        )
    return record


def _as_table(path: Path, say: Callable[[str], object]) -> DatasetRecord:
    table = read_table(path)
    label = label_column(table, path)
    gaps, others = feature_columns(table, label), [name for name in table.column_names if name != label]
    found = tuple(name for name, count in gaps.items() if not count)
    seen = [f"'{name}' in {count} of {table.num_rows} rows" for name, count in gaps.items() if count]
    missing = f"{path.name} has missing or infinite values: column {some(seen)}"
    if seen and len(found) < 2:
        raise DataError(f"{missing}; fill them in or leave these rows out")
    if seen:
        say(f"warning: {missing}; left out")
    kept = found if list(found) != others else ()
    record = replace(own_images(path.name.partition(".")[0], channels=1, size=1), folder=str(path.resolve()))
    return replace(record, own=TABLE, label_column=label, columns=kept, share=SHARE)


def _in_folders(record: DatasetRecord, folder: Path) -> DatasetRecord:
    record = _with_splits(replace(record, own=FOLDERS), stored.class_names(folder), ".")
    groups = (group for name in dict.fromkeys(record.split_names.values()) for group in _groups(folder / name))
    files = [group.folder / file for group in groups for file in group.files]
    found = _shaped(record, (file.read_bytes() for file in _spread(files, _LOOKED_AT)))
    checked = list(_spread(files, _CHECKED))
    with ThreadPoolExecutor() as pool:  # Pillow decodes outside of Python's lock
        damaged = compress(checked, pool.map(is_damaged, checked))
        names = [file.relative_to(folder).as_posix() for file in damaged]
    refuse_damaged(names, len(checked), record.name)
    return found


def _groups(place: Path) -> tuple[stored.FileGroup, ...]:
    if classes := stored.class_names(place):
        return stored.read_folder(place, classes)[0]
    _, loose = stored.read_folder(place.resolve().parent, [place.resolve().name])
    seen = f"{place} has {len(loose)} images and no folders of classes"
    raise DataError(f"{seen}; put the images of each class into a folder of its own, such as {place / 'CLASS'}")


def _in_tables(record: DatasetRecord, folder: Path) -> DatasetRecord:
    try:
        found = stored.split_files(folder)
    except Exception as error:  # the library below raises a dozen kinds, some of them private
        raise DataError(f"cannot read {folder} ({type(error).__name__}: {error}); expected parquet files") from error
    record = _with_splits(replace(record, own=PARQUET), found, next(iter(found)))
    files = found[record.train_split]
    try:
        file = files[0]
        schema = pq.read_schema(file)
        images = [field.name for field in schema if _holds_images(field.type)]
        labels = [field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_string(field.type)]
        image, label = _column(file, "images", images, _IMAGES), _column(file, "labels", labels, LABELS)
        group = stored.row_groups(files)[0]
        contents = [
            one for part in stored.read_images(group, image, np.arange(min(group.rows, _LOOKED_AT))) for one in part
        ]
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {folder} ({error}); expected parquet files") from error
    return _shaped(replace(record, image_column=image, label_column=label), contents)


def _with_splits(record: DatasetRecord, names: Container[str], only: str) -> DatasetRecord:
    """Return the record with the names of its splits; of a single one a share is drawn for testing."""
    train, test = (next((name for name in usual if name in names), "") for usual in (_TRAIN, _TEST))
    if train and test:
        return replace(record, train_split=train, test_split=test)
    return replace(record, train_split=train or only, test_split=train or only, share=SHARE)


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


def _spread(files: Sequence[Path], most: int) -> Iterator[Path]:
    return islice(files, 0, None, -(-len(files) // most))


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

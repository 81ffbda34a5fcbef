"""Infer the record of a user's images or table from the files: storage, splits, labels, sizes and counts."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.common.text import format_count, list_some, name_item
from roarbench.datasets import image_folders, parquet_files
from roarbench.datasets.catalogue import FOLDERS, PARQUET, TABLE, DatasetRecord, make_user_dataset_record
from roarbench.datasets.decode_image import inspect_image, refuse_many_damaged_images, round_up_depth
from roarbench.datasets.image_folders import find_split_pairs, is_bare_split_name, is_train_name
from roarbench.datasets.select_images import select_rows_of_split
from roarbench.datasets.tabular import (
    LABEL_COLUMN_NAMES,
    TABLE_SUFFIXES,
    count_repeated_test_rows,
    describe_classes,
    find_id_columns,
    find_label_column,
    find_unusable_columns,
    read_features_and_labels,
    read_table,
)
from roarbench.datasets.undecoded_splits import add_class_and_image_counts, make_read_error

TEST_SHARE = 0.3  # share of images that is drawn for testing if there is no test split
_IMAGE_COLUMN_NAMES = ("image", "img", "photo", "picture")  # common names
_MAX_INSPECTED = 1000  # images that are inspected for damage, size and colour
_FEW_PER_CLASS = 20  # if there are fewer training images per class, the user is warned
_MAX_NESTING = 4  # maximum number of nested folders that each hold a single folder
_USUAL_SIZES = (8, 16, 28, 32, 48, 64)

Warn = Callable[[str], object]


def infer_dataset(path: Path, warn: Warn) -> DatasetRecord:
    """Infer the record of the images in a folder, or of a table; the record has the name of the folder or file.

    The image size is the largest of some usual sizes, at most 64 pixels, that the shorter side of half of the images
    reaches. `warn` is called with each warning, so that users see problems before they start hours of work. Raises
    DataError if there are neither class folders nor parquet files with images and labels, there are too few images,
    images are damaged, or a file is not a table or has no column of classes.
    """
    if path.is_file() and path.name.lower().endswith(TABLE_SUFFIXES):
        record = _infer_from_table(path, warn)
    elif path.is_dir():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of odd images, which are counted later
            record = add_class_and_image_counts(_infer_from_folder(path.resolve(), warn))
    else:
        state = "a file" if path.exists() else "missing"
        ways = "name a folder of class folders or of parquet files, or a CSV file; rb.Suite.from_arrays takes arrays"
        raise DataError(f"{path} is {state}; {ways}")
    if record.train_images < _FEW_PER_CLASS * record.classes:
        seen = f"{record.train_images} {name_item(record.tabular)}s to train on in {record.classes} classes"
        warn(f"warning: {seen}; with fewer than {_FEW_PER_CLASS} per class, networks may stay at chance")
    return record


def _infer_from_table(path: Path, warn: Warn) -> DatasetRecord:
    table = read_table(path)
    label = find_label_column(table, path)
    warn(describe_classes(table, label))
    unusable = find_unusable_columns(table, label)
    columns = tuple(name for name in table.column_names if name != label and name not in unusable)
    if unusable:
        reasons = [f"'{name}' ({why})" for name, why in unusable.items()]
        warn(f"columns left out: {list_some(reasons, 10)}")
    for name in find_id_columns(table, columns):
        remedy = "if these are ids, write columns = […] without it in the suite's file"
        warn(f"warning: column '{name}' has a different whole number in every row; {remedy}")
    record = replace(
        make_user_dataset_record(path.name.partition(".")[0], channels=1, size=1),
        own=TABLE,
        folder=str(path.resolve()),
        label_column=label,
        columns=columns if unusable else (),
        share=TEST_SHARE,
    )
    if not columns:
        raise DataError(f"{path.name} has no column of numbers that differ between rows beside its classes '{label}'")
    record = add_class_and_image_counts(record)
    values, labels = read_features_and_labels(path, record)
    train, test = (select_rows_of_split(record, split, labels) for split in Split)
    if repeated := count_repeated_test_rows(values, train, test):
        seen = f"{repeated} of {len(test)} test rows have the same features as a training row"
        warn(f"warning: {seen}; delete repeated rows")
    return record


def _infer_from_folder(folder: Path, warn: Warn) -> DatasetRecord:
    record = make_user_dataset_record(folder.name, channels=3, size=64)
    files = list(image_folders.list_all_files_below(folder))
    tables = [file for file in files if file.suffix.lower() == ".parquet"]
    has_image_files = any(map(image_folders.has_image_suffix, files))
    try:
        if tables and not has_image_files or any(map(_has_image_column, tables)):
            return _infer_from_parquet(record, folder, warn)
    except DataError:
        raise
    except Exception as error:  # the library `datasets` raises many exception types, some private
        raise make_read_error(error, str(folder), record) from error
    return _infer_from_class_folders(record, folder, warn)


def _infer_from_class_folders(record: DatasetRecord, folder: Path, warn: Warn) -> DatasetRecord:
    folder = _find_innermost_folder(folder)
    train, test = _find_split_folders(folder, warn)
    if train and not test:
        folder, train = folder / train, ""
    record = replace(_add_split_names(record, train, test), own=FOLDERS, folder=str(folder))
    files = []
    for parent in (folder / name for name in dict.fromkeys(record.split_names.values())):
        classes = image_folders.list_class_names(parent)
        if not classes:
            raise DataError(f"{parent} has no class folders; put the images of each class into a folder of their own")
        groups, _ = image_folders.list_labelled_images(parent, classes)
        files += [parent / file for group in groups for file in group.files]
        below = image_folders.list_all_files_below(parent)
        others = [file for file in below if not image_folders.has_image_suffix(file) and file.name[0] != "."]
        if others:
            kinds = [f"{count} {ending}" for ending, count in Counter(file.suffix for file in others).most_common()]
            warn(f"warning: files without the ending of an image file are left out: {list_some(kinds)}")
    inspected = files[:: -(-len(files) // _MAX_INSPECTED)]
    names = [file.relative_to(folder).as_posix() for file in inspected]
    return _inspect_images(record, names, (file.read_bytes() for file in inspected), warn)


def _find_split_folders(folder: Path, warn: Warn) -> tuple[str, str]:
    """Return the names of the folders of training and test images; an empty name if there is no such folder."""
    names = image_folders.list_class_names(folder)
    for pair in find_split_pairs(names):
        train, test = (_find_innermost_folder(folder / name).relative_to(folder).as_posix() for name in pair)
        if image_folders.list_class_names(folder / test):
            return train, test
        warn(f"warning: {folder / test} has no class folders")
    for name in filter(is_train_name, names):
        if image_folders.list_class_names(folder / name):
            return name, ""
    if split_named := [name for name in names if is_bare_split_name(name)]:
        advice = f"name the split folders 'train' and 'test'; if '{split_named[0]}' is a class, write the file by hand"
        raise DataError(f"{folder} has the folder '{split_named[0]}', named like a split, beside others; {advice}")
    return "", ""


def _find_innermost_folder(folder: Path) -> Path:
    """Return the innermost of nested folders that each hold a single folder, as in many archives."""
    for _ in range(_MAX_NESTING):
        names = image_folders.list_class_names(folder)
        if len(names) != 1 or not image_folders.list_class_names(folder / names[0]):
            break
        folder /= names[0]
    return folder


def _infer_from_parquet(record: DatasetRecord, folder: Path, warn: Warn) -> DatasetRecord:
    files = parquet_files.list_split_files(folder)
    pairs = find_split_pairs(files)
    train = pairs[0][0] if pairs else next(iter(files))
    if len(files) == 1 and train != "train" or len(files) > 1 and not is_train_name(train):
        seen = f"{folder} has the splits {', '.join(files)}, but no training split"
        raise DataError(f"{seen}; name training files train-*.parquet")
    image, label = _find_image_and_label_columns(files[train][0])
    record = replace(record, own=PARQUET, folder=str(folder), image_column=image, label_column=label)
    if not _has_labelled_rows(files[train], label):
        raise DataError(f"{folder}: the split '{train}' has no labels; expected images with labels to train on")
    tests = [test for _, test in pairs if _has_labelled_rows(files[test], label)]
    test = tests[0] if tests else ""
    if pairs and test != pairs[0][1]:
        used = f"'{test}' is used" if test else f"test images are drawn from '{train}'"
        warn(f"warning: the split '{pairs[0][1]}' has no labels; {used}")
    for name in filter(None, (train, test)):
        parquet_files.refuse_missing_shards(files[name])
    group = parquet_files.list_row_groups(files[train])[0]
    rows = np.arange(min(group.rows, _MAX_INSPECTED))
    contents = chain.from_iterable(parquet_files.read_parquet_images(group, record.image_column, rows))
    return _inspect_images(_add_split_names(record, train, test), [f"image {row}" for row in rows], contents, warn)


def _find_image_and_label_columns(file: Path) -> tuple[str, str]:
    schema = parquet_files.read_schema(file)
    images = [field.name for field in schema if _is_image_type(field.type)]
    classes = {field.name for field in schema if parquet_files.has_class_type(field.type)}
    labels = [name for name in schema.names if name in classes or name in LABEL_COLUMN_NAMES]
    image = _choose_column(file, "images", images, _IMAGE_COLUMN_NAMES)
    return image, _choose_column(file, "labels", labels, LABEL_COLUMN_NAMES)


def _choose_column(file: Path, content: str, names: Sequence[str], usual: Sequence[str]) -> str:
    """Return the column that has a usual name or, if no column has one, the only column."""
    usual_columns = [name for name in usual if name in names]
    if not usual_columns and len(names) != 1:
        seen = f"{len(names)} columns may hold {content}: {', '.join(names)}" if names else f"no column holds {content}"
        raise DataError(f"{file.name}: {seen}; name the column '{usual[0]}', or write the suite's file by hand")
    return usual_columns[0] if usual_columns else names[0]


def _has_labelled_rows(files: list[Path], name: str) -> bool:
    """Return whether a split has rows with labels; withheld labels are -1 or missing."""
    columns = [parquet_files.read_column(file, name) for file in files]
    withheld = [
        column.null_count == len(column)
        or bool(pa.types.is_signed_integer(column.type) and pc.min(column).as_py() == -1)
        for column in columns
    ]
    return not all(withheld)


def _add_split_names(record: DatasetRecord, train: str, test: str) -> DatasetRecord:
    """Add the names of the splits; if one is missing, a share of the images of the only split is drawn for testing."""
    if train and test:
        return replace(record, train_split=train, test_split=test)
    return replace(record, train_split=train or ".", test_split=train or ".", share=TEST_SHARE)


def _has_image_column(file: Path) -> bool:
    return any(_is_image_type(field.type) for field in parquet_files.read_schema(file))


def _is_image_type(kind: pa.DataType) -> bool:
    inner = kind.field("bytes").type if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
    return bool(pa.types.is_binary(inner) or pa.types.is_large_binary(inner))


def _inspect_images(record: DatasetRecord, names: list[str], contents: Iterable[bytes], warn: Warn) -> DatasetRecord:
    """Add the size, channels and depth of the images to the record; raise DataError if too many are damaged."""
    images = list(map(inspect_image, contents))
    damaged = [name for name, image in zip(names, images, strict=True) if image.damage]
    refuse_many_damaged_images(damaged, len(images), record.name, Counter(image.damage for image in images))
    whole = [image for image in images if not image.damage]
    if oblong := sum(image.size[0] != image.size[1] for image in whole):
        seen = f"{oblong} of {format_count(len(whole), 'inspected image')} are not square"
        warn(f"{seen}: only their central squares are used; to keep whole images, make them square")
    middle, bits = median(min(image.size) for image in whole), max(image.bits for image in whole)
    return replace(
        record,
        size=max((size for size in _USUAL_SIZES if size <= middle), default=_USUAL_SIZES[0]),
        channels=1 if all(image.grey for image in whole) else 3,
        depth=round_up_depth(bits) if bits else 0,
    )

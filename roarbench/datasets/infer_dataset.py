"""Infer the record of a user's images or table from the files: storage, splits, labels, sizes and counts."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import islice
from operator import attrgetter
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.common.text import format_count, list_quoted
from roarbench.datasets import doubtful_features, image_folders, parquet_columns, parquet_files, table_columns, tabular
from roarbench.datasets.catalogue import FOLDERS, PARQUET, TABLE, DatasetRecord, make_user_dataset_record
from roarbench.datasets.choose_layout import TEST_SHARE, choose_layout
from roarbench.datasets.class_report import describe_images
from roarbench.datasets.decode_image import MAX_DAMAGED_SHARE, inspect_image, refuse_many_damaged_images, round_up_depth
from roarbench.datasets.find_label_files import search_label_files
from roarbench.datasets.image_splits import list_images_and_class_names
from roarbench.datasets.parquet_files import has_text_type
from roarbench.datasets.preprocessing import crop_centre_square
from roarbench.datasets.stored_format import is_high_depth_grey, refuse_unsupported_format
from roarbench.datasets.undecoded_splits import (
    UserImages,
    add_class_and_image_counts,
    add_counts,
    convert_parquet_errors,
    list_user_images,
    open_undecoded_splits,
    read_stored_images,
)
from roarbench.datasets.value_scale import choose_value_scale

_MAX_INSPECTED = 64  # images that are inspected for size and colour
_PER_PART = 256  # images that are in memory at a time
_MAX_DECODED = 20_000  # images that are decoded to find damage; of a larger set, evenly spaced images are decoded
_SHARD_DIGITS = re.compile(r"[-_.]?\d+(-of-\d+)?$|[-_]?(part|shard|chunk)[-_]?\d+$")  # of names of parquet files
_FEW_PER_CLASS = 20  # if there are fewer training images per class, the user is warned
_FEWEST_SHADES = 16  # between the smallest and the largest value of 8-bit images
_USUAL_SIZES = (8, 16, 28, 32, 48, 64)
_GREY_MODES = ("1", "L", "LA", "F")  # of Pillow


def infer_dataset(folder: Path, warn: Callable[[str], object]) -> DatasetRecord:
    """Infer the record of the images in a folder, or of a table; the record has the name of the folder or file.

    The image size is the largest of some usual sizes, at most 64 pixels, that the shorter side of half of the images
    reaches. `warn` is called with each warning, so that users see problems before they start hours of work. Raises
    DataError if there are neither class folders nor parquet files with images and labels, there are too few images,
    images are damaged, or a file is not a table or has no column of classes.
    """
    if folder.is_file() and folder.name.lower().endswith(tabular.TABLE_SUFFIXES):
        record = _infer_from_table(folder, warn)
    elif folder.is_dir():
        record = make_user_dataset_record(folder.resolve().name, channels=3, size=64)
        left_out = Counter[str]()
        files = list(image_folders.list_all_files_below(folder.resolve(), left_out))
        tables = [file for file in files if file.suffix.lower() == ".parquet"]
        has_image_files = any(map(image_folders.has_image_suffix, files))
        if not tables and not has_image_files:
            image_folders.refuse_folder_without_images(folder.resolve(), files, tabular.CSV_SUFFIXES)
        in_tables = any(map(parquet_columns.has_image_column, tables)) or tables and not has_image_files
        if tables and has_image_files:
            read, unread = ("parquet", "image") if in_tables else ("image", "parquet")
            warn(f"warning: {folder.resolve().name}: only {read} files are read, {unread} files beside them are not")
        with warnings.catch_warnings():
            # Pillow warns of odd images; damaged images are refused, and other odd images are counted later
            warnings.simplefilter("ignore")
            inferred = (_infer_from_parquet if in_tables else _infer_from_class_folders)(record, folder.resolve(), warn)
            images = list_user_images(add_class_and_image_counts(inferred))
            record = _inspect_images(images, warn)
        if described := image_folders.describe_left_out(left_out):
            warn(described)
        for line in describe_images(images):
            warn(line)
        if record.depth:
            record = choose_value_scale(record, open_undecoded_splits(record, None)[Split.TRAIN], warn)
    else:
        if folder.is_file():
            image_folders.refuse_unsupported_file(folder)
        state, kinds = "a file" if folder.exists() else "missing", " or ".join(tabular.TABLE_SUFFIXES)
        seen = f"{folder} is {state}; name a folder of class folders or of parquet files, or a {kinds} file"
        raise DataError(f"{seen}; {image_folders.CONVERT}" if folder.exists() else seen)
    if record.train_images < _FEW_PER_CLASS * record.classes:
        noun = "rows" if record.own == TABLE else "images"
        seen = f"{record.train_images} {noun} to train on in {record.classes} classes"
        warn(f"warning: {seen}; with fewer than {_FEW_PER_CLASS} per class, networks may stay at chance")
    return record


def _infer_from_table(path: Path, warn: Callable[[str], object]) -> DatasetRecord:
    table, images = tabular.read_table(path), list[str]()
    if path.name.lower().endswith(tabular.CSV_SUFFIXES) and _are_names_values(table):
        listed = list_quoted(table.column_names)
        warn(f"warning: {path.name}: the first row, {listed}, was read as column names; add a row of names before it")
    for name in (field.name for field in table.schema if parquet_columns.is_image_type(field.type)):
        content = next(iter(table[name].drop_null()), pa.scalar(b"")).as_py()
        content = content.get("bytes") if isinstance(content, dict) else content
        with suppress(Exception), Image.open(BytesIO(content or b"")):  # Pillow raises many exception types
            images.append(name)
    if images:
        seen = f"{path.name} holds image files in its column '{images[0]}'"
        raise DataError(f"{seen}; name the folder of the parquet files: roarbench new-suite {path.parent}")
    table_columns.refuse_pixels_in_cells(table, path)
    tabular.refuse_points_of_thousands(table, path)
    label = table_columns.find_label_column(table, path)
    table = tabular.keep_classes_as_text(table, label, path)
    columns = table_columns.sort_columns(table, label)
    for line in table_columns.describe_columns_left_out(table, columns, path):
        warn(line)
    groups = table_columns.describe_groups(table, columns)
    for line in (*groups, *doubtful_features.describe_ids_and_codes(table, columns.features, path)):
        warn(f"warning: {path.name}: {line}")
    usual_columns = table_columns.list_usual_label_columns(table)
    numbered = [*filter(table_columns.NUMBERED_LABEL_NAME.fullmatch, table.column_names)]
    if others := [name for name in table.column_names if name in (*usual_columns, *numbered) and name != label]:
        seen = f"column '{label}' has the classes, but {list_quoted(others)} could have them by name"
        warn(f"warning: {path.name}: {seen}; rename the column of classes to 'label', and leave out copies of it")
    if not usual_columns:
        seen = "no column has a usual name of a class column; the only column of text, or else the last, is taken"
        usual = table_columns.LABEL_COLUMN_NAMES[0]
        warn(f"warning: {path.name}: {seen}: '{label}'; if another has the classes, rename it to '{usual}'")
    for line in table_columns.describe_classes(table, label):
        warn(line)
    if not columns.features:
        for name in table.column_names:
            values = pc.cast(table[name], pa.string()).drop_null() if has_text_type(table[name].type) else ()
            if len(values) and all(image_folders.has_image_suffix(Path(value.as_py())) for value in values):
                seen = f"{path.name} names image files in its column '{name}'"
                raise DataError(f"{seen}; name the folder of images and labels: roarbench new-suite {path.parent}")
        lacking = f"{path.name} has no column of numbers that differ between rows beside its class column '{label}'"
        raise DataError(f"{lacking}; name a table with a column of numbers for each feature")
    are_some_left_out = columns.features != [name for name in table.column_names if name != label]
    record = make_user_dataset_record(path.name.partition(".")[0], channels=1, size=1)
    folder = str(path.resolve())
    named = tuple(columns.features) if are_some_left_out else ()
    record = replace(record, own=TABLE, folder=folder, label_column=label, columns=named, share=TEST_SHARE)
    values, labels = tabular.extract_features_and_labels(table, record, path)
    for line in doubtful_features.describe_doubtful_values(values, labels, columns.features, record):
        warn(f"warning: {path.name}: {line}")
    return add_counts(replace(record, channels=values.shape[1]), dict.fromkeys(Split, labels))


def _are_names_values(table: pa.Table) -> bool:
    """Return whether column names are probably the first row of values.

    All are numbers, or one is a decimal number, or a text that its column holds, too.
    """
    names = table.column_names
    numbers = [bool(tabular.parse_numbers([name.strip()])) for name in names]
    texts = [name for name in names if has_text_type(table[name].type)]
    return (
        all(numbers)
        or any("." in name and number for name, number in zip(names, numbers, strict=True))
        or any(pc.any(pc.equal(table[name], name)).as_py() for name in texts)
    )


def _infer_from_class_folders(record: DatasetRecord, folder: Path, warn: Callable[[str], object]) -> DatasetRecord:
    layout = choose_layout(folder, warn)
    record = replace(record, own=FOLDERS, **layout.fields)
    for line in _describe_groups(record, layout.root, layout.groups):
        warn(line)
    folder = Path(record.folder)
    others: list[Path] = []  # in class folders; unless label files name the classes
    parents = dict.fromkeys(folder / name for name in record.split_names.values() if not record.label_files)
    for parent in filter(Path.is_dir, parents):
        for name in image_folders.list_class_names(parent):
            files = image_folders.list_all_files_below(parent / name)
            others += (file for file in files if not image_folders.has_image_suffix(file))
    if others:
        endings = image_folders.describe_endings(others)
        warn(f"warning: files without the ending of an image file are left out: {endings}")
    return record


def describe_columns(record: DatasetRecord) -> Iterator[str]:
    """Yield lines about columns of label files or parquet files, of a record of images that was written by hand."""
    folder = Path(record.folder)
    if record.test_only:
        return
    if record.own == PARQUET:
        files = parquet_files.list_split_files(folder)
        test = [] if record.share else files[record.test_split]
        yield from parquet_columns.describe_other_columns(files[record.train_split], test, record.label_column)
    else:
        paths = [*image_folders.list_image_paths(folder)]
        yield from _describe_groups(record, folder, search_label_files(folder, paths).groups)


def _describe_groups(record: DatasetRecord, root: Path, groups: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield warnings of people or things with images in both splits; `groups` are those of each path below `root`."""
    folder = Path(record.folder)
    splits = list_images_and_class_names(record, folder).splits.values()
    prefix = "".join(f"{part}/" for part in folder.relative_to(root).parts)
    class_of = {prefix + path: label for paths, labels in splits for path, label in zip(paths, labels, strict=True)}
    for name, group_of in groups.items():
        common = [path for path in class_of if path in group_of]
        pairs = {(class_of[path], group_of[path]) for path in common}
        if len(pairs) == len({label for label, _ in pairs}):  # also `animal` with the classes, or their `genus_id`
            is_apart = len({group for _, group in pairs}) == len(pairs) > 1 and name != record.label_column
            if is_apart and table_columns.GROUP_NAME.fullmatch(name):
                seen = f"column '{name}' has a value of its own for each class, such as '{min(pairs)[1]}'"
                yield f"warning: label files: {seen}; if it is no copy of the class, a network may tell the class by it"
            continue
        train, test = ([group_of.get(prefix + path, "") for path in paths] for paths, _ in splits)
        drawn = bool(record.share)
        if (drawn or any(test)) and (seen := table_columns.describe_group(name, train, [] if drawn else test, "image")):
            yield f"warning: label files: {seen}"


def _inspect_images(images: UserImages, warn: Callable[[str], object]) -> DatasetRecord:
    """Return the record with size, channels and depth of its images; raise DataError if too many are damaged."""
    step = -(-sum(images.record.image_counts.values()) // _MAX_DECODED)
    shown, names, damages, max_bits, count = list[bytes](), list[str](), Counter[str](), 0, 0
    read_result = attrgetter("damage", "bits")  # the values of an image need much memory
    with ThreadPoolExecutor() as pool:  # Pillow decodes without the interpreter lock
        for split, raw in images.splits.items():
            places = np.arange(len(raw.rows))[::step][: _MAX_INSPECTED if images.has_large_files else None]
            contents = read_stored_images(raw.groups, images.record.image_column, raw.rows[places])
            for start in range(0, len(places), _PER_PART):
                part = [*islice(contents, _PER_PART)]
                shown += part[:: -(-len(places) // _MAX_INSPECTED)]
                found = [*pool.map(lambda content: read_result(inspect_image(content)), part)]
                names += [images.name_image(split, places[start + i]) for i, (kind, _) in enumerate(found) if kind]
                damages.update(kind for kind, _ in found)
                max_bits = max(max_bits, *(bits for _, bits in found))
            count += len(places)
    refuse_many_damaged_images(names, count, images.record.name, damages)
    record = _add_image_shape(images.record, shown, warn)
    return replace(record, depth=round_up_depth(max_bits) if max_bits else 0)


def _infer_from_parquet(record: DatasetRecord, folder: Path, warn: Callable[[str], object]) -> DatasetRecord:
    with convert_parquet_errors(folder, record, Exception):  # the library raises many types, some private
        files = parquet_files.list_split_files(folder)
    listed = {file.resolve() for part in files.values() for file in part}
    below = (file.relative_to(folder) for file in image_folders.list_all_files_below(folder))
    tables = [path for path in below if path.suffix.lower() == ".parquet"]
    if unread := sorted(path.as_posix() for path in tables if (folder / path).resolve() not in listed):
        warn(f"warning: not read: {list_quoted(unread)}, to which README.md or their names give no split")
    pairs = image_folders.find_split_pairs(files)
    train = pairs[0][0] if pairs else next(iter(files))
    if len(files) == 1 and train != "train" or len(files) > 1 and not image_folders.is_train_name(train):
        seen = f"{folder} has the splits {', '.join(files)}, but no training split"
        raise DataError(f"{seen}; name training files train-*.parquet")
    paths = [file.relative_to(folder).with_suffix("").as_posix() for file in files[train]]
    names = dict.fromkeys(_SHARD_DIGITS.sub("", path) for path in paths)
    describe_missing = parquet_columns.describe_missing_content
    try:
        image, label = parquet_columns.find_image_and_label_columns(files[train][0])
        record = replace(record, own=PARQUET, folder=str(folder), image_column=image, label_column=label)
        test = next((test for _, test in pairs if not describe_missing(files[test], image, label)), "")
        if pairs and test != (first := pairs[0][1]):
            used = f"'{test}' is used" if test else f"test images are drawn from '{train}'"
            warn(f"warning: the split '{first}' has no {describe_missing(files[first], image, label)}; {used}")
        if missing := describe_missing(files[train], image, label):
            raise DataError(f"{folder}: the split '{train}' has no {missing}; expected images with labels to train on")
        for name in filter(None, (train, test)):
            parquet_files.refuse_missing_shards(files[name])
            total = sum(group.rows for group in parquet_files.list_row_groups(files[name]))
            lacking = parquet_files.count_missing_images(files[name], image)
            if lacking > MAX_DAMAGED_SHARE * total:
                seen = f"{lacking} of {total} rows of the split '{name}' have no image in column '{image}'"
                raise DataError(f"{folder}: {seen}; remove these rows")
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {folder} ({error}); expected parquet files") from error
    if unused := [name for name in files if name not in (train, test)]:
        warn(f"not used: the images of {list_quoted(unused)}")
    if len(names) > 1:
        seen = f"the files {list_quoted(names)} are taken for one split"
        remedy = "if they are splits, name them 'train' and 'test'; if they are configurations, name the folder of one"
        warn(f"warning: {seen}{'' if pairs else ', from which test images are drawn'}; {remedy}")
    # if a split is missing, a share of the images of the only split is drawn for testing
    share = 0.0 if train and test else TEST_SHARE
    record = replace(record, train_split=train or ".", test_split=test if not share else train or ".", share=share)
    for line in parquet_columns.describe_other_columns(files[train], files[test] if not share else [], label):
        warn(line)
    return record


def _add_image_shape(record: DatasetRecord, contents: Iterable[bytes], warn: Callable[[str], object]) -> DatasetRecord:
    sides, grey, oblong, several, transparent, blank = [], [], 0, 0, 0, Counter[bool]()
    values = set[float]()  # smallest and largest value of each channel of 8 bits
    for content in contents:
        # Pillow raises many exception types on damaged files, of which only a few are left
        with suppress(Exception), Image.open(BytesIO(content)) as image:
            refuse_unsupported_format(image, content)
            sides.append(min(image.size))
            oblong += len({*image.size}) - 1
            several += getattr(image, "n_frames", 1) > 1
            grey.append(image.mode in _GREY_MODES or is_high_depth_grey(image.mode))
            if (deep := inspect_image(content).values) is None:
                ends = np.ravel(crop_centre_square(image.convert("RGB"), min(image.size)).getextrema())
                values |= {*ends.tolist()}
            alpha = image.convert("RGBA").getchannel("A") if image.has_transparency_data else None
            is_transparent = alpha is not None and alpha.getextrema() != (255, 255)
            transparent += is_transparent
            blank[is_transparent] += np.ptp(deep) == 0 if deep is not None else (ends[::2] == ends[1::2]).all()
    for start, count, seen in (
        ("", oblong, "are not square: only their central squares are used; to keep whole images, make them square"),
        ("warning: ", several,
            "have several pictures, of which only the first is used; to use others, save each as a file"),
        ("", transparent,
            "are transparent in part: the colours stored there are used; to use others, save the images without "
            "transparency"),
        ("warning: ", blank[False],
            "have one value in their central squares, such as blank pages and strips; leave them out"),
        ("warning: ", blank[True],
            "have one value in their central squares, because the transparency holds the picture; save it in grey"),
    ):  # fmt: skip
        if count:
            warn(f"{start}{count} of {format_count(len(sides), 'inspected image')} {seen}")
    if values and max(values) - min(values) < _FEWEST_SHADES:
        seen = f"the inspected images have values from {min(values):g} to {max(values):g} of 255"
        warn(f"warning: {seen}, and resizing merges such values; spread them over 0 to 255")
    size = max((size for size in _USUAL_SIZES if size <= median(sides)), default=_USUAL_SIZES[0])
    return replace(record, size=size, channels=1 if all(grey) else 3)

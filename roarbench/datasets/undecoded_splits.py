"""Open the two splits of a data set from any source without decoding the images, and count images and classes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.common.files import convert_read_errors
from roarbench.common.text import list_some
from roarbench.datasets import file_locations_and_downloads as locations
from roarbench.datasets import image_folders, parquet_files, planted_images
from roarbench.datasets.catalogue import FOLDERS, TABLE, DatasetRecord, find_dataset
from roarbench.datasets.decode_image import decode_image
from roarbench.datasets.image_folders import IMAGES_PER_READ, FileGroup
from roarbench.datasets.image_splits import list_images_and_class_names
from roarbench.datasets.parquet_columns import FileLabels, read_file_labels, read_image_names, unify_labels
from roarbench.datasets.select_images import Labels, count_earlier_images, mark_balanced_subset, select_rows_of_split
from roarbench.datasets.tabular import quantize_features, read_features_and_labels

_FILES_PER_GROUP = 256
Group = parquet_files.RowGroup | FileGroup
Groups = tuple[Group, ...]


@dataclass(frozen=True)
class RawSplit:
    """A split before decoding."""

    labels: Labels  # in [0, classes)
    rows: NDArray[np.int64]  # positions of the images among all rows of `groups`, ascending, int64 (n,)
    # row groups of parquet files, or image files; empty if `pixels` is given
    groups: Groups = ()
    pixels: NDArray[np.uint8] | None = None  # uint8 (n, c, h, w); None for undecoded images
    truth: NDArray[np.float32] | None = None  # true importance of each feature, float32 (n, c, h, w); None if unknown

    def select_subset(self, limit: int | None) -> "RawSplit":
        """Select `limit` images, as balanced over the classes as possible; all images if `limit` is None."""
        chosen = mark_balanced_subset(self.labels, limit)
        pixels = None if self.pixels is None else self.pixels[chosen]
        truth = None if self.truth is None else self.truth[chosen]
        return RawSplit(self.labels[chosen], self.rows[chosen], self.groups, pixels, truth)


def read_group_images(group: Group, column: str, rows: NDArray[np.int64]) -> Iterator[list[bytes]]:
    """Yield the stored images `rows` of a group, at most 64 at a time; parquet files have the images in a column.

    Raises DataError for an unreadable image file.
    """
    if not isinstance(group, FileGroup):
        yield from parquet_files.read_parquet_images(group, column, rows)
        return
    for start in range(0, len(rows), IMAGES_PER_READ):
        with convert_read_errors(group.folder, kind=DataError):
            part = [(group.folder / group.files[row]).read_bytes() for row in rows[start:][:IMAGES_PER_READ].tolist()]
        yield part


def read_stored_images(groups: Groups, column: str, rows: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the stored images `rows`, which are ascending and count all rows of the groups."""
    for group, _, inside in divide_rows(groups, rows):
        yield from chain.from_iterable(read_group_images(group, column, inside))


def divide_rows(groups: Groups, rows: NDArray[np.int64]) -> Iterator[tuple[Group, int, NDArray[np.int64]]]:
    """Yield each needed group, the position of its first row in the ascending `rows`, and its rows from its start."""
    first = 0
    for group in groups:
        low, high = np.searchsorted(rows, [first, first + group.rows]).tolist()
        if low < high:
            yield group, low, rows[low:high] - first
        first += group.rows


def open_undecoded_splits(record: DatasetRecord, data: Path | None, allow_fewer: bool = False) -> dict[Split, RawSplit]:
    """Open both splits of a data set, check the labels, and leave the images undecoded.

    If `allow_fewer` is True, a split may have fewer images than the record says. Raises DataError if the images cannot
    be reached or read, or differ from the record.
    """
    idx_folder = None if record.own == FOLDERS else data or locations.find_system_package_folder(record)
    splits, arrays = {}, dict[Split, tuple[NDArray[Any], ...]]()  # pixels, labels, and perhaps the true importance
    if record.tabular:
        values, labels = read_features_and_labels(locations.find_local_table_file(record, data), record)
        rows_of = {split: select_rows_of_split(record, split, labels) for split in Split}
        pixels = quantize_features(values, rows_of[Split.TRAIN])
        arrays = {split: (pixels[rows], labels[rows]) for split, rows in rows_of.items()}
    elif record.generated and record.config == planted_images.CORNERS_CONFIG:
        source = find_dataset("imagenette64")
        source = replace(source, train_images=record.train_images, test_images=record.test_images)
        for split, raw in select_splits(source, list_stored_images(source)).items():
            contents = read_stored_images(raw.groups, source.image_column, raw.rows)
            photographs = np.stack([decode_image(content, source).pixels for content in contents])
            stamped = planted_images.stamp_class_in_all_corners(photographs, raw.labels, record.classes)
            arrays[split] = (stamped, raw.labels)
    elif record.generated:
        arrays = {split: planted_images.generate_stripe_split(record, split) for split in Split}
    elif idx_folder and image_folders.has_idx_files(idx_folder):
        for split in Split:
            pixels, labels = image_folders.read_idx(idx_folder, split)
            rows = select_rows_of_split(record, split, labels)
            arrays[split] = (pixels[rows], labels[rows])
    else:
        splits = select_splits(record, list_stored_images(record, data))
    for split, (pixels, labels, *truth) in arrays.items():
        expected = (len(labels), *record.shape)
        if pixels.shape != expected:
            seen = f"{record.name} has images of shape {pixels.shape}, expected {expected}"
            raise DataError(f"{seen}; check that this is the data set")
        splits[split] = RawSplit(labels, np.arange(len(labels)), (), pixels, *truth)
    for split, count in record.image_counts.items():
        _check_labels(splits[split].labels, count, record, split, allow_fewer)
    return splits


def add_class_and_image_counts(record: DatasetRecord) -> DatasetRecord:
    """Add the number of classes and of images of each split to a user's record.

    Raises DataError if labels are unsuitable, or a class has too few images.
    """
    if record.own == TABLE:
        values, labels = read_features_and_labels(locations.find_local_table_file(record, None), record)
        return add_counts(replace(record, channels=values.shape[1]), dict.fromkeys(Split, labels))
    stored = list_stored_images(record)
    return add_counts(record, {split: labels for split, (_, labels) in stored.splits.items()}, stored.classes)


def add_counts(record: DatasetRecord, all_labels: Mapping[Split, Labels], names: Sequence[str] = ()) -> DatasetRecord:
    """Add the number of classes and of images of each split to a record whose stored images have these labels."""
    for split, labels in all_labels.items():
        if labels.min(initial=0) < 0:
            missing = int((labels < 0).sum())
            seen = f"the split '{record.split_names[split]}' of {record.folder} has the label {labels.min()}"
            remedy = "name a split with labels, or write test_share = 0.3"
            if missing < len(labels):
                remedy = f"write the files without these {missing} of {len(labels)} rows"
            raise DataError(f"{seen}, which usually means withheld labels; {remedy}")
    chosen_labels = {split: labels[select_rows_of_split(record, split, labels)] for split, labels in all_labels.items()}
    train, test = (np.unique(chosen_labels[split]) for split in Split)  # classes that have images
    classes = int(max(labels.max(initial=-1) for labels in all_labels.values())) + 1
    record = replace(record, train_images=len(chosen_labels[Split.TRAIN]), test_images=len(chosen_labels[Split.TEST]))
    if len(train) < (1 if record.numbered else max(2, classes)) or not len(test):
        seen = f"{len(train)} of {classes} classes have a training image, {len(test)} have a test image"
        remedy = "expected two or more classes with two or more images each"
        if len(train) < classes and len(test) and names:
            lacking = names[np.setdiff1d(np.arange(classes), train)[0]]
            remedy += f"; the class '{lacking}' has no training image: give it more images, or leave it out"
        elif len(train) > 1 and len(test):
            lacking = list_some(np.setdiff1d(np.arange(classes), train).tolist())
            remedy += f"; without a training image: {lacking}; number the classes from 0 without gaps, or write "
            remedy += "them as text (pandas: astype(str))"
            remedy += "; if labels are the numbers of a network's outputs, write classes = N, the number of outputs"
        raise DataError(f"{record.folder}: {seen}; {remedy}")
    if not record.numbered:
        return replace(record, classes=classes)
    for split in Split:
        _check_labels(chosen_labels[split], record.image_counts[split], record, split, allow_fewer=False)
    if len(untrained := np.setdiff1d(test, train)) and not record.test_only:
        seen = f"test images have the class {untrained[0]}, which no training image has"
        remedy = "give it training images, or name no training images if no protocol trains networks"
        raise DataError(f"{seen}; {remedy}")
    return record


def _check_labels(labels: Labels, count: int, record: DatasetRecord, split: Split, allow_fewer: bool) -> None:
    """Raise DataError for another number of images than `count`, or for a label that is no class of the record."""
    if len(labels) != count and not (allow_fewer and 0 < len(labels) < count):
        seen = f"{split} split of {record.name} has {len(labels)} images, expected {count}"
        raise DataError(f"{seen}; check that the folder has this data set, or use --max-images N for a part of it")
    low, high = labels.min(), labels.max()
    if low < 0 or high >= record.classes:
        seen = low if low < 0 else high
        raise DataError(f"{split} split of {record.name} has label {seen}, expected 0 … {record.classes - 1}")
    # `--data` may name the folder above that of the class folders, which then is the only class
    found = record.classes if split is Split.TEST or record.numbered or not record.own else len({*labels.tolist()})
    if found < record.classes:
        seen = f"training images of {record.name} have {found} of its {record.classes} classes"
        raise DataError(f"{seen}; name the folder in the layout that the suite's file describes")


class StoredImages(NamedTuple):
    """The stored images of a data set, from which those of each split are selected."""

    splits: Mapping[Split, tuple[Groups, Labels]]  # images and labels, int64 (n,)
    classes: tuple[str, ...]  # names by class number; empty if labels are numbers without names
    notes: tuple[str, ...] = ()  # lines about images and labels that are left out


def select_splits(record: DatasetRecord, stored: StoredImages) -> dict[Split, RawSplit]:
    """Select the images of each split."""
    splits = {}
    for split, (groups, labels) in stored.splits.items():
        rows = select_rows_of_split(record, split, labels)
        splits[split] = RawSplit(labels[rows] // record.class_step, rows, groups)
    return splits


def list_stored_images(record: DatasetRecord, data: Path | None = None) -> StoredImages:
    """List the stored images with their labels; `data` replaces the record's location."""
    folder = locations.find_images_folder(record, data)
    if folder is not None and record.own == FOLDERS:
        images = list_images_and_class_names(record, folder)
        listed: dict[Split, tuple[Groups, Labels]] = {}
        for split, (paths, numbers) in images.splits.items():
            starts = range(0, len(paths), _FILES_PER_GROUP)
            parts = (tuple(paths[start : start + _FILES_PER_GROUP]) for start in starts)
            listed[split] = (tuple(FileGroup(folder, part) for part in parts), numbers)
        return StoredImages(listed, tuple(images.classes), tuple(images.notes))
    source = str(folder) if data or record.own else record.bundled or record.hub
    by_name: Mapping[str, Iterable[Path]]
    if folder is None and record.of_each:
        by_name = locations.download_lazily(record)
    else:
        folder = folder or locations.download_dataset(record)
        inner = folder / record.config
        with convert_parquet_errors(source, record, Exception):  # the library raises many types, some private
            by_name = parquet_files.list_split_files(inner if inner.is_dir() else folder)
    for name in record.split_names.values():
        if name not in by_name:
            raise DataError(f"{source} has the splits {', '.join(by_name)}; expected '{name}' for {record.name}")
        if record.own:
            parquet_files.refuse_missing_shards(list(by_name[name]))
    with convert_parquet_errors(source, record, OSError, pa.ArrowException):
        by_split = {s: [*_read_labels(record, by_name[name], source)] for s, name in record.split_names.items()}
        groups = {s: parquet_files.list_row_groups([part.file for part in parts]) for s, parts in by_split.items()}
        outputs = record.classes if record.numbered else 0
        labels, names = unify_labels(by_split, source, record.label_column, outputs)
        return StoredImages({split: (groups[split], labels[split]) for split in Split}, names)


def _read_labels(record: DatasetRecord, files: Iterable[Path], source: str) -> Iterator[FileLabels]:
    """Yield the labels of files, as many as the record needs of each class."""
    labels = np.empty(0, np.int64)
    for number, file in enumerate(files):
        columns = parquet_files.read_schema(file).names
        if not {record.image_column, record.label_column} <= set(columns):
            expected = f"'{record.image_column}' and '{record.label_column}'"
            where = f"{source}: {file.name}" if number else source
            raise DataError(f"{where} has the columns {', '.join(columns)}; expected {expected}")
        yield (part := read_file_labels(file, record.label_column))
        if record.of_each and not part.is_text:
            labels = np.concatenate([labels, part.numbers[part.numbers >= 0]])
            if np.bincount(labels, minlength=record.classes).min() >= record.of_each:
                return


def describe_class_order(record: DatasetRecord) -> str:
    """Return how the classes are ordered that a network's outputs stand for: by folder names, or by labels."""
    if record.own != FOLDERS or record.numbered or not Path(record.folder).is_dir():
        return "the labels"
    names = list_images_and_class_names(record, Path(record.folder)).classes
    return f"the sorted {'class' if record.label_files else 'folder'} names ({list_some(names)})"


@contextmanager
def convert_parquet_errors(source: object, record: DatasetRecord, *kinds: type[Exception]) -> Iterator[None]:
    """Convert errors of these kinds, of reading parquet files in this block, to a DataError."""
    try:
        yield
    except DataError:
        raise
    except kinds as error:
        layout = f" in the layout of {record.hub}" if record.hub else ""
        seen = f"cannot read {source} ({locations.describe_hub_error(error)})"
        raise DataError(f"{seen}; expected parquet files{layout}") from error


# row groups of larger parquet splits are not all read, because that takes minutes
LARGE_FILES = 4 * 2**30  # bytes


@dataclass(frozen=True)
class UserImages:
    """The images of a user's record, undecoded, in the order in which the suite will decode them."""

    record: DatasetRecord
    classes: tuple[str, ...]  # names, by class number
    splits: dict[Split, RawSplit]
    notes: tuple[str, ...]  # lines about images and labels that are left out

    @property
    def has_large_files(self) -> bool:
        """Return whether reading all images would take minutes, as the files of a parquet folder are large."""
        files = {group.file for raw in self.splits.values() for group in raw.groups if not isinstance(group, FileGroup)}
        return sum(file.stat().st_size for file in files) > LARGE_FILES

    def select_subset(self, limit: int) -> Self:
        """Return the images that a suite decodes if at most `limit` images per split are wanted."""
        return replace(self, splits={split: raw.select_subset(limit) for split, raw in self.splits.items()})

    def name_image(self, split: Split, position: int) -> str:
        """Name the image at a position of a split: its path below the record's folder, or its row in the split."""
        raw = self.splits[split]
        row = int(raw.rows[position])
        for group in raw.groups:
            if row < group.rows and isinstance(group, FileGroup):
                path = group.folder / group.files[row]
                return f"'{path.relative_to(self.record.folder).as_posix()}'"
            if row < group.rows:
                break
            row -= group.rows
        return f"row {raw.rows[position]} of '{self.record.split_names[split]}'"

    @cached_property
    def names(self) -> dict[Split, list[str]]:
        """Return the path of each image, relative to the folder of its group, or its name in a parquet file.

        Images of parquet files without names have empty texts.
        """
        names_by_split = {}
        for split, raw in self.splits.items():
            names: list[str] = []
            for group in raw.groups:
                if isinstance(group, FileGroup):
                    names += group.files
                else:
                    names += read_image_names(group, self.record.image_column, self.record.label_column)
            names_by_split[split] = [names[row] for row in raw.rows.tolist()]
        return names_by_split

    def read(self, split: Split, positions: Sequence[int] | NDArray[np.int64]) -> list[bytes]:
        """Return the stored bytes of the images at these positions of a split, which are ascending."""
        rows = self.splits[split].rows[np.asarray(positions, np.int64)]
        return list(read_stored_images(self.splits[split].groups, self.record.image_column, rows))


def list_user_images(record: DatasetRecord) -> UserImages:
    """List the images and class names of a user's record that has its counts; raise DataError if files are wrong."""
    stored = list_stored_images(record)
    names = () if record.numbered else stored.classes[: record.classes]
    numbers = map(str, range(len(names), record.classes))
    return UserImages(record, (*names, *numbers), select_splits(record, stored), stored.notes)


def sample_images(labels: Labels, per_class: int, spread: bool = True) -> NDArray[np.int64]:
    """Return the positions of up to `per_class` images of each class, ascending.

    The images are drawn at random, always the same ones; with `spread=False` they are the first images of each class.
    """
    order = np.random.default_rng(0).permutation(len(labels)) if spread else np.arange(len(labels))
    return np.sort(order[count_earlier_images(labels[order]) < per_class])

"""List the images of a user's record with their classes, and read the stored bytes of some of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.image_folders import FileGroup
from roarbench.datasets.parquet_columns import read_image_names
from roarbench.datasets.select_images import Labels
from roarbench.datasets.undecoded_splits import RawSplit, list_stored_images, read_stored_images, select_splits

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
    by_class = order[np.argsort(labels[order], kind="stable")]
    sorted_labels = labels[by_class]
    turn = np.arange(len(labels)) - np.searchsorted(sorted_labels, sorted_labels)
    return np.sort(by_class[turn < per_class])

"""Images in folders: one folder for each class, with or without a folder of each split above them."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.datasets.tables import CHUNK
from roarbench.errors import DataError

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_GROUP = 256  # files that one process decodes in one go


class FileGroup(NamedTuple):
    """Some image files of a split."""

    folder: Path  # of all of them
    files: tuple[str, ...]  # their paths below it, with slashes

    @property
    def rows(self) -> int:
        """Return how many they are."""
        return len(self.files)


def class_names(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, hidden ones left out, in order."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        seen = f"cannot read {folder}: {error.strerror}"
        raise DataError(f"{seen}; write a folder with a folder of images of each class") from error


def read_folder(folder: Path, classes: Sequence[str]) -> tuple[tuple[FileGroup, ...], NDArray[np.int64]]:
    """Return the images of these classes in groups, and the numbers of their classes, int64 (n,), which ascend.

    Each lies in the folder of its class or below it, in the order of the names. DataError where a class has no image,
    or a folder cannot be read.
    """
    files: list[str] = []
    counts = []
    for name in classes:
        found = sorted(_images(folder, name))
        if not found:
            raise DataError(f"{folder / name} has no image; expected files that end in {', '.join(ENDINGS)}")
        files += found
        counts.append(len(found))
    groups = (FileGroup(folder, tuple(files[start : start + _GROUP])) for start in range(0, len(files), _GROUP))
    return tuple(groups), np.repeat(np.arange(len(classes)), counts)


def _images(folder: Path, name: str) -> Iterator[str]:
    try:
        for path in (folder / name).rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if path.suffix.lower() in ENDINGS and not hidden and path.is_file():
                yield path.relative_to(folder).as_posix()
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from error


def read_files(group: FileGroup, rows: NDArray[np.int64]) -> Iterator[list[bytes]]:
    """Yield the contents of image files, `CHUNK` at most at a time; rows ascend from the start of the group."""
    try:
        for start in range(0, len(rows), CHUNK):
            yield [(group.folder / group.files[int(row)]).read_bytes() for row in rows[start : start + CHUNK]]
    except OSError as error:
        raise DataError(f"cannot read {error.filename}: {error.strerror}") from error

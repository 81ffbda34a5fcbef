"""Describe a user's images for `new-suite`: the classes with their counts, and what may be wrong with them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.common.text import fit_on_one_line, list_some
from roarbench.datasets.class_warnings import describe_images_of_few_values, describe_odd_class_folders
from roarbench.datasets.repeated_images import describe_repeated_images, split_adjective
from roarbench.datasets.user_images import UserImages

_MAX_LISTED, _FIRST, _LAST = 24, 12, 6  # of more classes than 24, the first 12 and the last 6 are listed
_NAME_WIDTH = 44  # cells of a terminal
_HANDFUL = 5  # classes with fewer images in a split are named


def describe_images(images: UserImages) -> Iterator[str]:
    """Yield the list of classes, and a line for each thing that may be wrong; raise DataError for unreadable files."""
    try:
        yield list_class_counts(images)
        yield from describe_odd_class_folders(images)
        yield from describe_images_of_few_values(images)
        yield from describe_repeated_images(images)
        yield from _describe_small_classes(images)
    except OSError as error:
        seen = f"cannot read {error.filename or images.record.folder}: {error.strerror or error}"
        raise DataError(f"{seen}; run again when no program changes it") from error


def count_by_class(images: UserImages) -> dict[Split, NDArray[np.int64]]:
    """Return the number of images of each class in each split, int64 (classes,)."""
    return {split: np.bincount(raw.labels, minlength=len(images.classes)) for split, raw in images.splits.items()}


def choose_shown(count: int, most: int, first: int, last: int) -> list[int]:
    """Return the numbers of the items of a list that are shown: all, or the first, the last and some between."""
    if count <= most:
        return list(range(count))
    between = np.linspace(first, count - last - 1, most - first - last, dtype=int).tolist()
    return [*range(first), *between, *range(count - last, count)]


def list_class_counts(images: UserImages) -> str:
    """Return an aligned list of the classes with their counts in each split; of many, the first and the last ones."""
    counts = count_by_class(images)
    shown = choose_shown(len(images.classes), _MAX_LISTED, _FIRST, _LAST)
    shown = shown if len(images.classes) <= _MAX_LISTED else [*shown[:_FIRST], *shown[-_LAST:]]
    names = [fit_cells(images.classes[number], _NAME_WIDTH) for number in shown]
    heading = f"{len(images.classes):,} classes"
    width = max(map(cell_len, [heading, *names]))
    lines = [f"{set_cell_size(heading, width)}  {'training':>8}  {'test':>8}"]
    for number, name in zip(shown, names, strict=True):
        train, test = (int(counts[split][number]) for split in Split)
        lines.append(f"{set_cell_size(name, width)}  {train:>8,}  {test:>8,}")
    if len(shown) < len(images.classes):
        hidden = counts[Split.TRAIN][_FIRST:-_LAST]
        least, most = int(hidden.min()), int(hidden.max())
        numbers = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        left = f"… {len(hidden):,} more with {numbers} training images each"
        lines.insert(1 + _FIRST, left)
    return "\n  ".join(lines)


def fit_cells(text: str, width: int) -> str:
    """Fit a text into the cells of a terminal, of which some letters take two; a longer text ends in an ellipsis."""
    line = fit_on_one_line(text)
    return line if cell_len(line) <= width else f"{set_cell_size(line, width - 1).rstrip()}…"


def _describe_small_classes(images: UserImages) -> Iterator[str]:
    counts = count_by_class(images)
    for split in Split:
        few = np.flatnonzero(counts[split] < _HANDFUL)
        if len(few) and not (split is Split.TRAIN and images.record.test_only):
            noun = f"{split_adjective(split)} images"
            if len(few) == len(images.classes):
                yield f"warning: {images.record.name}: every class has fewer than {_HANDFUL} {noun}; add images"
                continue
            listed = list_some([f"'{fit_cells(images.classes[n], _NAME_WIDTH)}' {counts[split][n]}" for n in few])
            remedy = "add images, or leave these classes out"
            yield f"warning: {images.record.name}: classes with fewer than {_HANDFUL} {noun}: {listed}; {remedy}"

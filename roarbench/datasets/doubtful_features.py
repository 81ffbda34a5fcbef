"""Describe what may be wrong with the features of a user's table: ids, codes, copies of the class, repeated rows."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.text import list_quoted, list_some
from roarbench.datasets import tabular
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.repeats import describe_items_in_both_splits, find_items_of_several_classes
from roarbench.datasets.select_images import Labels, select_rows_of_split

# the middle half of a column's values is to take this many of the 256 steps; of columns of few values, each that
# occurs often is to have a step of its own; columns that hold one value in nearly all rows are not tested
_FEWEST_STEPS, _FEWEST_VALUES, _FEWEST_ROWS = 8, 16, 0.25
_OFTEN = 0.01  # share of the rows; rarer values may be clipped
_ROWS_PER_VALUE = 5  # with fewer rows for each value of a feature, the value may determine the class by chance
_SENTINEL = re.compile(r"-1|-9|-?99+")  # numbers that often stand for missing ones
_FEWEST_BESIDE_SENTINEL = 4  # other values of such a column
_COPIED = 0.95  # share of the rows of each class and of each value that agree in a near copy of the class
# whole numbers that are days of the years 1800 to 2199, such as 20240131
_DATE = r"^(18|19|20|21)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(\.0)?$"
_PIXEL_NAME, _FEWEST_PIXELS = re.compile(r"(pixel|px)[_ ]?\d+(_\d+)?|\d+x\d+", re.I), 16  # columns of such names
_PREDICTION = re.compile(r"(.*[_ .])?(pred(s|icted|ictions?)?|y_?hat|y_?pred|logits?|proba?)([_ .].*)?", re.I)
_REMEDY = "to leave it out, write columns = […] without it in the suite's file"


def describe_ids_and_codes(table: pa.Table, names: Sequence[str], path: Path) -> Iterator[str]:
    """Yield lines about features that are probably ids, codes, dates or pixels, by their names and types."""
    columns = {name: tabular.convert_to_floats(table[name]) for name in names}
    whole = {name: column for name, column in columns.items() if pc.all(pc.equal(column, pc.round(column))).as_py()}
    # `group_by` reads the name `.28` as a path
    numbered = {str(number): column for number, column in enumerate(columns.values())}
    different_rows = pa.table(numbered).group_by([*numbered]).aggregate([]).num_rows if columns else 0
    # if more than half of the rows are repeated, any column may differ between the others
    count = different_rows if 2 * different_rows >= table.num_rows else 0
    if ids := [name for name, column in whole.items() if pc.count_distinct(column).as_py() == count]:
        seen = "has a different whole number in every row that is not repeated, as ids have"
        yield f"column {list_quoted(ids)} {seen}; {_REMEDY}"
    texts = tabular.read_as_written(table.select(list(whole)), path)
    kinds = dict.fromkeys(tabular.list_category_columns(table), "categories")
    for name in whole:
        coded = texts[name].filter(pc.match_substring_regex(texts[name], r"^0[\dxX]"))
        if not len(coded) and pc.all(pc.match_substring_regex(texts[name], _DATE)).as_py():
            coded = texts[name]
        kinds |= {name: f"such as {coded[0]}"} if len(coded) else {}
    if codes := [f"'{name}' ({kinds[name]})" for name in names if name in kinds]:
        yield f"codes or dates are read as numbers: column {list_some(codes)}; {_REMEDY}"
    if predicted := list_quoted(name for name in names if _PREDICTION.fullmatch(name)):
        yield f"features are named like predictions of the class: column {predicted}; {_REMEDY}"
    if len(pixels := [name for name in names if _PIXEL_NAME.fullmatch(name)]) >= _FEWEST_PIXELS:
        remedy = "to read images, save each row as an image file in a folder per class, or use rb.Suite.from_arrays"
        yield f"features are named like pixels, but a table has no neighbours: column {list_quoted(pixels)}; {remedy}"


def describe_doubtful_values(
    values: NDArray[np.float64], labels: Labels, names: Sequence[str], record: DatasetRecord
) -> Iterator[str]:
    """Yield warnings about repeated rows of features, (n, d), and about features; `labels` are class numbers, (n,)."""
    rows_of = {split: select_rows_of_split(record, split, labels) for split in Split}
    numbers = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    train, test = (numbers[rows] for rows in rows_of.values())
    shared = describe_items_in_both_splits(train, test, "row", "features")
    several = len(find_items_of_several_classes(numbers, labels))
    contrary = f"{several} of {len(labels)} rows have the same features as a row of another class" if several else ""
    if shared or contrary:
        yield "; ".join(filter(None, (shared, contrary)))
    steps = tabular.quantize_features(values, rows_of[Split.TRAIN])[:, :, 0, 0].astype(int)
    merged, copies, missing = [], [], []
    for place, name in enumerate(names):
        column = values[:, place]
        found, numbers, counts = np.unique(column, return_inverse=True, return_counts=True)
        if sentinel := _find_sentinel(found, counts):
            missing.append(f"'{name}' ({sentinel})")
        elif _are_steps_few(steps[:, place], numbers, counts):
            start, end = np.quantile(column[numbers != counts.argmax()], (0.25, 0.75))
            span = f"all in {found[0]:g} to {found[-1]:g}"
            merged.append(f"'{name}' (half of its values in {start:g} to {end:g}, {span})")
        if _may_copy_class(column, numbers, labels):
            copies.append(name)
    if missing:
        seen = "a number that often stands for missing values lies apart from the other values"
        yield f"{seen}: column {list_some(missing)}; fill these values in, or leave the rows or the column out"
    if merged:
        remedy = "fill in values that stand for missing ones, or take the logarithm of the column"
        yield f"256 steps hardly tell the values of a column apart: column {list_some(merged)}; {remedy}"
    if copies:
        remedy = "if it is a copy of the class, write columns = […] without it in the suite's file"
        seen = "each value occurs (nearly) in one class only, one has all rows of a class, or classes do not overlap"
        yield f"{seen}: column {list_quoted(copies)}; {remedy}"


def _find_sentinel(found: NDArray[np.float64], counts: NDArray[np.int64]) -> str:
    """Describe the smallest or largest value, such as -999, if it probably stands for missing ones; else empty.

    `found` are the different values of a column, ascending. The others are at most half as large, or each is rarer and,
    beside a negative number, not negative.
    """
    if len(found) <= _FEWEST_BESIDE_SENTINEL:
        return ""
    for end in (0, -1):
        value, count, others = found[end], counts[end], np.delete(found, end)
        is_most_frequent = count > np.delete(counts, end).max()
        is_alone = is_most_frequent and (value < 0 <= others[0] or value >= 999)
        is_apart = is_alone or 2 * np.abs(others).max() <= abs(value)
        if count > 1 and is_apart and (_SENTINEL.fullmatch(f"{value:g}") or is_alone and value < 0):
            return f"{value:g} in {count} of {counts.sum()} rows"
    return ""


def _are_steps_few(steps: NDArray[np.int64], numbers: NDArray[np.int64], counts: NDArray[np.int64]) -> bool:
    """Return whether the steps of a column, (n,), hardly tell its values, numbered from 0, apart."""
    others = numbers != counts.argmax()  # the most frequent value may be that of most rows beside rare events
    if others.mean() < _FEWEST_ROWS:
        return False
    if len(counts) <= _FEWEST_VALUES:
        frequent = counts[numbers] >= _OFTEN * len(numbers)
        return len(np.unique(steps[frequent])) < len(np.unique(numbers[frequent]))
    low, high = np.quantile(steps[others], (0.25, 0.75))
    return bool(high - low < _FEWEST_STEPS)


def _may_copy_class(values: NDArray[np.float64], numbers: NDArray[np.int64], labels: Labels) -> bool:
    """Return whether the values of a column, (n,), which are numbered from 0, tell the class."""
    pairs, rows = np.unique(np.stack([numbers, labels], 1), axis=0, return_counts=True)
    classes_of_value, values_of_class = (np.bincount(pairs[:, side]) for side in (0, 1))
    if len(classes_of_value) == len(values_of_class):
        counts = np.zeros((len(classes_of_value),) * 2)
        counts[tuple(pairs.T)] = rows
        # nearly all rows of each class have one value, and nearly all rows of each value one class
        if min((counts.max(side) / counts.sum(side)).min() for side in (0, 1)) >= _COPIED:
            return True
    if len(classes_of_value) <= len(values) / _ROWS_PER_VALUE:
        alone = (classes_of_value[pairs[:, 0]] == 1) & (values_of_class[pairs[:, 1]] == 1)
        # values determine the class, or one value marks one class, as in a column of one-hot classes
        if (classes_of_value == 1).all() or alone.any():
            return True
    # the ranges of the classes do not overlap, as in noisy copies, and in dates of sorted rows
    ranges = sorted((values[labels == label].min(), values[labels == label].max()) for label in np.unique(labels))
    lies_apart = all(before[1] < after[0] for before, after in pairwise(ranges))
    return lies_apart and len(ranges) <= len(values) / _ROWS_PER_VALUE

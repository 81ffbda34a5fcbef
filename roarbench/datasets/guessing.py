"""Guesses which columns of somebody's table are features, and which one has the classes."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from roarbench.datasets.tabular import as_floats, class_numbers, holds_numbers
from roarbench.errors import DataError

# usual names of a column of classes, also in parquet files of images
LABELS = ("label", "labels", "class", "classes", "target", "targets", "y", "category", "fine_label")
_NUMBERING = ("", "id", "index", "unnamed: 0")  # what numbers the rows, as pandas writes it
_MOST_CLASSES = 100


def label_column(table: pa.Table, path: Path) -> str:
    """Return the column of the classes: one with a usual name, else the only one of text, else the last one.

    Raises:
        DataError: It has not two classes or more, with two rows or more each, or a row of it is empty.
    """
    names: list[str] = table.column_names
    usual = [name for known in LABELS for name in names if name.lower() == known]
    words = [name for name in names if not holds_numbers(table[name].type)]
    tried = usual or [*(words if len(words) == 1 else []), names[-1]]
    found = [name for name in tried if _has_classes(table[name])]
    if usual and not found:
        class_numbers(table, usual[0], path)  # or why they are none
        return usual[0]
    if not found:
        seen = f"{path.name}: no column has a usual name of classes ({', '.join(LABELS)}), nor has the last one classes"
        raise DataError(f"{seen}; give it such a name, or write the suite's file by hand (docs/own-data.md)")
    return found[0]


def feature_columns(table: pa.Table, label: str) -> dict[str, int]:
    """Return the columns of numbers that do not number the rows, in order, each with its rows without a number."""
    return {
        name: pc.sum(pc.invert(pc.is_finite(as_floats(table[name])).fill_null(False))).as_py()
        for name in table.column_names
        if name != label and name.lower() not in _NUMBERING and holds_numbers(table[name].type)
    }


def _has_classes(column: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type) or column.null_count:
        return False
    counts = pc.value_counts(column).field("counts").to_pylist()
    return 2 <= len(counts) <= _MOST_CLASSES and min(counts) >= 2

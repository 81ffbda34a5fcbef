"""Guesses which columns of somebody's table are features, and which one has the classes."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from roarbench.datasets.tabular import as_floats, holds_numbers
from roarbench.errors import DataError

LABELS = ("label", "labels", "class", "target")  # usual names of a column of classes, also in parquet files of images
_NUMBERING = ("", "id", "index", "unnamed: 0")  # what numbers the rows, as pandas writes it
_MOST_CLASSES = 100


def label_column(table: pa.Table, path: Path) -> str:
    """Return the column of the classes: one with a usual name, the only one of text, or the last one.

    Raises:
        DataError: None of these has two classes or more, with two rows or more each.
    """
    names: list[str] = table.column_names
    usual = [name for known in LABELS for name in names if name.lower() == known]
    words = [name for name in names if not holds_numbers(table[name].type)]
    tried = [*usual, *(words if len(words) == 1 else []), names[-1]]
    found = [name for name in tried if _has_classes(table[name])]
    if not found:
        seen = f"{path.name}: no column has a usual name of classes ({', '.join(LABELS)}), nor has the last one classes"
        raise DataError(f"{seen}; give it such a name, or write the suite's file by hand (docs/own-data.md)")
    return found[0]


def feature_columns(table: pa.Table, label: str) -> tuple[str, ...]:
    """Return the columns of numbers without gaps that do not number the rows, in order."""
    return tuple(
        name
        for name in table.column_names
        if name != label and name.lower() not in _NUMBERING and holds_numbers(table[name].type) and _whole(table[name])
    )


def _whole(column: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.is_finite(as_floats(column)).fill_null(False)).as_py())


def _has_classes(column: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type) or column.null_count:
        return False
    counts = pc.value_counts(column).field("counts").to_pylist()
    return 2 <= len(counts) <= _MOST_CLASSES and min(counts) >= 2

"""Describe what may be wrong with a user's table: columns without information, repeated rows, classes spelled twice."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.text import format_percent_number, list_some
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.select_images import Labels, select_rows_of_split

_LISTED_CLASSES = 10


def find_constant_columns(table: pa.Table, names: Iterable[str]) -> list[str]:
    """Return the columns of numbers that have the same value in all rows."""
    return [name for name in names if pc.count_distinct(_convert_to_floats(table[name])).as_py() == 1]


def find_id_columns(table: pa.Table, names: Iterable[str]) -> list[str]:
    """Return the columns with a different whole number in every row, repeated rows counted once.

    Tables in which more than half of the rows are repeated have none: there, any column may differ between the others.
    """
    columns = {name: _convert_to_floats(table[name]) for name in names}
    different_rows = pa.table(columns).group_by([*columns]).aggregate([]).num_rows if columns else 0
    if 2 * different_rows < table.num_rows:
        return []
    whole = {name: column for name, column in columns.items() if pc.all(pc.equal(column, pc.round(column))).as_py()}
    return [name for name, column in whole.items() if pc.count_distinct(column).as_py() == different_rows]


def _convert_to_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(column, pa.float64(), safe=False)


def describe_alike_classes(names: Sequence[str], remedy: str) -> Iterator[str]:
    """Yield a warning for each group of classes whose names differ only in case or surrounding spaces."""
    alike = defaultdict[str, list[str]](list)
    for name in dict.fromkeys(names):
        alike[name.strip().casefold()].append(f"'{name}'")
    for group in alike.values():
        if len(group) > 1:
            yield f"warning: {list_some(group)} are separate classes; if they are one class, {remedy}"


def describe_classes(table: pa.Table, label: str) -> Iterator[str]:
    """Yield the classes of a column with their shares, the largest first, and warnings of names that are alike."""
    counts = pc.value_counts(pc.cast(table[label], pa.string())).to_pylist()
    ordered = sorted(counts, key=lambda row: -row["counts"])
    shares = [f"'{row['values']}' {format_percent_number(row['counts'] / table.num_rows)}%" for row in ordered]
    yield f"classes in column '{label}': {list_some(shares, _LISTED_CLASSES)}"
    yield from describe_alike_classes(sorted(row["values"] for row in counts), "spell them alike")


def describe_repeated_rows(values: NDArray[np.float64], labels: Labels, record: DatasetRecord) -> str:
    """Describe the test rows whose features, (n, d), equal those of a training row; empty if there are none."""
    numbers = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    train, test = (numbers[select_rows_of_split(record, split, labels)] for split in Split)
    repeated = int(np.isin(test, train).sum())
    seen = f"{repeated} of {len(test)} test rows have the same features as a training row"
    return seen if repeated else ""

"""Read tables with a class column from parquet or CSV; a row becomes an image of one pixel with a channel per column.

The store holds bytes, so each column is quantised to 256 steps between the 1st and the 99th percentile of the training
rows, and values outside of these percentiles are clipped. The fill `mean` is the mean step over the training rows.
The functions at the end describe what may be wrong with a user's table, such as ids and rows that are in both splits.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import DataError, UnknownName
from roarbench.common.text import format_count, format_percent_number, list_some
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.parquet_files import has_text_type, refuse_lfs_pointer
from roarbench.datasets.select_images import Labels, select_rows_of_split

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv")
TABLE_SUFFIXES = (".parquet", *CSV_SUFFIXES)
# quantiles at which values are clipped; without clipping, one outlier would squeeze all other rows into a few steps
_CLIP_QUANTILES = (0.01, 0.99)
_SEPARATORS = (",", ";", "\t")
_HEAD_BYTES = 2**20  # read to find the first two lines
_QUOTED = re.compile(rb'"[^"]*"')
_INTEGER_OR_DECIMAL_COMMA = r"^\s*[-+]?\d+(,\d+)?([eE][-+]?\d+)?\s*$"
_INTEGER_OR_DECIMAL_POINT = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_LISTED_CLASSES = 10
_MIN_ROWS_PER_CLASS = 2  # one for training and one for testing
# common names of the class column, also in parquet files of images
LABEL_COLUMN_NAMES = ("label", "labels", "class", "classes", "target", "targets", "y", "category", "fine_label")
_ROW_NUMBER_NAMES = ("", "id", "index", "unnamed: 0")  # names of columns of row numbers; pandas writes such columns
_MAX_CLASSES = 100


def read_features_and_labels(path: Path, record: DatasetRecord) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read features, finite float64 (n, d), and class numbers, int64 (n,), from a parquet or CSV file with a header.

    Raises DataError for an unsuitable table.
    """
    return extract_features_and_labels(read_table(path), record, path)


def extract_features_and_labels(
    table: pa.Table, record: DatasetRecord, path: Path
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return what `read_features_and_labels` returns, from a table that was read from the file."""
    names = list_feature_names(table, record.label_column, record.columns, path)
    labels = assign_class_numbers(table, record.label_column, path)
    values = np.stack([_convert_to_numbers(table[name], name, path) for name in names], 1)
    return values, labels


def read_table(path: Path) -> pa.Table:
    """Read a whole table from a parquet or CSV file.

    Raises DataError if the file has another format, an unclear separator, decimal commas, an unreadable or repeated
    column name, or no rows.
    """
    name = path.name.lower()
    refuse_lfs_pointer(path)
    try:
        if name.endswith(".parquet"):
            table = pq.read_table(path)
        elif name.endswith(CSV_SUFFIXES):
            options = pa.csv.ParseOptions(delimiter="\t" if name.endswith(".tsv") else _find_separator(path))
            empty = pa.csv.ConvertOptions(strings_can_be_null=True)
            table = pa.csv.read_csv(path, parse_options=options, convert_options=empty)
        else:
            raise DataError(f"{path} is not a table; expected a file that ends in {', '.join(TABLE_SUFFIXES)}")
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path} ({str(error).strip().partition(chr(10))[0]}); expected a table") from error
    _check_column_names(table, path)
    _check_decimal_points(table, path)
    if not table.num_rows:
        raise DataError(f"{path} has no rows")
    return table


def _find_separator(path: Path) -> str:
    """Infer the separator of a CSV file, `,`, `;` or tab, from the first two lines."""
    with pa.input_stream(path, compression="detect") as file:
        lines = [_QUOTED.sub(b"", line) for line in file.read(_HEAD_BYTES).splitlines()[:2]]
    if not lines:
        return ","  # pyarrow reports the error of an empty file
    possible = [mark for mark in _SEPARATORS if mark.encode() in lines[0]]
    if len(possible) > 1:
        possible = [mark for mark in possible if len({line.count(mark.encode()) for line in lines}) == 1]
    if len(possible) != 1:
        seen = "several of ',', ';' and tab are possible" if possible else "neither ',' nor ';' nor tab is possible"
        raise DataError(f"cannot find the column separator of {path.name}: {seen}; save the file with one of them")
    return possible[0]


def _check_decimal_points(table: pa.Table, path: Path) -> None:
    """Raise DataError for numbers with decimal commas, such as 1,5, which would be read as strings."""
    texts = [name for name in table.column_names if has_text_type(table[name].type)]
    for name in texts:
        values = pc.cast(table[name], pa.string())
        numbers = pc.all(pc.match_substring_regex(values, _INTEGER_OR_DECIMAL_COMMA)).as_py()
        seen = next((text for text in values.to_pylist() if numbers and text and "," in text), "")
        if seen:
            where = f"{path.name}: column '{name}' has decimal commas, such as '{seen}'"
            raise DataError(f"{where}; save the file with decimal points (1.5)")


def _check_column_names(table: pa.Table, path: Path) -> None:
    try:
        names = Counter(table.column_names)
    except UnicodeDecodeError as error:  # pyarrow reads files with other encodings without an error
        raise DataError(f"{path} is not UTF-8: a column name has other bytes; save the file as UTF-8") from error
    if doubled := [name for name, count in names.items() if count > 1]:
        raise DataError(f"{path.name} has the column '{doubled[0]}' more than once")


def list_feature_names(table: pa.Table, label: str, columns: tuple[str, ...], path: Path) -> list[str]:
    """Return the names of the feature columns in order; raise DataError if one is missing or fewer than two exist."""
    column_names = table.column_names
    for name in (label, *columns):
        if name not in column_names:
            raise DataError(f"{path.name} has {UnknownName('column', name, column_names)}")
    names = [name for name in columns or column_names if name != label]
    if len(names) < 2:
        features = format_count(len(names), "feature")
        raise DataError(f"{path.name} has {features} besides '{label}'; expected two or more")
    return names


def has_number_type(kind: pa.DataType) -> bool:
    """Return whether a column type can be a feature: integers, floats or booleans."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _convert_to_numbers(column: pa.ChunkedArray, name: str, path: Path) -> NDArray[np.float64]:
    if not has_number_type(column.type):
        advice = 'convert it to numbers, or list the features without it: columns = ["…"]'
        seen = f"column '{name}' holds {'text' if has_text_type(column.type) else column.type}, expected numbers"
        raise DataError(f"{path.name}: {seen}; {advice}")
    values: NDArray[np.float64] = pc.cast(column, pa.float64(), safe=False).to_numpy()  # missing values become NaN
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        seen = f"column '{name}' has no finite number in {len(wrong)} of {len(values)} rows"
        raise DataError(f"{path.name}: {seen} (first: row {wrong[0] + 1}); fill in numbers or leave these rows out")
    return values


def assign_class_numbers(table: pa.Table, name: str, path: Path) -> NDArray[np.int64]:
    """Return the position of each row's class among the sorted classes, int64 (n,); raise DataError for bad labels."""
    column = table[name]
    if pa.types.is_nested(column.type):
        raise DataError(f"{path.name}: the label column '{name}' holds {column.type}; expected a class for each row")
    if column.null_count:
        raise DataError(f"{path.name}: the label column '{name}' is empty in {column.null_count} of {len(column)} rows")
    values = np.asarray(column.to_pylist())
    if np.issubdtype(values.dtype, np.floating) and not np.equal(values, np.rint(values)).all():
        raise DataError(f"{path.name}: the label column '{name}' has fractions; expected a class for each row")
    classes, labels, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise DataError(f"{path.name}: all rows have the label '{classes[0]}'; expected two classes or more")
    if counts.min() < _MIN_ROWS_PER_CLASS:
        few = f"the class '{classes[counts.argmin()]}' of '{name}' has only {counts.min()} row"
        wanted = f"expected {_MIN_ROWS_PER_CLASS} or more: one for training, one for testing"
        raise DataError(f"{path.name}: {few}, {wanted}")
    return labels.astype(np.int64)


def quantize_features(values: NDArray[np.float64], train_rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Quantise all rows, float64 (n, d), to 256 steps per column, as images uint8 (n, d, 1, 1).

    The training rows determine the steps. If the two percentiles of a column are equal, for example because the column
    marks a rare event, the steps span all training values of the column. If these are constant, all steps are 0.
    """
    train_values = values[train_rows]
    # `nearest` returns values of the table, which are the same on all machines
    low, high = np.quantile(train_values, _CLIP_QUANTILES, axis=0, method="nearest")
    same = low == high
    low, high = np.where(same, train_values.min(0), low), np.where(same, train_values.max(0), high)
    shares = (values - low) / np.where(low == high, 1.0, high - low)
    steps: NDArray[np.float64] = np.rint(255 * shares.clip(0, 1)) * (low != high)
    return steps.astype(np.uint8)[:, :, np.newaxis, np.newaxis]


def find_label_column(table: pa.Table, path: Path) -> str:
    """Find the class column: a column with a usual name, else the only non-numeric column, else the last column.

    Raises DataError if the class column has fewer than two classes, a class with fewer than two rows, or empty rows.
    """
    names: list[str] = table.column_names
    usual = [name for known in LABEL_COLUMN_NAMES for name in names if name.lower() == known]
    non_numeric = [name for name in names if not has_number_type(table[name].type)]
    tried = usual or [*(non_numeric if len(non_numeric) == 1 else []), names[-1]]
    candidates = [name for name in tried if _can_be_class_column(table[name])]
    if usual and not candidates:
        assign_class_numbers(table, usual[0], path)  # raises the reason why the column has no classes
        return usual[0]
    if not candidates:
        seen = f"{path.name}: no column has a usual name of a class column ({', '.join(LABEL_COLUMN_NAMES)})"
        remedy = f"rename the class column to '{LABEL_COLUMN_NAMES[0]}', or see docs/own-data.md"
        raise DataError(f"{seen}, and the last column holds no classes; {remedy}")
    return candidates[0]


def count_nonfinite_by_feature(table: pa.Table, label: str) -> dict[str, int]:
    """Return a dict from each numeric column, except row numbers, to its number of missing or infinite values."""
    return {
        name: pc.sum(pc.invert(pc.is_finite(pc.cast(table[name], pa.float64(), safe=False)).fill_null(False))).as_py()
        for name in table.column_names
        if name != label and name.lower() not in _ROW_NUMBER_NAMES and has_number_type(table[name].type)
    }


def find_row_number_columns(table: pa.Table, label: str) -> list[str]:
    """Return the columns of numbers, except the class column, that have a usual name of row numbers."""
    named = [name for name in table.column_names if name != label and name.lower() in _ROW_NUMBER_NAMES]
    return [name for name in named if has_number_type(table[name].type)]


def describe_stray_text_by_column(table: pa.Table, label: str) -> dict[str, str]:
    """Return a dict from each string column to a description of its stray text.

    If more than half of a column's strings are numbers, the description has an example and the number of the other
    strings; else the description is empty.
    """
    text_columns = {}
    for name in table.column_names:
        if name != label and has_text_type(table[name].type):
            values = pc.cast(table[name], pa.string())
            non_numbers = values.filter(pc.invert(pc.match_substring_regex(values, _INTEGER_OR_DECIMAL_POINT)))
            few = 0 < len(non_numbers) < len(values) / 2
            text_columns[name] = f"'{non_numbers[0]}' in {len(non_numbers)} of {len(values)} rows" if few else ""
    return text_columns


def _can_be_class_column(column: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(column.type) or pa.types.is_nested(column.type) or column.null_count:
        return False
    counts = pc.value_counts(column).field("counts").to_pylist()
    return 2 <= len(counts) <= _MAX_CLASSES and min(counts) >= _MIN_ROWS_PER_CLASS


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

"""Read tables with a class column from parquet or CSV; a row becomes an image of one pixel with a channel per column.

The store holds bytes, so each column is quantised to 256 steps between the 1st and the 99th percentile of the training
rows, and values outside of these percentiles are clipped. The fill `mean` is the mean step over the training rows.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from roarbench.common.errors import DataError, UnknownName
from roarbench.common.text import format_count, format_percent_number, list_some
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.parquet_files import has_text_type, refuse_lfs_pointer
from roarbench.datasets.select_images import Labels

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv")
TABLE_SUFFIXES = (".parquet", *CSV_SUFFIXES)
# quantiles at which values are clipped; without clipping, one outlier would squeeze all other rows into a few steps
_CLIP_QUANTILES = (0.01, 0.99)
_SEPARATORS = (",", ";", "\t")
_HEAD_BYTES = 2**20  # read to find the first line
_QUOTED = re.compile(rb'"[^"]*"')
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_MIN_ROWS_PER_CLASS = 2  # one for training and one for testing
# common names of the class column, also in parquet files of images
LABEL_COLUMN_NAMES = ("label", "labels", "class", "classes", "target", "targets", "y", "category", "fine_label")
_LISTED_CLASSES = 10
_ROW_NUMBER_NAMES = ("", "id", "index", "unnamed: 0")  # names of columns of row numbers; pandas writes such columns


def read_features_and_labels(path: Path, record: DatasetRecord) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read features, finite float64 (n, d), and class numbers, int64 (n,), from a parquet or CSV file with a header.

    Raises DataError for an unsuitable table.
    """
    table = read_table(path)
    names = list_feature_names(table, record.label_column, record.columns, path)
    labels = number_classes(table, record.label_column, path)
    values = np.stack([_convert_to_numbers(table[name], name, path) for name in names], 1)
    return values, labels


def read_table(path: Path) -> pa.Table:
    """Read a whole table from a parquet or CSV file.

    Raises DataError if the file has another format, an unreadable or repeated column name, or no rows.
    """
    name = path.name.lower()
    refuse_lfs_pointer(path)
    try:
        if name.endswith(".parquet"):
            table = pq.read_table(path)
        elif name.endswith(CSV_SUFFIXES):
            options = pa.csv.ParseOptions(delimiter=_find_separator(path))
            empty = pa.csv.ConvertOptions(strings_can_be_null=True)
            table = pa.csv.read_csv(path, parse_options=options, convert_options=empty)
        else:
            raise DataError(f"{path} is not a table; expected a file that ends in {', '.join(TABLE_SUFFIXES)}")
        names = Counter(table.column_names)
    except UnicodeDecodeError as error:  # pyarrow reads files with other encodings without an error
        raise DataError(f"{path} is not UTF-8: a column name has other bytes; save the file as UTF-8") from error
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path} ({str(error).strip().partition(chr(10))[0]}); expected a table") from error
    if doubled := [name for name, count in names.items() if count > 1]:
        raise DataError(f"{path.name} has the column '{doubled[0]}' more than once")
    if not table.num_rows:
        raise DataError(f"{path} has no rows")
    return table


def _find_separator(path: Path) -> str:
    """Return the most frequent of the separators `,`, `;` and tab in the first line of a CSV file."""
    with pa.input_stream(path, compression="detect") as file:
        header = _QUOTED.sub(b"", file.read(_HEAD_BYTES).partition(b"\n")[0])
    return max(_SEPARATORS, key=lambda mark: header.count(mark.encode()))


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


def number_classes(table: pa.Table, name: str, path: Path) -> NDArray[np.int64]:
    """Return the position of each row's class among the sorted classes, int64 (n,); raise DataError for bad labels."""
    column, subject = table[name], f"{path.name}: the label column '{name}'"
    if column.null_count:
        raise DataError(f"{subject} is empty in {column.null_count} of {len(column)} rows")
    has_fractions = pa.types.is_floating(column.type) and not pc.all(pc.equal(column, pc.round(column))).as_py()
    if has_fractions or pa.types.is_nested(column.type):
        raise DataError(f"{subject} holds {column.type}; expected a class for each row")
    values = np.asarray(column.to_pylist())
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

    Raises DataError if the column has fewer than two classes, a class with fewer than two rows, or empty rows.
    """
    names: list[str] = table.column_names
    usual = [name for known in LABEL_COLUMN_NAMES for name in names if name.lower() == known]
    non_numeric = [name for name in names if not has_number_type(table[name].type)]
    label = usual[0] if usual else non_numeric[0] if len(non_numeric) == 1 else names[-1]
    try:
        number_classes(table, label, path)
    except DataError as error:
        raise DataError(f"{error}; name the class column '{LABEL_COLUMN_NAMES[0]}' if it is another one") from None
    return label


def find_unusable_columns(table: pa.Table, label: str) -> dict[str, str]:
    """Return a dict from each column, except the class column, that cannot be a feature to the reason."""
    reasons = {}
    for name in table.column_names:
        column = table[name]
        if name == label:
            continue
        if has_text_type(column.type):
            values = pc.cast(column, pa.string())
            others = values.filter(pc.invert(pc.match_substring_regex(values, _NUMBER)))
            reasons[name] = f"text such as '{others[0]}'" if len(others) else "text"
        elif not has_number_type(column.type):
            reasons[name] = f"{column.type}"
        elif name.lower() in _ROW_NUMBER_NAMES:
            reasons[name] = "row numbers"
        else:
            numbers = pc.cast(column, pa.float64(), safe=False)
            if missing := len(numbers) - pc.sum(pc.is_finite(numbers).fill_null(False)).as_py():
                reasons[name] = f"missing or infinite in {missing} of {len(numbers)} rows"
            elif pc.count_distinct(numbers).as_py() == 1:
                reasons[name] = "one value in all rows"
    return reasons


def find_id_columns(table: pa.Table, names: Iterable[str]) -> list[str]:
    """Return the columns with a different whole number in every row."""
    whole = [name for name in names if pa.types.is_integer(table[name].type)]
    return [name for name in whole if pc.count_distinct(table[name]).as_py() == table.num_rows]


def describe_classes(table: pa.Table, label: str) -> str:
    """Return the classes of a column with their shares, the largest first."""
    counts = pc.value_counts(pc.cast(table[label], pa.string())).to_pylist()
    ordered = sorted(counts, key=lambda row: -row["counts"])
    shares = [f"'{row['values']}' {format_percent_number(row['counts'] / table.num_rows)}%" for row in ordered]
    return f"classes in column '{label}': {list_some(shares, _LISTED_CLASSES)}"


def count_repeated_test_rows(values: NDArray[np.float64], train_rows: Labels, test_rows: Labels) -> int:
    """Return the number of test rows whose features, (n, d), equal those of a training row."""
    numbers = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    return int(np.isin(numbers[test_rows], numbers[train_rows]).sum())

"""Read tables with a class column from parquet or CSV; a row becomes an image of one pixel with a channel per column.

The store holds bytes, so each column is quantised to 256 steps between the 1st and the 99th percentile of the training
rows, and values outside of these percentiles are clipped. The fill `mean` is the mean step over the training rows.
`table_columns` sorts the columns of a user's table into classes, features and columns that are left out.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from roarbench.common.errors import DataError, UnknownName
from roarbench.common.text import format_count
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.label_tables import refuse_open_quotation_mark
from roarbench.datasets.parquet_files import has_text_type, refuse_lfs_pointer

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv")
TABLE_SUFFIXES = (".parquet", *CSV_SUFFIXES)
# quantiles at which values are clipped; without clipping, one outlier would squeeze all other rows into a few steps
_CLIP_QUANTILES = (0.01, 0.99)
_SEPARATORS = (",", ";", "\t")
_HEAD_BYTES = 2**20  # read to find the first two lines
_QUOTED = re.compile(rb'"[^"]*"')
# numbers in groups of three digits; either mark may be the decimal mark
_GROUPED = r"\d{1,3}(\.\d{3})+(,\d+)?|\d{1,3}(,\d{3})+(\.\d+)?"
_WITH_COMMA_OR_GROUPS = rf"^\s*[-+]?({_GROUPED}|\d+([.,]\d+)?)([eE][-+]?\d+)?\s*$"
_THOUSANDS = r"^[-+]?[1-9]\d{0,2}\.\d{3}$"
_PLAIN_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|0[xX][0-9a-fA-F]+")
MIN_ROWS_PER_CLASS = 2  # one for training and one for testing


def read_features_and_labels(path: Path, record: DatasetRecord) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read features, finite float64 (n, d), and class numbers, int64 (n,), from a parquet or CSV file with a header.

    Raises DataError for an unsuitable table.
    """
    return extract_features_and_labels(read_table(path, record.label_column), record, path)


def extract_features_and_labels(
    table: pa.Table, record: DatasetRecord, path: Path
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return what `read_features_and_labels` returns, from a table that was read with the label column's name.

    If the record names no columns, every column is a feature except the class column and pandas' index.
    """
    label, columns = record.label_column, record.columns
    for name in (label, *columns):
        if name not in table.column_names:
            raise DataError(f"{path.name} has {UnknownName('column', name, table.column_names)}")
    index = list_index_columns(table)
    names = [name for name in columns or table.column_names if name != label and (columns or name not in index)]
    if len(names) < 2:
        features = format_count(len(names), "feature")
        raise DataError(f"{path.name} has {features} besides '{label}'; expected two or more")
    labels = assign_class_numbers(table, label, path)
    values = np.empty((table.num_rows, len(names)))
    for place, name in enumerate(names):
        kind = table[name].type
        if not has_number_type(kind):
            advice = 'convert it to numbers, or list the features without it: columns = ["…"]'
            seen = f"column '{name}' holds {'text' if has_text_type(kind) else kind}, expected numbers"
            raise DataError(f"{path.name}: {seen}; {advice}")
        values[:, place] = convert_to_floats(table[name]).to_numpy()  # missing values become NaN
        wrong = np.flatnonzero(~np.isfinite(values[:, place]))
        if len(wrong):
            seen = f"column '{name}' has no finite number in {len(wrong)} of {len(values)} rows"
            advice = f"(first: row {wrong[0] + 1}); fill in numbers or leave these rows out"
            raise DataError(f"{path.name}: {seen} {advice}")
    return values, labels


def read_table(path: Path, label: str = "") -> pa.Table:
    """Read a whole table from a parquet or CSV file; the classes of a CSV file, in the column `label`, stay text.

    Raises DataError if the file has another format, an unclear separator, decimal commas, an unreadable or repeated
    column name, or no rows.
    """
    name = path.name.lower()
    refuse_lfs_pointer(path)
    try:
        if name.endswith(".parquet"):
            table = pq.read_table(path)
        elif name.endswith(CSV_SUFFIXES):
            empty, options = pa.csv.ConvertOptions(strings_can_be_null=True), _make_parse_options(path)
            with TextIOWrapper(pa.input_stream(path, compression="detect"), "utf-8", "replace") as lines:
                refuse_open_quotation_mark(lines, path.name)
            table = pa.csv.read_csv(path, parse_options=options, convert_options=empty)
        else:
            raise DataError(f"{path} is not a table; expected a file that ends in {', '.join(TABLE_SUFFIXES)}")
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path} ({str(error).strip().partition(chr(10))[0]}); expected a table") from error
    try:
        names = Counter(table.column_names)
    except UnicodeDecodeError as error:  # pyarrow reads files with other encodings without an error
        raise DataError(f"{path} is not UTF-8: a column name has other bytes; save the file as UTF-8") from error
    if doubled := [name for name, count in names.items() if count > 1]:
        remedy = "if the first row holds values, add a row of column names before it"
        raise DataError(f"{path.name} has the column '{doubled[0]}' more than once; {remedy}")
    bad = [field.name for field in table.schema if pa.types.is_binary(field.type)]
    if bad and path.name.lower().endswith(CSV_SUFFIXES):
        raise DataError(f"{path} is not UTF-8: column '{bad[0]}' has other bytes; save the file as UTF-8")
    for name in (name for name in table.column_names if has_text_type(table[name].type)):
        values = pc.unique(pc.cast(table[name], pa.string()))  # 1,5 and 1.234,5 are read as text
        marked = (text for text in values.to_pylist() if text and ("," in text or text.count(".") > 1))
        if pc.all(pc.match_substring_regex(values, _WITH_COMMA_OR_GROUPS)).as_py() and (seen := next(marked, "")):
            marks = "decimal commas" if "," in seen and "." not in seen else "separators of thousands"
            _refuse_marks(name, marks, seen, path)
    if not table.num_rows:
        raise DataError(f"{path} has no rows")
    return keep_classes_as_text(table, label, path) if label and label in table.column_names else table


def keep_classes_as_text(table: pa.Table, name: str, path: Path) -> pa.Table:
    """Replace a CSV file's column by its text as written, so that `NA` and `007` are classes; empty cells are missing.

    Spaces around numbers are removed. Columns of parquet files stay as they are.
    """
    if not path.name.lower().endswith(CSV_SUFFIXES):
        return table
    texts = read_as_written(table.select([name]), path)[name]
    if has_number_type(table[name].type):
        texts = pc.utf8_trim_whitespace(texts)
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    return table.set_column(table.column_names.index(name), name, texts)


def read_as_written(table: pa.Table, path: Path) -> pa.Table:
    """Return the columns as text: of a CSV file as it is written, of a parquet file as plain numbers."""
    kinds = dict.fromkeys(table.column_names, pa.string())
    if not kinds or not path.name.lower().endswith(CSV_SUFFIXES):
        plain = [pc.cast(pc.cast(column, get_value_type(column.type)), pa.string()) for column in table.columns]
        return pa.table(plain, list(kinds))
    as_text = pa.csv.ConvertOptions(include_columns=list(kinds), column_types=kinds)
    return pa.csv.read_csv(path, parse_options=_make_parse_options(path), convert_options=as_text)


def refuse_points_of_thousands(table: pa.Table, path: Path) -> None:
    """Raise DataError if points group the thousands in a column of a CSV file: 1.200 beside 850.

    Each number with a point has three digits behind the point, of which one is a zero at the end, and others have none.
    """
    floats = [name for name in table.column_names if pa.types.is_floating(table[name].type)]
    texts = read_as_written(table.select(floats if path.name.lower().endswith(CSV_SUFFIXES) else []), path)
    for name in texts.column_names:
        values = pc.utf8_trim_whitespace(texts[name])
        pointed = values.filter(pc.match_substring(values, "."))
        has_zero = pc.any(pc.ends_with(pointed, "0")).as_py()
        has_others = pc.any(pc.match_substring_regex(values, r"^[-+]?\d+$")).as_py()
        if has_zero and has_others and pc.all(pc.match_substring_regex(pointed, _THOUSANDS)).as_py():
            _refuse_marks(name, "separators of thousands", pointed[0].as_py(), path)


def _refuse_marks(name: str, marks: str, seen: str, path: Path) -> NoReturn:
    where = f"{path.name}: column '{name}' has {marks}, such as '{seen}'"
    raise DataError(f"{where}; save the file with decimal points (1.5) and without separators of thousands")


def _make_parse_options(path: Path) -> pa.csv.ParseOptions:
    """Return options with a file's separator; that of a CSV file, `,`, `;` or tab, shows in the first two lines."""
    if path.name.lower().endswith(".tsv"):
        return pa.csv.ParseOptions(delimiter="\t")
    with pa.input_stream(path, compression="detect") as file:
        lines = [_QUOTED.sub(b"", line) for line in file.read(_HEAD_BYTES).splitlines() if line.strip()][:2]
    if not lines:
        return pa.csv.ParseOptions()  # pyarrow reports the error of an empty file
    if lines[0].startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path.name} is UTF-16, expected UTF-8; save the file as UTF-8")
    is_comment = lines[0].startswith(b"#") and not any(mark.encode() in lines[0] for mark in _SEPARATORS)
    if is_comment or lines[0].lower().startswith(b"sep="):  # Excel names the separator
        seen = f"{path.name} begins with '{lines[0].decode('utf-8', 'replace')}'"
        raise DataError(f"{seen}, expected a row of column names; remove this line")
    possible = [mark for mark in _SEPARATORS if mark.encode() in lines[0]]
    if len(possible) > 1:
        possible = [mark for mark in possible if len({line.count(mark.encode()) for line in lines}) == 1]
    if len(possible) != 1:
        seen = "several of ',', ';' and tab are possible" if possible else "neither ',' nor ';' nor tab is possible"
        raise DataError(f"cannot find the column separator of {path.name}: {seen}; save the file with one of them")
    return pa.csv.ParseOptions(delimiter=possible[0])


def list_index_columns(table: pa.Table) -> list[str]:
    """Return the columns in which pandas stored the index (the row labels) of a data frame."""
    with suppress(ValueError, LookupError, TypeError):  # another program's metadata
        index = json.loads((table.schema.metadata or {})[b"pandas"])["index_columns"]
        # a range of row numbers is described by a dict and has no column
        return [name for name in index if isinstance(name, str) and name in table.column_names]
    return []


def list_category_columns(table: pa.Table) -> list[str]:
    """Return the columns that pandas stored as categories; parquet keeps only their numbers."""
    with suppress(ValueError, LookupError, TypeError):
        columns = json.loads((table.schema.metadata or {})[b"pandas"])["columns"]
        return [column["field_name"] for column in columns if column["pandas_type"] == "categorical"]
    return []


def get_value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, for categories that of the categories."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def has_number_type(kind: pa.DataType) -> bool:
    """Return whether a column type can be a feature: integers, floats, decimals, booleans, or categories of these."""
    inner = get_value_type(kind)
    is_real = pa.types.is_floating(inner) or pa.types.is_decimal(inner)
    return bool(pa.types.is_integer(inner) or is_real or pa.types.is_boolean(inner))


def convert_to_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column of numbers to float64; missing values stay missing."""
    return pc.cast(pc.cast(column, get_value_type(column.type)), pa.float64(), safe=False)


def assign_class_numbers(table: pa.Table, name: str, path: Path) -> NDArray[np.int64]:
    """Return the position of each row's class among the sorted classes, int64 (n,); raise DataError for bad labels.

    A CSV file's classes are text, so `7` and `007` are two classes; classes that are numbers are sorted by value.
    """
    column = table[name]
    if not has_number_type(column.type) and not has_text_type(column.type):
        seen = f"the label column '{name}' holds {column.type}"
        raise DataError(f"{path.name}: {seen}; expected a class for each row, as a whole number or as text")
    if column.null_count:
        seen = f"the label column '{name}' is empty in {column.null_count} of {len(column)} rows"
        remedy = "read it in pandas with keep_default_na=False, which else drops the name"
        raise DataError(f"{path.name}: {seen}; name the class of each row; if a class is named NA or None, {remedy}")
    values = np.asarray(column.to_pylist())
    classes, labels, counts = np.unique(values, return_inverse=True, return_counts=True)
    is_text_file = path.name.lower().endswith(CSV_SUFFIXES)
    numbers = parse_numbers(classes.tolist()) if is_text_file else classes.tolist()
    if numbers and (is_text_file or has_number_type(column.type)) and any(number % 1 for number in numbers):
        raise DataError(f"{path.name}: the label column '{name}' has fractions; expected a class for each row")
    if len(classes) < 2:
        raise DataError(f"{path.name}: all rows have the label '{classes[0]}'; expected two classes or more")
    if counts.min() < MIN_ROWS_PER_CLASS:
        few = f"the class '{classes[counts.argmin()]}' of '{name}' has only {counts.min()} row"
        wanted = f"expected {MIN_ROWS_PER_CLASS} or more: one for training, one for testing"
        raise DataError(f"{path.name}: {few}, {wanted}")
    if is_text_file and numbers:
        order = sorted(range(len(classes)), key=lambda number: (numbers[number], number))
        labels = np.argsort(order)[labels]  # a permutation's inverse is its argsort
    return labels.astype(np.int64)


def parse_numbers(texts: Sequence[str]) -> list[float]:
    """Return the number that each text is; an empty list if a text is not a number."""
    if not all(map(_PLAIN_NUMBER.fullmatch, texts)):
        return []
    # whole numbers stay exact above 2^53
    bases = (16 if text[:2] in ("0x", "0X") else 10 if text.isdigit() else 0 for text in texts)
    return [int(text, base) if base else float(text) for text, base in zip(texts, bases, strict=True)]


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

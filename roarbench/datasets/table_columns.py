"""Sort the columns of a user's table: the class column, the features, and every other column with its reason.

`doubtful_features` describes what may be wrong with the values of features.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from roarbench.common.errors import DataError
from roarbench.common.text import fit_on_one_line, fold_name, format_percent_number, list_quoted, list_some
from roarbench.datasets import tabular
from roarbench.datasets.image_folders import find_split_values
from roarbench.datasets.parquet_files import has_text_type

# common names of the class column, also in parquet files of images
LABEL_COLUMN_NAMES = ("label", "labels", "class", "classes", "target", "targets", "y", "category", "fine_label")
NUMBERED_LABEL_NAME = re.compile(r"(label|class|target|category)[_ ]?(\d+|[a-z])", re.I)  # of one of several targets
# folded names that often stand for a missing label, or for images of no class; of Caltech-101 and Caltech-256, too
_EMPTY_CLASS = re.compile(
    r"[?-]|nan|null|#?n/?a|background google|257\.clutter|_*(background( noise)?|clutter|unknown|unsure|ignored?|junk"
    r"|un(labell?|sort|classifi|categori[sz])ed|misc|todo|corrupt(ed)?|duplicates?|backups?|new folder|unused|removed"
    r"|undefined|uncertain|invalid|rejected|discard(ed)?|excluded|untitled|te?mp|results?|outputs?|previews?)_*"
)
_NINES = (99, 999, 9999, 99999)  # numbers that often stand for a missing label, as negative numbers, too
# columns of row numbers: of users, of pandas (to_csv, reset_index, to_parquet), of R's readr, and of databases
_ROW_NUMBER_NAME = re.compile(
    r"|id|index|unnamed: \d+(\.\d+)?|__index_level_\d+__|level_0|rowid|row_?(id|nr|num|number|names?)|\.\.\.1", re.I
)
_FOLD_NAME = re.compile(r"((cv|k)_?)?folds?(_?(id|nr|num|number))?|split", re.I)  # columns of numbers that name splits
# columns of people, places and things that have several rows or images
GROUP_WORDS = (
    "patient|pat|pid|eid|uid|mrn|accession|subj|subject|person|individual|identity|participant|volunteer|donor|speaker"
    "|writer|user|customer|household"
    "|animal|specimen|lesion|video|movie|recording|session|slide|wsi|case|group|sequence|seq|burst|clip|study|series"
    "|scan|scanner|camera|cam|device|location|site|station|deployment|hospital|clinic"
    "|cent(?:er|re)|institution|farm|plot|batch|plate|well|experiment"
)
GROUP_NAME = re.compile(rf"({GROUP_WORDS})s?([_ .-]?(id|uid|idx|index|code|nr|no|num|name|number))?|id", re.I)
_ID_NAME = re.compile(r"(?i:.+[_ .-]u?id|id[_ .-].+)|.*[a-z](ID|Id|UID)")  # of unknown things: `herd_id`, `HerdID`
_MAX_CLASSES = 100
_LISTED_CLASSES = 10
_HANDFUL = 10  # classes with fewer rows are named
_MOST_NUMBERS = 10  # grades and digits; more numbers that do not begin at 0 or 1, or have gaps, may be measurements
_OLDEST = 120  # years
_LONGEST_TYPE = 40  # characters
_MIN_LIST = 16  # numbers in a cell; fewer may be a date, a version or an address
_INTEGER_OR_DECIMAL_POINT = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
# a number with spaces or apostrophes between its digits, or with a sign of money or percent
_DECORATED_NUMBER = r"^\s*[-+]?[$€£¥]?\s*(\d{1,3}([ '’\x{A0}\x{202F}.,]\d{3})+|\d+)([.,]\d+)?\s*[%‰$€£¥]?\s*$"
_LIST_OF_NUMBERS = rf"^[\s\[]*\d+(\.\d+)?([\s,;]+\d+(\.\d+)?){{{_MIN_LIST - 1},}}[\s\]]*$"


class SortedColumns(NamedTuple):
    """The columns of a table beside its class column: features, and those left out, by the reason."""

    features: list[str]
    gaps: dict[str, int]  # number of missing or infinite values of each column of numbers that has some
    row_labels: list[str]  # index of pandas
    row_numbers: list[str]  # columns of numbers with a usual name of row numbers
    constant: list[str]  # columns of numbers with one value
    splits: list[str]  # strings such as `train` and `test`, flags such as `is_test`, and numbers of folds
    texts: list[str]
    others: list[str]  # neither numbers nor strings


def sort_columns(table: pa.Table, label: str) -> SortedColumns:
    """Sort the columns except the class column; each is in one of the lists, so none is left out without a word."""
    columns = SortedColumns([], {}, *([] for _ in range(6)))
    index = tabular.list_index_columns(table)
    for name in table.column_names:
        column = table[name]
        if name == label:
            continue
        if name in index:
            columns.row_labels.append(name)
        elif _gives_splits(name, column):
            columns.splits.append(name)
        elif has_text_type(column.type):
            columns.texts.append(name)
        elif not tabular.has_number_type(column.type):
            columns.others.append(name)
        elif _FOLD_NAME.fullmatch(name):
            columns.splits.append(name)
        elif _ROW_NUMBER_NAME.fullmatch(name):
            columns.row_numbers.append(name)
        elif count := int(pc.sum(pc.invert(pc.is_finite(tabular.convert_to_floats(column)).fill_null(False))).as_py()):
            columns.gaps[name] = count
        else:
            is_constant = pc.count_distinct(tabular.convert_to_floats(column)).as_py() == 1
            (columns.constant if is_constant else columns.features).append(name)
    return columns


def _gives_splits(name: str, column: pa.ChunkedArray) -> bool:
    """Return whether a column names splits, such as `train` and `test`, or is a flag such as `is_test`."""
    kind = tabular.get_value_type(column.type)
    has_splits = has_text_type(column.type) or tabular.has_number_type(column.type) and not pa.types.is_float16(kind)
    values = pc.unique(column) if has_splits else ()
    texts = pc.cast(pc.cast(values, kind), pa.string()) if 1 < len(values) < 20 else ()
    return find_split_values(name, (text.as_py() or "" for text in texts)) is not None


def describe_columns_left_out(table: pa.Table, columns: SortedColumns, path: Path) -> Iterator[str]:
    """Yield lines that name every column left out with the reason."""
    if columns.gaps:
        gaps = [f"'{name}' in {count} of {table.num_rows} rows" for name, count in columns.gaps.items()]
        seen = f"{path.name} has missing or infinite values: column {list_some(gaps)}"
        if len(columns.features) + len(columns.constant) < 2:
            raise DataError(f"{seen}; fill them in or leave these rows out")
        yield f"warning: {seen}; these columns are left out"
    types = {name: table[name].type for name in columns.others}  # the type of a struct names all its fields
    words = {name: fit_on_one_line(str(kind), _LONGEST_TYPE) for name, kind in types.items()}
    words |= {name: "no values" for name, kind in types.items() if pa.types.is_null(kind)}
    strays = {name: _describe_stray_text(table[name]) for name in columns.texts}
    for name, stray in strays.items():
        if stray:
            yield f"warning: {path.name}: column '{name}' is left out: it holds {stray}"
    for names, reason in (
        (columns.row_labels, "they are pandas' row labels (its index)"),
        (columns.row_numbers, "their names are those of row numbers"),
        (columns.constant, "all rows have one value"),
        (columns.splits, "they name splits, but test rows are drawn at random"),
        (columns.others, "they hold neither numbers nor text"),
        ([name for name, stray in strays.items() if not stray], "they hold text"),
    ):
        if names:
            listed = ", ".join(f"'{name}'{f' ({words[name]})' if name in words else ''}" for name in names)
            yield f"columns left out, because {reason}: {listed}"


def _describe_stray_text(column: pa.ChunkedArray) -> str:
    """Describe why a column that looks like numbers is text; an empty string if it does not look like numbers."""
    values = pc.cast(column, pa.string()).drop_null()
    texts = values.filter(pc.invert(pc.match_substring_regex(values, _INTEGER_OR_DECIMAL_POINT)))
    are_decorated = pc.all(pc.match_substring_regex(texts, _DECORATED_NUMBER)).as_py()
    if not len(values) or len(texts) >= len(values) / 2 and not are_decorated:
        return ""
    texts = texts or values  # parquet files store plain numbers as text, too
    seen = f"numbers as text, such as '{texts[0]}' in {len(texts)} of {len(column)} rows"
    return f"{seen}; write plain numbers (1234.5) to use them"


def refuse_pixels_in_cells(table: pa.Table, path: Path) -> None:
    """Raise DataError for a table that holds images: a column of lists of numbers, and fewer than two features."""
    numbers = [name for name in table.column_names if tabular.has_number_type(table[name].type)]
    if len(numbers) > 2:
        return
    for name in table.column_names:
        is_list, texts = is_list_type(table[name].type), []
        if has_text_type(table[name].type):
            texts = pc.cast(table[name], pa.string()).drop_null()
        if is_list or len(texts) and pc.all(pc.match_substring_regex(texts, _LIST_OF_NUMBERS)).as_py():
            seen = f"{path.name}: a cell of column '{name}' holds many numbers, as the pixels of an image"
            remedy = "save each row as an image file in a folder per class, or use rb.Suite.from_arrays in Python"
            raise DataError(f"{seen}; a table has one number per cell; {remedy}")


def is_list_type(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def find_label_column(table: pa.Table, path: Path) -> str:
    """Find the class column: a column with a usual name, else the only column of text, else the last column.

    Categories count as text. Pandas' index, row numbers and columns that name splits are no class columns, unless they
    have a usual name. Raises DataError if the class column has fewer than two classes, a class with fewer than two
    rows, or empty rows.
    """
    names: list[str] = table.column_names
    usual = list_usual_label_columns(table)
    unlikely = {*tabular.list_index_columns(table), *filter(_ROW_NUMBER_NAME.fullmatch, names)}
    unlikely |= {name for name in names if _gives_splits(name, table[name])}
    possible = [name for name in names if name not in unlikely]
    texts = []
    for name in possible:
        kind = table[name].type
        is_text = has_text_type(kind) or pa.types.is_dictionary(kind)
        if pa.types.is_null(kind):  # all values are names such as NA, or all are empty
            is_text = tabular.keep_classes_as_text(table, name, path)[name].null_count < table.num_rows
        texts += [name] if is_text else []
    candidates = [*(texts if len(texts) == 1 else []), *possible[-1:]]
    if GROUP_NAME.fullmatch(candidates[0] if candidates else ""):  # patients are more than their classes
        candidates.sort(key=lambda name: pc.count_distinct(table[name]).as_py())
    found = next((name for name in usual or candidates if _can_be_class_column(table, name, path)), None)
    if found:
        return found
    if not usual and len(texts) == 1:  # a column with gaps, or which repeats most of its few values, is meant
        column = tabular.keep_classes_as_text(table, texts[0], path)[texts[0]]
        most = min(_MAX_CLASSES, len(column) // 2)
        usual = texts if column.null_count or pc.count_distinct(column).as_py() <= most else []
    for name in usual:
        tabular.assign_class_numbers(tabular.keep_classes_as_text(table, name, path), name, path)  # raises the reason
        return name
    seen = f"{path.name}: no column has a usual name of a class column ({', '.join(LABEL_COLUMN_NAMES)})"
    remedy = f"rename the class column to '{LABEL_COLUMN_NAMES[0]}', or see docs/own-data.md"
    raise DataError(f"{seen}, and the last column holds no classes; {remedy}")


def list_usual_label_columns(table: pa.Table) -> list[str]:
    """Return the columns that have a usual name of a class column; the most usual name comes first."""
    names: dict[str, str] = {name: name.strip().lower() for name in table.column_names}
    known = [label for label in LABEL_COLUMN_NAMES if label != "y" or "x" not in names.values()]  # x, y are a place
    return [name for label in known for name, simple in names.items() if simple == label]


def _can_be_class_column(table: pa.Table, name: str, path: Path) -> bool:
    """Return whether a column has few classes with two rows or more each, as text or whole numbers."""
    kind = tabular.get_value_type(table[name].type)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) and kind.scale > 0:
        return False
    column = tabular.keep_classes_as_text(table, name, path)[name]
    if column.null_count or not tabular.has_number_type(column.type) and not has_text_type(column.type):
        return False
    counts = pc.value_counts(column).field("counts").to_pylist()
    return 2 <= len(counts) <= _MAX_CLASSES and min(counts) >= tabular.MIN_ROWS_PER_CLASS


def may_name_groups(name: str) -> bool:
    """Return whether a column may number people or things; a column such as `species_id` may have the classes, too."""
    return bool(GROUP_NAME.fullmatch(name) or _ID_NAME.fullmatch(name))


def describe_groups(table: pa.Table, columns: SortedColumns) -> Iterator[str]:
    """Yield a line for each column of people or things that have several rows, which may be in both splits."""
    names = (*columns.features, *columns.texts, *columns.row_labels, *columns.row_numbers, *columns.gaps)
    for name in filter(may_name_groups, names):
        values = pc.cast(table[name], pa.string()).fill_null("").to_pylist()
        if tabular.has_number_type(table[name].type):
            numbers = tabular.convert_to_floats(table[name])
            if pc.any(pc.greater(pc.abs(pc.subtract(numbers, pc.round(numbers))), 0)).as_py():
                continue  # a measurement, such as `center` of a place
        if seen := describe_group(name, values, (), "row"):
            yield seen
            if name in columns.features:
                yield f"column '{name}' is a feature; to leave it out, write columns = […] without it"


def describe_group(name: str, train: Sequence[str], test: Sequence[str], noun: str, source: str = "") -> str:
    """Describe people or things that have rows or images in both splits; an empty string if there are none.

    `train` and `test` hold the person or thing of each item of a split; without `test`, `train` holds all items, of
    which some are drawn for testing. Empty texts stand for unknown ones. `source` are words for another source than the
    column `name`.
    """
    known, values, tested = [*filter(None, train)], {*train} - {""}, {*test} - {""}
    subject = source or f"column '{name}'"
    if name.lower() == "id" and len(values) == len(known):  # numbers of rows, which may begin at 0 in each split
        return ""
    if shared := values & tested:
        seen = f"{subject}: {len(shared):,} of the {len(tested):,} values of test {noun}s"
        seen += f", such as '{min(shared)}', are values of training {noun}s, too"
        return f"{seen}; keep all {noun}s of one {name} in one split"
    if test or not 1 < len(values) < len(known):
        return ""
    seen = f"{subject} {'have' if source else 'has'} {len(values):,} values in {len(known):,} {noun}s"
    remedy = "keep one row of each" if noun == "row" else "name splits, train and test, that keep them together"
    drawn = f"which are drawn for testing one by one, so both splits have {noun}s of one {name}"
    return f"{seen}, {drawn}; {remedy}, or expect too high accuracies"


def describe_alike_classes(names: Sequence[str], remedy: str) -> Iterator[str]:
    """Yield warnings of classes of one number or nearly one name, and of -1, which often stands for a missing label."""
    alike = defaultdict[Any, list[str]](list)
    for name in dict.fromkeys(names):
        alike[fold_class_name(name)].append(name)
    for group in alike.values():
        if len(group) > 1:
            yield f"warning: {list_quoted(group)} are separate classes; if they are one class, {remedy}"
    numbers = sorted((key for key in alike if not isinstance(key, str)), key=abs)
    nines = numbers[-1:] if len(numbers) > 1 and 2 * abs(numbers[-2]) <= abs(numbers[-1]) in _NINES else []
    for key in alike:
        if key in nines or key == -1 and 0 in alike or isinstance(key, str) and _EMPTY_CLASS.fullmatch(key):
            yield f"warning: '{alike[key][0]}' is a class; if it marks missing labels or other classes, leave it out"


def fold_class_name(name: str) -> float | str:
    """Return the number of a class, or its name without differences in case, spaces, hyphens, final point, accents."""
    folded = re.sub(r"(?<=[a-z])[ _-]+(?=[a-z])", " ", fold_name(name)).removesuffix(".")
    return next(iter(tabular.parse_numbers([folded])), folded)


def describe_measurements(names: Sequence[str], from_folders: bool = False) -> Iterator[str]:
    """Yield a warning of labels that are many numbers, such as ages; classes are numbered from 0 or 1 without gaps.

    Names of folders are chosen, so that larger numbers than ages may be those of species.
    """
    numbers = sorted(tabular.parse_numbers(names))
    if from_folders and numbers[-1:] > [_OLDEST]:
        return
    if len(numbers) > _MOST_NUMBERS and (numbers[-1] - numbers[0] >= len(numbers) or numbers[0] > 1):
        seen = f"the classes are {len(numbers)} numbers from {numbers[0]:g} to {numbers[-1]:g}"
        yield f"warning: {seen}; if they are measurements, such as ages, write ranges (20-29) in their place"


def describe_classes(table: pa.Table, label: str) -> Iterator[str]:
    """Yield the classes of a column with their shares, the largest first, and warnings of names that are alike."""
    counts = pc.value_counts(pc.cast(table[label], pa.string())).to_pylist()
    ordered = sorted(counts, key=lambda row: -row["counts"])
    shares = [f"'{row['values']}' {format_percent_number(row['counts'] / table.num_rows)}%" for row in ordered]
    yield f"classes in column '{label}': {list_some(shares, _LISTED_CLASSES)}"
    if few := [f"'{row['values']}' {row['counts']}" for row in reversed(ordered) if row["counts"] < _HANDFUL]:
        yield f"warning: classes with fewer than {_HANDFUL} rows: {list_some(few)}; add rows, or leave them out"
    names = sorted(row["values"] for row in counts)
    yield from (*describe_alike_classes(names, "spell them alike"), *describe_measurements(names))

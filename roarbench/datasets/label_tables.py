"""Read text files that name images and their labels: CSV, TSV, JSON Lines, and lines of words; every value is text.

A table without a row of column names has the columns `1`, `2`, ….
"""

import csv
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from roarbench.common.errors import DataError
from roarbench.common.files import convert_read_errors
from roarbench.common.text import list_quoted
from roarbench.datasets.image_folders import IMAGE_SUFFIXES, has_image_suffix

CSV_SUFFIXES, JSON_SUFFIXES = (".csv", ".tsv"), (".jsonl", ".ndjson")
LABEL_FILE_SUFFIXES = (*CSV_SUFFIXES, *JSON_SUFFIXES, ".txt")
# usual names of columns, without capitals, spaces and underscores; the first name that a table has is used
PATH_NAMES = (
    *("filename", "file", "path", "filepath", "imagepath", "imgpath", "imagename", "imageid", "imageindex", "image"),
    *("img", "imgname", "imgid", "id", "idcode", "name", "photo", "picture", "isicid", "ddsmimagepath"),
)
LABEL_NAMES = (
    *("label", "labels", "class", "classes", "target", "category", "classid", "classname", "labelname", "categoryid"),
    *("labelid", "classlabel", "categorylabel", "imagelabel", "diagnosis", "dx", "findinglabels", "predictionstring"),
    *("breed", "species", "variety", "tumor", "diagnostic", "choice", "y"),
)
SPLIT_NAMES = (
    *("split", "set", "subset", "partition", "fold", "folds", "kfold", "phase", "dataset", "usage"),
    *("istrain", "istraining", "istrainingimage", "istest", "istesting", "isval", "isvalid", "isvalidation"),
)
_PATH_WITH_SUFFIX = re.compile(rf"(.*?(?:{'|'.join(map(re.escape, IMAGE_SUFFIXES))}))\s+(.*)", re.IGNORECASE)


class LabelTable(NamedTuple):
    """The rows of a label file."""

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]  # as many values as there are columns; a missing value is empty
    named: bool  # whether the file has a row of column names

    def find_columns(self, usual: Iterable[str]) -> list[str]:
        """Return the columns that have one of these usual names, in the order of `usual`."""
        by_name = {simplify_column_name(name): name for name in reversed(self.columns)}
        if {"x", "y"} <= by_name.keys():  # a place
            del by_name["y"]
        return [by_name[name] for name in usual if name in by_name] if self.named else []

    def find_column(self, usual: Iterable[str]) -> str:
        """Return the first column that has one of these usual names; an empty string if there is none."""
        return next(iter(self.find_columns(usual)), "")

    def get_cells(self, column: str) -> list[str]:
        """Return the value of a column in each row."""
        place = self.columns.index(column)
        return [row[place] for row in self.rows]


def simplify_column_name(name: str) -> str:
    """Return the name without capitals, spaces, hyphens and underscores, as the usual names are written."""
    return re.sub(r"[\s_-]", "", name).lower()


def read_label_table(path: Path, names_image: Callable[[str], bool], known_columns: Iterable[str] = ()) -> LabelTable:
    """Read a label file; raise DataError if it is no such file, or a row has more values than there are columns.

    `names_image` tells whether a text names an image, so that a first row of names is told from a first image.
    """
    if not path.is_file():
        state = "a folder" if path.is_dir() else "missing"
        raise DataError(f"the label file {path} is {state}; expected a CSV, TSV, TXT or JSONL file")
    if path.suffix.lower() not in LABEL_FILE_SUFFIXES:
        seen = f"the label file {path.name} ends in '{path.suffix}'"
        raise DataError(f"{seen}, expected {', '.join(LABEL_FILE_SUFFIXES)}; write its labels into a CSV file")
    with convert_read_errors(path, "expected a label file", DataError):
        text = path.read_bytes().decode("utf-8-sig")
    if path.suffix.lower() in JSON_SUFFIXES:
        columns, rows = _read_json_lines(text, path)
        named = True
    else:
        rows = _split_rows(text, path, names_image)
        if not rows:
            raise DataError(f"{path} is empty; expected a row for each image")
        usual = {*PATH_NAMES, *LABEL_NAMES, *SPLIT_NAMES, *map(simplify_column_name, known_columns)}
        is_usual = any(simplify_column_name(cell) in usual for cell in rows[0])
        is_image = [any(names_image(cell) or has_image_suffix(Path(cell)) for cell in row) for row in rows[:2]]
        named = len(rows) > 1 and not is_image[0] and (is_usual or is_image[1] and len(rows[0]) > 1)
        columns = [str(number) for number in range(1, max(map(len, rows)) + 1)]
        if named:
            columns, *rows = rows
            # commas in names, as in the unquoted "Size[Width,Height]" of a published file, leave no empty last column
            columns = columns if columns[-1] else columns[:-1]
    width = len(columns)
    for number, row in enumerate(rows):
        if len(row) > width and any(row[width:]):
            seen = f"{path.name}: row {number + 1 + named} has {len(row)} values, but there are {width} columns"
            raise DataError(f"{seen}; put values that contain the separator into quotation marks")
    filled = [tuple((row + [""] * (width - len(row)))[:width]) for row in rows]
    return LabelTable(path, tuple(columns), filled, named)


def _read_json_lines(text: str, path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the names and the rows of a table of JSON objects, one in each line."""
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        record = None
        with suppress(ValueError):
            record = json.loads(line) if line.strip() else {}
        if not isinstance(record, dict):
            raise DataError(f"{path.name}: line {number} is not a JSON object; expected one object per image")
        records += [record] if line.strip() else []
    columns = list(dict.fromkeys(name for record in records for name in record))
    # an object, such as the boxes of `{"objects": {"bbox": …}}`, is no label
    columns = [name for name in columns if not any(_holds_object(record.get(name)) for record in records)]
    return columns, [[_format_json_value(record.get(name)) for name in columns] for record in records]


def _holds_object(value: Any) -> bool:
    return isinstance(value, dict) or isinstance(value, list) and any(map(_holds_object, value))


def _format_json_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):  # several labels
        return "|".join(map(_format_json_value, value))
    return value.strip() if isinstance(value, str) else json.dumps(value)


def _split_rows(text: str, path: Path, names_image: Callable[[str], bool]) -> list[list[str]]:
    text = re.sub(r"^sep=.\s*\n", "\n", text, flags=re.I)  # Excel names the separator
    every_line = [*StringIO(text, newline=None)]  # Unicode's line separators, as in titles from the web, end no row
    first = next(filter(str.strip, every_line), "")
    is_csv = path.suffix.lower() in CSV_SUFFIXES or first.startswith('"')
    if is_csv and not _PATH_WITH_SUFFIX.fullmatch(first.strip()):  # no spaces separate
        separator = (
            "\t" if path.suffix.lower() == ".tsv" else max(",;\t" if {*first} & {*",;\t"} else "|", key=first.count)
        )
        refuse_open_quotation_mark(every_line, path.name)
        try:
            reader = csv.reader(every_line, delimiter=separator, skipinitialspace=True)
            rows = [[cell.strip() for cell in row] for row in reader]
        except csv.Error as error:
            raise DataError(f"{path.name} is not a CSV file ({error}); save it as CSV") from None
        return [row for row in rows if any(row)]
    lines = [line.strip() for line in every_line if line.strip()]
    lines = [line for line in lines if line[0] != "#" or any(map(names_image, (line, line.split()[0])))]  # no comment
    if not lines or all(map(names_image, lines[:10])):  # a list of images, whose names may have spaces and commas
        return [[line] for line in lines]
    if len(lines) > 1 and lines[0].isdecimal() and not lines[1].isdecimal():  # the count of the lines below
        del lines[0]
    bar = "|" if any(map(names_image, lines[-1].split("|"))) else ""  # `a.png cat|dog` has two labels
    for separator in f"\t;,{bar}":
        if separator in lines[0]:
            return [[cell.strip() for cell in line.split(separator)] for line in lines]
    rows = []  # split at spaces; the path of an image in front and a last value may contain spaces
    for line in lines:
        found = _PATH_WITH_SUFFIX.fullmatch(line)
        rows.append([found[1], *found[2].split()] if found and names_image(found[1]) else line.split())
    if {len(row) for row in rows[1:]} == {len(rows[0]) + 1} and not names_image(rows[0][0]):
        rows[0].insert(0, PATH_NAMES[0])  # names of the columns of values alone, as in CelebA
    elif len({len(row) for row in rows}) > 1 < min(map(len, rows)):
        width = 2 if names_image(rows[0][0]) else len(rows[0])  # names of columns tell how many there are
        return [[*row[: width - 1], " ".join(row[width - 1 :])] for row in rows]
    return rows


def refuse_open_quotation_mark(lines: Iterable[str], name: str) -> None:
    """Raise DataError for a line of the file `name` with an odd number of quotation marks, which would join rows."""
    if number := next((number for number, line in enumerate(lines, 1) if line.count('"') % 2), 0):
        seen = f"{name}: a quotation mark in line {number} is not closed there"
        raise DataError(f'{seen}; remove it, or the line break of its value, or double it ("") inside a quoted value')


def describe_columns(table: LabelTable) -> str:
    return f"{table.path.name} has the columns {list_quoted(table.columns)}"

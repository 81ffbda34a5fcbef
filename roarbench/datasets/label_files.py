"""Find the label, and optionally the split, of each image in label files (docs/own-data.md).

A label file names images by their path or the end of their path, with or without suffix. Its label and split are the
values of a column. A file that names no image, as `image_class_labels.txt` of CUB-200, is joined to the other files by
its first column.
"""

import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from roarbench.common.errors import DataError
from roarbench.common.text import list_some
from roarbench.datasets import label_tables
from roarbench.datasets.image_folders import FALSE_WORDS, IMAGE_SUFFIXES, TRUE_WORDS, has_image_suffix, make_prefix
from roarbench.datasets.label_tables import LabelTable, describe_columns, read_label_table, simplify_column_name
from roarbench.datasets.table_columns import GROUP_NAME

_MOST = 0.9  # smallest share of the rows that have a single 1 in one-hot columns
_INSPECTED = 50  # rows that decide which column names images
_LONG_NUMBER = 5  # digits
# of files that are often converted to images of the same names
_ORIGINAL_SUFFIXES = (".dcm", ".dicom", ".wav", ".mp3", ".flac", ".ogg", ".npy", ".svs")
_FIELD = re.compile(r"\{([^{}]+)\}")  # a column in a pattern such as `train/{id}.png`
# in names of label files and folders, of training and of test images
_SPLITS = (re.compile("train", re.IGNORECASE), re.compile("test|(?<![a-z])val(id(ation)?)?(?![a-z])", re.IGNORECASE))


class LabelColumns(NamedTuple):
    """Columns of label files; an empty string if a suite leaves the choice to roarbench, or if there is no column."""

    path: str = ""  # a column, or a pattern with columns in braces
    label: str = ""  # label, split: a column, or the name of a file whose second column is meant
    split: str = ""
    one_hot: tuple[str, ...] = ()  # columns of zeros and ones (or False and True); the class is the one that holds 1


class ImageLabels(NamedTuple):
    """The content of label files."""

    labels: Mapping[str, str]  # from the path of an image to its label
    splits: Mapping[str, str]  # from the path of an image to its value in the column of splits
    missing: tuple[str, ...]  # names of images in the label files that are not on the disk
    several: Mapping[str, str]  # images with more than one label, which are left out
    columns: LabelColumns  # the columns that were used


class ImageIndex:
    """Image files of a folder, to be found by the names in label files."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        self._by_path: dict[str, list[str]] = defaultdict(list)
        for path in paths:
            whole = _remove_suffix(path)
            self._by_path[whole].append(path)
            self._by_stem[whole.rpartition("/")[2]].append(path)

    def find(self, name: str, near: str = "", file: str = "") -> list[str]:
        """Return the images that a name may mean: none, one, or several if the name is ambiguous.

        `near` begins the paths in the folder of the label file, in which images are looked for first. An ambiguous name
        in a `file` such as `train_labels.csv` means an image in a folder such as `train`.
        """
        name = re.sub(r"^(\./|/)+", "", name.replace("\\", "/").strip())
        stem = self._find_stem(name)
        found = self._by_path.get(f"{near.casefold()}{stem}", []) if near else []
        if not found and "/" in stem:  # a whole path needs no search among the many images of the same stem
            found = self._by_path.get(stem, [])
        if not found:
            candidates = self._by_stem.get(stem.rpartition("/")[2], [])
            wholes = [(path, f"/{_remove_suffix(path)}") for path in candidates]
            found = [path for path, end in wholes if end.endswith(f"/{stem}") or f"/{stem}".endswith(end)]
        if has_image_suffix(Path(name)):
            found = [path for path in found if path.endswith(name.rpartition("/")[2])] or found
        if len(found) > 1:
            found = [path for path in found if name.rpartition("/")[2] in path] or found  # with the same capitals
            found = [path for path in found if path.startswith(near)] or found
            found = [path for path in found if _remove_suffix(path) == stem] or found
            named = [split for split in _SPLITS if split.search(file)]
            if len(named) == 1:  # `trainval.csv` has two splits
                found = [path for path in found if named[0].search(path.rpartition("/")[0])] or found
        return found

    def has(self, name: str) -> bool:
        """Return whether a name may mean an image; a dictionary answers for most names that do not."""
        return bool(self._find_stem(name.replace("\\", "/").strip())) and bool(self.find(name))

    def _find_stem(self, name: str) -> str:
        """Return the path that a name means, without suffix; an empty string if no image has its last part.

        `a.wav` means `a.wav.png` or else `a.png`, and `a.jpg` means `a.png` or else `a.jpg.png`.
        """
        stems = (_remove_suffix(name, suffixes) for suffixes in (IMAGE_SUFFIXES, (), _ORIGINAL_SUFFIXES))
        return next((stem for stem in stems if stem.rpartition("/")[2] in self._by_stem), "")

    def has_by_no_chance(self, name: str) -> bool:
        """Return whether a name is that of an image, and no number of up to four digits."""
        return self.has(name) and not (name.isdecimal() and len(name) < _LONG_NUMBER)

    def find_one(self, name: str, source: Path, near: str) -> str:
        """Return the image that a name means, or an empty string; raise DataError if it may mean several images."""
        found = self.find(name, near, source.stem)
        if len(found) > 1:
            seen = f"{source.name} names '{name}', which may be {list_some(sorted(found))}"
            remedy = 'write the folder of each image into the file, or of all as path_column = "FOLDER/{COLUMN}"'
            if len({*map(_remove_suffix, found)}) == 1:
                remedy = f'write the suffix into path_column, such as path_column = "{{COLUMN}}{Path(found[0]).suffix}"'
            raise DataError(f"{seen}; {remedy} with the column's name or number in braces")
        return found[0] if found else ""


def _remove_suffix(path: str, suffixes: Collection[str] = IMAGE_SUFFIXES) -> str:
    """Return a path without the suffix of an image and without capitals, which Windows and macOS do not tell apart.

    The path is in NFC, as macOS writes accents in another form.
    """
    path = unicodedata.normalize("NFC", path).casefold()
    stem, _, suffix = path.rpartition(".")
    return stem if f".{suffix}" in suffixes else path


def list_label_files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the label files that paths or patterns (`*`) below a folder name; raise DataError if a file is missing."""
    files = []
    for pattern in patterns:
        matching = sorted(folder.glob(pattern)) if "*" in pattern else [folder / pattern]
        if not matching or not matching[0].is_file():
            seen = f"labels: no file {folder / pattern}"
            raise DataError(f"{seen}; write the path of a CSV, TSV, TXT or JSONL file relative to the images' folder")
        files += matching
    return files


def read_image_labels(folder: Path, patterns: Sequence[str], wanted: LabelColumns, paths: Iterable[str]) -> ImageLabels:
    """Read the label files of the images at these paths below a folder.

    Raises DataError if a file cannot be read, a column is missing or unclear, a name may mean two images, or an image
    has two labels.
    """
    index = ImageIndex(paths)
    known = [name for name in (*_FIELD.findall(wanted.path), *wanted[:3]) if name]
    tables = [read_label_table(file, index.has, known) for file in list_label_files(folder, patterns)]
    labels: dict[str, str] = {}
    splits: dict[str, str] = {}
    missing: dict[str, None] = {}
    by_id: dict[str, str] = {}
    for name in filter(None, _FIELD.findall(wanted.path) or [wanted.path]):
        if not any(name in table.columns for table in tables):
            raise DataError(f"{describe_columns(tables[0])}, expected '{name}', as path_column says")
    columns = [_find_columns(table, wanted, index) for table in tables]
    paths = drop_columns_of_ids(tables, [found.path for found in columns])
    columns = [found._replace(path=path) for found, path in zip(columns, paths, strict=True)]
    if not any(found.path for found in columns):
        seen = f"{describe_columns(tables[0])}, but none names an image in {folder}"
        raise DataError(f'{seen}; write path_column = "COLUMN"')
    for table, found in sorted(zip(tables, columns, strict=True), key=lambda pair: not pair[1].path):
        near = make_prefix(str(table.path.parent.relative_to(folder)))
        # `n01440764 108 13 479 370 n01440764 …` of Kaggle
        is_prediction = simplify_column_name(found.label) == "predictionstring"
        for row in table.rows:
            values = dict(zip(table.columns, row, strict=True))
            if found.path:
                name = _fill_in_columns(found.path, values)
                path = index.find_one(name, table.path, near) if name else ""
                by_id.setdefault(row[0], path)
            else:
                name = row[0]
                path = by_id.get(name, "")
            if not path:
                missing[name] = None
                continue
            label = values.get(found.label, "")
            if not found.label:
                label = "|".join(name for name in found.one_hot if values[name].lower() in TRUE_WORDS)
            elif is_prediction:
                label = "|".join(dict.fromkeys(w for w in label.split() if not w.replace(".", "").isdecimal()))
            for noun, known_of, value in (("labels", labels, label), ("splits", splits, values.get(found.split, ""))):
                if value and known_of.setdefault(path, value) != value:
                    seen = f"{table.path.name} gives {path} the {noun} '{known_of[path]}' and '{value}'"
                    remedy = f"correct the file, or name another column{' or fewer files' if len(tables) > 1 else ''}"
                    raise DataError(f"{seen}; an image may have one; {remedy}")
    if wanted.split and not splits:
        raise DataError(f"{describe_columns(tables[0])}, expected the split_column '{wanted.split}'")
    if not labels and not splits:
        seen = describe_columns(tables[0])
        remedy = f'write labels = {json.dumps([*patterns])} and label_column = "COLUMN"'
        raise DataError(f"{seen}; none is clearly that of the labels; {remedy}")
    single, several = _separate_several_labels(labels)
    path, label, split = (next(filter(None, names), "") for names in zip(*(c[:3] for c in columns), strict=True))
    return ImageLabels(single, splits, tuple(missing), several, LabelColumns(path, label, split))


def find_names_in_list(file: Path, folder: Path, path_column: str, index: ImageIndex) -> tuple[list[str], list[str]]:
    """Return the images that a list names, and the names without an image; raise DataError if it names no image."""
    table = read_label_table(file, index.has, _FIELD.findall(path_column))
    column = find_path_column(table, path_column, index)
    if not column:
        raise DataError(f"{describe_columns(table)}, but none names an image in {folder}; expected a list of images")
    near = make_prefix(str(file.parent.relative_to(folder)))
    paths: dict[str, None] = {}
    missing = []
    for row in table.rows:
        name = _fill_in_columns(column, dict(zip(table.columns, row, strict=True)))
        if path := index.find_one(name, file, near):
            paths[path] = None
        else:
            missing.append(name)
    return list(paths), missing


def _find_columns(table: LabelTable, wanted: LabelColumns, index: ImageIndex) -> LabelColumns:
    path = find_path_column(table, wanted.path, index)
    split = _find_wanted_column(table, wanted.split)
    label = _find_wanted_column(table, wanted.label)
    if wanted.label or wanted.split == table.path.name:
        return LabelColumns(path, label, split)
    label = find_label_column(table, path, split)
    one_hot = () if label or not path or not table.named else find_one_hot_columns(table)
    return LabelColumns(path, label, split, one_hot)


def find_path_column(table: LabelTable, wanted: str, index: ImageIndex) -> str:
    """Return the column or the pattern of columns whose values name images; an empty string if there is none."""
    is_pattern = "{" in wanted and {*_FIELD.findall(wanted)} <= {*table.columns}
    if is_pattern or wanted and wanted in table.columns:  # pandas' to_csv gives its row numbers an empty name
        return wanted
    inspected = table.rows[:: -(-len(table.rows) // _INSPECTED) or 1]
    if not any(index.has(cell) for row in inspected for cell in row):  # only some of the images may be on the disk
        different = [len({*cells}) for cells in zip(*inspected, strict=True)]
        places = [place for place, count in enumerate(different) if 2 * count > len(inspected)]
        inspected = [row for row in table.rows if any(index.has_by_no_chance(row[place]) for place in places)]
        inspected = inspected[:: -(-len(inspected) // _INSPECTED) or 1]
    cells = {name: [row[place] for row in inspected] for place, name in enumerate(table.columns)}
    hits = {name: sum(map(index.has, values)) for name, values in cells.items()}
    paths = {name: sum("/" in v or has_image_suffix(Path(v)) for v in values) for name, values in cells.items()}
    usual = [name for name in table.columns if simplify_column_name(name) in label_tables.PATH_NAMES and hits[name]]
    if table.named and usual:  # an `id` may be the name of another image than that of the column `filename`
        return min(usual, key=lambda name: (not paths[name], label_tables.PATH_NAMES.index(simplify_column_name(name))))
    best = max(hits, key=lambda name: (bool(hits[name]) * paths[name], hits[name]), default="")
    return best if best and hits[best] else ""


def _find_wanted_column(table: LabelTable, wanted: str) -> str:
    """Return the column of this name, or the second column of the file of this name."""
    if wanted in table.columns and table.named:
        return wanted
    if wanted == table.path.name:
        return table.columns[min(1, len(table.columns) - 1)]
    return wanted if wanted in table.columns else ""


def drop_columns_of_ids(tables: Iterable[LabelTable], columns: Sequence[str]) -> list[str]:
    """Return each table's column of paths; empty where it has ids, whose paths another of these tables gives.

    The id 1 is then not the image `1.png`.
    """
    pairs = [(column, {row[0] for row in table.rows}) for table, column in zip(tables, columns, strict=True)]
    ids = {value for column, first in pairs if column == "2" for value in first}
    return ["" if column == "1" and first <= ids else column for column, first in pairs]


def find_label_column(table: LabelTable, path: str, split: str = "") -> str:
    """Return the column of labels: that with a usual name, or the only other column; an empty string if unclear."""
    taken = {path, split, *_FIELD.findall(path)}
    others = [name for name in table.columns if name not in taken]
    if table.named:
        if (usual := table.find_column(label_tables.LABEL_NAMES)) and usual not in taken:
            return usual
        unlikely = ("", table.find_column(label_tables.SPLIT_NAMES))
        rest = [name for name in others if name not in unlikely and not name.startswith("Unnamed")]
        rest = [name for name in rest if any(table.get_cells(name))]  # a column of notes is often empty
        things = [name for name in rest if GROUP_NAME.fullmatch(name)]
        labels = [name for name in rest if name not in things]
        # patients are more than their classes; a column `group` of two values may have the classes itself
        counts = {name: len({*table.get_cells(name)}) for name in rest}
        if len(labels) == 1 and all(counts[labels[0]] < counts[thing] for thing in things):
            return labels[0]
        return rest[0] if len(rest) == 1 else ""
    if not path:  # joined by its first column
        return table.columns[1] if len(table.columns) > 1 else ""
    behind = [name for name in others if "{" in path or int(name) > int(path)]
    if behind:
        return behind[0]
    # an id differs in every row, a label does not
    return others[-1] if others and len({row[int(others[-1]) - 1] for row in table.rows}) < len(table.rows) else ""


def find_one_hot_columns(table: LabelTable) -> tuple[str, ...]:
    """Return the columns of 0 and 1, or False and True, of which nearly every row has a single 1; empty without any."""
    places = [
        place
        for place, name in enumerate(table.columns)
        if name and simplify_column_name(name) not in label_tables.SPLIT_NAMES
        if {row[place].lower() for row in table.rows} <= {*FALSE_WORDS, *TRUE_WORDS, ""}
    ]
    single = sum(sum(row[place].lower() in TRUE_WORDS for place in places) == 1 for row in table.rows)
    is_one_hot = len(places) > 1 and single >= _MOST * len(table.rows)
    return tuple(table.columns[place] for place in places) if is_one_hot else ()


def _fill_in_columns(pattern: str, values: Mapping[str, str]) -> str:
    if "{" not in pattern:
        return values[pattern]
    return _FIELD.sub(lambda field: values[field[1]], pattern)


def _separate_several_labels(labels: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Separate images with one label from images with several, such as `scab rust` beside `scab` and `rust`."""
    counts = Counter(labels.values())
    several = {label for label in counts if "|" in label and all(map(str.strip, label.split("|")))}
    plain = {label: re.sub(r"[\[\]()'\"]", "", label) for label in counts}  # a list may be written as ['cat', 'dog']
    names = {*plain.values()}
    for separator in ",;&+/ ":
        parts = {label: [*map(str.strip, plain[label].split(separator))] for label in counts}
        composed = {label for label in counts if len(parts[label]) > 1 and names.issuperset(parts[label])}
        # one such label may be a class of its own: `hot dog` beside `hot` and `dog`
        several |= composed if len(composed) > 1 else {label for label in composed if label.startswith("[")}
    single = {path: label for path, label in labels.items() if label not in several}
    return single, {path: label for path, label in labels.items() if label in several}

"""Find the files in a user's folder that give labels or splits of images."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from roarbench.common.errors import DataError
from roarbench.common.text import list_quoted
from roarbench.datasets import image_folders, label_files, label_tables
from roarbench.datasets.image_folders import has_image_suffix
from roarbench.datasets.label_files import ImageIndex, ImageLabels, LabelColumns
from roarbench.datasets.label_tables import LABEL_FILE_SUFFIXES, SPLIT_NAMES, LabelTable, simplify_column_name
from roarbench.datasets.table_columns import GROUP_NAME, may_name_groups
from roarbench.datasets.tabular import parse_numbers

_MAX_BYTES = 2**28  # larger files are not read
_MAX_BYTES_BESIDE = 2**26  # a folder beside that of the images may hold any large text
_MANY_ALIKE = 2  # so many files of the same name, but for numbers, in neighbouring folders are named by one pattern
_MANY_IN_FOLDER = 50  # more files of the same name, but for numbers, in one folder are no label files
_INSPECTED, _MIN_NAMED, _MIN_IMAGES = 200, 0.2, 0.05  # rows that are inspected; smallest share of rows and of images
_MIN_ROWS = 0.1  # rows for each image of a table that may describe the images
_LABEL_FOLDER = re.compile("labels?|anno(tation)?s?|(image)?(splits?|sets?)|lists?|meta(data)?", re.I)
# in names of files that a network made
PREDICTED = re.compile(
    r"submission|sample[ _-]?sub(?![a-z])|predict|pseudo[ _-]?label|inference"
    r"|(?<![a-z])(pred|output|result)s?(?![a-z])", re.I
)  # fmt: skip
_SPLIT_FILE = re.compile(r"split|partition|(?<![a-z])fold(?!er)", re.I)  # `list_eval_partition.txt` gives no classes


@dataclass(frozen=True)
class LabelPlan:
    """Label files that belong together, and what they say."""

    files: tuple[str, ...]  # paths or patterns relative to the root
    columns: LabelColumns
    content: ImageLabels
    usual: bool  # whether the column of labels has a usual name
    split_values: tuple[str, str] | None = None  # training and test value of the column of splits
    rivals: tuple[str, ...] = ()  # columns of usual names, or without names, that could be those of labels, too

    @property
    def labels(self) -> Mapping[str, str]:
        return self.content.labels


@dataclass(frozen=True)
class LabelSearch:
    """Labels, lists and splits of images that the text files of a folder give."""

    plans: tuple[LabelPlan, ...]  # with labels that could be classes
    lists: Mapping[str, frozenset[str]]  # from each file that names images to these images
    split_sources: tuple[LabelPlan, ...]  # files that give a split to each image; those without labels come first
    unused: tuple[str, ...]  # files that name no image
    problems: tuple[str, ...]  # why label files could not be read
    doubts: tuple[str, ...]  # why splits that are drawn at random may be wrong
    groups: Mapping[str, Mapping[str, str]]  # from each column of people or things to the value of each image


def find_label_files_beside(folder: Path, paths: Sequence[str]) -> list[str]:
    """Return the names of text files that together name at least half of a folder's images by more than a number.

    The files lie beside the folder, or in a folder beside it whose name says that it holds labels or lists.
    """
    named: dict[str, set[str]] = {}
    with suppress(OSError):  # the folder above may be unreadable
        near = [*folder.parent.iterdir()]
        others = [path for path in near if _LABEL_FOLDER.fullmatch(path.name) and path.is_dir() and path != folder]
        texts = [path for path in near if path.suffix.lower() in LABEL_FILE_SUFFIXES]
        files = [path for path in texts if not PREDICTED.search(path.name)]
        files = sorted(files + [file for other in others for _, file in _list_text_files(other)])
        index = ImageIndex(paths if files else ())
        for file in (file for file in files if file.stat().st_size <= _MAX_BYTES_BESIDE):
            with suppress(DataError):  # a text is often no table
                table = label_tables.read_label_table(file, index.has)
                column = label_files.find_path_column(table, "", index)
                cells = table.get_cells(column) if column else []
                if not all(map(str.isdecimal, cells)):
                    images = {path for cell in cells for path in index.find(cell)[:1]}
                    named[file.relative_to(folder.parent).as_posix()] = images
    return [*named] if 2 * len(set().union(*named.values())) >= len(paths) > 0 else []


def search_label_files(root: Path, paths: Sequence[str]) -> LabelSearch:
    """Read all text files below a folder that name images, and combine those that belong together."""
    index = ImageIndex(paths)
    tables, problems = {}, []
    for pattern, file in _list_text_files(root):
        try:
            if (size := file.stat().st_size) > _MAX_BYTES:
                raise DataError(f'{file.name} has {size >> 20:,} MB; if it has the labels, write labels = "{pattern}"')
            tables[pattern] = label_tables.read_label_table(file, index.has)
        except DataError as error:  # a text is often no table
            problems += [str(error)] if file.suffix.lower() in label_tables.CSV_SUFFIXES else []
    found = [label_files.find_path_column(table, "", index) for table in tables.values()]
    columns = dict(zip(tables, label_files.drop_columns_of_ids(tables.values(), found), strict=True))
    named = {p: t for p, t in tables.items() if columns[p] and _names_images(t, columns[p], index, paths)}
    groups = defaultdict(list)
    for pattern, table in named.items():
        words = () if table.named else image_folders.remove_split_words(table.path.stem)
        groups[table.columns, words, columns[pattern]].append(pattern)
    folders = {folder for path in paths for folder in path.split("/")[:-1]}  # two or more may be classes
    plans, split_plans, doubts = [], [], []
    for patterns in groups.values():
        first, column = tables[patterns[0]], columns[patterns[0]]
        first = first._replace(rows=[row for pattern in patterns for row in tables[pattern].rows])
        try:
            plan = _make_plan(root, paths, patterns, first, column)
            if plan and _could_be_classes(plan.labels.values()):
                plans.append(plan)
                continue
            split_plans += [plan] if plan else []
            names = [name for name in first.columns if not GROUP_NAME.fullmatch(name) and name != column]
            names = [name for name in names if simplify_column_name(name) not in SPLIT_NAMES]
            unknown = [name for name in names if _could_be_classes(first.get_cells(name))]  # a link differs in each row
            fractions = [name for name in names if any(number % 1 for number in parse_numbers(first.get_cells(name)))]
            if first.named and not plan and len(folders) < 2 and len(names) == len(fractions) == 1:
                seen = f"{label_tables.describe_columns(first)}, of which '{names[0]}' has fractions and no classes"
                problems.append(f"{seen}; write a column 'label', such as ranges (1-2) of these numbers")
            is_unclear = first.named or len(folders) < 2 and not _name_split_column(first)
            if is_unclear and len(unknown) > (1 if plan else 0):
                seen = f"{label_tables.describe_columns(first)}, of which none is clearly that of the classes"
                problems.append(f'{seen}; write labels = {json.dumps(patterns)} and label_column = "COLUMN"')
        except DataError as error:
            problems.append(str(error))
            doubts += [str(error)] if _find_split_column(first)[1] else []
    joined, joined_splits = _join_by_id(root, paths, tables, named, columns)
    without_labels = [joined_splits] if joined_splits else split_plans[:1]
    split_sources = tuple(source for source in (*without_labels, *plans, *joined) if source.split_values)
    unused = {p: t for p, t in tables.items() if not columns[p] and paths}  # all images may be hidden
    problems += filter(None, (_describe_table_without_images(p, t, paths, folders) for p, t in unused.items()))
    lists: dict[str, frozenset[str]] = {}
    group_of = defaultdict[str, dict[str, str]](dict)
    for pattern, table in named.items():
        cells, file = table.get_cells(columns[pattern]), table.path
        split = _name_split_column(table) or next(filter(image_folders.is_bare_split_name, table.columns), "")
        values = sorted({*table.get_cells(split)} - {""}) if split else []
        if 1 < len(values) < len(table.rows) and not _find_split_column(table)[1]:
            seen = f"column '{split}' of {file.name} has the values {list_quoted(values)}"
            lines = f'labels = "{pattern}", split_column = "{split}", train = VALUE and test = VALUE'
            remedy = f"to use it, write {lines} in place of test_share"
            doubts.append(f"{seen}, of which none names a training or a test split; {remedy}")
        if "*" not in pattern:
            found = [next(iter(index.find(cell, file=file.stem)), "") for cell in cells]  # empty without an image
            lists[pattern] = frozenset(filter(None, found))
            for name in filter(may_name_groups, table.columns if table.named else ()):
                group_of[name] |= zip(found, table.get_cells(name), strict=True)
    return LabelSearch((*plans, *joined), lists, split_sources, tuple(unused), tuple(problems), tuple(doubts), group_of)


def _describe_table_without_images(pattern: str, table: LabelTable, paths: Sequence[str], folders: Set[str]) -> str:
    """Describe a table that may give labels, but names none of the images; an empty string for other tables."""
    names_files = len(folders) < 2 and any(has_image_suffix(Path(cell)) for row in table.rows[-1:] for cell in row)
    is_short = len(table.rows) <= len(folders)
    is_class_list = is_short and all(any(cell in folders for cell in row) for row in table.rows)
    # labels of folders, such as those of patients, are fewer
    is_class_list &= not any(1 < len({*cells}) <= len(cells) / 2 for cells in map(table.get_cells, table.columns))
    is_long = pattern.lower().endswith(label_tables.CSV_SUFFIXES) and len(table.rows) >= _MIN_ROWS * len(paths)
    is_log = all(parse_numbers([*filter(None, row)]) for row in table.rows[-1:])  # numbers alone, as of epochs
    if is_class_list or not (names_files or is_long and not is_log or table.find_column(label_tables.LABEL_NAMES)):
        return ""
    row = list_quoted(table.rows[0])
    seen = f"{label_tables.describe_columns(table)} (first row: {row}), but none names an image such as '{min(paths)}'"
    pattern = f'labels = "{pattern}" and a path_column of several columns, such as "{{COLUMN}}_{{COLUMN}}"'
    return f"{seen}; write each image's file name into a row, with its folders and zeros, or {pattern}"


def find_split_lists(lists: Mapping[str, frozenset[str]], classified: Set[str]) -> tuple[tuple[str, str], str] | None:
    """Return the preferred pair of lists of training and test images, and a line for the user; None without a pair.

    The lists have no image in common, and at least half of the images of each are in `classified`, those with a class.

    `train1.txt` and `test1.txt` are a pair, as are `trainval.txt` and `test.txt`; `train1.txt` and `test2.txt` are not.
    """
    by_name = {path.rpartition("/")[2].rpartition(".")[0]: path for path in sorted(lists, reverse=True)}
    usable = {name for name, path in by_name.items() if 2 * len(lists[path] & classified) >= len(lists[path])}
    pairs = [
        (train, test)
        for train, test in image_folders.find_split_pairs(sorted(usable))
        if re.findall(r"\d+", train) == re.findall(r"\d+", test) and not lists[by_name[train]] & lists[by_name[test]]
    ]
    if not pairs:
        return None
    train, test = (by_name[name] for name in pairs[0])
    others = [name for name in sorted(by_name) if name not in pairs[0] and any(name in pair for pair in pairs)]
    more = f"; not used: {list_quoted([by_name[name] for name in others])}" if others else ""
    return (train, test), f"splits: the lists '{train}' and '{test}'{more}"


def _list_text_files(root: Path) -> list[tuple[str, Path]]:
    """Return the pattern and the first file of each group of text files with the same names, but for numbers."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in image_folders.list_all_files_below(root):
        path = file.relative_to(root)
        if file.suffix.lower() not in LABEL_FILE_SUFFIXES or PREDICTED.search(path.as_posix()):
            continue
        above = path.parent.parent.as_posix()
        groups[above, re.sub(r"\d+", "*", file.name)].append(path.as_posix())
    found = []
    for (above, name), files in groups.items():
        files.sort()
        folders = {file.rpartition("/")[0] for file in files}
        if len(files) > _MANY_IN_FOLDER * len(folders):
            continue  # boxes or descriptions of single images
        if "*" in name and len(files) >= _MANY_ALIKE and len(folders) == len(files):
            found.append((f"{above}/*/{name}".removeprefix("./"), root / files[0]))
        else:
            found += [(file, root / file) for file in files]
    return sorted(found)


def _names_images(table: LabelTable, column: str, index: ImageIndex, paths: Sequence[str]) -> bool:
    """Return whether a fifth of the rows name an image, or a twentieth of the images beside a named image are named."""
    cells = table.get_cells(column)
    inspected = cells[:: -(-len(cells) // _INSPECTED) or 1]
    if sum(map(index.has, inspected)) >= _MIN_NAMED * len(inspected):
        return True
    found = {path for name in {*filter(index.has_by_no_chance, cells)} for path in index.find(name)[:1]}
    folders = {path.rpartition("/")[0] for path in found}
    return len(found) >= max(1, _MIN_IMAGES * sum(path.rpartition("/")[0] in folders for path in paths))


def _make_plan(
    root: Path, paths: Sequence[str], patterns: Sequence[str], table: LabelTable, path_column: str
) -> LabelPlan | None:
    """Return what files say of classes and splits, or of splits alone; None if they say nothing clear of either."""
    split, values = _find_split_column(table)
    label = label_files.find_label_column(table, path_column, split or _name_split_column(table))
    # the columns of a table without names are found again by their order
    wanted = LabelColumns(path_column, label, split) if table.named else LabelColumns(split=split)
    if label or table.named and label_files.find_one_hot_columns(table):
        content = label_files.read_image_labels(root, patterns, wanted, paths)
        if _could_be_classes(content.labels.values()):
            usual = table.named and (not label or simplify_column_name(label) in label_tables.LABEL_NAMES)
            place, missing = table.columns.index(path_column), {*content.missing}
            table = table._replace(rows=[row for row in table.rows if row[place] not in missing])  # prose in front, too
            likely = table.find_columns(label_tables.LABEL_NAMES) if table.named else table.columns
            flags = () if label else label_files.find_one_hot_columns(table)
            if len(flags) == 2:  # perhaps of left and right eyes, and another column has the classes
                likely = [name for name in table.columns if not GROUP_NAME.fullmatch(name)]
            others = [name for name in likely if name not in (path_column, label, split, *flags)]
            rivals = _find_rivals(table, others, label or flags[0]) if label or len(flags) == 2 else ()
            return LabelPlan(tuple(patterns), wanted, content, usual, values, rivals)
    if not values:
        return None
    wanted = LabelColumns(path_column, "", split if table.named else table.path.name)
    content = label_files.read_image_labels(root, patterns, wanted, paths)
    return LabelPlan(tuple(patterns), wanted, content, False, values)


def _could_be_classes(labels: Collection[str]) -> bool:
    """Return whether labels are neither ids, which differ in every row, nor measurements, such as a score of 0.37."""
    names = {*labels}
    return 0 < len(names) <= 1 + len(labels) // 2 and not any(number % 1 for number in parse_numbers([*names]))


def _find_rivals(table: LabelTable, others: Sequence[str], label: str) -> tuple[str, ...]:
    """Return the columns that divide a table's rows into other classes than `label`; beside words, numbers are none."""
    values = {name: table.get_cells(name) for name in others}
    labels = table.get_cells(label)
    found = [name for name in values if "" not in values[name] and len({*values[name]}) > 1]
    found = [name for name in found if _could_be_classes(values[name])]
    is_flag = {name: {*values[name]} == {"0", "1"} for name in found}  # perhaps of splits
    found = [name for name in found if is_flag[name] or parse_numbers(labels) or not parse_numbers(values[name])]
    return tuple(name for name in found if len({*zip(labels, values[name], strict=True)}) > len({*labels}))


def _name_split_column(table: LabelTable) -> str:
    """Return the column that gives splits by its name, or by that of a file without column names; else empty."""
    if not table.named and len(table.columns) == 2 and _SPLIT_FILE.search(table.path.stem):
        return table.columns[1]
    return table.find_column(SPLIT_NAMES)


def _find_split_column(table: LabelTable) -> tuple[str, tuple[str, str] | None]:
    """Return the column of splits with its values for training and testing, if there is one whose values are clear."""
    usual = _name_split_column(table)
    for name in sorted(table.columns, key=lambda name: name != usual):  # `split` rather than `original_split`
        if values := image_folders.find_split_values(name, table.get_cells(name), name == usual):
            return name, values
    return "", None


def _join_by_id(
    root: Path,
    paths: Sequence[str],
    tables: Mapping[str, LabelTable],
    named: Mapping[str, LabelTable],
    columns: Mapping[str, str],
) -> tuple[list[LabelPlan], LabelPlan | None]:
    """Combine a file of ids and paths with files of ids and labels, and of ids and splits, as in CUB-200-2011."""
    for pattern, table in named.items():
        ids = {row[0] for row in table.rows}
        if table.named or columns[pattern] == "1" or len(ids) < len(table.rows):
            continue
        joined = {
            other: {row[1] for row in found.rows}
            for other, found in tables.items()
            if not columns[other] and not found.named and len(found.columns) == 2
            if {row[0] for row in found.rows} == ids
        }
        flags = [other for other, values in joined.items() if values == {"0", "1"}]
        split = next((other for other in flags if re.search("split|train", other, re.IGNORECASE)), "")
        splits = (split,) if split else ()
        groups = [(pattern, other, *splits) for other in joined if other != split]
        groups += [(pattern, split)] if split else []
        wanted = LabelColumns(split=split.rpartition("/")[2])
        contents = [label_files.read_image_labels(root, files, wanted, paths) for files in groups]
        values = ("1", "0") if split else None
        plans = [LabelPlan(files, wanted, read, True, values) for files, read in zip(groups, contents, strict=True)]
        return (plans[:-1], plans[-1]) if split else (plans, None)
    return [], None

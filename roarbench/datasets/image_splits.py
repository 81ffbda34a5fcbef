"""List the images of each split of a data set in folders, with their classes from folders or label files."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.common.text import format_count, list_quoted, list_some
from roarbench.datasets import image_folders
from roarbench.datasets.catalogue import WHOLE_PATH, DatasetRecord
from roarbench.datasets.label_files import ImageIndex, ImageLabels, LabelColumns, find_names_in_list, read_image_labels
from roarbench.datasets.table_columns import fold_class_name


class LabelledImages(NamedTuple):
    """The images of both splits of a data set in folders."""

    classes: list[str]  # names of the classes in the order of their numbers
    # paths of the images relative to the folder, sorted by class number, then by path; and class numbers, int64 (n,)
    splits: Mapping[Split, tuple[list[str], NDArray[np.int64]]]
    notes: list[str]  # lines about images and labels that are left out, and about classes without test images


class _SplitContent(NamedTuple):
    class_of: dict[str, str]  # from the path of an image to the name of its class
    from_files: bool  # whether the classes come from label files
    left_out: list[str]  # images without a class
    missing: Sequence[str] = ()  # names in a list of the split's images that are not on the disk


def list_images_and_class_names(record: DatasetRecord, folder: Path) -> LabelledImages:
    """List the images of both splits below a folder, with their classes.

    The class of an image is the name of its folder at level `class_depth` below the split's folder, or its label if
    the record's label files list images of its split. Raises DataError if an image has no clear class or split, a
    class has no training image, or files cannot be read.
    """
    names = dict.fromkeys(record.split_names.values())
    lists_images = [name for name in names if not record.split_column and (folder / name).is_file()]
    every_path = _list_paths(record, folder) if record.label_files or lists_images else []
    columns = LabelColumns(record.path_column, record.label_column, record.split_column)
    known = read_image_labels(folder, record.label_files, columns, every_path) if record.label_files else None
    contents = {name: _read_split(record, folder, name, every_path, known) for name in names}
    notes = [_describe_gaps(list(contents.values()), known, () if record.split_column else every_path)]
    if known and record.split_column:
        counts = Counter(known.splits.get(path, "") for path in every_path)
        used = {*map(str.casefold, names)}
        unused = [(value, count) for value, count in counts.items() if value.casefold() not in used]
        kinds = {value: f"with '{value}'" if value else "without a value" for value, _ in unused}
        listed = list_some([f"{format_count(count, 'image')} {kinds[value]}" for value, count in sorted(unused)])
        notes.append(f"not used: {listed} in column '{record.split_column}'" if unused else "")
    paths = image_folders.list_image_paths(folder) if record.left_out else ()
    if unmatched := {*record.left_out} - {*select_matching(record.left_out, paths)}:
        listed = list_quoted(sorted(unmatched))
        notes.append(f"warning: leave_out: no image or folder of images is named {listed} (case counts)")
    train, test = (contents[record.split_names[split]] for split in Split)
    if twice := set(train.class_of) & set(test.class_of) if train is not test else set():
        seen = f"'{record.train_split}' and '{record.test_split}' both hold {min(twice)}"
        raise DataError(f"{folder}: {seen}; an image may belong to one split")
    classes = _order_classes(record, folder, train, test)
    tested = set(test.class_of.values())
    if not record.numbered and (lacking := [name for name in classes if name not in tested]):
        noun = "class" if len(lacking) == 1 else "classes"
        notes.append(f"without a test image: the {noun} {list_quoted(lacking)}")
    numbers = {name: int(name) if record.numbered else number for number, name in enumerate(classes)}
    splits = {}
    for split, content in ((Split.TRAIN, train), (Split.TEST, test)):
        number_of = {path: numbers[name] for path, name in content.class_of.items()}
        by_path = sorted(number_of, key=lambda path: path.split("/"))
        by_class = sorted(by_path, key=number_of.__getitem__)
        splits[split] = (by_class, np.array([number_of[path] for path in by_class], np.int64))
    return LabelledImages(classes, splits, list(filter(None, notes)))


def _read_split(
    record: DatasetRecord, folder: Path, name: str, every_path: Sequence[str], known: ImageLabels | None
) -> _SplitContent:
    missing: Sequence[str] = ()
    prefix = ""
    if record.split_column and known:
        paths = [path for path in every_path if known.splits.get(path, "").casefold() == name.casefold()]
        if not paths:
            values = list_quoted(sorted(set(known.splits.values())), 8)
            raise DataError(f"no image has the value '{name}' in column '{record.split_column}'; it has {values}")
    elif (folder / name).is_file():
        # a list of the images with labels may name `cat_1`, although masks of this name lie in other folders
        labelled = [path for path in every_path if path in known.labels] if known else []
        index = ImageIndex(labelled or every_path)
        paths, missing = find_names_in_list(folder / name, folder, record.path_column, index)
    elif "*" in name and not (folder / name).is_dir():  # a split inside each class folder
        patterns = name.split("/")
        deep = [path for path in _list_paths(record, folder) if path.count("/") >= len(patterns)]
        paths = [path for path in deep if all(map(fnmatchcase, path.split("/"), patterns))]
    else:
        prefix = image_folders.make_prefix(name)
        paths = _list_paths(record, folder, name)
    if known and any(path in known.labels for path in paths):
        class_of = {path: known.labels[path] for path in paths if path in known.labels}
        return _SplitContent(class_of, True, [path for path in paths if path not in class_of], missing)
    below_split = {path: path[len(prefix) :] for path in paths}
    class_of = {path: found for path in paths if (found := find_class_folder(below_split[path], record.class_depth))}
    if not class_of:
        raise _make_no_class_error(record, folder / name, list(below_split.values()))
    parent, classes = folder / name, {*class_of.values()}
    if record.class_depth == 1 and parent.is_dir() and name == record.train_split:
        folders = [other for other in image_folders.list_class_names(parent) if not is_left_out(other, record.left_out)]
        if empty := next((other for other in folders if other not in classes), ""):
            held = image_folders.describe_endings(image_folders.list_all_files_below(parent / empty))
            seen = f"{parent / empty} has no image{f', but {held}' if held else ''}"
            expected = f"expected files that end in {', '.join(image_folders.IMAGE_SUFFIXES)}"
            nested = [other for other in sorted(classes) if image_folders.list_class_names(parent / other)]
            remedy = f"name {parent / nested[0]} if its folders are the classes" if len(nested) == 1 else "move it away"
            raise DataError(f'{seen}; {expected}; if it is no class, {remedy}, or write leave_out = ["{empty}"]')
    return _SplitContent(class_of, False, [path for path in paths if path not in class_of], missing)


def _list_paths(record: DatasetRecord, folder: Path, inside: str = ".") -> list[str]:
    paths = image_folders.list_image_paths(folder, inside)
    return [path for path in paths if not is_left_out(path, record.left_out)]


def is_left_out(path: str, patterns: Sequence[str]) -> bool:
    """Return whether the name of a file or of one of its folders has one of these patterns."""
    return any(fnmatchcase(part, pattern) for pattern in patterns for part in path.split("/"))


def select_matching(patterns: Iterable[str], paths: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns that the name of a file or of one of its folders has."""
    parts = "/".join({part for path in paths for part in path.split("/")})
    return tuple(pattern for pattern in patterns if is_left_out(parts, (pattern,)))


def find_class_folder(path: str, depth: int) -> str:
    """Return the name of the class folder of an image; an empty string if the image lies above the class folders."""
    folders = path.split("/")[:-1]
    if depth == WHOLE_PATH:
        return "/".join(folders)
    return folders[depth - 1] if len(folders) >= depth else ""


def _make_no_class_error(record: DatasetRecord, parent: Path, paths: Sequence[str]) -> DataError:
    seen = f"{parent} has {format_count(len(paths), 'image')}"
    if record.class_depth == 1 and not record.label_files:
        remedy = f"put the images of each class into a separate folder, such as {parent / 'CLASS'}"
        return DataError(f'{seen} and no class folders; {remedy}, or write labels = "FILE"')
    if not paths:
        return DataError(f"{seen}; expected files that end in {', '.join(image_folders.IMAGE_SUFFIXES)}")
    deepest = max(path.count("/") for path in paths)
    depth = record.class_depth or 1
    source = f"none with a label in {list_some(record.label_files)}, and " if record.label_files else ""
    seen += f", {source}none {format_count(depth, 'folder')} or more below it, as class_depth says"
    return DataError(f"{seen}; the deepest image lies {format_count(deepest, 'folder')} below it")


def _describe_gaps(contents: Sequence[_SplitContent], known: ImageLabels | None, paths: Iterable[str]) -> str:
    """Return a line about images without a class or split, and names without an image; empty if there are none."""
    several = known.several if known else {}
    above = {path for content in contents if not content.from_files for path in content.left_out}
    without = {path for content in contents if content.from_files for path in content.left_out}
    with_several = [several[path] for path in without if path in several]
    unused = set(paths) - above - without - {path for content in contents for path in content.class_of}
    missing = list(dict.fromkeys([*(known.missing if known else ()), *(n for c in contents for n in c.missing)]))
    counted = (
        (len(above), "image", " above the class folders", sorted(above)),
        (len(without) - len(with_several), "image", " without a label", sorted(without - set(several))),
        (len(unused), "image", " in neither split", sorted(unused)),
        (len(missing), "name", " in the label files without an image", missing),
        (len(with_several), "image", " with several labels", sorted(with_several)),
    )
    parts = [f"{format_count(n, noun)}{kind} (such as '{examples[0]}')" for n, noun, kind, examples in counted if n]
    return f"left out: {', '.join(parts)}" if parts else ""


def _order_classes(record: DatasetRecord, folder: Path, train: _SplitContent, test: _SplitContent) -> list[str]:
    """Return the classes in the order of their numbers; raise DataError if test images have a class of their own."""
    names, test_names = set(train.class_of.values()), set(test.class_of.values())
    where, test_where = (folder / record.split_names[split] for split in Split)
    if record.numbered:
        noun = "label" if train.from_files else "folder"
        for parent, found in ((where, names), (test_where, test_names)):
            if unexpected := sorted(name for name in found if not (name.isdecimal() and int(name) < record.classes)):
                seen = f"{parent} has the {noun} '{unexpected[0]}', but classes is {record.classes}"
                expected = f"the number of the network's output, 0 to {record.classes - 1}"
                raise DataError(f"{seen}; name each {noun} by {expected}")
        return sorted(names | test_names, key=int)
    outermost = {name.partition("/")[0] for name in names}  # of whole paths, for example `train/cat`
    if not train.from_files and (pairs := image_folders.find_split_pairs(outermost)):
        first, second = pairs[0]
        above = "*/" * (record.class_depth - 1)
        seen = f"{where} has '{first}' and '{second}', which are splits and not classes"
        raise DataError(f'{seen}; write train = "{above}{first}" and test = "{above}{second}" in place of test_share')
    if unexpected := sorted(test_names - names):
        folded = fold_class_name(unexpected[0])
        trained = sorted(names, key=lambda name: (fold_class_name(name) != folded, name))  # nearly the same name first
        seen = f"{test_where} has the class '{unexpected[0]}', which {where} lacks, with {list_quoted(trained)}"
        remedy = "spell classes alike in both, give it training images, or leave its images out"
        raise DataError(f"{seen}; {remedy}{', as -1 often stands for an unknown label' * ('-1' in unexpected)}")
    # numbers in label files are compared as numbers, so that the label 10 is output 10 of a given network
    if record.label_files and all(name.isdecimal() and name == str(int(name)) for name in names):
        return sorted(names, key=int)
    return sorted(names)

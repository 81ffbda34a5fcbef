"""Warn of names of images that give splits, or several images of one patient, video or picture."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from roarbench.common.text import list_quoted
from roarbench.datasets.image_folders import is_test_name, is_train_name
from roarbench.datasets.table_columns import GROUP_WORDS, describe_group
from roarbench.datasets.user_images import UserImages

_NEARLY_ALL, _MANY = 0.9, 0.1  # shares of the images whose names are no accident
_NUMBERED_GROUP = re.compile(rf"(?<![a-z])({GROUP_WORDS})[_ -]?[a-z]?\d+", re.IGNORECASE)  # `patient_12`
_ENDING = re.compile(r"[_ .()-]+[^_ .()-]+\)?$")  # of `cat_12_flipped` and `cat (2)`
_BEGINNING = re.compile(r"(?<![^/])[^/_ .()-]+[_ .()-]+(?=[^/]+$)")  # of `aug_cat_12`
_ROBOFLOW = re.compile(r"_(jpe?g|png)\.rf\.\w+(?=\.)", re.I)  # its versions of `cat.jpg` are `cat_jpg.rf.HASH.jpg`
_NUMBER = re.compile(r"(\d+)(?=[_ .()-])")  # ends a name that frames of one video or tiles of one slide share
_YEAR_OR_MONTH = re.compile(r".*(?<!\d)(19|20)\d\d([_.-]?\d\d)?")
_CLASS_LIST = re.compile(r"(class|label|categor|wnid|synset|idx).*\.(txt|json|names|csv)", re.I)
_MAX_BYTES = 2**20  # longer files are no lists of classes
_LEVELS = 3  # numbers in a name that may end the common beginning
_FEWEST_SERIES = 4  # beginnings per class; fewer may name the source of images, as in ImageNet


def describe_names(paths: Sequence[str]) -> Iterator[str]:
    """Yield a warning if names of files give splits, and for images that belong together by their names."""
    paths = sorted(paths)
    stems = {path: path.rpartition("/")[2].rpartition(".")[0] for path in paths}
    train, test = ([path for path in paths if is_split(stems[path])] for is_split in (is_train_name, is_test_name))
    if train and test and len(train) + len(test) >= _NEARLY_ALL * len(paths):
        seen = f"warning: names of files give splits, such as {list_quoted([train[0], test[0]])}"
        yield f"{seen}, but test images are drawn at random; move the files into folders 'train' and 'test'"
    found = [match for path in paths if (match := _NUMBERED_GROUP.search(path))]
    groups = [f"{match.string[: match.start()].rpartition('/')[0]}/{match[0]}" for match in found]
    if len(groups) >= _NEARLY_ALL * len(paths) and len({*groups}) <= len(groups) / 2:
        seen = describe_group(found[0][1], groups, (), "image", f"names with '{found[0][0]}' and alike have")
        yield f"warning: {seen}"
    known = {path.rpartition(".")[0] for path in paths}
    versions = [(path, origin) for path in paths if (origin := _find_origin(path.rpartition(".")[0], known))]
    if len(versions) >= _MANY * len(paths):
        path, origin = versions[0]
        seen = f"{len(versions)} of {len(paths)} images are named like others, such as '{path}' like '{origin}'"
        remedy = "if they show the same, keep all in one split, because test images are drawn one by one"
        yield f"warning: {seen}; {remedy}"


def describe_class_lists(folder: Path, classes: Sequence[str]) -> Iterator[str]:
    """Yield a line for each list of classes beside class folders that lacks some, or has another order."""
    if all(map(str.isdecimal, classes)):
        return
    for file in (*sorted(folder.glob("*.*")), *sorted(folder.parent.glob("*.*"))):
        if not _CLASS_LIST.fullmatch(file.name) or not file.is_file() or file.stat().st_size >= _MAX_BYTES:
            continue
        text = re.sub(r',\s*"', '\n"', file.read_text("utf-8", "replace"))
        pattern = r'(\d+)?[ \t",:[]*(?<!\w){}(?!\w)[ \t",:]*(\d+)?'  # its number may stand before or behind a class
        entries = {name: [*re.finditer(pattern.format(re.escape(name)), text)] for name in classes}
        lacking = [name for name, found in entries.items() if not found]
        places = [(int(found[0][1] or found[0][2] or 0), found[0].start()) for found in entries.values() if found]
        if any(len(found) > 1 for found in entries.values()):
            continue  # a file of images
        if 0 < len(lacking) < len(classes) / 2:
            yield f"'{file.name}' lists the classes without {list_quoted(lacking)}; if they are none, leave them out"
        elif places != sorted(places) and not lacking:
            seen = f"'{file.name}' lists the classes in another order than that of their names, which roarbench uses"
            yield f"{seen}; a network trained in that order needs labels that are numbers, and classes = {len(classes)}"


def describe_series(images: UserImages) -> Iterator[str]:
    """Yield a warning if both splits have images of a class whose names begin alike, up to a number."""
    drawn = bool(images.record.share)
    names = images.names
    train, test = ([*zip(raw.labels.tolist(), names[split], strict=True)] for split, raw in images.splits.items())
    for level in range(_LEVELS):
        series = Counter((label, _cut_behind_number(path, level)) for label, path in train + (test if drawn else []))
        several = sum(size for size in series.values() if size > 1)
        if several < _NEARLY_ALL * series.total() or any(_YEAR_OR_MONTH.fullmatch(start) for _, start in series):
            continue
        if len(series) < _FEWEST_SERIES * len({label for label, _ in series}):
            continue
        shared = [start for label, path in test if (label, (start := _cut_behind_number(path, level))) in series]
        if 2 * len(shared) >= len(test) and not (drawn and _NUMBERED_GROUP.search(shared[0])):
            seen = f"the names of {len(shared)} of {len(test)} test images begin as those of training images of a class"
            remedy = "if images of one beginning show the same, such as a video or a slide, keep them in one split"
            yield f"warning: {images.record.name}: {seen}, such as '{shared[0]}'; {remedy}"
        return


def _cut_behind_number(path: str, level: int) -> str:
    """Return the start of a file's name up to a number; the path if the name has fewer numbers before its end."""
    whole = _ROBOFLOW.sub(" 0 ", path).rpartition(".")[0]
    stem = whole.rpartition("/")[2]
    ends = [found.end() for found in _NUMBER.finditer(stem)]
    return stem[: ends[level]] if level < len(ends) else whole


def _find_origin(name: str, known: set[str]) -> str:
    """Return the name without its beginning or endings that another image has; an empty string if there is none."""
    if (shorter := _BEGINNING.sub("", name)) != name and shorter in known:
        return shorter
    while (shorter := _ENDING.sub("", name)) != name:
        if shorter in known:
            return shorter
        name = shorter
    return ""

"""Describe what names of a user's image files give: splits, or several images of one patient, video or picture."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

from roarbench.common.enums import Split
from roarbench.common.text import list_quoted
from roarbench.datasets.image_folders import is_test_name, is_train_name
from roarbench.datasets.table_columns import GROUP_WORDS, describe_group
from roarbench.datasets.undecoded_splits import UserImages

_NEARLY_ALL, _MANY = 0.9, 0.1  # shares of the images whose names are no accident
_NUMBERED_GROUP = re.compile(rf"(?<![a-z])({GROUP_WORDS})[_ -]?[a-z]?\d+", re.IGNORECASE)  # `patient_12`
_ENDING = re.compile(r"[_ .()-]+[^_ .()-]+\)?$")  # of `cat_12_flipped` and `cat (2)`
_BEGINNING = re.compile(r"(?<![^/])[^/_ .()-]+[_ .()-]+(?=[^/]+$)")  # of `aug_cat_12`
_ROBOFLOW = re.compile(r"_(jpe?g|png)\.rf\.\w+(?=\.)", re.I)  # its versions of `cat.jpg` are `cat_jpg.rf.HASH.jpg`
# ends a name that frames of one video or tiles of one slide share; a letter may tell them apart: `003L` and `003R`
_NUMBER = re.compile(r"(\d+)(?=[_ .()-]|[A-Za-z]([_ .()-]|$))")
_YEAR_OR_MONTH = re.compile(r".*(?<!\d)(19|20)\d\d([_.-]?\d\d)?")
_LEVELS = 3  # numbers in a name that may end the common beginning
_FEWEST_SERIES = 4  # beginnings per class; fewer may name the source of images, as in ImageNet


def describe_file_names(images: UserImages) -> Iterator[str]:
    """Yield a line for each thing that the names of training and test images give; every image has a name."""
    yield from (*describe_series(images), *describe_versions(images))
    if images.record.share:
        yield from describe_names([name for names in images.names.values() for name in names])
    else:
        yield from describe_named_groups(*images.names.values())


def describe_names(paths: Sequence[str]) -> Iterator[str]:
    """Yield a warning if names of files give splits, and for patients and others of several images."""
    paths = sorted(paths)
    stems = {path: path.rpartition("/")[2].rpartition(".")[0] for path in paths}
    train, test = ([path for path in paths if is_split(stems[path])] for is_split in (is_train_name, is_test_name))
    if train and test and len(train) + len(test) >= _NEARLY_ALL * len(paths):
        seen = f"warning: names of files give splits, such as {list_quoted([train[0], test[0]])}"
        yield f"{seen}, but test images are drawn at random; move the files into folders 'train' and 'test'"
    yield from describe_named_groups(paths)


def describe_versions(images: UserImages) -> Iterator[str]:
    """Yield a warning of images named like others of their class, such as `7_flipped` or `slide7_x0_y512`.

    If splits are given, images named like one of the other split count. Folders inside a class, such as `crops`, do not
    matter, unless they hold images of the same names.
    """
    drawn, counts = bool(images.record.share), [len(names) for names in images.names.values()]
    for from_name in (lambda path: path.rpartition("/")[2], str):
        paths = defaultdict[str, dict[Split, str]](dict)  # of the images of one name, by their split
        for split, raw in images.splits.items():
            for label, path in zip(raw.labels.tolist(), images.names[split], strict=True):
                inside = path.removeprefix(f"{images.record.split_names[split]}/")
                paths[f"{label}/{from_name(inside).rpartition('.')[0]}"][split] = path
        if sum(map(len, paths.values())) == sum(counts):
            break
    found: dict[str, str] = {}  # from each such image to the other one; of given splits, from each such test image
    for name in sorted(paths):
        others = paths[origin] if (origin := _find_origin(name, paths.keys())) else {}
        for split, path in paths[name].items() if others else ():
            other = min(others.values())
            if drawn or split is Split.TEST and split not in others:
                found[path] = other
            elif split not in others:
                found[other] = path
    if len(found) >= _MANY * (sum(counts) if drawn else counts[-1]):
        seen = f"{len(found)} of {sum(counts)} images are named like others"
        if not drawn:
            seen = f"{len(found)} of {counts[-1]} test images are named like training images"
        path, other = next(iter(found.items()))
        reason = ", because test images are drawn one by one" if drawn else ""
        yield f"warning: {seen}, such as '{path}' like '{other}'; if they show the same, keep all in one split{reason}"


def describe_named_groups(train: Sequence[str], test: Sequence[str] = ()) -> Iterator[str]:
    """Yield a warning for patients and others of several images; without `test`, test images are drawn from `train`."""
    found = [match for path in train if (match := _NUMBERED_GROUP.search(path))]
    # the folders above tell patients of one number apart, but are other ones in each split
    groups = [match[0] if test else f"{match.string[: match.start()].rpartition('/')[0]}/{match[0]}" for match in found]
    if len(groups) >= _NEARLY_ALL * len(train) and len({*groups}) <= len(groups) / 2:
        tested = [match[0] for path in test if (match := _NUMBERED_GROUP.search(path))]
        if not test or tested:
            seen = describe_group(found[0][1], groups, tested, "image", f"names with '{found[0][0]}' and alike")
            yield from [f"warning: {seen}"] if seen else []


def describe_series(images: UserImages) -> Iterator[str]:
    """Yield a warning if both splits have images of a class whose names begin alike, up to a number or last word."""
    drawn = bool(images.record.share)
    names = images.names
    train, test = ([*zip(raw.labels.tolist(), names[split], strict=True)] for split, raw in images.splits.items())
    files = [{path.rpartition("/")[2] for _, path in part} for part in (train, test)]
    counted = train + (test if drawn or files[0].isdisjoint(files[1]) else [])  # numbers may begin anew in each split
    for level in range(_LEVELS + 1):
        series = Counter((label, _cut_behind_number(path, level)) for label, path in counted)
        several = sum(size for size in series.values() if size > 1)
        if several < _NEARLY_ALL * series.total() or all(_YEAR_OR_MONTH.fullmatch(start) for _, start in series):
            continue
        if len(series) < _FEWEST_SERIES * len({label for label, _ in series}):
            continue
        known = series if drawn else {(label, _cut_behind_number(path, level)) for label, path in train}
        shared = [start for label, path in test if (label, (start := _cut_behind_number(path, level))) in known]
        if 2 * len(shared) >= len(test) and not (drawn and _NUMBERED_GROUP.search(shared[0])):
            seen = f"the names of {len(shared)} of {len(test)} test images begin as those of training images of a class"
            remedy = "if images of one beginning show the same, such as a video or a slide, keep them in one split"
            yield f"warning: {images.record.name}: {seen}, such as '{shared[0]}'; {remedy}"
        return


def _cut_behind_number(path: str, level: int) -> str:
    """Return the start of a file's name up to a number; the path if the name has fewer numbers before its end.

    At the last level, return the name without its last word: `anna` of `anna_0001`.
    """
    whole = _ROBOFLOW.sub(" 0 ", path).rpartition(".")[0]
    stem = whole.rpartition("/")[2]
    if level == _LEVELS:
        return shorter if (shorter := _ENDING.sub("", stem)) != stem else whole
    ends = [found.end() for found in _NUMBER.finditer(stem)]
    return stem[: ends[level]] if level < len(ends) else whole


def _find_origin(name: str, known: Collection[str]) -> str:
    """Return the name without its beginning or endings that another image has; an empty string if there is none."""
    if (shorter := _BEGINNING.sub("", name)) != name and shorter in known:
        return shorter
    while (shorter := _ENDING.sub("", name)) != name:
        if shorter in known:
            return shorter
        name = shorter
    return ""

"""Warn of names of images that give splits, or several images of one patient or picture, if test images are drawn."""

import re
from collections.abc import Iterator, Sequence

from roarbench.common.text import list_some
from roarbench.datasets.image_folders import is_test_name, is_train_name
from roarbench.datasets.table_columns import GROUP_WORDS, describe_group

_NEARLY_ALL, _MANY = 0.9, 0.1  # shares of the images whose names are no accident
_NUMBERED_GROUP = re.compile(rf"(?<![a-z])({GROUP_WORDS})[_ -]?[a-z]?\d+", re.IGNORECASE)  # `patient_12`
_ENDING = re.compile(r"[_ .()-]+[^_ .()-]+\)?$")  # of `cat_12_flipped` and `cat (2)`


def describe_names(paths: Sequence[str]) -> Iterator[str]:
    """Yield a warning if names of files give splits, and for images that belong together by their names."""
    paths = sorted(paths)
    stems = {path: path.rpartition("/")[2].rpartition(".")[0] for path in paths}
    train, test = ([path for path in paths if is_split(stems[path])] for is_split in (is_train_name, is_test_name))
    if train and test and len(train) + len(test) >= _NEARLY_ALL * len(paths):
        seen = f"warning: names of files give splits, such as {list_some([repr(train[0]), repr(test[0])])}"
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
        seen = (
            f"warning: {len(versions)} of {len(paths)} images are named like others, such as '{path}' like '{origin}'"
        )
        yield f"{seen}; if they show the same, keep all in one split, because test images are drawn one by one"


def _find_origin(name: str, known: set[str]) -> str:
    """Return the name without its endings that another image has; an empty string if there is none."""
    while (shorter := _ENDING.sub("", name)) != name:
        if shorter in known:
            return shorter
        name = shorter
    return ""

"""Finds the splits of a data set by the names of its folders or files."""

import re
from collections.abc import Iterable
from typing import NamedTuple

# keywords of Hugging Face `datasets` (`data_files.SPLIT_KEYWORDS`); test splits before validation splits
_TRAIN = ("train", "training")
_TEST = ("test", "testing", "eval", "evaluation", "validation", "valid", "val", "dev")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of `seg_train`, `TrainImages`, `val2017`


class _SplitName(NamedTuple):
    keyword: str
    rest: tuple[str, ...]  # other words of the name; `set` is none


def find_split_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Find pairs of names for training and testing that differ in their keyword alone, the most usual first.

    `Train` and `Test` are a pair, `seg_train` and `seg_test`, `training_set` and `test_set`; `train` and `seg_test`
    are not.
    """
    found = {name: split for name in names if (split := _read(name))}
    pairs = [(a, b) for a in found for b in found if found[a].rest == found[b].rest]
    pairs = [(a, b) for a, b in pairs if found[a].keyword in _TRAIN and found[b].keyword in _TEST]
    return sorted(pairs, key=lambda pair: (found[pair[0]].rest, _TEST.index(found[pair[1]].keyword), pair))


def is_split(name: str) -> bool:
    """Return whether a name has no word but that of a split."""
    found = _read(name)
    return found is not None and not found.rest


def is_train(name: str) -> bool:
    """Return whether a name is that of a training split."""
    found = _read(name)
    return found is not None and found.keyword in _TRAIN


def _read(name: str) -> _SplitName | None:
    words = [word.lower().removesuffix("set") for word in _WORDS.findall(name)]
    keywords = [word for word in words if word in (*_TRAIN, *_TEST)]
    if len(keywords) != 1:
        return None
    return _SplitName(keywords[0], tuple(word for word in words if word and word not in keywords))

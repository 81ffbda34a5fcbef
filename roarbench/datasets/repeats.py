"""Describe items, such as images or rows of a table, that are in both splits of a data set."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def hash_bytes(content: Any) -> int:
    """Return a number of 63 random bits for bytes or an array; two of a million agree by chance once in 2e7 times."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big") | 2**63


def find_items_of_several_classes(items: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of items, (n,), that equal an item of another class."""
    numbers = np.unique(items, return_inverse=True)[1].reshape(-1)
    classes = np.bincount(np.unique(np.stack([numbers, labels], 1), axis=0)[:, 0])  # of each different item
    return np.flatnonzero(classes[numbers] > 1)


def describe_items_in_both_splits(
    train: NDArray[Any], test: NDArray[Any], noun: str, content: str, name: Callable[[int], str] | None = None
) -> str:
    """Describe how many test items are training items, too; an empty string if there are none.

    Args:
        train: A number for each training item, (n,); equal items have equal numbers.
        test: A number for each test item, (m,).
        noun: Noun for an item, such as `row`.
        content: What is compared, such as `features`.
        name: Names the test item at a position, as an example; None for no example.
    """
    shared = np.flatnonzero(np.isin(test, train))
    if not len(shared):
        return ""
    example = f", such as {name(int(shared[0]))}" if name else ""
    seen = f"{len(shared)} of {len(test)} test {noun}s have the same {content} as a training {noun}{example}"
    return f"{seen}; delete repeated {noun}s"

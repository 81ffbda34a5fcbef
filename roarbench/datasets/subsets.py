"""Which of the stored images belong to a data set, a split or a small version."""

import numpy as np
from numpy.typing import NDArray

from roarbench.datasets import DatasetRecord
from roarbench.enums import Split
from roarbench.errors import DataError

MANY_CLASSES = 100  # a small version of a set with as many may lack classes


def check_limit(record: DatasetRecord, limit: int | None) -> None:
    """Refuse a small version that would lack a class, have a single one if the data set has many, or lack nothing."""
    least = record.classes if record.classes < MANY_CLASSES else 2
    if limit is not None and limit < least:
        words = f"of {record.name}" if least == record.classes else f"that a version of {record.name} must have"
        raise DataError(f"--max-images {limit} is below the {least} classes {words}; write {least} or more")
    most = max(record.images.values())
    if limit is not None and limit > most:
        seen = f"--max-images {limit} is above the {most:,} images that a split of {record.name} has"
        raise DataError(f"{seen}; write fewer, or leave --max-images out for all")


def choose_balanced(labels: NDArray[np.int64], limit: int | None) -> NDArray[np.bool_]:
    """Mark `limit` images by their labels, int64 (n,), as evenly over the classes as they allow, the first of each.

    All are marked if it is None or more than there are. Below the number of classes, the first classes have one each.
    """
    if limit is None or limit >= len(labels):
        return np.ones(len(labels), bool)
    by_class = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_class], labels[by_class])
    turn = np.empty(len(labels), np.int64)
    turn[by_class] = np.arange(len(labels)) - starts  # how many of its class come before an image
    kept = np.lexsort((labels, turn))[:limit]  # all first ones by class, then all second ones …
    wanted = np.zeros(len(labels), bool)
    wanted[kept] = True
    return wanted


def choose_rows(record: DatasetRecord, split: Split, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choose the rows of the hub's split, by its labels int64 (n,), that belong to the data set's, ascending.

    The record says whether one split serves both, which classes are kept, and whether only the first images of each
    are.
    """
    rows = np.arange(len(labels))
    if record.holdout or record.share:
        test = mark_held_out_images(labels, record.holdout or record.share, record.seed)
        rows = rows[test if split is Split.TEST else ~test]
    if record.class_step > 1 or record.of_each or record.bundled:
        rows = rows[labels[rows] % record.class_step == 0]
        rows = rows[choose_balanced(labels[rows], record.images[split])]
    return rows


def is_enough(record: DatasetRecord, labels: NDArray[np.int64]) -> bool:
    """Return whether these labels, the first of the hub's split, cover all that the data set takes of it."""
    if not record.of_each or not np.issubdtype(labels.dtype, np.integer):  # strange labels are told of later
        return False
    found = np.bincount(labels[labels >= 0], minlength=record.classes)
    return bool((found >= record.of_each).all())


def mark_held_out_images(labels: NDArray[np.int64], count: float, seed: int) -> NDArray[np.bool_]:
    """Mark `count` images of each class, drawn by a seed, bool (n,); below 1 it is their share, one image at least."""
    drawn = np.random.default_rng(seed).permutation(len(labels))
    marked = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        mine = drawn[labels[drawn] == label]
        marked[mine[: int(count) if count >= 1 else max(1, round(count * len(mine)))]] = True
    return marked

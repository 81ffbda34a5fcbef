"""Select the images of each split: held-out test images, balanced subsets, and images of some classes only."""

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.datasets.catalogue import DatasetRecord

Labels = NDArray[np.int64]  # class number of each image, (n,)
_MANY_CLASSES = 100  # a reduced data set may lack classes if the full data set has at least this many


def check_image_limit(record: DatasetRecord, limit: int | None) -> None:
    """Raise DataError if `limit` images would lack classes, or if `limit` exceeds the number of images.

    If the data set has 100 classes or more, the reduced data set may lack classes, but needs two.
    """
    if limit is None:
        return
    fewest = record.classes if record.classes < _MANY_CLASSES else 2
    if limit < fewest:
        owner = f"of {record.name}" if fewest == record.classes else f"that {record.name} needs"
        raise DataError(f"--max-images {limit} is below the {fewest} classes {owner}; use {fewest} or more")
    if limit > (most := max(record.image_counts.values())):
        seen = f"--max-images {limit} is more than the {most:,} images of the larger split of {record.name}"
        raise DataError(f"{seen}; use fewer images, or leave --max-images out to use all")


def mark_balanced_subset(labels: Labels, limit: int | None) -> NDArray[np.bool_]:
    """Mark `limit` images, bool (n,): the first images of each class, as balanced over the classes as possible.

    `labels` are int64 (n,). If `limit` is None or at least n, all images are marked. If `limit` is below the number of
    classes, the first image of each of the first `limit` classes is marked.
    """
    if limit is None or limit >= len(labels):
        return np.ones(len(labels), bool)
    marked = np.zeros(len(labels), bool)
    # the first image of each class, then the second of each class …
    marked[np.lexsort((labels, count_earlier_images(labels)))[:limit]] = True
    return marked


def count_earlier_images(labels: Labels) -> NDArray[np.int64]:
    """Return for each image the number of earlier images of its class, int64 (n,)."""
    by_class = np.argsort(labels, kind="stable")
    counts = np.empty(len(labels), np.int64)
    counts[by_class] = np.arange(len(labels)) - np.searchsorted(labels[by_class], labels[by_class])
    return counts


def select_rows_of_split(record: DatasetRecord, split: Split, labels: Labels) -> NDArray[np.int64]:
    """Return the indices of the stored images that form a split of the data set, ascending; `labels` are int64 (n,).

    According to the record, test images may be drawn from the only stored split, and only some classes, or only the
    first images of each class, may be kept.
    """
    rows = np.arange(len(labels))
    if record.holdout or record.share:
        test = mark_held_out_images(labels, record.holdout or record.share, record.seed)
        rows = rows[test if split is Split.TEST else ~test]
    if record.class_step > 1 or record.of_each or record.bundled:
        rows = rows[labels[rows] % record.class_step == 0]
        rows = rows[mark_balanced_subset(labels[rows], record.image_counts[split])]
    return rows


def mark_held_out_images(labels: Labels, per_class: float, seed: int) -> NDArray[np.bool_]:
    """Mark random test images of each class, bool (n,).

    If `per_class` is 1 or more, it is the number of images of each class; if it is below 1, it is their share, rounded
    to at least one image.
    """
    drawn = np.random.default_rng(seed).permutation(len(labels))
    _, numbers, counts = np.unique(labels[drawn], return_inverse=True, return_counts=True)
    wanted = int(per_class) if per_class >= 1 else np.maximum(1, np.rint(per_class * counts))[numbers.reshape(-1)]
    marked = np.zeros(len(labels), bool)
    marked[drawn] = count_earlier_images(labels[drawn]) < wanted
    return marked

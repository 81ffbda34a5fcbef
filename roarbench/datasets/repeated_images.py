"""Find stored images with equal bytes: in both splits, in several classes, or many times in one class.

Files of different sizes differ, so only files whose size occurs twice are read, and of these at first the last bytes.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.datasets.catalogue import FOLDERS
from roarbench.datasets.image_folders import FileGroup
from roarbench.datasets.parquet_files import read_parquet_images
from roarbench.datasets.repeats import describe_items_in_both_splits, find_items_of_several_classes, hash_bytes
from roarbench.datasets.undecoded_splits import Groups
from roarbench.datasets.user_images import UserImages

MAX_COMPARED = 100_000  # files of equal size that are read; of more, those of randomly chosen sizes
_FILES_PER_CALL = 64  # files that a thread reads at a time
_TAIL = 2**16  # bytes at the end of a file that are compared first
_MANY_TIMES = 5  # an image that occurs as often is reported
_MAX_REPEATED_SHARE = 0.01  # a larger share of repeated images is reported
Digests = NDArray[np.uint64]  # equal for images with equal bytes, (n,)


def describe_repeated_images(images: UserImages) -> Iterator[str]:
    """Yield a warning for images that are in both splits, in several classes, or many times in one split."""
    name = images.record.name
    if images.has_large_files:
        yield f"{name}: not checked for repeated images, because the files are large"
        return
    by_split, splits = compute_digests(images), images.record.decoded_splits
    train = len(by_split[Split.TRAIN]) if len(splits) == 2 else 0

    def name_image(place: int) -> str:  # `place` counts the images of all splits
        return images.name_image(*((Split.TRAIN, place) if place < train else (Split.TEST, place - train)))

    shared = ""
    if train:
        one, other = (by_split[split] for split in Split)
        shared = describe_items_in_both_splits(one, other, "image", "bytes", lambda place: name_image(train + place))
    if shared:
        yield f"warning: {name}: {shared}"
    digests = np.concatenate([by_split[split] for split in splits])
    labels = np.concatenate([images.splits[split].labels for split in splits])
    several = np.unique(digests[find_items_of_several_classes(digests, labels)])
    if len(several):
        same = np.flatnonzero(digests == several[0])
        pair = [int(same[np.argmin(labels[same])]), int(same[np.argmax(labels[same])])]
        names = (f"{name_image(place)} in class '{images.classes[labels[place]]}'" for place in pair)
        noun = f"{len(several)} images occur" if len(several) > 1 else "1 image occurs"
        seen = f"{noun} with the same bytes in several classes, such as {' and '.join(names)}"
        yield f"warning: {name}: {seen}; keep each image in its own class only"
    _, first, counts = np.unique(digests, return_index=True, return_counts=True)
    least = _MANY_TIMES if shared or len(several) else 2
    most, repeated = int(counts.max(initial=0)), len(digests) - len(counts)
    if most >= _MANY_TIMES or most >= least and repeated > _MAX_REPEATED_SHARE * len(digests):
        example = f"{name_image(int(first[counts.argmax()]))} occurs {most} times"
        seen = f"{repeated} of {len(digests)} images have the same bytes as an earlier one; {example}"
        yield f"warning: {name}: {seen}; delete repeated images"


def compute_digests(images: UserImages) -> dict[Split, Digests]:
    """Return a number for each image of each split; images with equal bytes have equal numbers."""
    (train, test), record = (images.splits[split] for split in Split), images.record
    are_drawn_alike = record.train_split == record.test_split  # both splits are chosen from the same stored images
    groups: Groups = train.groups if are_drawn_alike else (*train.groups, *test.groups)
    digests = _hash_files(groups) if record.own == FOLDERS else _hash_rows(groups, record.image_column)
    first = 0 if are_drawn_alike else sum(group.rows for group in train.groups)
    return {Split.TRAIN: digests[train.rows], Split.TEST: digests[test.rows + first]}


def _hash_files(groups: Groups) -> Digests:
    """Return the digests of files: of the whole content, or a number of its own for a file of unique size or tail."""
    sizes = np.fromiter((path.stat().st_size for path in _list_paths(groups)), np.int64)
    digests = np.arange(len(sizes), dtype=np.uint64)  # digests of contents are above these numbers
    compared = _choose_compared_files(sizes)
    digests[compared] = _hash_selected(groups, compared, whole=False)
    large = compared[sizes[compared] > _TAIL]
    _, numbers, counts = np.unique(digests[large], return_inverse=True, return_counts=True)
    alike = large[counts[numbers.reshape(-1)] > 1]
    digests[alike] = _hash_selected(groups, alike, whole=True)
    return digests


def _list_paths(groups: Groups) -> Iterator[Path]:
    for group in groups:
        assert isinstance(group, FileGroup)
        yield from (group.folder / file for file in group.files)


def _choose_compared_files(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of files whose size occurs more than once; if there are too many, of some sizes only."""
    values, numbers, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    drawn = np.random.default_rng(0).permutation(np.flatnonzero((counts > 1) & (values > 0)))
    chosen = np.zeros(len(values), bool)
    chosen[drawn[np.cumsum(counts[drawn]) <= MAX_COMPARED]] = True
    return np.flatnonzero(chosen[numbers.reshape(-1)])


def _hash_selected(groups: Groups, positions: NDArray[np.int64], whole: bool) -> Digests:
    chosen = np.zeros(sum(group.rows for group in groups), bool)
    chosen[positions] = True
    paths = [*compress(_list_paths(groups), chosen)]
    parts = (paths[start : start + _FILES_PER_CALL] for start in range(0, len(paths), _FILES_PER_CALL))
    with ThreadPoolExecutor() as pool:
        hashed = pool.map(lambda part: [_hash_file(path, whole) for path in part], parts)
        return np.fromiter(chain.from_iterable(hashed), np.uint64, len(paths))


def _hash_file(path: Path, whole: bool) -> int:
    with path.open("rb") as file:
        if not whole:
            file.seek(max(0, path.stat().st_size - _TAIL))
        return hash_bytes(file.read())


def _hash_rows(groups: Groups, column: str) -> Digests:
    digests: list[int] = []
    for group in groups:
        assert not isinstance(group, FileGroup)
        for contents in read_parquet_images(group, column, np.arange(group.rows)):
            numbers = range(len(digests), len(digests) + len(contents))
            # a missing image has a number of its own
            digests += [hash_bytes(content) if content else n for n, content in zip(numbers, contents, strict=True)]
    return np.array(digests, np.uint64)

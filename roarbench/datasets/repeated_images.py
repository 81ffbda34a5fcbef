"""Find images that repeat others: in both splits, in several classes, or many times in one class.

Files of equal bytes have equal sizes, so only files whose size occurs twice are read, at first their last bytes. Copies
of other encoding, size, brightness or orientation are found in the decoded pixels.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.datasets.catalogue import FOLDERS
from roarbench.datasets.image_folders import FileGroup
from roarbench.datasets.open_decoded import ImageData
from roarbench.datasets.repeats import describe_items_in_both_splits, find_items_of_several_classes, hash_bytes
from roarbench.datasets.undecoded_splits import Groups, UserImages, divide_rows, read_stored_images

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
    if record.own == FOLDERS:
        digests = _hash_files(groups)
    else:
        contents = read_stored_images(groups, record.image_column, np.arange(sum(group.rows for group in groups)))
        # a missing image has a number of its own
        hashed = (hash_bytes(content) if content else number for number, content in enumerate(contents))
        digests = np.fromiter(hashed, np.uint64)
    first = 0 if are_drawn_alike else sum(group.rows for group in train.groups)
    return {Split.TRAIN: digests[train.rows], Split.TEST: digests[test.rows + first]}


def _hash_files(groups: Groups) -> Digests:
    """Return the digests of files: of the whole content, or a number of its own for a file of unique size or tail."""
    paths = (group.folder / file for group in groups if isinstance(group, FileGroup) for file in group.files)
    sizes = np.fromiter((path.stat().st_size for path in paths), np.int64)
    digests = np.arange(len(sizes), dtype=np.uint64)  # digests of contents are above these numbers
    compared = _choose_compared_files(sizes)
    digests[compared] = _hash_selected(groups, compared, whole=False)
    large = compared[sizes[compared] > _TAIL]
    _, numbers, counts = np.unique(digests[large], return_inverse=True, return_counts=True)
    alike = large[counts[numbers.reshape(-1)] > 1]
    digests[alike] = _hash_selected(groups, alike, whole=True)
    return digests


def _choose_compared_files(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of files whose size occurs more than once; if there are too many, of some sizes only."""
    values, numbers, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    drawn = np.random.default_rng(0).permutation(np.flatnonzero((counts > 1) & (values > 0)))
    chosen = np.zeros(len(values), bool)
    chosen[drawn[np.cumsum(counts[drawn]) <= MAX_COMPARED]] = True
    return np.flatnonzero(chosen[numbers.reshape(-1)])


def _hash_selected(groups: Groups, positions: NDArray[np.int64], whole: bool) -> Digests:
    divided = ((group, rows.tolist()) for group, _, rows in divide_rows(groups, positions))
    paths = [group.folder / group.files[n] for group, rows in divided if isinstance(group, FileGroup) for n in rows]
    parts = (paths[start : start + _FILES_PER_CALL] for start in range(0, len(paths), _FILES_PER_CALL))
    with ThreadPoolExecutor() as pool:
        hashed = pool.map(lambda part: [_hash_file(path, whole) for path in part], parts)
        return np.fromiter(chain.from_iterable(hashed), np.uint64, len(paths))


def _hash_file(path: Path, whole: bool) -> int:
    with path.open("rb") as file:
        if not whole:
            file.seek(max(0, path.stat().st_size - _TAIL))
        return hash_bytes(file.read())


_MAX_SKETCHED = {Split.TRAIN: 20_000, Split.TEST: 2_000}  # images of each split; of more, evenly spaced ones
_CELLS = 8  # cells per side of a sketch; each is a mean of pixels
# Largest correlations between sketches of a test image and of another training image: 0.989 in Imagenette (2,000 and
# 9,469 images of 64 pixels), 0.990 in scikit-learn's digits; for copies saved as JPEG of quality 75, 0.999 in 99 %
_MIN_CORRELATION = 0.995
_MIN_CONTRAST = 4.0  # standard deviation of a sketch, in grey levels; flatter images all look alike
_CHUNK = 500  # images
Sketches = NDArray[np.float32]  # (n, c, 8, 8)


def describe_similar_images(images: ImageData, name: Callable[[Split, int], str] | None = None) -> str:
    """Describe the test images that look like a training image, perhaps mirrored or turned by a right angle.

    `name` names the image at a position of a split, for an example. An empty string if there is none, and for tables.
    """
    if images.record.tabular or images.record.test_only:
        return ""
    counts = {split: len(images[split].labels) for split in Split}
    places = {split: np.arange(n)[:: max(1, -(-n // _MAX_SKETCHED[split]))] for split, n in counts.items()}
    train, test = (_sketch(images[split].pixels, places[split]) for split in Split)
    train_features, pairs = _normalise(train).T, list[tuple[int, int]]()
    for start in range(0, len(test), _CHUNK):
        part = test[start : start + _CHUNK]
        turned = (np.rot90(version, turn, (2, 3)) for version in (part, part[..., ::-1]) for turn in range(4))
        likeness = np.maximum.reduce([_normalise(version) @ train_features for version in turned])
        alike = np.flatnonzero(likeness.max(1) >= _MIN_CORRELATION)
        pairs += [(start + int(place), int(likeness[place].argmax())) for place in alike]
    if not pairs:
        return ""
    first, other = int(places[Split.TEST][pairs[0][0]]), int(places[Split.TRAIN][pairs[0][1]])
    example = f", such as {name(Split.TEST, first)} and {name(Split.TRAIN, other)}" if name else ""
    seen = f"{len(pairs):,} of {len(test):,} compared test images look like a training image{example}"
    return f"{seen}; if they are copies, mirrored or augmented, keep all copies of an image in one split"


def _sketch(pixels: NDArray[np.uint8], places: NDArray[np.int64]) -> Sketches:
    """Return the mean of each of 8 x 8 cells of the images at these places; pixels on a border count in part."""
    side = pixels.shape[-1]
    ends = np.arange(_CELLS + 1)[:, np.newaxis] * side / _CELLS
    first = np.arange(side)
    overlap = np.minimum(ends[1:], first + 1) - np.maximum(ends[:-1], first)
    weights = (overlap.clip(0) * _CELLS / side).astype(np.float32)
    parts = (pixels[places[start : start + _CHUNK]] for start in range(0, len(places), _CHUNK))
    return np.concatenate([weights @ part.astype(np.float32) @ weights.T for part in parts])


def _normalise(sketches: Sketches) -> NDArray[np.float32]:
    """Return vectors, (n, c * 64), whose products are correlations; zeros for flat images.

    The mean of each channel is subtracted, so that images of one colour without a common shape are not alike.
    """
    flat = (sketches - sketches.mean((2, 3), keepdims=True)).reshape(len(sketches), -1)
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    has_contrast = norms >= _MIN_CONTRAST * np.sqrt(flat.shape[1])
    vectors: NDArray[np.float32] = np.where(has_contrast, flat / np.maximum(norms, 1e-6), 0)
    return vectors

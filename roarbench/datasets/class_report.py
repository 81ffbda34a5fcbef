"""Describe a user's images for `new-suite`: classes with their counts, and class folders that are probably no classes.

Such folders are splits, parts of a data set, and masks beside photographs.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.cells import cell_len, set_cell_size

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.common.files import convert_read_errors
from roarbench.common.text import fit_on_one_line, list_quoted, list_some
from roarbench.datasets.catalogue import FOLDERS, WHOLE_PATH
from roarbench.datasets.decode_image import turn_upright
from roarbench.datasets.file_names import describe_file_names
from roarbench.datasets.image_folders import is_test_name, is_train_name, remove_split_words
from roarbench.datasets.repeated_images import describe_repeated_images
from roarbench.datasets.table_columns import describe_alike_classes, describe_measurements
from roarbench.datasets.undecoded_splits import UserImages, sample_images

_MAX_LISTED, _FIRST, _LAST = 24, 12, 6  # of more classes than 24, the first 12 and the last 6 are listed
_NAME_WIDTH = 44  # cells of a terminal
_MANY_LONGER = 3  # classes such as `clear road` beside `clear`, which may stand for several labels
_HANDFUL = 5  # classes with fewer images in a split are named
# words of folders that hold something else than one class: each alone is suspicious
_PART_WORDS = {
    *("image", "images", "img", "imgs", "jpegimages", "photos", "pictures", "pics", "frames", "jpg", "jpeg", "png"),
    *("mask", "masks", "label", "labels", "annotation", "annotations", "anno", "annos", "ground", "groundtruth", "gt"),
    *("segmentation", "segmentations", "seg", "trimap", "trimaps", "bbox", "bboxes", "boxes", "contours", "heatmaps"),
    *("train", "training", "test", "testing", "val", "valid", "validation", "eval", "evaluation", "dev", "holdout"),
    *("query", "gallery", "probe", "unlabeled", "unlabelled", "metadata", "meta", "thumbnails", "thumbs"),
    *("pred", "prediction", "predictions"),
}
# suspicious with a number, such as `part_1`, `patient_004_node_4`, `set_a`
_NUMBERED_WORDS = {
    *("part", "parts", "fold", "folds", "batch", "split", "chunk", "shard", "subset", "archive", "partition", "group"),
    *("patient", "subject", "session", "slide", "site", "hospital", "scanner", "camera", "volume", "case", "study"),
    *("set", "dataset", "data", "folder", "item", "object", "instance"),
}
# words of folders that hold versions of the same images; suspicious if all folders have such names
_VERSION_WORDS = {
    *("color", "colour", "colored", "rgb", "gray", "grey", "grayscale", "greyscale", "segmented", "depth", "thermal"),
    *("infrared", "ir", "nir", "original", "originals", "augmented", "cropped", "crops", "resized", "processed"),
    *("preprocessed", "raw", "edges", "hr", "lr"),
}
_COPY_WORDS = {"aug", "augmented", "copy", "flipped", "mirrored", "rotated", "resized", "thumbs", "backup"}
_NUMBERED_THING = re.compile(r"([A-Za-z]{3,})[ _-]?\d+")
_DATE = re.compile(  # years, months and days
    r"(19|20)\d\d([-_.]?\d\d){0,2}|(jan|febr?|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)"
    r"(uary|ch|il|ust|t?ember|ober)?",
    re.I,
)
_NEUTRAL_WORDS = {"set", "data", "dataset", "truth", "class", "object", "all", "new", "of", "the", "files", "folder"}
_MIN_PARTS = 0.1  # smaller shares of suspicious names are ordinary classes: `mask` and `camera` among a hundred objects
_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_MAX_SAMPLED, _PER_CLASS = 512, 8  # images of each split whose values are inspected, in all and of each class
_MASK_VALUES, _VALUE_WIDTH = 3, 8  # a mask has up to 3 values; lossy compression moves them by up to 8
_MASK_SHARE = 0.98  # share of a mask's pixels that have these values
_CORNERS = ("upper left", "upper right", "lower left", "lower right")  # a frame or a stamp may tell the class
# a property tells a class if it has half of the images, and three more, of the class more than of others: by chance
# in 0.2 % of 1,000 pairs of Imagenette's classes and in 1.5 % of 200 samples of all ten, 16 images each
_TOLD_SHARE, _TOLD_MORE = 0.5, 3
_MASK_CLASS = 0.9  # share of masks in a class of masks; fewer may lie beside the images of every class
_MIN_MASKS = 0.05  # minimum share of masks among the images, and of other images, for a warning


def describe_images(images: UserImages) -> Iterator[str]:
    """Yield the list of classes, and a line for each thing that may be wrong; raise DataError for unreadable files."""
    with convert_read_errors(images.record.folder, "run again when no program changes it", DataError):
        yield list_class_counts(images)
        yield from images.notes
        from_folders = images.record.own == FOLDERS and all(  # label files may give splits alone
            f"/{images.classes[label]}/" in f"/{path}"
            for split, raw in images.splits.items()
            for path, label in zip(images.names[split], raw.labels, strict=True)
        )
        yield from describe_alike_classes(images.classes, "merge their folders" if from_folders else "spell them alike")
        if not images.record.numbered:
            yield from describe_measurements(images.classes, from_folders)
        if not from_folders and not images.record.numbered:
            yield from _describe_longer_classes(images.classes)
        if all(map(all, images.names.values())) and not images.record.test_only:
            yield from describe_file_names(images)
        if from_folders and images.record.class_depth != WHOLE_PATH:
            yield from _describe_inner_folders(images)
            if suspects := find_part_names(images.classes):
                seen = f"folders that count as classes have names of splits, parts or items: {list_quoted(suspects)}"
                remedy = 'write class_depth = N or labels = "FILE" under [data]; to leave them out, leave_out = [NAMES]'
                yield f"warning: {images.record.name}: {seen}; if other folders or a file name the classes, {remedy}"
        yield from _describe_sampled_images(images)
        yield from describe_repeated_images(images)
        by_split = count_by_class(images)
        tested = np.flatnonzero(by_split[Split.TEST])
        if len(tested) == 1 < len(images.classes) and not images.record.test_only:
            seen = f"all test images have the class '{images.classes[tested[0]]}'"
            remedy = "leave out their labels, and write test_share = 0.3 in place of train and test"
            yield f"warning: {images.record.name}: {seen}; if it stands for unknown labels, {remedy}"
        for split, counts in by_split.items():
            few = np.flatnonzero(counts < _HANDFUL)
            if len(few) and not (split is Split.TRAIN and images.record.test_only):
                noun = f"{'training' if split is Split.TRAIN else 'test'} images"
                listed = list_some([f"'{_fit_name(images.classes[n])}' {counts[n]}" for n in few])
                seen = f"classes with fewer than {_HANDFUL} {noun}: {listed}; add images, or leave these classes out"
                if len(few) == len(images.classes):
                    seen = f"every class has fewer than {_HANDFUL} {noun}; add images"
                yield f"warning: {images.record.name}: {seen}"


def _describe_longer_classes(names: Sequence[str]) -> Iterator[str]:
    """Yield a warning of classes of a label file that are another class and a further word."""
    words = {frozenset(re.findall(r"[^\s,;&+]+", name)): name for name in names}
    longer = [(name, words[rest]) for own, name in words.items() for word in own if (rest := own - {word}) in words]
    if len(several := dict(longer)) >= max(_MANY_LONGER, len(names) / 2):
        seen = f"{len(several)} of {len(names)} classes are another class and a further word"
        remedy = "if an image has several labels, separate them by |, and it is left out"
        yield f"warning: {seen}, such as {list_quoted(longer[0])}; {remedy}"


def count_by_class(images: UserImages) -> dict[Split, NDArray[np.int64]]:
    """Return the number of images of each class in each split, int64 (classes,)."""
    return {split: np.bincount(raw.labels, minlength=len(images.classes)) for split, raw in images.splits.items()}


def list_class_counts(images: UserImages) -> str:
    """Return an aligned list of the classes with their counts in each split; of many, the first and the last ones."""
    counts, shown = count_by_class(images), [*range(len(images.classes))]
    shown = shown if len(shown) <= _MAX_LISTED else [*shown[:_FIRST], *shown[-_LAST:]]
    names = [_fit_name(images.classes[number]) for number in shown]
    heading = f"{len(images.classes):,} classes"
    width = max(map(cell_len, [heading, *names]))
    nouns = {split: "training" if split is Split.TRAIN else "test" for split in images.record.decoded_splits}
    lines = ["  ".join([set_cell_size(heading, width), *(f"{noun:>8}" for noun in nouns.values())])]
    for number, name in zip(shown, names, strict=True):
        lines.append("  ".join([set_cell_size(name, width), *(f"{counts[split][number]:>8,}" for split in nouns)]))
    if len(shown) < len(images.classes):
        split, noun = next(iter(nouns.items()))
        hidden = counts[split][_FIRST:-_LAST]
        least, most = int(hidden.min()), int(hidden.max())
        numbers = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        left = f"… {len(hidden):,} more with {numbers} {noun} images each"
        lines.insert(1 + _FIRST, left)
    return "\n  ".join(lines)


def _fit_name(name: str) -> str:
    """Fit a name into `_NAME_WIDTH` cells, of which some letters take two; a longer name ends in an ellipsis."""
    line = fit_on_one_line(name)
    return line if cell_len(line) <= _NAME_WIDTH else f"{set_cell_size(line, _NAME_WIDTH - 1).rstrip()}…"


def _describe_inner_folders(images: UserImages) -> Iterator[str]:
    if any("*" in name for name in images.record.split_names.values()):  # splits lie inside the class folders
        return
    found = defaultdict[str, set[tuple[str, ...]]](set)  # the folders between a class folder and its images
    paths = {split: {""} for split in Split}  # of these folders
    for split in Split:
        name = Path(images.record.split_names[split])
        is_folder = (images.record.folder / name).is_dir() and not images.record.split_column  # and no list of images
        prefix = len(name.parts) if is_folder else 0
        for file in images.names[split]:
            class_name, *between = file.split("/")[prefix + images.record.class_depth - 1 : -1]
            found[class_name].add(tuple(between))
            paths[split].add("/".join(between))
    both = (paths[Split.TRAIN] & paths[Split.TEST]) - {""}
    # if all images lie in an inner folder of one name, as in `amazon/images/bike`, the folders inside it count
    level = len(os.path.commonprefix([between for all_between in found.values() for between in all_between]))
    holders = defaultdict[str, list[str]](list)  # from each such folder, empty beside folders, to classes that have it
    for class_name, folders in found.items():
        for folder in sorted({"".join(between[level : level + 1]) for between in folders}):
            holders[folder].append(class_name)
    nested = [name for name in holders if name]
    if len(holders) < 2 or not nested:  # one folder of the same name in each class mixes nothing
        return
    shared = [name for name in nested if len(holders[name]) > 1]
    owners = holders[(shared or nested)[0]]
    own = shared or [name for name in nested if holders[name] == owners]
    seen = f"the class '{owners[0]}' holds subfolders"
    seen = f"the classes {list_quoted(owners)} hold subfolders of the same names" if shared else seen
    remedy = f"if these are the classes, write class_depth = {images.record.class_depth + level + 1}, "
    remedy += 'which joins those of one name, or "last", which keeps them apart, under [data]'
    if shared and images.record.share:
        remedy += "; if the outer folders are splits, write train and test instead"
    if shared and (parts := find_part_names(tuple(shared))):
        remedy += f"; to leave out masks or others of {list_quoted(parts)}, write leave_out = [NAMES]"
    if images.record.share:
        keep = "name splits, train and test, that keep it together"
        remedy += f"; if each holds one video, patient or the like, {keep}"
    elif both:
        remedy += f"; both splits hold '{min(both)}': if it is one video, patient or the like, keep it in one split"
    yield f"warning: {images.record.name}: {seen}: {list_quoted(own)}, whose images count as one class; {remedy}"


def find_part_names(names: tuple[str, ...]) -> list[str]:
    """Return the class names that are probably splits or parts of a data set, such as `images`, `masks`, `part_1`."""
    words = {name: [word.lower() for word in _NAME_WORD.findall(name)] for name in names}
    common = set.intersection(*map(set, words.values()))
    bare = Counter(map(remove_split_words, names))
    split_named = [name for name in names if is_train_name(name) or is_test_name(name)]
    parts = [name for name in split_named if bare[remove_split_words(name)] > 1]  # `owl_test` beside `owl`
    plain = {name: tuple(word for word in own if word not in _COPY_WORDS) for name, own in words.items()}
    parts += [name for name in names if tuple(words[name]) != plain[name] in map(tuple, words.values())]  # `owl_aug`
    versions = []
    for name in names:
        own = {*words[name]} - common
        numbers = {word for word in words[name] if word.isdecimal() or len(word) == 1 and word.isascii()}
        known = {*words[name]} & (_PART_WORDS | (_NUMBERED_WORDS if numbers else set()))
        others = own - numbers - _NEUTRAL_WORDS - _VERSION_WORDS
        if known and others <= known:
            parts.append(name)
        elif own & _VERSION_WORDS and not others:
            versions.append(name)
    # `apple1`, `apple2`, `cow1`, `cow2` may be things of two classes
    things = Counter(found[1] for name in names if (found := _NUMBERED_THING.fullmatch(name)))
    if things.total() == len(names) > len(things) > 1 and min(things.values()) > 1 or all(map(_DATE.fullmatch, names)):
        return [*names]
    if len(parts) < _MIN_PARTS * len(names) and len(versions) < len(names):
        return []
    return [name for name in names if name in {*parts, *versions}]


def _describe_sampled_images(images: UserImages) -> Iterator[str]:
    """Yield warnings of some images of each class: of masks, and of properties by which a class can be told."""
    per_class = max(1, min(_PER_CLASS, _MAX_SAMPLED // (2 * len(images.classes))))
    few: list[bool] = []
    properties: list[tuple[list[str], ...]] = []
    labels, places = [], []
    for split in images.record.decoded_splits:
        positions = sample_images(images.splits[split].labels, per_class, not images.has_large_files)
        positions = positions[:: -(-len(positions) // _MAX_SAMPLED) or 1]  # of more classes, every second or third
        contents = images.read(split, positions)
        few += map(has_few_values, contents)
        properties += map(_describe_file, contents)
        labels += images.splits[split].labels[positions].tolist()
        places += [(split, int(position)) for position in positions]
    counts = Counter(labels)
    for texts_of in zip(*properties, strict=True) if len(counts) > 1 else ():
        found = defaultdict[str, Counter[int]](Counter)
        for texts, label in zip(texts_of, labels, strict=True):
            for text in texts:
                found[text][label] += 1
        told = [
            ((abs(own - others) - _TOLD_SHARE) * n, own, others, label, text)
            for text, of_class in found.items()
            for label, n in counts.items()
            for own, others in [(of_class[label] / n, (of_class.total() - of_class[label]) / (len(labels) - n))]
        ]
        excess, own, others, label, text = max(told, default=(0, 0, 0, 0, ""))
        if excess >= _TOLD_MORE:
            seen = f"{own:.0%} of the inspected images of the class '{images.classes[label]}'"
            seen += f", and {others:.0%} of the others, have {text}"
            yield f"warning: {images.record.name}: {seen}; a network may tell the class by it"
    # masks have at most three values
    if not _MIN_MASKS <= np.mean(few) <= 1 - _MIN_MASKS:
        return
    shares = np.bincount(labels, few) / np.maximum(np.bincount(labels), 1)
    masks = [images.classes[n] for n in np.flatnonzero(shares >= _MASK_CLASS)]
    if 0 < len(masks) < len({*labels}):
        seen = f"most images of the class {list_quoted(masks)} have at most {_MASK_VALUES} values, unlike other classes"
    else:
        example = images.name_image(*places[few.index(True)])
        seen = f"{sum(few)} of {len(few)} inspected images have at most {_MASK_VALUES} values, such as {example}"
    yield f"warning: {images.record.name}: {seen}; if they are masks, write leave_out = [NAMES] under [data]"


def _describe_file(content: bytes) -> tuple[list[str], ...]:
    """Return an image's format, colours, size and corners, each in one text or more; none for a damaged image."""
    try:
        with Image.open(BytesIO(content)) as image:
            upright = turn_upright(image)[0]
            grey = np.asarray(upright.convert("L"))
            is_grey = image.mode in ("RGB", "RGBA", "P") and not np.ptp(np.asarray(image.convert("RGB")), axis=2).any()
            colours, (height, width) = f"the kind of colours (Pillow's mode) {image.mode}", grey.shape
            shape = "square" if width == height else "wide" if width > height else "high"
            side = 2 ** round(np.log2(min(width, height)))
            is_shallow = image.mode[0] not in "IF"  # values of more bits are no bytes yet
            corners = zip(_CORNERS, grey[[0, 0, -1, -1], [0, -1, 0, -1]], strict=True)
            return (
                [f"the format {image.format}"],
                [colours, f"{colours} without colours"][: 1 + is_grey],
                [f"the size {width} x {height}", f"a {shape} shape", f"a short side of about {side} pixels"],
                [f"brightness {value // 32 + 1} of 8 in the {name} corner" for name, value in corners] * is_shallow,
            )
    except Exception:  # damaged images are reported by the check of damage
        return ([],) * 4


def has_few_values(content: bytes) -> bool:
    """Return whether nearly all pixels of an image have at most three values; False for a damaged image."""
    try:
        with Image.open(BytesIO(content)) as image:
            if image.mode.startswith(("I", "F")):
                return len(np.unique(np.asarray(image))) <= _MASK_VALUES
            counts = np.array(image.convert("RGB").convert("L").histogram())
    except Exception:  # damaged images are reported by the check of damage
        return False
    pixels, covered = counts.sum(), 0
    for _ in range(_MASK_VALUES):
        peak = int(counts.argmax())
        near = slice(max(0, peak - _VALUE_WIDTH), peak + _VALUE_WIDTH + 1)
        covered += counts[near].sum()
        counts[near] = 0
    return bool(covered >= _MASK_SHARE * pixels)

"""Warn of class folders that are probably no classes: splits, parts of a data set, and masks beside photographs."""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from roarbench.common.text import list_some
from roarbench.datasets.catalogue import FOLDERS
from roarbench.datasets.image_folders import FileGroup
from roarbench.datasets.user_images import UserImages, sample_images

# words of folders that hold something else than one class: each alone is suspicious
_PART_WORDS = {
    *("image", "images", "img", "imgs", "jpegimages", "photos", "pictures", "pics", "frames", "jpg", "jpeg", "png"),
    *("mask", "masks", "label", "labels", "annotation", "annotations", "anno", "annos", "ground", "groundtruth", "gt"),
    *("segmentation", "segmentations", "seg", "trimap", "trimaps", "bbox", "bboxes", "boxes", "contours", "heatmaps"),
    *("train", "training", "test", "testing", "val", "valid", "validation", "eval", "evaluation", "dev", "holdout"),
    *("query", "gallery", "probe", "unlabeled", "unlabelled", "metadata", "meta", "thumbnails", "thumbs"),
}
# suspicious with a number, such as `part_1`, `patient_004_node_4`, `set_a`
_NUMBERED_WORDS = {
    *("part", "parts", "fold", "folds", "batch", "split", "chunk", "shard", "subset", "archive", "partition", "group"),
    *("patient", "subject", "session", "slide", "site", "hospital", "scanner", "camera", "volume", "case", "study"),
    *("set", "dataset", "data", "folder"),
}
# words of folders that hold versions of the same images; suspicious if all folders have such names
_VERSION_WORDS = {
    *("color", "colour", "colored", "rgb", "gray", "grey", "grayscale", "greyscale", "segmented", "depth", "thermal"),
    *("infrared", "ir", "nir", "original", "originals", "augmented", "cropped", "crops", "resized", "processed"),
    *("preprocessed", "raw", "edges", "hr", "lr"),
}
_NEUTRAL_WORDS = {"set", "data", "dataset", "truth", "class", "object", "all", "new", "of", "the", "files", "folder"}
_MIN_PARTS = 0.1  # smaller shares of suspicious names are ordinary classes: `mask` and `camera` among a hundred objects
_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_DEPTH_REMEDY = 'write class_depth = 2 (or "last") under [data]'
_MAX_SAMPLED, _PER_CLASS = 512, 8  # images whose values are inspected, in all and of each class and split
_MASK_VALUES, _VALUE_WIDTH = 3, 8  # a mask has up to 3 values; lossy compression moves them by up to 8
_MASK_SHARE = 0.98  # share of a mask's pixels that have these values
_MIN_MASKS = 0.05  # minimum share of masks among the images, and of other images, for a warning


def describe_odd_class_folders(images: UserImages) -> Iterator[str]:
    """Yield warnings for class folders that hold folders of their own or are named like splits or parts."""
    if images.record.own == FOLDERS and images.record.class_depth == 1 and not images.record.label_files:
        yield from _describe_inner_folders(images)
        yield from _describe_part_names(images)


def _describe_inner_folders(images: UserImages) -> Iterator[str]:
    if any("*" in name for name in images.record.split_names.values()):  # splits lie inside the class folders
        return
    inner = _list_inner_folders(images)
    holders: dict[str, list[str]] = {}
    for class_name, names in inner.items():
        for name in sorted(names):
            holders.setdefault(name, []).append(f"'{class_name}'")
    nested = [name for name in holders if name]
    if len(holders) < 2 or not nested:  # one folder of the same name in each class mixes nothing
        return
    if shared := [name for name in nested if len(holders[name]) > 1]:
        listed = list_some([f"'{name}'" for name in shared])
        seen = f"the classes {list_some(holders[shared[0]])} hold subfolders of the same names: {listed}"
        remedy = f"if these are the classes, {_DEPTH_REMEDY}"
        if parts := [f"'{name}'" for name in find_part_names(tuple(shared))]:
            remedy = f"to leave out masks or others of {list_some(parts)}, write leave_out = [NAMES] under [data]; "
            remedy += "if deeper folders are the classes, write class_depth = 3"
    else:
        owner = holders[nested[0]][0]
        own = [f"'{name}'" for name in nested if holders[name][0] == owner]
        seen = f"the class {owner} holds subfolders: {list_some(own)}"
        remedy = f"if these are the classes, {_DEPTH_REMEDY}"
    yield f"warning: {images.record.name}: {seen}, whose images count as one class; {remedy}"


def _list_inner_folders(images: UserImages) -> dict[str, set[str]]:
    """Return the names of the folders in each class folder that hold images; an empty name for images beside them."""
    inner: dict[str, set[str]] = {}
    for split, raw in images.splits.items():
        parent = Path(images.record.folder) / images.record.split_names[split]
        for group in raw.groups:
            assert isinstance(group, FileGroup)
            prefix = len(parent.relative_to(group.folder).parts) if parent.is_relative_to(group.folder) else 0
            for file in group.files:
                class_name, *between = file.split("/")[prefix:-1]
                inner.setdefault(class_name, set()).add(between[0] if between else "")
    return inner


def _describe_part_names(images: UserImages) -> Iterator[str]:
    if suspects := find_part_names(images.classes):
        listed = list_some([f"'{name}'" for name in suspects])
        seen = f"folders that count as classes have names of splits or parts: {listed}"
        remedy = 'if other folders or a file name the classes, write class_depth = N or labels = "FILE" under [data]'
        yield f"warning: {images.record.name}: {seen}; {remedy}"


def find_part_names(names: tuple[str, ...]) -> list[str]:
    """Return the class names that are probably splits or parts of a data set, such as `images`, `masks`, `part_1`."""
    words = {name: [word.lower() for word in _NAME_WORD.findall(name)] for name in names}
    common = set.intersection(*map(set, words.values())) if words else set()
    parts, versions = [], []
    for name in names:
        own = [word for word in words[name] if word not in common]
        known = set(words[name]) & (_PART_WORDS | (_NUMBERED_WORDS if any(map(_is_number, words[name])) else set()))
        if known and all(_is_filler(word) or word in known | _VERSION_WORDS for word in own):
            parts.append(name)
        elif set(own) & _VERSION_WORDS and all(_is_filler(word) or word in _VERSION_WORDS for word in own):
            versions.append(name)
    if len(parts) < _MIN_PARTS * len(names) and len(versions) < len(names):
        return []
    return [name for name in names if name in {*parts, *versions}]


def _is_filler(word: str) -> bool:
    return word in _NEUTRAL_WORDS or _is_number(word)


def _is_number(word: str) -> bool:
    return word.isdecimal() or len(word) == 1 and word.isascii()


def describe_images_of_few_values(images: UserImages) -> Iterator[str]:
    """Yield a warning if some images, but not all, have at most three values, as masks have."""
    per_class = max(1, min(_PER_CLASS, _MAX_SAMPLED // (2 * len(images.classes))))
    few, labels, places = [], [], []
    for split in images.record.decoded_splits:
        positions = sample_images(images.splits[split].labels, per_class, not images.has_large_files)
        positions = positions[: _MAX_SAMPLED // 2] if len(positions) > _MAX_SAMPLED else positions
        few += [has_few_values(content) for content in images.read(split, positions)]
        labels += images.splits[split].labels[positions].tolist()
        places += [(split, int(position)) for position in positions]
    if not _MIN_MASKS <= np.mean(few) <= 1 - _MIN_MASKS:
        return
    shares = [np.mean([flat for flat, own in zip(few, labels, strict=True) if own == label]) for label in {*labels}]
    masks = [f"'{images.classes[n]}'" for n, share in zip({*labels}, shares, strict=True) if share > 0.5]
    if 0 < len(masks) < len(shares):
        seen = f"most images of the class {list_some(masks)} have at most {_MASK_VALUES} values, unlike other classes"
    else:
        example = images.name_image(*places[few.index(True)])
        seen = f"{sum(few)} of {len(few)} inspected images have at most {_MASK_VALUES} values, such as {example}"
    yield f"warning: {images.record.name}: {seen}; if they are masks, write leave_out = [NAMES] under [data]"


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

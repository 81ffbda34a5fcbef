"""Find masks beside the photographs of a data set: images of few values with the name of a photograph."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from roarbench.datasets.class_warnings import has_few_values

_FOLDER = re.compile(r".*(mask|ground_?truth|trimap|segment|annotation).*|gt", re.IGNORECASE)
_SUFFIX = re.compile(r"(.+?)_(mask|segmentation|seg|gt)([_ ]?\d+)?$", re.IGNORECASE)
_OPENED = 3  # masks of each kind that are opened


def find_mask_patterns(root: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the names of folders, or patterns of files, that hold masks of other images.

    Masks have the stem of another image, perhaps with `_mask` behind it, and few values. So a class `mask` of
    photographs is no mask.
    """
    by_folder, by_suffix = defaultdict(list), defaultdict(list)
    stems = {path.rpartition(".")[0].rpartition("/")[2] for path in paths if not _name_mask_folder(path)}
    for path in paths:
        stem = path.rpartition(".")[0].rpartition("/")[2]
        found = _SUFFIX.fullmatch(stem)
        if name := _name_mask_folder(path):
            by_folder[name].append((path, stem if stem in stems or not found else found[1]))
        elif found:
            by_suffix[f"*_{found[2]}*"].append((path, found[1]))
    kinds = [*by_folder.items(), *by_suffix.items()]
    return tuple(sorted(name for name, images in kinds if _are_masks(root, images, stems)))


def _name_mask_folder(path: str) -> str:
    return next((name for name in path.split("/")[:-1] if _FOLDER.fullmatch(name)), "")


def _are_masks(root: Path, images: Sequence[tuple[str, str]], stems: set[str]) -> bool:
    if 2 * sum(stem in stems for _, stem in images) < len(images):
        return False
    opened = images[:: -(-len(images) // _OPENED)]
    return all(has_few_values((root / path).read_bytes()) for path, _ in opened)

"""Find the splits and the classes of images by the names of their folders."""

import json
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from roarbench.common.errors import DataError
from roarbench.common.text import fold_name, format_count, list_quoted, list_some
from roarbench.datasets import image_folders
from roarbench.datasets.catalogue import WHOLE_PATH
from roarbench.datasets.image_folders import is_bare_split_name, is_test_name, is_train_name, join_paths, make_prefix
from roarbench.datasets.image_splits import find_class_folder

_MAX_LOOSE = 0.05  # share of images, such as plots, that may lie beside the only folder
MAX_NESTING = 4  # maximum number of nested folders that each hold a single folder
_COMPARED = 64  # images of a second copy that are compared with those of the first
_MANY_AGAIN = 0.5  # share of these that must be the same
# names of folders inside class folders, which are no classes
_NEUTRAL = {"images", "image", "imgs", "img", "photos", "pictures", "jpg", "jpeg", "png", "jpegimages", "data"}
# names of folders that hold the same pictures in several forms, of which the first is used
_FORMS = (
    *("color", "colour", "rgb", "original", "raw", "grayscale", "greyscale", "gray", "grey", "segmented"),
    "augmented",
)
_PART = re.compile(  # names of the parts of an archive, or of groups of images
    r"(.*[_\- ])?"
    r"(parts?|images?|imgs?|batch|chunk|shard|fold|patient|subject|session|study|series|disc|archive|group)"
    r"[_\- ]?\d+.*",
    re.IGNORECASE,
)
NO_CLASSES = "no class folders"  # problem of a folder of images without folders


@dataclass(frozen=True)
class FolderPlan:
    """Classes and splits by folders alone."""

    base: str = ""  # folder that holds the splits or the class folders; empty for the data set's folder itself
    train: str = ""  # train, test: folders of the splits below `base`; empty if folders give no such split
    test: str = ""
    unlabelled: tuple[str, ...] = ()  # folders below `base` that are named like test splits, but have no class folders
    depth: int = 1  # level of the class folders below the splits, or below `base`
    doubtful: bool = False  # whether the class folders are named like parts of a data set
    problem: str = ""  # reason why folders give no classes; empty if they do
    said: tuple[str, ...] = ()  # lines about choices

    @cached_property
    def _prefixes(self) -> list[str]:
        return [make_prefix(self.base, split) for split in {self.train, self.test} - {""} or {""}]

    def find_class(self, path: str) -> str:
        """Return the class of an image by its folders; an empty string if it has none."""
        for prefix in () if self.problem else self._prefixes:
            if path.startswith(prefix) and (found := find_class_folder(path[len(prefix) :], self.depth)):
                return found
        return ""


class _Tree:
    """Image files by their folders."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._total = len(paths)
        self.loose = Counter(path.rpartition("/")[0] for path in paths)  # images in a folder itself
        self._inside = defaultdict[str, dict[str, None]](dict)  # folders of images in a folder
        for folder in self.loose:
            parts = folder.split("/") if folder else []
            for level, name in enumerate(parts):
                self._inside["/".join(parts[:level])][name] = None

    def list_folders(self, *inside: str) -> list[str]:
        """Return the names of the folders of images in a folder, whose path may be given in parts."""
        return [*self._inside.get(join_paths(*inside), ())]

    def find_innermost(self, *parts: str) -> str:
        """Return the innermost of nested folders that each hold a single folder of images, as in many archives."""
        inside = join_paths(*parts)
        for _ in range(MAX_NESTING):
            names = self.list_folders(inside)
            is_flat = self.loose[inside] > _MAX_LOOSE * self._total
            if len(names) != 1 or is_flat or not self.list_folders(inside, names[0]):
                break
            inside = join_paths(inside, names[0])
        return inside


def find_copies(root: Path, paths: Sequence[str]) -> list[str]:
    """Return the folders that hold the folders and files beside them, or those of a folder of their name, once more.

    A copy of `HAM10000_images_part_1` is `ham10000_images_part_1`. Raises DataError if a folder above a copy has its
    name.
    """
    tree = _Tree(paths)
    base = tree.find_innermost()
    tops = sorted(tree.list_folders(base))
    original = {fold_name(name): name for name in reversed(tops)}
    copies = []
    for name in tops:
        start = make_prefix(base, name)
        inner, is_split = {*tree.list_folders(base, name)}, is_train_name(name) or is_test_name(name)
        is_nested = len(inner) > 1 and inner < {*tops}
        if not is_split and (is_nested or original[fold_name(name)] != name):
            inside = [path for path in paths if path.startswith(start)]
            inside = inside[:: -(-len(inside) // _COMPARED)]
            beside = root / base / ("" if is_nested else original[fold_name(name)])
            pairs = [(root / path, beside / path.removeprefix(start)) for path in inside]
            again = [second.is_file() and first.read_bytes() == second.read_bytes() for first, second in pairs]
            if sum(again) > _MANY_AGAIN * len(again):
                if name in base.split("/"):  # both folders would be left out by this name
                    seen = f"'{start[:-1]}' holds the folders and files beside it once more"
                    raise DataError(f"{root}: {seen}; name the folder {root / base}")
                copies.append(name)
    return copies


def plan_folders(root: Path, paths: Sequence[str], masks: Sequence[str] = ()) -> FolderPlan:
    """Find splits and classes by the names of folders; raise DataError if splits lie inside the class folders.

    `masks` are folders and files that are left out.
    """
    tree = _Tree(paths)
    base = tree.find_innermost()
    names = sorted(tree.list_folders(base))
    plan = _find_splits(tree, base, names)
    if plan.train:
        return _find_depth(tree, plan, join_paths(base, plan.train))
    if plan.unlabelled:
        listed = list_quoted(names)
        return replace(plan, problem=f"the folders {listed} are named like splits and hold no class folders")
    start = len(make_prefix(base))
    inner = (tree.find_innermost(base, name) for name in names)
    inner_pairs = {folder[start:]: image_folders.find_split_pairs(tree.list_folders(folder)) for folder in inner}
    if holding := [name for name, pairs in inner_pairs.items() if pairs]:
        train, test = inner_pairs[holding[0]][0]
        listed = list_quoted(holding)
        seen = f"{root / base}: {listed} each hold the folders '{train}' and '{test}'"
        above = "*/" * (holding[0].count("/") + 1)
        remedy = f'write train = "{above}{train}" and test = "{above}{test}" if {listed} are classes'
        if deeper := tree.list_folders(base, holding[0], train):
            example, depth = join_paths(holding[0], train, min(deeper)), above.count("/") + 2
            remedy += f", and class_depth = {depth}, too, if folders such as '{example}' are"
            # BTAD has faulty things in `test` alone
            if kinds := sorted({*tree.list_folders(base, holding[0], test)} - {*deeper}):
                left_out = json.dumps(sorted({*tree.list_folders(base, holding[0]), *masks} - {test}))
                remedy = f"if folders such as '{join_paths(holding[0], test, kinds[0])}' are classes, write "
                remedy += f"class_depth = {depth}, leave_out = {left_out} and test_share = 0.3"
        if len(holding) == 1:
            seen = f"{listed} holds the folders '{train}' and '{test}', beside other folders"
            path = shlex.quote(str(root / base / holding[0]))  # which ends in a space in OCT2017 of Kaggle
            return replace(plan, problem=f"{seen}; name {path} if it is the data set")
        raise DataError(f"{seen}; {remedy}, or name one of these folders")
    if split_named := [name for name in names if is_bare_split_name(name)]:
        first, others = split_named[0], list_some([name for name in names if name != split_named[0]])
        advice = f"name the split folders 'train' and 'test'; if '{first}' is a class, write the suite's file by hand"
        seen = f"the folder '{join_paths(base, first)}' is named like a split"
        return replace(plan, problem=f"{seen}, beside {others}; {advice}" if others else NO_CLASSES)
    return _find_depth(tree, plan, base)


def _find_splits(tree: _Tree, base: str, names: Sequence[str]) -> FolderPlan:
    pairs = image_folders.find_split_pairs(names)
    if not pairs:  # `train_mini` and `val_data`, whose further words differ; `rps` and `rps-test-set`
        tests = [*filter(is_test_name, names)]
        pairs = [(a, b) for a in filter(is_train_name, names) for b in tests]
        others = [name for name in names if name not in tests]
        words_of = {name: image_folders.remove_split_words(name) for name in names}
        pairs += [(a, b) for a in others for b in tests if words_of[a] == words_of[b]]
        pairs = [(a, b) for a, b in pairs if _count_common_folders(tree, base, a, b) > 1]
    start = len(make_prefix(base))
    inner = {name: tree.find_innermost(base, name)[start:] for pair in pairs for name in pair}
    labelled = [(a, b) for a, b in pairs if _count_common_folders(tree, base, inner[a], inner[b])]
    unlabelled = tuple(dict.fromkeys(b for a, b in pairs if (a, b) not in labelled))
    said = []
    if labelled:
        train, test = labelled[0]
        if skipped := [name for name in unlabelled if pairs.index((train, name)) < pairs.index((train, test))]:
            said.append(f"warning: '{skipped[0]}' has no class folders of '{train}'; '{test}' is used for testing")
        line = f"splits: '{train}' to train and '{test}' to test"
        said += [] if image_folders.find_split_pairs((train, test)) else [line]
        said += _describe_unused(names, train, test)
        return FolderPlan(base, inner[train], inner[test], unlabelled, said=tuple(said))
    holding = [name for name in names if tree.list_folders(base, name)]
    preferred = [train for train, _ in pairs]
    for name in dict.fromkeys(name for name in (*preferred, *filter(is_train_name, names)) if name in holding):
        # `train_station` beside `test_bench`, both with folders of their own, is a class and no split
        if is_bare_split_name(name) or unlabelled or len(holding) == 1:
            inside = tree.find_innermost(base, name)[start:]
            return FolderPlan(base, inside, "", unlabelled, said=tuple(_describe_unused(names, name, *unlabelled)))
    return FolderPlan(base, unlabelled=unlabelled)


def _describe_unused(names: Sequence[str], *used: str) -> list[str]:
    """Return a line about the folders beside the splits whose images are not used."""
    others = [name for name in names if name not in used]
    return [f"not used: the images in {list_quoted(others)}"] if others else []


def _count_common_folders(tree: _Tree, base: str, *folders: str) -> int:
    one, two = ({*tree.list_folders(tree.find_innermost(base, folder))} - _NEUTRAL for folder in folders)
    return len({*map(fold_name, one)} & {*map(fold_name, two)})  # names that differ in case are refused later


def _find_depth(tree: _Tree, plan: FolderPlan, inside: str) -> FolderPlan:
    """Find the level of the class folders below a folder, and say if another level could be meant."""
    tops = tree.list_folders(inside)
    below = {name: tree.list_folders(inside, name) for name in tops}
    listed = list_quoted(sorted(tops))
    if len(tops) < 2:
        where = f" in '{inside}'" if inside else ""
        problem = f"only the folder {listed}{where} holds images" if tops else NO_CLASSES
        if tops and (count := tree.loose[inside]):
            problem += f", beside {format_count(count, 'image')}"
            problem += "; name this folder if the folders inside it are classes" if below[tops[0]] else ""
        if tops and plan.test and (kinds := sorted(tree.list_folders(plan.base, plan.test))):
            problem += f"; name the folder '{plan.test}' if {list_quoted(kinds)} inside it are the classes"
        return replace(plan, problem=problem)
    if not plan.train and all(name.lower() in _FORMS for name in tops):
        chosen = min(tops, key=lambda name: _FORMS.index(name.lower()))
        said = f"the folders {listed} hold the same pictures in several forms; only '{chosen}' is used"
        inside = join_paths(inside, chosen)
        return _find_depth(tree, replace(plan, base=inside, said=(*plan.said, said)), inside)
    deeper = {name for names in below.values() for name in names if name.lower() not in _NEUTRAL}
    all_deeper = bool(deeper) and not any(tree.loose[join_paths(inside, name)] for name in tops)
    if all(map(_PART.fullmatch, tops)) and all_deeper and len(deeper) > 1 and not all(map(_PART.fullmatch, deeper)):
        said = f"the folders {listed} are taken for parts and not for classes; classes are the folders inside them"
        return replace(plan, depth=2, said=(*plan.said, said))
    tested = {name: {*tree.list_folders(plan.base, name)} - _NEUTRAL for name in plan.unlabelled}
    if found := next((name for name, folders in tested.items() if all_deeper and folders and folders <= deeper), ""):
        problem = f"the folders {listed} of '{plan.train}' hold folders of the names in '{found}'; move these up"
        return replace(plan, problem=problem)
    if all_deeper and all(len(name) == 1 and all(n[0].lower() == name.lower() for n in below[name]) for name in tops):
        said = f"the folders {listed} are taken for initial letters; a class is the whole path of an image's folder"
        return replace(plan, depth=WHOLE_PATH, said=(*plan.said, said))
    return replace(plan, doubtful=all(map(_PART.fullmatch, tops)))

"""Choose how the images of a user's folder are read: splits, class folders, label files and masks.

Every choice that is not the only possible one is said in a line.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from roarbench.common.errors import DataError
from roarbench.common.text import format_count, list_quoted, list_some
from roarbench.datasets import find_label_files, image_folders
from roarbench.datasets.catalogue import WHOLE_PATH
from roarbench.datasets.class_report import has_few_values
from roarbench.datasets.find_label_files import LabelPlan, LabelSearch, find_split_lists
from roarbench.datasets.folder_plan import MAX_NESTING, NO_CLASSES, FolderPlan, find_copies, plan_folders
from roarbench.datasets.image_folders import describe_unread_archives, join_paths, make_prefix
from roarbench.datasets.image_splits import is_left_out, select_matching
from roarbench.datasets.label_files import read_image_labels
from roarbench.datasets.label_tables import LABEL_FILE_SUFFIXES
from roarbench.datasets.table_columns import GROUP_NAME
from roarbench.datasets.tabular import parse_numbers

TEST_SHARE = 0.3  # share of images that is drawn for testing if there is no test split
# files that often hold labels
_UNREAD_LABELS = (
    *(".mat", ".xml", ".xlsx", ".xls", ".json", ".yaml", ".yml", ".parquet", ".pkl", ".cls", ".lst", ".npy", ".sqlite"),
)
_UNREAD_NAMES = re.compile("label|annot|meta|truth", re.I)  # in names of files that may give other classes than folders
# in names of files that may list splits, such as `testList.mat`; `latest.json` and `folder.xml` do not
_UNREAD_SPLITS = re.compile(r"(?i:split|partition|(?<![a-z])(train|test|fold(?!er)))|Train|Test|Fold(?!er)")
_BEGINNING = re.compile(r"([A-Za-z][^\d/]*?)[._\- (]*\d")  # of file names such as `cat.12.jpg`
_MOST = 0.9  # share of the images with a class folder that a label file must list to replace the folders
_MASK_FOLDER = re.compile(r".*(mask|msk|ground_?truth|trimap|segment|annotation|thumbnail).*|gt|thumbs|previews?", re.I)
_MASK_SUFFIX = re.compile(r"(.+?)_(mask|segmentation|seg|gt|label|thumb(?:nail)?)([_ ]?\d+)?$", re.IGNORECASE)
_THUMBNAIL_NAME = re.compile(r"(?!.*(mask|msk)).*(thumb|preview).*", re.IGNORECASE)
_OPENED_MASKS = 3  # masks of each kind that are opened


class _Choice(NamedTuple):
    """The sources of classes and splits."""

    labels: LabelPlan | None  # label files; None if folders name the classes
    train: str  # train, test: folders, lists or values of a column; both empty if test images are drawn
    test: str
    split_column: str = ""
    said: tuple[str, ...] = ()


class Layout(NamedTuple):
    """A way to read the images of a user's folder."""

    fields: dict[str, Any]  # of the record
    root: Path  # folder that the paths of `groups` are relative to
    groups: Mapping[str, Mapping[str, str]]  # from each column of people or things to the value of each image


def choose_layout(folder: Path, warn: Callable[[str], object]) -> Layout:
    """Choose where a user's images, classes and splits are.

    `warn` is called with a line about each choice. Raises DataError if the classes are not clear.
    """
    root = folder
    for _ in range(MAX_NESTING):  # the innermost of nested folders that each hold a single folder and no image or text
        names = image_folders.list_class_names(root)
        if len(names) != 1 or _holds_file(root, (*LABEL_FILE_SUFFIXES, *image_folders.IMAGE_SUFFIXES)):
            break
        inner = root / names[0]
        if not image_folders.list_class_names(inner) and not _holds_file(inner, LABEL_FILE_SUFFIXES):
            break
        root = inner
    every_path = list(image_folders.list_image_paths(root))
    masks = _find_mask_patterns(root, every_path)
    paths = [path for path in every_path if not is_left_out(path, masks)]
    if masks:
        count = format_count(len(every_path) - len(paths), "image")
        warn(f"left out: {count} that are masks by name and values ({list_some(masks)})")
    if copies := find_copies(root, paths):
        warn(f"left out: the images in {list_quoted(copies)}, whose folders and files lie beside it once more")
        masks += copies
        paths = [path for path in paths if not is_left_out(path, copies)]
    plan = plan_folders(root, paths, masks)
    search = find_label_files.search_label_files(root, paths)
    if not search.lists and (beside := find_label_files.find_label_files_beside(folder, paths)):
        remedy = f"to use its labels or splits, name the folder above: roarbench new-suite {folder.parent}"
        said = f"the images are named in {list_quoted(beside)} beside the folder '{folder.name}'; {remedy}"
        search = replace(search, problems=(said, *search.problems))
    choice = _choose_with_class_folders(plan, search, root, paths) or _choose_label_files(plan, search, root, paths)
    by_folders = () if choice.labels else (*plan.said, *_describe_contradictions(plan, search))
    lines = [*by_folders, *choice.said]
    if not (choice.labels and choice.labels.usual):
        lines += (f"warning: {problem}" for problem in search.problems)
    files = [file for each in (folder, root) for file in sorted(each.iterdir()) if file.is_file()]
    names = [name for name in dict.fromkeys(file.name for file in files) if name.lower().endswith(_UNREAD_LABELS)]
    if not choice.labels and (unread := [name for name in names if _UNREAD_NAMES.search(name)]):
        lines.append(f"not read: {list_quoted(unread)}; classes are the names of the folders")
    if not choice.train:
        lines += (f"warning: {doubt}" for doubt in search.doubts)
        if unread := [name for name in (*names, *search.unused) if _UNREAD_SPLITS.search(name.rpartition("/")[2])]:
            remedy = "write lists of images, train.txt and test.txt, beside them"
            lines.append(f"warning: splits may be in {list_quoted(unread)}, which roarbench cannot read; {remedy}")
        classified = {*choice.labels.labels} if choice.labels else {path for path in paths if plan.find_class(path)}
        lines += _describe_unused_lists(search, choice.labels, classified)
    for line in dict.fromkeys((*lines, *describe_unread_archives(folder), *describe_unread_archives(root))):
        warn(line)
    labels, train, test = choice.labels, choice.train, choice.test
    depth, read = plan.depth, ""  # level of the class folders below the folder that is read
    if labels is None and (not train or train == plan.train):  # folders alone give classes and splits
        read = join_paths(plan.base, "" if train else plan.train)
        above = {make_prefix(str(parent)) for parent in Path(plan.base, plan.train).parents}
        if outside := [path for path in paths if make_prefix(path.rpartition("/")[0]) in above]:
            warn(f"left out: {format_count(len(outside), 'image')} above the class folders (such as '{outside[0]}')")
    elif (not train or not (root / train).is_dir()) and plan.depth != WHOLE_PATH:  # folders are counted from the root
        depth += len(Path(plan.base).parts)
    if labels and labels.labels and not plan.unlabelled and not any(map(plan.find_class, labels.labels)):
        depth = 1
    prefix = make_prefix(read)
    used_masks = select_matching(masks, (path for path in every_path if path.startswith(prefix)))
    fields = {"folder": str(root / read), "class_depth": depth, "left_out": used_masks}
    if labels:
        fields |= {"label_files": labels.files, "path_column": labels.columns.path}
        fields |= {"label_column": labels.columns.label, "split_column": choice.split_column}
    is_drawn = not (train and test)
    fields |= {"train_split": "." if is_drawn else train, "test_split": "." if is_drawn else test}
    return Layout(fields | {"share": TEST_SHARE if is_drawn else 0.0}, root, search.groups)


def _holds_file(folder: Path, suffixes: Sequence[str]) -> bool:
    shown = (file for file in folder.iterdir() if not file.name.startswith("."))
    return any(file.suffix.lower() in suffixes and file.is_file() for file in shown)


def _find_mask_patterns(root: Path, paths: Sequence[str]) -> list[str]:
    """Return the names of folders, or patterns of files, that hold masks; raise DataError for thumbnails.

    Both have the stem of another image, perhaps with `_mask` or `_thumb` behind it. Masks have few values, so a class
    `mask` of photographs is no mask.
    """
    named = [(path, path.rpartition(".")[0].rpartition("/")[2]) for path in paths]
    folder_of = {path: next(filter(_MASK_FOLDER.fullmatch, path.split("/")[:-1]), "") for path in paths}
    stems = {stem for path, stem in named if not folder_of[path]}
    candidates = defaultdict(list)
    for path, stem in named:
        found = _MASK_SUFFIX.fullmatch(stem)
        if folder_of[path]:
            candidates[folder_of[path]].append((path, stem if stem in stems or not found else found[1]))
        elif found:
            candidates[f"*_{found[2]}*"].append((path, found[1]))
    masks = []
    for name, images in sorted(candidates.items()):
        pairs = [path for path, stem in images if stem in stems]
        if 2 * len(pairs) < len(images):
            continue
        if _THUMBNAIL_NAME.fullmatch(name):
            seen = f"{root}: images of '{name}' have the names of other images"
            raise DataError(f"{seen}; if they are thumbnails, move them elsewhere, otherwise rename them")
        if all(has_few_values((root / path).read_bytes()) for path in pairs[:: -(-len(pairs) // _OPENED_MASKS)]):
            masks.append(name)
    return masks


def _describe_unused_lists(search: LabelSearch, labels: LabelPlan | None, classified: Set[str]) -> Iterator[str]:
    """Yield a warning about lists of some of the images in `classified`, those with a class, which are not used."""
    stems = {path: path.rpartition("/")[2].rpartition(".")[0] for path in search.lists}
    used = [path for path in labels.files if path in stems] if labels else []
    # one file of labels may be named like a split, but two are splits
    used = [] if image_folders.find_split_pairs(stems[path] for path in used) else used
    lists = {path: images for path, images in search.lists.items() if path not in used and images & classified}
    trains = [path for path in lists if image_folders.is_train_name(stems[path])]
    parts = [p for p, images in lists.items() if len(images) < (1 if p in trains else _MOST) * len(classified)]
    named = [path for path in parts if path in trains or image_folders.is_test_name(stems[path])]
    if named or len(parts) > 1:
        seen = f"not used: {list_quoted(parts)}, with names of some of the images; test images are drawn at random"
        remedy = "if they list splits, name one train.txt and one test.txt, without an image that is in both"
        yield f"warning: {seen}; {remedy}"


def _choose_with_class_folders(
    plan: FolderPlan, search: LabelSearch, root: Path, paths: Sequence[str]
) -> _Choice | None:
    """Choose splits, and labels of a test split without class folders; None if folders do not name the classes."""
    class_of = {path: name for path in paths if (name := plan.find_class(path))}
    if plan.problem or not class_of:
        return None
    alike = []  # label files with the classes of the folders
    for labels in search.plans:
        common = [path for path in class_of if path in labels.labels]
        listed = len(common) + sum(path in class_of for path in labels.content.several)
        if listed >= _MOST * len(class_of):
            if _are_same_classes(class_of, labels.labels, common) and not plan.doubtful:
                alike.append(labels)
            elif labels.usual:
                return None
    lists, notes = find_split_lists(search.lists, {*class_of}), list[str]()
    if plan.train and plan.test:
        pair = (plan.train, plan.test)
        by_split = [{path for path in class_of if path.startswith(make_prefix(plan.base, split))} for split in pair]
        if lists and by_split != [search.lists[path] for path in lists[0]]:
            depth = plan.depth + len(Path(plan.base, plan.train).parts)
            remedy = f'images = "{root}", class_depth = {depth}, train = "{lists[0][0]}" and test = "{lists[0][1]}"'
            seen = f"splits are the folders {list_quoted(pair)}; the lists {list_quoted(lists[0])} give others"
            notes.append(f"warning: {seen}; to use the lists, write {remedy} under [data]")
        return _Choice(None, *pair, said=tuple(notes))
    base = make_prefix(plan.base)
    for number, name in enumerate(plan.unlabelled):
        for labels in search.plans:
            found = {label for path, label in labels.labels.items() if path.startswith(f"{base}{name}/")}
            if found and (labels in alike or found <= set(class_of.values())):
                said = f"the labels of '{name}' are taken from {list_quoted(labels.files)}"
                others = [f"'{other}' has no labels" for other in plan.unlabelled[:number]]
                return _Choice(labels, f"{base}{plan.train}", f"{base}{name}", said=("; ".join([said, *others]),))
    if plan.train:
        problem = "there is no test folder"
        if plan.unlabelled:
            problem = f"{root / plan.base / plan.unlabelled[0]} has no class folders"
            inside = f"{base}{plan.unlabelled[0]}/"
            if any(path.startswith(inside) and "/" in path[len(inside) :] for path in paths):
                problem += f" of the names in '{plan.train}'"
        return _Choice(None, "", "", said=(f"warning: {problem}; test images are drawn from '{plan.train}'",))
    for source in search.split_sources:
        common = [path for path in source.labels if path in class_of]
        if source.usual or _are_same_classes(class_of, source.labels, common):
            return _choose_split_column(source)
        seen = f"the splits of {list_quoted(source.files)} are not used, because its column"
        wrong = f"'{source.columns.label}' would give other classes than the folders"
        remedy = "remove this column, or name the split folders 'train' and 'test'"
        notes.append(f"warning: {seen} {wrong}; {remedy}")
    if lists:
        (train, test), said = lists
        trained = search.lists[train] & class_of.keys()
        names = {class_of[path] for path in trained}
        if len(names) == 1:  # as in lists of one class or one domain
            seen = f"the lists {list_quoted(lists[0])} name images of the folder '{min(names)}' alone"
            remedy = "join the lists of all classes in train.txt and test.txt"
            *folders, _ = min(trained).split("/")
            if folders[-1] in names:
                if any(trained <= labels.labels.keys() for labels in search.plans):  # the lists give labels, too
                    return None
            else:
                splits = f"train = {json.dumps(train)} and test = {json.dumps(test)}"
                remedy = "if the folders inside it are the classes, "
                remedy += f"write class_depth = {len(folders)}, {splits} under [data]"
            raise DataError(f"{seen}; {remedy}")
        return _Choice(None, train, test, said=(*notes, said))
    return _Choice(None, "", "", said=tuple(notes))


def _choose_split_column(plan: LabelPlan, said: Iterable[str] = ()) -> _Choice:
    train, test = plan.split_values or ("", "")
    column = f"column '{plan.columns.split}' of {list_quoted(plan.files)}"
    line = f"splits: '{train}' to train and '{test}' to test in {column}"
    return _Choice(plan, train, test, plan.columns.split, (*said, line))


def _are_same_classes(folders: Mapping[str, object], labels: Mapping[str, str], paths: Iterable[str]) -> bool:
    """Return whether folders and labels divide these images into the same classes, perhaps of other names."""
    pairs = {(folders[path], labels[path]) for path in paths}
    return len(pairs) == len({folder for folder, _ in pairs}) == len({label for _, label in pairs})


def _describe_contradictions(plan: FolderPlan, search: LabelSearch) -> Iterator[str]:
    """Yield a line for files that give other splits or classes than the folders, or give them each other's names."""
    train, test = (make_prefix(plan.base, split) for split in (plan.train, plan.test))
    for source in search.split_sources if plan.test else ():
        for_training, for_testing = source.split_values or ("", "")
        splits = source.content.splits
        moved = [
            path
            for path, value in splits.items()
            if value == for_testing and path.startswith(train) or value == for_training and path.startswith(test)
        ]
        # a file of the training images alone may divide these once more, to train and to validate
        if moved and any(path.startswith(test) for path in splits):
            seen = f"{list_quoted(source.files)} gives the other split to {format_count(len(moved), 'image')}"
            yield f"warning: splits are the folders '{plan.train}' and '{plan.test}'; {seen}, such as '{moved[0]}'"
    class_of = {path: name for labels in search.plans for path in labels.labels if (name := plan.find_class(path))}
    for labels in search.plans:
        common = [path for path in labels.labels if path in class_of]
        if not labels.usual and (labels.rivals or GROUP_NAME.fullmatch(labels.columns.label)):
            continue
        # a network that was trained with numbers in another order than the folders has its outputs in this order
        label_of = {class_of[path]: labels.labels[path] for path in common}
        numbers = parse_numbers([label_of[folder] for folder in sorted(label_of)])
        is_other_order = numbers != sorted(numbers) and not parse_numbers([*label_of])
        pairs = [pair for pair in label_of.items() if pair[0] != pair[1] and (pair[1] in label_of or is_other_order)]
        seen = f"labels the images of the folder '{pairs[0][0]}' '{pairs[0][1]}'" if pairs else ""
        if not _are_same_classes(class_of, labels.labels, common):
            seen = f"gives other classes to {format_count(len(common), 'image')}"
        if seen:
            remedy = f"if the file is right, write labels = {json.dumps(labels.files)} under [data]"
            yield f"warning: classes are the folders' names, but {list_quoted(labels.files)} {seen}; {remedy}"


def _choose_label_files(plan: FolderPlan, search: LabelSearch, root: Path, paths: Sequence[str]) -> _Choice:
    """Choose the label files that name the classes, and the splits; raise DataError if there is no clear choice."""
    plans = [each for each in search.plans if len(set(each.labels.values())) > 1]
    usual = [each for each in plans if each.usual] or plans
    if not usual:
        raise _make_no_class_error(plan, search, root, paths)
    best = max(usual, key=lambda each: len(each.labels))
    column = f"column '{best.columns.label}' of " if best.columns.label else ""
    reason = "without the line `labels`, folders name the classes"
    if plan.problem:
        reason = plan.problem.partition(";")[0] if plan.problem != NO_CLASSES else ""  # without advice on folders
    said = ["; ".join(filter(None, (f"classes: the labels in {column}{list_quoted(best.files)}", reason)))]
    if best.rivals:
        nameless = "" if best.usual or best.columns.label else ", which has no column names"
        named = f"column '{best.content.columns.label}' of" if best.content.columns.label else "two columns of flags in"
        seen = f"{named} {list_quoted(best.files)}{nameless}"
        others = f"{list_quoted(best.rivals)} could have the labels, too; to use one"
        said.append(f'warning: classes: {seen}; {others}, write label_column = "{best.rivals[-1]}" under [data]')
    for other in usual:
        common = [path for path in other.labels if path in best.labels]
        if not _are_same_classes(best.labels, other.labels, common):
            lines = " or ".join(f"labels = {json.dumps(each.files)}" for each in (best, other))
            seen = f"{root} has labels in several files, which give different classes"
            raise DataError(f"{seen}; write {lines} in the suite's file")
        if not common and {*best.labels.values()} >= {*other.labels.values()}:
            count = format_count(len(other.labels), "other image")
            seen = f"{list_quoted(other.files)} labels {count} by the same classes, which are left out"
            remedy = f"write labels = {json.dumps([*best.files, *other.files])} under [data]"
            said.append(f"warning: {seen}; to use them, {remedy}, also train and test if the files list splits")
    least = _MOST * len(best.labels)
    covering = (source for source in search.split_sources if len(best.labels.keys() & source.content.splits) >= least)
    if not best.split_values and (splits := next(covering, None)):  # another file gives them to nearly all images
        files, columns = (*best.files, *splits.files), best.columns._replace(split=splits.columns.split)
        try:
            content = read_image_labels(root, files, columns, paths)
            best = replace(best, files=files, columns=columns, content=content, split_values=splits.split_values)
        except DataError as error:  # the file of splits has a column that could be that of labels, too
            said.append(f"warning: splits in another file than {list_quoted(best.files)} are not used, because {error}")
    if best.split_values:
        labelled = {best.content.splits.get(path) for path in best.labels}
        if not (lacking := [value for value in best.split_values if value not in labelled]):
            return _choose_split_column(best, said)
        seen = f"no image of the split '{lacking[0]}' in column '{best.columns.split}' has a label"
        said.append(f"warning: {seen}; test images are drawn from the others")
    if lists := find_split_lists(search.lists, set(best.labels)):
        return _Choice(best, *lists[0], said=(*said, lists[1]))
    base = make_prefix(plan.base)
    below = [path[len(base) :].partition("/")[0] for path in best.labels if path.startswith(base)]
    pairs = image_folders.find_split_pairs(dict.fromkeys(below))  # folders of splits whose images have labels
    train, test = (base + name for name in pairs[0]) if pairs else ("", "")
    return _Choice(best, train, test, said=tuple(said))


def _make_no_class_error(plan: FolderPlan, search: LabelSearch, root: Path, paths: Sequence[str]) -> DataError:
    """Return the error for images without classes, with what the folder offers instead."""
    if search.problems:
        return DataError(f"{root}: {plan.problem}; {search.problems[0]}")
    if search.plans:
        files, labels = search.plans[0].files, search.plans[0].labels
        seen = f"{list_quoted(files)} gives all images the label '{min(labels.values())}'"
        remedy = 'if another column has the labels, write labels = "FILE" and label_column = "COLUMN"'
        return DataError(f"{root}: {plan.problem}; {seen}; {remedy}")
    unread = dict.fromkeys(file.name for file in sorted(root.rglob("*")) if file.suffix.lower() in _UNREAD_LABELS)
    beginnings = Counter(found[1] for path in paths if (found := _BEGINNING.match(path.rpartition("/")[2])))
    advice = 'put the images of each class into a folder, or write labels = "FILE" in the suite\'s file'
    csv = "write a file labels.csv with the columns file_name and label"
    if unread:
        advice = f"labels may be in {list_quoted(unread)}, which roarbench cannot read; {csv}"
    elif 1 < len(beginnings) <= len(paths) // 2 and 2 * sum(beginnings.values()) >= len(paths):
        advice = f"the names of the files begin with {list_quoted(sorted(beginnings))}; {csv}"
    elif predicted := [*filter(find_label_files.PREDICTED.search, (file.name for file in sorted(root.rglob("*.csv"))))]:
        advice = f"{list_quoted(predicted)} is named like predictions; if it has labels, rename it labels.csv"
    return DataError(f"{root}: {plan.problem}; {advice}")

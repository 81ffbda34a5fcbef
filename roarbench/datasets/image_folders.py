"""List and read images in local folders: a folder per class, the names of split folders, and IDX files.

An IDX file consists of two zero bytes, a byte for the type (8 is uint8), a byte for the number of dimensions, each
dimension as a big-endian int32, and the values (LeCun, Cortes and Burges, "The MNIST database of handwritten digits").

Archives, arrays, pickles and databases, which are not read, are recognised by their names.
"""

import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.common.files import convert_read_errors
from roarbench.common.text import list_quoted, list_some

IMAGE_SUFFIXES = (
    *(".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"),
    *(".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"),
)
IMAGES_PER_READ = 64  # images in memory at a time; Birdsnap's images take up to 1.6 MB each
# keywords of Hugging Face `datasets` (`datasets.data_files.SPLIT_KEYWORDS`), and `validate`; tests before validation
_TRAIN_KEYWORDS = ("train", "training")
_TEST_KEYWORDS = ("test", "testing", "eval", "evaluation", "validation", "validate", "valid", "val", "dev")
# words of names like `seg_train`, `TrainImages`, `val2017`, `a. Training Set`
_NAME_WORDS = re.compile(r"(?!^\w[.)] )(?:[A-Z]?[a-z]+|[A-Z]+)")
_TRAIN_AND_VALIDATION = re.compile(r"train[_-]?(and[_-]?)?val(id(ation)?)?", re.I)  # `trainval`, to be tested on `test`
# a column such as `is_test` or `train`, without spaces and underscores; a column `test` may be a result
_SPLIT_FLAG = re.compile(r"is(train(ing)?|test(ing)?|val(id(ation)?)?|eval(uation)?|dev)(set|split|image)?|train", re.I)
FALSE_WORDS, TRUE_WORDS = ("0", "0.0", "false", "no"), ("1", "1.0", "true", "yes")
_IDX_PREFIXES = {Split.TRAIN: "train", Split.TEST: "t10k"}
# folders and files that systems and programs make beside hidden ones: of Synology, QNAP and other network drives;
# Windows, with FOUND.000 of its disk check; Linux; macOS and its archives; Python, Picasa
_SYSTEM_FOLDER = re.compile(
    r"\..*|@(eadir|recycle|recently-snapshot|tmp|__thumb)|#(recycle|snapshot)|\$recycle\.bin|system volume information"
    r"|lost\+found|network trash folder|temporary items|__macosx|__pycache__|found\.\d{3}",
    re.I,
)
_SYSTEM_FILE = re.compile(r"\..*|(eh)?thumbs(_vista)?\.db(:encryptable)?|(desktop|picasa)\.ini|icon\r", re.I)
_APPLE_DOUBLE = "._"  # prefix of the files in which macOS keeps attributes on foreign disks: `._photo.jpg`


def is_system_folder(name: str) -> bool:
    """Return whether a folder of this name is hidden, or made by a system or a program, such as `@eaDir`."""
    return _SYSTEM_FOLDER.fullmatch(name) is not None


def is_system_file(name: str) -> bool:
    """Return whether a file of this name is hidden, or made by a system or a program, such as `Thumbs.db`."""
    return _SYSTEM_FILE.fullmatch(name) is not None


def describe_left_out(counts: Counter[str]) -> str:
    """Describe in a line which folders and files are left out, with the count of each name; empty if there are none."""
    names = [f"{count} {name}" if count > 1 else name for name, count in counts.most_common()]
    return f"left out, because systems make them or they are hidden: {list_some(names, 6)}" if names else ""


def describe_endings(files: Iterable[Path]) -> str:
    """List the endings of files with their counts, the most frequent ones first; empty if there are no files."""
    endings = Counter(file.suffix.lower() or "without an ending" for file in files)
    return list_some([f"{count} {ending}" for ending, count in endings.most_common()])


class FileGroup(NamedTuple):
    """Some image files of a split, which one job decodes."""

    folder: Path  # folder that contains all files, in itself or in subfolders
    files: tuple[str, ...]  # paths relative to the folder, with slashes

    @property
    def rows(self) -> int:
        return len(self.files)


def list_class_names(folder: Path) -> list[str]:
    """Return the sorted names of the class folders in a folder, without hidden folders and those that systems make."""
    with convert_read_errors(folder, "name a folder that has one folder of images per class", DataError):
        names = [entry.name for entry in os.scandir(folder) if entry.is_dir()]
        return sorted(name for name in names if not is_system_folder(name))


def join_paths(*parts: str) -> str:
    """Join the parts of a path, of which some may be empty."""
    return "/".join(filter(None, parts))


def make_prefix(*folders: str) -> str:
    """Return the beginning of the paths in nested folders, such as `a/b/`; of `./a/`, too, and empty for no folder."""
    return "".join(f"{part}/" for part in Path(*folders).parts)


def list_image_paths(folder: Path, inside: str = ".") -> Iterator[str]:
    """Yield the image files in the folder `inside` of a folder, as paths relative to `folder`, without hidden files.

    Raises DataError if a folder cannot be read, or a link leads to a missing file.
    """
    for parent, names in _walk_folders(folder / inside, Counter()):
        prefix = make_prefix(str(parent.relative_to(folder)))  # strings, because a Path for each file takes long
        for name in names:
            if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES:  # noqa: PTH122
                if not os.path.exists(f"{parent}/{name}"):  # noqa: PTH110
                    raise DataError(f"{parent / name} is a link to a missing file; repair or remove the link")
                yield prefix + name


def has_image_suffix(file: Path) -> bool:
    return file.suffix.lower() in IMAGE_SUFFIXES


def list_all_files_below(folder: Path, left_out: Counter[str] | None = None) -> Iterator[Path]:
    """Yield the files below a folder; raise DataError if a folder cannot be read.

    Links to folders are followed, except links that lead back to a parent folder. Hidden folders and files, and those
    that systems make, such as `@eaDir`, are left out; `left_out` counts their names, but not those of hidden texts.
    """
    for parent, names in _walk_folders(folder, Counter() if left_out is None else left_out):
        yield from (parent / name for name in names)


def _walk_folders(folder: Path, left_out: Counter[str]) -> Iterator[tuple[Path, list[str]]]:
    """Yield each folder with the names of its files, as `list_all_files_below` chooses them."""
    parents = {folder: (folder.resolve(), *folder.resolve().parents)}
    for parent, folders, files in os.walk(folder, onerror=_raise_unreadable_folder, followlinks=True):
        own_parents = parents.pop(Path(parent))
        left_out.update(filter(is_system_folder, folders))
        folders[:] = [name for name in folders if not is_system_folder(name)]
        for name in list(folders):
            target = (Path(parent) / name).resolve()
            if target in own_parents:
                folders.remove(name)
            parents[Path(parent) / name] = (*own_parents, target)
        for name in filter(is_system_file, files):
            if not name.startswith(".") or has_image_suffix(Path(name)):
                left_out[f"{_APPLE_DOUBLE}*" if name.startswith(_APPLE_DOUBLE) else name] += 1
        yield Path(parent), [name for name in files if not is_system_file(name)]


def _raise_unreadable_folder(error: OSError) -> None:
    raise DataError(f"cannot read {error.filename}: {error.strerror}") from error


class _SplitName(NamedTuple):
    keyword: str  # of one split; empty for a name of no split, or of several
    other_words: tuple[str, ...]  # all words of the name; of a split's name, except the keyword and `set`


def find_split_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Find pairs of a train name and a test name that differ only in the keyword; the preferred pair comes first.

    `Train` and `Test` are a pair, as are `seg_train` and `seg_test`, or `training_set` and `test_set`; `train` and
    `seg_test` are not.
    """
    parsed = {name: _parse_split_name(name) for name in names}
    trains = [name for name, split in parsed.items() if split.keyword in _TRAIN_KEYWORDS]
    tests = [name for name, split in parsed.items() if split.keyword in _TEST_KEYWORDS]
    pairs = [(a, b) for a in trains for b in tests if parsed[a].other_words == parsed[b].other_words]
    return sorted(pairs, key=lambda ab: (parsed[ab[0]].other_words, _TEST_KEYWORDS.index(parsed[ab[1]].keyword), ab))


def find_split_values(name: str, values: Iterable[str], usual: bool = False) -> tuple[str, str] | None:
    """Return the values of training and of test items in a column; None if the column does not clearly give splits.

    All values are names of splits, or only some if the column's name is `usual`; or the column is a flag, such as
    `is_test`, with the values 0 and 1.
    """
    found = sorted({*values} - {""})
    if _SPLIT_FLAG.fullmatch(re.sub(r"[\s_-]", "", name)) and len(found) == 2:
        no, yes = sorted(found, key=lambda value: value.lower() in TRUE_WORDS)
        if no.lower() in FALSE_WORDS and yes.lower() in TRUE_WORDS:
            return (yes, no) if "train" in name.lower() else (no, yes)
    pairs = find_split_pairs(found)
    return pairs[0] if pairs and (usual or all(map(is_bare_split_name, found))) else None


def is_bare_split_name(name: str) -> bool:
    """Return whether a name consists only of a split's keyword, such as `train`, and possibly the word `set`."""
    split = _parse_split_name(name)
    return bool(split.keyword) and not split.other_words


def is_train_name(name: str) -> bool:
    """Return whether a name contains the keyword of a training split."""
    return _parse_split_name(name).keyword in _TRAIN_KEYWORDS


def is_test_name(name: str) -> bool:
    """Return whether a name contains the keyword of a test or validation split."""
    return _parse_split_name(name).keyword in _TEST_KEYWORDS


def remove_split_words(name: str) -> tuple[str, ...]:
    """Return the words of a name without the keyword of a split, so that names of one kind of file are equal."""
    return _parse_split_name(name).other_words


def _parse_split_name(name: str) -> _SplitName:
    name = _TRAIN_AND_VALIDATION.sub("train", name)
    words = [word.lower() for word in _NAME_WORDS.findall(name)]
    others = [word.removesuffix("set") for word in words]
    keywords = [word for word in others if word in (*_TRAIN_KEYWORDS, *_TEST_KEYWORDS)]
    if len(keywords) != 1:
        return _SplitName("", tuple(words))
    return _SplitName(keywords[0], tuple(word for word in others if word and word not in keywords))


def has_idx_files(folder: Path) -> bool:
    return any(folder.glob("*-images-idx3-ubyte*"))


def read_idx(folder: Path, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read pixels, uint8 (n, 1, h, w), and labels, int64 (n,), of a split; raise DataError for an invalid file."""
    arrays = []
    for kind, dimensions in (("images-idx3", 3), ("labels-idx1", 1)):
        name = f"{_IDX_PREFIXES[split]}-{kind}-ubyte"
        path = next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)
        if path is None:
            raise DataError(f"{folder} has no {name} or {name}.gz; expected all four IDX files")
        try:
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"cannot read {path}: {error}") from error
        if content[:4] != bytes((0, 0, 8, dimensions)):
            seen = f"{path} starts with {content[:4].hex(' ')}"
            raise DataError(f"{seen}, expected an IDX file of {dimensions} dimension(s)")
        header = 4 + 4 * dimensions
        shape = tuple(int(length) for length in np.frombuffer(content[4:header], ">i4"))
        if len(content) - header != np.prod(shape):
            seen = f"{path} has {len(content) - header} values"
            raise DataError(f"{seen}, but its header says {shape}; download it again")
        arrays.append(np.frombuffer(content, np.uint8, offset=header).reshape(shape))
    images, labels = arrays
    return images[:, np.newaxis], labels.astype(np.int64)


_SAVE = "save images as PNG in a folder per class"
# for files of kinds that are not read
CONVERT = f"{_SAVE}, and tables as CSV; in Python, rb.Suite.from_arrays takes arrays of images (docs/python.md)"
_ARCHIVE = r".*\.(tar|zip|7z|rar|tar\.\w+|tgz|tbz2?|txz|gz|bz2|xz|zst)"


class _Kind(NamedTuple):
    """A kind of file that is not read."""

    pattern: str  # regular expression for the whole file name, in lower case
    seen: str  # what such a file is, after `is `
    remedy: str


# the first kind that fits is meant
_KINDS = (
    _Kind(r"(train|t10k)-(images|labels)[-.]idx\d-ubyte(\.gz)?", "an IDX file, MNIST's format",
        f"read it with --data FOLDER and a suite on MNIST-like images, such as fashion-mnist, or {_SAVE}"),
    _Kind(r"emnist-.*ubyte(\.gz)?", "a file of EMNIST, whose images are stored transposed",
        f"exchange rows and columns of each image, and {_SAVE}"),
    _Kind(r".*\.arrow", "an Arrow file, as save_to_disk of Hugging Face datasets writes",
        'write parquet into a new folder: datasets.load_from_disk(FOLDER).to_parquet("train.parquet"), where FOLDER is '
        'that of the .arrow files, and so for "test"'),
    _Kind(r".*\.(csv|tsv|txt|parquet)\.\w+", "a packed table", "unpack it and name the unpacked file"),
    _Kind(_ARCHIVE, "an archive", "unpack it and name the folder that holds one folder per class"),
)  # fmt: skip


def refuse_unsupported_file(file: Path) -> None:
    """Raise DataError for a file that is no table, if it is an image or of a known kind."""
    if has_image_suffix(file):
        remedy = "name the folder that holds one folder of images per class"
        raise DataError(f"{file} is a single image; {remedy}")
    if kind := _find_kind(file):
        raise DataError(f"{file} is {kind.seen}; {kind.remedy}")


def describe_unread_archives(folder: Path) -> Iterator[str]:
    """Yield a warning about archives in a folder of images, except those that are named like an unpacked folder."""
    unpacked = {folder.name.lower(), *(path.name.lower() for path in folder.iterdir() if path.is_dir())}
    archives = (path.name for path in sorted(folder.iterdir()) if re.fullmatch(_ARCHIVE, path.name.lower()))
    if packed := [name for name in archives if name.lower().partition(".")[0] not in unpacked]:
        yield f"warning: archives are not read: {list_quoted(packed)}; unpack those that hold images of the data set"


def refuse_folder_without_images(folder: Path, files: Sequence[Path], table_suffixes: tuple[str, ...]) -> NoReturn:
    """Raise DataError for a folder without images and parquet files; the message says what the folder holds instead."""
    of_kinds = [(kind, file) for file in sorted(files) if (kind := _find_kind(file))]
    if of_kinds:
        kind, example = min(of_kinds, key=lambda pair: _KINDS.index(pair[0]))
        raise DataError(f"{folder} has no image: {example.relative_to(folder)} is {kind.seen}; {kind.remedy}")
    if table := next((file for file in files if file.name.lower().endswith(table_suffixes)), None):
        raise DataError(f"{folder} has no image, but the table {table.name}; name the file itself: {table}")
    if held := describe_endings(files):
        raise DataError(f"{folder} has no image, but files of other kinds: {held}; {CONVERT}")
    remedy = "name a folder that has one folder of images per class, or parquet files"
    raise DataError(f"{folder} has no file at all; {remedy}")


def _find_kind(file: Path) -> _Kind | None:
    return next((kind for kind in _KINDS if re.fullmatch(kind.pattern, file.name.lower())), None)

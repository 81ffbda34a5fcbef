"""Read the labels of parquet files, and make equal numbers mean equal classes in all files of a data set.

Hugging Face `datasets` stores a `ClassLabel` column as numbers, and the names of the classes in the file's metadata.
Each file has names of its own: `class_encode_column` on each split gives class 1 of a split without birds the name
`dog`, and `cat` in the other split. Numbers of differing names are therefore matched by name.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.common.text import list_quoted, list_some
from roarbench.datasets.parquet_files import has_text_type, read_column, read_schema

_LARGEST = 2**53  # larger floats are not exact, and larger unsigned numbers do not fit into int64


class FileLabels(NamedTuple):
    """The labels of one parquet file."""

    file: Path
    values: NDArray[Any]  # str or int64 (n,)
    names: tuple[str, ...]  # name of each class number, from the file's metadata; empty if it has none


class NumberedLabels(NamedTuple):
    """The labels of both splits, as numbers that mean the same classes."""

    labels: dict[Split, NDArray[np.int64]]  # (n,) of each split
    names: tuple[str, ...]  # name of each class; empty if the files have numbers without names


def read_file_labels(file: Path, name: str) -> FileLabels:
    """Read the label column of a file: strings as str; whole numbers of any type and booleans as int64.

    Raises DataError if the column has another type, a row has no label, or a number has no name beside others' names.
    """
    column = read_column(file, name)
    subject = f"{file}: the label column '{name}'"
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    is_text = has_text_type(column.type)
    column = pc.cast(column, pa.string()) if is_text else column
    empty = column.null_count + (pc.sum(pc.equal(pc.utf8_trim_whitespace(column), "")).as_py() or 0 if is_text else 0)
    if empty:
        raise DataError(f"{subject} is empty in {empty} of {len(column)} rows; expected a class for each")
    if is_text:
        return FileLabels(file, np.asarray(column.to_numpy().astype(str)), ())
    if pa.types.is_decimal(column.type):
        column = pc.cast(column, pa.float64())
    values = np.asarray(column.to_numpy())
    if values.dtype.kind not in "biuf" or not np.equal(values, np.rint(values.astype(np.float64))).all():
        raise DataError(f"{subject} holds {column.type}; expected a whole number or a string for each image")
    if len(values) and max(abs(float(values.min())), float(values.max())) > _LARGEST:
        raise DataError(f"{subject} has numbers above 2^53; expected class numbers from 0, or names")
    numbers = values.astype(np.int64)
    names = read_class_names(file, name)
    if names and numbers.max(initial=-1) >= len(names):
        seen = f"{subject} has the label {numbers.max()}, but its ClassLabel names {len(names)} classes"
        raise DataError(f"{seen} ({list_some(names)}); write the file again with a name for each class")
    return FileLabels(file, numbers, names)


def read_class_names(file: Path, name: str) -> tuple[str, ...]:
    """Return the names of the classes that `datasets` stored beside a column of class numbers; empty without names."""
    text = (read_schema(file).metadata or {}).get(b"huggingface", b"")
    with suppress(ValueError, LookupError, TypeError):  # another program's metadata
        feature = json.loads(text)["info"]["features"][name]
        if feature["_type"] == "ClassLabel":
            return tuple(map(str, feature["names"]))
    return ()


def unify_labels(
    by_split: Mapping[Split, Sequence[FileLabels]], source: str, column: str, outputs: int = 0
) -> NumberedLabels:
    """Unify the labels of both splits, so that a number means the same class in all files.

    Class numbers without names, or with the same names everywhere, stay as they are. Otherwise classes are matched by
    name and have the numbers of the first file with names; strings without such a file are numbered in alphabetical
    order. If `outputs` is not 0, labels are the numbers of a network's outputs, of this number, and are never changed.

    Raises DataError if numbers without names stand beside names or strings, a test image has a class without training
    images, or numbers that may not be changed have differing names.
    """
    parts = [part for split in Split for part in by_split[split] if len(part.values)]
    _refuse_numbers_beside_names(parts, source, column)
    classes = next((part.names for part in parts if part.names), ())
    if outputs:
        _refuse_names_of_other_numbers(classes, source)
    if all(part.values.dtype.kind == "i" and part.names == classes for part in parts):
        return NumberedLabels({split: _join(part.values for part in by_split[split]) for split in Split}, classes)
    if outputs:
        _refuse_names_beside_network_outputs(parts, source, outputs)
    used = {split: {name for part in by_split[split] for name in _list_used_names(part)} for split in Split}
    if untrained := sorted(used[Split.TEST] - used[Split.TRAIN]):
        trained = list_quoted(sorted(used[Split.TRAIN]))
        seen = f"the class '{untrained[0]}' of the test images has no training image (training classes: {trained})"
        raise DataError(f"{source}: {seen}; spell a class alike in all files, and give each class training images")
    classes = (*classes, *sorted(used[Split.TRAIN] - {*classes}))
    numbers = {name: number for number, name in enumerate(classes)}
    labels = {split: _join(_renumber(part, numbers) for part in by_split[split]) for split in Split}
    return NumberedLabels(labels, classes)


def _join(parts: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *(part for part in parts if len(part))])


def _list_used_names(part: FileLabels) -> set[str]:
    """Return the names of the classes that have an image in a file; withheld labels, -1, have no name."""
    if part.values.dtype.kind == "U":
        return set(part.values.tolist())
    return {part.names[number] for number in np.unique(part.values) if number >= 0}


def _renumber(part: FileLabels, numbers: Mapping[str, int]) -> NDArray[np.int64]:
    if part.values.dtype.kind == "U":
        texts, places = np.unique(part.values, return_inverse=True)
        return np.array([numbers[text] for text in texts.tolist()], np.int64)[places]
    new = np.array([numbers.get(name, -1) for name in part.names], np.int64)
    return np.where(part.values < 0, part.values, new[part.values])


def _refuse_numbers_beside_names(parts: Sequence[FileLabels], source: str, column: str) -> None:
    bare = [part for part in parts if part.values.dtype.kind == "i" and not part.names]
    named = [part for part in parts if part.names]
    texts = [part for part in parts if part.values.dtype.kind == "U"]
    if bare and texts:
        seen = f"'{column}' has strings in {texts[0].file.name} and numbers in {bare[0].file.name}"
        raise DataError(f"{source}: the label column {seen}; use the same type in all files")
    if bare and named:
        seen = f"names the classes of its numbers ({list_some(named[0].names)}), {bare[0].file.name} does not"
        # cast_column keeps the numbers and changes the names, also of numbers that already have names
        remedy = "write all files with names, as strings or as a ClassLabel (datasets: align_labels_with_mapping)"
        raise DataError(f"{source}: the label column '{column}' of {named[0].file.name} {seen}; {remedy}")


def _refuse_names_beside_network_outputs(parts: Sequence[FileLabels], source: str, outputs: int) -> None:
    if any(part.values.dtype.kind == "U" for part in parts):
        remedy = f"expected the numbers of the network's outputs, 0 to {outputs - 1}"
        raise DataError(f"{source} has labels that are not whole numbers, but classes is {outputs}; {remedy}")
    first, other = parts[0], next(part for part in parts if part.names != parts[0].names)
    seen = f"class numbers have other names in {first.file.name} ({list_some(first.names)}) than in {other.file.name}"
    raise DataError(f"{source}: {seen} ({list_some(other.names)}); write all files in the order of the outputs")


def _refuse_names_of_other_numbers(names: Sequence[str], source: str) -> None:
    """Raise DataError if classes are named by other numbers than their own, as by `class_encode_column` of `datasets`.

    That function sorts numbers as text: 10 becomes class 1, and 2 becomes class 2.
    """
    if all(name.isdecimal() for name in names):
        for number, name in enumerate(names):
            if int(name) != number:
                seen = f"the label {number} has the ClassLabel name '{name}', so it is not the number of an output"
                raise DataError(f"{source}: {seen}; write the numbers of the outputs as labels, without encoding them")

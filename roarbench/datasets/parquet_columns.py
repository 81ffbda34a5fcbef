"""Find the columns of images and classes in parquet files, read labels, and describe columns that may be classes, too.

Hugging Face `datasets` stores a `ClassLabel` column as numbers, and the names of the classes in the file's metadata.
Each file has names of its own: `class_encode_column` on each split gives class 1 of a split without birds the name
`dog`, and `cat` in the other split. Numbers of differing names are therefore refused.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.common.text import fit_on_one_line, list_quoted, list_some
from roarbench.datasets import parquet_files, table_columns, tabular
from roarbench.datasets.label_tables import PATH_NAMES, SPLIT_NAMES, simplify_column_name

_IMAGE_COLUMN_NAMES = ("image", "img", "photo", "picture")  # common names
_LONGEST_TYPE = 40  # characters
_NO_LABEL_NAMES = {*PATH_NAMES, *SPLIT_NAMES} - {"name"}
_NO_NUMBERS = np.empty(0, np.int64)
_LARGEST = 2**53  # larger floats are not exact, and larger unsigned numbers do not fit into int64


def has_image_column(file: Path) -> bool:
    """Return whether a parquet file has a column of images; True for a file that cannot be read."""
    try:
        return any(is_image_type(field.type) for field in parquet_files.read_schema(file))
    except OSError:
        return True  # the error is reported later, when the file is read


def find_image_and_label_columns(file: Path) -> tuple[str, str]:
    """Return the columns of images and of classes in a file; raise DataError if either is missing or unclear."""
    schema = parquet_files.read_schema(file)
    kinds = {field.name: field.type for field in schema}
    images = [name for name, kind in kinds.items() if is_image_type(kind)]
    classes = {name for name, kind in kinds.items() if parquet_files.has_class_type(kind)}
    unlikely = {name for name in classes if simplify_column_name(name) in _NO_LABEL_NAMES}
    labels = [name for name in schema.names if name in classes - unlikely or name in table_columns.LABEL_COLUMN_NAMES]
    if not images:
        listed = list_some([f"'{name}' ({fit_on_one_line(str(kind), _LONGEST_TYPE)})" for name, kind in kinds.items()])
        seen = f"{file.name}: no column holds the bytes of each image's file, but {listed}"
        remedy = "with datasets, cast a column of paths or arrays to Image() and write to_parquet; in Python, "
        remedy += f"rb.Suite.from_arrays takes arrays; if it is a table of numbers, roarbench new-suite {file}"
        raise DataError(f"{seen}; {remedy}")
    image = _choose_column(file, "images", images, _IMAGE_COLUMN_NAMES)
    usual, (name, _, value) = {*table_columns.LABEL_COLUMN_NAMES}, file.parent.name.partition("=")
    if not labels or value and name in usual and usual.isdisjoint(labels):
        seen = f"no column of {file.name} holds labels"
        seen += f", because {list_quoted(sorted(unlikely))} should name images or splits" if unlikely else ""
        remedy = "write the classes as a column 'label' into each file; names of folders and files are not read"
        raise DataError(f"{seen}; {remedy}")
    return image, _choose_column(file, "labels", labels, table_columns.LABEL_COLUMN_NAMES)


def is_image_type(kind: pa.DataType) -> bool:
    """Return whether a column type holds the bytes of files, also in a struct as of `datasets`."""
    inner = kind.field("bytes").type if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else kind
    return bool(pa.types.is_binary(inner) or pa.types.is_large_binary(inner))


def _choose_column(file: Path, content: str, names: Sequence[str], usual: Sequence[str]) -> str:
    """Return the column that has a usual name or, if no column has one, the only column."""
    usual_columns = [name for name in usual if name in names]
    if not usual_columns and len(names) != 1:
        seen = f"{len(names)} columns may hold {content}: {', '.join(names)}" if names else f"no column holds {content}"
        raise DataError(f"{file.name}: {seen}; name the column '{usual[0]}', or write the suite's file by hand")
    return usual_columns[0] if usual_columns else names[0]


def read_image_names(group: parquet_files.RowGroup, image: str, label: str) -> list[str]:
    """Return the name of each image of a row group: the `path` beside its bytes, or the text of a column of names.

    Images without a name have empty texts.
    """
    schema = parquet_files.read_schema(group.file)
    kind = schema.field(image).type
    has_path = pa.types.is_struct(kind) and kind.get_field_index("path") >= 0
    texts = [field.name for field in schema if parquet_files.has_text_type(field.type) and field.name != label]
    columns = [f"{image}.path"] if has_path else [name for name in texts if simplify_column_name(name) in PATH_NAMES]
    if not columns:
        return [""] * group.rows
    column = parquet_files.read_row_group_column(group, columns[0])
    values = pc.struct_field(column, "path") if has_path else pc.cast(column, pa.string())
    return [name or "" for name in values.to_pylist()]


def describe_missing_content(files: list[Path], image: str, label: str) -> str:
    """Return `rows`, `images` or `labels`, whichever a split lacks, or an empty string; withheld labels are -1."""
    names = {column.lower() for file in files for column in parquet_files.read_schema(file).names}
    if not names & {label.lower(), *table_columns.LABEL_COLUMN_NAMES}:
        return "labels"
    columns = [parquet_files.read_column(file, label) for file in files]
    rows = sum(map(len, columns))
    if not rows:
        return "rows"
    if parquet_files.count_missing_images(files, image) == rows:
        return "images"
    for labels in columns:
        if parquet_files.has_text_type(labels.type):
            is_withheld = not any(pc.unique(pc.cast(labels, pa.string())).to_pylist())  # empty texts
        else:
            # a split with some labels of -1 is not withheld, and is refused later
            is_negative = pa.types.is_signed_integer(labels.type) and pc.max(labels).as_py() == -1
            is_withheld = labels.null_count == len(labels) or is_negative
        if not is_withheld:
            return ""
    return "labels"


def describe_other_columns(train: list[Path], test: list[Path], label: str) -> Iterator[str]:
    """Yield lines about columns that may be classes, splits, or patients whose images may be in both splits.

    `train` and `test` are the files of the splits; without `test`, test images are drawn.
    """
    schema = parquet_files.read_schema(train[0])
    names = [field.name for field in schema if parquet_files.has_class_type(field.type)]
    others = [name for name in names if name.lower().rpartition("_")[2] in table_columns.LABEL_COLUMN_NAMES]
    unused = [name for name in others if name != label]
    if unused or label not in table_columns.LABEL_COLUMN_NAMES:
        yield f"classes: column '{label}'{'; not used: ' if unused else ''}{list_quoted(unused)}"
    # labels in lists or structs are refused later
    for name in filter(label.__ne__, () if pa.types.is_nested(schema.field(label).type) else names):
        is_group = table_columns.may_name_groups(name)
        is_split = not test and simplify_column_name(name) in SPLIT_NAMES
        if not is_group and not is_split or any(name not in parquet_files.read_schema(file).names for file in test):
            continue
        cells, labels = (_read_texts(train, column) for column in (name, label))
        if is_group and len({*zip(labels, cells, strict=True)}) == len({*labels}):
            continue  # `genus_id`, of groups of classes
        seen = table_columns.describe_group(name, cells, _read_texts(test, name), "image")
        if seen and is_split:
            seen = f"column '{name}' has the values {list_quoted(sorted({*cells}))}"
            seen += ", but test images are drawn at random; write the rows of each split to a file of its own"
        if seen:
            yield f"warning: {seen}"


def _read_texts(files: list[Path], name: str) -> list[str]:
    """Return the values of a column of classes or groups as text; an empty text for a missing one."""
    columns = [parquet_files.read_column(file, name) for file in files]
    plain = (pc.cast(pc.cast(column, tabular.get_value_type(column.type)), pa.string()) for column in columns)
    return [text or "" for column in plain for text in column.to_pylist()]


class FileLabels(NamedTuple):
    """The labels of one parquet file."""

    file: Path
    numbers: NDArray[np.int64]  # class numbers, (n,); of strings, their positions in `names`
    names: tuple[str, ...]  # name of each class number, from the file's metadata; empty if it has none
    is_text: bool = False  # whether the file has strings


def read_file_labels(file: Path, name: str) -> FileLabels:
    """Read the label column of a file: strings, whole numbers of any type, or booleans.

    Raises DataError if the column has another type, a row has no label, or a number has no name beside others' names.
    """
    column = parquet_files.read_column(file, name)
    subject = f"{file}: the label column '{name}'"
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    is_text = parquet_files.has_text_type(column.type)
    column = pc.cast(column, pa.string()) if is_text else column
    empty = column.null_count + (pc.sum(pc.equal(pc.utf8_trim_whitespace(column), "")).as_py() or 0 if is_text else 0)
    if empty:
        raise DataError(f"{subject} is empty in {empty} of {len(column)} rows; expected a class for each")
    if is_text:
        texts, places = np.unique(column.to_numpy().astype(str), return_inverse=True)
        return FileLabels(file, places.reshape(-1).astype(np.int64), tuple(texts.tolist()), is_text=True)
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
    text = (parquet_files.read_schema(file).metadata or {}).get(b"huggingface", b"")
    with suppress(ValueError, LookupError, TypeError):  # another program's metadata
        feature = json.loads(text)["info"]["features"][name]
        if feature["_type"] == "ClassLabel":
            return tuple(map(str, feature["names"]))
    return ()


def unify_labels(
    by_split: Mapping[Split, Sequence[FileLabels]], source: str, column: str, outputs: int = 0
) -> tuple[dict[Split, NDArray[np.int64]], tuple[str, ...]]:
    """Return the labels of both splits, (n,) each, as numbers that mean the same class in all files, and its names.

    All files have strings, which are numbered in alphabetical order, or numbers, with the same names or none. The names
    are empty if no file has any. If `outputs` is not 0, labels are the numbers of a network's outputs, of this number.

    Raises DataError if the files' types or names differ, or strings or names are no numbers of outputs.
    """
    parts = [part for split in Split for part in by_split[split] if len(part.numbers)]
    kinds = {None if part.is_text else part.names: part for part in reversed(parts)}
    if len(kinds) > 1:
        found = []
        for names, part in kinds.items():
            kind = "strings" if names is None else f"numbers ({list_some(names)})" if names else "numbers without names"
            found.append(f"{kind} in {part.file.name}")
        seen = f"the label column '{column}' has {' and '.join(found[-2:])}"
        remedy = "write all files with strings, or with one ClassLabel (datasets: align_labels_with_mapping)"
        raise DataError(f"{source}: {seen}; {remedy}")
    classes = next((names for names in kinds if names), ())
    if outputs and None in kinds:
        remedy = f"expected the numbers of the network's outputs, 0 to {outputs - 1}"
        raise DataError(f"{source} has labels that are not whole numbers, but classes is {outputs}; {remedy}")
    # `class_encode_column` of `datasets` sorts numbers as text: 10 becomes class 1, and 2 becomes class 2
    for number, name in enumerate(classes if outputs and all(map(str.isdecimal, classes)) else ()):
        if int(name) != number:
            seen = f"the label {number} has the ClassLabel name '{name}', so it is not the number of an output"
            raise DataError(f"{source}: {seen}; write the numbers of the outputs as labels, without encoding them")
    numbers = {split: [part.numbers for part in by_split[split]] for split in Split}
    if None in kinds:
        classes = tuple(sorted({name for part in parts for name in part.names}))
        number_of = {name: number for number, name in enumerate(classes)}
        for split in Split:
            # a file without rows may have other names
            own = ([number_of.get(name, -1) for name in part.names] for part in by_split[split])
            numbers[split] = [np.array(new, np.int64)[p.numbers] for new, p in zip(own, by_split[split], strict=True)]
    return {split: np.concatenate([_NO_NUMBERS, *numbers[split]]) for split in Split}, classes

"""Find the columns of images and classes in a user's parquet files, and describe columns that may be others."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from roarbench.common.errors import DataError
from roarbench.common.text import list_quoted
from roarbench.datasets import parquet_files, table_columns, tabular
from roarbench.datasets.label_tables import PATH_NAMES, SPLIT_NAMES, simplify_column_name

_IMAGE_COLUMN_NAMES = ("image", "img", "photo", "picture")  # common names
_PATH_COLUMN_NAMES = ("path", "image_path", "file", "file_name", "filename", "filepath", "url", "image_url")


def has_image_column(file: Path) -> bool:
    """Return whether a parquet file has a column of images; True for a file that cannot be read."""
    try:
        return any(is_image_type(field.type) for field in parquet_files.read_schema(file))
    except OSError:
        return True  # the error is reported later, when the file is read


def find_image_and_label_columns(file: Path) -> tuple[str, str]:
    """Return the columns of images and of classes; raise DataError if either is missing or unclear."""
    schema = parquet_files.read_schema(file)
    images = [field.name for field in schema if is_image_type(field.type)]
    classes = {field.name for field in schema if parquet_files.has_class_type(field.type)}
    labels = [name for name in schema.names if name in classes or name in table_columns.LABEL_COLUMN_NAMES]
    if not images:
        _refuse_parquet_without_images(file, schema, labels)
    image = _choose_column(file, "images", images, _IMAGE_COLUMN_NAMES)
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


def _refuse_parquet_without_images(file: Path, schema: pa.Schema, labels: Sequence[str]) -> None:
    """Raise DataError if a parquet file has arrays or paths where bytes are expected, or is a table of numbers."""
    kinds = {field.name: field.type for field in schema}
    arrays = [name for name, kind in kinds.items() if _is_array_type(kind)]
    named = [name for name in kinds if name.lower() in _IMAGE_COLUMN_NAMES or name.lower() in _PATH_COLUMN_NAMES]
    texts = [name for name in named if parquet_files.has_text_type(kinds[name])]
    numbers = [name for name, kind in kinds.items() if tabular.has_number_type(kind) and name not in labels]
    if arrays:
        seen = f"column '{arrays[0]}' holds arrays of pixels ({_name_type(kinds[arrays[0]])})"
        remedy = "in Python, rb.Suite.from_arrays takes arrays, or save each array as a PNG in a folder per class"
    elif texts:
        seen = f"column '{texts[0]}' holds text, probably paths of image files"
        remedy = "with datasets, cast the column to Image() and write to_parquet, or use a folder of images per class"
    elif len(numbers) > 1:
        seen = f"no column holds images, and {len(numbers)} columns hold numbers"
        remedy = f"if this is a table of numbers, name the file: roarbench new-suite {file}"
    else:
        return
    raise DataError(f"{file.name}: {seen}; expected the bytes of each image's file; {remedy}")


def _name_type(kind: pa.DataType) -> str:
    return (
        str(kind) if not isinstance(kind, pa.BaseExtensionType) else type(kind).__name__.removesuffix("ExtensionType")
    )


def _is_array_type(kind: pa.DataType) -> bool:
    """Return whether a column type holds lists of lists, also as the extension types Array2D … of `datasets`."""
    inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return table_columns.is_list_type(inner) and table_columns.is_list_type(inner.value_type)


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
    return "labels" if all(map(_are_labels_withheld, columns)) else ""


def _are_labels_withheld(labels: pa.ChunkedArray) -> bool:
    if parquet_files.has_text_type(labels.type):
        return not any(pc.unique(pc.cast(labels, pa.string())).to_pylist())  # empty texts
    if labels.null_count == len(labels):
        return True
    # a split with some labels of -1 is not withheld, and is refused later
    return bool(pa.types.is_signed_integer(labels.type) and pc.max(labels).as_py() == -1)


def describe_other_columns(train: list[Path], test: list[Path], label: str) -> Iterator[str]:
    """Yield lines about columns that may be classes, splits, or patients whose images may be in both splits.

    `train` and `test` are the files of the splits; without `test`, test images are drawn.
    """
    names = [field.name for field in parquet_files.read_schema(train[0]) if parquet_files.has_class_type(field.type)]
    others = [name for name in names if name.lower().rpartition("_")[2] in table_columns.LABEL_COLUMN_NAMES]
    unused = [name for name in others if name != label]
    if unused or label not in table_columns.LABEL_COLUMN_NAMES:
        yield f"classes: column '{label}'{'; not used: ' if unused else ''}{list_quoted(unused)}"
    for name in filter(label.__ne__, names):
        is_group = table_columns.GROUP_NAME.fullmatch(name) is not None
        is_split = not test and simplify_column_name(name) in SPLIT_NAMES
        if not is_group and not is_split or any(name not in parquet_files.read_schema(file).names for file in test):
            continue
        cells = _read_texts(train, name)
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

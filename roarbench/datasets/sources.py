"""Where images come from: the hub, a local folder, the package itself, IDX files, or a generator.

Hugging Face `datasets` reads the first three by one code path; only the hub's files are copied to its cache, those
that lie on this machine are read where they lie.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from roarbench.datasets import DatasetRecord, idx, planted
from roarbench.datasets.crop import to_pixels
from roarbench.errors import DataError
from roarbench.terms import Split

BUNDLED = Path(__file__).parent / "bundled"
CHUNK = 256  # images held in memory at once: 37 MiB at 224 x 224
HUB_TIMEOUT = 5.0  # seconds; `datasets` alone retries for half a minute before it gives up


@dataclass(frozen=True)
class RawSplit:
    """One split before it is written to the decoded store.

    Attributes:
        labels: int64 (n,), in [0, classes).
        read: Yields the pixels of the images marked in a boolean (n,), in order, as uint8 (chunk, c, h, w).
        truth: True importance of each feature, float32 (n, c, h, w), where it is known.
    """

    labels: NDArray[np.int64]
    read: Callable[[NDArray[np.bool_]], Iterator[NDArray[np.uint8]]]
    truth: NDArray[np.float32] | None = None


def describe_source(record: DatasetRecord, data: Path | None) -> dict[str, object]:
    """Identity of the place that images come from, cheap to find: another source or a changed file gives another one.

    Raises:
        DataError: `data` is no folder, or the data set is generated.
    """
    if data is not None and not record.hub:
        raise DataError(f"{record.name} is generated and reads no files; leave --data out")
    if data is not None and not data.is_dir():
        what = "a file" if data.exists() else "missing"
        raise DataError(
            f"--data {data} is {what}; expected a folder with both splits of {record.name} as the hub has them"
        )
    if data is not None:
        return {"kind": "local", "folder": str(data.resolve()), "files": _files(data)}
    if record.bundled:
        return {"kind": "bundled", "files": _files(BUNDLED / record.bundled)}
    if record.hub:
        return {"kind": "hub", "path": record.hub, "revision": record.revision}
    return {"kind": "generated", "recipe": record.revision, "seed": record.seed}


def _files(folder: Path) -> list[list[object]]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [[str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]


def open_source(record: DatasetRecord, data: Path | None) -> dict[Split, RawSplit]:
    """Both splits of a data set, labels read and checked, images still undecoded.

    Raises:
        DataError: They cannot be reached or read, or are not what the record says.
    """
    if not record.hub:
        splits = {split: _from_arrays(record, *planted.generate(record, split)) for split in Split}
    elif data is not None and idx.has_idx(data):
        splits = {split: _from_arrays(record, *idx.read_idx(data, split)) for split in Split}
    else:
        splits = _from_tables(record, data)
    for split, count in ((Split.TRAIN, record.train_images), (Split.TEST, record.test_images)):
        _check_labels(splits[split].labels, count, record, split)
    return splits


def _check_labels(labels: NDArray[np.int64], count: int, record: DatasetRecord, split: Split) -> None:
    if len(labels) != count:
        raise DataError(
            f"{split} split of {record.name} has {len(labels)} images, expected {count}; is it another set?"
        )
    low, high = labels.min(), labels.max()
    if low < 0 or high >= record.classes:
        seen = low if low < 0 else high
        raise DataError(f"{split} split of {record.name} has label {seen}, expected 0 … {record.classes - 1}")


def _from_arrays(
    record: DatasetRecord,
    pixels: NDArray[np.uint8],
    labels: NDArray[np.int64],
    truth: NDArray[np.float32] | None = None,
) -> RawSplit:
    expected = (len(labels), record.channels, record.size, record.size)
    if pixels.shape != expected:
        raise DataError(f"{record.name} has images of shape {pixels.shape}, expected {expected}; is it another set?")
    return RawSplit(labels, lambda wanted: iter((pixels[wanted],)), truth)


def _from_tables(record: DatasetRecord, data: Path | None) -> dict[Split, RawSplit]:
    where = str(data) if data else record.bundled or record.hub
    tables = _load(record, data, where)
    splits = {}
    for split, name in ((Split.TRAIN, record.train_split), (Split.TEST, record.test_split)):
        if name not in tables:
            raise DataError(f"{where} has the splits {', '.join(tables)}; expected '{name}' for {record.name}")
        splits[split] = _from_table(tables[name], record, where)
    return splits


def _load(record: DatasetRecord, data: Path | None, where: str) -> dict[str, Any]:
    datasets = _hugging_face()
    folder = BUNDLED / record.bundled if record.bundled and data is None else data
    try:
        if folder is None:
            _reach_hub(record.hub, record.revision)
            return dict(datasets.load_dataset(record.hub, record.config or None, revision=record.revision))
        if record.config and (folder / record.config).is_dir():
            folder = folder / record.config
        return dict(datasets.load_dataset(str(folder), streaming=True))
    except Exception as error:  # the libraries below raise a dozen kinds, some of them private
        raise _data_error(error, record, where, local=folder is not None) from error


def _hugging_face() -> Any:
    """The library `datasets`, imported late (half a second) and told to send no statistics."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # both are read once, when the library is imported
    os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


def _reach_hub(path: str, revision: str) -> None:
    """One quick request, so that an unreachable hub is known in seconds; in offline mode the cache is tried instead."""
    import huggingface_hub
    from datasets.config import HF_HUB_OFFLINE

    if not HF_HUB_OFFLINE:
        huggingface_hub.HfApi().dataset_info(path, revision=revision, timeout=HUB_TIMEOUT)


def _data_error(error: Exception, record: DatasetRecord, where: str, local: bool) -> DataError:
    seen = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    if local:
        return DataError(f"cannot read {where} ({seen}); expected parquet files in the layout of {record.hub}")
    from datasets.exceptions import DatasetNotFoundError
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(error, DatasetNotFoundError | GatedRepoError | RepositoryNotFoundError):
        ask = f"accept its terms at https://huggingface.co/datasets/{where}, then `hf auth login` or set HF_TOKEN"
        return DataError(f"the hub does not open {where} to you ({seen}); {ask}, or give a local copy with --data DIR")
    return DataError(f"cannot reach {where} on the Hugging Face hub ({seen}); give a local copy with --data DIR")


def _from_table(table: Any, record: DatasetRecord, where: str) -> RawSplit:
    """A split of the hub's layout: a `Dataset` or an `IterableDataset` with an image and a label column."""
    columns = table.column_names or []
    if not {record.image_column, record.label_column} <= set(columns):
        expected = f"'{record.image_column}' and '{record.label_column}'"
        raise DataError(f"{where} has the columns {', '.join(columns)}; expected {expected}")
    labels = [np.asarray(column) for column in _column(table, record.label_column, record, where)]
    images = partial(_column, table, record.image_column, record, where)
    return RawSplit(np.concatenate(labels).astype(np.int64), lambda wanted: _decode(images(), record, wanted))


def _column(table: Any, name: str, record: DatasetRecord, where: str) -> Iterator[Any]:
    """One column as Arrow arrays, `CHUNK` rows at a time; nothing else of the table is read."""
    try:
        for chunk in table.select_columns([name]).with_format("arrow").iter(CHUNK):
            yield chunk[name]
    except Exception as error:  # damage in the middle of a file; see `_load`
        raise _data_error(error, record, where, local=True) from error


def _decode(images: Iterator[Any], record: DatasetRecord, wanted: NDArray[np.bool_]) -> Iterator[NDArray[np.uint8]]:
    start = 0
    for column in images:
        keep = np.flatnonzero(wanted[start : start + len(column)])
        if len(keep):
            yield np.stack([_decode_image(column[int(row)].as_py(), start + int(row), record) for row in keep])
        start += len(column)


def _decode_image(stored: dict[str, Any], index: int, record: DatasetRecord) -> NDArray[np.uint8]:
    try:
        with Image.open(BytesIO(stored["bytes"])) as image:
            return to_pixels(image, record.channels, record.size, record.crop)
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and more on damaged files
        raise DataError(f"image {index} of {record.name} cannot be decoded ({error}); fetch its file again") from error

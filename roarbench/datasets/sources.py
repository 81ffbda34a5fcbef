"""Where images come from: the hub, a local folder, the package itself, IDX files, or a generator."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roarbench.datasets import DatasetRecord, idx, planted, tables
from roarbench.datasets.subsets import balanced_subset, choose_rows
from roarbench.errors import DataError
from roarbench.terms import Split

BUNDLED = Path(__file__).parent / "bundled"
HUB_TIMEOUT = 5.0  # seconds; the library alone retries for half a minute before it gives up


@dataclass(frozen=True)
class RawSplit:
    """One split before it is written to the decoded store.

    Attributes:
        labels: int64 (n,), in [0, classes).
        rows: Where each image lies among the rows of `groups`, ascending, int64 (n,).
        groups: The row groups of its files; empty where the pixels are at hand.
        pixels: uint8 (n, c, h, w) where they are at hand, undecoded images otherwise.
        truth: True importance of each feature, float32 (n, c, h, w), where it is known.
    """

    labels: NDArray[np.int64]
    rows: NDArray[np.int64]
    groups: tuple[tables.RowGroup, ...] = ()
    pixels: NDArray[np.uint8] | None = None
    truth: NDArray[np.float32] | None = None

    def subset(self, limit: int | None) -> "RawSplit":
        """`limit` of its images, as evenly over the classes as they allow; all of them if None."""
        kept = balanced_subset(self.labels, limit)
        pixels = None if self.pixels is None else self.pixels[kept]
        truth = None if self.truth is None else self.truth[kept]
        return RawSplit(self.labels[kept], self.rows[kept], self.groups, pixels, truth)


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


def open_source(record: DatasetRecord, data: Path | None, small: bool = False) -> dict[Split, RawSplit]:
    """Both splits of a data set, labels read and checked, images still undecoded.

    Args:
        record: The data set.
        data: Local folder to read instead of the record's own source.
        small: Part of the data set's images will do.

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
        _check_labels(splits[split].labels, count, record, split, small)
    return splits


def _check_labels(labels: NDArray[np.int64], count: int, record: DatasetRecord, split: Split, small: bool) -> None:
    if len(labels) != count and not (small and 0 < len(labels) < count):
        raise DataError(
            f"{split} split of {record.name} has {len(labels)} images, expected {count}; "
            "is it another set, or a part, which takes --limit N?"
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
    return RawSplit(labels, np.arange(len(labels)), (), pixels, truth)


def _from_tables(record: DatasetRecord, data: Path | None) -> dict[Split, RawSplit]:
    where = str(data) if data else record.bundled or record.hub
    files = _find_files(record, data, where)
    try:
        labels = _read_labels(record, files, where)
        splits = {}
        for split in Split:
            rows = choose_rows(record, split, labels[split])
            kept = labels[split][rows] // record.class_step
            splits[split] = RawSplit(kept, rows, tables.row_groups(files[split]))
    except (OSError, pa.ArrowException) as error:
        raise unreadable(error, where, record) from error
    return splits


def _find_files(record: DatasetRecord, data: Path | None, where: str) -> dict[Split, list[Path]]:
    folder = BUNDLED / record.bundled if record.bundled and data is None else data
    if folder is None:
        folder = _download(record)
    if record.config and (folder / record.config).is_dir():
        folder = folder / record.config
    try:
        found = tables.split_files(folder)
    except Exception as error:  # the library below raises a dozen kinds, some of them private
        raise unreadable(error, where, record) from error
    files = {}
    for split, name in ((Split.TRAIN, record.train_split), (Split.TEST, record.test_split)):
        if name not in found:
            raise DataError(f"{where} has the splits {', '.join(found)}; expected '{name}' for {record.name}")
        files[split] = found[name]
    return files


def _read_labels(record: DatasetRecord, files: dict[Split, list[Path]], where: str) -> dict[Split, NDArray[np.int64]]:
    """Labels of the hub's splits; names become numbers in the order of the alphabet."""
    for split in Split:
        columns = tables.column_names(files[split][0])
        if not {record.image_column, record.label_column} <= set(columns):
            expected = f"'{record.image_column}' and '{record.label_column}'"
            raise DataError(f"{where} has the columns {', '.join(columns)}; expected {expected}")
    values = {split: tables.read_column(files[split], record.label_column) for split in Split}
    if all(np.issubdtype(column.dtype, np.integer) for column in values.values()):
        return {split: column.astype(np.int64) for split, column in values.items()}
    for split, column in values.items():
        if strange := [label for label in column.tolist() if not isinstance(label, str)]:
            raise DataError(f"{where} has the label {strange[0]} ({split}); expected a whole number or a name for each")
    names = np.unique(np.concatenate([column.astype(str) for column in values.values()]))
    return {split: np.searchsorted(names, column.astype(str)) for split, column in values.items()}


def _download(record: DatasetRecord) -> Path:
    """The files of both splits in the hub's cache, which keeps what was fetched before."""
    import huggingface_hub
    from datasets.config import HF_HUB_OFFLINE

    folder = record.config or "data"
    patterns = [f"{folder}/{split}-*.parquet" for split in {record.train_split, record.test_split}]
    try:
        if not HF_HUB_OFFLINE:  # one quick request, so that an unreachable hub is known in seconds
            huggingface_hub.HfApi().dataset_info(record.hub, revision=record.revision, timeout=HUB_TIMEOUT)
        return Path(
            huggingface_hub.snapshot_download(
                record.hub, repo_type="dataset", revision=record.revision, allow_patterns=patterns
            )
        )
    except Exception as error:  # as above
        raise _unreachable(error, record) from error


def unreadable(error: Exception, where: str, record: DatasetRecord) -> DataError:
    """What to say of files that cannot be read."""
    return DataError(f"cannot read {where} ({_seen(error)}); expected parquet files in the layout of {record.hub}")


def _unreachable(error: Exception, record: DatasetRecord) -> DataError:
    from huggingface_hub import get_token
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError | RepositoryNotFoundError):
        page = f"https://huggingface.co/datasets/{record.hub}"
        ask = f"accept its terms at {page}, then `hf auth login` or set HF_TOKEN, or give a local copy with --data DIR"
        return DataError(f"the hub does not open {record.hub} to you ({_seen(error)}); {ask}")
    token = "; it needs a token: `hf auth login` or HF_TOKEN" if record.gated and not get_token() else ""
    return DataError(
        f"cannot reach {record.hub} on the Hugging Face hub ({_seen(error)}){token}; give a local copy with --data DIR"
    )


def _seen(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"

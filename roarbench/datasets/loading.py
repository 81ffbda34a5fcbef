"""The decoded store: images of a data set as plain uint8 files, decoded once and memory-mapped ever after.

    FOLDER/imagenette64-bundled-1a2b3c4d/
      train-pixels.bin  uint8 (n, c, h, w)      test-pixels.bin
      train-labels.bin  int64 (n,)              test-labels.bin
      train-truth.bin   float32 (n, c, h, w)    test-truth.bin      where the true importance is known
      manifest.json     written last: shapes, checksums, means, source

A folder is made beside its place and renamed when it is complete, under a lock: a killed writer leaves nothing that
counts, and two processes decode once.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from roarbench import plan
from roarbench.datasets import DatasetRecord
from roarbench.datasets.sources import RawSplit, describe_source, open_source
from roarbench.errors import DataError, StoreError
from roarbench.terms import Split

FORMAT = 1  # counts up when the same source would be decoded into other pixels or other files
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Images:
    """One split; what is written to its arrays never reaches the files.

    Attributes:
        pixels: uint8 (n, c, h, w), memory-mapped.
        labels: int64 (n,), in [0, classes).
        truth: True importance of each feature, float32 (n, c, h, w), memory-mapped; None where it is not known.
    """

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    truth: NDArray[np.float32] | None


@dataclass(frozen=True)
class ImageData:
    """A decoded data set.

    Attributes:
        record: What it is.
        folder: Where it lies; `open_decoded` takes it.
        train, test: Its splits.
        mean, std: Of each channel over the training images, in [0, 255].
        fingerprint: Hash of pixels, labels and limit: equal where the same images are judged, wherever they came from.
        limit: Images per split if the set was made small, else None.
    """

    record: DatasetRecord
    folder: Path
    train: Images
    test: Images
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fingerprint: str
    limit: int | None


def decode_dataset(
    record: DatasetRecord, folder: Path, data: Path | None = None, limit: int | None = None
) -> ImageData:
    """A data set from the decoded store, which is filled first if it has not this one yet.

    Args:
        record: The data set.
        folder: The decoded store; it may hold many sets, each from its own source and with its own limit.
        data: Local folder in the hub's layout (or with IDX files) to read instead of the record's own source.
        limit: Images of each split, spread evenly over the classes, the first of each; all of them if None.

    Raises:
        DataError: The images cannot be reached or read, or are not what the record says.
        StoreError: The folder cannot be written to, or the disk is full.
    """
    check_limit(record, limit)
    source = describe_source(record, data)
    target = folder / _set_name(record, source, limit)
    try:
        if not (target / MANIFEST).exists():
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{target}.lock"):
                if not (target / MANIFEST).exists():  # another process may have been first
                    _fill(target, record, source, data, limit)
    except OSError as error:
        raise _store_error(error, record, folder) from error
    return open_decoded(target)


def check_limit(record: DatasetRecord, limit: int | None) -> None:
    """Refuse a small version that would lack a class.

    Raises:
        DataError: It would.
    """
    if limit is not None and limit < record.classes:
        raise DataError(
            f"--limit {limit} is below the {record.classes} classes of {record.name}; write {record.classes} or more"
        )


def _set_name(record: DatasetRecord, source: dict[str, object], limit: int | None) -> str:
    """Folder name of a decoded set; whatever would change its content changes the name."""
    identity = {"format": FORMAT, "record": plan.record(record), "source": source, "limit": limit}
    small = [] if limit is None else [f"limit{limit}"]
    return "-".join([record.name, str(source["kind"]), *small, plan.fingerprint(identity)[:8]])


def _store_error(error: OSError, record: DatasetRecord, folder: Path) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        size = (record.train_images + record.test_images) * record.channels * record.size**2
        return StoreError(
            f"no space left in {folder}; {record.name} takes {size / 2**20:.0f} MiB, free it or choose another --store"
        )
    return StoreError(f"cannot write to {folder} ({error.strerror or error}); choose another --store")


def _fill(target: Path, record: DatasetRecord, source: dict[str, object], data: Path | None, limit: int | None) -> None:
    raw = open_source(record, data)
    partial = target.with_name(f"{target.name}.partial")
    for leftover in (partial, target):  # of a writer that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir()
    try:
        splits = {split: _write_split(partial, split, raw[split], record, limit) for split in Split}
        manifest = _manifest(record, source, splits, limit)
        _write(partial / MANIFEST, [json.dumps(manifest, indent=1).encode()])
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _manifest(
    record: DatasetRecord, source: dict[str, object], splits: dict[Split, dict[str, Any]], limit: int | None
) -> dict[str, object]:
    mean, std = _moments(np.array(splits[Split.TRAIN]["histogram"]))
    content = {split: {key: value for key, value in splits[split].items() if key != "histogram"} for split in Split}
    return {
        "format": FORMAT,
        "record": plan.record(record),
        "source": source,
        "limit": limit,
        "splits": content,
        "mean": mean,
        "std": std,
        "fingerprint": plan.fingerprint({"splits": content, "limit": limit}),
    }


def _moments(histogram: NDArray[np.int64]) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel from counts of its values, int64 (c, 256)."""
    values = np.arange(256)
    total = histogram.sum(axis=1)
    mean = histogram @ values / total
    variance = (histogram * (values - mean[:, np.newaxis]) ** 2).sum(axis=1) / total
    return mean.tolist(), np.sqrt(variance).tolist()


def _write_split(folder: Path, split: Split, raw: RawSplit, record: DatasetRecord, limit: int | None) -> dict[str, Any]:
    """Write one split; returns its entry in the manifest, with the histogram of each channel, (c, 256)."""
    wanted = balanced_subset(raw.labels, limit)
    histogram = np.zeros((record.channels, 256), np.int64)

    def counted() -> Iterable[bytes]:
        for chunk in raw.read(wanted):
            for channel in range(record.channels):
                histogram[channel] += np.bincount(chunk[:, channel].ravel(), minlength=256)
            yield chunk.tobytes()

    entry: dict[str, Any] = {"images": int(wanted.sum())}
    entry["pixels"] = _write(folder / f"{split}-pixels.bin", counted())
    entry["labels"] = _write(folder / f"{split}-labels.bin", [raw.labels[wanted].tobytes()])
    if raw.truth is not None:
        entry["truth"] = _write(folder / f"{split}-truth.bin", [raw.truth[wanted].tobytes()])
    return entry | {"histogram": histogram}


def _write(path: Path, chunks: Iterable[bytes]) -> str:
    """Write a file to the disk and return its SHA-256."""
    checksum = sha256()
    with path.open("wb") as file:  # not through a memory map: a full disk would kill the process, here it raises
        for chunk in chunks:
            file.write(chunk)
            checksum.update(chunk)
        file.flush()
        os.fsync(file.fileno())
    return checksum.hexdigest()


def balanced_subset(labels: NDArray[np.int64], limit: int | None) -> NDArray[np.bool_]:
    """Mark `limit` images, as evenly over the classes as they allow, the first of each class.

    Args:
        labels: int64 (n,).
        limit: How many; all if None or more than there are.

    Returns:
        bool (n,), True where an image is kept.
    """
    if limit is None or limit >= len(labels):
        return np.ones(len(labels), bool)
    by_class = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_class], labels[by_class])
    turn = np.empty(len(labels), np.int64)
    turn[by_class] = np.arange(len(labels)) - starts  # how many of its class come before an image
    kept = np.lexsort((labels, turn))[:limit]  # all first ones by class, then all second ones …
    wanted = np.zeros(len(labels), bool)
    wanted[kept] = True
    return wanted


def open_decoded(folder: Path) -> ImageData:
    """A decoded data set that is there already; decodes nothing and reaches for nothing.

    Args:
        folder: Its own folder, `ImageData.folder`.

    Raises:
        StoreError: It is not there, damaged, or of another version.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if manifest["format"] != FORMAT:
            raise StoreError(
                f"{folder} has format {manifest['format']}, this version reads {FORMAT}; delete the folder"
            )
        record = DatasetRecord(**manifest["record"])
        train, test = (_open_split(folder, split, manifest["splits"][split], record) for split in Split)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{folder} is no decoded data set ({error}); delete the folder and run again") from error
    mean, std = tuple(manifest["mean"]), tuple(manifest["std"])
    return ImageData(record, folder, train, test, mean, std, manifest["fingerprint"], manifest["limit"])


def _open_split(folder: Path, split: Split, entry: dict[str, Any], record: DatasetRecord) -> Images:
    count = entry["images"]
    shape = (count, record.channels, record.size, record.size)
    # "c": a stray write stays in this process and never reaches the file; "r" would make torch warn of every array
    pixels = np.memmap(folder / f"{split}-pixels.bin", np.uint8, "c", shape=shape)
    labels = np.memmap(folder / f"{split}-labels.bin", np.int64, "c", shape=(count,))
    truth = np.memmap(folder / f"{split}-truth.bin", np.float32, "c", shape=shape) if "truth" in entry else None
    return Images(pixels, labels, truth)

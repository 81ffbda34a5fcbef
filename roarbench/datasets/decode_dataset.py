"""Decode data sets into the decoded store.

A process that decodes a data set holds a lock, writes into a folder NAME.partial, and renames the folder when it is
complete. Therefore, the next process continues the work of a killed process (`parallel_decoding`), and two processes
never decode the same data set.
"""

import errno
import json
import shutil
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from roarbench.common import identity
from roarbench.common.enums import Split
from roarbench.common.errors import DataError, StoreError
from roarbench.common.files import compute_sha256, flush_to_disk, record_verified_checksum
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.file_locations_and_downloads import hash_users_files, make_source_identity
from roarbench.datasets.open_decoded import FORMAT, MANIFEST, ImageData, open_decoded
from roarbench.datasets.parallel_decoding import JOURNAL, ReportProgress, decode_splits
from roarbench.datasets.select_images import check_image_limit
from roarbench.datasets.undecoded_splits import open_undecoded_splits


def decode_dataset(
    record: DatasetRecord,
    folder: Path,
    data: Path | None = None,
    limit: int | None = None,
    workers: int = 1,
    report_progress: ReportProgress = lambda progress: None,
) -> ImageData:
    """Open a data set in the decoded store; decode the data set first if the store lacks it.

    Args:
        record: The data set.
        folder: Folder of the decoded store.
        data: Local folder in the hub's layout (or with IDX files) that replaces the record's source.
        limit: Number of images per split, the first images of each class, as balanced as possible; None for all images.
        workers: Number of processes that decode.
        report_progress: Function that is called with the progress after each decoded part.

    Raises:
        DataError: The images cannot be reached or read, or differ from the record.
        StoreError: The folder cannot be written, or the disk is full.
    """
    target, _ = _find_decoded_folder(folder, record, data, limit)
    was_decoded = (target / MANIFEST).exists()
    if not was_decoded:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{target}.lock"):
                if not (target / MANIFEST).exists():  # another process may have decoded the data set meanwhile
                    _decode_and_write_manifest(target, record, data, limit, workers, report_progress)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreError(f"no space left in {folder}; free disk space or use another --store") from error
            raise StoreError(f"cannot write to {folder} ({error.strerror or error}); use another --store") from error
    images = open_decoded(target)
    # older manifests have no contents; files that were just decoded need no second reading
    contents = json.loads((target / MANIFEST).read_text()).get("contents") if was_decoded else ""
    if contents and contents != hash_users_files(record, data):
        seen = f"files in {data or record.folder} were edited since they were decoded, though their sizes and times are"
        raise DataError(f"{seen} the same; delete {target}, and run the same command again")
    return images


def find_decoded_fingerprint(record: DatasetRecord, folder: Path, data: Path | None, limit: int | None) -> str:
    """Return the fingerprint of a decoded data set, or an empty string if the data set has not been decoded.

    Raises StoreError if the stored data are damaged. Raises DataError if a check that needs no decoding shows that
    `decode_dataset` would fail.
    """
    target, _ = _find_decoded_folder(folder, record, data, limit)
    if (target / MANIFEST).exists():
        return open_decoded(target).fingerprint
    open_undecoded_splits(record, data, limit is not None)
    return ""


def _find_decoded_folder(
    folder: Path, record: DatasetRecord, data: Path | None, limit: int | None
) -> tuple[Path, dict[str, object]]:
    """Return the folder of a decoded data set, whose name ends in a hash of all settings of its content, and these."""
    check_image_limit(record, limit)
    source = make_source_identity(record, data)
    own_record = identity.make_json_record(record.without_location)
    settings: dict[str, object] = {"format": FORMAT, "record": own_record, "source": source, "limit": limit}
    limited = [] if limit is None else [f"limit{limit}"]
    name = "-".join([record.name, str(source["kind"]), *limited, identity.hash_value(settings)[:8]])
    return folder / name, settings


def _decode_and_write_manifest(
    target: Path, record: DatasetRecord, data: Path | None, limit: int | None, workers: int, report: ReportProgress
) -> None:
    contents = hash_users_files(record, data)
    raw = open_undecoded_splits(record, data, limit is not None)
    splits = {split: raw[split].select_subset(limit) for split in Split}
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(target, ignore_errors=True)  # a folder without a manifest was left by an interrupted deletion
    partial.mkdir(exist_ok=True)
    try:
        is_linked = record.test_only and splits[Split.TEST].pixels is None  # both splits have the same images
        decoded = {Split.TEST: splits[Split.TEST]} if is_linked else splits
        tallies = decode_splits(partial, record, decoded, workers, report)
        if is_linked:
            tallies = dict.fromkeys(Split, tallies[Split.TEST])
            original, copy = (partial / f"{split}-pixels.bin" for split in (Split.TEST, Split.TRAIN))
            copy.unlink(missing_ok=True)
            try:
                copy.hardlink_to(original)
            except OSError:  # some file systems have no hard links
                shutil.copyfile(original, copy)
        found, settings = _find_decoded_folder(target.parent, record, data, limit)
        if found != target:
            seen = f"the files in {data or record.name} were changed while they were read"
            inside = data is not None and target.resolve().is_relative_to(data.resolve())
            advice = "choose a --store outside --data" if inside else "run again when no program changes them"
            raise DataError(f"{seen}; {advice}")
    except DataError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    entries: dict[Split, dict[str, object]] = {}
    for split, opened in splits.items():
        labels = _write_and_hash(partial / f"{split}-labels.bin", opened.labels.tobytes())
        pixels = partial / f"{split}-pixels.bin"
        record_verified_checksum(pixels, digest := compute_sha256(pixels))
        entries[split] = {"images": len(opened.labels), "pixels": digest, "labels": labels}
        if opened.truth is not None:
            entries[split]["truth"] = _write_and_hash(partial / f"{split}-truth.bin", opened.truth.tobytes())
    mean, std = _compute_moments(tallies[Split.TRAIN].histogram)
    fingerprinted: dict[str, object] = {"splits": entries, "limit": limit}
    if record.mean:  # controls read normalised images, so the normalisation changes results
        fingerprinted["normalised"] = [record.mean, record.std]
    manifest = settings | {
        "splits": entries,
        "mean": mean,
        "std": std,
        "repairs": {split: tallies[split].repairs for split in Split},
        "fingerprint": identity.hash_value(fingerprinted),
        "contents": contents,
    }
    _write_and_hash(partial / MANIFEST, json.dumps(identity.add_checksum(manifest), indent=1).encode())
    (partial / JOURNAL).unlink()
    partial.rename(target)


def _compute_moments(histogram: NDArray[np.int64]) -> tuple[list[float], list[float]]:
    """Compute mean and standard deviation of each channel from value counts, int64 (c, 256)."""
    values = np.arange(256)
    total = histogram.sum(axis=1)
    mean = histogram @ values / total
    variance = (histogram * (values - mean[:, np.newaxis]) ** 2).sum(axis=1) / total
    variance[variance == 0] = 1  # a column of a table may be constant
    return mean.tolist(), np.sqrt(variance).tolist()


def _write_and_hash(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    flush_to_disk(path)
    return compute_sha256(path)

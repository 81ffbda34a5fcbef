"""Decode stored images to uint8 files in parallel, and resume interrupted work.

One process decodes one part, which consists of the needed images of one row group or group of files. Each part has a
fixed position in the file of pixels, so the result depends neither on the number of processes nor on their order. A
journal lists the finished parts; a later call decodes the remaining parts.

    PARTIAL/train-pixels.bin    pixels; the file has its full length, and missing parts are holes
    PARTIAL/journal.jsonl       {"part": "train 0 100", "tally": …}
"""

import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from roarbench.common.enums import Split
from roarbench.common.errors import CallerError, DataError, StoreError
from roarbench.common.files import convert_write_errors
from roarbench.common.job_interface import Job
from roarbench.common.local_workers import LocalEngine
from roarbench.common.text import format_bytes
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.datasets.decode_image import (
    DEEP,
    FEW_SHADES,
    FLAT,
    MAX_DAMAGED_SHARE,
    RANGE,
    SHALLOW,
    check_depth,
    decode_image,
    is_damage,
    refuse_many_damaged_images,
    round_up_depth,
)
from roarbench.datasets.image_folders import FileGroup
from roarbench.datasets.undecoded_splits import Group, RawSplit, convert_parquet_errors, divide_rows, read_group_images
from roarbench.datasets.value_scale import choose_value_scale, format_window

PARTS_PER_WORKER = 32  # minimum number of parts per process, because a process takes seconds to start
JOURNAL = "journal.jsonl"


class DecodingProgress(NamedTuple):
    """Progress of decoding a data set."""

    name: str
    done: int  # done, total: numbers of images
    total: int
    size: int  # bytes of the data set in the store
    free: int  # free bytes on the store's disk


ReportProgress = Callable[[DecodingProgress], object]


@dataclass(frozen=True)
class DecodingTally:
    """Counts of decoded images, pixel values and repairs."""

    images: int
    histogram: NDArray[np.int64]  # number of pixels of each value, by channel, int64 (c, 256)
    repairs: Counter[str] = field(default_factory=Counter)  # from a kind of repair to the number of repaired images
    damaged: tuple[int, ...] = ()  # positions of damaged images within the split
    bits: int = 0  # bits that the largest value needs, in images with more than 8 bits per channel

    def __add__(self, other: "DecodingTally") -> "DecodingTally":
        histogram, repairs = self.histogram + other.histogram, self.repairs + other.repairs
        bits = max(self.bits, other.bits)
        return DecodingTally(self.images + other.images, histogram, repairs, self.damaged + other.damaged, bits)


class RowGroupPart(NamedTuple):
    """Images of one row group, or of a group of files, that one process decodes."""

    record: DatasetRecord
    split: Split
    group: Group  # source of the images
    rows: NDArray[np.int64]  # row numbers within the group, ascending, int64 (n,)
    start: int  # position of the first image within the split
    file: Path  # pixel file of the split

    @property
    def name(self) -> str:
        return f"{self.split} {self.start} {len(self.rows)}"


def decode_splits(
    folder: Path, record: DatasetRecord, splits: dict[Split, RawSplit], workers: int, report_progress: ReportProgress
) -> dict[Split, DecodingTally]:
    """Decode the missing pixels of these splits into a folder.

    Small data sets are decoded in this process, without workers. `report_progress` is called after every part. Raises
    DataError if files cannot be read, or too many images are damaged, and StoreError if there is not enough space on
    the disk.
    """
    files = {split: folder / f"{split}-pixels.bin" for split in splits}
    if not all(file.exists() for file in files.values()):  # a journal is useless without the file of pixels
        (folder / JOURNAL).unlink(missing_ok=True)
    done = _repair_and_read_journal(folder / JOURNAL)
    total = sum(len(raw.labels) for raw in splits.values())
    size = total * record.channels * record.size**2
    written = sum(path.stat().st_blocks * 512 for path in folder.iterdir())  # holes of sparse files take no blocks
    free = shutil.disk_usage(folder).free
    if size - written > free:
        needed = f"{record.name} takes {format_bytes(size)}, but only {format_bytes(free)} are free"
        raise StoreError(f"no space left in {folder.parent}; {needed}; free disk space or use another --store")
    empty = DecodingTally(0, np.zeros((record.channels, 256), np.int64))
    tallies, parts = dict.fromkeys(splits, empty), list[RowGroupPart]()
    for split, raw in splits.items():
        # the file is not memory-mapped, because writing to a map on a full disk would kill the process
        with convert_write_errors(files[split]), files[split].open("r+b" if files[split].exists() else "w+b") as opened:
            opened.truncate(len(raw.labels) * record.channels * record.size**2)
            if raw.pixels is not None:
                opened.write(raw.pixels.tobytes())
                opened.flush()
                os.fsync(opened.fileno())
                tallies[split] = DecodingTally(len(raw.labels), count_pixel_values(raw.pixels))
        for group, start, rows in divide_rows(raw.groups, raw.rows):
            parts.append(RowGroupPart(record, split, group, rows, start, files[split]))
    remaining = [part for part in parts if part.name not in done]
    finished = total - sum(len(part.rows) for part in remaining)
    if remaining:
        report_progress(DecodingProgress(record.name, finished, total, size, free))
    with (folder / JOURNAL).open("a") as journal:
        for part, tally in _decode_parts(remaining, workers):
            values = vars(tally) | {"histogram": tally.histogram.tolist()}
            print(json.dumps({"part": part.name, "tally": values}), file=journal, flush=True)
            done[part.name] = tally
            finished += len(part.rows)
            report_progress(DecodingProgress(record.name, finished, total, size, free))
    for part in parts:
        tallies[part.split] += done[part.name]
    _refuse_lost_contrast(record, splits, sum(tallies.values(), empty))
    check_depth(max(tally.bits for tally in tallies.values()), record.depth, record.name)
    for split, raw in splits.items():
        paths = [file for group in raw.groups if isinstance(group, FileGroup) for file in group.files]
        damaged = [raw.rows[number] for number in sorted(tallies[split].damaged)]
        names = [paths[row] if paths else f"image {row}" for row in damaged]
        advice = () if paths else ("download their files again",)
        source, repairs = f"{record.name} ({split})", tallies[split].repairs
        refuse_many_damaged_images(names, tallies[split].images, source, repairs, *advice)
    return tallies


def _refuse_lost_contrast(record: DatasetRecord, splits: dict[Split, RawSplit], tally: DecodingTally) -> None:
    """Raise DataError if values need a window that the record lacks, or if images of 8 bits lie beside a window."""
    repairs, images = tally.repairs, f"{tally.images:,} images of {record.name}"
    if record.window and repairs[SHALLOW]:
        seen = f"{repairs[SHALLOW]:,} of {images} have 8 bits, and window = {format_window(record.window)} is for more"
        raise DataError(f"{seen}; leave window out under [data], or convert all images to one depth")
    is_unbounded = repairs[RANGE] > MAX_DAMAGED_SHARE * tally.images
    lossy = repairs[FEW_SHADES] + repairs[FLAT]
    if record.window or not is_unbounded and lossy <= repairs[DEEP] / 2:
        return
    needed = replace(record, depth=round_up_depth(tally.bits))
    scaled = choose_value_scale(needed, splits.get(Split.TRAIN, splits[Split.TEST]), lambda line: None)
    if is_unbounded:
        seen, other = f"{repairs[RANGE]:,} of {images} have floats or negative numbers", ""
    else:
        seen = f"{lossy:,} of {images} would keep fewer than 64 shades of their contrast"
        other = f", or window = [0, {2 ** (record.depth or 16) - 1}] to keep the full range"
    if scaled.window:
        key = f"window = {format_window(scaled.window)}"
        raise DataError(f"{seen}; write {key} under [data], the values that become black and white{other}")
    check_depth(tally.bits, record.depth, record.name)
    raise DataError(f"{seen}; write depth = {scaled.depth} under [data]{other}")


def count_pixel_values(pixels: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Count the values of each channel of pixels (n, c, h, w), int64 (c, 256)."""
    channels = pixels.shape[1]
    return np.stack([np.bincount(pixels[:, channel].ravel(), minlength=256) for channel in range(channels)])


def _repair_and_read_journal(path: Path) -> dict[str, DecodingTally]:
    """Return a dict from the name of each finished part to the part's tally; cut off an incomplete last line."""
    done: dict[str, DecodingTally] = {}
    valid_bytes = 0
    with path.open("ab+") as journal:
        journal.seek(0)
        for line in journal:
            if not line.endswith(b"\n"):
                break
            entry = json.loads(line)
            tally = entry["tally"]
            arrays = {"histogram": np.array(tally["histogram"]), "repairs": Counter(tally["repairs"])}
            done[entry["part"]] = DecodingTally(**tally | arrays | {"damaged": tuple(tally["damaged"])})
            valid_bytes += len(line)
        journal.truncate(valid_bytes)
    return done


def _decode_parts(parts: list[RowGroupPart], workers: int) -> Iterator[tuple[RowGroupPart, DecodingTally]]:
    workers = min(workers, len(parts) // PARTS_PER_WORKER)
    if workers < 2:
        for part in parts:
            yield part, decode_part(part)
        return
    waiting = {part.name: part for part in parts}
    queue = [Job(part.name, decode_part, (part,)) for part in reversed(parts)]
    with LocalEngine(workers) as engine:
        while waiting:
            while engine.idle and queue:
                engine.start_job(queue.pop())
            for outcome in engine.wait(1.0):
                if isinstance(outcome.error, CallerError):
                    raise outcome.error
                if outcome.error is not None:
                    raise DataError(f"decoding stopped: {outcome.error}; run the same command again to continue")
                yield waiting.pop(outcome.name), outcome.value


def decode_part(part: RowGroupPart) -> DecodingTally:
    """Decode a part, and write its pixels to disk; raise DataError if reading fails, and StoreError if writing does."""
    record = part.record
    tally = DecodingTally(0, np.zeros((record.channels, 256), np.int64))
    with warnings.catch_warnings(), convert_write_errors(part.file), part.file.open("r+b") as file:
        warnings.simplefilter("ignore")  # Pillow warns of odd images, which are counted as repairs
        file.seek(part.start * record.channels * record.size**2)
        for contents in _read_undecoded_images(part):
            decoded = [decode_image(content, record) for content in contents]
            pixels = np.stack([image.pixels for image in decoded])
            file.write(pixels.tobytes())
            repairs = Counter(repair for image in decoded for repair in image.repairs)
            numbered = enumerate(decoded, part.start + tally.images)
            damaged = tuple(place for place, image in numbered if any(map(is_damage, image.repairs)))
            bits = max(image.bits for image in decoded)
            tally += DecodingTally(len(decoded), count_pixel_values(pixels), repairs, damaged, bits)
        file.flush()
        os.fsync(file.fileno())
    return tally


def _read_undecoded_images(part: RowGroupPart) -> Iterator[list[bytes]]:
    source = part.group.folder if isinstance(part.group, FileGroup) else part.group.file
    # a column or field may be missing, for example
    with convert_parquet_errors(source, part.record, OSError, KeyError, IndexError, pa.ArrowException):
        yield from read_group_images(part.group, part.record.image_column, part.rows)

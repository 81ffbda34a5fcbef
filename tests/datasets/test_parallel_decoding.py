"""Decoding of data sets into a store: stored values, interruptions, full disks and changing sources."""

import errno
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from roarbench.common.errors import DataError, StoreError
from roarbench.datasets import decode_dataset as loading
from roarbench.datasets import parallel_decoding
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.open_decoded import open_decoded
from tests.helpers.tiny_set import MANY, TINY, TINY_LABELS, png, tiny_images, tiny_pixels, write_rows, write_split


@pytest.fixture
def decode(tiny_folder, tmp_path):
    """A function that decodes the tiny set into one store."""
    return partial(decode_dataset, TINY, tmp_path / "store", tiny_folder)


def test_decode_dataset_stores_pixels_and_reuses_them(decode, monkeypatch):
    data = decode()
    for split, images in (("train", data.train), ("test", data.test)):
        np.testing.assert_array_equal(images.pixels, tiny_pixels()[split].transpose(0, 3, 1, 2))
        assert images.labels.tolist() == TINY_LABELS[split]
        assert (images.pixels.dtype, images.labels.dtype, images.truth) == (np.uint8, np.int64, None)
    pixels = tiny_pixels()["train"].astype(np.float64)
    np.testing.assert_allclose((data.mean, data.std), (pixels.mean((0, 1, 2)), pixels.std((0, 1, 2))), rtol=1e-12)
    data.train.pixels[0, 0, 0, 0] ^= 255  # does not reach the store
    monkeypatch.delattr(loading, "open_undecoded_splits")
    again = decode()
    assert (again.fingerprint, again.folder, again.mean) == (data.fingerprint, data.folder, data.mean)
    np.testing.assert_array_equal(again.train.pixels, pixels.transpose(0, 3, 1, 2))
    manifest = data.folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"splits": {}}))
    with pytest.raises(StoreError, match="is not a decoded data set"):
        open_decoded(data.folder)


def test_decode_dataset_uses_separate_folders_per_source_and_limit(decode, tiny_folder, tmp_path):
    whole, small = decode(), decode(limit=6)
    shutil.copytree(tiny_folder, tmp_path / "copy")
    copied = decode_dataset(TINY, tmp_path / "store", tmp_path / "copy")
    os.utime(tiny_folder / "test-00000-of-00001.parquet", ns=(1, 1))
    changed = decode()
    assert len({each.folder for each in (whole, small, copied, changed)}) == 4
    assert copied.fingerprint == changed.fingerprint == whole.fingerprint  # the same images
    assert small.fingerprint != whole.fingerprint


def test_limit_decodes_only_first_images_of_each_class(decode, tiny_folder, monkeypatch):
    """Of train labels 2 2 2 2 2 2 0 0 0 0 1 1, seven images are 0 0 0, 1 1 and 2 2, in the order of the set."""
    write_rows(tiny_folder / "train-00000-of-00001.parquet", IMAGES, LABELS, row_group_size=2)
    decode_image = Mock(wraps=parallel_decoding.decode_image)
    read = Mock(wraps=parallel_decoding.read_parquet_images)
    monkeypatch.setattr(parallel_decoding, "decode_image", decode_image)
    monkeypatch.setattr(parallel_decoding, "read_parquet_images", read)
    data = decode(limit=7)
    assert [call.args[0].number for call in read.call_args_list] == [0, 3, 4, 5, 0]
    assert decode_image.call_count == 7 + 6
    assert data.train.labels.tolist() == [2, 2, 0, 0, 0, 1, 1]
    kept = tiny_pixels()["train"][[0, 1, 6, 7, 8, 10, 11]]
    np.testing.assert_array_equal(data.train.pixels, kept.transpose(0, 3, 1, 2))
    assert data.test.labels.tolist() == TINY_LABELS["test"]  # six are all
    np.testing.assert_allclose(data.mean, kept.mean(axis=(0, 1, 2)), rtol=1e-12)


@pytest.mark.parametrize(
    ("module", "step"), [(parallel_decoding, "decode_image"), (loading, "_compute_moments"), (Path, "rename")]
)
def test_decode_dataset_publishes_no_half_decoded_folder(module, step, decode, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(module, step, Mock(side_effect=SystemExit))
        decode()
    assert not [path for path in tmp_path.glob("store/*/manifest.json") if path.parent.suffix != ".partial"]
    np.testing.assert_array_equal(decode().train.pixels, tiny_pixels()["train"].transpose(0, 3, 1, 2))
    assert not list(tmp_path.glob("store/*.partial"))


def test_concurrent_decode_dataset_calls_decode_once(decode, monkeypatch):
    """The second call waits for the first and returns its result."""
    opened, opening = [], loading.open_undecoded_splits

    def slowly(*arguments):
        opened.append(arguments)
        time.sleep(0.3)
        return opening(*arguments)

    monkeypatch.setattr(loading, "open_undecoded_splits", slowly)
    with ThreadPoolExecutor(2) as both:
        one, other = both.map(lambda _: decode().fingerprint, range(2))
    assert one == other and len(opened) == 1


def test_decode_dataset_raises_store_error_when_disk_is_full(decode, tmp_path, monkeypatch):
    """18 images of 192 bytes take 3,456 bytes; the next call resumes from the decoded parts."""
    room, full = shutil.disk_usage(tmp_path), Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    for place, name, instead, said in (
        (parallel_decoding.shutil, "disk_usage", Mock(return_value=room._replace(free=3455)), "only 0 MiB are free"),
        (parallel_decoding.os, "fsync", full, "cannot write .*: No space left on device"),
        (loading, "flush_to_disk", full, "cannot write .*: No space left on device"),
    ):
        with monkeypatch.context() as patch, pytest.raises(StoreError, match=said):
            patch.setattr(place, name, instead)
            decode()
    monkeypatch.setattr(parallel_decoding.shutil, "disk_usage", lambda folder: room._replace(free=3456))
    assert decode().train.pixels.any()


IMAGES, LABELS = tiny_images("train"), TINY_LABELS["train"]
CHANGES = {
    "other images": lambda folder: write_split(folder, "train", IMAGES[::-1], LABELS),
    "other columns": lambda folder: write_split(folder, "train", IMAGES, LABELS, ("a", "b")),
    "a file more": lambda folder: (folder / "new.parquet").touch(),
    "a short file": lambda folder: os.truncate(folder / "train-00000-of-00001.parquet", 200),
    "nothing": shutil.rmtree,
}


@pytest.mark.parametrize("change", CHANGES)
def test_decode_dataset_rejects_source_that_changes_while_read(change, decode, tiny_folder, tmp_path):
    """Otherwise the store would mix images of both states, or black ones, under the name of the first."""
    changes = [CHANGES[change]]  # applied once, at the first progress report
    with pytest.raises(DataError, match="^cannot read|were changed while they were read|is not a folder"):
        decode(report_progress=lambda progress: changes and changes.pop()(tiny_folder))
    assert [path.suffix for path in (tmp_path / "store").iterdir()] == [".lock"]


# Data set of 1,200 images in row groups of 100

PIXELS = np.random.default_rng(0).integers(0, 256, (MANY.train_images, 8, 8, 3), np.uint8)


@cache
def encode_many_images():
    return tuple(png(image) for image in PIXELS)


def write_many_images(folder, images):
    """Write training images in row groups of 100, and six test images."""
    for split, stored in (("train", images), ("test", images[:6])):
        labels = [index % 3 for index in range(len(stored))]
        write_rows(folder / f"{split}-00000-of-00001.parquet", stored, labels, row_group_size=100)
    return folder


def get_contents(data):
    return [data.fingerprint, data.mean, data.std, data.repairs, data.train.pixels.tobytes(), data.test.labels.tolist()]


def stop_half_way(progress):
    if progress.done >= 500:
        raise KeyboardInterrupt


@pytest.mark.process
def test_decode_dataset_resumes_interrupted_decoding(tmp_path, monkeypatch):
    """No part is decoded twice, and the result equals that of an uninterrupted decoding."""
    source = write_many_images(tmp_path / "many", encode_many_images())
    with pytest.raises(KeyboardInterrupt):
        decode_dataset(MANY, tmp_path / "store", source, report_progress=stop_half_way)
    room = shutil.disk_usage(tmp_path)  # 135,552 of 231,552 bytes are missing
    monkeypatch.setattr(parallel_decoding.shutil, "disk_usage", lambda folder: room._replace(free=140_000))
    [journal] = tmp_path.glob("store/*.partial/journal.jsonl")
    written = [json.loads(line)["part"] for line in journal.read_text().splitlines()]
    assert 5 <= len(written) < 13
    with journal.open("a") as file:
        file.write('{"part": "train 900 100", "tal')  # a line cut off by a power failure
    seen: list[str] = []
    decode = parallel_decoding.decode_part
    monkeypatch.setattr(parallel_decoding, "decode_part", lambda part: seen.append(part.name) or decode(part))
    again = decode_dataset(MANY, tmp_path / "store", source)
    assert not set(seen) & set(written)
    assert len(seen) + len(written) == 13
    monkeypatch.undo()
    monkeypatch.setattr(parallel_decoding, "PARTS_PER_WORKER", 1)  # so that two processes share the 13 parts
    assert get_contents(again) == get_contents(decode_dataset(MANY, tmp_path / "other", source, workers=2))
    assert not list((tmp_path / "store").rglob("journal.jsonl"))


def test_damaged_images_are_counted_and_keep_their_position(tmp_path):
    """One image in 1,200 may be damaged, but not two; labels and positions of the others stay."""
    images = [*encode_many_images()]
    images[250] = png(PIXELS[250, ..., 0])
    images[3] = png(PIXELS[3, ..., 0])  # in both splits
    images[700] = b""
    data = decode_dataset(MANY, tmp_path / "store", write_many_images(tmp_path / "odd", images))
    assert data.repairs == {"of another colour space": 3, "unreadable": 1}
    expected = PIXELS.transpose(0, 3, 1, 2).copy()
    for grey in (3, 250):
        expected[grey] = expected[grey, 0]
    expected[700] = 128
    np.testing.assert_array_equal(data.train.pixels, expected)
    assert data.train.labels.tolist() == [index % 3 for index in range(len(PIXELS))]
    images[170] = images[170][:70]  # a second damaged image, in the second chunk of its row group
    said = r"2 of 1200 images of tiny \(train\) cannot be decoded completely: image 170, image 700 \(1 truncated, 1 unr"
    with pytest.raises(DataError, match=said):
        decode_dataset(MANY, tmp_path / "store", write_many_images(tmp_path / "bad", images))

"""Decoding of data sets into a store: stored values, interruptions, full disks and changing sources."""

import errno
import json
import multiprocessing
import os
import pkgutil
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
from roarbench.datasets.parallel_decoding import DecodingProgress
from tests.helpers.image_files import MANY, TINY, TINY_LABELS, png, tiny_images, tiny_pixels, write_rows, write_split
from tests.helpers.processes import PATIENCE, run_python


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
    assert (data.record, data.limit) == (TINY, None)
    pixels = tiny_pixels()["train"].astype(np.float64)
    np.testing.assert_allclose((data.mean, data.std), (pixels.mean((0, 1, 2)), pixels.std((0, 1, 2))), rtol=1e-12)
    data.train.pixels[0, 0, 0, 0] ^= 255  # does not reach the store
    monkeypatch.delattr(loading, "open_undecoded_splits")
    again = decode()
    assert (again.fingerprint, again.folder, again.mean) == (data.fingerprint, data.folder, data.mean)
    np.testing.assert_array_equal(again.train.pixels, pixels.transpose(0, 3, 1, 2))
    manifest = data.folder / "manifest.json"
    whole = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(whole | {"mean": [0.0, 0.0, 0.0]}))
    with pytest.raises(StoreError, match=r"is not a decoded data set \(its values do not have the recorded checksum\)"):
        open_decoded(data.folder)
    del whole["checksum"]  # as written by an earlier version
    for damage in ({"record": {"name": "tiny"}}, {"splits": {}}):
        manifest.write_text(json.dumps(whole | damage))
        with pytest.raises(StoreError, match="is not a decoded data set"):
            open_decoded(data.folder)
    manifest.write_text(json.dumps(whole))
    assert open_decoded(data.folder).fingerprint == data.fingerprint


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
    read = Mock(wraps=parallel_decoding.read_group_images)
    monkeypatch.setattr(parallel_decoding, "decode_image", decode_image)
    monkeypatch.setattr(parallel_decoding, "read_group_images", read)
    data = decode(limit=7)
    assert [call.args[0].number for call in read.call_args_list] == [0, 3, 4, 5, 0]
    assert decode_image.call_count == 7 + 6
    assert data.train.labels.tolist() == [2, 2, 0, 0, 0, 1, 1]
    kept = tiny_pixels()["train"][[0, 1, 6, 7, 8, 10, 11]]
    np.testing.assert_array_equal(data.train.pixels, kept.transpose(0, 3, 1, 2))
    assert data.test.labels.tolist() == TINY_LABELS["test"]  # six are all
    np.testing.assert_allclose(data.mean, kept.mean(axis=(0, 1, 2)), rtol=1e-12)


@pytest.mark.parametrize("links", [True, False])
def test_images_that_are_only_for_testing_are_decoded_and_counted_once(links, tiny_folder, tmp_path, monkeypatch):
    write_split(tiny_folder, "test", [png(image[..., 0]) for image in tiny_pixels()["test"]], TINY_LABELS["test"])
    record = replace(TINY, train_split="test", train_images=TINY.test_images)
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", Mock(side_effect=OSError(errno.EOPNOTSUPP, "no links here")))
    decode_image = Mock(wraps=parallel_decoding.decode_image)
    monkeypatch.setattr(parallel_decoding, "decode_image", decode_image)
    report = Mock()
    data = decode_dataset(record, tmp_path / "store", tiny_folder, report_progress=report)
    assert decode_image.call_count == report.call_args.args[0].total == record.test_images
    assert list(data.repairs.values()) == [record.test_images]
    grey = tiny_pixels()["test"][..., :1].repeat(3, axis=3).transpose(0, 3, 1, 2)
    for images in (data.train, data.test):
        np.testing.assert_array_equal(images.pixels, grey)
        assert images.labels.tolist() == TINY_LABELS["test"]
    np.testing.assert_allclose(data.mean, grey.mean((0, 2, 3)), rtol=1e-12)


def end_on_the_way(step, decode):
    """Decode in this process, which ends when it reaches a step."""
    pkgutil.resolve_name(step)  # imports the module
    owner, _, name = step.rpartition(".")
    setattr(pkgutil.resolve_name(owner), name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    decode()


@pytest.mark.process
@pytest.mark.parametrize(
    "step",
    [
        "roarbench.datasets.parallel_decoding.decode_image",
        "roarbench.datasets.parallel_decoding.count_pixel_values",
        "roarbench.datasets.decode_dataset._compute_moments",
        "pathlib.Path.rename",
    ],
)
def test_decode_dataset_recovers_after_kill_at_any_step(step, decode, tmp_path):
    store = tmp_path / "store"
    killed = multiprocessing.get_context("spawn").Process(target=end_on_the_way, args=(step, decode))
    killed.start()
    killed.join(PATIENCE)
    assert killed.exitcode == -signal.SIGKILL
    assert not [path for path in store.glob("*/manifest.json") if path.parent.suffix != ".partial"]
    np.testing.assert_array_equal(decode().train.pixels, tiny_pixels()["train"].transpose(0, 3, 1, 2))
    assert not list(store.glob("*.partial"))


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
    short, free_some = Mock(return_value=room._replace(free=3455)), "but only 3 kB are free; free disk space or use"
    for place, name, instead, said in (
        (parallel_decoding.shutil, "disk_usage", short, f"no space left in .*; tiny takes 3 kB, {free_some}"),
        (parallel_decoding.os, "fsync", full, "cannot write .*: No space left on device"),
        (loading, "flush_to_disk", full, "no space left in [^;]*; fr"),
    ):
        with monkeypatch.context() as patch, pytest.raises(StoreError, match=said):
            patch.setattr(place, name, instead)
            decode()
        assert name != "disk_usage" or not list((tmp_path / "store").rglob("*.bin"))
    monkeypatch.setattr(parallel_decoding.shutil, "disk_usage", lambda folder: room._replace(free=3456))
    assert decode().train.pixels.any()


def rewrite_train_split(images, labels, columns=("img", "label")):
    return lambda folder: write_split(folder, "train", images, labels, columns)


IMAGES, LABELS = tiny_images("train"), TINY_LABELS["train"]
CHANGES = {
    "other images": rewrite_train_split(IMAGES[::-1], LABELS),
    "fewer images": rewrite_train_split(IMAGES[:3], LABELS[:3]),
    "other columns": rewrite_train_split(IMAGES, LABELS, ("a", "b")),
    "a file more": lambda folder: (folder / "new.parquet").touch(),
    "a file less": lambda folder: (folder / "train-00000-of-00001.parquet").unlink(),
    "a short file": lambda folder: os.truncate(folder / "train-00000-of-00001.parquet", 200),
    "nothing": shutil.rmtree,
}


@pytest.mark.parametrize("change", CHANGES)
def test_decode_dataset_rejects_source_that_changes_while_read(change, decode, tiny_folder, tmp_path):
    """Otherwise the store would mix images of both states, or black ones, under the name of the first."""
    changes = [CHANGES[change]]  # applied once, at the first progress report
    with pytest.raises(DataError, match="^cannot read|were changed while they were read|^--data .* is missing"):
        decode(report_progress=lambda progress: changes and changes.pop()(tiny_folder))
    assert [path.suffix for path in (tmp_path / "store").iterdir()] == [".lock"]


def test_decode_dataset_names_store_inside_data(tiny_folder):
    """Files that roarbench writes into the folder of images change the identity of the images."""
    with pytest.raises(DataError, match="were changed while they were read; choose a --store outside --data"):
        decode_dataset(TINY, tiny_folder / "store", tiny_folder)


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
    told: list[DecodingProgress] = []

    def note(progress):
        told.append(progress)
        parts = [json.loads(line)["part"] for line in journal.read_text().splitlines()]  # the cut-off line is gone
        assert len(parts) == len(written) + len(seen)

    again = decode_dataset(MANY, tmp_path / "store", source, report_progress=note)
    assert not set(seen) & set(written)
    assert len(seen) + len(written) == 13
    assert told[0].done == sum(int(name.split()[2]) for name in written)
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
    assert data.repairs == {"grey": 3, "unreadable": 1}
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


MEASURED = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.helpers.image_files import TINY
from roarbench.datasets.decode_dataset import decode_dataset
def mebibytes(kind):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(kind)) / 1024
few, many = (replace(TINY, train_images=count, test_images=6, size=224) for count in (64, 512))
decode_dataset(few, Path("store"), Path("few"))
peak, used = mebibytes("VmHWM:"), mebibytes("RssAnon:")
data = decode_dataset(many, Path("store"), Path("many"))
print(mebibytes("VmHWM:") - peak)
assert data.train.pixels.nbytes == 512 * 3 * 224 * 224
assert data.train.pixels.max() > 0
print(mebibytes("RssAnon:") - used)
"""


@pytest.mark.slow
def test_decode_dataset_memory_is_bounded_for_any_number_of_images(tmp_path):
    """Of 74 MiB of pixels, decoding holds 9 at a time, and reading none: pages of files can be dropped."""
    image = encode_many_images()[0]
    write_many_images(tmp_path / "few", [image] * 64)
    write_many_images(tmp_path / "many", [image] * 512)
    said = run_python(MEASURED, folder=tmp_path)
    decoding_took, reading_took = (float(line) for line in said.split())
    assert decoding_took < 48
    assert reading_took < 16

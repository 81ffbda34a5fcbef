import errno
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from roarbench.datasets import decoding, loading
from roarbench.datasets.decoded import open_decoded
from roarbench.datasets.loading import decode_dataset
from roarbench.errors import DataError, StoreError
from tests.helpers.tiny_set import TINY_LABELS, png, tiny_pixels, write_split

DECODE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.helpers.tiny_set import TINY
from roarbench.datasets import decoding, loading
{before}
loading.decode_dataset(TINY, Path(sys.argv[2]), Path(sys.argv[3]))
"""


def decode_elsewhere(store: Path, source: Path, before: str = "") -> subprocess.Popen[bytes]:
    """Another process that decodes the tiny set, after running `before`."""
    program = [
        sys.executable,
        "-c",
        DECODE.format(before=before),
        str(Path(__file__).parents[2]),
        str(store),
        str(source),
    ]
    environment = os.environ | {"USE_TORCH": "0"}  # else `datasets` imports torch, which takes longer than the rest
    return subprocess.Popen(program, stderr=subprocess.PIPE, env=environment)


def memory_of(array: np.ndarray) -> object:
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def test_decoded_is_what_was_stored(tiny, tiny_folder, tmp_path) -> None:
    data = decode_dataset(tiny, tmp_path / "store", tiny_folder)
    for split, images in (("train", data.train), ("test", data.test)):
        np.testing.assert_array_equal(images.pixels, tiny_pixels()[split].transpose(0, 3, 1, 2))
        assert images.labels.tolist() == TINY_LABELS[split]
        assert (images.pixels.dtype, images.labels.dtype) == (np.uint8, np.int64)
        assert isinstance(memory_of(images.pixels), mmap.mmap)
        assert images.truth is None
    assert data.record == tiny
    assert data.limit is None


def test_a_stray_write_does_not_reach_the_store(tiny, tiny_folder, tmp_path) -> None:
    data = decode_dataset(tiny, tmp_path / "store", tiny_folder)
    before = data.train.pixels[0, 0, 0, 0]
    data.train.pixels[0, 0, 0, 0] = before ^ 255
    data.train.labels[0] = 1
    again = open_decoded(data.folder)
    assert again.train.pixels[0, 0, 0, 0] == before
    assert again.train.labels.tolist() == TINY_LABELS["train"]


def test_moments_are_those_of_the_training_images(tiny, tiny_folder, tmp_path) -> None:
    data = decode_dataset(tiny, tmp_path / "store", tiny_folder)
    pixels = tiny_pixels()["train"].astype(np.float64)
    np.testing.assert_allclose(data.mean, pixels.mean(axis=(0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(data.std, pixels.std(axis=(0, 1, 2)), rtol=1e-12)


def test_a_second_call_decodes_nothing(tiny, tiny_folder, tmp_path, monkeypatch) -> None:
    first = decode_dataset(tiny, tmp_path / "store", tiny_folder)
    monkeypatch.delattr(loading, "open_source")
    again = decode_dataset(tiny, tmp_path / "store", tiny_folder)
    assert again.fingerprint == first.fingerprint
    assert again.folder == first.folder
    assert open_decoded(first.folder).mean == first.mean


def test_other_sources_and_limits_lie_apart(tiny, tiny_folder, tmp_path) -> None:
    store = tmp_path / "store"
    whole = decode_dataset(tiny, store, tiny_folder)
    small = decode_dataset(tiny, store, tiny_folder, limit=6)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in tiny_folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    copied = decode_dataset(tiny, store, copy)
    assert len({whole.folder, small.folder, copied.folder}) == 3
    assert copied.fingerprint == whole.fingerprint  # the same images
    assert small.fingerprint != whole.fingerprint


def test_a_changed_source_is_decoded_again(tiny, tiny_folder, tmp_path) -> None:
    first = decode_dataset(tiny, tmp_path / "store", tiny_folder)
    os.utime(tiny_folder / "test-00000-of-00001.parquet", ns=(1, 1))
    assert decode_dataset(tiny, tmp_path / "store", tiny_folder).folder != first.folder


def test_the_fingerprint_sees_one_bit(tiny, tiny_folder, tmp_path, monkeypatch) -> None:
    whole = decode_dataset(tiny, tmp_path / "store", tiny_folder)

    def flipped(*arguments):
        for raw in (opened := opening(*arguments)).values():
            raw.labels[0] ^= 1
        return opened

    opening = loading.open_source
    monkeypatch.setattr(loading, "open_source", flipped)
    assert decode_dataset(tiny, tmp_path / "other", tiny_folder).fingerprint != whole.fingerprint


def test_limit_takes_the_first_of_each_class_evenly(tiny, tiny_folder, tmp_path) -> None:
    """By hand: train labels 2 2 2 2 2 2 0 0 0 0 1 1; seven images are 0 0 0, 1 1 and 2 2, in the order of the set."""
    data = decode_dataset(tiny, tmp_path / "store", tiny_folder, limit=7)
    assert data.train.labels.tolist() == [2, 2, 0, 0, 0, 1, 1]
    kept = tiny_pixels()["train"][[0, 1, 6, 7, 8, 10, 11]]
    np.testing.assert_array_equal(data.train.pixels, kept.transpose(0, 3, 1, 2))
    assert data.test.labels.tolist() == TINY_LABELS["test"]  # six are all
    np.testing.assert_allclose(data.mean, kept.mean(axis=(0, 1, 2)), rtol=1e-12)


def test_a_limit_below_the_classes_is_refused(tiny, tiny_folder, tmp_path) -> None:
    with pytest.raises(DataError, match="--limit 2 is below the 3 classes of tiny; write 3 or more"):
        decode_dataset(tiny, tmp_path / "store", tiny_folder, limit=2)


@pytest.mark.process
@pytest.mark.parametrize("moment", ["decoding.decode_image", "decoding._count", "loading._manifest", "Path.rename"])
def test_killed_at_any_moment(moment: str, tiny, tiny_folder, tmp_path) -> None:
    store = tmp_path / "store"
    killed = decode_elsewhere(store, tiny_folder, f"import os\n{moment} = lambda *_: os.kill(os.getpid(), 9)")
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not [path for path in store.glob("*/manifest.json") if path.parent.suffix != ".partial"]
    data = decode_dataset(tiny, store, tiny_folder)
    np.testing.assert_array_equal(data.train.pixels, tiny_pixels()["train"].transpose(0, 3, 1, 2))
    assert not list(store.glob("*.partial"))


@pytest.mark.process
def test_two_processes_decode_once(tiny_folder, tmp_path) -> None:
    """Each opens a start gate and waits for the other's; the log has one line for each decoding."""
    before = f"""
import time
folder = Path({str(tmp_path)!r})
opening = loading.open_source
def logged(*arguments):
    with (folder / "log").open("a") as log:
        log.write("decoding\\n")
    time.sleep(0.3)
    return opening(*arguments)
loading.open_source = logged
(folder / f"gate{{len(list(folder.glob('gate*')))}}-{{id(folder)}}-{{__import__('os').getpid()}}").touch()
while len(list(folder.glob("gate*"))) < 2:
    time.sleep(0.01)
"""
    both = [decode_elsewhere(tmp_path / "store", tiny_folder, before) for _ in range(2)]
    for process in both:
        _, complaint = process.communicate()
        assert process.returncode == 0, complaint.decode()
    assert (tmp_path / "log").read_text() == "decoding\n"


def test_full_disk_is_one_line(tiny, tiny_folder, tmp_path, monkeypatch) -> None:
    """What is decoded stays: the next call goes on from there."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(StoreError, match="cannot write .*: No space left on device"):
        patch.setattr(decoding.os, "fsync", full)
        decode_dataset(tiny, tmp_path / "store", tiny_folder)
    with monkeypatch.context() as patch, pytest.raises(StoreError, match="no space left in .*; tiny takes .* MiB, fr"):
        patch.setattr(loading, "sync", full)
        decode_dataset(tiny, tmp_path / "store", tiny_folder)
    assert decode_dataset(tiny, tmp_path / "store", tiny_folder).train.pixels.any()


def test_too_little_room_is_said_before(tiny, tiny_folder, tmp_path, monkeypatch) -> None:
    """18 images of 192 bytes are 3,456."""
    room = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(decoding.shutil, "disk_usage", lambda folder: room._replace(free=3455))
    with pytest.raises(
        StoreError, match=r"no space left in .*; tiny takes 0 MiB, 0 MiB are free; free some or choose another --st"
    ):
        decode_dataset(tiny, tmp_path / "store", tiny_folder)
    assert not list((tmp_path / "store").rglob("*.bin"))
    monkeypatch.setattr(decoding.shutil, "disk_usage", lambda folder: room._replace(free=3456))
    assert decode_dataset(tiny, tmp_path / "store", tiny_folder).train.pixels.any()


def change(folder: Path, **values: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


CHANGES = {
    "other images": lambda folder, images: write_split(folder, "train", images[::-1], TINY_LABELS["train"]),
    "fewer images": lambda folder, images: write_split(folder, "train", images[:3], TINY_LABELS["train"][:3]),
    "no images": lambda folder, images: write_split(folder, "train", [], []),
    "other columns": lambda folder, images: write_split(folder, "train", images, TINY_LABELS["train"], ("a", "b")),
    "a file more": lambda folder, images: (folder / "new.parquet").touch(),
    "a file less": lambda folder, images: (folder / "train-00000-of-00001.parquet").unlink(),
    "a short file": lambda folder, images: os.truncate(folder / "train-00000-of-00001.parquet", 200),
    "nothing": lambda folder, images: shutil.rmtree(folder),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_changes_while_it_is_read_is_refused(change, tiny, tiny_folder, tmp_path) -> None:
    """Read on, the store would hold images of both states, or black ones, under the name of the first."""
    images = [png(image) for image in tiny_pixels()["train"]]
    seen = []

    def note(progress: decoding.Progress) -> None:
        if not seen:
            CHANGES[change](tiny_folder, images)
        seen.append(progress)

    with pytest.raises(DataError, match="^cannot read|were changed while they were read|^--data .* is missing"):
        decode_dataset(tiny, tmp_path / "store", tiny_folder, note=note)
    assert [path.suffix for path in (tmp_path / "store").iterdir()] == [".lock"]


@pytest.mark.parametrize("damage", [{"record": {"name": "tiny"}}, {"splits": {}}])
def test_a_damaged_manifest_is_one_line(damage, tiny, tiny_folder, tmp_path) -> None:
    folder = decode_dataset(tiny, tmp_path / "store", tiny_folder).folder
    change(folder, **damage)
    with pytest.raises(StoreError, match="is no decoded data set"):
        open_decoded(folder)

import errno
import json
import os
import shutil
import signal
from functools import partial

import numpy as np
import pytest

from roarbench.datasets import decoding, loading
from roarbench.datasets.decoded import open_decoded
from roarbench.datasets.loading import decode_dataset
from roarbench.errors import DataError, StoreError
from tests.helpers.elsewhere import python, said_by
from tests.helpers.tiny_set import TINY, TINY_LABELS, tiny_images, tiny_pixels, write_split

DECODE = """
import sys
from functools import partial
from pathlib import Path
from tests.helpers.tiny_set import TINY
from roarbench.datasets import decoding, loading
{before}
loading.decode_dataset(TINY, Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.fixture
def decode(tiny_folder, tmp_path):
    """Decode the tiny set, into one store."""
    return partial(decode_dataset, TINY, tmp_path / "store", tiny_folder)


def test_decoded_is_what_was_stored_and_a_second_call_decodes_nothing(decode, monkeypatch):
    data = decode()
    for split, images in (("train", data.train), ("test", data.test)):
        np.testing.assert_array_equal(images.pixels, tiny_pixels()[split].transpose(0, 3, 1, 2))
        assert images.labels.tolist() == TINY_LABELS[split]
        assert (images.pixels.dtype, images.labels.dtype, images.truth) == (np.uint8, np.int64, None)
    assert (data.record, data.limit) == (TINY, None)
    pixels = tiny_pixels()["train"].astype(np.float64)
    np.testing.assert_allclose((data.mean, data.std), (pixels.mean((0, 1, 2)), pixels.std((0, 1, 2))), rtol=1e-12)
    data.train.pixels[0, 0, 0, 0] ^= 255  # does not reach the store
    monkeypatch.delattr(loading, "open_source")
    again = decode()
    assert (again.fingerprint, again.folder, again.mean) == (data.fingerprint, data.folder, data.mean)
    np.testing.assert_array_equal(again.train.pixels, pixels.transpose(0, 3, 1, 2))


def test_other_and_changed_sources_and_limits_lie_apart(decode, tiny_folder, tmp_path):
    whole, small = decode(), decode(limit=6)
    shutil.copytree(tiny_folder, tmp_path / "copy")
    copied = decode_dataset(TINY, tmp_path / "store", tmp_path / "copy")
    os.utime(tiny_folder / "test-00000-of-00001.parquet", ns=(1, 1))
    changed = decode()
    assert len({each.folder for each in (whole, small, copied, changed)}) == 4
    assert copied.fingerprint == changed.fingerprint == whole.fingerprint  # the same images
    assert small.fingerprint != whole.fingerprint


def test_limit_takes_the_first_of_each_class_evenly(decode):
    """By hand: train labels 2 2 2 2 2 2 0 0 0 0 1 1; seven images are 0 0 0, 1 1 and 2 2, in the order of the set."""
    data = decode(limit=7)
    assert data.train.labels.tolist() == [2, 2, 0, 0, 0, 1, 1]
    kept = tiny_pixels()["train"][[0, 1, 6, 7, 8, 10, 11]]
    np.testing.assert_array_equal(data.train.pixels, kept.transpose(0, 3, 1, 2))
    assert data.test.labels.tolist() == TINY_LABELS["test"]  # six are all
    np.testing.assert_allclose(data.mean, kept.mean(axis=(0, 1, 2)), rtol=1e-12)
    with pytest.raises(DataError, match="--limit 2 is below the 3 classes of tiny; write 3 or more"):
        decode(limit=2)


@pytest.mark.process
@pytest.mark.parametrize("moment", ["decoding.decode_image", "decoding._count", "loading._manifest", "Path.rename"])
def test_killed_at_any_moment(moment, decode, tiny_folder, tmp_path):
    store = tmp_path / "store"
    before = f"import os\n{moment} = lambda *_: os.kill(os.getpid(), 9)"
    killed = python(DECODE.format(before=before), store, tiny_folder)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not [path for path in store.glob("*/manifest.json") if path.parent.suffix != ".partial"]
    data = decode()
    np.testing.assert_array_equal(data.train.pixels, tiny_pixels()["train"].transpose(0, 3, 1, 2))
    assert not list(store.glob("*.partial"))


@pytest.mark.process
def test_two_processes_decode_once(tiny_folder, tmp_path):
    """Each opens a start gate and waits for the other's; the log has one line for each decoding."""
    before = f"""
import os, time
folder, opening = Path({str(tmp_path)!r}), loading.open_source
def logged(*arguments):
    with (folder / "log").open("a") as log:
        log.write("decoding\\n")
    time.sleep(0.3)
    return opening(*arguments)
loading.open_source = logged
(folder / f"gate{{os.getpid()}}").touch()
while len(list(folder.glob("gate*"))) < 2:
    time.sleep(0.01)
"""
    both = [python(DECODE.format(before=before), tmp_path / "store", tiny_folder) for _ in range(2)]
    for process in both:
        said_by(process)
    assert (tmp_path / "log").read_text() == "decoding\n"


def test_a_disk_that_is_full_or_too_small_is_one_line(decode, tmp_path, monkeypatch):
    """18 images of 192 bytes are 3,456. What is decoded stays: the next call goes on from there."""
    room = shutil.disk_usage(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    free_some = "tiny takes 0 MiB, 0 MiB are free; free some or choose another --st"
    for place, name, instead, said in (
        (decoding.shutil, "disk_usage", lambda folder: room._replace(free=3455), f"no space left in .*; {free_some}"),
        (decoding.os, "fsync", full, "cannot write .*: No space left on device"),
        (loading, "sync", full, "no space left in .*; tiny takes .* MiB, fr"),
    ):
        with monkeypatch.context() as patch, pytest.raises(StoreError, match=said):
            patch.setattr(place, name, instead)
            decode()
        assert name != "disk_usage" or not list((tmp_path / "store").rglob("*.bin"))
    monkeypatch.setattr(decoding.shutil, "disk_usage", lambda folder: room._replace(free=3456))
    assert decode().train.pixels.any()


def rewritten(images, labels, columns=("img", "label")):
    return lambda folder: write_split(folder, "train", images, labels, columns)


IMAGES, LABELS = tiny_images("train"), TINY_LABELS["train"]
CHANGES = {
    "other images": rewritten(IMAGES[::-1], LABELS),
    "fewer images": rewritten(IMAGES[:3], LABELS[:3]),
    "no images": rewritten([], []),
    "other columns": rewritten(IMAGES, LABELS, ("a", "b")),
    "a file more": lambda folder: (folder / "new.parquet").touch(),
    "a file less": lambda folder: (folder / "train-00000-of-00001.parquet").unlink(),
    "a short file": lambda folder: os.truncate(folder / "train-00000-of-00001.parquet", 200),
    "nothing": shutil.rmtree,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_changes_while_it_is_read_is_refused(change, decode, tiny_folder, tmp_path):
    """Read on, the store would hold images of both states, or black ones, under the name of the first."""
    changes = [CHANGES[change]]  # once, at the first note
    with pytest.raises(DataError, match="^cannot read|were changed while they were read|^--data .* is missing"):
        decode(note=lambda progress: changes and changes.pop()(tiny_folder))
    assert [path.suffix for path in (tmp_path / "store").iterdir()] == [".lock"]


def test_a_damaged_manifest_is_one_line(decode):
    folder = decode().folder
    whole = json.loads((folder / "manifest.json").read_text())
    for damage in ({"record": {"name": "tiny"}}, {"splits": {}}):
        (folder / "manifest.json").write_text(json.dumps(whole | damage))
        with pytest.raises(StoreError, match="is no decoded data set"):
            open_decoded(folder)

import json
import shutil
from functools import cache

import numpy as np
import pytest

from roarbench.datasets import decoding
from roarbench.datasets.decoding import Progress
from roarbench.datasets.loading import decode_dataset
from roarbench.errors import DataError
from tests.helpers.elsewhere import python, said_by
from tests.helpers.tiny_set import MANY, png, write_rows

PIXELS = np.random.default_rng(0).integers(0, 256, (MANY.train_images, 8, 8, 3), np.uint8)


@cache
def some_images():
    return tuple(png(image) for image in PIXELS)


def write(folder, images):
    """Row groups of a hundred training images, and six test images."""
    for split, stored in (("train", images), ("test", images[:6])):
        labels = [index % 3 for index in range(len(stored))]
        write_rows(folder / f"{split}-00000-of-00001.parquet", stored, labels, row_group_size=100)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write(tmp_path_factory.mktemp("source") / "many", some_images())


def all_of(data):
    return [data.fingerprint, data.mean, data.std, data.repairs, data.train.pixels.tobytes(), data.test.labels.tolist()]


def test_a_limit_decodes_only_its_images(source, tmp_path, monkeypatch):
    """Nine images lie in the first row group: the eleven others are not opened."""
    decoded: list[bytes] = []
    groups: list[int] = []
    decode, read = decoding.decode_image, decoding.read_images
    monkeypatch.setattr(decoding, "decode_image", lambda image, record: decoded.append(image) or decode(image, record))
    monkeypatch.setattr(decoding, "read_images", lambda group, *rest: groups.append(group.number) or read(group, *rest))
    data = decode_dataset(MANY, tmp_path, source, limit=9)
    assert groups == [0, 0]
    assert len(decoded) == 9 + 6
    np.testing.assert_array_equal(data.train.pixels, PIXELS[:9].transpose(0, 3, 1, 2))


def stop_half_way(progress):
    if progress.done >= 500:
        raise KeyboardInterrupt


@pytest.mark.process
def test_an_interrupted_decoding_goes_on_where_it_was(source, tmp_path, monkeypatch):
    """Nothing is done twice or differently."""
    with pytest.raises(KeyboardInterrupt):
        decode_dataset(MANY, tmp_path / "store", source, note=stop_half_way)
    room = shutil.disk_usage(tmp_path)  # what is missing are 135,552 of 231,552 bytes
    monkeypatch.setattr(decoding.shutil, "disk_usage", lambda folder: room._replace(free=140_000))
    [journal] = tmp_path.glob("store/*.partial/journal.jsonl")
    written = [json.loads(line)["part"] for line in journal.read_text().splitlines()]
    assert 5 <= len(written) < 13
    with journal.open("a") as file:
        file.write('{"part": "train 900 100", "tal')  # the power went out
    seen: list[str] = []
    decode = decoding.decode_part
    monkeypatch.setattr(decoding, "decode_part", lambda part: seen.append(part.name) or decode(part))
    told: list[Progress] = []

    def note(progress):
        told.append(progress)
        parts = [json.loads(line)["part"] for line in journal.read_text().splitlines()]  # what was cut off is gone
        assert len(parts) == len(written) + len(seen)

    again = decode_dataset(MANY, tmp_path / "store", source, note=note)
    assert not set(seen) & set(written)
    assert len(seen) + len(written) == 13
    assert told[0].done == sum(int(name.split()[2]) for name in written)
    monkeypatch.undo()
    monkeypatch.setattr(decoding, "PARTS_PER_WORKER", 1)  # so that two processes share the 13 parts
    assert all_of(again) == all_of(decode_dataset(MANY, tmp_path / "other", source, workers=2))
    assert not list((tmp_path / "store").rglob("journal.jsonl"))


def test_odd_images_are_counted_and_keep_their_place(tmp_path):
    """One image in 1,200 may be damaged, but no second; labels and numbers of the others do not move."""
    images = [*some_images()]
    images[250] = png(PIXELS[250, ..., 0])
    images[3] = png(PIXELS[3, ..., 0])  # in both splits
    images[700] = b""
    data = decode_dataset(MANY, tmp_path / "store", write(tmp_path / "odd", images))
    assert data.repairs == {"grey": 3, "unreadable": 1}
    manifest = json.loads((data.folder / "manifest.json").read_text())
    assert manifest["repairs"] == {"train": {"grey": 2, "unreadable": 1}, "test": {"grey": 1}}
    expected = PIXELS.transpose(0, 3, 1, 2).copy()
    for grey in (3, 250):
        expected[grey] = expected[grey, 0]
    expected[700] = 128
    np.testing.assert_array_equal(data.train.pixels, expected)
    assert data.train.labels.tolist() == [index % 3 for index in range(len(PIXELS))]
    images[170] = images[170][:70]  # as the other, in the second chunk of its row group
    said = r"2 of 1200 images of tiny \(train\) cannot be decoded whole: image 170, image 700;"
    with pytest.raises(DataError, match=said):
        decode_dataset(MANY, tmp_path / "store", write(tmp_path / "bad", images))


MEASURED = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.helpers.tiny_set import TINY
from roarbench.datasets.loading import decode_dataset
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
def test_memory_is_bounded_whatever_the_size(tmp_path):
    """74 MiB of pixels, of which decoding holds 9 at a time and reading none: pages of files can be dropped."""
    image = some_images()[0]
    write(tmp_path / "few", [image] * 64)
    write(tmp_path / "many", [image] * 512)
    said = said_by(python(MEASURED, folder=tmp_path))
    decoding_took, reading_took = (float(line) for line in said.split())
    assert decoding_took < 48
    assert reading_took < 16

import json
import shutil
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import errors

from roarbench.datasets import hub as hub_files
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.loading import decode_dataset
from roarbench.datasets.sources import open_source
from roarbench.errors import DataError
from roarbench.terms import Split
from tests.helpers.elsewhere import python, said_by
from tests.helpers.tiny_set import TINY, TINY_LABELS, png, tiny_pixels, write_split


def test_rows_of_several_files_and_row_groups(tmp_path):
    """Twelve images in two files with row groups of two, as the hub splits what is large."""
    pixels, folder = tiny_pixels(), tmp_path / "in"
    folder.mkdir()
    for part, rows in enumerate((range(5), range(5, 12))):
        images = [{"bytes": png(pixels["train"][row]), "path": None} for row in rows]
        table = pa.table({"img": images, "label": [TINY_LABELS["train"][row] for row in rows]})
        pq.write_table(table, folder / f"train-{part:05}-of-00002.parquet", row_group_size=2)
    write_split(folder, "test", [png(image) for image in pixels["test"]], TINY_LABELS["test"])
    raw = open_source(TINY, folder)[Split.TRAIN]
    assert [group.rows for group in raw.groups] == [2, 2, 1, 2, 2, 2, 1]
    assert raw.labels.tolist() == TINY_LABELS["train"]
    data = decode_dataset(TINY, tmp_path / "store", folder)
    np.testing.assert_array_equal(data.train.pixels, pixels["train"].transpose(0, 3, 1, 2))


def test_names_become_numbers_by_the_alphabet(tiny_folder):
    names = {2: "Wren", 0: "Auk", 1: "Blue Jay"}
    for split in ("train", "test"):
        images = [png(image) for image in tiny_pixels()[split]]  # plain bytes
        table = pa.table({"img": images, "label": [names[label] for label in TINY_LABELS[split]]})
        pq.write_table(table, tiny_folder / f"{split}-00000-of-00001.parquet")
    data = decode_dataset(TINY, tiny_folder.parent / "store", tiny_folder)
    assert data.train.labels.tolist() == TINY_LABELS["train"]
    assert data.test.labels.tolist() == TINY_LABELS["test"]
    np.testing.assert_array_equal(data.train.pixels, tiny_pixels()["train"].transpose(0, 3, 1, 2))


def test_one_split_serves_both(tiny_folder):
    """As Birdsnap has it: one test image of each of three classes is drawn, the other nine train."""
    (tiny_folder / "test-00000-of-00001.parquet").unlink()
    path = tiny_folder / "train-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=5)
    record = replace(TINY, test_split="train", holdout=1, train_images=9, test_images=3)
    raw = open_source(record, tiny_folder)
    train, test = raw[Split.TRAIN], raw[Split.TEST]
    assert sorted(test.labels) == [0, 1, 2]
    assert sorted([*train.rows, *test.rows]) == list(range(12))
    assert [TINY_LABELS["train"][row] for row in test.rows] == test.labels.tolist()
    data = decode_dataset(record, tiny_folder.parent / "store", tiny_folder)
    pixels = tiny_pixels()["train"].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(data.train.pixels, pixels[train.rows])
    np.testing.assert_array_equal(data.test.pixels, pixels[test.rows])


# The last of the first two of each class: the third of the second training file, the sixth of the first test file.
IN_TURN = {"train": [[1, 1, 0, 2], [0, 1, 2], [2, 0, 1]], "test": [[0, 1, 1, 0, 2, 2], [0, 1, 2]]}


def test_the_first_of_each_class_and_no_file_beyond(tmp_path):
    (tmp_path / "in").mkdir()
    for split, files in IN_TURN.items():  # one after the other, as the hub splits what is large
        for part, labels in enumerate(files):
            shades = [np.full((8, 8, 3), 16 * part + row, np.uint8) for row in range(len(labels))]
            table = pa.table({"img": [{"bytes": png(shade), "path": None} for shade in shades], "label": labels})
            pq.write_table(table, tmp_path / "in" / f"{split}-{part:05}-of-{len(files):05}.parquet")
    for beyond in ("train-00002-of-00003", "test-00001-of-00002"):
        (tmp_path / "in" / f"{beyond}.parquet").write_bytes(b"nobody reads this")
    record = replace(TINY, of_each=2, train_images=6, test_images=6)
    train, test = open_source(record, tmp_path / "in").values()
    assert (train.rows.tolist(), train.labels.tolist()) == ([0, 1, 2, 3, 4, 6], [1, 1, 0, 2, 0, 2])
    assert test.rows.tolist() == [0, 1, 2, 3, 4, 5]
    data = decode_dataset(record, tmp_path / "store", tmp_path / "in")
    assert data.train.pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 16, 18]


def test_a_part_of_the_set_will_do_for_a_small_version(tiny_folder, tmp_path):
    record = replace(TINY, train_images=1000, test_images=50)
    with pytest.raises(DataError, match="train split of tiny has 12 images, expected 1000"):
        decode_dataset(record, tmp_path / "store", tiny_folder)
    data = decode_dataset(record, tmp_path / "store", tiny_folder, limit=100)
    assert (len(data.train.labels), len(data.test.labels)) == (12, 6)
    with pytest.raises(DataError, match="train split of tiny has 12 images, expected 11"):
        decode_dataset(replace(TINY, train_images=11), tmp_path / "store", tiny_folder, limit=5)


def refused(message, record, folder):
    with pytest.raises(DataError, match=message) as complaint:
        open_source(record, folder)
    assert "\n" not in str(complaint.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_column": "image"}, "has the columns img, label; expected 'image' and 'label'"),
        ({"test_split": "validation"}, "has the splits train, test; expected 'validation' for tiny"),
        ({"train_images": 13}, "train split of tiny has 12 images, expected 13"),
        ({"classes": 2}, "train split of tiny has label 2, expected 0 … 1"),
    ],
)
def test_another_set_than_the_record_says(change, message, tiny_folder):
    refused(message, replace(TINY, **change), tiny_folder)


@pytest.mark.parametrize(
    ("labels", "seen"),
    [
        ([None, *TINY_LABELS["train"][1:]], "nan"),
        ([None, *map(str, TINY_LABELS["train"][1:])], "None"),
        ([float(label) for label in TINY_LABELS["train"]], "2.0"),
        ([[label] for label in TINY_LABELS["train"]], r"\[2\]"),
    ],
)
def test_labels_are_whole_numbers_or_names(labels, seen, tiny_folder):
    images = [{"bytes": png(image), "path": None} for image in tiny_pixels()["train"]]
    pq.write_table(pa.table({"img": images, "label": labels}), tiny_folder / "train-00000-of-00001.parquet")
    refused(rf"has the label {seen} \(train\); expected a whole number or a name", TINY, tiny_folder)


def test_a_damaged_file_is_one_line(tiny_folder):
    (tiny_folder / "train-00000-of-00001.parquet").write_bytes(b"PAR1 nothing")
    refused(r"cannot read .*train-00000-of-00001\.parquet: .*; expected parquet", TINY, tiny_folder)


# The hub, played by a server on this machine. The library reads its address once, so what asks it is a process.

FETCH = """
import json, sys
from dataclasses import replace
from pathlib import Path
from tests.helpers.tiny_set import TINY
from roarbench.datasets.loading import decode_dataset
record = replace(TINY, revision="1" * 40, config="8px")
print(decode_dataset(record, Path("store"), limit=json.loads(sys.argv[1])).train.labels.tolist())
"""


class Hub(BaseHTTPRequestHandler):
    """Gives the files of a folder and remembers which."""

    folder: Path
    fetched: ClassVar[list[str]] = []

    def do_GET(self):
        body = self.listing() if self.path.startswith("/api/") else self.file()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hash(body):x}"')
        self.send_header("X-Repo-Commit", "1" * 40)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
            self.fetched.append(self.path.rpartition("/")[2])

    do_HEAD = do_GET  # noqa: N815 - the name is the base class's

    def listing(self):
        names = [str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()]
        files = [{"type": "file", "path": name, "rfilename": name, "size": 9, "oid": "0" * 40} for name in names]
        about = {"id": "nobody/tiny", "sha": "1" * 40, "siblings": files, "tags": []}
        return json.dumps(files if "/tree/" in self.path else about).encode()

    def file(self):
        return (self.folder / self.path.partition("/resolve/" + "1" * 40 + "/")[2]).read_bytes()

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetched(folder, limit, **variables):
    """The training labels that a fresh process in this folder has from the hub."""
    process = python(FETCH, limit, folder=folder, HF_HOME=str(folder), **variables)
    return json.loads(said_by(process))


@pytest.mark.slow
def test_the_hub_gives_the_files_of_both_splits_once(hub, tiny_folder, tmp_path, monkeypatch):
    """No other file is fetched, and none twice: the second time the hub is not there."""
    monkeypatch.setattr(Hub, "folder", tmp_path / "hub", raising=False)
    shutil.copytree(tiny_folder, Hub.folder / "8px")
    write_split(Hub.folder / "8px", "extra", [], [])
    write_split(Hub.folder / "16px", "train", [], [])
    assert fetched(tmp_path, "null", HF_ENDPOINT=hub, HF_HUB_OFFLINE="0") == TINY_LABELS["train"]
    assert fetched(tmp_path, "3", HF_HUB_OFFLINE="1") == [2, 0, 1]
    parquet = sorted(name for name in Hub.fetched if name.endswith(".parquet"))
    assert parquet == ["test-00000-of-00001.parquet", "train-00000-of-00001.parquet"]


@pytest.mark.parametrize("kind", ["GatedRepoError", "RepositoryNotFoundError"])  # the hub says so of private ones
def test_a_gated_hub_names_the_token(kind, monkeypatch):
    error = getattr(errors, kind)

    def refuse(record):
        raise error.__new__(error)

    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub_files, "_list_hub", refuse)
    with pytest.raises(DataError, match="^the hub does not open uoft-cs/cifar10 to you") as complaint:
        open_source(find_dataset("cifar10"), None)
    for help in ("https://huggingface.co/datasets/uoft-cs/cifar10", "hf auth login", "HF_TOKEN", "--data DIR"):
        assert help in str(complaint.value)
    assert "\n" not in str(complaint.value)

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roarbench.datasets.decoding import RowGroupPart, decode_part
from roarbench.datasets.loading import decode_dataset
from roarbench.datasets.sources import open_source
from roarbench.datasets.tables import CHUNK, read_images
from roarbench.errors import DataError
from roarbench.terms import Split
from tests.helpers.tiny_set import TINY_LABELS, png, tiny_pixels, write_split

UNREADABLE = "cannot read .*; expected parquet files in the layout of nobody/tiny"


def decoded(record, folder: Path) -> np.ndarray:
    """Pixels of the training images, by way of a store beside the folder."""
    return decode_dataset(record, folder.parent / "store", folder).train.pixels


def test_columns_and_splits_are_those_of_the_record(tiny, tmp_path) -> None:
    """The same images under other names, as other data sets have them."""
    images = [png(image) for image in tiny_pixels()["train"]]
    write_split(tmp_path, "train", images, TINY_LABELS["train"], ("picture", "kind"))
    write_split(tmp_path, "validation", images[:6], TINY_LABELS["test"], ("picture", "kind"))
    record = replace(tiny, image_column="picture", label_column="kind", test_split="validation")
    np.testing.assert_array_equal(decoded(record, tmp_path), tiny_pixels()["train"].transpose(0, 3, 1, 2))


def test_any_rows_of_more_than_one_chunk(tiny, tmp_path) -> None:
    count = 2 * CHUNK + 3
    images = [str(index).encode() for index in range(count)]
    write_split(tmp_path, "train", images, [index % 3 for index in range(count)])
    write_split(tmp_path, "test", images[:6], TINY_LABELS["test"])
    raw = open_source(replace(tiny, train_images=count), tmp_path)[Split.TRAIN]
    wanted = np.flatnonzero(np.random.default_rng(1).random(count) < 0.5)  # no period that a chunk could share
    wanted = wanted[(wanted < CHUNK) | (wanted >= 2 * CHUNK)]  # nothing of the second chunk
    chunks = list(read_images(raw.groups[0], "img", wanted))
    assert len(chunks) == 2
    assert [int(image) for chunk in chunks for image in chunk] == wanted.tolist()


def test_rows_of_several_files_and_row_groups(tiny, tmp_path) -> None:
    """Twelve images in two files with row groups of two, as the hub splits what is large."""
    pixels = tiny_pixels()
    for part, rows in enumerate((range(5), range(5, 12))):
        images = [{"bytes": png(pixels["train"][row]), "path": None} for row in rows]
        table = pa.table({"img": images, "label": [TINY_LABELS["train"][row] for row in rows]})
        pq.write_table(table, tmp_path / f"train-{part:05}-of-00002.parquet", row_group_size=2)
    write_split(tmp_path, "test", [png(image) for image in pixels["test"]], TINY_LABELS["test"])
    raw = open_source(tiny, tmp_path)[Split.TRAIN]
    assert [group.rows for group in raw.groups] == [2, 2, 1, 2, 2, 2, 1]
    assert raw.labels.tolist() == TINY_LABELS["train"]
    np.testing.assert_array_equal(decoded(tiny, tmp_path), pixels["train"].transpose(0, 3, 1, 2))


def test_images_may_be_plain_bytes(tiny, tiny_folder) -> None:
    images = [png(image) for image in tiny_pixels()["train"]]
    table = pa.table({"img": images, "label": TINY_LABELS["train"]})
    pq.write_table(table, tiny_folder / "train-00000-of-00001.parquet")
    np.testing.assert_array_equal(decoded(tiny, tiny_folder), tiny_pixels()["train"].transpose(0, 3, 1, 2))


def test_names_become_numbers_by_the_alphabet(tiny, tiny_folder) -> None:
    names = {2: "Wren", 0: "Auk", 1: "Blue Jay"}
    for split in ("train", "test"):
        images = [{"bytes": png(image), "path": None} for image in tiny_pixels()[split]]
        table = pa.table({"img": images, "label": [names[label] for label in TINY_LABELS[split]]})
        pq.write_table(table, tiny_folder / f"{split}-00000-of-00001.parquet")
    raw = open_source(tiny, tiny_folder)
    assert raw[Split.TRAIN].labels.tolist() == TINY_LABELS["train"]
    assert raw[Split.TEST].labels.tolist() == TINY_LABELS["test"]


def test_one_split_serves_both(tiny, tiny_folder) -> None:
    """As Birdsnap has it: one test image of each of three classes is drawn, the other nine train."""
    (tiny_folder / "test-00000-of-00001.parquet").unlink()
    path = tiny_folder / "train-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=5)
    record = replace(tiny, test_split="train", holdout=1, train_images=9, test_images=3)
    raw = open_source(record, tiny_folder)
    train, test = raw[Split.TRAIN], raw[Split.TEST]
    assert sorted(test.labels) == [0, 1, 2]
    assert sorted([*train.rows, *test.rows]) == list(range(12))
    assert [TINY_LABELS["train"][row] for row in test.rows] == test.labels.tolist()
    data = decode_dataset(record, tiny_folder.parent / "store", tiny_folder)
    pixels = tiny_pixels()["train"].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(data.train.pixels, pixels[train.rows])
    np.testing.assert_array_equal(data.test.pixels, pixels[test.rows])


def write_files(folder: Path, split: str, labels: list[list[int]]) -> None:
    """Files one after the other, as the hub splits what is large."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, some in enumerate(labels):
        images = [
            {"bytes": png(np.full((8, 8, 3), 16 * part + row, np.uint8)), "path": None} for row in range(len(some))
        ]
        path = folder / f"{split}-{part:05}-of-{len(labels):05}.parquet"
        pq.write_table(pa.table({"img": images, "label": some}), path)


# The last of the first two of each class: the third of the second training file, the sixth of the first test file.
IN_TURN = {"train": [[1, 1, 0, 2], [0, 1, 2], [2, 0, 1]], "test": [[0, 1, 1, 0, 2, 2], [0, 1, 2]]}


def test_the_first_of_each_class_and_no_file_beyond(tiny, tmp_path) -> None:
    for split, labels in IN_TURN.items():
        write_files(tmp_path / "in", split, labels)
    for beyond in ("train-00002-of-00003", "test-00001-of-00002"):
        (tmp_path / "in" / f"{beyond}.parquet").write_bytes(b"nobody reads this")
    record = replace(tiny, of_each=2, train_images=6, test_images=6)
    train, test = open_source(record, tmp_path / "in").values()
    assert (train.rows.tolist(), train.labels.tolist()) == ([0, 1, 2, 3, 4, 6], [1, 1, 0, 2, 0, 2])
    assert test.rows.tolist() == [0, 1, 2, 3, 4, 5]
    data = decode_dataset(record, tmp_path / "store", tmp_path / "in")
    assert data.train.pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 16, 18]


def test_a_part_of_the_set_will_do_for_a_small_version(tiny, tiny_folder, tmp_path) -> None:
    record = replace(tiny, train_images=1000, test_images=50)
    with pytest.raises(DataError, match="train split of tiny has 12 images, expected 1000"):
        decode_dataset(record, tmp_path / "store", tiny_folder)
    data = decode_dataset(record, tmp_path / "store", tiny_folder, limit=100)
    assert (len(data.train.labels), len(data.test.labels)) == (12, 6)
    with pytest.raises(DataError, match="train split of tiny has 12 images, expected 11"):
        decode_dataset(replace(tiny, train_images=11), tmp_path / "store", tiny_folder, limit=5)


def assert_one_line(complaint: pytest.ExceptionInfo[DataError]) -> None:
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
def test_another_set_than_the_record_says(change, message, tiny, tiny_folder) -> None:
    with pytest.raises(DataError, match=message) as complaint:
        open_source(replace(tiny, **change), tiny_folder)
    assert_one_line(complaint)


def test_a_broken_image_is_named(tiny, tiny_folder) -> None:
    """One in twelve is no quirk of the set; it is named by its row, though the small version leaves out many."""
    images = [png(image) for image in tiny_pixels()["train"]]
    images[10] = images[10][:60]
    write_split(tiny_folder, "train", images, TINY_LABELS["train"])
    for limit, count in ((None, 12), (3, 3)):
        expected = rf"1 of {count} images of tiny \(train\) cannot be decoded whole: image 10;"
        with pytest.raises(DataError, match=expected) as complaint:
            decode_dataset(tiny, tiny_folder.parent / "store", tiny_folder, limit)
        assert_one_line(complaint)
    assert not list((tiny_folder.parent / "store").glob("*.partial"))


@pytest.mark.parametrize(
    ("labels", "seen"),
    [
        ([None, *TINY_LABELS["train"][1:]], "nan"),
        ([None, *map(str, TINY_LABELS["train"][1:])], "None"),
        ([float(label) for label in TINY_LABELS["train"]], "2.0"),
        ([[label] for label in TINY_LABELS["train"]], r"\[2\]"),
    ],
)
def test_labels_are_whole_numbers_or_names(labels, seen, tiny, tiny_folder) -> None:
    images = [{"bytes": png(image), "path": None} for image in tiny_pixels()["train"]]
    pq.write_table(pa.table({"img": images, "label": labels}), tiny_folder / "train-00000-of-00001.parquet")
    with pytest.raises(
        DataError, match=rf"has the label {seen} \(train\); expected a whole number or a name"
    ) as complaint:
        open_source(tiny, tiny_folder)
    assert_one_line(complaint)


def test_a_damaged_file_is_one_line(tiny, tiny_folder) -> None:
    (tiny_folder / "train-00000-of-00001.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(
        DataError, match=r"cannot read .*train-00000-of-00001\.parquet: .*; expected parquet"
    ) as complaint:
        open_source(tiny, tiny_folder)
    assert_one_line(complaint)


def test_damage_in_a_process_is_the_same_line(tiny, tiny_folder, tmp_path) -> None:
    """`decode_part` is what processes call."""
    raw = open_source(tiny, tiny_folder)[Split.TRAIN]
    (tiny_folder / "train-00000-of-00001.parquet").write_bytes(b"PAR1 nothing")
    (tmp_path / "pixels").touch()
    with pytest.raises(DataError, match=UNREADABLE):
        decode_part(RowGroupPart(tiny, Split.TRAIN, raw.groups[0], raw.rows, 0, tmp_path / "pixels"))


# The hub, played by a server on this machine. The library reads its address once, so each case is a process.

PROGRAM = """
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.sources import open_source
from roarbench.errors import DataError
try:
    open_source(find_dataset("cifar10"), None)
except DataError as error:
    print(error)
"""


FILE = "plain_text/train-00000-of-00001.parquet"


class Hub(BaseHTTPRequestHandler):
    """Knows that the data set is there, and shows its files to nobody."""

    code = "GatedRepo"

    def do_GET(self) -> None:
        known = self.path.startswith("/api/datasets/uoft-cs/cifar10/") and self.code == "GatedRepo"
        file = {"type": "file", "path": FILE, "rfilename": FILE, "size": 9, "oid": "0" * 40}
        about = {"id": "uoft-cs/cifar10", "sha": "0" * 40, "siblings": [file], "tags": []}
        body = json.dumps([file] if "/tree/" in self.path else about).encode()
        self.send_response(200 if known else 401)
        self.send_header("X-Error-Code", self.code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name is the base class's

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Private(Hub):
    """Knows of no such data set, as the hub says of private ones."""

    code = "RepoNotFound"


@pytest.fixture
def serve() -> Iterator[object]:
    servers: list[ThreadingHTTPServer] = []

    def start(handler: type[BaseHTTPRequestHandler]) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def ask_hub(tmp_path: Path, **variables: str) -> str:
    environment = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "USE_TORCH": "0"} | variables
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "Retrying" not in done.stderr
    return done.stdout


FETCH = """
import json, sys
from dataclasses import replace
from pathlib import Path
from tests.helpers.tiny_set import TINY
from roarbench.datasets.loading import decode_dataset
record = replace(TINY, revision="1" * 40, config=sys.argv[1], **json.loads(sys.argv[3]))
print(decode_dataset(record, Path("store"), limit=json.loads(sys.argv[2])).train.labels.tolist())
"""


class Open(Hub):
    """Gives the files of a folder to everybody, and remembers which."""

    folder = Path()
    fetched: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        if self.path.startswith("/api/"):
            paths = [path for path in self.folder.rglob("*") if path.is_file()]
            names = [str(path.relative_to(self.folder)) for path in paths]
            files = [{"type": "file", "path": name, "rfilename": name, "size": 9, "oid": "0" * 40} for name in names]
            about = {"id": "nobody/tiny", "sha": "1" * 40, "siblings": files, "tags": []}
            body = json.dumps(files if "/tree/" in self.path else about).encode()
        else:
            body = (self.folder / self.path.partition("/resolve/" + "1" * 40 + "/")[2]).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hash(body):x}"')
        self.send_header("X-Repo-Commit", "1" * 40)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
            self.fetched.append(self.path.rpartition("/")[2])

    do_HEAD = do_GET  # noqa: N815


@pytest.mark.slow
@pytest.mark.parametrize("config", ["", "8px"])
def test_the_hub_gives_the_files_of_both_splits_once(config: str, serve, tiny_folder, tmp_path) -> None:
    """No other file is fetched, and none twice: the second time the hub is not there."""
    Open.folder = tmp_path / "hub"
    Open.fetched.clear()
    shutil.copytree(tiny_folder, Open.folder / (config or "data"))
    write_split(Open.folder / (config or "data"), "extra", [], [])
    write_split(Open.folder / "16px", "train", [], [])
    environment = os.environ | {"HF_HOME": str(tmp_path), "USE_TORCH": "0", "HF_HUB_OFFLINE": "0"}
    environment["PYTHONPATH"] = f"{Path(__file__).parents[2]}:{os.environ.get('PYTHONPATH', '')}"

    def train_labels(limit: str, **place: str) -> list[int]:
        return fetched_labels(environment | place, tmp_path, config, limit, "{}")

    assert train_labels("null", HF_ENDPOINT=serve(Open)) == TINY_LABELS["train"]
    if config:
        assert train_labels("3", HF_HUB_OFFLINE="1") == [2, 0, 1]
    parquet = sorted(name for name in Open.fetched if name.endswith(".parquet"))
    assert parquet == ["test-00000-of-00001.parquet", "train-00000-of-00001.parquet"]


def fetched_labels(environment: dict[str, str], folder: Path, *arguments: str) -> list[int]:
    """Training labels that a fresh process finds on the hub."""
    program = [sys.executable, "-c", FETCH, *arguments]
    done = subprocess.run(program, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    labels: list[int] = json.loads(done.stdout)
    return labels


@pytest.mark.slow
@pytest.mark.parametrize("handler", [Hub, Private])
def test_a_gated_hub_names_the_token(handler, serve, tmp_path) -> None:
    said = ask_hub(tmp_path, HF_ENDPOINT=serve(handler))
    assert said.startswith("the hub does not open uoft-cs/cifar10 to you")
    for help in ("https://huggingface.co/datasets/uoft-cs/cifar10", "hf auth login", "HF_TOKEN", "--data DIR"):
        assert help in said
    assert said.count("\n") == 1

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from tiny_set import TINY_LABELS, png, tiny_pixels, write_split

from roarbench.datasets import find_dataset
from roarbench.datasets.sources import CHUNK, describe_source, open_source
from roarbench.errors import DataError
from roarbench.terms import Split

UNREADABLE = "cannot read .*; expected parquet files in the layout of nobody/tiny"


def decoded(record, folder: Path) -> np.ndarray:
    raw = open_source(record, folder)[Split.TRAIN]
    return np.concatenate(list(raw.read(np.ones(len(raw.labels), bool))))


def test_columns_and_splits_are_those_of_the_record(tiny, tmp_path) -> None:
    """The same images under other names, as other data sets have them."""
    images = [png(image) for image in tiny_pixels()["train"]]
    write_split(tmp_path, "train", images, TINY_LABELS["train"], ("picture", "kind"))
    write_split(tmp_path, "validation", images[:6], TINY_LABELS["test"], ("picture", "kind"))
    record = replace(tiny, image_column="picture", label_column="kind", test_split="validation")
    np.testing.assert_array_equal(decoded(record, tmp_path), tiny_pixels()["train"].transpose(0, 3, 1, 2))


def test_a_folder_of_configurations(tiny, tiny_folder) -> None:
    """A clone of the hub's repository has a folder for each configuration; the record says which."""
    tiny_folder.rename(tiny_folder.with_name("8px"))
    record = replace(tiny, config="8px")
    assert describe_source(record, tiny_folder.parent)["kind"] == "local"
    assert decoded(record, tiny_folder.parent).shape == (12, 3, 8, 8)


def test_grey_images_become_rgb(tiny, tiny_folder) -> None:
    grey = tiny_pixels()["train"][..., 0]
    write_split(tiny_folder, "train", [png(image) for image in grey], TINY_LABELS["train"])
    np.testing.assert_array_equal(decoded(tiny, tiny_folder), np.repeat(grey[:, np.newaxis], 3, axis=1))


def test_more_than_one_chunk(tiny, tmp_path) -> None:
    count = CHUNK + 3
    pixels = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3), np.uint8)
    write_split(tmp_path, "train", [png(image) for image in pixels], [index % 3 for index in range(count)])
    write_split(tmp_path, "test", [png(image) for image in pixels[:6]], TINY_LABELS["test"])
    raw = open_source(replace(tiny, train_images=count), tmp_path)[Split.TRAIN]
    wanted = np.random.default_rng(1).random(count) < 0.5  # no period that a chunk could share
    wanted[-2:] = True, False
    chunks = list(raw.read(wanted))
    assert len(chunks) == 2
    np.testing.assert_array_equal(np.concatenate(chunks), pixels[wanted].transpose(0, 3, 1, 2))


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


def test_hidden_labels_are_refused(tiny, tiny_folder) -> None:
    """The hub marks the labels of a test set that it keeps to itself with -1."""
    images = [png(image) for image in tiny_pixels()["test"]]
    write_split(tiny_folder, "test", images, [-1] * 6)
    with pytest.raises(DataError, match="test split of tiny has label -1, expected 0 … 2"):
        open_source(tiny, tiny_folder)


def test_a_broken_image_is_named(tiny, tiny_folder) -> None:
    images = [png(image) for image in tiny_pixels()["train"]]
    images[7] = images[7][:60]
    write_split(tiny_folder, "train", images, TINY_LABELS["train"])
    with pytest.raises(DataError, match="image 7 of tiny cannot be decoded") as complaint:
        decoded(tiny, tiny_folder)
    assert_one_line(complaint)


def test_a_damaged_file_is_one_line(tiny, tiny_folder) -> None:
    (tiny_folder / "train-00000-of-00001.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match=UNREADABLE) as complaint:
        open_source(tiny, tiny_folder)
    assert_one_line(complaint)


def test_damage_in_the_middle_of_a_file_is_one_line(tiny, tiny_folder) -> None:
    path = tiny_folder / "train-00000-of-00001.parquet"
    content = bytearray(path.read_bytes())
    content[4:64] = bytes(60)  # the first page of the images; labels and footer are whole
    path.write_bytes(content)
    with pytest.raises(DataError, match=UNREADABLE) as complaint:
        decoded(tiny, tiny_folder)
    assert_one_line(complaint)


def test_an_empty_folder_is_one_line(tiny, tmp_path) -> None:
    with pytest.raises(DataError, match=UNREADABLE) as complaint:
        open_source(tiny, tmp_path)
    assert_one_line(complaint)


def test_a_folder_is_expected(tiny, tiny_folder, tmp_path) -> None:
    with pytest.raises(DataError, match="is missing; expected a folder with both splits of tiny"):
        describe_source(tiny, tmp_path / "nowhere")
    with pytest.raises(DataError, match="is a file; expected a folder"):
        describe_source(tiny, tiny_folder / "train-00000-of-00001.parquet")
    with pytest.raises(DataError, match="planted is generated and reads no files; leave --data out"):
        describe_source(find_dataset("planted"), tmp_path)


# The hub, played by a server on this machine. The library reads its address once, so each case is a process.

PROGRAM = """
from roarbench.datasets import find_dataset
from roarbench.datasets.sources import open_source
from roarbench.errors import DataError
try:
    open_source(find_dataset("cifar10"), None)
except DataError as error:
    print(error)
"""


class Hub(BaseHTTPRequestHandler):
    """Knows that the data set is there, and shows its files to nobody."""

    code = "GatedRepo"

    def do_GET(self) -> None:
        known = self.path.startswith("/api/datasets/uoft-cs/cifar10/revision/") and self.code == "GatedRepo"
        body = json.dumps({"id": "uoft-cs/cifar10", "sha": "0" * 40, "siblings": [], "tags": []}).encode()
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


@pytest.mark.parametrize("handler", [Hub, Private])
def test_a_gated_hub_names_the_token(handler, serve, tmp_path) -> None:
    said = ask_hub(tmp_path, HF_ENDPOINT=serve(handler))
    assert said.startswith("the hub does not open uoft-cs/cifar10 to you")
    for help in ("https://huggingface.co/datasets/uoft-cs/cifar10", "hf auth login", "HF_TOKEN", "--data DIR"):
        assert help in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("variables", [{"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}])
def test_an_unreachable_hub_names_data(variables, tmp_path) -> None:
    said = ask_hub(tmp_path, **variables)
    assert said.startswith("cannot reach uoft-cs/cifar10 on the Hugging Face hub")
    assert said.endswith("give a local copy with --data DIR\n")
    assert said.count("\n") == 1

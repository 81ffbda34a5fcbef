"""Sources of images: parquet files, class folders and the hub; selected images and rejected sources."""

import json
import shutil
import threading
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from huggingface_hub import errors

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.compute.prediction import fit_class_templates_and_classifier
from roarbench.datasets import file_locations_and_downloads as locations
from roarbench.datasets import image_folders
from roarbench.datasets.catalogue import FOLDERS, PARQUET, find_dataset
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.image_splits import list_images_and_class_names
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.undecoded_splits import (
    add_class_and_image_counts,
    describe_class_order,
    open_undecoded_splits,
)
from tests.helpers.image_files import (
    CLASSES,
    TINY,
    TINY_LABELS,
    png,
    tiny_images,
    tiny_pixels,
    write_pictures,
    write_rows,
    write_split,
)
from tests.helpers.processes import run_python

PIXELS = {split: pixels.transpose(0, 3, 1, 2) for split, pixels in tiny_pixels().items()}
ONE_FILE = "{}-00000-of-00001.parquet"


def test_held_out_images_split_one_parquet_split_into_train_and_test(tiny_folder, tmp_path):
    """As for Birdsnap, one test image of each of three classes is drawn; the other nine are training images."""
    (tiny_folder / ONE_FILE.format("test")).unlink()
    path = tiny_folder / ONE_FILE.format("train")
    pq.write_table(pq.read_table(path), path, row_group_size=5)
    record = replace(TINY, test_split="train", holdout=1, train_images=9, test_images=3)
    train, test = open_undecoded_splits(record, tiny_folder).values()
    assert sorted(test.labels) == [0, 1, 2]
    assert sorted([*train.rows, *test.rows]) == list(range(12))
    assert [TINY_LABELS["train"][row] for row in test.rows] == test.labels.tolist()
    data = decode_dataset(record, tmp_path / "store", tiny_folder)
    np.testing.assert_array_equal(data.train.pixels, PIXELS["train"][train.rows])
    np.testing.assert_array_equal(data.test.pixels, PIXELS["train"][test.rows])


def test_describe_class_order_names_folders_of_first_outputs(tmp_path):
    record = replace(TINY, own=FOLDERS, folder=str(write_pictures(tmp_path / "set")), train_split=".", test_split=".")
    assert describe_class_order(record) == "the sorted folder names (blue, green, red)"
    assert describe_class_order(replace(record, numbered=True)) == describe_class_order(TINY) == "the labels"


# The last of the first two images per class is third in the second training file and sixth in the first test file.
LABELS_OF_FILES = {"train": [[1, 1, 0, 2], [0, 1, 2], [2, 0, 1]], "test": [[0, 1, 1, 0, 2, 2], [0, 1, 2]]}


def test_of_each_reads_first_images_of_each_class_and_no_further_file(tmp_path):
    for split, files in LABELS_OF_FILES.items():  # several files per split, as the hub stores large data
        for part, labels in enumerate(files):
            shades = [png(np.full((8, 8, 3), 16 * part + row, np.uint8)) for row in range(len(labels))]
            file = tmp_path / "in" / f"{split}-{part:05}-of-{len(files):05}.parquet"
            write_rows(file, shades, labels, row_group_size=2)
    for beyond in ("train-00002-of-00003", "test-00001-of-00002"):
        (tmp_path / "in" / f"{beyond}.parquet").write_bytes(b"nobody reads this")
    record = replace(TINY, of_each=2, train_images=6, test_images=6)
    train, test = open_undecoded_splits(record, tmp_path / "in").values()
    assert (train.rows.tolist(), train.labels.tolist()) == ([0, 1, 2, 3, 4, 6], [1, 1, 0, 2, 0, 2])
    assert test.rows.tolist() == [0, 1, 2, 3, 4, 5]
    data = decode_dataset(record, tmp_path / "store", tmp_path / "in")
    assert data.train.pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 16, 18]


def assert_rejected(message, record, folder):
    with pytest.raises(DataError, match=message) as complaint:
        open_undecoded_splits(record, folder)
    assert "\n" not in str(complaint.value)


def test_sources_that_contradict_record_are_rejected(tiny_folder, tmp_path):
    large = replace(TINY, train_images=1000, test_images=50)
    data = decode_dataset(large, tmp_path / "store", tiny_folder, limit=100)
    assert (len(data.train.labels), len(data.test.labels)) == (12, 6)
    with pytest.raises(DataError, match="train split of tiny has 12 images, expected 11"):
        decode_dataset(replace(TINY, train_images=11), tmp_path / "store", tiny_folder, limit=5)
    for change, message in (
        ({"train_images": 1000}, "train split of tiny has 12 images, expected 1000"),
        ({"image_column": "image"}, "has the columns img, label; expected 'image' and 'label'"),
        ({"test_split": "validation"}, "has the splits train, test; expected 'validation' for tiny"),
        ({"classes": 2}, "train split of tiny has label 2, expected 0 … 1"),
    ):
        assert_rejected(message, replace(TINY, **change), tiny_folder)
    path, (_, *labels) = tiny_folder / ONE_FILE.format("train"), TINY_LABELS["train"]
    for wrong, seen in (
        ([None, *labels], "is empty in 1 of 12 rows"),
        ([None, *map(str, labels)], "is empty in 1 of 12 rows"),
        ([[2], *([label] for label in labels)], "holds list<.*: int64>; expected a whole number or a string for each"),
        ([0.5, *map(float, labels)], "holds double; expected a whole number or a string for each"),
    ):
        write_rows(path, tiny_images("train"), wrong)
        assert_rejected(f"train-00000-of-00001.parquet: the label column 'label' {seen}", TINY, tiny_folder)
    path.write_bytes(b"PAR1 nothing")
    assert_rejected(r"cannot read .*train-00000-of-00001\.parquet: .*; expected parquet", TINY, tiny_folder)


# Own images, of which nothing is known before they are counted


def make_own_record(folder, **changes):
    drawn = {"train_split": ".", "test_split": ".", "share": 0.25, "hub": "", "own": FOLDERS, "folder": str(folder)}
    return add_class_and_image_counts(replace(TINY, **{**drawn, **changes}))


APART = {"train_split": "train", "test_split": "test", "share": 0.0}


def test_class_folders_give_images_and_labels(tmp_path):
    folder = write_pictures(tmp_path / "pictures")
    (folder / "red" / "notes.txt").write_text("no image")
    (folder / ".cache").mkdir()
    found = make_own_record(folder)
    assert (found.classes, found.train_images, found.test_images) == (3, 18, 6)
    data = decode_dataset(found, tmp_path / "store")
    for images, count in ((data.train, 6), (data.test, 2)):
        assert np.bincount(images.labels).tolist() == [count] * 3
        strongest = images.pixels.mean((2, 3)).argmax(1)  # red, green, blue
        np.testing.assert_array_equal(strongest, 2 - images.labels)


def test_classes_follow_folder_names_in_order_of_code_points(tmp_path):
    """docs/own-data.md says so: the order decides which class is output 0 of a given network."""
    for name in ("b", "10", "ä", "2", "B"):
        (tmp_path / name).mkdir()
    assert image_folders.list_class_names(tmp_path) == ["10", "2", "B", "b", "ä"]


def test_names_of_split_folders_may_hold_a_star(tmp_path):
    write_pictures(tmp_path / "train*", 5)
    write_pictures(tmp_path / "test *", 3, seed=1)
    found = make_own_record(tmp_path, train_split="train*", test_split="test *", share=0.0)
    assert (found.classes, found.train_images, found.test_images) == (3, 15, 9)


def test_split_folders_require_known_classes(tmp_path):
    write_pictures(tmp_path / "train", 5)
    test = write_pictures(tmp_path / "test", 3, seed=1)
    found = make_own_record(tmp_path, **APART)
    assert (found.train_images, found.test_images) == (15, 9)
    assert np.bincount(decode_dataset(found, tmp_path / "store").test.labels).tolist() == [3] * 3
    for old, new, said in (
        (test / "red", test / "pink", "test has the class 'pink', which .*train lacks"),
        (test, tmp_path / "val", "cannot read .*test: No such file or directory"),
    ):
        old.rename(new)
        with pytest.raises(DataError, match=said):
            make_own_record(tmp_path, **APART)
        new.rename(old)


def test_test_split_may_lack_class_but_training_split_may_not(tmp_path):
    write_pictures(tmp_path / "train", 5)
    shutil.rmtree(write_pictures(tmp_path / "test", 3, seed=1) / "green")
    found = make_own_record(tmp_path, **APART)
    assert (found.classes, found.train_images, found.test_images) == (3, 15, 6)
    assert decode_dataset(found, tmp_path / "store").test.labels.tolist() == [0, 0, 0, 2, 2, 2]
    notes = list_images_and_class_names(found, tmp_path).notes
    assert notes == ["without a test image: the class 'green'"]
    (tmp_path / "test" / "green").mkdir()  # an empty folder is no image either
    assert make_own_record(tmp_path, **APART) == found
    for image in (tmp_path / "train" / "red").iterdir():
        image.unlink()
    with pytest.raises(DataError, match=r"train/red has no image; expected files"):
        make_own_record(tmp_path, **APART)


@pytest.mark.parametrize("words", (False, True))
def test_own_parquet_files_accept_number_and_word_labels(tmp_path, words):
    labels = [CLASSES[label] for label in TINY_LABELS["train"]] if words else TINY_LABELS["train"]
    write_rows(tmp_path / "tables" / ONE_FILE.format("train"), tiny_images("train"), labels)
    asked = {"own": PARQUET, "train_split": "train", "test_split": "train", "share": 0.3}
    found = make_own_record(tmp_path / "tables", **asked)
    assert (found.classes, found.train_images, found.test_images) == (3, 8, 4)
    data = decode_dataset(found, tmp_path / "store")
    assert [np.bincount(images.labels).tolist() for images in (data.train, data.test)] == [[3, 1, 4], [1, 1, 2]]
    with pytest.raises(DataError, match="has the columns img, label; expected 'image' and 'label'"):
        make_own_record(tmp_path / "tables", **asked, image_column="image")


NUMBERED = {"classes": 10, "numbered": True}


def test_numbered_labels_allow_classes_without_images(tmp_path):
    """Images have the classes 0, 3 and 9 of ten; without `classes`, labels must have no gaps."""
    labels = [0, 3, 9] * 4
    write_rows(tmp_path / "tables" / ONE_FILE.format("train"), tiny_images("train"), labels)
    asked = {"own": PARQUET, "train_split": "train", "test_split": "train"}
    found = make_own_record(tmp_path / "tables", **asked, **NUMBERED, share=0.3)
    assert (found.classes, found.train_images, found.test_images) == (10, 9, 3)
    data = decode_dataset(found, tmp_path / "store")
    assert [np.unique(images.labels).tolist() for images in (data.train, data.test)] == [[0, 3, 9]] * 2
    apart = fit_class_templates_and_classifier(data).means
    assert apart.isfinite().all() and not apart[[1, 2, 4, 5, 6, 7, 8]].any() and apart[[0, 3, 9]].any((1, 2, 3)).all()
    alone = make_own_record(tmp_path / "tables", **asked, **NUMBERED, share=0.0)
    assert alone.test_only and not found.test_only
    assert (alone.train_images, alone.test_images) == (12, 12)
    for changes, said in (
        ({"classes": 9, "numbered": True}, "has label 9, expected 0 … 8"),
        ({}, "3 of 10 classes have a training image.*; if labels are the numbers of a network's outputs, write cl"),
    ):
        with pytest.raises(DataError, match=said):
            make_own_record(tmp_path / "tables", **asked, **changes, share=0.3)
    write_rows(tmp_path / "tables" / ONE_FILE.format("test"), tiny_images("test"), [0, 3, 4, 9, 0, 3])
    with pytest.raises(DataError, match="^test images have the class 4, which no training image has; give it training"):
        make_own_record(tmp_path / "tables", **asked | {"test_split": "test"}, **NUMBERED)
    write_rows(tmp_path / "tables" / ONE_FILE.format("train"), tiny_images("train"), list(map(str, labels)))
    with pytest.raises(DataError, match="not whole numbers, but classes is 10; expected the numbers of the network's"):
        make_own_record(tmp_path / "tables", **asked, **NUMBERED, share=0.3)


def test_class_folder_with_one_image_is_named(tmp_path):
    folder = write_pictures(tmp_path / "pictures")
    for path in sorted((folder / CLASSES[1]).iterdir())[1:]:
        path.unlink()
    seen = "2 of 3 classes have a training image, 3 have a test image; "
    remedy = "has no training image: give it more images, or leave it out$"
    with pytest.raises(DataError, match=f"{seen}.*; the class '{CLASSES[1]}' {remedy}"):
        make_own_record(folder)


def test_numbered_folder_names_are_class_numbers(tmp_path):
    """Sorted as text, 10 would come before 2."""
    folder = write_pictures(tmp_path / "pictures", 4)
    for name, number in zip(CLASSES, ("2", "10", "7"), strict=True):
        (folder / name).rename(folder / number)
    found = make_own_record(folder, classes=11, numbered=True)
    data = decode_dataset(found, tmp_path / "store")
    strongest = data.test.pixels.mean((2, 3)).argmax(1)  # red, green, blue
    assert {*zip(data.test.labels.tolist(), strongest.tolist(), strict=True)} == {(2, 2), (10, 1), (7, 0)}
    with pytest.raises(DataError, match=r"has the folder '10', but classes is 10; name each folder by the number of"):
        make_own_record(folder, **NUMBERED)


# A local server stands in for the hub. The library reads the address once, so a new process sends the requests.

FETCH = """
import json, sys
from dataclasses import replace
from pathlib import Path
from tests.helpers.image_files import TINY
from roarbench.datasets.decode_dataset import decode_dataset
record = replace(TINY, revision="1" * 40, config="8px")
print(decode_dataset(record, Path("store"), limit=json.loads(sys.argv[1])).train.labels.tolist())
"""


class Hub(SimpleHTTPRequestHandler):
    """Serves the files of a folder and records their names."""

    folder: Path
    fetched: ClassVar[list[str]] = []

    def do_GET(self):
        if not self.path.startswith("/api/"):
            self.fetched.append(self.path.rpartition("/")[2])
            return super().do_GET()
        names = [str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()]
        files = [{"type": "file", "path": name, "rfilename": name, "size": 9, "oid": "0" * 40} for name in names]
        about = {"id": "nobody/tiny", "sha": "1" * 40, "siblings": files, "tags": []}
        self.send_response(200)
        self.end_headers()
        return self.wfile.write(json.dumps(files if "/tree/" in self.path else about).encode())

    def translate_path(self, path):
        return str(self.folder / path.partition("/resolve/" + "1" * 40 + "/")[2])

    def end_headers(self):
        self.send_header("ETag", f'"{hash(self.path):x}"')
        self.send_header("X-Repo-Commit", "1" * 40)
        super().end_headers()

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_hub_files_are_fetched_once(hub, tiny_folder, tmp_path, monkeypatch):
    """Other files are not fetched, and the second process works without the hub."""
    monkeypatch.setattr(Hub, "folder", tmp_path / "hub", raising=False)
    shutil.copytree(tiny_folder, Hub.folder / "8px")
    write_split(Hub.folder / "8px", "extra", [], [])
    write_split(Hub.folder / "16px", "train", [], [])
    for limit, labels, variables in (
        ("null", TINY_LABELS["train"], {"HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0"}),
        ("3", [2, 0, 1], {"HF_HUB_OFFLINE": "1"}),
    ):
        said = run_python(FETCH, limit, folder=tmp_path, HF_HOME=str(tmp_path), **variables)
        assert json.loads(said) == labels
    parquet = sorted(name for name in Hub.fetched if name.endswith(".parquet"))
    assert parquet == ["test-00000-of-00001.parquet", "train-00000-of-00001.parquet"]


@pytest.mark.parametrize("kind", ["GatedRepoError", "RepositoryNotFoundError"])  # the latter for private repositories
def test_gated_hub_dataset_raises_error_that_names_token(kind, monkeypatch):
    error = getattr(errors, kind)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(locations, "_list_hub_files", Mock(side_effect=error.__new__(error)))
    with pytest.raises(DataError, match="^the hub denies access to uoft-cs/cifar10 ") as complaint:
        open_undecoded_splits(find_dataset("cifar10"), None)
    for help in ("https://huggingface.co/datasets/uoft-cs/cifar10", "hf auth login", "HF_TOKEN", "--data DIR"):
        assert help in str(complaint.value)
    assert "\n" not in str(complaint.value)


def test_installed_dataset_is_read_when_no_folder_is_given(tmp_path, monkeypatch):
    record = replace(find_dataset("fashion-mnist"), train_images=2, test_images=2)
    for name in ("train", "t10k"):
        header = bytes((0, 0, 8, 3)) + np.array([2, 28, 28], ">i4").tobytes()
        (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(header + bytes(783) + b"\x07" + bytes(784))
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(bytes((0, 0, 8, 1, 0, 0, 0, 2, 9, 4)))
    monkeypatch.setitem(locations.SYSTEM_PACKAGE_FOLDERS, record.hub, tmp_path)
    test = open_undecoded_splits(record, None)[Split.TEST]
    assert test.labels.tolist() == [9, 4] and test.pixels[0, 0, 27, 27] == 7
    assert locations.make_source_identity(record, None)["kind"] == "installed"
    smaller = replace(record, name="a smaller one", test_images=1, of_each=1)  # class 4 before class 9
    part = open_undecoded_splits(smaller, None)
    found = {split: (rows.labels.tolist(), int(rows.pixels.sum())) for split, rows in part.items()}
    assert found == {Split.TRAIN: ([9, 4], 7), Split.TEST: ([4], 0)}
    with pytest.raises(DataError, match=r"images of shape \(2, 1, 28, 28\), expected \(2, 1, 32, 32\); check that"):
        open_undecoded_splits(replace(record, size=32), None)
    monkeypatch.setitem(locations.SYSTEM_PACKAGE_FOLDERS, record.hub, tmp_path / "nowhere")
    assert locations.make_source_identity(record, None)["kind"] == "hub"


def test_folder_above_the_class_folders_is_refused(tmp_path):
    """All images had the class of the only folder, whose counts in both splits were those of the suite."""
    folder = write_pictures(tmp_path / "EuroSAT" / "2750", 10)
    record = infer_dataset(folder, lambda line: None).without_location
    found = open_undecoded_splits(record, folder)
    assert np.bincount(found[Split.TRAIN].labels).tolist() == [7, 7, 7]
    with pytest.raises(DataError, match="training images of 2750 have 1 of its 3 classes; name the folder in"):
        open_undecoded_splits(record, folder.parent)

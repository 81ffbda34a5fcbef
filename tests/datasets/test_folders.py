"""Images in folders of their classes: which are read, which are drawn for testing, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.datasets import FOLDERS, PARQUET
from roarbench.datasets.loading import decode_dataset
from roarbench.datasets.sources import counted
from roarbench.errors import DataError
from tests.helpers.own_photos import CLASSES, write_pictures
from tests.helpers.tiny_set import TINY, TINY_LABELS, png, tiny_pixels, write_split


def record(folder, **changes):
    drawn = {"train_split": ".", "test_split": ".", "share": 0.25, "hub": "", "own": FOLDERS, "folder": str(folder)}
    return counted(replace(TINY, **{**drawn, **changes}))


def test_images_are_those_of_the_folders(tmp_path):
    folder = write_pictures(tmp_path / "pictures")
    (folder / "red" / "notes.txt").write_text("no image")
    (folder / ".cache").mkdir()
    found = record(folder)
    assert (found.classes, found.train_images, found.test_images) == (3, 18, 6)
    data = decode_dataset(found, tmp_path / "store")
    for images, count in ((data.train, 6), (data.test, 2)):
        assert np.bincount(images.labels).tolist() == [count] * 3
        strongest = images.pixels.mean((2, 3)).argmax(1)  # red, green, blue
        np.testing.assert_array_equal(strongest, 2 - images.labels)


def test_splits_with_folders_of_their_own(tmp_path):
    write_pictures(tmp_path / "train", 5)
    write_pictures(tmp_path / "test", 3, seed=1)
    found = record(tmp_path, train_split="train", test_split="test", share=0.0)
    assert (found.train_images, found.test_images) == (15, 9)
    assert np.bincount(decode_dataset(found, tmp_path / "store").test.labels).tolist() == [3] * 3


@pytest.mark.parametrize(
    ("spoil", "said"),
    (
        (lambda test: (test / "red").rename(test / "pink"), "test has the class 'pink', which .*train lacks"),
        (lambda test: (test / "red").rename(test.parent / "red"), "test lacks the class 'red'"),
        (lambda test: [file.unlink() for file in (test / "red").iterdir()], r"test/red has no image; expected files"),
        (lambda test: test.rename(test.parent / "val"), "cannot read .*test: No such file or directory"),
    ),
)
def test_splits_that_do_not_fit_are_refused(tmp_path, spoil, said):
    for split in ("train", "test"):
        write_pictures(tmp_path / split, 2)
    spoil(tmp_path / "test")
    with pytest.raises(DataError, match=said):
        record(tmp_path, train_split="train", test_split="test", share=0.0)


@pytest.mark.parametrize("words", (False, True))
def test_parquet_files_with_labels_as_numbers_or_words(tmp_path, words):
    images = {split: [png(image) for image in pixels] for split, pixels in tiny_pixels().items()}
    write_split(tmp_path / "tables", "train", images["train"], TINY_LABELS["train"], ("photo", "kind"))
    columns = {"image_column": "photo", "label_column": "kind"}
    if words:
        import pyarrow as pa
        import pyarrow.parquet as pq

        file = next((tmp_path / "tables").iterdir())
        table = pq.read_table(file)
        names = pa.array([CLASSES[label] for label in TINY_LABELS["train"]])
        pq.write_table(table.set_column(1, "kind", names), file)
    split = {"train_split": "train", "test_split": "train", "share": 0.3}
    found = record(tmp_path / "tables", own=PARQUET, **columns, **split)
    assert (found.classes, found.train_images, found.test_images) == (3, 8, 4)
    data = decode_dataset(found, tmp_path / "store")
    assert np.bincount(data.test.labels).tolist() == [1, 1, 2]
    with pytest.raises(DataError, match="has the columns photo, kind; expected 'image' and 'kind'"):
        record(tmp_path / "tables", own=PARQUET, **{**columns, "image_column": "image"}, **split)

"""Messages for archives, arrays, databases and other files that hold images which roarbench does not read."""

from dataclasses import replace

import pytest

from roarbench.common.errors import DataError
from roarbench.datasets.catalogue import FOLDERS, make_user_dataset_record
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.undecoded_splits import add_class_and_image_counts
from tests.helpers.command_line import read_refusal
from tests.helpers.image_files import write_pictures


def read_message(path):
    with pytest.raises(DataError) as raised:
        infer_dataset(path, lambda line: None)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    return folder


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.zip", "is an archive; unpack it and name the folder that holds one folder per class"),
        ("a.tar.gz", "is an archive; unpack it"),
        ("a.tar", "is an archive; unpack it"),
        ("a.csv.zip", "is a packed table; unpack it and name the unpacked file"),
        ("a.txt", "or a .parquet or .csv or .csv.gz or .tsv file"),
        ("a.npz", "is a file; name a folder of class folders or of parquet files, or a .parquet"),
        (
            "a.dcm",
            "; save images as PNG in a folder per class, and tables as CSV; in Python, rb.Suite.from_arrays takes",
        ),
        ("photo.PNG", "is a single image; name the folder that holds one folder of images per class"),
        ("train-images-idx3-ubyte.gz", "is an IDX file, MNIST's format; read it with --data FOLDER"),
        ("emnist-letters-train-images-idx3-ubyte", "is a file of EMNIST, whose images are stored transposed; exchange"),
    ],
)
def test_single_file_is_named_with_a_remedy(tmp_path, name, words):
    message = read_message(touch(tmp_path, name) / name)
    assert message.startswith(str(tmp_path / name)) and words in message


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            ("data_batch_1", "test_batch", "batches.meta"),
            "other kinds: 2 without an ending, 1 .meta; save images as PNG",
        ),
        (
            ("dataset_dict.json", "train/data-0.arrow", "train/state.json"),
            "train/data-0.arrow is an Arrow file, as save",
        ),
        (("train.zip", "test.zip", "train.csv"), "test.zip is an archive; unpack"),
        (("cat/1.heic", "cat/2.heic", "dog/1.heic", "a.xlsx"), "files of other kinds: 3 .heic, 1 .xlsx; save images"),
        (("fer2013.csv", "README"), "has no image, but the table fer2013.csv; name the file itself: "),
        (("a.weird", "b.weird", "LICENSE"), "has no image, but files of other kinds: 2 .weird, 1 without an ending; "),
        (("@eaDir/1.png",), "has no file at all; name a folder that has one folder of images per class, or parquet"),
    ],
)
def test_folder_without_images_is_described(tmp_path, names, words):
    message = read_message(touch(tmp_path / "set", *names))
    assert message.startswith(str(tmp_path / "set")) and words in message


def test_command_exits_with_2_and_one_line(call, tmp_path):
    assert "is an archive; unpack it" in read_refusal(call, "new-suite", touch(tmp_path, "a.zip") / "a.zip")


def test_class_folder_without_images_names_what_it_holds(tmp_path):
    folder = touch(write_pictures(tmp_path / "set"), "meta/train.txt", "meta/test.txt", "meta/classes.json")
    record = make_user_dataset_record("set", 3, 8)
    record = replace(record, own=FOLDERS, folder=str(folder), train_split=".", test_split=".", share=0.3)
    with pytest.raises(
        DataError, match=r"set/meta has no image, but 2 \.txt, 1 \.json; expected files .*; if it is no"
    ):
        add_class_and_image_counts(record)
    assert add_class_and_image_counts(replace(record, left_out=("meta",))).classes == 3
    (folder / "images").mkdir()
    for name in ("blue", "green", "red"):
        (folder / name).rename(folder / "images" / name)
    with pytest.raises(DataError, match="name .*set/images if its folders are the classes, or write leave_out"):
        add_class_and_image_counts(record)

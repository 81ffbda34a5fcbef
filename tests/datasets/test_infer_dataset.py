"""Inference of a data set from folders and files: splits, labels and columns of many names and types."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from roarbench.common.enums import Split
from roarbench.common.errors import CallerError, DataError
from roarbench.datasets.catalogue import FOLDERS, PARQUET
from roarbench.datasets.image_folders import find_split_pairs, is_bare_split_name
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.undecoded_splits import open_undecoded_splits
from roarbench.plan.read_suite_file import read_suite
from tests.helpers.own_photos import TEXT, write_pictures
from tests.helpers.tiny_set import png, write_rows

IMAGE = png(np.zeros((8, 8, 3), np.uint8))
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 100\n"


def infer_with_messages(folder):
    said = []
    return infer_dataset(folder, said.append), "\n".join(said)


def assert_inference_fails(folder, message):
    with pytest.raises(DataError, match=message) as refused:
        infer_dataset(folder, print)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        ("TRAIN TEST", ["TRAIN TEST"]),
        ("Training Testing", ["Training Testing"]),
        ("seg_train seg_test seg_pred", ["seg_train seg_test"]),
        ("training_set test_set", ["training_set test_set"]),
        ("trainset testset", ["trainset testset"]),
        ("TrainImages TestImages", ["TrainImages TestImages"]),
        ("train2017 val2017", ["train2017 val2017"]),
        ("train val test", ["train test", "train val"]),
        ("train seg_test", []),
        ("train_station train_interior test_bench", []),
        ("latest trainer", []),
    ],
)
def test_find_split_pairs_matches_common_split_names(names, pairs):
    assert [" ".join(pair) for pair in find_split_pairs(names.split())] == pairs


@pytest.mark.parametrize(
    ("train", "test", "found"),
    [
        ("Train", "Test", ("Train", "Test")),
        ("seg_train/seg_train", "seg_test/seg_test", ("seg_train/seg_train", "seg_test/seg_test")),
        ("archive/train", "archive/val", ("train", "val")),
    ],
)
def test_infer_dataset_finds_split_folders(tmp_path, train, test, found):
    for number, name in enumerate((train, test)):
        write_pictures(tmp_path / "set" / name, 3 - number, number)
    record, said = infer_with_messages(tmp_path / "set")
    assert (record.train_split, record.test_split) == found
    assert (record.classes, record.train_images, record.test_images) == (3, 9, 6)
    assert "15 of 15 inspected images are not square" in said


def test_infer_dataset_replaces_unlabelled_test_folder(tmp_path):
    write_pictures(tmp_path / "set" / "train", 4)
    (tmp_path / "set" / "test").mkdir()
    (tmp_path / "set" / "test" / "0.png").write_bytes(IMAGE)
    record, said = infer_with_messages(tmp_path / "set")
    assert (Path(record.folder).name, record.share, record.train_images, record.test_images) == ("train", 0.3, 9, 3)
    assert "test has no class folders" in said
    write_pictures(tmp_path / "set" / "val", 2)
    record, said = infer_with_messages(tmp_path / "set")
    assert (record.train_split, record.test_split, record.test_images) == ("train", "val", 6)


def test_class_folder_named_like_split_is_rejected(tmp_path):
    names = ("Train", "test_set", "seg_train", "cat", "trainer", "")
    assert [name for name in names if is_bare_split_name(name)] == ["Train", "test_set"]
    folder = write_pictures(tmp_path / "set")
    (folder / "red").rename(folder / "train")
    assert_inference_fails(tmp_path / "set", "has the folder 'train', named like a split, .* if 'train' is a class, ")
    path = tmp_path / "set.toml"
    path.write_text(TEXT.replace('images = "pictures"', 'images = "set"'))
    assert read_suite(path).dataset_record.classes == 3  # a suite file may declare the folder as a class
    (tmp_path / "set" / "blue").rename(tmp_path / "set" / "Test")
    with pytest.raises(CallerError, match="has 'train' and 'Test', which are splits and not classes; write train = "):
        read_suite(path)


def test_infer_dataset_follows_links_and_reports_skipped_files(tmp_path):
    write_pictures(tmp_path / "set")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "set" / "red" / "00.png").rename(tmp_path / "elsewhere" / "00.png")
    (tmp_path / "set" / "red" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "set" / "__MACOSX").mkdir()
    for name in ("a.heic", "b.heic", "notes.txt", ".DS_Store"):
        (tmp_path / "set" / "red" / name).write_bytes(b"x")
    for ending in ("avif", "jfif"):
        Image.new("RGB", (10, 9)).save(tmp_path / "set" / "red" / f"one.{ending}", "JPEG")
    (tmp_path / "set" / "red" / "loop").symlink_to(tmp_path / "set")
    record, said = infer_with_messages(tmp_path / "set")
    assert (record.own, record.classes, record.train_images + record.test_images) == (FOLDERS, 3, 26)
    assert "files without the ending of an image file are left out: 2 .heic, 1 .txt" in said


def write_parquet_split(folder, labels, split="train", images=None):
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [IMAGE] * len(labels) if images is None else images
    pq.write_table(pa.table({"image": pictures, "label": labels}), folder / f"{split}-00000-of-00001.parquet")


WORDS = ["cat", "ant", "cat", "ant"]


@pytest.mark.parametrize(
    "labels",
    [
        pa.array(WORDS, pa.large_string()),
        pa.array(WORDS, pa.string_view()),
        pa.array(WORDS).dictionary_encode(),
        pa.array([True, False, True, False]),
        pa.array([1.0, 0.0, 1.0, 0.0]),
        pa.array([1, 0, 1, 0], pa.uint8()),
    ],
    ids=lambda value: str(value.type),
)
def test_infer_dataset_reads_parquet_labels_of_every_type(tmp_path, labels):
    for split in ("train", "test"):
        write_parquet_split(tmp_path / "set", labels, split)
    record, _ = infer_with_messages(tmp_path / "set")
    assert (record.own, record.label_column, record.classes) == (PARQUET, "label", 2)
    assert open_undecoded_splits(record, None)[Split.TEST].labels.tolist() == [1, 0, 1, 0]


def test_infer_dataset_replaces_test_split_with_hidden_labels(tmp_path):
    write_parquet_split(tmp_path / "set", [0, 1] * 4)
    for hidden in ([-1] * 4, pa.array([None] * 4, pa.int64()), pa.array([], pa.int64())):
        write_parquet_split(tmp_path / "set", hidden, "test")
        record, said = infer_with_messages(tmp_path / "set")
        assert (record.train_split, record.share) == ("train", 0.3)
        assert "the split 'test' has no labels; test images are drawn from 'train'" in said
    write_parquet_split(tmp_path / "set", [0, 1], "validation")
    record, said = infer_with_messages(tmp_path / "set")
    assert (record.test_split, record.test_images) == ("validation", 2)
    assert "the split 'test' has no labels; 'validation' is used" in said


def test_infer_dataset_finds_parquet_splits_and_requires_training_split(tmp_path):
    for name, labels in (("Train", [0, 1, 0, 1]), ("Test", [0, 1])):
        write_parquet_split(tmp_path / "set" / name, labels, "data")
    record, _ = infer_with_messages(tmp_path / "set")
    assert (record.train_images, record.test_images) == (4, 2)
    write_parquet_split(tmp_path / "set" / "Train", [-1] * 4, "data")
    assert_inference_fails(tmp_path / "set", "the split 'train' has no labels")
    write_parquet_split(tmp_path / "only", [0, 1], "test")
    assert_inference_fails(tmp_path / "only", "has the splits test, but no training split; name training files train-")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"train-00000-of-00003": [0, 1, 0, 1], "train-00002-of-00003": [0, 1]},
            "has 2 of the 3 files of 'train'; download the missing files: train-00001-of-00003",
        ),
        (
            {"train-00000-of-00002": [0, 1], "train-00001-of-00002": ["a", "b"]},
            "has strings as labels in one file and numbers in another",
        ),
    ],
)
def test_infer_dataset_rejects_inconsistent_parquet_files(tmp_path, files, message):
    for name, labels in files.items():
        write_rows(tmp_path / "set" / f"{name}.parquet", [IMAGE] * len(labels), labels)
    assert_inference_fails(tmp_path / "set", message)


def test_infer_dataset_rejects_git_lfs_pointers(tmp_path):
    write_parquet_split(tmp_path / "set", [0, 1])
    for path in (tmp_path / "set" / "train-00000-of-00001.parquet", tmp_path / "rows.csv"):
        path.write_bytes(POINTER)
    for place in ("set", "rows.csv"):
        assert_inference_fails(tmp_path / place, "is a pointer of Git LFS, not the file itself; run `git lfs pull`")


def test_infer_dataset_describes_table(tmp_path):
    """Left out are text, row numbers, gaps and constants; repeated rows and ids are named."""
    path = tmp_path / "rows.csv"
    rows = [f"{i},{i},{i * i / 2},{'?' if i == 3 else i},x{i},7,{'' if i == 2 else i},{i % 2}\n" for i in range(20)]
    path.write_text("".join(["id,patient,measure,stray,text,site,gap,y\n", *rows]))
    record, said = infer_with_messages(path)
    assert record.columns == ("patient", "measure")
    assert "classes in column 'y': '0' 50.0%, '1' 50.0%" in said
    assert (
        "columns left out: 'id' (row numbers), 'stray' (text such as '?'), 'text' (text such as 'x0'), "
        "'site' (one value in all rows), 'gap' (missing or infinite in 1 of 20 rows)"
    ) in said
    assert "column 'patient' has a different whole number in every row" in said
    assert "column 'measure' has" not in said and "same features" not in said
    path.write_text("".join(["id,patient,measure,stray,text,site,gap,y\n", *rows, *rows]))
    assert "12 of 12 test rows" not in (said := infer_with_messages(path)[1]) and "test rows have the same feat" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,y\n" + "x,0\nz,1\n" * 4, "rows.csv has no column of numbers that differ between rows"),
        ("a,b,c\n1,2,0.5\n3,4,0.7\n", "column 'c' holds double; .*; name the class column 'label' if it is another"),
        ("a,b,y\n1,,0\n4,5,1\n,7,0\n,7,1\n", "rows.csv has no column of numbers"),
    ],
)
def test_infer_dataset_rejects_table_without_features_or_classes(tmp_path, text, said):
    (tmp_path / "rows.csv").write_text(text)
    assert_inference_fails(tmp_path / "rows.csv", said)


def test_infer_dataset_names_damaged_images_and_missing_folder(tmp_path):
    folder = write_pictures(tmp_path / "photos")
    for name in ("blue/00", "green/00", "green/01"):
        (folder / f"{name}.png").write_bytes(b"no image")
    cut = folder / "blue" / "01.png"
    cut.write_bytes(cut.read_bytes()[:150])
    said = "4 of 24 images of photos cannot be decoded completely: blue/00.png, blue/01.png, green/00.png and 1"
    assert_inference_fails(folder, said)
    assert_inference_fails(tmp_path / "nothing", "nothing is missing; name a folder of class folders")
    assert_inference_fails(folder / "red", "red has no class folders; put the images of each class into a folder")

"""Inference of a data set from folders and files: splits, labels and columns of many names and types."""

import cProfile
import re
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from roarbench.common.enums import Split
from roarbench.common.errors import CallerError, DataError
from roarbench.datasets.catalogue import FOLDERS, PARQUET
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.folder_plan import find_copies, plan_folders
from roarbench.datasets.image_folders import find_split_pairs, is_bare_split_name
from roarbench.datasets.infer_dataset import describe_columns, infer_dataset
from roarbench.datasets.select_images import select_rows_of_split
from roarbench.datasets.tabular import read_features_and_labels
from roarbench.datasets.undecoded_splits import add_class_and_image_counts, open_undecoded_splits
from roarbench.plan.suite_template import compose_suite_text, write_new_suite_file
from roarbench.plan.suites import read_suite
from roarbench.plan.toml_table import format_toml
from tests.helpers.image_files import TEXT, png, write_pictures, write_rows

IMAGE = png(np.zeros((8, 8, 3), np.uint8))
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 100\n"


def infer_with_messages(folder):
    said = []
    return infer_dataset(folder, said.append), "\n".join(said)


def assert_inference_fails(folder, message):
    with pytest.raises(DataError, match=message):
        infer_dataset(folder, print)


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        ("train test", ["train test"]),
        ("TRAIN TEST", ["TRAIN TEST"]),
        ("Training Testing", ["Training Testing"]),
        ("seg_train seg_test seg_pred", ["seg_train seg_test"]),
        ("training_set test_set", ["training_set test_set"]),
        ("trainset testset", ["trainset testset"]),
        ("TrainImages TestImages", ["TrainImages TestImages"]),
        ("train2017 val2017", ["train2017 val2017"]),
        ("train dev", ["train dev"]),
        ("train validate", ["train validate"]),
        ("train eval", ["train eval"]),
        ("train val test", ["train test", "train val"]),
        ("train seg_test", []),
        ("train_station train_interior test_bench", []),
        ("latest trainer", []),
    ],
)
def test_find_split_pairs_matches_common_split_names(names, pairs):
    assert [" ".join(pair) for pair in find_split_pairs(names.split())] == pairs


def test_is_split_name_rejects_other_words():
    names = ("Train", "test_set", "seg_train", "cat", "trainer", "")
    assert [name for name in names if is_bare_split_name(name)] == ["Train", "test_set"]


@pytest.mark.parametrize(
    ("train", "test", "found"),
    [
        ("Train", "Test", ("Train", "Test")),
        ("seg_train/seg_train", "seg_test/seg_test", ("seg_train/seg_train", "seg_test/seg_test")),
        ("archive/train", "archive/val", ("train", "val")),
        ("train_mini", "val_data", ("train_mini", "val_data")),
    ],
)
def test_infer_dataset_finds_split_folders(tmp_path, train, test, found):
    for number, name in enumerate((train, test)):
        write_pictures(tmp_path / "set" / name, 3 - number, number)
    record, _ = infer_with_messages(tmp_path / "set")
    assert (record.train_split, record.test_split) == found
    assert (record.classes, record.train_images, record.test_images) == (3, 9, 6)


def test_infer_dataset_takes_no_class_for_split_and_names_unused_folders(tmp_path):
    for name in ("train_station", "test_bench"):
        (tmp_path / "places" / name).mkdir(parents=True)
        write_pictures(tmp_path / "made", 4)
        (tmp_path / "made" / "red").rename(tmp_path / "places" / name / "steam")
        shutil.rmtree(tmp_path / "made")
    record, _ = infer_with_messages(tmp_path / "places")
    assert (record.train_split, record.classes, record.train_images + record.test_images) == (".", 2, 8)
    for name in ("train", "test", "extra"):
        write_pictures(tmp_path / "set" / name, 4)
    record, said = infer_with_messages(tmp_path / "set")
    assert (record.train_split, record.test_split) == ("train", "test")
    assert "not used: the images in 'extra'" in said


def test_images_above_the_class_folders_are_counted_or_refused(tmp_path):
    """Images beside the only folder, or beside the splits, were left out without a word."""
    write_pictures(tmp_path / "set" / "crops")
    for name in ("photo.png", "photo2.png"):
        (tmp_path / "set" / name).write_bytes(png(np.zeros((8, 8, 3), np.uint8)))
    words = "only the folder 'crops' holds images, beside 2 images; name this folder if the folders inside it are"
    assert_inference_fails(tmp_path / "set", words)
    (tmp_path / "set" / "crops").rename(tmp_path / "set" / "train")
    write_pictures(tmp_path / "set" / "test")
    _, said = infer_with_messages(tmp_path / "set")
    assert "left out: 2 images above the class folders (such as 'photo.png')" in said


def test_infer_dataset_replaces_unlabelled_test_folder(tmp_path):
    write_pictures(tmp_path / "set" / "train", 4)
    (tmp_path / "set" / "test").mkdir()
    (tmp_path / "set" / "test" / "0.png").write_bytes(IMAGE)
    record, said = infer_with_messages(tmp_path / "set")
    assert (Path(record.folder).name, record.share, record.train_images, record.test_images) == ("train", 0.3, 9, 3)
    assert "test has no class folders; test images are drawn from 'train'" in said
    write_pictures(tmp_path / "set" / "val", 2)
    record, said = infer_with_messages(tmp_path / "set")
    assert (record.train_split, record.test_split, record.test_images) == ("train", "val", 6)


def test_folders_of_training_images_that_hold_the_test_folders_are_no_classes(tmp_path):
    for name in ("train/x", "train/y", "test"):
        write_pictures(tmp_path / "set" / name, 4)
    words = "the folders 'x', 'y' of 'train' hold folders of the names in 'test'; move these up"
    assert_inference_fails(tmp_path / "set", words)
    shutil.rmtree(tmp_path / "set" / "test")  # without test folders, the upper folders may be the classes
    assert infer_with_messages(tmp_path / "set")[0].classes == 2


def test_test_folders_whose_names_differ_in_case_are_refused(tmp_path):
    for name in ("train", "test"):
        write_pictures(tmp_path / "set" / name, 4)
    for folder in [*(tmp_path / "set" / "test").iterdir()]:
        folder.rename(folder.parent / folder.name.upper())
    assert_inference_fails(tmp_path / "set", "has the class 'BLUE', which .* lacks, with 'blue', 'green', 'red'; spell")


def test_infer_dataset_warns_of_class_names_that_differ_only_in_case(tmp_path):
    write_pictures(tmp_path / "set", 4)
    assert "separate classes" not in infer_with_messages(tmp_path / "set")[1]
    first, second, *_ = sorted(each for each in (tmp_path / "set").iterdir() if each.is_dir())
    write_pictures(tmp_path / "other", 4)
    (tmp_path / "other" / second.name).rename(tmp_path / "set" / first.name.swapcase())
    record, said = infer_with_messages(tmp_path / "set")
    assert record.classes == 4
    listed = ", ".join(f"'{name}'" for name in sorted((first.name, first.name.swapcase())))
    assert f"warning: {listed} are separate classes; if they are one class, merge their folders" in said


def test_infer_dataset_warns_of_class_names_that_look_the_same(tmp_path):
    write_pictures(tmp_path / "other", 4)
    classes = [each for each in sorted((tmp_path / "other").iterdir()) if each.is_dir()]
    names = ["\u00f6l 1", "o\u0308l 1", "\u00f6l  1"]  # one letter, a letter with an accent, two spaces
    for name, folder in zip(names, classes, strict=True):
        shutil.copytree(folder, tmp_path / "set" / name)
    record, said = infer_with_messages(tmp_path / "set")
    assert record.classes == 3 and f"warning: {', '.join(repr(name) for name in sorted(names))} are separate" in said


def test_unread_files_that_may_hold_labels_are_named_beside_class_folders(tmp_path):
    write_pictures(tmp_path / "set", 4)
    (tmp_path / "set" / "class_names.json").write_text("{}")
    assert "not read" not in infer_with_messages(tmp_path / "set")[1]
    (tmp_path / "set" / "annotations.json").write_text("{}")  # folders may be numbered buckets, as of Danbooru
    assert "not read: 'annotations.json'; classes are the names of the" in infer_with_messages(tmp_path / "set")[1]


def test_strips_whose_central_square_is_a_pixel_are_named(tmp_path):
    for number in range(16):
        strip = np.random.default_rng(number).integers(0, 256, (64, 1, 3), np.uint8)
        (tmp_path / "ab"[number % 2]).mkdir(exist_ok=True)
        (tmp_path / "ab"[number % 2] / f"{number}.png").write_bytes(png(strip))
    assert "16 of 16 inspected images have one value in their central squares, such" in infer_with_messages(tmp_path)[1]


def test_palettes_without_colours_and_transparent_images_are_named(tmp_path):
    for number in range(16):
        mask = Image.fromarray(np.random.default_rng(number).integers(0, 3, (12, 12), np.uint8), "P")
        mask.putpalette([0] * 768)
        mask.info["transparency"] = number % 2
        (tmp_path / "ab"[number % 2]).mkdir(exist_ok=True)
        mask.save(tmp_path / "ab"[number % 2] / f"{number}.png")
    said = infer_with_messages(tmp_path)[1]
    assert "have values from 0 to 0 of 255" in said
    assert "16 of 16 inspected images are transparent in part: the colours stored there are used" in said
    assert (
        "16 of 16 inspected images have one value in their central squares, because the transparency holds the picture"
        in said
    )


@pytest.mark.parametrize("listed", ["both", "one"])
def test_infer_dataset_warns_of_label_file_that_contradicts_folders(tmp_path, listed):
    """The file labels names that occur in both folders, or images of one folder only, so that folders are classes."""
    for folder in ("x", "y"):
        for number in range(8):
            path = tmp_path / "set" / folder / (f"{number}.png" if listed == "both" else f"{folder}{number}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (30 * number, 9, 40)).save(path)
    prefix = "" if listed == "both" else "x"
    rows = "".join(f"{prefix}{number}.png,{'ab'[number % 2]}\n" for number in range(8))
    (tmp_path / "set" / "labels.csv").write_text(f"name,label\n{rows}")
    record, said = infer_with_messages(tmp_path / "set")
    assert record.classes == 2 and not record.label_files
    words = "warning: labels.csv names '0.png', which may be x/0.png, y/0.png; write the folder of each image into"
    if listed == "one":
        words = (
            "warning: classes are the folders' names, but 'labels.csv' gives other classes to 8 images; if the file is "
        )
        words += 'right, write labels = ["labels.csv"] under [data]'
    assert words in said


@pytest.mark.parametrize(
    ("name", "heading", "row", "warned"),
    [
        ("labels/all.txt", "", "pictures/{path} {label}", True),  # as RVL-CDIP and Clothing1M
        ("train.csv", "id,landmark_id\n", "{stem},{label}", True),
        ("train.csv", "id,patient_id\n", "{stem},{label}", False),
        ("boxes.txt", "", "pictures/{path} {label} {third} 7", False),
    ],
)
def test_lists_of_images_and_labels_that_contradict_folders_are_named(tmp_path, name, heading, row, warned):
    paths = [f"{folder}/{folder}{number}.png" for folder in "xy" for number in range(8)]
    rows = []
    for number, path in enumerate(paths):
        (tmp_path / "set" / "pictures" / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (15 * number, 9, 40)).save(tmp_path / "set" / "pictures" / path)
        rows.append(row.format(path=path, stem=path[2:-4], label=number % 2, third=number % 3))
    (tmp_path / "set" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "set" / name).write_text(heading + "\n".join(rows))
    record, said = infer_with_messages(tmp_path / "set")
    assert not record.label_files
    assert (f"the folders' names, but '{name}' gives other classes to 16 images; if the file" in said) == warned


def test_split_column_that_contradicts_split_folders_is_named(tmp_path):
    rows = ["path,split\n"]
    for number in range(24):
        split, folder = ("train", "test")[number % 2], "xy"[number // 2 % 2]
        path = tmp_path / "set" / split / folder / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (9 * number, 9, 40)).save(path)
        rows.append(f"{split}/{folder}/{number}.png,{'test' if number < 4 else split}\n")
    (tmp_path / "set" / "splits.csv").write_text("".join(rows))
    seen = "'splits.csv' gives the other split to 2 images, such as 'train/x/0.png'"
    assert f"warning: splits are the folders 'train' and 'test'; {seen}" in infer_with_messages(tmp_path / "set")[1]
    rows = ["path,split\n", *(row.replace("test", "val") for row in rows if row.startswith("train"))]
    (tmp_path / "set" / "splits.csv").write_text("".join(rows))  # divides the training images once more
    assert "gives the other split" not in infer_with_messages(tmp_path / "set")[1]


@pytest.mark.parametrize(
    ("first", "content", "copies"),
    [(0, "{number}", ["wild"]), (4, "{number}", []), (1, "{number}", ["wild"]), (2, "{number}", []), (0, "{path}", [])],
)
def test_folder_is_second_copy_only_if_most_of_its_files_are_beside_it(tmp_path, first, content, copies):
    """`wild/cat` beside `cat` may be kinds of a class of its own, and `both/left` beside `left` other images."""
    numbers = {f"set/{name}/{number}.png": number for name in ("cat", "dog") for number in range(4)}
    numbers |= {f"set/wild/{path}/{n}.png": n for path in ("cat", "dog") for n in range(first, first + 4)}
    for path, number in numbers.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content.format(path=path, number=number))
    assert find_copies(tmp_path, [*numbers]) == copies


def test_second_copy_of_the_name_of_the_folder_above_it_is_refused_beside_a_text(tmp_path):
    """The copy in `cell_images/cell_images` of Malaria was a class if a text lay beside the outer folder."""
    for path in ("cells", "cells/cells"):
        write_pictures(tmp_path / "set" / path)
    assert infer_dataset(tmp_path / "set", lambda line: None).classes == 3
    (tmp_path / "set" / "readme.txt").write_text("about cells")
    words = f"'cells/cells' holds the folders and files beside it once more; name the folder {tmp_path}/set/cells"
    assert_inference_fails(tmp_path / "set", words)


@pytest.mark.parametrize(("content", "copies"), [("same", ["ham_part_1"]), ("other", [])])
def test_folder_of_a_name_in_another_case_is_a_copy_if_its_files_are_the_same(tmp_path, content, copies):
    """HAM10000 of Kaggle has `HAM10000_images_part_1` and `ham10000_images_part_1`."""
    paths = [f"{folder}/{number}.png" for folder in ("HAM_part_1", "HAM_part_2", "ham_part_1") for number in range(4)]
    for path in paths:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(f"{content}{path}" if path[0] == "h" and content == "other" else path[10:])
    assert find_copies(tmp_path, paths) == copies


def test_many_folders_are_planned_in_few_steps():
    def count_calls(folders):
        with cProfile.Profile() as profile:
            paths = [f"{number % folders}/{number}.png" for number in range(5 * folders)]
            find_copies(Path(), paths)
            plan_folders(Path(), paths)
        return sum(entry.callcount for entry in profile.getstats())

    assert count_calls(400) < 5 * count_calls(100)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (("y", "x"), "labels the images of the folder 'x' 'y'; if the file is right"),
        (("1", "0"), "labels the images of the folder 'x' '1'"),
        (("0", "1"), ""),
        (("zebra", "ant"), ""),  # other names of the same classes
    ],
)
@pytest.mark.parametrize("heading", ["name,label\n", ""])
def test_infer_dataset_warns_of_label_file_that_exchanges_names_of_folders(tmp_path, labels, said, heading):
    """The classes are the same, but a network that was trained by the file has its outputs in another order."""
    rows = [heading]
    for folder, label in zip("xy", labels, strict=True):
        (tmp_path / "set" / folder).mkdir(parents=True)
        for number in range(8):
            shade = (30 * number, 9, 40 + 100 * (folder == "x"))
            Image.new("RGB", (8, 8), shade).save(tmp_path / "set" / folder / f"{folder}{number}.png")
            rows.append(f"{folder}{number}.png,{label}\n")
    (tmp_path / "set" / "labels.csv").write_text("".join(rows))
    warned = infer_with_messages(tmp_path / "set")[1]
    assert said in warned and ("but 'labels.csv'" in warned) == bool(said)


def test_class_folder_named_like_split_is_rejected(tmp_path):
    folder = write_pictures(tmp_path / "set")
    (folder / "red").rename(folder / "train")
    seen = "the folder 'train' is named like a split, beside blue, green; name the split .*; if 'train' is a class, "
    assert_inference_fails(tmp_path / "set", seen)
    path = tmp_path / "set.toml"
    path.write_text(TEXT.replace('images = "pictures"', 'images = "set"'))
    assert read_suite(path).dataset_record.classes == 3  # a suite file may declare the folder as a class
    (tmp_path / "set" / "blue").rename(tmp_path / "set" / "Test")
    with pytest.raises(CallerError, match="has 'train' and 'Test', which are splits and not classes; write train = "):
        read_suite(path)


@pytest.mark.parametrize(
    ("folders", "depth", "remedy"),
    [
        ("a/train a/test b/train b/test", "2", 'train = "*/train" and test = "*/test"'),
        ("train/x train/y test/x test/y", '"last"', 'train = "train" and test = "test"'),
        ("a/x a/y b/x b/y", "2", ""),
        ("train/x train/y", '"last"', ""),
    ],
)
def test_split_folders_at_any_level_are_no_classes(tmp_path, folders, depth, remedy):
    for number, name in enumerate(folders.split()):
        for image in range(4):
            (tmp_path / "set" / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (30 * number, 9, 40 * image)).save(tmp_path / "set" / name / f"{image}.png")
    path = tmp_path / "set.toml"
    path.write_text(TEXT.replace('images = "pictures"', f'images = "set"\nclass_depth = {depth}'))
    if not remedy:
        assert read_suite(path).dataset_record.classes == 2
        return
    with pytest.raises(CallerError, match=re.escape(f"which are splits and not classes; write {remedy} in place")):
        read_suite(path)


def test_infer_dataset_follows_links_but_not_loops(tmp_path):
    write_pictures(tmp_path / "set")
    (tmp_path / "set" / "red" / "00.png").rename(tmp_path / "moved.png")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "moved.png").rename(tmp_path / "elsewhere" / "00.png")
    (tmp_path / "set" / "red" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "set" / "red" / "loop").symlink_to(tmp_path / "set")
    record, _ = infer_with_messages(tmp_path / "set")
    assert record.train_images + record.test_images == 24
    (tmp_path / "set" / "red" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    assert_inference_fails(tmp_path / "set", "gone.png is a link to a missing file; repair or remove the link")


def test_infer_dataset_reports_skipped_files_and_ignores_macosx_folder(tmp_path):
    write_pictures(tmp_path / "set")
    (tmp_path / "set" / "__MACOSX").mkdir()
    for name in ("a.heic", "b.heic", "notes.txt", ".DS_Store"):
        (tmp_path / "set" / "red" / name).write_bytes(b"x")
    for ending in ("avif", "jfif"):
        Image.new("RGB", (10, 9)).save(tmp_path / "set" / "red" / f"one.{ending}", "JPEG")
    record, said = infer_with_messages(tmp_path / "set")
    assert (record.classes, record.train_images + record.test_images) == (3, 26)
    assert "files without the ending of an image file are left out: 2 .heic, 1 .txt" in said


@pytest.mark.parametrize(("scale", "depth"), [(1, 8), (3, 10), (16, 12), (257, 16), (2**13, 21)])
def test_new_suite_file_has_depth_of_deep_grey_images(working_folder, scale, depth):
    for name in ("a", "b"):
        (working_folder / "set" / name).mkdir(parents=True)
        for number in range(2):
            values = np.arange(192, 256, dtype=np.int32).reshape(8, 8) * scale
            image = Image.fromarray(values if depth > 16 else values.astype(np.uint16))
            image.save(working_folder / "set" / name / f"{number}.{'tif' if depth > 16 else 'png'}")
    path = write_new_suite_file(working_folder / "set")
    record = read_suite(path).dataset_record
    assert (record.depth, record.channels) == (depth, 1)
    pixels = decode_dataset(record, working_folder / "store").train.pixels
    np.testing.assert_array_equal(pixels[0].ravel(), np.arange(192, 256) * scale >> (depth - 8))
    path.write_text(path.read_text().replace("depth =", "# depth ="))
    if depth != 16:
        with pytest.raises(DataError, match=f"but are read as 16 bits; write depth = {depth} under"):
            decode_dataset(read_suite(path).dataset_record, working_folder / "store")


def write_parquet_split(folder, labels, split="train", images=None, columns=("image", "label")):
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [IMAGE] * len(labels) if images is None else images
    pq.write_table(pa.table({columns[0]: pictures, columns[1]: labels}), folder / f"{split}-00000-of-00001.parquet")


WORDS = ["cat", "ant", "cat", "ant"]


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [
        (pa.array(WORDS, pa.large_string()), [1, 0, 1, 0]),
        (pa.array(WORDS, pa.string_view()), [1, 0, 1, 0]),
        (pa.array(WORDS).dictionary_encode(), [1, 0, 1, 0]),
        (pa.array([1, 0, 1, 0], pa.uint8()).dictionary_encode(), [1, 0, 1, 0]),
        (pa.array([True, False, True, False]), [1, 0, 1, 0]),
        (pa.array([1.0, 0.0, 1.0, 0.0]), [1, 0, 1, 0]),
        (pa.array([1, 0, 1, 0], pa.uint8()), [1, 0, 1, 0]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_infer_dataset_reads_parquet_labels_of_every_type(tmp_path, labels, numbers):
    for split in ("train", "test"):
        write_parquet_split(tmp_path / "set", labels, split)
    record, _ = infer_with_messages(tmp_path / "set")
    assert (record.own, record.label_column, record.classes) == (PARQUET, "label", 2)
    assert open_undecoded_splits(record, None)[Split.TEST].labels.tolist() == numbers


def test_infer_dataset_replaces_test_split_with_hidden_labels(tmp_path):
    write_parquet_split(tmp_path / "set", [0, 1] * 4)
    for hidden in ([-1] * 4, pa.array([None] * 4, pa.int64())):
        write_parquet_split(tmp_path / "set", hidden, "test")
        record, said = infer_with_messages(tmp_path / "set")
        assert (record.train_split, record.share) == ("train", 0.3)
        assert "the split 'test' has no labels; test images are drawn from 'train'" in said
    write_parquet_split(tmp_path / "set", range(4), "test", columns=("image", "id"))
    assert "the split 'test' has no labels; test images are drawn" in infer_with_messages(tmp_path / "set")[1]
    write_parquet_split(tmp_path / "set", pa.array([], pa.int64()), "test")
    said = infer_with_messages(tmp_path / "set")[1]
    assert "the split 'test' has no rows; test images are drawn from 'train'" in said
    write_parquet_split(tmp_path / "set", [0, 1], "validation")
    record, said = infer_with_messages(tmp_path / "set")
    assert (record.test_split, record.test_images) == ("validation", 2)
    assert "the split 'test' has no rows; 'validation' is used" in said
    write_parquet_split(tmp_path / "set", [-1] * 4, "test")
    text = compose_suite_text("set", record, str(tmp_path / "set")).replace('test = "validation"', 'test = "test"')
    (tmp_path / "set.toml").write_text(text)
    words = "has the label -1, which usually means withheld labels; name a split with labels"
    with pytest.raises(CallerError, match=words):
        read_suite(tmp_path / "set.toml")


@pytest.mark.parametrize(("labels", "lack"), [(pa.array([], pa.int64()), "rows"), ([-1, -1], "labels")])
def test_infer_dataset_rejects_training_split_without_rows_or_labels(tmp_path, labels, lack):
    write_parquet_split(tmp_path, [0, 1] * 4, "test")
    write_parquet_split(tmp_path, labels, images=pa.array([IMAGE] * len(labels), pa.binary()))
    assert_inference_fails(tmp_path, f"the split 'train' has no {lack}; expected images with labels to train on")


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ({"bytes": None, "path": "1.png"}, "1 of 4 rows of the split 'test' have no image in column 'image'; remove"),
        (None, "1 of 4 rows of the split 'test' have no image in column 'image'; remove these rows"),
        (
            {"bytes": b"", "path": "1.png"},
            r"1 of 12 images .*: row 3 of 'test' \(1 unreadable\); repair or remove them",
        ),
    ],
)
def test_infer_dataset_rejects_rows_without_images(tmp_path, missing, said):
    """Only `run` found these rows, after the images before them were decoded."""
    write_parquet_split(tmp_path, [0, 1] * 4)
    images = [{"bytes": IMAGE, "path": "0.png"}] * 3 + [missing]
    write_parquet_split(tmp_path, [0, 1] * 2, "test", images)
    assert_inference_fails(tmp_path, said)


PATHS_ALONE = "has no bytes in its column 'image', probably because only paths were stored"


@pytest.mark.parametrize(("name", "lack"), [("train", "the split 'train' has no images"), ("test", "")])
@pytest.mark.parametrize("is_struct", [True, False])
def test_splits_of_paths_and_of_no_images_are_named(tmp_path, name, lack, is_struct):
    """Test images may be withheld, as labels are."""
    write_parquet_split(tmp_path, [0, 1] * 4, "train" if name == "test" else "test")
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    paths = pa.array([{"bytes": None, "path": "1.png"}] * 4, kind)
    write_parquet_split(tmp_path, [0, 1] * 2, name, paths)
    assert_inference_fails(tmp_path, PATHS_ALONE)
    write_parquet_split(tmp_path, [0, 1] * 2, name, pa.array([None] * 4, kind if is_struct else pa.binary()))
    if lack:
        assert_inference_fails(tmp_path, lack)
    else:
        record, said = infer_with_messages(tmp_path)
        assert record.share and "the split 'test' has no images; test images are drawn from 'train'" in said


@pytest.mark.parametrize("columns", [("path",), ("file_name", "caption")])
def test_names_in_parquet_files_are_checked(tmp_path, columns):
    """Slices of ten patients are drawn one by one; the names are beside the bytes, or in a column of their own."""
    names = [f"{number % 2}/patient{number // 4}_{number}.png" for number in range(40)]
    content = [IMAGE] * 40
    beside = {"image": pa.array([{"bytes": IMAGE, "path": name} for name in names])}
    apart = {"image": pa.array(content, pa.binary()), columns[0]: names, "caption": ["a scan"] * 40}
    table = pa.table({**(beside if columns == ("path",) else apart), "label": [number % 2 for number in range(40)]})
    (tmp_path / "set").mkdir()
    pq.write_table(table, tmp_path / "set" / "train.parquet", row_group_size=16)
    said = []
    infer_dataset(tmp_path / "set", said.append)
    (line,) = (line for line in said if "names with" in line)
    assert line.startswith("warning: names with 'patient0' and alike have 20 values in 40 images, which are drawn for")


def test_images_of_all_rows_tell_colour_and_size_of_parquet_files(tmp_path):
    """Rows are often sorted by class, and the first class may be grey."""
    grey, red = png(np.zeros((8, 8), np.uint8)), png(np.full((16, 16, 3), (200, 0, 0), np.uint8))
    write_parquet_split(tmp_path / "set", [0] * 70 + [1] * 75, images=[grey] * 70 + [red] * 75)
    record, _ = infer_with_messages(tmp_path / "set")
    assert (record.channels, record.size) == (3, 16)


CARD = """---
configs:
- config_name: first
  data_files: [{split: train, path: a/train-*}]
- config_name: second
  data_files: [{split: train, path: b/train-*}]
---
"""


def test_hub_copy_with_several_configurations_is_rejected(tmp_path):
    """No configuration is the default; a suite file raises the same error."""
    for name in "ab":
        write_parquet_split(tmp_path / "set" / name, [0, 1] * 4)
    (tmp_path / "set" / "README.md").write_text(CARD)
    said = "set has several configurations: first, second; name the folder that holds the files of one configuration$"
    assert_inference_fails(tmp_path / "set", said)
    record, _ = infer_with_messages(tmp_path / "set" / "a")
    with pytest.raises(DataError, match=said):
        open_undecoded_splits(record, tmp_path / "set")
    (tmp_path / "set" / "README.md").write_text(CARD.replace("name: second", "name: second\n  default: true"))
    (tmp_path / "set" / ".cache").mkdir()
    (tmp_path / "set" / ".cache" / "old.parquet").touch()
    said = infer_with_messages(tmp_path / "set")[1].split("\n")
    reason = "to which README.md or their names give no split"
    assert f"warning: not read: 'a/train-00000-of-00001.parquet', {reason}" in said


def test_infer_dataset_finds_parquet_splits_and_requires_training_split(tmp_path):
    for name, labels in (("Train", [0, 1, 0, 1]), ("Test", [0, 1])):
        write_parquet_split(tmp_path / "set" / name, labels, "data")
        write_parquet_split(tmp_path / "three", labels, name.lower())
    write_parquet_split(tmp_path / "three", [1], "validation")
    record, said = infer_with_messages(tmp_path / "set")
    assert (record.train_images, record.test_images) == (4, 2) and "not used" not in said
    assert "not used: the images of 'validation'" in infer_with_messages(tmp_path / "three")[1]
    write_parquet_split(tmp_path / "only", [0, 1], "test")
    assert_inference_fails(tmp_path / "only", "has the splits test, but no training split; name training files train-")


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("target", [0, 0, 1, 1], "classes: column 'label'; not used: 'target'"),
        ("coarse_label", [0, 0, 1, 1], "classes: column 'label'; not used: 'coarse_label'"),
        ("split", ["train", "train", "test", "test"], "warning: column 'split' has the values 'test', 'train', but"),
        ("is_test", [False, False, True, True], "warning: column 'is_test' has the values 'false', 'true', but"),
        ("patient_id", [7, 7, 8, 8], "warning: column 'patient_id' has 2 values in 12 images, which are drawn for"),
        ("patient_id", range(4), "warning: column 'patient_id' has 4 values in 12 images"),
        ("SiteID", [7, 7, 8, 8], "warning: column 'SiteID' has 2 values in 12 images, which are drawn for"),
        ("note", list("abab"), ""),
        ("genus_id", [7, 8, 7, 8], ""),
    ],
)
@pytest.mark.parametrize("files", [1, 3])
def test_other_columns_of_parquet_files_are_named(tmp_path, name, values, words, files):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), np.uint8)
    table = pa.table({"image": [*map(png, pixels)], "label": [0, 1] * 6, name: [*values] * 3})
    for number in range(files):
        part = table.slice(number * 12 // files, 12 // files)
        pq.write_table(part, tmp_path / f"train-{number:05}-of-{files:05}.parquet")
    said = infer_with_messages(tmp_path)[1]
    assert words in said and bool(words) == (name in said)
    assert ("classes: column 'label'" in said) == ("not used" in words)


@pytest.mark.parametrize("name", ["id", "path", "image_id", "split"])
def test_names_of_images_and_splits_are_no_classes(tmp_path, name):
    write_parquet_split(tmp_path / "set", list("abab"), columns=("image", name))
    assert_inference_fails(tmp_path / "set", f"holds labels, because '{name}' should name images or splits; write")


def test_arrow_files_beside_parquet_files_are_named(tmp_path):
    """Folders of save_to_disk give the splits their names, and were read as parquet files."""
    write_parquet_split(tmp_path / "set", list("abab"))
    for split in ("train", "test"):
        (tmp_path / "set" / split).mkdir()
        (tmp_path / "set" / split / "data-00000-of-00001.arrow").write_bytes(b"ARROW1")
    words = "splits of files of other kinds, such as .*arrow; move the parquet files into a folder of their own"
    assert_inference_fails(tmp_path / "set", words)


def test_column_of_classes_without_usual_name_is_named(tmp_path):
    write_parquet_split(tmp_path, [0, 1] * 4, columns=("image", "age"))
    assert "classes: column 'age'" in infer_with_messages(tmp_path)[1].split("\n")


@pytest.mark.parametrize(
    ("patients", "words"),
    [
        (([7, 7, 8, 8], [9, 9, 10, 10]), ""),
        (([7, 7, 8, 8], [8, 9, 9, 10]), "1 of the 3 values of test images, such as '8', are"),
        (([7, 7, None, 8], [None, 9, 9, 10]), ""),
        ((["a", "a", "b", "b"], pa.array(["b", "b", "c", "c"]).dictionary_encode()), "images, such as 'b', are"),
    ],
)
def test_patients_in_both_splits_of_parquet_files_are_counted(tmp_path, patients, words):
    for split, values in zip(("train", "test"), patients, strict=True):
        write_parquet_split(tmp_path, [0, 1] * 2, split)
        path = tmp_path / f"{split}-00000-of-00001.parquet"
        table = pq.read_table(path).append_column("patient", pa.chunked_array([pa.array(values)]))
        pq.write_table(table.append_column("split", [["train", "test"] * 2]), path)
    record, said = infer_with_messages(tmp_path)
    assert words in said and bool(words) == ("column 'patient'" in said) and "'split'" not in said
    by_hand = "".join(describe_columns(record))
    assert words in by_hand and bool(words) == bool(by_hand)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("fit", "holdout"), "the files 'fit', 'holdout' are taken for one split"),
        (("a/train", "b/train"), "the files 'a/train', 'b/train' are taken for one split, from which test images"),
        (("data-00000-of-00002", "data-00001-of-00002"), ""),
        (("part_1", "part_2"), ""),
        (("train", "test"), ""),
    ],
)
def test_parquet_files_that_are_taken_for_one_split_are_named(tmp_path, names, words):
    rng = np.random.default_rng(0)
    for name in names:
        images = [png(pixels) for pixels in rng.integers(0, 256, (12, 8, 8, 3), np.uint8)]
        write_rows(tmp_path / "set" / f"{name}.parquet", images, [0, 1] * 6)
    said = infer_with_messages(tmp_path / "set")[1]
    assert words in said and ("taken for one split" in said) == bool(words)


def test_infer_dataset_rejects_missing_parquet_file_of_split(tmp_path):
    for number in (0, 2):
        write_rows(tmp_path / "set" / f"train-0000{number}-of-00003.parquet", [IMAGE] * 4, [0, 1, 0, 1])
    words = "has 2 of the 3 files of 'train'; download the missing files: train-00001-of-00003"
    assert_inference_fails(tmp_path / "set", words)


def test_infer_dataset_rejects_mixed_label_types_across_files(tmp_path):
    for number, labels in enumerate(([0, 1], ["a", "b"])):
        write_rows(tmp_path / "set" / f"train-0000{number}-of-00002.parquet", [IMAGE] * 2, labels)
    seen = "'label' has strings in train-00001-of-00002.parquet and numbers without names in train-00000-of-00002"
    assert_inference_fails(tmp_path / "set", seen)


def test_infer_dataset_ignores_parquet_file_without_images(tmp_path):
    write_pictures(tmp_path / "set")
    pq.write_table(pa.table({"file": ["a"], "width": [3]}), tmp_path / "set" / "statistics.parquet")
    record, said = infer_with_messages(tmp_path / "set")
    assert record.own == FOLDERS and "only image files are read, parquet files beside" in said
    write_parquet_split(tmp_path / "set", [0, 1] * 4)
    record, said = infer_with_messages(tmp_path / "set")
    assert record.own == PARQUET and "only parquet files are read, image files beside" in said


def test_infer_dataset_rejects_git_lfs_pointers(tmp_path):
    write_parquet_split(tmp_path / "set", [0, 1])
    for path in (tmp_path / "set" / "train-00000-of-00001.parquet", tmp_path / "rows.csv"):
        path.write_bytes(POINTER)
    for place in ("set", "rows.csv"):
        words = "is a pointer of Git LFS, not the file itself; run `git lfs pull` there"
        assert_inference_fails(tmp_path / place, words)


def test_infer_dataset_reports_skipped_table_columns(tmp_path):
    path = tmp_path / "rows.csv"
    rows = [f"{i},{i},{i * i},{'?' if i == 3 else i},x{i},{i % 2}\n" for i in range(8)]
    path.write_text("".join(["id,a,b,c,d,y\n", *rows]))
    record, said = infer_with_messages(path)
    assert record.columns == ("a", "b")
    assert "column 'c' is left out: it holds numbers as text, such as '?' in 1 of 8 rows; write plain" in said
    assert "columns left out, because they hold text: 'd'" in said


def write_patients(path, rows, labels):
    """Write a table with ids, an index, a constant site and a measure; `rows` are the patients of the rows."""
    lines = [f"{i},{100_001 + i},7,{i / 8},{label}\n" for i, label in zip(rows, labels, strict=True)]
    path.write_text("".join(["index,patient,site,measure,outcome\n", *lines]))
    return path


@pytest.mark.parametrize("place", ["spectrograms.npz", "folder/rising/1.npy"])
def test_infer_dataset_points_from_arrays_to_python(tmp_path, place):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_bytes(b"")
    with pytest.raises(
        DataError,
        match=r"(is a file|1 \.npy); .*save images as PNG .*; in Python, rb\.Suite\.from_arrays takes",
    ):
        infer_dataset(tmp_path / place.partition("/")[0], print)


def test_infer_dataset_names_ids_and_constant_columns(tmp_path):
    record, said = infer_with_messages(write_patients(tmp_path / "rows.csv", range(20), ["home", "ward"] * 10))
    assert record.columns == ("patient", "measure")
    assert "columns left out, because their names are those of row numbers: 'index'" in said
    assert "columns left out, because all rows have one value: 'site'" in said
    assert (
        "rows.csv: column 'patient' has a different whole number in every row that is not repeated, as ids have" in said
    )
    assert "column 'measure' has a different" not in said and "test rows have" not in said


def test_infer_dataset_counts_repeated_rows_in_both_splits(tmp_path):
    path = write_patients(tmp_path / "rows.csv", [*range(20), *range(20)], ["home", "ward"] * 20)
    record, said = infer_with_messages(path)
    values, labels = read_features_and_labels(path, record)
    train, test = (values[select_rows_of_split(record, split, labels)].tolist() for split in Split)
    repeated = sum(row in train for row in test)
    assert 0 < repeated < len(test)
    assert f"warning: rows.csv: {repeated} of 12 test rows have the same features as a training row; delete" in said
    assert "column 'patient' has a different whole number" in said, "rows of one patient are alike"
    many = write_patients(tmp_path / "many.csv", [*range(5)] * 8, ["home", "ward"] * 20)
    assert "has a different whole number" not in infer_with_messages(many)[1], "five values are not ids"


def test_infer_dataset_lists_classes_and_warns_of_alike_names(tmp_path):
    labels = ["home"] * 10 + ["Home"] * 4 + ["home "] * 2 + ["ward"] * 4
    said = infer_with_messages(write_patients(tmp_path / "rows.csv", range(20), labels))[1]
    assert "classes in column 'outcome': 'home' 50.0%, 'Home' 20.0%, 'ward' 20.0%, 'home ' 10.0%" in said
    assert "warning: 'Home', 'home', 'home ' are separate classes; if they are one class, spell them alike" in said
    labels = ["home"] * 10 + ["home\u200b", "ｈome"] * 5  # a space without width and a wide letter, as on web pages
    said = infer_with_messages(write_patients(tmp_path / "rows.csv", range(20), labels))[1]
    assert "warning: 'home', 'home\\u200b', 'ｈome' are separate classes" in said


@pytest.mark.parametrize(
    ("first", "warned"),
    [("1,2.5,0", True), ("1,2.5,y", True), ("2019,2020,y", False), ("39,13,>50K", True), ("39,13,income", False)],
)
def test_infer_dataset_warns_of_table_without_column_names(tmp_path, first, warned):
    path = tmp_path / "rows.csv"
    path.write_text(first + "\n" + ("5,2,<=50K\n3,4,>50K\n" if "39" in first else "1,2,0\n3,4,1\n") * 4)
    listed = ", ".join(f"'{name}'" for name in first.split(","))
    warning = f"rows.csv: the first row, {listed}, was read as column names; add a row of names before it"
    assert (warning in infer_with_messages(path)[1]) is warned


def test_parquet_table_accepts_numeric_column_names_without_warning(tmp_path):
    pq.write_table(pa.table({"0": [1.5, 2.5] * 4, "1": [2.5, 1.5] * 4, "2": [0, 1] * 4}), tmp_path / "rows.parquet")
    assert "first row" not in infer_with_messages(tmp_path / "rows.parquet")[1]


def test_infer_dataset_rejects_table_without_numeric_column(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + "x,0\nz,1\n" * 4)
    words = "rows.csv has no column of numbers that differ between rows beside its class column 'y'; name a"
    assert_inference_fails(path, words)


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a'b\"c", "äpfel 蜂 🐝", "a  # b"])
def test_new_suite_file_escapes_folder_and_class_names(working_folder, text):
    folder = write_pictures(working_folder / text)
    (folder / "red").rename(folder / f"red {text}")
    assert read_suite(write_new_suite_file(folder)).dataset_record.folder == str(folder)


def test_new_suite_file_escapes_column_names(working_folder):
    write_parquet_split(working_folder / "set", WORDS, columns=('im"age', "la\\bel"))
    record = read_suite(write_new_suite_file(working_folder / "set")).dataset_record
    assert (record.image_column, record.label_column) == ('im"age', "la\\bel")
    assert add_class_and_image_counts(record).classes == 2
    assert tomllib.loads(f"x = {format_toml([np.float64(0.1), np.int64(3)])}") == {"x": [0.1, 3]}


@pytest.mark.parametrize("name", ["caf\udce9", "two\nlines"])
def test_new_suite_file_rejects_unprintable_folder_name(working_folder, name):
    with pytest.raises(CallerError, match="has characters that cannot be printed; rename the folder"):
        write_new_suite_file(write_pictures(working_folder / name))
    assert not list(working_folder.glob("*.toml"))


@pytest.mark.parametrize("text", ["tab\tnew\nline", "\x7f\x01", 'a"b\\'])
def test_format_toml_round_trips_special_characters(text):
    assert tomllib.loads(f"x = {format_toml([text])}") == {"x": [text]}


def test_files_of_several_pictures_are_counted(tmp_path):
    for number in range(12):
        path = tmp_path / "ab"[number % 2] / f"{number}.tif"
        path.parent.mkdir(exist_ok=True)
        slices = [Image.fromarray(pixels) for pixels in np.random.default_rng(number).integers(0, 256, (3, 9, 9), "u1")]
        slices[0].save(path, save_all=True, append_images=slices[1:] if number < 8 else ())
    assert (
        "8 of 12 inspected images have several pictures, of which only the first is used"
        in infer_with_messages(tmp_path)[1]
    )


@pytest.mark.parametrize(("low", "high", "warned"), [(0, 1, True), (100, 104, True), (0, 40, False)])
def test_images_of_few_values_are_named(tmp_path, low, high, warned):
    """For example values 0 and 1 that were not multiplied by 255."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(4):
            pixels = np.random.default_rng(number + len(name)).integers(low, high + 1, (12, 12, 3)).astype(np.uint8)
            (tmp_path / name / f"{number}.png").write_bytes(png(pixels))
    said = []
    infer_dataset(tmp_path, said.append)
    assert any(f"have values from {low} to {high} of 255" in line for line in said) == warned

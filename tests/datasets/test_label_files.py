"""Label files: which label each image gets from files of many forms, and files that are refused."""

import json
import os
import shutil

import numpy as np
import pytest

from roarbench.common.enums import Split
from roarbench.common.errors import CallerError, DataError
from roarbench.datasets import file_locations_and_downloads, find_label_files
from roarbench.datasets.choose_layout import choose_layout
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.file_locations_and_downloads import hash_users_files
from roarbench.datasets.find_label_files import search_label_files
from roarbench.datasets.image_splits import list_images_and_class_names
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.label_files import ImageIndex, LabelColumns, find_names_in_list, read_image_labels
from roarbench.plan.suites import read_suite
from tests.helpers.image_files import TEXT, png, write_pictures

PATHS = ["a/1.png", "a/2.png", "b/3.jpg", "b/4.jpg"]


def read_labels(folder, content, name="labels.csv", paths=PATHS, **columns):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode())
    return read_image_labels(folder, [name], LabelColumns(**columns), paths)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labels.csv", "path,label\na/1.png,007\na/2.png,7\nb/3.jpg,NA\nb/4.jpg,null\n"),
        ("labels.csv", "\ufefffile_name;label\r\n1.png;007\r\n2.png;7\r\n3.jpg;NA\r\n4.jpg;null\r\n"),
        ("labels.csv", '"x","image id","Label"\n1,"1","007"\n2,"2","7"\n3,"3"," NA"\n4,"4","null"\n'),
        ("labels.csv", "1.png,007\n2.png,7\n3.jpg,NA\n4.jpg,null\n"),
        ("labels.txt", '"x","file","label"\n"a, b","1.png","007"\n"","2","7"\n"","3","NA"\n"","4","null"\n'),
        ("labels.tsv", "label\timg\n007\t1\n7\t2\nNA\t3\nnull\t4\n"),
        ("labels.txt", "# image label\n./a/1.png 007\n/a/2.png 7\nb/3.jpg NA\nb/4.jpg null\n"),
        ("labels.txt", "a/1 007\n\na/2 7\n  \nb/3 NA\nb/4 null"),
        ("labels.txt", "1.png\t007\t5\n2.png\t7\t5\n3.jpg\tNA\t5\n4.jpg\tnull\t5\n"),
        ("labels.txt", "7 007 a/1.png 007\n7 7 a/2.png 7\n7 7 b/3.jpg NA\n7 7 b/4.jpg null\n"),
        (
            "labels.jsonl",
            "\n".join(
                json.dumps({"file_name": file, "label": label})
                for file, label in zip(PATHS, ("007", 7, "NA", "null"), strict=True)
            ),
        ),
        ("labels.csv", "path,label\n/home/me/set/a/1.png,007\nset\\a\\2.png,7\nset/b/3.jpg,NA\nset/b/4.jpg,null\n"),
        ("labels.csv", "sep=;\r\nweight;file;label\r\n5;1.dcm;007\r\n5;2.DCM;7\r\n5;3.wav;NA\r\n5;4.png;null\r\n"),
        ("labels.csv", "path,label\n1.jpeg,007\n2.jpeg,7\n3.png,NA\n4.png,null\n"),
        ("labels.csv", "id,filename,label\n4,1.png,007\n3,2.png,7\n2,3.jpg,NA\n1,4.jpg,null\n"),
        ("labels.csv", "label|image\n007|1.png\n7|2.png\nNA|3.jpg\nnull|4.jpg\n"),
        ("labels.txt", "1.png|007|a b\n2.png|7|a, b\n3.jpg|NA|b\n4.jpg|null|c\n"),
        ("labels.txt", "image label x y\n1 007 5 6\n2 7\n3 NA\n4 null 5 6\n"),  # as in MIAS
        ("labels.txt", "image label text\n1 007 a b\n2 7 a\n3 NA a b c\n4 null a\n"),
    ],
)
def test_labels_are_text_of_each_image(tmp_path, name, content):
    found = read_labels(tmp_path, content, name)
    assert found.labels == dict(zip(PATHS, ("007", "7", "NA", "null"), strict=True))
    assert not found.missing and not found.several


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("1.wav", "set/1.png"),
        ("1.wav", "set/1.wav.png"),
        ("set/1.dcm", "set/1.dcm.png"),
        ("1.jpg", "1.jpg.png"),
        ("1.v2", "1.v2.png"),
    ],
)
def test_names_of_images_may_have_the_suffix_of_their_originals(name, path):
    index = ImageIndex([path, "set/2.png"])
    assert (index.find(name), index.has(name), index.has("3.wav")) == ([path], True, False)


def test_first_row_may_name_an_image_that_is_gone(tmp_path):
    found = read_labels(tmp_path, "gone.png,x\n1.png,y\n2.png,x\n")
    assert (found.labels, found.missing) == ({"a/1.png": "y", "a/2.png": "x"}, ("gone.png",))


def test_label_file_above_nested_class_folders_is_read_from_its_own_folder(tmp_path):
    for path in ("set/a/1.png", "set/a/2.png", "set/b/3.png", "set/b/4.png"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(png(np.zeros((8, 8, 3), np.uint8)))
    (tmp_path / "labels.csv").write_text("file,label\n1.png,x\n2.png,y\n3.png,x\n4.png,y\n")
    fields = choose_layout(tmp_path, lambda line: None).fields
    assert (fields["folder"], fields["label_files"]) == (str(tmp_path), ("labels.csv",))


def test_list_that_names_no_image_is_refused(tmp_path):
    (tmp_path / "train.txt").write_text("some images\nof cats\n")
    with pytest.raises(DataError, match="columns '1', '2', but none names an image in .*; expected a list"):
        find_names_in_list(tmp_path / "train.txt", tmp_path, "", ImageIndex(PATHS))


def test_names_are_looked_up_beside_label_file_first(tmp_path):
    paths = ["train/1.png", "test/1.png"]
    for split in ("train", "test"):
        found = read_labels(tmp_path, f"1.png,{split}\n", f"{split}/metadata.csv", paths)
        assert found.labels == {f"{split}/1.png": split}


def test_files_are_joined_by_id_or_by_name(tmp_path):
    """CUB-200-2011 joins three files by an id; CelebA joins attributes and splits by the image's name."""
    (tmp_path / "image_class_labels.txt").write_text("1 7\n2 8\n3 7\n4 8\n5 9\n")
    (tmp_path / "train_test_split.txt").write_text("1 1\n2 1\n3 0\n4 0\n5 0\n")
    (tmp_path / "images.txt").write_text("1 a/2.png\n2 a/1.png\n3 b/3.jpg\n4 b/4.jpg\n5 b/gone.jpg\n")
    files = ["image_class_labels.txt", "train_test_split.txt", "images.txt"]
    found = read_image_labels(tmp_path, files, LabelColumns(split="train_test_split.txt"), PATHS)
    labelled = [(found.labels[path], found.splits[path]) for path in PATHS]
    assert labelled == [("8", "1"), ("7", "1"), ("7", "0"), ("8", "0")]
    assert found.missing == ("b/gone.jpg", "5")
    (tmp_path / "attributes.csv").write_text("image_id,Male,Smiling\n1,1,-1\n2,1,1\n3,-1,1\n4,1,1\n")
    (tmp_path / "splits.csv").write_text("image_id,partition\n4,2\n3,2\n2,0\n1,0\n")
    wanted = LabelColumns(label="Smiling", split="partition")
    found = read_image_labels(tmp_path, ["attributes.csv", "splits.csv"], wanted, PATHS)
    assert [(found.labels[path], found.splits[path]) for path in PATHS] == [
        ("-1", "0"),
        ("1", "0"),
        ("1", "2"),
        ("1", "2"),
    ]


def test_ids_that_are_names_of_other_images_are_joined(tmp_path):
    """Files of CUB-200's form whose images are `1.png` and so on gave ids for names, and no splits."""
    paths = [f"{'ab'[n % 2]}/{n}.png" for n in range(20)]
    for n, path in enumerate(paths):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(png(np.full((8, 8, 3), 9 * n, np.uint8)))
    (tmp_path / "images.txt").write_text("".join(f"{n} {path}\n" for n, path in enumerate(reversed(paths))))
    (tmp_path / "train_test_split.txt").write_text("".join(f"{n} {int(n > 7)}\n" for n in range(20)))
    record = infer_dataset(tmp_path, lambda line: None)
    tested, _ = list_images_and_class_names(record, tmp_path).splits[Split.TEST]
    assert sorted(tested) == sorted(paths[-8:])


def test_pattern_of_columns_names_images(tmp_path):
    content = "patient,slide,label\n004,7,x\n4,17,y\n"
    paths = ["p004/s_7.png", "p004/s_17.png", "p4/s_7.png", "p4/s_17.png"]
    found = read_labels(tmp_path, content, paths=paths, path="p{patient}/s_{slide}")
    assert found.labels == {"p004/s_7.png": "x", "p4/s_17.png": "y"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("path,label\n1,x\na/1.png,y\n", "labels.csv gives a/1.png the labels 'x' and 'y'; an image may have one"),
        ("path,label\n1,x\n2,y,z\n", "row 3 has 3 values, but there are 2 columns; put values that contain"),
        ("path,size,width\n1,3,4\n2,3,4\n", 'none is clearly that of the labels; write labels = ."labels.csv". and'),
        ("path,color,species_id\n1,3,4\n2,3,5\n", "columns 'path', 'color', 'species_id'; none is clearly that of"),
        ("path,label\n8,x\n9,y\n", "columns 'path', 'label', but none names an image in .*; write path_column"),
        ("", "labels.csv is empty; expected a row for each image"),
        ('path,note,label\n1,a,x\n2,"6 inch,y\n3,b,x\n', "labels.csv: a quotation mark in line 3 is not closed"),
        ('path,note,label\n1,"a,x\na/2.png,12",y\n3,b,x\n', "labels.csv: a quotation mark in line 2 is not closed"),
        ('path,note,label\n1,a,x\n2,"b,y\n', "labels.csv: a quotation mark in line 3 is not closed"),
        ('path,note,label\n1,"a\nb",x\n2,b,y\n', "labels.csv: a quotation mark in line 2 is not closed there; remove"),
        ('path,note,label\n1,a,x\n2,6" wide,y\n', "labels.csv: a quotation mark in line 3 is not closed"),
        ('sep=,\npath,note,label\n1,"a,x\n2,"b,y\n3,b,x\n', "labels.csv: a quotation mark in line 3 is not closed"),
    ],
)
def test_unclear_label_files_are_refused(tmp_path, content, words):
    with pytest.raises(DataError, match=words) as refusal:
        read_labels(tmp_path, content)
    assert "\n" not in str(refusal.value)


def test_marks_and_line_separators_inside_values_end_no_row(tmp_path):
    content = 'path,note,label\n1,"a b, ""c""",x\n2,a\u2028b,y\n3,6 wide,x\n4,"Mona" Lisa,y\n'
    assert read_labels(tmp_path, content).labels == dict(zip(PATHS, "xyxy", strict=True))


def test_names_may_have_other_capitals_than_images_unless_these_tell_two_apart(tmp_path):
    """Half of the images were left out if a list was written on Windows."""
    paths = ["Set/IMG_1.jpg", "Set/a.png", "Set/A.png"]
    content = "set\\img_1.JPG,x\nSet/a.png,y\nA,z\n"
    assert read_labels(tmp_path, content, paths=paths).labels == dict(zip(paths, "xyz", strict=True))
    assert read_labels(tmp_path, content, "Set/labels.csv", paths=paths).labels == dict(zip(paths, "xyz", strict=True))


def test_names_that_mean_two_images_are_refused(tmp_path):
    content = "id,label\n1,x\n"
    with pytest.raises(DataError, match="labels.csv names '1', which may be a/1.png, b/1.png; write the folder"):
        read_labels(tmp_path, content, paths=["a/1.png", "b/1.png"])
    assert read_labels(tmp_path, content, paths=["a/1.png", "b/1.png"], path="b/{id}").labels == {"b/1.png": "x"}
    with pytest.raises(DataError, match=r"may be a/1.jpg, a/1.png; .* such as path_column = \"{COLUMN}.png\" with"):
        read_labels(tmp_path, content, paths=["a/1.png", "a/1.jpg"])
    assert read_labels(tmp_path, content, paths=["a/1.png", "a/1.jpg"], path="{id}.png").labels == {"a/1.png": "x"}
    assert read_labels(tmp_path, "id,label\n1.jpg,x\n", paths=["a/1.png", "b/1.jpg"]).labels == {"b/1.jpg": "x"}


@pytest.mark.parametrize(
    ("labels", "several"),
    [
        (["x|y", "x", "y", "z"], ["x|y"]),
        (["x|y", "z", "z", "z"], ["x|y"]),
        (["x, y", "y,z", "x", "y", "z"], ["x, y", "y,z"]),
        (["x y", "y z", "x", "y", "z"], ["x y", "y z"]),
        (["['x', 'y']", "['x']", "['y']"], ["['x', 'y']"]),
        (["x & y", "z & y", "x", "y", "z"], ["x & y", "z & y"]),
        (["hot dog", "hot", "dog", "cat"], []),  # one name of several words is a class
        (["apple pie", "ice cream", "apple", "cat"], []),
    ],
)
def test_images_with_several_labels_are_left_out(tmp_path, labels, several):
    rows = "".join(f'{number},"{label}"\n' for number, label in enumerate(labels))
    found = read_labels(tmp_path, f"id,label\n{rows}", paths=[f"{number}.png" for number in range(len(labels))])
    assert sorted(found.several.values()) == sorted(several)
    assert sorted(found.labels.values()) == sorted(label for label in labels if label not in several)


def test_one_hot_columns_name_the_class_if_nearly_every_row_has_a_single_1(tmp_path):
    paths = [f"{number}.png" for number in range(10)]
    rows = "".join(f"{number},{number % 2},{1 - number % 2}\n" for number in range(10))
    found = read_labels(tmp_path, f"id,dog,cat\n{rows}", paths=paths)
    assert found.labels == {path: ("cat", "dog")[number % 2] for number, path in enumerate(paths)}
    rows = "".join(f"{number},{number % 2},{1 - number % 2},{number % 3 % 2}\n" for number in range(10))
    assert read_labels(tmp_path, f"id,dog,cat,is_train\n{rows}", paths=paths).labels == found.labels
    rows = "".join(f"{number},{number % 2 == 1},{number % 2 == 0}\n" for number in range(10))  # of pandas' get_dummies
    assert read_labels(tmp_path, f"id,dog,cat\n{rows}", paths=paths).labels == found.labels
    rows = "".join(f"{number},1,{number % 2}\n" for number in range(10))
    with pytest.raises(DataError, match="none is clearly that of the labels"):
        read_labels(tmp_path, f"id,dog,cat\n{rows}", paths=paths)


def write_labelled_pictures(folder, labels):
    """Write a picture and a row of labels.csv for each label."""
    (folder / "all").mkdir(parents=True)
    for number in range(len(labels)):
        (folder / "all" / f"{number:02}.png").write_bytes(png(np.full((9, 9, 3), 8 * number, np.uint8)))
    rows = "".join(f"{number:02},{label}\n" for number, label in enumerate(labels))
    (folder / "labels.csv").write_text(f"id,label\n{rows}")
    return folder


LABELLED = TEXT.replace('images = "pictures"', 'images = "pictures"\nlabels = "labels.csv"')


def test_changed_label_changes_fingerprint_but_not_suite(tmp_path):
    (tmp_path / "set.toml").write_text(LABELLED)
    write_labelled_pictures(tmp_path / "pictures", ["x", "y"] * 8)
    suite = read_suite(tmp_path / "set.toml")
    first = decode_dataset(suite.dataset_record, tmp_path / "store")
    assert decode_dataset(suite.dataset_record, tmp_path / "store").folder == first.folder
    file = tmp_path / "pictures" / "labels.csv"
    stat = file.stat()
    file.write_text(file.read_text().replace("00,x", "00,Y").replace("01,y", "01,x").replace("00,Y", "00,y"))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # size and time are as before
    assert read_suite(tmp_path / "set.toml").versioned == suite.versioned
    second = decode_dataset(suite.dataset_record, tmp_path / "store")
    assert second.fingerprint != first.fingerprint
    assert sorted([*second.train.labels, *second.test.labels]) == [0] * 8 + [1] * 8


def test_edited_images_of_equal_size_and_time_are_not_taken_for_the_decoded_ones(tmp_path, monkeypatch):
    """A run used the images from before the edit, without a word."""
    (tmp_path / "set.toml").write_text(LABELLED)
    write_labelled_pictures(tmp_path / "pictures", ["x", "y"] * 8)
    record = read_suite(tmp_path / "set.toml").dataset_record
    first, file = decode_dataset(record, tmp_path / "store"), tmp_path / "pictures" / "all" / "03.png"
    stat, other = file.stat(), png(np.full((9, 9, 3), 8 * 4, np.uint8))
    assert (len(other), other) == (stat.st_size, file.with_name("04.png").read_bytes())
    file.write_bytes(other)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(DataError, match=rf"were edited since .* the same; delete {first.folder}, and run"):
        decode_dataset(record, tmp_path / "store")
    monkeypatch.setattr(file_locations_and_downloads, "LARGE", 1)  # too large to be read at every start
    assert hash_users_files(record, None) == ""
    monkeypatch.undo()
    shutil.rmtree(first.folder)
    assert decode_dataset(record, tmp_path / "store").fingerprint != first.fingerprint


def test_whole_numbers_in_label_files_are_ordered_as_numbers(tmp_path):
    (tmp_path / "set.toml").write_text(LABELLED)
    write_labelled_pictures(tmp_path / "pictures", [str(number) for number in range(11)] * 2)
    record = read_suite(tmp_path / "set.toml").dataset_record
    assert list_images_and_class_names(record, tmp_path / "pictures").classes == [str(n) for n in range(11)]
    (tmp_path / "set.toml").write_text(LABELLED.replace("size = 8", "size = 8\nclasses = 20"))
    numbered = read_suite(tmp_path / "set.toml").dataset_record
    listed = list_images_and_class_names(numbered, tmp_path / "pictures")
    assert np.unique(listed.splits[Split.TRAIN][1]).tolist() == list(range(11))
    (tmp_path / "set.toml").write_text(LABELLED.replace("size = 8", "size = 8\nclasses = 9"))
    with pytest.raises(CallerError, match="has the label '10', but classes is 9; name each label by the number"):
        read_suite(tmp_path / "set.toml")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            'labels = "none.csv"',
            r"labels: no file .*none\.csv; write the path of a CSV, TSV, TXT or JSONL file",
        ),
        ('labels = "../labels.csv"', "expected a path relative to the folder of images and inside it; write in images"),
        ('labels = "notes.xlsx"', r"the label file notes\.xlsx ends in '\.xlsx', expected \.csv, .*; write its labels"),
        ('label_column = "x"', 'has label_column, but no labels; write labels = "FILE" too'),
        ("class_depth = 3", "none 3 folders or more below it, as class_depth says; the deepest image lies 1 folder"),
        ('class_depth = "first"', "class_depth is .first., expected a whole number from 1 to 9"),
        ('labels = "labels.csv"\nsplit_column = "part"', "expected the split_column 'part'"),
        ('labels = "labels.csv"\npath_column = "red/{nam}"', "expected 'nam', as path_column says"),
    ],
)
def test_wrong_keys_of_labels_are_refused_with_remedy(tmp_path, line, words):
    write_labelled_pictures(tmp_path / "pictures", ["x", "y"] * 8)
    (tmp_path / "pictures" / "notes.xlsx").write_bytes(b"x")
    (tmp_path / "set.toml").write_text(TEXT.replace('images = "pictures"', f'images = "pictures"\n{line}'))
    with pytest.raises(CallerError, match=words) as refusal:
        read_suite(tmp_path / "set.toml")
    assert "\n" not in str(refusal.value)


def test_image_in_both_lists_of_splits_is_refused(tmp_path):
    write_pictures(tmp_path / "pictures")
    for name, files in (("train.txt", ("red/00", "blue/00", "green/00")), ("test.txt", ("red/01", "red/00"))):
        (tmp_path / "pictures" / name).write_text("\n".join(files))
    text = TEXT.replace("test_share = 0.25", 'train = "train.txt"\ntest = "test.txt"')
    (tmp_path / "set.toml").write_text(text)
    with pytest.raises(CallerError, match=r"'train.txt' and 'test.txt' both hold red/00\.png; an image"):
        read_suite(tmp_path / "set.toml")


def test_split_folders_may_be_written_with_dots(tmp_path):
    """The first letters of the class names were cut off, so classes could merge."""
    for split in ("train", "test"):
        write_pictures(tmp_path / "pictures" / split)
    (tmp_path / "set.toml").write_text(TEXT.replace("test_share = 0.25", 'train = "./train/"\ntest = "./test"'))
    record = read_suite(tmp_path / "set.toml").dataset_record
    assert list_images_and_class_names(record, tmp_path / "pictures").classes == ["blue", "green", "red"]


def test_split_folders_inside_class_folders_are_named_by_pattern(tmp_path):
    for split, count in (("train", 3), ("test", 2)):
        for name in ("ant", "bee"):
            write_pictures(tmp_path / "made" / split / name, count)
            (tmp_path / "pictures" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "made" / split / name / "red").rename(tmp_path / "pictures" / name / split)
    with pytest.raises(DataError, match="each hold the folders 'train' and 'test'; write train = "):
        infer_dataset(tmp_path / "pictures", print)
    text = TEXT.replace("test_share = 0.25", 'train = "*/train"\ntest = "*/test"')
    (tmp_path / "set.toml").write_text(text)
    record = read_suite(tmp_path / "set.toml").dataset_record
    assert (record.classes, record.train_images, record.test_images) == (2, 6, 4)


def test_record_without_new_keys_keeps_its_hash(tmp_path):
    """The hashes were recorded before `class_depth`, `labels` and `leave_out` existed."""
    (tmp_path / "set.toml").write_text(TEXT)
    write_pictures(tmp_path / "pictures")
    suite = read_suite(tmp_path / "set.toml")
    assert (suite.dataset_record.name, suite.versioned) == ("pictures-80881bd0", "pictures@79f8023a")


def infer_cats_and_dogs(folder, texts):
    """Write ten cats and ten dogs into class folders, and text files beside them."""
    for path in [f"images/{name}/{number}.png" for name in ("cat", "dog") for number in range(10)]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(png(np.random.default_rng(len(path)).integers(0, 256, (8, 8, 3), np.uint8)))
    for name, text in texts.items():
        (folder / name).write_text(text)
    said = []
    record = infer_dataset(folder, said.append)
    listed = list_images_and_class_names(record, folder / record.folder)
    return listed.classes, [len(listed.splits[split][0]) for split in Split], "\n".join(said)


def format_rows(header, row):
    return "".join([header, *(row(name, n) for name in ("cat", "dog") for n in range(10))])


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("path,split\n", lambda name, n: f"images/{name}/{n}.png,{'train' if n < 7 else 'test'}\n"),
        ("filename,is_train\n", lambda name, n: f"{name}/{n}.png,{n < 7}\n"),
    ],
)
def test_file_of_splits_alone_is_used_beside_class_folders(tmp_path, header, row):
    classes, counts, said = infer_cats_and_dogs(tmp_path, {"splits.csv": format_rows(header, row)})
    assert (classes, counts) == (["cat", "dog"], [14, 6])
    assert "to test in column" in said and "none is clearly" not in said


@pytest.mark.parametrize(
    ("files", "counts", "words"),
    [
        (
            {"labels.csv": format_rows(",image,label\n", lambda name, n: f"{n},images/{name}/{n}.png,{name}\n")},
            [20, 20],
            "",
        ),
        (
            {"folds.csv": format_rows("path,fold\n", lambda name, n: f"images/{name}/{n}.png,{n % 5}\n")},
            [20, 20],
            "warning: column 'fold' of folds.csv has the values '0', '1', '2' and 2 more, of which none names",
        ),
        (
            {
                "splits.csv": format_rows(
                    "path,split\n", lambda name, n: f"images/{name}/{n}.png,{['train', 'valid', 'test'][n % 3]}\n"
                )
            },
            [8, 6],
            "not used: 6 images with 'valid' in column 'split'",
        ),
        (
            {
                "a.csv": format_rows(
                    "path,phase\n", lambda name, n: f"images/{name}/{n}.png,{['train', 'val'][n > 6]}\n"
                )
            },
            [14, 6],
            "splits: 'train' to train and 'val' to test in column 'phase' of 'a.csv'",
        ),
        (
            {"a.csv": format_rows("path,label,split\n", lambda name, n: f"images/{name}/{n}.png,{name},{n % 3}\n")},
            [20, 20],
            "warning: column 'split' of a.csv has the values '0', '1', '2', of which none names a training",
        ),
        (
            {"a.csv": format_rows("path,label,lesion\n", lambda name, n: f"images/{name}/{n}.png,{name},{n // 2}\n")},
            [20, 20],
            "warning: label files: column 'lesion' has 5 values in 20 images, which are drawn for testing",
        ),
        (
            {
                "a.csv": format_rows("path,case\n", lambda name, n: f"images/{name}/{n}.png,{n // 2}\n"),
                "train.txt": format_rows("", lambda name, n: f"images/{name}/{n}.png\n" if n < 7 else ""),
                "test.txt": format_rows("", lambda name, n: f"images/{name}/{n}.png\n" if n > 6 else ""),
            },
            [14, 6],
            "warning: label files: column 'case': 1 of the 2 values of test images, such as '3', are values of",
        ),
        (
            {
                "a.csv": format_rows(
                    "", lambda name, n: f"{['TRAIN', 'TEST'][n > 6]},gs://b/images/{name}/{n}.png,{name}\n"
                )
            },
            [14, 6],
            "splits: 'TRAIN' to train and 'TEST' to test in column '1' of 'a.csv'",
        ),
        ({"metadata.jsonl": "\n", "empty.csv": ""}, [20, 20], ""),
        ({"sizes.csv": "file,width\nx.png,3\ny.png,5\n"}, [20, 20], ""),
        ({"history.csv": "epoch,loss,lr\n" + "".join(f"{n},{1 / n},1e-3\n" for n in range(100, 160))}, [20, 20], ""),
        ({"plot.png": "x"}, [20, 20], ""),
        ({"predictions.csv": format_rows("file,label\n", lambda name, n: f"{name}/{n}.png,{n % 2}\n")}, [20, 20], ""),
        ({"preds.csv": format_rows("file,label\n", lambda name, n: f"{name}/{n}.png,{n % 2}\n")}, [20, 20], ""),
        (
            {  # in VisA, each file has splits of its own
                "1cls.csv": format_rows("path,split\n", lambda name, n: f"{name}/{n}.png,{['train', 'test'][n > 6]}\n"),
                "2cls.csv": format_rows("path,split\n", lambda name, n: f"{name}/{n}.png,{['train', 'test'][n < 4]}\n"),
                "a.csv": format_rows("path,label\n", lambda name, n: f"{name}/{n}.png,{name}\n"),
            },
            [20, 20],
            "warning: 2cls.csv gives images/cat/0.png the splits 'train' and 'test'; an image may have one; correct "
            "the file, or name another column or fewer files",
        ),
        ({"a.csv": "class_id,class_name\n70,cat\n80,dog\n"}, [20, 20], ""),
        (
            {"a.csv": format_rows("path,Is Test\n", lambda name, n: f"images/{name}/{n}.png,{n > 6}\n")},
            [14, 6],
            "splits: 'False' to train and 'True' to test in column 'Is Test' of 'a.csv'",
        ),
    ],
)
def test_images_and_columns_that_are_not_used_are_named(tmp_path, files, counts, words):
    classes, found, said = infer_cats_and_dogs(tmp_path, files)
    assert (classes, found) == (["cat", "dog"], counts)
    assert words in said and "none is clearly" not in said
    assert "none names an image" not in said


@pytest.mark.parametrize(
    "name",
    [
        *("test_pred.csv", "Preds2.csv", "sample_sub.csv", "pseudo_labels.csv", "inference.csv", "predictions/a.csv"),
        *("output.csv", "my_results.csv", "results/a.csv"),
    ],
)
def test_predictions_give_no_labels_to_test_images(tmp_path, name):
    for path in [f"train/{'cat' if n < 6 else 'dog'}/{n}.png" for n in range(12)] + [
        f"test/{n}.png" for n in range(12)
    ]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(png(np.random.default_rng(len(path)).integers(0, 256, (8, 8, 3), np.uint8)))
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("id,label\n" + "".join(f"test/{n},{'cat' if n % 2 else 'dog'}\n" for n in range(12)))
    record = infer_dataset(tmp_path, lambda line: None)
    assert record.share and not record.label_files
    (tmp_path / name).rename(tmp_path / "sample_subset.csv")
    assert infer_dataset(tmp_path, lambda line: None).label_files


def test_only_file_of_labels_that_is_named_like_predictions_is_refused(tmp_path):
    (tmp_path / "0.png").write_bytes(png(np.zeros((8, 8, 3), np.uint8)))
    (tmp_path / "output.csv").write_text("file,label\n0.png,a\n")
    words = "no class folders; 'output.csv' is named like predictions; if it has labels, rename it labels.csv"
    with pytest.raises(DataError, match=words):
        infer_dataset(tmp_path, lambda _: None)


@pytest.mark.parametrize("folder", ["", "a/b/c/d/e/f/g/"])
def test_names_of_images_begin_with_a_hash_and_lists_lie_deep(tmp_path, folder):
    """Lines that begin with `#` were comments, and files below five folders were not seen; test images were drawn."""
    paths = [f"images/{'ab'[n % 2]}/#{n}.png" for n in range(16)]
    for n, path in enumerate(paths):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(png(np.full((8, 8, 3), 9 * n, np.uint8)))
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name, numbers in (("train", range(10)), ("test", range(10, 16))):
        lines = [f"#{n}.png{' x' * (n % 3 == 0) * (not folder)}\n" for n in numbers]
        (tmp_path / folder / f"{name}.txt").write_text("# image\n" + "".join(lines))
    record = infer_dataset(tmp_path, lambda line: None)
    assert (record.train_split, record.train_images, record.test_images) == (f"{folder}train.txt", 10, 6)


def write_flat_images(folder, table):
    for n in range(20):
        (folder / f"{n}.png").write_bytes(png(np.random.default_rng(n).integers(0, 256, (8, 8, 3), np.uint8)))
    (folder / "labels.csv").write_text(table)
    said = []
    infer_dataset(folder, said.append)
    return "\n".join(said)


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        (
            "file,patient_id,label",
            lambda n: f"{n}.png,p{n // 4},{'ab'[n % 2]}",
            "warning: label files: column 'patient_id' has 5 values in 20 images, which are drawn for",
        ),
        *(
            (
                f"file,{place},label",
                lambda n: f"{n}.png,p{n // 4},{'ab'[n % 2]}",
                f"warning: label files: column '{place}' has 5 values in 20 images, which are drawn for testing one by "
                f"one, so both splits have images of one {place}; name splits, train and test, that keep them together",
            )
            for place in (
                *("camera", "location", "seq_id", "hospital", "Scanner Code", "Well Name", "herd_id", "SopUID"),
                *("MRN", "PatNr"),
            )
        ),
        (
            "file,label,fold",
            lambda n: f"{n}.png,{'ab'[n % 2]},{n % 3}",
            "warning: column 'fold' of labels.csv has the values '0', '1', '2', of which none names a training",
        ),
        ("file,label,fold", lambda n: f"{n}.png,{'ab'[n % 2]},1", "classes: the labels in column 'label'"),
        ("file,label,set", lambda n: f"{n}.png,{'ab'[n % 2]},x{n}", "classes: the labels in column 'label'"),
        (
            "file,patient_id,label,split",
            lambda n: f"{n}.png,p{n // 4},{'ab'[n % 2]},{'train' if n < 14 else 'test'}",
            "warning: label files: column 'patient_id': 1 of the 2 values of test images, such as 'p3', are values of",
        ),
        (
            "file,patient_id,label,split",
            lambda n: f"{n}.png,p{n // 4},{'ab'[n % 2]},{'train' if n < 16 else 'test'}",
            "splits: 'train' to train and 'test' to test",
        ),
        (
            "file,label,Usage",
            lambda n: f"{n}.png,{'ab'[n % 2]},{'Training' if n < 9 else 'PublicTest'}",
            "warning: column 'Usage' of labels.csv has the values 'PublicTest', 'Training', of which none names",
        ),
        (
            "file,label,split",
            lambda n: f"{n}.png,{'ab'[n % 2]},{['train', 'test', ''][n // 7]}",
            "not used: 6 images without a value in column 'split'",
        ),
        (
            "file,label,split",
            lambda n: f"{n}.png,{'ab'[n % 2]},{['train', 'Train', 'test', 'Test'][n // 5]}",
            "2 classes  training      test\n  a                 5         5\n  b                 5         5",
        ),
        (
            "file,label,split",
            lambda n: f"{n}.png,{'ab'[n % 2]},train" if n < 14 else f"{n}.png,,test",
            "warning: no image of the split 'test' in column 'split' has a label; test images are drawn",
        ),
        (
            "file,label,split",
            lambda n: f"{n}.png,{'ab'[n % 2]},train" if n < 14 else f"{n}.png,a,test",
            "all test images have the class 'a'; if it stands for unknown labels, leave out their labels, and",
        ),
        ("file,label", lambda n: f"{n}.png,{['cat', 'dog', 'Dog'][n % 3]}", "if they are one class, spell them alike"),
        (",file,diagnosis", lambda n: f"{n},{n}.png,{'ab'[n % 2]}", "classes: the labels in column 'diagnosis'"),
        ("file,animal", lambda n: f"{n}.png,{'ab'[n % 2]}", "classes: the labels in column 'animal'"),
        ("file,genus_id,label", lambda n: f"{n}.png,{n % 4 // 2},{'abcd'[n % 4]}", "classes: the labels in column"),
        (
            "file,grade,od,os",
            lambda n: f"{n}.png,{n % 3},{n % 2},{1 - n % 2}",
            "warning: classes: two columns of flags in 'labels.csv'; 'grade' could have the labels, too; to use one, "
            'write label_column = "grade"',
        ),
        (
            "file,tags",
            lambda n: f"{n}.png,{['clear', 'clear road', 'clear road water', 'water clear', 'haze'][n % 5]}",
            "warning: 3 of 5 classes are another class and a further word, such as 'clear road', 'clear'; if an",
        ),
    ],
)
def test_columns_of_folds_and_patients_are_named_and_row_numbers_ignored(tmp_path, header, row, words):
    said = write_flat_images(tmp_path, "\n".join([header, *map(row, range(20))]))
    assert words in said and "in neither split" not in said
    assert said.count("patient_id") == 2 * ("patient" in words)
    assert ("label files" in said) == ("label files" in words)
    assert ("of which none" in said) == ("of which none" in words)


def test_labelled_images_of_a_third_split_are_counted(tmp_path):
    for split in ("train", "validation", "test"):
        (tmp_path / split).mkdir()
        table = "file_name,label\n" + "".join(f"{n}.png,{'ab'[n % 2]}\n" for n in range(20))
        write_flat_images(tmp_path / split, table)
        (tmp_path / split / "labels.csv").rename(tmp_path / split / "metadata.csv")
    said = []
    infer_dataset(tmp_path, said.append)
    assert "left out: 20 images in neither split (such as 'validation/0.png')" in said


def test_label_file_beside_hidden_images_is_refused(tmp_path):
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "0.png").write_bytes(png(np.zeros((8, 8, 3), np.uint8)))
    (tmp_path / "labels.csv").write_text("file,label\n0.png,a\n1.png,b\n")
    with pytest.raises(DataError, match="has no image, but the table labels.csv; name the file"):
        infer_dataset(tmp_path, print)


def test_names_of_files_that_begin_with_classes_of_several_words_are_shown(tmp_path):
    (tmp_path / "images").mkdir()
    for name in (f"{breed}_{n}.png" for breed in ("Egyptian_Mau", "pug") for n in range(4)):
        (tmp_path / "images" / name).write_bytes(png(np.zeros((8, 8, 3), np.uint8)))
    with pytest.raises(DataError, match="names of the files begin with 'Egyptian_Mau', 'pug'; write a file labels.csv"):
        infer_dataset(tmp_path, print)


def test_accents_of_names_may_have_two_forms(tmp_path):
    """Files of macOS have decomposed accents; tables have composed ones."""
    assert read_labels(tmp_path, "file,label\n\u00e9t\u00e9.png,warm", paths=["e\u0301te\u0301.png"]).labels
    assert read_labels(tmp_path, "file,label\ne\u0301te\u0301.png,warm", paths=["\u00e9t\u00e9.png"]).labels


def test_label_file_whose_names_differ_from_images_shows_both(tmp_path):
    table = "\n".join(["file,label", *(f"IMG_{n}.PNG,{'ab'[n % 2]}" for n in range(20))])
    with pytest.raises(DataError, match=r"\(first row: 'IMG_0.PNG', 'a'\), but none names an image such as '"):
        write_flat_images(tmp_path, table)
    with pytest.raises(DataError, match="'labels.csv' gives all images the label 'a'; if another column has"):
        write_flat_images(tmp_path, "\n".join(["file,label", *(f"{n}.png,a" for n in range(20))]))
    with pytest.raises(DataError, match="none names an image .*; write each image's file name into a row, with its"):
        write_flat_images(tmp_path, "\n".join(["url,choice", *(f"up/IMG_{n}.png,{'ab'[n % 2]}" for n in range(20))]))
    with pytest.raises(DataError, match="of which none is clearly that of the classes"):
        write_flat_images(tmp_path, "\n".join(["file,x,y", *(f"{n}.png,{n % 5},{n % 3}" for n in range(20))]))
    for number in ("00{}", "{}.0"):
        rows = (f"{number.format(n)},{'ab'[n % 2]}" for n in range(20))
        with pytest.raises(DataError, match="none names an image such as '.*; write each image's file name into a row"):
            write_flat_images(tmp_path, "\n".join(["id,label", *rows]))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("Cat", "with 'cat', 'dog'; spell classes alike in both"),
        ("DOG.", "with 'dog', 'cat'; spell classes alike in both, give it training images, or leave its images out$"),
        ("-1", "with 'cat', 'dog'; spell .* leave its images out, as -1 often stands for an unknown label$"),
    ],
)
def test_test_class_without_training_images_is_refused_with_remedy(tmp_path, name, remedy):
    files = {"splits.csv": "path,label,split\n", "x.txt": ""}
    rows = [(kind, n, "train") for kind in ("cat", "dog") for n in range(5)]
    rows += [(kind, n, "test") for kind in ("cat", "dog") for n in range(5, 10)]
    files["splits.csv"] += "".join(
        f"images/{kind}/{n}.png,{name if (kind, split) == ('cat', 'test') else kind},{split}\n"
        for kind, n, split in rows
    )
    with pytest.raises(DataError, match=f"has the class '{name}', which .* lacks, {remedy}"):
        infer_cats_and_dogs(tmp_path, files)


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        (  # as in ISIC 2016
            "file,label,split",
            lambda n: f"{n}.png,{'ab'[n % 2]},train" if n < 12 else f"{n}.png,{n % 2}.0,test",
            "has the class '0.0', which .* lacks, with 'a', 'b'; spell classes alike in both, give it training images",
        ),
        (
            "file,Rating",
            lambda n: f"{n}.png,{n % 3}.5",
            "labels.csv has the columns .*, of which 'Rating' has fractions",
        ),
    ],
)
def test_labels_that_are_no_classes_are_named_with_their_file(tmp_path, header, row, words):
    with pytest.raises(DataError, match=words):
        write_flat_images(tmp_path, "\n".join([header, *map(row, range(20))]))


def test_measurement_beside_splits_never_replaces_class_folders(tmp_path):
    """The only other column of a file of splits is a width, and became the classes without a word."""
    text = format_rows(
        "filename,width,split\n", lambda name, n: f"{name}/{n}.png,{n % 3},{'train' if n < 7 else 'test'}\n"
    )
    classes, counts, said = infer_cats_and_dogs(tmp_path, {"meta.csv": text})
    assert classes == ["cat", "dog"] and counts == [20, 20]  # test images are drawn
    assert "the splits of 'meta.csv' are not used, because its column 'width' would give other classes" in said


def test_unreadable_file_of_splits_is_named(tmp_path):
    others = dict.fromkeys(("notes.json", "latest.json", "folder_info.xml", "Folders.xml", "contest.pkl"), "{}")
    assert "splits may be in" not in infer_cats_and_dogs(tmp_path, others)[2]
    for name in ("split.json", "5fold.json", "imagesTest.mat", "trainval.pkl", "splits.yaml"):
        assert f"splits may be in '{name}', which" in infer_cats_and_dogs(tmp_path, {name: "{}"})[2]
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labels.csv", "id,score\n0,0.37\n1,0.37\n2,1.5\n3,1.5\n"),
        ("metadata.jsonl", "".join(f'{{"file_name": "{n}.png", "objects": {{"id": [{n % 2}]}}}}\n' for n in range(4))),
        ("metadata.jsonl", "".join(f'{{"file_name": "{n}.png", "boxes": [{{"id": {n % 2}}}]}}\n' for n in range(4))),
    ],
)
def test_measurements_and_objects_are_no_classes(tmp_path, name, content):
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(png(np.full((8, 8, 3), number, np.uint8)))
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match="no class folders|none is clearly that of the classes"):
        infer_dataset(tmp_path, lambda _: None)


@pytest.mark.parametrize("name", ["splits.csv", "labels/train.csv"])
def test_label_files_beside_folder_are_named(tmp_path, name):
    """A table beside the folder with numbers that images have, too, such as those of its rows, names no images."""
    folder = write_pictures(tmp_path / "set" / "images")
    (tmp_path / "set" / "rows.csv").write_text("id,price\n" + "".join(f"{n:02},{n}.5\n" for n in range(8)))
    (tmp_path / "set" / "labels").mkdir()
    for number in range(60):  # a file for each image, with boxes, says nothing of all; a folder may hold thousands
        (tmp_path / "set" / "labels" / f"{number:02}.csv").write_text("file,box\n00.png,3 4 8 9\n")
    said = []
    infer_dataset(folder, said.append)
    assert "beside the folder" not in "".join(said)
    rows = {kind: "".join(f"{kind}/{n:02}.png,train\n" for n in range(8)) for kind in ("red", "blue")}
    (tmp_path / "set" / name).write_text("file,split\n" + rows["red"])  # of another data set of like names, perhaps
    infer_dataset(folder, said.append)
    assert "beside the folder" not in "".join(said)
    (tmp_path / "set" / name).write_text("file,split\n" + rows["red"] + rows["blue"])
    infer_dataset(folder, said.append)
    seen = f"the images are named in '{name}' beside the folder 'images'; to use its labels or splits, name the"
    assert f"warning: {seen} folder above: roarbench new-suite {tmp_path / 'set'}" in said


@pytest.mark.parametrize(
    ("labels", "splits", "used"),
    [
        ("file,diagnosis\n{n},{kind}\n", "file,split,age\n{n},{split},{age}\n", ("labels.csv", "splits.csv")),
        ("file,a,b\n{n},{a},{b}\n", "file,split\n{n},{split}\n", ("labels.csv", "splits.csv")),
        ("file,a,b\n{n},{a},{b}\n", "file,split,age\n{n},{split},{age}\n", ("labels.csv",)),
    ],
)
def test_splits_in_file_beside_that_of_labels_are_used_or_named(tmp_path, labels, splits, used):
    for name, pattern in (("labels.csv", labels), ("splits.csv", splits)):
        header, row = pattern.splitlines(keepends=True)
        rows = [
            row.format(n=n, kind="ab"[n % 2], a=n % 2, b=1 - n % 2, split="train" if n < 14 else "test", age=n % 5)
            for n in range(20)
        ]
        (tmp_path / name).write_text(header + "".join(rows))
    for number in range(20):
        (tmp_path / f"{number}.png").write_bytes(png(np.full((8, 8, 3), number, np.uint8)))
    said = []
    record = infer_dataset(tmp_path, said.append)
    assert (record.label_files, bool(record.share)) == (used, len(used) == 1)
    warned = [line for line in said if line.startswith("warning: splits in another file than 'labels.csv' are")]
    assert len(warned) == bool(record.share)


def test_file_of_splits_without_column_names_gives_no_classes(tmp_path):
    for number in range(8):
        (tmp_path / f"{number}.png").write_bytes(png(np.full((8, 8, 3), number, np.uint8)))
    (tmp_path / "eval_partition.txt").write_text("".join(f"{number}.png {number % 2}\n" for number in range(8)))
    with pytest.raises(DataError, match="^[^;]*: no class folders; put the images of each class into a folder"):
        infer_dataset(tmp_path, lambda _: None)


@pytest.mark.parametrize(
    ("train", "test", "named"),
    [
        (6, range(5, 10), "'test.txt', 'train.txt'"),
        (6, (), "'train.txt'"),
        (6, range(70, 80), "'train.txt'"),  # without such files
        (10, (), ""),  # of all images
    ],
)
def test_lists_of_some_images_that_are_not_used_are_named(tmp_path, train, test, named):
    lists = {"train.txt": range(train)} | ({"test.txt": test} if test else {})
    texts = {
        file: "".join(f"images/{name}/{n}.png\n" for name in ("cat", "dog") for n in numbers)
        for file, numbers in lists.items()
    }
    said = infer_cats_and_dogs(tmp_path, texts)[2]
    assert ("with names of some of the images; test images are drawn at random; if they list" in said) == bool(named)
    assert f"warning: not used: {named}, with" in said or not named


@pytest.mark.parametrize(("first", "warns"), [(8, True), (12, False)])
def test_label_files_of_both_splits_that_share_images_are_no_splits(tmp_path, first, warns):
    for n in range(20):
        (tmp_path / f"{n}.png").write_bytes(png(np.random.default_rng(n).integers(0, 256, (8, 8, 3), np.uint8)))
    for name, numbers in (("train", range(12)), ("test", range(first, 20))):
        rows = "".join(f"{n}.png,{'ab'[n % 2]}\n" for n in numbers)
        (tmp_path / f"{name}.csv").write_text(f"file,label\n{rows}")
    said = []
    infer_dataset(tmp_path, said.append)
    assert ("warning: not used: 'test.csv', 'train.csv', with names of some of the images" in "\n".join(said)) == warns


@pytest.mark.parametrize("place", ["", "inner/"])
@pytest.mark.parametrize("figures", [0, 2])
def test_lists_of_images_and_labels_in_one_folder_give_both(tmp_path, place, figures):
    """`trainval.txt` was taken for the only list, and figures beside the folder of the images made it a class."""
    (tmp_path / place / "images").mkdir(parents=True)
    for n in range(20):
        (tmp_path / place / f"images/{n}.png").write_bytes(png(np.full((8, 8, 3), n, np.uint8)))
    for n in range(figures):
        (tmp_path / place / "docs").mkdir(exist_ok=True)
        (tmp_path / place / f"docs/figure{n}.png").write_bytes(png(np.full((8, 8, 3), 99, np.uint8)))
    rows = [f"/home/me/images/{n}.png,{'ab'[n % 2]}\n" for n in range(20)]
    (tmp_path / place / "trainval.txt").write_text("".join(rows[:14]))
    (tmp_path / place / "test.txt").write_text("".join(rows[14:]))
    record = infer_dataset(tmp_path, lambda line: None)
    listed = list_images_and_class_names(record, tmp_path / place)
    assert (record.train_split, record.test_split, listed.classes) == ("trainval.txt", "test.txt", ["a", "b"])
    assert [len(paths) for paths, _ in listed.splits.values()] == [14, 6]


def test_label_file_is_read_though_only_one_folder_holds_splits(tmp_path):
    """A folder of figures beside `images/train` and `images/test` of a competition led to a refusal."""
    for n in range(30):
        path = tmp_path / ("results/plot.png" if not n else f"images/{'train' if n > 5 else 'test'}/{n}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(np.full((8, 8, 3), n, np.uint8)))
    (tmp_path / "train.csv").write_text("id,label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(6, 30)))
    record = infer_dataset(tmp_path, lambda line: None)
    assert (record.label_files, record.classes, record.share) == (("train.csv",), 2, 0.3)


def test_names_from_another_machine_are_found_in_the_only_folder(tmp_path):
    (tmp_path / "set").mkdir()
    write_flat_images(tmp_path / "set", "file,label\n" + "".join(f"/home/me/{n}.png,{n % 2}\n" for n in range(20)))
    record = infer_dataset(tmp_path, lambda line: None)
    assert (record.folder, record.label_files) == (str(tmp_path / "set"), ("labels.csv",))


def test_label_file_with_commas_in_values_is_named(tmp_path):
    with pytest.raises(DataError, match=r"labels.csv: row 4 has 3 values, but there are 2 columns; put values that"):
        write_flat_images(
            tmp_path, "file,label\n" + "".join(f"{n}.png,{'a, b' if n == 2 else 'c'}\n" for n in range(20))
        )


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_label_file_in_another_encoding_is_named(tmp_path, encoding):
    for number in range(8):
        (tmp_path / f"{number}.png").write_bytes(png(np.full((8, 8, 3), number, np.uint8)))
    text = "".join(f"{number}.png,{('süß', 'sauer')[number % 2]}\n" for number in range(8))
    (tmp_path / "labels.csv").write_bytes(("file,label\n" + text).encode(encoding))
    with pytest.raises(DataError, match=r"labels.csv is not UTF-8 \(byte .*\); save it as UTF-8"):
        infer_dataset(tmp_path, lambda _: None)


@pytest.mark.parametrize("heading", ["file,kind\n", "picture,kind\n", "", "image,split,kind\n"])
def test_labels_of_a_part_of_the_images_are_found(tmp_path, heading):
    """A part of a data set beside the label file of the whole, of which one row in 150 names an image."""
    numbers = range(6000)
    for number in numbers[100:6000:150]:
        path = tmp_path / "all" / f"{number:05}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(png(np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)))
    split = "split" in heading
    row = "{:05}.png,{}{}\n"
    text = [row.format(n, ["train,", "test,"][n % 4 == 0] if split else "", "ab"[n > 3000]) for n in numbers]
    (tmp_path / "labels.csv").write_text(heading + "".join(text))
    said = []
    record = infer_dataset(tmp_path, said.append)
    assert record.classes == 2 and record.train_images + record.test_images == 40
    assert (record.train_images, record.test_images) == ((20, 20) if split else (28, 12))
    assert "left out: 5,960 names in the label files without an image" in "\n".join(said)


def test_numbers_that_name_few_images_by_chance_are_no_names(tmp_path):
    for number in range(40):
        path = tmp_path / "cd"[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(png(np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)))
    (tmp_path / "prices.csv").write_text(
        "price,label\n" + "".join(f"{n * 13 % 4000},{'xyz'[n % 3]}\n" for n in range(4000))
    )
    record = infer_dataset(tmp_path, lambda line: None)
    assert record.classes == 2 and not record.label_files


@pytest.mark.parametrize(
    ("name", "rows", "found"),
    [
        (
            "labels.csv",
            "{n:03}.png  {n}.5      {kind}\n",
            "labels.csv has the columns '1', '2', '3', of which none is",
        ),  # ELPV
        ("labels.csv", "{n:03}.png  {kind}\n", ["a", "b"]),
        ("labels.csv", "{pair},{n:03}.png,{kind}\n", ["a", "b"]),
        ("labels.csv", "{n},{kind}\n", "5 names in the label files without an image (such as '95')"),
    ],
)
def test_label_files_of_public_data_sets_are_read_or_explained(tmp_path, name, rows, found):
    numbers = range(95, 115)
    for n in numbers:
        (tmp_path / f"{n:03}.png").write_bytes(png(np.random.default_rng(n).integers(0, 256, (8, 8, 3), np.uint8)))
    (tmp_path / name).write_text("".join(rows.format(n=n, kind="ba"[n < 105], pair=n // 2) for n in numbers))
    said = []
    try:
        record = infer_dataset(tmp_path, said.append)
        assert isinstance(found, str) or list_images_and_class_names(record, tmp_path).classes == found
    except DataError as error:
        said.append(str(error))
    assert isinstance(found, list) or found in "\n".join(said)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("target,diagnosis,x", "column 'target' of 'labels.csv'; 'diagnosis' could have the labels, too"),
        ("species,class,x", "column 'class' of 'labels.csv'; 'species' could have the labels, too"),
        ("label,test,x", "column 'test' of labels.csv has the values '0', '1', '2', of which none names a training"),
        ("label,first_split,split", "splits: 'train' to train and 'test' to test in column 'split' of 'labels.csv'"),
    ],
)
def test_other_columns_that_are_named_like_labels_or_splits_are_named(tmp_path, columns, said):
    splits = ["test" if n % 4 < 2 else "train" for n in range(20)]
    others = [f"{splits[n]},{splits[n - 5]}" if "split" in columns else f"{n % 3},{n}.5" for n in range(20)]
    rows = "".join(f"{n}.png,{n % 2},{others[n]}\n" for n in range(20))
    assert said in write_flat_images(tmp_path, f"image,{columns}\n{rows}")


@pytest.mark.parametrize(
    ("header", "row", "said"),
    [
        ("image,kind,notes\n", "{n}.png,{kind},\n", "classes: the labels in column 'kind' of 'labels.csv'"),
        ("", "{n}.png,{kind},{flag}\n", "'3' could have the labels, too"),  # perhaps of splits
    ],
)
def test_empty_columns_are_no_labels_but_flags_could_be(tmp_path, header, row, said):
    rows = [row.format(n=n, kind="ab"[n % 2], flag=int(n % 5 == 0)) for n in range(20)]
    assert said in write_flat_images(tmp_path, header + "".join(rows))


def test_label_file_that_is_too_large_to_try_is_named(tmp_path, monkeypatch):
    """The labels of Google Landmarks have 525 MB, beside folders of three levels that name no classes."""
    monkeypatch.setattr(find_label_files, "_MAX_BYTES", 2**20)
    text = "image,label\n" + "".join(f"{n}.png,{'ab'[n % 2]}\n" for n in range(20))
    with pytest.raises(DataError, match='labels.csv has 2 MB; if it has the labels, write labels = "labels.csv"'):
        write_flat_images(tmp_path, text + "\n" * 2**21)


def test_column_y_of_a_place_could_not_have_the_labels(tmp_path):
    rows = "".join(f"{n}.png,{n % 2},{n % 5},{n % 3}\n" for n in range(20))
    for columns, named in (("w,y", True), ("x,y", False)):
        assert ("'y' could have the labels" in write_flat_images(tmp_path, f"image,label,{columns}\n{rows}")) == named


def test_column_of_people_is_not_that_of_labels(tmp_path):
    rows = "".join(f"{n // 2},{n}.png,{'ab'[n % 2]}\n" for n in range(20))
    said = write_flat_images(tmp_path, "user.id,image,emotion\n" + rows)
    assert "classes: the labels in column 'emotion'" in said and "column 'user.id' has 10 values in 20 images" in said


@pytest.mark.parametrize(("header", "warned"), [("image,hospital,label", True), ("image,herd_id,label", False)])
def test_column_of_sources_that_tells_each_class_is_named(tmp_path, header, warned):
    """All images of a class from one hospital: this passed without a word, as a copy of the class."""
    rows = "".join(f"{n}.png,H{n % 2},{'ab'[n % 2]}\n" for n in range(20))
    said = write_flat_images(tmp_path, f"{header}\n{rows}")
    assert ("has a value of its own for each class, such as 'H0'; if it is no copy" in said) == warned


def test_column_of_two_groups_may_have_the_classes(tmp_path):
    rows = "".join(f"{n}.png,{('case', 'control')[n % 2]},{40 + n % 5}\n" for n in range(20))
    with pytest.raises(
        DataError, match="columns 'image', 'group', 'age', of which none is clearly that of the classes"
    ):
        write_flat_images(tmp_path, "image,group,age\n" + rows)


def test_unclear_columns_are_proposed_for_all_files_that_have_them(tmp_path):
    """FairFace has a file for each split, and the products of Kaggle a file of links; neither names its classes."""
    for split, numbers in (("train", range(12)), ("val", range(12, 20))):
        rows = "".join(f"{n}.png,{30 + n % 3},{'ab'[n % 2]}\n" for n in numbers)
        (tmp_path / f"people_{split}.csv").write_text("file,age,gender\n" + rows)
    with pytest.raises(DataError, match=r'write labels = \["people_train.csv", "people_val.csv"\] and label_column'):
        write_flat_images(tmp_path, "file,link\n" + "".join(f"{n}.png,y.org/{n}\n" for n in range(20)))


def test_columns_behind_prose_could_have_the_labels(tmp_path):
    """`Info.txt` of MIAS explains its columns in front of the rows: tissue, then abnormality."""
    rows = "".join(f"{n} {'FGD'[n % 3]} {('NORM', 'CIRC B 535 425 197')[n % 2]}\n" for n in range(20))
    (tmp_path / "Info.txt").write_text("INFORMATION:\n\nThis file lists the films in the database\n" + rows)
    assert 'could have the labels, too; to use one, write label_column = "3"' in write_flat_images(tmp_path, "")


def test_labels_of_folders_with_their_paths_are_named(tmp_path):
    """MURA labels the folders of studies: `MURA-v1.1/train/XR_HAND/patient00001/study1_positive/,1`."""
    studies = [f"set/XR/patient{n}/study_{('no', 'yes')[n % 2]}" for n in range(8)]
    for number, study in enumerate(studies):
        path = tmp_path / study / "image1.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(png(np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)))
    (tmp_path / "studies.csv").write_text("".join(f"{study}/,{n % 2}\n" for n, study in enumerate(studies)))
    problems = search_label_files(tmp_path, [f"{study}/image1.png" for study in studies]).problems
    assert "studies.csv has the columns '1', '2' (first row: 'set/XR/patient0/study_no/', '0'), but none" in problems[0]

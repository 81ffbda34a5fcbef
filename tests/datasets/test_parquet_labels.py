"""Labels of parquet files: class names beside numbers, and files that disagree about names or types."""

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.parquet_columns import read_class_names, read_file_labels, unify_labels
from roarbench.datasets.undecoded_splits import list_stored_images
from tests.helpers.image_files import png

IMAGE = png(np.zeros((8, 8, 3), np.uint8))


def write_labels(path, labels, names=None):
    """Write images with labels and, in the metadata, the class names that `datasets` 5.2 writes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"image": [{"bytes": IMAGE, "path": None}] * len(labels), "label": labels})
    if names:
        features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path)


def read_labels(folder):
    """Labels of both splits, and the names of their classes, as the product reads them."""
    said = []
    record = infer_dataset(folder, said.append)
    stored = list_stored_images(record)
    labels = {split.value: labels.tolist() for split, (_, labels) in stored.splits.items()}
    return labels["train"], labels["test"], stored.classes, "\n".join(said)


A, B = ["cat", "dog"], ["dog", "cat"]


@pytest.mark.parametrize(
    ("train", "test", "expected"),
    [
        (([0, 1, 0, 1], A), ([0, 1], A), ([0, 1, 0, 1], [0, 1], ("cat", "dog"))),
        ((["dog", "cat"] * 2, None), (["dog"], None), ([1, 0] * 2, [1], ("cat", "dog"))),
        (([3, 1, 3, 1], None), ([1, 3], None), ([3, 1, 3, 1], [1, 3], ())),
    ],
)
def test_labels_mean_the_same_class_in_both_splits(tmp_path, train, test, expected):
    parts = {}
    for split, (labels, names) in zip(Split, (train, test), strict=True):
        write_labels(tmp_path / f"{split}.parquet", labels, names)
        parts[split] = [read_file_labels(tmp_path / f"{split}.parquet", "label")]
    write_labels(tmp_path / "empty.parquet", pa.array([], pa.int64()), ["lion"])
    parts[Split.TEST].append(read_file_labels(tmp_path / "empty.parquet", "label"))  # a shard without rows
    labels, names = unify_labels(parts, "set", "label")
    assert (labels[Split.TRAIN].tolist(), labels[Split.TEST].tolist(), names) == expected


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (
            ([0, 1], None),
            r"'label' has numbers without names in test.parquet and numbers \(cat, dog\) in train.parquet;",
        ),
        (
            ([0, 1], B),
            r"numbers \(dog, cat\) in test.parquet and .*; write all files with strings, or with one ClassLabel",
        ),
        (
            ([0, 1, 2], ["cat", "dog", "bird"]),
            r"numbers \(cat, dog, bird\) in test.parquet and numbers \(cat, dog\) in",
        ),
        ((["cat", "dog"], None), r"has strings in test.parquet and numbers \(cat, dog\) in train.parquet; write all"),
        (([0, 2], A), r"has the label 2, but its ClassLabel names 2 classes \(cat, dog\); write the file again"),
        (([0, -1], A), "the split 'test' of .* has the label -1, which .* without these 1 of 2 rows"),
        ((["cat", " ", ""], None), r"test.parquet: the label column 'label' is empty in 2 of 3 rows"),
    ],
)
def test_labels_that_do_not_fit_are_refused_by_name(tmp_path, test, said):
    write_labels(tmp_path / "train.parquet", [0, 1] * 4, A)
    write_labels(tmp_path / "test.parquet", *test)
    with pytest.raises(DataError, match=said):
        read_labels(tmp_path)


def test_class_of_test_images_alone_is_refused(tmp_path):
    write_labels(tmp_path / "train.parquet", ["cat", "dog"] * 4, None)
    write_labels(tmp_path / "test.parquet", ["Cat", "dog"], None)
    with pytest.raises(DataError, match="the class 'Cat' has no training image: give it more images, or leave it out"):
        read_labels(tmp_path)


@pytest.mark.parametrize(("names", "refused"), [(["0", "1", "2"], ""), (["0", "10", "2"], "10"), (["a", "1", "b"], "")])
def test_network_outputs_named_by_other_numbers_are_refused(tmp_path, names, refused):
    """`class_encode_column` of datasets 5.2 sorts the numbers 0, 2 and 10 as text: 10 becomes class 1."""
    write_labels(tmp_path / "a.parquet", [0, 1, 2], names)
    parts = dict.fromkeys(Split, [read_file_labels(tmp_path / "a.parquet", "label")])
    assert unify_labels(parts, "set", "label")[0][Split.TEST].tolist() == [0, 1, 2]
    if refused:
        with pytest.raises(
            DataError, match=f"the label 1 has the ClassLabel name '{refused}', so it is not the number"
        ):
            unify_labels(parts, "set", "label", outputs=11)
    else:
        assert unify_labels(parts, "set", "label", outputs=11)[0][Split.TEST].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (pa.array([Decimal(1), Decimal(0)], pa.decimal128(18, 0)), [1, 0]),  # PostgreSQL's numeric
        (pa.array([Decimal("1.00"), Decimal("0.00")], pa.decimal128(4, 2)), [1, 0]),
        (pa.array([1, 0], pa.uint64()), [1, 0]),
        (pa.array([1.0, 0.0], pa.float16()), [1, 0]),
        (pa.array([True, False]), [1, 0]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_read_file_labels_takes_whole_numbers_of_every_type(tmp_path, labels, expected):
    write_labels(tmp_path / "a.parquet", labels)
    assert read_file_labels(tmp_path / "a.parquet", "label").numbers.tolist() == expected


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            pa.array([2**63 + 5, 1], pa.uint64()),
            r"numbers above 2\^53; expected class numbers",
        ),  # would wrap to -2^63 + 5
        (pa.array([1e300, 1.0]), r"numbers above 2\^53"),
        (pa.array([0.5, 1.0]), "holds double; expected a whole number or a string"),
        (pa.array([Decimal("0.5")], pa.decimal128(4, 2)), "expected a whole number or a string"),
        (pa.array([float("nan"), 1.0]), "holds double; expected a whole number"),
        (pa.array([0, 1], pa.date32()), "holds date32.day.; expected a whole number"),
        (pa.array([[0], [1]]), "expected a whole number or a string"),
    ],
)
def test_read_file_labels_refuses_labels_that_are_no_classes(tmp_path, labels, said):
    write_labels(tmp_path / "a.parquet", labels)
    with pytest.raises(DataError, match=said):
        read_file_labels(tmp_path / "a.parquet", "label")


def test_alike_class_names_of_shards_are_named(tmp_path):
    write_labels(tmp_path / "set" / "train-00000-of-00002.parquet", ["cat", "dog"] * 4)
    write_labels(tmp_path / "set" / "train-00001-of-00002.parquet", ["Cat", "dog "] * 4)
    said = read_labels(tmp_path / "set")[3]
    assert "warning: 'Cat', 'cat' are separate classes; if they are one class, spell them alike" in said
    assert "warning: 'dog', 'dog ' are separate classes" in said


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"info": {"features": {"label": {"_type": "Value"}}}}', '{"info": null}']
)
def test_other_metadata_has_no_class_names(tmp_path, text):
    table = pa.table({"label": [0, 1]}).replace_schema_metadata({"huggingface": text})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_class_names(tmp_path / "a.parquet", "label") == ()


@pytest.mark.parametrize(
    ("name", "images", "said"),
    [
        ("image", [[[[1, 2, 3]]]] * 4, r"but 'image' \(list<.*; in Python, rb.Suite.from_arrays takes arrays"),
        ("file_name", ["a/0.png"] * 4, r"but 'file_name' \(string\), .*; with datasets, cast a column of paths or"),
        (
            "height",
            [1.5] * 4,
            r"no column holds the bytes .*; if it is a table of numbers, roarbench new-suite .*train.p",
        ),
    ],
)
def test_parquet_without_image_bytes_is_refused_by_what_it_holds(tmp_path, name, images, said):
    table = pa.table({name: images, "width": [1.0] * 4, "label": [0, 1] * 2})
    pq.write_table(table, tmp_path / "train.parquet")
    with pytest.raises(DataError, match=said):
        infer_dataset(tmp_path, print)


def test_arrays_of_datasets_are_refused_by_their_type(tmp_path):
    """`datasets` registers its extension types as soon as it is imported, which new-suite does."""
    import datasets

    features = {"image": datasets.Array3D((2, 2, 3), "uint8"), "label": datasets.Value("int64")}
    rows = {"image": [[[[0] * 3] * 2] * 2] * 4, "label": [0, 1] * 2}
    datasets.disable_progress_bars()
    made = datasets.Dataset.from_dict(rows, features=datasets.Features(features))
    made.to_parquet(tmp_path / "train.parquet")
    with pytest.raises(DataError, match=r"no column holds the bytes of each image's file, but 'image' \(extension<"):
        infer_dataset(tmp_path, print)


@pytest.mark.parametrize("file", ["train-00001-of-00002", "test"])
@pytest.mark.parametrize(("names", "lacking"), [(["image", "Label"], "label"), (["img", "label"], "image")])
def test_files_that_lack_a_column_are_named(tmp_path, file, names, lacking):
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test"):
        write_labels(tmp_path / f"{name}.parquet", [0, 1] * 4)
    path = tmp_path / f"{file}.parquet"
    pq.write_table(pq.read_table(path).rename_columns(names), path)
    with pytest.raises(DataError, match=f"has the columns {', '.join(names)}; expected .*'{lacking}'") as refused:
        infer_dataset(tmp_path, print)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("columns", [{}, {"width": [8] * 8}])
@pytest.mark.parametrize("name", ["train/label={}/part", "train/{}/part", "train/{}", "{}-train"])
def test_labels_in_names_of_folders_and_files_are_refused(tmp_path, name, columns):
    for label in ("001", "002"):
        path = tmp_path / f"{name.format(label)}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"image": [IMAGE] * 8, **(columns if "=" in name else {})}), path)
    with pytest.raises(DataError, match="^no column of .*.parquet holds labels; write the classes as a column 'label'"):
        infer_dataset(tmp_path, print)


def test_labels_in_lists_are_refused_beside_patients(tmp_path):
    rows = {"image": [IMAGE] * 8, "label": [[0], [1]] * 4, "patient": list("aabbccdd")}
    pq.write_table(pa.table(rows), tmp_path / "train.parquet")
    with pytest.raises(DataError, match=r"the label column 'label' holds list<.*; expected a whole number"):
        infer_dataset(tmp_path, print)

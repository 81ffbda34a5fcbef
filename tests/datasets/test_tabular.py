"""Tables of numbers: what is read, how it becomes bytes, and what is refused in one line."""

import gzip
from dataclasses import replace
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from roarbench.common.errors import DataError
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.file_locations_and_downloads import BUNDLED, BUNDLED_TABLE
from roarbench.datasets.tabular import quantize_features, read_features_and_labels

CELLS = find_dataset("breast-cancer")
MINE = replace(CELLS, bundled="", label_column="kind", columns=())
TEXT = "a,kind,b\n1,yes,0.5\n2,no,0.25\n3,yes,-1\n4,no,1e3\n"


def read(tmp_path, text, name="mine.csv", **changes):
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return read_features_and_labels(tmp_path / name, replace(MINE, **changes))


def test_a_table_has_its_columns_in_order_and_its_classes_by_the_alphabet_in_each_kind_of_file(tmp_path):
    quoted = '"a, in ""cm""",kind,b\n' + TEXT.partition("\n")[2].replace("yes", '"y,e;s"')
    written = pa.BufferOutputStream()
    pq.write_table(pa.csv.read_csv(BytesIO(TEXT.encode())), written)
    for name, content in (
        ("mine.csv", TEXT),
        ("mine.csv", quoted),
        ("mine.csv", TEXT.replace(",", ";")),
        ("mine.csv.gz", gzip.compress(TEXT.replace(",", "\t").encode())),
        ("mine.parquet", written.getvalue().to_pybytes()),
    ):
        values, labels = read(tmp_path, content, name)
        np.testing.assert_array_equal(values, [[1, 0.5], [2, 0.25], [3, -1], [4, 1000]], str(content))
        np.testing.assert_array_equal(labels, [1, 0, 1, 0], str(content))
    values, _ = read(tmp_path, TEXT, columns=("b", "a"))
    np.testing.assert_array_equal(values[0], [0.5, 1], "named columns, in that order")


def test_what_is_no_table_of_numbers_is_refused(tmp_path):
    for text, changes, said in (
        (TEXT, {"label_column": "sort"}, "mine.csv has no column 'sort'; known: a, b, kind"),
        (TEXT, {"columns": ("a",)}, "mine.csv has 1 features besides 'kind'; expected two or more"),
        (TEXT.replace("0.25", "left"), {}, "column 'b' holds text, expected numbers; convert it to numbers, or list"),
        (TEXT.replace("0.25", ""), {}, "column 'b' has no finite number in 1 of 4 rows .first: row 2.; fill"),
        (TEXT.replace("no", "yes"), {}, "all rows have the label 'yes'; expected two classes or more"),
        (TEXT + "5,maybe,2\n", {}, "the class 'maybe' of 'kind' has only 1 row, expected 2 or more"),
        ("a,b,kind\n1,2,0.5\n3,4,1.5\n", {}, "the label column 'kind' has fractions; expected a class for each row"),
        ("a,b,kind\n1,2,x\n3,4,\n5,6,x\n", {}, "the label column 'kind' is empty in 1 of 3 rows"),
        ("a,b,kind\n", {}, "mine.csv has no rows"),
        ("a|b|kind\n1|2|x\n", {}, "cannot find the column separator of mine.csv: neither ',' nor ';' nor tab"),
        ("a,b;kind\n1,2;x\n", {}, "cannot find the column separator of mine.csv: several of ',', ';' and tab"),
        ("a;b;kind\n1,5;2;x\n2;-3,5e2;y\n", {}, "mine.csv: column 'a' has decimal commas, such as '1,5'; save"),
        ("a,a,kind\n1,2,x\n", {}, "mine.csv has the column 'a' more than once"),
        ("", {}, "cannot read .*mine.csv"),
    ):
        with pytest.raises(DataError, match=said) as refused:
            read(tmp_path, text, **changes)
        assert "\n" not in str(refused.value)


def test_steps_reach_from_percentile_to_percentile_of_the_training_rows():
    """101 training rows 0 … 100 have the percentiles 1 and 99; the rows after them are not looked at."""
    values = np.array([*range(101), -50, 1, 50, 99, 1000.0])[:, None]
    steps = quantize_features(values, np.arange(101)).ravel()
    assert steps[101:].tolist() == [0, 0, 128, 255, 255]  # 255 / 2 rounds to the even number
    assert steps[26] == round(255 * 25 / 98)
    values = np.zeros((300, 2))
    values[7, 0] = values[299, 1] = 5.0  # a rare event is seen; what changes only outside of training is 0
    steps = quantize_features(values, np.arange(200))
    assert (steps.shape, steps[7, 0], steps.sum()) == ((300, 2, 1, 1), 255, 255)


def test_what_is_bundled_is_what_scikit_learn_ships():
    given = pytest.importorskip("sklearn.datasets")
    cells, digits = given.load_breast_cancer(), given.load_digits()
    for name, data, target in (
        ("breast-cancer", cells.data, 1 - cells.target),  # there malignant comes first
        ("digits", digits.data, digits.target),
    ):
        values, labels = read_features_and_labels(BUNDLED / name / BUNDLED_TABLE, find_dataset(name))
        np.testing.assert_array_equal(values, data)
        np.testing.assert_array_equal(labels, target)


def test_a_table_elsewhere_is_the_same_data(tmp_path):
    elsewhere = tmp_path / "copy.parquet"
    elsewhere.write_bytes((BUNDLED / "breast-cancer" / BUNDLED_TABLE).read_bytes())
    assert decode_dataset(CELLS, tmp_path, elsewhere).fingerprint == decode_dataset(CELLS, tmp_path).fingerprint
    with pytest.raises(DataError, match=r"gone.csv is not a file; add --data FILE, or use a suite's file"):
        decode_dataset(CELLS, tmp_path, tmp_path / "gone.csv")

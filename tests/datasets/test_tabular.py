"""Tables of numbers: reading, quantization to bytes, and rejected tables."""

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


def read_table(tmp_path, text, name="mine.csv", **changes):
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return read_features_and_labels(tmp_path / name, replace(MINE, **changes))


def test_read_features_and_labels_reads_every_table_format(tmp_path):
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
        values, labels = read_table(tmp_path, content, name)
        np.testing.assert_array_equal(values, [[1, 0.5], [2, 0.25], [3, -1], [4, 1000]], str(content))
        np.testing.assert_array_equal(labels, [1, 0, 1, 0], str(content))
    values, _ = read_table(tmp_path, TEXT, columns=("b", "a"))
    np.testing.assert_array_equal(values[0], [0.5, 1], "named columns, in that order")


def test_read_features_and_labels_rejects_invalid_tables(tmp_path):
    for text, changes, said in (
        (TEXT, {"label_column": "sort"}, "mine.csv has no column 'sort'; known: a, b, kind"),
        (TEXT, {"columns": ("a",)}, "mine.csv has 1 feature besides 'kind'; expected two or more"),
        (TEXT.replace("0.25", "left"), {}, "column 'b' holds text, expected numbers; convert it to numbers, or list"),
        (TEXT.replace("0.25", ""), {}, "column 'b' has no finite number in 1 of 4 rows .first: row 2.; fill"),
        (TEXT.replace("no", "yes"), {}, "all rows have the label 'yes'; expected two classes or more"),
        (TEXT + "5,maybe,2\n", {}, "the class 'maybe' of 'kind' has only 1 row, expected 2 or more"),
        ("a,b,kind\n1,2,0.5\n3,4,1.5\n", {}, "the label column 'kind' has fractions; expected a class for each row"),
        ("a,b,kind\n1,2,x\n3,4,\n5,6,x\n", {}, "the label column 'kind' is empty in 1 of 3 rows"),
        ("a,b,kind\n", {}, "mine.csv has no rows"),
        (
            TEXT.replace("2,no", '2,"no'),
            {},
            "mine.csv: a quotation mark in line 3 is not closed there; remove it, or the line break",
        ),
        (TEXT.replace("no", '"no,'), {}, "mine.csv: a quotation mark in line 3 is not closed there"),
        (TEXT.replace("yes", '"'), {}, "mine.csv: a quotation mark in line 2 is not closed there"),
        (TEXT.replace("no", '"no'), {}, "mine.csv: a quotation mark in line 3 is not closed there"),
        ("a|b|kind\n1|2|x\n", {}, "cannot find the column separator of mine.csv: neither ',' nor ';' nor tab"),
        ("a,b;kind\n1,2;x\n", {}, "cannot find the column separator of mine.csv: several of ',', ';' and tab"),
        ("a;b;kind\n1,5;2;x\n2;-3,5e2;y\n", {}, "mine.csv: column 'a' has decimal commas, such as '1,5'; save"),
        ("a,a,kind\n1,2,x\n", {}, "mine.csv has the column 'a' more than once"),
        ("", {}, "cannot read .*mine.csv"),
    ):
        with pytest.raises(DataError, match=said) as refused:
            read_table(tmp_path, text, **changes)
        assert "\n" not in str(refused.value)


def test_quantize_features_spans_percentiles_of_training_rows():
    """101 training rows 0 … 100 have the percentiles 1 and 99; later rows do not count."""
    values = np.array([*range(101), -50, 1, 50, 99, 1000.0])[:, None]
    steps = quantize_features(values, np.arange(101)).ravel()
    assert steps[101:].tolist() == [0, 0, 128, 255, 255]  # 255 / 2 rounds to the even number
    assert steps[26] == round(255 * 25 / 98)
    values = np.zeros((300, 2))  # a rare event is kept; a column that changes only outside of training rows is 0
    values[7, 0] = values[299, 1] = 5.0
    steps = quantize_features(values, np.arange(200))
    assert (steps.shape, steps[7, 0], steps.sum()) == ((300, 2, 1, 1), 255, 255)


def test_bundled_tables_equal_scikit_learn():
    given = pytest.importorskip("sklearn.datasets")
    cells, digits = given.load_breast_cancer(), given.load_digits()
    for name, data, target in (
        ("breast-cancer", cells.data, 1 - cells.target),  # malignant is class 0 in scikit-learn
        ("digits", digits.data, digits.target),
    ):
        values, labels = read_features_and_labels(BUNDLED / name / BUNDLED_TABLE, find_dataset(name))
        np.testing.assert_array_equal(values, data)
        np.testing.assert_array_equal(labels, target)


def test_table_fingerprint_is_independent_of_path(tmp_path):
    elsewhere = tmp_path / "copy.parquet"
    elsewhere.write_bytes((BUNDLED / "breast-cancer" / BUNDLED_TABLE).read_bytes())
    assert decode_dataset(CELLS, tmp_path, elsewhere).fingerprint == decode_dataset(CELLS, tmp_path).fingerprint
    with pytest.raises(DataError, match=r"gone.csv is not a file; add --data FILE, or use a suite's file"):
        decode_dataset(CELLS, tmp_path, tmp_path / "gone.csv")

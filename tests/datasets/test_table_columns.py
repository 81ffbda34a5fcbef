"""Columns of tables: each is the class column, a feature, or listed as left out; classes of CSV files are text."""

import datetime
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roarbench.common.errors import DataError
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.table_columns import describe_group, sort_columns
from roarbench.datasets.tabular import read_features_and_labels
from tests.helpers.image_files import png

ROWS = 8
NUMBERS = [0.5, 1.5, 0.25, 3.0, 4.5, 5.0, 0.75, 7.5]


def infer(path):
    said = []
    return infer_dataset(path, said.append), "\n".join(said)


def write_csv(path, labels, features=NUMBERS):
    lines = [f"{number},{-number},{label}\n" for number, label in zip(features, labels, strict=True)]
    path.write_text("".join(["a,b,label\n", *lines]))
    return path


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [
        (["NA", "DE"] * 4, [1, 0] * 4),  # Namibia
        (["null", "nan", "n/a", "NaN"] * 2, [3, 2, 1, 0] * 2),  # sorted: NaN, n/a, nan, null
        (["None", "mild"] * 4, [0, 1] * 4),
        (["1", "NA"] * 4, [0, 1] * 4),
        (["10", "9"] * 4, [1, 0] * 4),  # by value, as numbers are
        (["007", "7", "0x7", "10"] * 2, [0, 2, 1, 3] * 2),  # alike numbers by their text
        (["7.0", "1e1", "7", "10"] * 2, [1, 3, 0, 2] * 2),
        (["true", "True", "1", "0"] * 2, [3, 2, 1, 0] * 2),
        ([" 7", "7", "10", " 10"] * 2, [0, 0, 1, 1] * 2),  # spaces around numbers are no part of a class
        (["2020-01-02", "2020-01-01"] * 4, [1, 0] * 4),
        (["02134", "02135"] * 4, [0, 1] * 4),
    ],
    ids=str,
)
def test_classes_of_csv_files_are_texts(tmp_path, labels, numbers):
    path = write_csv(tmp_path / "rows.csv", labels)
    record, said = infer(path)
    assert record.classes == len({*numbers})
    assert read_features_and_labels(path, record)[1].tolist() == numbers
    alike = [group for group in said.split("\n") if "are separate classes" in group]
    assert len(alike) == {"007": 1, "7.0": 2, "true": 1, "null": 1}.get(labels[0], 0)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            range(20, 32),
            "the classes are 12 numbers from 20 to 31; if they are measurements, such as ages, write ranges",
        ),
        (range(0, 120_000, 10_000), "the classes are 12 numbers from 0 to 110000; if they"),
        (range(1, 13), ""),
        (range(12), ""),
        (range(3, 9), ""),  # grades of wine
        ([f"{age} years" for age in range(20, 32)], ""),
    ],
    ids=str,
)
def test_many_numbers_as_classes_are_named(tmp_path, labels, said):
    features = [number / 7 for number in range(2 * len(labels))]
    found = infer(write_csv(tmp_path / "rows.csv", [*labels, *labels], features))[1]
    assert said in found and ("measurements" in found) == bool(said)


def test_class_column_without_usual_name_may_be_named_na(tmp_path):
    path = write_csv(tmp_path / "rows.csv", ["NA", "null"] * 4)
    path.write_text(path.read_text().replace("label", "country"))
    assert infer(path)[0].label_column == "country"


@pytest.mark.parametrize("labels", [["", "x"] * 4, ['""', "x"] * 4, ["", "1"] * 4])
def test_empty_class_of_csv_file_is_missing(tmp_path, labels):
    with pytest.raises(DataError, match="the label column 'label' is empty in 4 of 8 rows"):
        infer(write_csv(tmp_path / "rows.csv", labels))


@pytest.mark.parametrize("name", ["label", "country"])
def test_class_that_pandas_read_as_missing_is_explained(tmp_path, name):
    """`read_csv` of pandas 3.1 makes the class NA a missing value, which `to_parquet` and `to_csv` keep."""
    table = {"a": NUMBERS, "b": NUMBERS, name: pa.array([None, "DE"] * 4), "z": NUMBERS}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    said = f"the label column '{name}' is empty in 4 of 8 rows; name the class of each row; .*keep_default_na=False"
    with pytest.raises(DataError, match=said):
        infer(tmp_path / "rows.parquet")


DAY = datetime.date(2025, 1, 1)
USED = {
    "decimal": pa.array([Decimal(int(number * 100)) / 100 for number in NUMBERS], pa.decimal128(9, 2)),
    "decimal256": pa.array([Decimal(int(number * 100)) / 100 for number in NUMBERS], pa.decimal256(50, 2)),
    "whole_decimal": pa.array([Decimal(n % 3) for n in range(ROWS)], pa.decimal128(4, 0)),
    "half": pa.array(NUMBERS, pa.float16()),
    "bool": pa.array([True, False] * 4),
    "uint64": pa.array([2**63 + 5, *range(7)], pa.uint64()),
    "number_categories": pa.array([3, 5, 3, 5] * 2).dictionary_encode(),
}
LISTED = {
    "they hold neither numbers nor text": {
        "date": pa.array([DAY] * 4 + [datetime.date(2025, 1, 2)] * 4),
        "timestamp": pa.array([datetime.datetime(2025, 1, 1)] * ROWS, pa.timestamp("us", "UTC")),
        "time": pa.array([datetime.time(1)] * ROWS),
        "duration": pa.array([datetime.timedelta(1)] * ROWS),
        "list": pa.array([[1, 2]] * ROWS),
        "struct": pa.array([{"x": 1, "y": 2}] * ROWS),
        "map": pa.array([[("k", 1)]] * ROWS, pa.map_(pa.string(), pa.int64())),
        "binary": pa.array([b"ab", b"cd"] * 4),
        "fixed": pa.array([b"ab", b"cd"] * 4, pa.binary(2)),  # DuckDB's UUID and INTERVAL
        "empty": pa.nulls(ROWS),
    },
    "they hold text": {
        "text": pa.array(["x", "y"] * 4),
        "view": pa.array(["x", "y"] * 4, pa.string_view()),
        "categories": pa.array(["x", "y"] * 4).dictionary_encode(),
    },
    "all rows have one value": {"constant": pa.array([Decimal(1)] * ROWS, pa.decimal128(4, 0))},
    "their names are those of row numbers": {"id": pa.array(range(ROWS)), "Unnamed: 0.1": pa.array(range(ROWS))},
    "they name splits": {"usage": pa.array(["train", "test"] * 4)},
}


def test_every_column_of_every_type_is_used_or_listed_with_its_type(tmp_path):
    listed = {name: column for columns in LISTED.values() for name, column in columns.items()}
    table = pa.table({**USED, **listed, "outcome": [0, 1] * 4})
    pq.write_table(table, tmp_path / "rows.parquet")
    record, said = infer(tmp_path / "rows.parquet")
    assert (record.label_column, record.columns) == ("outcome", (*USED,))
    for reason, columns in LISTED.items():
        (line,) = [line for line in said.split("\n") if f"because {reason}" in line]
        for name, column in columns.items():
            assert f"'{name}'" in line
            if "neither" in reason:
                assert f"'{name}' ({'no values' if name == 'empty' else str(column.type)[:5]}" in line
    values, _ = read_features_and_labels(tmp_path / "rows.parquet", record)
    np.testing.assert_array_equal(values[:, 0], NUMBERS)
    np.testing.assert_array_equal(values[:4, 6], [3, 5, 3, 5])


def test_sort_columns_puts_each_column_into_one_list():
    listed = {name: column for columns in LISTED.values() for name, column in columns.items()}
    table = pa.table({**USED, **listed, "gap": pa.array([None, *NUMBERS[1:]]), "outcome": [0, 1] * 4})
    lists = sort_columns(table, "outcome")
    assert sorted(name for names in lists for name in names) == sorted({*table.column_names} - {"outcome"})


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        # dates and decimals of few values are no classes; the last column is
        ({"day": LISTED["they hold neither numbers nor text"]["date"], "kind": [0, 1] * 4}, "kind"),
        ({"price": USED["whole_decimal"], "kind": [0, 1] * 4}, "kind"),
        ({"day": LISTED["they hold neither numbers nor text"]["date"], "kind": ["u", "v"] * 4, "z": NUMBERS}, "kind"),
        ({"fold": ["train", "test"] * 4, "kind": [0, 1] * 4}, "kind"),
        ({"subject": [*"abcd"] * 2, "kind": [0, 1] * 4}, "kind"),  # people are more than their classes
        ({"group": ["u", "v"] * 4, "age": [40, 50, 60, 70] * 2}, "group"),
        ({"fold": ["train", "test"] * 4, "kind": ["u", "v"] * 4, "z": NUMBERS}, "kind"),
        ({"z": NUMBERS, "kind": pa.array([Decimal(0), Decimal(1)] * 4, pa.decimal128(18, 0))}, "kind"),
        ({"label": pa.array([Decimal("0.00"), Decimal("1.00")] * 4), "z": NUMBERS}, "label"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_find_label_column_takes_text_or_whole_numbers(tmp_path, columns, label):
    pq.write_table(pa.table({"a": NUMBERS, "b": NUMBERS[::-1], **columns}), tmp_path / "rows.parquet")
    record, _ = infer(tmp_path / "rows.parquet")
    assert (record.label_column, record.classes) == (label, 2)


@pytest.mark.parametrize("name", ["day", "blob"])
def test_dates_and_bytes_are_no_classes(tmp_path, name):
    columns = {"day": LISTED["they hold neither numbers nor text"]["date"], "blob": pa.array([b"a", b"b"] * 4)}
    pq.write_table(pa.table({"a": NUMBERS, "b": NUMBERS, "label": columns[name]}), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="the label column 'label' holds .*; expected a class for each row, as a whole"):
        infer(tmp_path / "rows.parquet")


def write_frame(path, columns, index):
    """Write a data frame as pandas 3.1 does: its index in columns that the file's metadata names."""
    table = pa.table(columns).replace_schema_metadata({"pandas": json.dumps({"index_columns": index})})
    pq.write_table(table, path)
    return path


def test_index_of_pandas_is_no_feature_and_no_class(tmp_path):
    """`concat(keys=…)` has text as its index, which would be the only text column; `sample` leaves row numbers."""
    columns = {"a": NUMBERS, "b": NUMBERS[::-1], "kind": [0, 1] * 4}
    index = {"__index_level_0__": ["north", "south"] * 4, "visit": [5, 3, 1, 7, 2, 0, 4, 6]}
    path = write_frame(tmp_path / "rows.parquet", {**columns, **index}, [*index])
    record, said = infer(path)
    assert (record.label_column, record.columns) == ("kind", ("a", "b"))
    assert "left out, because they are pandas' row labels (its index): '__index_level_0__', 'visit'" in said
    by_hand, _ = read_features_and_labels(path, record.__class__(**{**record.__dict__, "columns": ()}))
    assert by_hand.shape == (ROWS, 2), "a suite's file without columns has no index either"
    named, _ = read_features_and_labels(path, record.__class__(**{**record.__dict__, "columns": ("a", "visit")}))
    assert named[:, 1].tolist() == index["visit"], "an index that the suite's file names is a feature"


@pytest.mark.parametrize("index", [[{"kind": "range", "start": 0, "stop": 8, "step": 1, "name": None}], None, [None]])
def test_index_without_column_leaves_table_as_it_is(tmp_path, index):
    path = write_frame(tmp_path / "rows.parquet", {"a": NUMBERS, "b": NUMBERS, "kind": [0, 1] * 4}, index)
    assert infer(path)[0].columns == ()


def test_index_with_usual_name_may_be_the_class(tmp_path):
    path = write_frame(tmp_path / "rows.parquet", {"a": NUMBERS, "b": NUMBERS, "label": ["u", "v"] * 4}, ["label"])
    assert infer(path)[0].label_column == "label"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ('"1,5"', "column 'b' has decimal commas, such as '1,5'"),
        ('"1.234,5"', "column 'b' has separators of thousands, such as '1.234,5'"),
        ('"1,234.5"', "column 'b' has separators of thousands, such as '1,234.5'"),
        ('"1,234,567"', "such as '1,234,567'"),
        ("1.234.567", "column 'b' has separators of thousands, such as '1.234.567'"),
        ("1.230", "column 'b' has separators of thousands, such as '1.230'"),  # beside 7
    ],
)
def test_numbers_with_commas_or_groups_are_refused(tmp_path, cell, said):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,label\n" + f"1,{cell},x\n2,7,y\n" * 4)
    with pytest.raises(DataError, match=said):
        infer(path)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1 234", "2 345"], "column 'c' is left out: it holds numbers as text, such as '1 234' in 8 of 8 rows"),
        (["12%", "3.5%"], "such as '12%' in 8 of 8 rows; write plain numbers"),
        (["$5", "$7.5"], "numbers as text, such as '\\$5'"),
        (["1'234'567.5", "3"], "such as '1'234'567.5'"),
    ],
)
def test_text_that_holds_numbers_is_described(tmp_path, cells, said):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c,label\n" + f"1,2,{cells[0]},x\n2,3,{cells[1]},y\n" * 4)
    assert said.replace("\\", "") in infer(path)[1]


def test_numbers_that_parquet_stores_as_text_are_described(tmp_path):
    table = {"a": NUMBERS, "b": NUMBERS, "price": list(map(str, NUMBERS)), "label": ["u", "v"] * 4}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    assert (
        "column 'price' is left out: it holds numbers as text, such as '0.5' in 8 of 8 rows; write plain numb"
        in infer(tmp_path / "rows.parquet")[1]
    )


def test_tables_of_pixels_are_refused(tmp_path):
    """fer2013.csv has 2,304 grey values as text in each cell of `pixels`; pandas writes arrays as lists."""
    grey = " ".join(["70"] * 2304)
    csv = tmp_path / "fer2013.csv"
    csv.write_text("emotion,pixels,Usage\n" + "".join(f"{i % 2},{grey},Training\n" for i in range(6)))
    with pytest.raises(
        DataError, match="a cell of column 'pixels' holds many numbers, as the pixels of an image; a ta"
    ):
        infer(csv)
    cube = pa.table({"image": [[[[1, 2, 3]] * 5] * 4] * ROWS, "label": [0, 1] * 4})
    pq.write_table(cube, tmp_path / "cube.parquet")
    with pytest.raises(DataError, match="a cell of column 'image' holds many numbers"):
        infer(tmp_path / "cube.parquet")


def test_parquet_file_of_images_names_its_folder(tmp_path):
    image = {"bytes": png(np.zeros((8, 8, 3), np.uint8)), "path": None}
    pq.write_table(pa.table({"image": [image] * ROWS, "label": [0, 1] * 4}), tmp_path / "train.parquet")
    with pytest.raises(
        DataError, match="holds image files in its column 'image'; name the folder of the parquet files"
    ):
        infer(tmp_path / "train.parquet")


@pytest.mark.parametrize(("cell", "other"), [("1.230", "7.000"), ("0.230", "7"), ("1.235", "7"), ("1.230", "7.5")])
def test_numbers_of_three_decimals_are_read(tmp_path, cell, other):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,label\n" + f"1,{cell},x\n2,{other},y\n" * 4)
    assert infer(path)[0].channels == 2


def write_rows(path, header, row, count=60):
    path.write_text("".join([header + "\n", *(row(number) + "\n" for number in range(count))]))
    return path


@pytest.mark.parametrize(
    ("value", "count", "words"),
    [
        (lambda n: 10 ** (n / 5), 60, "256 steps hardly tell the values of a column apart: column 'a' ("),
        (lambda n: 1e6 if n == 5 else n / 7, 60, "256 steps"),  # the 99th percentile of few rows is the largest
        (lambda n: 1000 if n % 4 == 0 else n % 10, 60, "256 steps"),  # a step for several of ten frequent values
        (lambda n: 1e6 if n == 5 else n / 7, 400, ""),
        (lambda n: n / 7, 60, ""),
        (lambda n: n if n % 50 == 0 else 0, 2000, ""),  # a rare event
        (
            lambda n: -999 if n % 4 == 0 else n / 7,
            60,
            "apart from the other values: column 'a' (-999 in 15 of 60 rows)",
        ),
        (lambda n: 99 if n % 4 == 0 else n % 10, 60, "column 'a' (99 in 15 of 60 rows); fill these values in"),
        (lambda n: -1 if n % 3 == 0 else n % 6, 60, "column 'a' (-1 in 20 of 60 rows)"),
        (lambda n: -200 if n % 9 == 0 else 300 + n, 60, "column 'a' (-200 in 7 of 60 rows)"),
        (lambda n: 9999 if n % 9 == 0 else 100 * n, 60, "column 'a' (9999 in 7 of 60 rows)"),
        (lambda n: -5 if n % 9 == 0 else n - 30, 60, ""),
        (lambda n: n % 20 - 1, 60, ""),  # -1 is as frequent as other whole numbers
        (lambda n: n % 100, 400, ""),  # 99 is near other numbers
        (lambda n: n % 2 * 2 - 1, 60, ""),
    ],
)
def test_column_whose_steps_lose_its_differences_or_that_marks_missing_values_is_named(tmp_path, value, count, words):
    rows = write_rows(tmp_path / "rows.csv", "a,b,label", lambda n: f"{value(n)},{n % 13},{n * n % 2}", count)
    said = infer(rows)[1]
    assert words in said
    assert ("256 steps" in said, "stands for missing" in said) == (
        words[:3] == "256",
        bool(words) and words[:3] != "256",
    )


def days(n):
    return f"{2021 + n % 3}{n % 12 + 1:02}{n % 28 + 1:02}"


@pytest.mark.parametrize(
    ("cell", "warned"),
    [
        (lambda n: f"{n % 9:05}", "column 'a' (such as 00000)"),
        (lambda n: f"0x{n % 9:x}", "column 'a' (such as 0x0)"),
        (lambda n: days(n), "column 'a' (such as 20210101)"),
        (lambda n: f"{days(n)}.0", "column 'a' (such as 20210101.0)"),
        (lambda n: 20_210_000 + n % 50, ""),
        (lambda n: f"0.{n}", ""),
    ],
)
def test_codes_and_dates_that_are_read_as_numbers_are_named(tmp_path, cell, warned):
    rows = write_rows(tmp_path / "rows.csv", "a,b,label", lambda n: f"{cell(n)},{n % 13},{n % 2}")
    said = infer(rows)[1]
    assert warned in said and ("codes or dates are read as numbers" in said) == bool(warned)


def test_categories_of_pandas_that_are_read_as_numbers_are_named(tmp_path):
    frame = pd.DataFrame({"a": pd.Categorical([3, 1, 2, 1] * 15), "b": range(60), "label": [0, 1] * 30})
    frame.to_parquet(tmp_path / "rows.parquet")
    assert "codes or dates are read as numbers: column 'a' (categories); to" in infer(tmp_path / "rows.parquet")[1]


@pytest.mark.parametrize(
    ("header", "label", "words"),
    [
        ("a,target_1,target_2", "target_2", "'target_2' has the classes, but 'target_1' could have them by name"),
        ("x,y,kind", "kind", "the last, is taken: 'kind'"),  # a place
        ("y,a,kind", "y", ""),
        (
            f"{','.join(f'pixel{n}' for n in range(16))},kind",
            "kind",
            "features are named like pixels, but a table has no",
        ),
        (
            "a,y_pred,pred_rf,kind",
            "kind",
            "named like predictions of the class: column 'y_pred', 'pred_rf'; to leave it",
        ),
        ("a,predominance,kind", "kind", ""),
    ],
)
def test_several_targets_coordinates_pixels_and_predictions_are_told_from_classes(tmp_path, header, label, words):
    count = header.count(",") - 1
    rows = write_rows(tmp_path / "rows.csv", header, lambda n: f"{n % 7},{','.join([str(n // 2 % 2)] * count)},{n % 2}")
    record, said = infer(rows)
    assert (record.label_column, words in said) == (label, True)
    assert ("predictions" in said) == ("pred_" in header)


@pytest.mark.parametrize(("count", "words"), [(9, "fewer than 10 rows: 'rare' 9; add rows"), (10, "")])
def test_classes_of_few_rows_are_named(tmp_path, count, words):
    rows = write_rows(tmp_path / "rows.csv", "a,b,label", lambda n: f"{n},{n % 13},{'rare' if n < count else 'usual'}")
    said = infer(rows)[1]
    assert words in said and ("fewer than 10" in said) == bool(words)


def test_equal_rows_of_several_classes_are_counted(tmp_path):
    rows = write_rows(tmp_path / "rows.csv", "a,b,label", lambda n: f"{n // 2},{n % 50},{n % 2 if n < 8 else 0}")
    assert "have the same features as a row of another class" not in infer(rows)[1]
    rows = write_rows(tmp_path / "rows.csv", "a,b,label", lambda n: f"{n // 2},{n // 2},{n % 2 if n < 8 else 0}")
    assert "8 of 60 rows have the same features as a row of another class" in infer(rows)[1]


@pytest.mark.parametrize(
    ("code", "warned"),
    [
        (lambda n: 3 - n % 2, True),
        (lambda n: n % 4, True),
        (lambda n: n % 3, False),
        (lambda n: n, False),  # every value occurs once
        (lambda n: int(n % 2 == 0) * (1 + n % 3), True),  # 0 marks one class
        (lambda n: int(n % 2 == 0 and n > 4), False),
        (lambda n: int(n % 2 == 0 and n > 0), True),  # one of 60 rows differs
        (lambda n: n % 2 + n / 100, True),  # the ranges of the classes do not overlap
        (lambda n: n % 2 + n / 50, False),
    ],
)
def test_column_that_copies_the_class_is_named(tmp_path, code, warned):
    path = write_rows(tmp_path / "rows.csv", "code,a,label", lambda n: f"{code(n)},{n % 13},{n % 2}")
    assert (": column 'code'; if it is a copy of the class" in infer(path)[1]) == warned


def test_column_of_one_hot_classes_is_named(tmp_path):
    path = write_rows(tmp_path / "rows.csv", "is_b,a,label", lambda n: f"{int(n % 3 == 1)},{n % 13},{'abc'[n % 3]}")
    assert ": column 'is_b'; if it is a copy of the class" in infer(path)[1]


def test_several_columns_with_usual_names_of_classes_are_named(tmp_path):
    path = write_rows(tmp_path / "rows.csv", "a,b,category,target", lambda n: f"{n % 7},{n % 5},{n % 3},{n % 2}")
    assert "column 'target' has the classes, but 'category' could have them by name" in infer(path)[1]
    path.write_text(path.read_text().replace("category,target", "c, Label"))
    assert "by name" not in infer(path)[1] and "usual name" not in infer(path)[1]


@pytest.mark.parametrize("name", ["fold", "kfold", "cv_fold", "split"])
def test_numbers_of_folds_are_no_feature(tmp_path, name):
    path = write_rows(tmp_path / "rows.csv", f"a,b,{name},label", lambda n: f"{n / 7},{n % 13},{n % 5},{n % 2}")
    record, said = infer(path)
    assert record.columns == ("a", "b") and f"test rows are drawn at random: '{name}'" in said


@pytest.mark.parametrize(
    ("name", "values", "used"),
    [
        ("is_train", "01", False),
        ("isTest", ("true", "false"), False),
        ("train", "01", False),
        ("is_test", "12", True),
        ("test", "01", True),  # a result
    ],
)
def test_flags_of_splits_are_no_feature(tmp_path, name, values, used):
    path = write_rows(
        tmp_path / "rows.csv", f"a,{name},b,label", lambda n: f"{n},{values[n // 3 % 2]},{n % 13},{n % 2}"
    )
    record, said = infer(path)
    assert (f"test rows are drawn at random: '{name}'" in said) is not used
    assert (record.channels == 3) is used


@pytest.mark.parametrize(("value", "feature"), [(lambda n: f"p{n // 4}", False), (lambda n: n // 4, True)])
def test_patients_of_several_rows_are_named(tmp_path, value, feature):
    path = write_rows(tmp_path / "rows.csv", "a,b,Patient ID,label", lambda n: f"{n / 7},{n % 13},{value(n)},{n % 2}")
    said = infer(path)[1]
    assert "column 'Patient ID' has 15 values in 60 rows, which are drawn for testing one by one" in said
    assert ("column 'Patient ID' is a feature;" in said) is feature
    path = write_rows(tmp_path / "rows.csv", "a,b,center,label", lambda n: f"{n / 7},{n % 13},{n // 4 / 2},{n % 2}")
    assert "column 'center' has" not in infer(path)[1]


@pytest.mark.parametrize("count", [1, 4])
def test_ids_of_several_rows_are_those_of_things(tmp_path, count):
    """In 20 of 900 tables of R's packages, `id` numbered patients, families or firms with several rows."""
    path = write_rows(tmp_path / "rows.csv", "id,a,b,label", lambda n: f"{n // count},{n / 7},{n % 13},{n % 2}")
    assert ("column 'id' has 15 values in 60 rows, which are drawn for testing" in infer(path)[1]) == (count > 1)
    assert not describe_group("id", ["0", "1", "2"], ["0", "1"], "image"), "numbers of rows begin at 0 in each split"
    assert not describe_group("id", ["0", "1", "", ""], (), "image"), "images without a row have no id"
    assert not describe_group("patient", ["a", "b", ""], (), "image"), "no patient has several images"
    assert "1 of the 1 values of test images" in describe_group("patient", ["a", "b", ""], ["a", ""], "image")


@pytest.mark.parametrize("name", [".28", "[0]", "a.b"])
def test_names_of_columns_are_no_paths(tmp_path, name):
    path = write_rows(tmp_path / "rows.csv", f"{name},b,label", lambda n: f"{n},{n % 13},{n % 2}")
    assert infer(path)[0].channels == 2


@pytest.mark.parametrize("index", [["patient"], []])
def test_patients_in_the_index_or_with_gaps_are_named(tmp_path, index):
    patients = [0, 0, 0, 0, 1, 1, 1, 1] if index else [None, 0, 0, 0, 1, 1, 1, 1]
    columns = {"a": NUMBERS, "b": NUMBERS[::-1], "label": [0, 1] * 4, "patient": patients}
    said = infer(write_frame(tmp_path / "rows.parquet", columns, index))[1]
    known = sum(patient is not None for patient in patients)
    assert f"column 'patient' has 2 values in {known} rows, which are drawn for testing one by one" in said


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (lambda n: "rare" if n == 3 else "ab"[n % 2], "the class 'rare' of 'kind' has only 1 row"),
        (lambda n: "a", "all rows have the label 'a'"),
        (lambda n: f"free text {n}", "no column has a usual name"),
    ],
)
def test_column_of_text_that_cannot_be_the_class_is_explained(tmp_path, kinds, words):
    path = write_rows(tmp_path / "rows.csv", "a,b,kind", lambda n: f"{n / 7},{n % 13},{kinds(n)}")
    with pytest.raises(DataError, match=words):
        infer(path)


def test_label_file_of_images_names_its_folder(tmp_path):
    path = write_rows(tmp_path / "labels.csv", "file,label", lambda n: f"images/{n}.JPG,{n % 2}")
    with pytest.raises(DataError, match=f"names image files in its column 'file'; .*new-suite {tmp_path}"):
        infer(path)


def test_guessed_class_column_is_named(tmp_path):
    """A table with its class first and a text feature: the text is taken, and a line says so."""
    path = write_rows(tmp_path / "rows.csv", "outcome,a,sex", lambda n: f"{n % 2},{n % 13},{'MF'[n % 3 == 0]}")
    assert "warning: rows.csv: no column has a usual name of a class column; " in infer(path)[1]
    path.write_text(path.read_text().replace("outcome", "label"))
    said = write_rows(tmp_path / "named.csv", "label,a,b", lambda n: f"{n % 2},{n % 13},{n % 7}")
    assert "usual name" not in infer(said)[1]


def test_unnamed_column_of_pandas_is_the_row_number(tmp_path):
    path = write_rows(tmp_path / "rows.csv", ",a,b,label", lambda n: f"{n},{n % 13},{n % 7},{n % 2}")
    record, said = infer(path)
    assert record.columns == ("a", "b")
    assert "columns left out, because their names are those of row numbers: ''" in said


def test_name_of_the_first_column_may_begin_like_a_comment(tmp_path):
    path = write_rows(tmp_path / "rows.csv", "#a,b,label", lambda n: f"{n % 13},{n % 7},{n % 2}")
    assert infer(path)[0].channels == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b,label\n1,2,3\n".encode("utf-16"), "rows.csv is UTF-16, expected UTF-8; save the file as UTF-8"),
        (b"# made today\na,b,label\n1,2,3\n", "begins with '# made today', expected a row of .*; remove this line"),
        (b"sep=;\na;b;label\n1;2;3\n", "begins with 'sep=;', expected a row of column names; remove this line"),
        ("a,b,label\n1,2,süß\n".encode("latin-1"), "is not UTF-8: column 'label' has other bytes; save the file as"),
    ],
)
def test_first_line_that_is_no_row_of_names_is_explained(tmp_path, content, said):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(DataError, match=said):
        infer(tmp_path / "rows.csv")


def test_empty_lines_in_front_are_no_row_of_names(tmp_path):
    rows = write_rows(tmp_path / "rows.csv", "a,b,label", lambda n: f"{n % 13},{n % 7},{n % 2}")
    rows.write_text("\n\n" + rows.read_text())
    assert infer(rows)[0].columns == () and infer(rows)[0].label_column == "label"


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        *((["0", "1", "-1"], True), (["-1.0", "0.0", "1.0"], True), (["-1", "1"], False), (["0", "1"], False)),
        *((["a", "b", "?"], True), (["a", "b", "NaN"], True), (["a", "NA"], True), (["a", "Unknown"], True)),
        *((["0", "1", "999"], True), (["98", "99"], False), (["a", "BACKGROUND_Google"], True)),
        *((["a", "_Results_"], True), (["a", "rejected"], True), (["a", "other"], False)),
    ],
)
def test_class_that_may_stand_for_a_missing_label_is_named(tmp_path, labels, warned):
    path = write_rows(tmp_path / "rows.csv", "a,b,label", lambda n: f"{n % 13},{n % 7},{labels[n % len(labels)]}")
    assert ("; if it marks missing labels or other classes, leave it out" in infer(path)[1]) == warned

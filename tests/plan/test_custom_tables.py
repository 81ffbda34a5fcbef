"""A suite on somebody's table: the file that is written for it, what it says, and what is refused with its place."""

import numpy as np
import pytest

from roarbench.datasets import TABLE
from roarbench.errors import CallerError, DataError
from roarbench.execution.fitness import fitted
from roarbench.plan.custom_suite import suite_of, suite_record
from roarbench.plan.new_suite import write_suite
from roarbench.plan.suite import NO_NEIGHBOURS
from roarbench.plan.suite_file import read_suite

TEXT = """
name = "mine"
protocols = ["specific", "roar"]
estimators = ["grad", "gradcam", "sobel", "ig(baseline=blur)"]
levels = [0.5]
seeds = 2
references = 2

[data]
table = "mine.csv"
label_column = "kind"
test_share = 0.25

[network]
name = "mlp"

[recipe]
like = "tabular@1"
epochs = 4
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_table(path, header="one,two,three,four,kind", rows=40):
    """Rows of two kinds that the first column tells apart."""
    drawn = np.random.default_rng(0).normal(size=(rows, 4)).round(3)
    lines = [f"{a + 4 * (i % 2)},{b},{c},{d},{'ab'[i % 2]}" for i, (a, b, c, d) in enumerate(drawn.tolist())]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


@pytest.fixture
def path(tmp_path):
    write_table(tmp_path / "mine.csv")
    (tmp_path / "mine.toml").write_text(TEXT)
    return tmp_path / "mine.toml"


def changed(path, old, new):
    assert old in TEXT
    path.write_text(TEXT.replace(old, new))
    return read_suite(path)


def test_a_suite_is_what_its_file_says_and_what_does_not_apply_is_left_out(path):
    suite = read_suite(path)
    data = suite.dataset_record
    assert (data.own, data.shape, data.classes, data.train_images, data.test_images) == (TABLE, (4, 1, 1), 2, 30, 10)
    assert (suite.placed[:2], suite.controls) == (("random", "grad"), ("random",))  # the only control comes by itself
    fit = fitted(suite)
    assert fit.left_out == dict.fromkeys(("sobel", "random-blurred", "gradcam", "ig(baseline=blur)"), NO_NEIGHBOURS)
    assert fit.estimators == ("random", "grad")


def test_the_store_keeps_it(path):
    suite = fitted(changed(path, "label_column", 'columns = ["two", "one"]\nlabel_column'))
    assert suite.dataset_record.columns == ("two", "one")
    kept = suite_of(suite_record(suite))
    assert (kept.called, kept.dataset_record) == (suite.called, suite.dataset_record.anywhere)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"kind"', '"kinds"', r"\[data\]: mine\.csv has no column 'kinds'; did you mean 'kind'\?"),
        ('"tabular@1"', '"quick@2"', r'quick@2\(epochs=4\) moves or shrinks images, .*write like = "tabular@1"'),
        ("seeds = 2", 'seeds = 2\nunits = ["pixel"]', r"units has 'pixel', and a table has no pixels"),
        ('["specific", "roar"]', '["roar"]\nfills = ["blur"]', "fills has 'blur', which is made of neighbouring"),
    ],
)
def test_mistakes_are_told_with_their_place(path, old, new, said):
    with pytest.raises(CallerError, match=f"mine.toml.*{said}") as refused:
        changed(path, old, new)
    assert "\n" not in str(refused.value)


def test_a_file_is_written_for_a_table(tmp_path):
    suite = read_suite(write_suite(write_table(tmp_path / "My Rows.csv")))
    assert (suite.name, suite.model, suite.recipe, suite.references) == ("my-rows", "mlp", "tabular@1", 20)
    assert [(block.protocol.name, block.seeds) for block in suite.blocks] == [("specific", 20), ("roar", 20)]
    data = suite.dataset_record
    assert (data.label_column, data.columns, data.share) == ("kind", (), 0.3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,c\n1,2,0.5\n3,4,0.7\n", "no column has a usual name of classes"),
        ("a,b,y\n1,,0\n4,5,1\n,7,0\n,7,1\n", "missing or infinite values: column 'a' in 2 of 4 rows, 'b' in 1 of 4"),
    ],
)
def test_a_table_without_classes_is_told_of(tmp_path, text, said):
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        write_suite(tmp_path / "mine.csv")

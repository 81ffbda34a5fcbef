"""Files of suites that `new-suite` writes for somebody's own data."""

import pytest

from roarbench.common.errors import CallerError, DataError
from roarbench.plan import new_suite
from roarbench.plan.read_suite_file import read_suite
from tests.helpers.own_photos import write_pictures, write_table
from tests.helpers.tiny_set import TINY_LABELS, tiny_images, write_split


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_folders_of_classes_whose_file_is_not_overwritten(here):
    path = new_suite.write_new_suite_file(write_pictures(here / "My Pictures"))
    suite, written = read_suite(path), path.read_text()
    assert (suite.name, [block.protocol.name for block in suite.blocks]) == ("my-pictures", ["matched", "roar"])
    assert {"deviation", "colour-deviation", "linear-classifier", "ig(baseline=mean)"} <= {*suite.blocks[0].estimators}
    assert suite.blocks[1].estimators == ("random", "sobel", "random-blurred", *suite.blocks[0].estimators[-5:])
    data = suite.dataset_record
    assert (data.classes, data.train_images, data.test_images, data.share) == (3, 18, 6, 0.3)
    assert (data.size, data.channels) == (8, 3)  # of 10 x 9 pixels
    assert suite.recipe == suite.reference_recipe == "quick@2(epochs=40,batch=32,peak=0.2)"
    with pytest.raises(CallerError, match="my-pictures.toml already exists; name a new file"):
        new_suite.write_new_suite_file(here / "My Pictures")
    assert path.read_text() == written


def test_parquet_files_of_one_split_and_of_two(here):
    for split, counts in (("train", (8, 4)), ("test", (12, 6))):
        write_split(here / "tables", split, tiny_images(split), TINY_LABELS[split], ("img", "kind"))
        data = read_suite(new_suite.write_new_suite_file(here / "tables")).dataset_record
        assert (data.image_column, data.label_column, data.classes) == ("img", "kind", 3)
        assert (data.train_images, data.test_images) == counts
        (here / "tables.toml").unlink()


def test_a_table(here):
    suite = read_suite(new_suite.write_new_suite_file(write_table(here / "My Rows.csv")))
    assert (suite.name, suite.model, suite.recipe, suite.references) == ("my-rows", "mlp", "tabular@1", 20)
    assert [(block.protocol.name, block.seeds) for block in suite.blocks] == [("matched", 20), ("roar", 20)]
    data = suite.dataset_record
    assert (data.label_column, data.columns, data.share) == ("kind", (), 0.3)


def broken(folder):
    """One is cut off in its second half; two are no pictures at all."""
    write_pictures(folder)
    for name in ("blue/00", "green/00", "green/01"):
        (folder / f"{name}.png").write_bytes(b"no image")
    cut = folder / "blue" / "01.png"
    cut.write_bytes(cut.read_bytes()[:150])


def holding(text):
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("photos", lambda path: None, "photos is missing; name a folder of class folders or of parquet files"),
        ("photos", holding("x"), "photos is a file; name a folder of class folders"),
        (
            "photos",
            broken,
            "4 of 24 images of photos cannot be decoded completely: blue/00.png, blue/01.png, green/00.png and 1",
        ),
        (
            "a.csv",
            holding("a,b,c\n1,2,0.5\n3,4,0.7\n"),
            "no column has a usual name of a class column .*; rename the class column to 'label', or",
        ),
        ("a.csv", holding("a,b,y\n1,,0\n4,5,1\n,7,0\n,7,1\n"), "values: column 'a' in 2 of 4 rows, 'b' in 1 of 4"),
    ],
)
def test_where_nothing_is_found_nothing_is_written(here, name, make, said):
    make(here / name)
    with pytest.raises(DataError, match=said):
        new_suite.write_new_suite_file(here / name)
    assert not list(here.glob("*.toml"))

"""Suite files that `new-suite` writes for a user's own data."""

import tomllib

import numpy as np
import pytest
from PIL import Image

from roarbench.common.errors import CallerError
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.plan import new_suite
from roarbench.plan.protocols import MATCHED
from roarbench.plan.read_suite_file import read_suite
from roarbench.plan.suite import describe_missing_controls
from roarbench.plan.toml_table import format_toml
from tests.helpers.own_photos import write_pictures, write_table
from tests.helpers.tiny_set import TINY_LABELS, tiny_images, write_split


def test_write_new_suite_file_reads_class_folders(working_folder):
    path = new_suite.write_new_suite_file(write_pictures(working_folder / "My Pictures"))
    suite, written = read_suite(path), path.read_text()
    assert (suite.name, [block.protocol.name for block in suite.blocks]) == ("my-pictures", ["matched", "roar"])
    assert describe_missing_controls(suite, MATCHED) == ""
    assert suite.blocks[1].estimators == ("random", "sobel", "random-blurred", *suite.blocks[0].estimators[-5:])
    data = suite.dataset_record
    assert (data.classes, data.train_images, data.test_images, data.share) == (3, 18, 6, 0.3)
    assert (data.size, data.channels) == (8, 3)  # of 10 x 9 pixels
    assert suite.recipe == suite.reference_recipe == "quick@2(epochs=40,batch=32,peak=0.2)"
    with pytest.raises(CallerError, match="my-pictures.toml already exists; name a new file"):
        new_suite.write_new_suite_file(working_folder / "My Pictures")
    assert path.read_text() == written


def test_write_new_suite_file_reads_parquet_splits(working_folder):
    for split, counts in (("train", (8, 4)), ("test", (12, 6))):
        write_split(working_folder / "tables", split, tiny_images(split), TINY_LABELS[split], ('im"g', "ki\\nd"))
        data = read_suite(new_suite.write_new_suite_file(working_folder / "tables")).dataset_record
        assert (data.image_column, data.label_column, data.classes) == ('im"g', "ki\\nd", 3)
        assert (data.train_images, data.test_images) == counts
        (working_folder / "tables.toml").unlink()


def test_write_new_suite_file_reads_table(working_folder):
    suite = read_suite(new_suite.write_new_suite_file(write_table(working_folder / "My Rows.csv")))
    assert (suite.name, suite.model, suite.recipe, suite.references) == ("my-rows", "mlp", "tabular@1", 20)
    assert [(block.protocol.name, block.seeds) for block in suite.blocks] == [("matched", 20), ("roar", 20)]
    assert describe_missing_controls(suite, MATCHED) == ""
    data = suite.dataset_record
    assert (data.label_column, data.columns, data.share) == ("kind", (), 0.3)


@pytest.mark.parametrize(("scale", "depth"), [(3, 10), (257, 16), (2**13, 21)])
def test_new_suite_file_has_depth_of_deep_grey_images_and_mirrors_no_grey(working_folder, scale, depth):
    for name in ("a", "b"):
        (working_folder / "set" / name).mkdir(parents=True)
        for number in range(2):
            values = np.arange(192, 256, dtype=np.int32).reshape(8, 8) * scale
            image = Image.fromarray(values if depth > 16 else values.astype(np.uint16))
            image.save(working_folder / "set" / name / f"{number}.{'tif' if depth > 16 else 'png'}")
    suite = read_suite(new_suite.write_new_suite_file(working_folder / "set"))
    record = suite.dataset_record
    assert (record.depth, record.channels, suite.recipe_record.augmentation) == (depth, 1, "shift")
    pixels = decode_dataset(record, working_folder / "store").train.pixels
    np.testing.assert_array_equal(pixels[0].ravel(), np.arange(192, 256) * scale >> (depth - 8))


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a'b\"c", "äpfel 蜂 🐝", "a  # b"])
def test_new_suite_file_escapes_folder_names(working_folder, text):
    folder = write_pictures(working_folder / text)
    (folder / "red").rename(folder / f"red {text}")
    assert read_suite(new_suite.write_new_suite_file(folder)).dataset_record.folder == str(folder)


def test_new_suite_file_rejects_unprintable_folder_name(working_folder):
    with pytest.raises(CallerError, match="has characters that cannot be printed; rename the folder"):
        new_suite.write_new_suite_file(write_pictures(working_folder / "caf\udce9"))
    assert not list(working_folder.glob("*.toml"))


def test_format_toml_round_trips_special_characters_and_numpy_numbers():
    values = ["tab\tnew\nline", "\x7f\x01", 'a"b\\', np.float64(0.1), np.int64(3)]
    assert tomllib.loads(f"x = {format_toml(values)}") == {"x": values}

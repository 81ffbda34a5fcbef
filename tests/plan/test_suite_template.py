"""Suite files that `new-suite` writes for a user's own data."""

import numpy as np
import pytest

from roarbench.common.errors import CallerError, DataError
from roarbench.estimators.catalogue import PAPER_IDS
from roarbench.plan import suite_template
from roarbench.plan.protocols import KAR, ROAR
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import SUITES, read_suite
from tests.helpers.image_files import TINY_LABELS, png, tiny_images, write_pictures, write_split, write_table

RETRAINED = ("grad", "sgsq-grad", "var-grad")
EXPLAINING = (
    *("grad", "sg-grad", "sgsq-grad", "var-grad", "input-x-grad", "gb-sq", "ig", "ig(baseline=mean)"),
    *("search(passes=2)", "search(passes=65)"),
)


def make_questions(suite):
    """Return protocol, applicable estimators, levels and seeds of each block."""
    return [
        (
            block.protocol.name,
            tuple(name for name in block.estimators if not suite.explain_inapplicable(name)),
            block.levels,
            block.seeds,
        )
        for block in suite.blocks
    ]


def test_write_new_suite_file_reads_class_folders(working_folder):
    path = suite_template.write_new_suite_file(write_pictures(working_folder / "My Pictures"))
    suite, written = read_suite(path), path.read_text()
    assert (suite.name, suite.references) == ("my-pictures", 5)
    assert make_questions(suite) == make_questions(SUITES["quick"])  # those of README.md
    data = suite.dataset_record
    assert (data.classes, data.train_images, data.test_images, data.share) == (3, 18, 6, 0.3)
    assert (data.size, data.channels) == (8, 3)  # of 10 x 9 pixels
    assert suite.recipe == suite.reference_recipe == "quick@2(epochs=40,batch=32,peak=0.2)"
    with pytest.raises(CallerError, match="my-pictures.toml already exists; name a new file"):
        suite_template.write_new_suite_file(working_folder / "My Pictures")
    assert path.read_text() == written


@pytest.mark.parametrize("network", ["resnet-quik", "net.py:build"])
def test_unknown_network_is_refused_before_a_file_is_written(working_folder, network):
    """The file was written with a warning, and every command refused it."""
    folder = write_pictures(working_folder / "pictures")
    with pytest.raises(CallerError, match=r"pictures\.toml, \[network\]: "):
        suite_template.write_new_suite_file(folder, network=network)
    assert [*working_folder.iterdir()] == [folder]


def test_write_new_suite_file_reads_parquet_splits(working_folder):
    for split, counts in (("train", (8, 4)), ("test", (12, 6))):
        write_split(working_folder / "tables", split, tiny_images(split), TINY_LABELS[split], ("img", "kind"))
        data = read_suite(suite_template.write_new_suite_file(working_folder / "tables")).dataset_record
        assert (data.image_column, data.label_column, data.classes) == ("img", "kind", 3)
        assert (data.train_images, data.test_images) == counts
        (working_folder / "tables.toml").unlink()


def test_write_new_suite_file_reads_table(working_folder):
    suite = read_suite(suite_template.write_new_suite_file(write_table(working_folder / "My Rows.csv", 24)))
    assert (suite.name, suite.model, suite.recipe, suite.references) == ("my-rows", "mlp", "tabular@1", 20)
    assert make_questions(suite) == [
        ("roar", ("random", *RETRAINED), (0.1, 0.5, 0.9), 20),
        ("own-network", ("random", *EXPLAINING), (0.1, 0.5, 0.9), 1),
    ]
    # rows that can never be run would make a table unfinished
    assert {*suite.blocks[1].estimators} - {"sobel", "random-blurred"} == {"random", *EXPLAINING}
    data = suite.dataset_record
    assert (data.label_column, data.columns, data.share) == ("kind", (), 0.3)


@pytest.mark.parametrize(
    ("write", "seeds", "levels"),
    [
        (lambda at: write_pictures(at / "photos"), 5, (0.1, 0.3, 0.5, 0.7, 0.9)),
        (lambda at: write_table(at / "rows.csv"), 20, (0.25, 0.5, 0.75)),  # 0.1 and 0.9 of four columns are 0 and 4
    ],
)
def test_new_suite_for_paper_has_its_estimators_levels_and_protocols(working_folder, write, seeds, levels):
    suite = read_suite(suite_template.write_new_suite_file(write(working_folder), paper=True))
    assert [block.protocol for block in suite.blocks] == [ROAR, KAR]
    for block in suite.blocks:
        assert (block.levels, block.seeds) == (levels, seeds) and {*PAPER_IDS} < {*block.estimators}


def write_broken_pictures(folder):
    """Write pictures of which one is truncated and three are no images."""
    write_pictures(folder)
    for name in ("blue/00", "green/00", "green/01"):
        (folder / f"{name}.png").write_bytes(b"no image")
    cut = folder / "blue" / "01.png"
    cut.write_bytes(cut.read_bytes()[:150])


def write_texts_named_like_pictures(folder):
    for name in ("blue", "green"):
        (folder / name).mkdir(parents=True)
        for number in range(2):
            (folder / name / f"{number}.png").write_text("no picture")


def make_text_writer(text):
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("photos", lambda path: None, "photos is missing; name a folder of class folders or of parquet files"),
        ("a.npz", lambda path: None, "a.npz is missing; name a folder"),
        ("photos", make_text_writer("x"), "photos is a file; name a folder of class folders"),
        (
            "photos",
            write_broken_pictures,
            "4 of 24 images of photos cannot be decoded completely: 'blue/00.png', 'blue/01.png', 'green/00.png' and 1",
        ),
        (
            "photos",
            write_texts_named_like_pictures,
            r"4 of 4 images of photos cannot be decoded completely: .* and 1 more \(4 unreadable\); repair or",
        ),
        (
            "a.csv",
            make_text_writer("a,b,c\n1,2,0.5\n3,4,0.7\n"),
            "no column has a usual name of a class column .*; rename the class column to 'label', or",
        ),
        (
            "a.csv",
            make_text_writer("a,b,y\n1,,0\n4,5,1\n,7,0\n,7,1\n"),
            "values: column 'a' in 2 of 4 rows, 'b' in 1 of 4",
        ),
    ],
)
def test_write_new_suite_file_writes_nothing_for_unusable_data(working_folder, name, make, said):
    make(working_folder / name)
    with pytest.raises(DataError, match=said):
        suite_template.write_new_suite_file(working_folder / name)
    assert not list(working_folder.glob("*.toml"))


@pytest.mark.parametrize(("shape", "augmentation"), [((9, 9), "shift"), ((9, 9, 3), "shift-flip")])
def test_new_suite_mirrors_colour_images_only_and_says_so(working_folder, shape, augmentation):
    for name in ("falling", "rising"):
        (working_folder / "chirps" / name).mkdir(parents=True)
        for i in range(4):
            (working_folder / "chirps" / name / f"{i}.png").write_bytes(png(np.full(shape, i, np.uint8)))
    said = []
    suite = read_suite(suite_template.write_new_suite_file(working_folder / "chirps", said.append))
    assert find_recipe(suite.recipe).augmentation == augmentation
    assert any(line.startswith(f'augmentation = "{augmentation}", with') for line in said)
    assert not any("not square" in line for line in said)


def test_new_suite_says_that_images_are_cut_to_squares(working_folder):
    said = []
    suite_template.write_new_suite_file(write_pictures(working_folder / "wide"), said.append)
    assert any(line.startswith("24 of 24 inspected images are not square: only their central squares") for line in said)

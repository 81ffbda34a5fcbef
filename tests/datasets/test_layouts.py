"""Folders as real data sets have them: each image gets the class and split that the authors mean."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from roarbench.common.enums import Split
from roarbench.common.errors import DataError
from roarbench.datasets.image_splits import list_images_and_class_names
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.plan.data_section import read_data_section
from roarbench.plan.suite_template import compose_suite_text
from roarbench.plan.toml_table import parse_toml
from tests.helpers.layouts import LAYOUTS, Layout


def read_written_record(layout: Layout, folder: Path):
    """Write the data set to FOLDER/data, and read the lines of `[data]` that docs/own-data.md gives for it."""
    layout.make(folder / "data")
    text = layout.written.replace("FOLDER", "data") + "\nsize = 8\n"
    return read_data_section(parse_toml(text, folder / "suite.toml"), folder, "data")


def assert_images_have_classes_of_authors(record, layout: Layout, folder: Path) -> None:
    listed = list_images_and_class_names(record, Path(record.folder))
    below = Path(record.folder).relative_to(folder.resolve())
    for split, part in ((Split.TRAIN, "train"), (Split.TEST, "test" if layout.test else "train")):
        paths, labels = listed.splits[split]
        classes = [listed.classes[label] for label in labels]
        found = {(below / path).as_posix(): name for path, name in zip(paths, classes, strict=True)}
        assert found == layout.expand(part)
    assert bool(record.share) == (not layout.test)


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each.written], ids=lambda each: each.name)
def test_written_lines_give_labels_of_authors(tmp_path, layout):
    assert_images_have_classes_of_authors(read_written_record(layout, tmp_path), layout, tmp_path / "data")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda each: each.name)
def test_new_suite_finds_labels_of_authors_or_says_what_to_write(working_folder, layout):
    said = []
    data = layout.make(working_folder / "data")
    if layout.chosen is True:
        record = infer_dataset(data, said.append)
        assert_images_have_classes_of_authors(record, layout, data)
        text = compose_suite_text("suite", record, os.path.relpath(record.folder, working_folder))
        section = parse_toml(text, working_folder / "suite.toml").read_section("data")
        read = read_data_section(section, working_folder, "data")
        assert replace(read, name="", terms="") == replace(record, name="", terms="")
        return
    try:
        infer_dataset(data, said.append)
    except DataError as refusal:
        said = [str(refusal)]
        assert "\n" not in said[0]
    assert [line for line in said if re.search(layout.chosen, line)]


def format_row(layout: Layout) -> str:
    """Return the row of a data set in the table of docs/own-data.md."""
    found = "yes" if layout.chosen is True else "proposes or refuses"
    code = " ".join(f"`{line}`" for line in layout.written.splitlines()) or "needs folders or a CSV file of your own"
    return f"| {layout.name} | {code} | {found} |"


def test_page_lists_what_to_write_for_each_layout():
    page = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text("utf-8")
    table = page.partition("## What to write for known data sets")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert rows == [format_row(layout) for layout in sorted(LAYOUTS, key=lambda each: each.name.lower())]

"""docs/augmentation.md: what its rule says of hand-made outcomes, and that the page is made of those beside it."""

import json
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
ROWS = ("random", "grad", "sgsq-grad", "var-grad")


@pytest.fixture
def program():
    return import_module("augmentation_page")


@pytest.fixture
def made(program):
    """Return outcomes at 12 epochs: shift 8 and shift 4 differ by .5 points of masks; crop tells least, but is bad."""
    untouched = {"none": 0.70, "flip": 0.72, "shift 2": 0.73, "shift 4": 0.74, "shift 8": 0.735, "crop": 0.68}
    masks = {"none": 0.66, "flip": 0.65, "shift 2": 0.60, "shift 4": 0.555, "shift 8": 0.55, "crop": 0.30}
    found = {program.Asked(12, kind, "none", False): value for kind, value in untouched.items()}
    return found | {program.Asked(12, kind, row, True): masks[kind] for kind in masks for row in ROWS[1:]}


def lengths(program, untouched, gaps):
    """Return outcomes of shift 4: accuracy on untouched images, and how far all rows are below Random, by epochs."""
    found = {}
    for epochs, value in untouched.items():
        found[program.Asked(epochs, "shift 4", "none", False)] = value
        for row in ROWS:
            found[program.Asked(epochs, "shift 4", row, False)] = 0.5 - (gaps[epochs] if row != "random" else 0)
    return found


def test_of_those_near_the_best_the_one_whose_masks_tell_least_and_the_smaller_of_two_alike(program, made):
    assert program.chosen_augmentation(made) == "shift 4"
    made |= {program.Asked(12, "shift 4", row, True): 0.561 for row in ROWS[1:]}
    assert program.chosen_augmentation(made) == "shift 8"
    made[program.Asked(12, "crop", "none", False)] = 0.72
    assert program.chosen_augmentation(made) == "crop"


def test_an_augmentation_that_lacks_an_accuracy_is_not_asked_and_named(program, made):
    del made[program.Asked(12, "shift 4", "var-grad", True)]
    assert program.chosen_augmentation(made) == "shift 8"
    assert "missing, so not asked: shift of up to 4 pixels, flip." in program.verdict(made)
    assert program.chosen_augmentation({}) is None


def test_the_shortest_length_that_is_near_the_longest_and_whose_gaps_stay(program):
    """At 3 epochs untouched images are too far below 24; at 6 gaps grow by 4 points until 12, where they stay."""
    found = lengths(program, {3: 0.70, 6: 0.73, 12: 0.75, 24: 0.77}, {3: 0.01, 6: 0.02, 12: 0.06, 24: 0.08})
    assert program.chosen_length(found, "shift 4") == 12
    assert program.falls_short(found, "shift 4", 3)[0] == "untouched 70.0 against 77.0 at 24 epochs"
    assert program.falls_short(found, "shift 4", 6)[0] == "GRAD +2.0 against +6.0 below Random at twice the length"
    gone = {at: value for at, value in found.items() if at.epochs != 24}
    assert program.chosen_length(gone, "shift 4") is None


def test_several_files_are_one_and_a_missing_network_is_a_dash(program, tmp_path):
    line = [0, 12, "flip", "grad", False, 0.7, 30.0]
    for name, lines in (("a", [line, [1, 12, "flip", "grad", True, 0.6, 30.0]]), ("b", [line])):
        (tmp_path / name).write_text(json.dumps(lines))
    lines = program.read([tmp_path / "a", tmp_path / "b"])
    assert len(lines) == 2
    found = program.outcomes_of(lines)
    assert list(found.values()) == [0.7]
    assert program.table(found).splitlines()[2:] == ["| flip | 12 | – | – | 70.0 / – | – | – |"]
    program.draw(found, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_the_page_is_what_the_outcomes_beside_it_say(program):
    found = program.outcomes_of(program.read([DOCS / "augmentation.json"]))
    assert program.outcomes_text(found) in (DOCS / "augmentation.md").read_text("utf-8")

"""The cost of verdicts: the shipped record is what the rows beside it say, and page and picture are made from it."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from roarbench.forecast.question import measured_ways
from roarbench.stats.verdicts import Verdict
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.command_line import command

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def program():
    return import_module("cost_of_verdicts")


@pytest.fixture(scope="module")
def shipped(program):
    held = json.loads(program.RECORD.read_text("utf-8"))
    return measured_ways(), [program.Known(**one) for one in held["planted"]]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folders = []
    for names in (("quick-2", "quick-specific"), ("protocols",)):
        folders.append(tmp_path_factory.mktemp(names[0]))
        for name in names:
            assert command("import", ROOT / "docs" / f"{name}.parquet", "--store", folders[-1]) == 0
    return folders


def test_the_page_has_the_record_and_the_picture_is_drawn_from_it(program, shipped, tmp_path):
    page = program.PAGE.read_text("utf-8")
    assert program.written(page, *shipped) == page
    from roarbench.report.figures import save_figure

    save_figure(program.picture(*shipped), tmp_path / "cost.svg")
    assert (tmp_path / "cost.svg").read_bytes() == program.PICTURE.read_bytes()


@pytest.mark.slow
def test_the_record_of_fixed_seeds_is_what_the_rows_say(program, shipped, stores, monkeypatch):
    monkeypatch.setattr(program, "ASKED", program.ASKED[-1:])
    made = list(program.ways(stores[0], program.seconds_a_pass(stores[0])))
    assert made == [way for way in shipped[0] if way.protocol == "roar"]
    with ResultsStore.open(default_url(stores[1]), read_only=True) as store:
        assert program.known(store) == shipped[1]


def test_verdicts_are_counted_by_the_word(program):
    whole = {"a": Verdict.BETTER, "b": Verdict.WORSE, "c": Verdict.SAME, "d": Verdict.BETTER}
    assert program.alike(whole, whole) == 1
    assert program.alike({"a": Verdict.BETTER, "b": Verdict.BETTER, "c": Verdict.SAME}, whole) == 0.5
    assert program.alike({}, whole) == 0


def test_more_trainings_cost_more_and_each_row_that_stops_saves(program):
    rows = ("random", "grad", "ig")
    costs = [program.cost(program.part_of(program.ASKED[-1], dict.fromkeys(rows, seeds)), 1e-3) for seeds in (1, 2, 3)]
    assert costs[0] < costs[1] < costs[2]
    stopped = program.cost(program.part_of(program.ASKED[-1], {"random": 3, "grad": 3, "ig": 1}), 1e-3)
    assert costs[1] < stopped < costs[2]

"""The tables of docs/protocols.md about tables of numbers are those of the rows beside them."""

from importlib import import_module
from pathlib import Path

import pytest
from marked import between

from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import ROAR, SPECIFIC
from tests.helpers.command_line import command

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def program():
    return import_module("tabular_power")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    assert command("import", ROOT / "docs" / "tables.parquet", "--store", folder) == 0
    with ResultsStore.open(default_url(folder)) as opened:
        yield opened


@pytest.mark.slow
def test_the_page_has_both_tables(program, store):
    page = (ROOT / "docs" / "protocols.md").read_text("utf-8")
    for mark, made in ((program.POWER, program.power(store)), (program.GAINS, program.gains(store))):
        assert between(page, mark, program.END) == made


@pytest.mark.slow
def test_fewer_references_are_part_of_the_same_rows(program, store):
    """Those of 3 references are the first three of 20; more of them never hide a row."""
    few, many = (program.judged(store, "breast-cancer", ROAR, count) for count in (3, 20))
    assert (few.references, many.references) == (3, 20)
    assert [row.estimator for row in few.rows] == [row.estimator for row in many.rows]
    assert {row.seeds for row in few.rows} == {3}


@pytest.mark.slow
def test_the_protocols_are_opposed_on_what_the_page_says(program, store):
    specific, roar = (
        {row.estimator: row.random.verdict for row in program.judged(store, "breast-cancer", each).rows if row.random}
        for each in (SPECIFIC, ROAR)
    )
    opposed = {name for name in specific if {specific[name], roar[name]} == {"better", "worse"}}
    assert opposed == {"grad", "input-x-grad", "ig", "ig(baseline=mean)"}

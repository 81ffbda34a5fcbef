"""The page of estimators says what the rows beside it say."""

from pathlib import Path

import estimator_verdicts
import pytest
from marked import between

from roarbench.estimators.catalogue import find_estimator, shown_name
from roarbench.stats.replication import replication
from roarbench.terms import SPECIFIC, Unit
from tests.helpers.command_line import command

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "estimators.md").read_text()
TABLE = between(PAGE, *estimator_verdicts.MARKS)


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all-estimators")
    assert command("import", DOCS / "all-estimators.parquet", "--store", folder) == 0
    return estimator_verdicts.held(folder)


@pytest.mark.slow
def test_the_page_has_every_row_of_the_suite(held):
    assert estimator_verdicts.table(held[0], estimator_verdicts.milliseconds(PAGE)) == TABLE
    asked = next(block for block in held[0].suite.blocks if block.protocol == SPECIFIC)
    assert all(f"| `{shown_name(name)}` |" in TABLE for name in asked.estimators if find_estimator(name).placed)


@pytest.mark.slow
def test_the_page_has_the_replication(held):
    lines = estimator_verdicts.again(held)
    assert "| ig(baseline=mean) |" in lines
    assert lines == between(PAGE, *estimator_verdicts.AGAIN)
    compared = replication(*(run.board(SPECIFIC, Unit.SCALAR) for run in held))
    assert f"{compared.equal} of {compared.verdicts} verdicts against the controls are equal" in PAGE
    assert f"{compared.inside} of {compared.gains} gains" in PAGE
    assert not compared.opposed


def test_the_page_has_what_each_costs():
    costs = estimator_verdicts.milliseconds(PAGE)
    assert len(costs) > 35
    assert min(map(float, costs.values())) > 0

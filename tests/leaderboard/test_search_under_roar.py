"""A blind search under ROAR is a control in every format, and in the families of p values."""

import json
from dataclasses import replace

import pytest

from leaderboard.board_contents import CONTROL
from leaderboard.build_board_contents import make_board_contents
from roarbench.analysis.suite_judges import judge_suite
from roarbench.common.enums import Unit
from roarbench.plan.protocols import ROAR
from roarbench.plan.suite import Block
from roarbench.report.table import make_suite_table
from tests.helpers.made_up_results import LEVELS, MAIN, SUITE, choose_accuracy, make_suite_results
from tests.helpers.shown_tables import render

SEARCH = "search(passes=2)"


@pytest.fixture(scope="module")
def table():
    """Judge `MAIN`, a control and a search; the search is better than every control, as sure as `var-grad`."""
    suite = replace(SUITE, blocks=(Block(ROAR, (*MAIN, "random-blurred", SEARCH), LEVELS, seeds=3),))

    def choose(cell):
        return choose_accuracy(replace(cell, estimator="var-grad") if cell.estimator == SEARCH else cell)

    return make_suite_table(make_suite_results(suite, choose), ROAR.name, Unit.SCALAR, suite.estimators)


def test_search_is_control_in_tables_and_on_pages(table):
    """It is compared with Random, as Sobel's filter is, and no verdict says that it beats every control."""
    shown = {row["estimator"]: row for row in json.loads(render(table, "json"))["rows"]}
    assert [shown[name]["beats_controls"] for name in ("var-grad", SEARCH, "sobel")] == [True, None, None]
    lines = [line.split(" | ") for line in render(table, "markdown").splitlines() if line.startswith("| ")]
    at, words = lines[0].index("beats every control"), {line[1].strip("`"): line for line in lines}
    assert [words[name][at] for name in ("var-grad", SEARCH, "sobel")] == ["yes", "control", "control"]
    board = make_board_contents(table)
    row = board.rows_by_id[SEARCH]
    assert board.headline == "Under ROAR, 1 of 2 estimators is shown to beat every control, for this network only."
    assert row.colour_class == board.rows_by_id["sobel"].colour_class == CONTROL
    assert row.verdict_text == board.rows_by_id["sobel"].verdict_text == "better than Random"


def test_search_and_estimators_are_in_different_columns(table):
    """Beside the small p value of a search, a larger one of an estimator would be called significant."""
    columns = judge_suite(table.suite_results).judge(ROAR, Unit.SCALAR).columns
    rows = {title: [name for name, _ in column] for title, column in columns.items()}
    assert (rows["random"], SEARCH in rows["random (controls)"]) == (["grad", "var-grad"], True)
    assert (rows["sobel"], SEARCH in rows["sobel (controls)"]) == (["grad", "var-grad"], True)

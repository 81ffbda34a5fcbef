"""`run --stop-early`: one training of every row, then more where the verdict against Random is open."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from roarbench.analysis.stored_results import collect
from roarbench.enums import Unit
from roarbench.errors import CallerError
from roarbench.execution import sequential as course
from roarbench.execution.run_suite import Finished, Request
from roarbench.execution.sequential import StoppingRule, list_open_protocols, run_until_decided
from roarbench.plan.points import expand_points
from roarbench.plan.suite import Block
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.report.table import suite_table
from roarbench.report.table_formats import render
from roarbench.stats.verdicts import Verdict
from roarbench.store.layout import Workspace
from tests.helpers.made_up import DATA, SUITE, answers, result, usual

ROWS = ("random", "sobel", "grad", "var-grad", "ig")
BLOCKS = (Block(ROAR, ROWS, (0.3, 0.9), seeds=5), Block(MASK_ONLY, ROWS, (0.9,), seeds=5))
SUITE_5 = replace(SUITE, name="five", blocks=BLOCKS, references=5)


def far_apart(cell):
    """All rows differ much from Random, but ig: it equals Random."""
    return usual(cell if cell.estimator != "ig" else replace(cell, estimator="random"))


@pytest.fixture
def begun(monkeypatch, store):
    """What `run_suite` was asked for; it makes results up."""
    asked = []

    def pretend(request, workspace, results, console):
        asked.append(request)
        there = collect(request.suite, results, data=DATA).results
        points = [point for point in expand_points(request.suite) if point not in there]
        results.add_all(result(request.suite, point, answers(point, far_apart(point.cell))) for point in points)
        return Finished(collect(request.suite, results, data=DATA), 0, None)

    monkeypatch.setattr(course, "run_suite", pretend)
    return asked


def run(store, tmp_path, **rule):
    console = Console(file=(said := io.StringIO()), width=200)
    done = run_until_decided(Request(SUITE_5), StoppingRule(**rule), Workspace(tmp_path), store, console)
    return done.suite_results, said.getvalue().splitlines()


def rows_of(suite_results):
    return {row.estimator: row for row in suite_results.board(ROAR, Unit.SCALAR).rows}


def seeds_of(suite_results):
    return {name: row.seeds for name, row in rows_of(suite_results).items()}


@pytest.mark.slow
def test_rows_whose_verdict_is_there_stop_and_the_others_go_on(begun, store, tmp_path):
    found, said = run(store, tmp_path)
    seeds = seeds_of(found)
    assert seeds["ig"] == seeds["random"] == 5  # equal to Random: never settled without a smallest difference
    assert max(seeds["grad"], seeds["var-grad"]) < 5
    verdicts = {name: row.random.verdict for name, row in rows_of(found).items() if row.random}
    assert (verdicts["var-grad"], verdicts["grad"], verdicts["ig"]) == (Verdict.BETTER, Verdict.WORSE, Verdict.SAME)
    assert said[0] == "roar: 0 of 4 rows are settled against Random; open: sobel, grad, var-grad, ig"
    assert said[-2].endswith("; open: ig")
    assert said[-1] == f"{sum(seeds.values())} of 25 trainings of rows"
    assert [max(block.seeds for block in request.suite.blocks) for request in begun] == [1, 2, 3, 4, 5]
    assert all(block.seeds == 1 for request in begun for block in request.suite.blocks if block.protocol == MASK_ONLY)
    later = collect(SUITE_5, store, data=DATA)  # every table after it allows for the looks
    plain = replace(later, watched={})
    one, other = (rows_of(each)["grad"].gain for each in (later, plain))
    assert one.low < other.low < other.high < one.high
    text = render(suite_table(later, "roar", None, None), "markdown", notes=True)
    assert "| grad ‡ |" in text and "| ig |" in text and "‡ Stopped early." in text


def test_rows_that_had_all_their_trainings_before_are_judged_as_before(begun, store, tmp_path):
    points = [point for point in expand_points(SUITE_5) if point.cell.estimator != "ig"]
    store.add_all(result(SUITE_5, point, answers(point, far_apart(point.cell))) for point in points)
    rows = rows_of(run(store, tmp_path, difference=2.0)[0])
    assert {name: row.interim_analyses for name, row in rows.items()} == dict.fromkeys(ROWS, 0) | {"ig": 5}


def test_a_budget_ends_it_and_says_so_and_so_does_a_difference_that_is_of_no_interest(begun, store, tmp_path):
    found, said = run(store, tmp_path, budget=1e-9)
    assert len(begun) == 1 and begun[0].until is not None
    assert set(seeds_of(found).values()) == {1}
    assert said[-1] == "5 of 25 trainings of rows; the budget is spent"
    found, said = run(store, tmp_path, difference=5.0)
    assert seeds_of(found)["ig"] < 5
    assert said[-2] == "roar: 4 of 4 rows are settled against Random"


def test_what_no_training_decides_is_refused():
    suite = replace(SUITE, blocks=(Block(MORF, ROWS, (0.9,), seeds=1),))
    with pytest.raises(CallerError, match=r"^no verdict of suite 'made-up' under morf hangs on trainings; leave"):
        list_open_protocols(suite)

"""What does not fit in a GPU is left out in one line, and the rest is done; played on a processor."""

from collections import Counter
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from roarbench.execution.job_graph import steps
from roarbench.execution.reach import out_of_reach
from roarbench.execution.runner import at_work
from roarbench.forecast.rates import CORE, TooLarge, assume
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.protocols.unretrained import MORF
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Retrain
from tests.helpers.tiny_suite import LONG, SUITE, InlineEngine, make_runs, make_work

BLOCKS = (Block(ROAR, ("random", "grad"), (0.9,), seeds=1), Block(MORF, ("random", "grad"), (0.9,), seeds=1))
TINY = replace(SUITE, reference_recipe=LONG.title, blocks=BLOCKS)
WHY = "a step of 8 images takes more than 1.0 GB of GPU memory"


@pytest.fixture(autouse=True)
def long_recipe(monkeypatch):
    from roarbench.plan.recipes import RECIPES

    monkeypatch.setitem(RECIPES, LONG.title, LONG)


def lost(work, recipes):
    """Kinds of the steps that are out of reach, with the estimators of their runs."""
    found = out_of_reach(steps(work, make_runs(work, work.suite)), recipes)
    assert {recipe for _, recipe in found} <= set(recipes)
    return Counter(
        (step.kind, step.run.cell.estimator, step.run.cell.retrain) if step.run else (step.kind,) for step, _ in found
    )


def test_what_is_trained_by_a_recipe_that_does_not_fit_is_out_of_reach_with_what_needs_it(tmp_path):
    everyone = (CLEAN, "random", "grad")
    found = lost(make_work(tmp_path, TINY), {TINY.recipe})
    assert found == Counter(("run", name, Retrain.IMAGES) for name in everyone)  # the reference has its own recipe
    found = lost(make_work(tmp_path, TINY), {LONG.title})
    assert {kind for kind, *_ in found} == {"reference", "rank", "seal", "run"}
    runs = {tuple(rest) for kind, *rest in found if kind == "run"}
    assert runs == {(name, Retrain.NONE) for name in everyone} | {("grad", Retrain.IMAGES)}
    common = replace(TINY, blocks=(Block(SPECIFIC, ("random", "grad"), (0.9,), seeds=1),))
    work = make_work(tmp_path, common)
    found = lost(work, {TINY.recipe})
    assert (found["network",], found["tune",]) == (1, 2)
    assert sum(count for key, count in found.items() if key[0] == "run") == len(make_runs(work, common))


@pytest.mark.slow
def test_the_rest_is_done_and_no_store_learns_of_what_was_left_out(tmp_path):
    work, engine = make_work(tmp_path, TINY), InlineEngine()
    runs = make_runs(work, TINY)
    rates = replace(assume(TINY, CORE), too_large=(TooLarge(LONG.title, WHY),))
    said = StringIO()
    with ResultsStore.open(default_url(tmp_path)) as store:
        working = at_work(work, runs, store, lambda engine: rates, 1, Console(file=said, width=200), lambda n: engine)
        with working as (watch, events):
            ended = []
            for event in events:
                watch.note(event)
                ended.append(event)
        failed = {event.step.run for event in ended if event.failure}
        assert len(failed) == 4
        assert {event.failure for event in ended} == {"", WHY}
        assert store.done([run.key for run in runs]) == {run.key for run in runs if run not in failed}
        assert not store.failures.history([run.key for run in runs])
    assert "reference" not in engine.done
    lines = [line for line in said.getvalue().splitlines() if WHY in line]
    assert lines == [f"4 of {len(runs)} runs are left out here: {WHY}"]

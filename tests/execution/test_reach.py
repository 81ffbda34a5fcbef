"""What does not fit in a GPU is left out in one line, and the rest is done; played on a processor."""

from collections import Counter
from dataclasses import replace

from roarbench.execution.job_graph import steps
from roarbench.execution.reach import out_of_reach
from roarbench.plan.recipes import RECIPES
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.protocols.unretrained import MORF
from roarbench.terms import Retrain
from tests.helpers.tiny_suite import LONG, SUITE, make_runs, make_work

BLOCKS = (Block(ROAR, ("random", "grad"), (0.9,), seeds=1), Block(MORF, ("random", "grad"), (0.9,), seeds=1))
TINY = replace(SUITE, reference_recipe=LONG.title, blocks=BLOCKS)


def lost(work, recipes):
    """Kinds of the steps that are out of reach, with the estimators of their runs."""
    found = out_of_reach(steps(work, make_runs(work, work.suite)), recipes)
    assert {recipe for _, recipe in found} <= set(recipes)
    return Counter(
        (step.kind, step.run.cell.estimator, step.run.cell.retrain) if step.run else (step.kind,) for step, _ in found
    )


def test_what_is_trained_by_a_recipe_that_does_not_fit_is_out_of_reach_with_what_needs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(RECIPES, LONG.title, LONG)
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

"""What is to do of a suite and in which order, and what is left out where a training does not fit in a GPU."""

from collections import Counter
from dataclasses import replace

from roarbench.execution.job_graph import Step, steps
from roarbench.execution.reach import out_of_reach
from roarbench.execution.schedule import Schedule
from roarbench.plan.recipes import RECIPES
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.protocols.unretrained import MORF
from roarbench.terms import Retrain
from roarbench.workers.job import Job
from tests.helpers.tiny_suite import LONG, SUITE, TEST, TRAIN, make_runs, make_work, size_jobs


def test_a_fresh_suite_has_each_step_once_which_needs_what_it_reads(tmp_path, monkeypatch):
    size_jobs(monkeypatch, 16, 16)
    work = make_work(tmp_path)
    runs = make_runs(work)
    made = steps(work, runs)
    by_name = {step.job.name: step for step in made}
    batches = -(-TRAIN // 16) + -(-TEST // 16)
    rankings = 3 + 2  # random, grad and truth by scalar, random and grad by pixel
    assert len(by_name) == len(made)
    counts = {"reference": 1, "rank": 2 * batches, "seal": rankings, "run": len(runs)}
    assert Counter(step.kind for step in made) == counts
    assert by_name["rank controls train 0"].needs == ()
    assert by_name["rank trained train 16"].needs == ("reference",)
    parts = ("train 0", "train 16", "train 32", "test 0", "test 16")
    assert set(by_name["seal truth scalar"].needs) == {f"rank controls {part}" for part in parts}
    assert all("trained" in name for name in by_name["seal grad pixel"].needs)
    for step in (step for step in made if step.run):
        cell = step.run.cell
        expected = {f"seal {cell.estimator} {cell.unit}"} if cell.t else set()
        assert set(step.needs) == expected | ({"reference"} if cell.retrain is Retrain.NONE else set())
    suite = replace(SUITE, blocks=(Block(ROAR, ("random-redrawn", "truth"), (0.9,), seeds=1),))
    kinds = Counter(step.kind for step in steps(work, make_runs(work, suite)))
    assert kinds == {"rank": batches, "seal": 1, "run": 3}, "no reference for controls, no ranking where it is redrawn"


def test_the_reference_comes_first_then_rankings_then_runs_and_a_failure_stops_what_needs_it_alone():
    needs = {
        "run clean": (),
        "seal seal": ("rank controls", "rank explained"),
        "run degraded": ("seal seal",),
        "rank explained": ("reference",),
        "rank controls": (),
        "run by controls": ("rank controls",),
        "reference": (),
    }
    schedule = Schedule([Step(name.split()[0], Job(name, print, ()), needed) for name, needed in needs.items()])
    obstacles = {}
    while schedule.active:
        (step,) = schedule.ready(1)
        obstacles[step.job.name] = schedule.obstacle(step)
        schedule.ended(step, "too bad" if step.kind == "reference" else obstacles[step.job.name])
    assert list(obstacles)[:3] == ["reference", "rank explained", "rank controls"]
    assert [name.split()[0] for name in obstacles][3:] == ["seal", "run", "run", "run"]
    assert {name for name, why in obstacles.items() if why} == {"rank explained", "seal seal", "run degraded"}


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

"""The steps of a suite and their order, and the progress display."""

from collections import Counter
from dataclasses import replace
from io import StringIO
from math import prod
from types import SimpleNamespace

import pytest
from rich.console import Console

from roarbench.common.enums import ScoredNetwork, Split, Unit
from roarbench.common.job_interface import Job
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import job_graph, progress
from roarbench.execution.forecast import JOB_OVERHEAD, Rates
from roarbench.execution.job_graph import Step, build_job_graph, count_work_of_step
from roarbench.execution.progress import StepDisplay
from roarbench.execution.scheduler import FinishedStep, StepQueue
from roarbench.execution.workload import WorkCounts, count_work
from roarbench.plan.planned_runs import build_run, list_planned_runs
from roarbench.plan.protocols import MATCHED, MORF, ROAR
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import Block
from tests.helpers.tiny_suite import RECORD, SUITE, TEST, TRAIN, make_runs, make_work, size_jobs


def test_build_job_graph_lists_each_step_once_with_its_dependencies(tmp_path, monkeypatch):
    size_jobs(monkeypatch, 16, 16)
    work = make_work(tmp_path)
    runs = make_runs(work)
    made = build_job_graph(work, runs).steps
    by_name = {step.job.name: step for step in made}
    batches = -(-TRAIN // 16) + -(-TEST // 16)
    assert len(by_name) == len(made)
    counts = {"reference": 1, "rank": 2 * batches, "seal": 3 + 2, "run": len(runs)}  # three by scalar, two by pixel
    assert Counter(step.kind for step in made) == counts
    assert by_name["rank controls train 0"].needs == ()
    assert by_name["rank trained train 16"].needs == ("explained network",)
    parts = ("train 0", "train 16", "train 32", "test 0", "test 16")
    assert set(by_name["seal truth scalar"].needs) == {f"rank controls {part}" for part in parts}
    assert all("trained" in name for name in by_name["seal grad pixel"].needs)
    for step in (step for step in made if step.first_run):
        cell = step.first_run.cell
        expected = {f"seal {cell.estimator} {cell.unit}"} if cell.t else set()
        assert set(step.needs) == expected | ({"explained network"} if cell.retrain is ScoredNetwork.NONE else set())
    suite = replace(SUITE, blocks=(Block(ROAR, ("random-redrawn", "truth"), (0.9,), seeds=1),))
    kinds = Counter(step.kind for step in build_job_graph(work, make_runs(work, suite)).steps)
    assert kinds == {"rank": batches, "seal": 1, "run": 3}, "no reference for controls, no ranking where it is redrawn"


def test_build_job_graph_groups_scorings_of_a_map_but_not_trainings(tmp_path, monkeypatch):
    levels = (0.1, 0.5, 0.9)
    blocks = (Block(MORF, ("random", "grad"), levels, seeds=2), Block(ROAR, ("random",), levels, seeds=1))
    suite = replace(SUITE, blocks=blocks, references=2)
    work = make_work(tmp_path, suite)
    runs = [run for run in make_runs(work, suite) if run.cell.t]
    first = [(step.first_run.cell, len(step.runs)) for step in list_run_steps(work, runs)]
    counts = Counter((cell.retrain, cell.estimator, count) for cell, count in first)
    alone = (ScoredNetwork.IMAGES, "random", 1)
    assert counts == {(ScoredNetwork.NONE, name, 3): 2 for name in ("random", "grad")} | {alone: 3}
    monkeypatch.setattr(job_graph, "_SCORED_FEATURES", 2 * TEST * prod(suite.dataset_record.shape))  # two levels
    sizes = [len(step.runs) for step in list_run_steps(work, runs) if step.first_run.cell.retrain is ScoredNetwork.NONE]
    assert sorted(sizes) == [1, 1, 1, 1, 2, 2, 2, 2]


def list_run_steps(work, runs):
    return [step for step in build_job_graph(work, runs).steps if step.first_run]


def test_queue_orders_steps_and_blocks_only_dependents_of_failure():
    needs = {"run 1": (), "seal 1": ("rank 1", "rank 2"), "run 2": ("seal 1",), "rank 1": ("reference 1",)}
    needs |= {"rank 2": (), "run 3": ("rank 2",), "reference 1": ()}
    queue = StepQueue([Step(name.split()[0], Job(name, print, ()), needed) for name, needed in needs.items()])
    obstacles = {}
    while queue.active:
        (step,) = queue.take_ready(1)
        obstacles[step.job.name] = queue.find_blocking_failure(step)
        queue.record_end(step, "too bad" if step.kind == "reference" else obstacles[step.job.name])
    assert list(obstacles) == ["reference 1", "rank 1", "rank 2", "seal 1", "run 1", "run 2", "run 3"]
    assert [name for name, why in obstacles.items() if why] == ["rank 1", "seal 1", "run 2"]


RATES = Rates("one core", 0, "", decode=0.0, train=1.0, predict=0.1, explain=0.5, draw=0.2, rank=0.01)
CLEAN_RUN = build_run(SUITE, list_planned_runs(SUITE)[0], "da7a", None)


def make_step(kind, number=0):
    return Step(kind, Job(f"{kind} {number}", print, ()), (), runs=(CLEAN_RUN,) if kind == "run" else ())


def test_step_display_logs_progress_at_most_every_ten_seconds(monkeypatch):
    """The failure of a step is printed once for all steps that depend on it."""
    log = Console(file=StringIO(), width=80, highlight=False, markup=False)
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(progress, "time", clock)
    todo = [make_step("run"), *(make_step("rank", number) for number in range(49))]
    with StepDisplay(log, todo, lambda step: 10.0, workers=2) as watch:
        for step in todo:
            clock.now += 1
            watch.show_event(FinishedStep(step, "", seconds=10.0))
        for kind in ("rank", "seal", "run", "run"):
            watch.show_event(FinishedStep(make_step(kind), "rank grad train 0 failed: no memory"))
        watch.show_event(FinishedStep(make_step("run"), "no memory"))
        watch.show_waiting("waiting for 1 step of process 7 on node3")
    *said, once, own, waiting = log.file.getvalue().splitlines()
    assert said[0] == "  2%    about 4 min left  ROAR: none t=0 seed 0"
    assert [line.split()[0] for line in said] == ["2%", "22%", "42%", "62%", "82%"]
    assert once == "rank grad train 0 failed: no memory"
    assert own == "failed: ROAR: none t=0 seed 0: no memory"
    assert waiting == "waiting for 1 step of process 7 on node3"


def test_step_display_blends_estimated_and_measured_time_left():
    todo = [make_step("rank", number) for number in range(100)]
    with StepDisplay(Console(file=StringIO()), todo, lambda step: 1.0, workers=2, load=3.0) as watch:
        assert watch.seconds_left == 150.0  # at load 3, a step takes three times as long
        left = []
        for step in todo:
            watch.show_event(FinishedStep(step, "", seconds=10.0))
            left.append(watch.seconds_left)
    assert left[49] == pytest.approx(50 * 10 / 2, rel=0.1)
    assert left[-1] == 0.0
    truth = [10 * (99 - number) / 2 for number in range(100)]
    for before, now, should in zip(left, left[1:], truth[1:], strict=False):
        assert abs(now - before) < 0.3 * max(truth)  # no jump, however wrong the estimate was
        assert now <= should + 1e-9  # nor beyond what it takes


@pytest.mark.parametrize("tuned_on", Split)
def test_work_of_steps_adds_up_to_work_of_suite(tuned_on, tmp_path, monkeypatch):
    """Two networks are explained, and a submission and a common network are among the rows."""
    rows = ("random", "grad", "var-grad", "mine@12345678")
    blocks = tuple(Block(each, rows, (0.5,), seeds=2) for each in (ROAR, MORF, MATCHED))
    suite = replace(SUITE, blocks=blocks, references=2, tuned_on=tuned_on)
    work = make_work(tmp_path, suite)
    monkeypatch.setattr("roarbench.plan.suite.find_dataset", lambda name: RECORD)
    parts = [count_work_of_step(work, step) for step in build_job_graph(work, make_runs(work, suite)).steps]
    whole = count_work(suite, list_planned_runs(suite))
    assert whole.images_submitted == 2 * (TRAIN + TEST)
    measured = [name for name in WorkCounts._fields[: WorkCounts._fields.index("disk")] if name != "images_decoded"]
    for name in (*measured, "jobs"):
        assert sum(getattr(part, name) for part in parts) == pytest.approx(getattr(whole, name)), name


def test_a_network_with_weights_counts_as_scored_alone(tmp_path):
    """Published networks need no training: counted as trained, they promised an end after a third of the time."""
    work = make_work(tmp_path)
    (step,) = (each for each in build_job_graph(work, make_runs(work)).steps if each.kind == "reference")
    trained = count_work_of_step(work, step)
    assert trained.trainings == trained.references == 1 and trained.images_reference > 0
    explained = step.job.arguments[0]
    explained.store.save_published(explained.build_untrained_network(0))
    scored = count_work_of_step(work, step)
    assert scored == trained._replace(trainings=0, references=0, images_reference=0)
    assert scored.images_scored == TRAIN + TEST


def estimate_step_seconds(work, step, rates):
    return sum(filter(None, rates.estimate_seconds(count_work_of_step(work, step)).values()))


def test_work_of_step_matches_hand_computed_cases(tmp_path):
    work = make_work(tmp_path)
    made = build_job_graph(work, make_runs(work)).steps
    step = next(step for step in made if step.first_run and step.first_run.cell.retrain is ScoredNetwork.IMAGES)
    linear = step._replace(runs=(replace(step.first_run, cell=replace(step.first_run.cell, fill="linear")),))
    filled = find_recipe("planted@1").epochs * TRAIN + 0.1 * TEST + 0.3 * (TRAIN + TEST)
    assert estimate_step_seconds(work, linear, replace(RATES, fill=0.3)) == pytest.approx(filled + JOB_OVERHEAD)
    spec = work.make_ranking_spec(find_estimator("mine@12345678"), Unit.SCALAR)
    submitted = Step("rank", Job("rank", print, (work.explained, (spec,), Split.TEST, 0, TEST)), (), group=spec.name)
    seconds = estimate_step_seconds(work, submitted, replace(RATES, submission=7.0, sandbox=2.0))
    assert seconds == pytest.approx(TEST * (7.0 + 0.01) + 2.0 + JOB_OVERHEAD)

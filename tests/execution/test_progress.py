"""What the one who waits sees: lines in a log, a bar on a terminal, and the time left."""

from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import progress
from roarbench.execution.job_graph import Step, steps
from roarbench.execution.progress import Watch, cost
from roarbench.execution.scheduler import Event
from roarbench.forecast.rates import Rates
from roarbench.forecast.workload import count_work
from roarbench.plan.keys import bind
from roarbench.plan.points import expand
from roarbench.plan.recipes import find_recipe
from roarbench.terms import Split, Unit
from roarbench.workers.job import Job
from tests.helpers.tiny_suite import RECORD, SUITE, TEST, TRAIN, make_runs, make_work

RATES = Rates("one core", 0, "", decode=0.0, train=1.0, predict=0.1, explain=0.5, draw=0.2, rank=0.01)
CLEAN_RUN = bind(SUITE, expand(SUITE)[0], "da7a", None)


def make_step(kind, number=0):
    return Step(kind, Job(f"{kind} {number}", print, ()), (), CLEAN_RUN if kind == "run" else None)


@pytest.fixture
def log():
    return Console(file=StringIO(), width=80, highlight=False, markup=False)


def watching(console, todo, workers=1, cost=1.0, load=1.0):
    """Watch steps that should take `cost` core-seconds each."""
    return Watch(console, todo, lambda step: cost, workers, load)


def test_a_log_has_a_plain_line_with_share_and_time_left_every_ten_seconds_at_most(log, monkeypatch):
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(progress, "time", clock)
    todo = [make_step("run"), *(make_step("rank", number) for number in range(49))]
    with watching(log, todo, workers=2, cost=10.0) as watch:
        for step in todo:
            clock.now += 1
            watch.note(Event(step, "", seconds=10.0))
    said = log.file.getvalue().splitlines()
    assert said[0] == "  2%    about 4 min left  roar none t=0 scalar seed 0"
    assert [line.split()[0] for line in said] == ["2%", "22%", "42%", "62%", "82%"]


def test_what_a_failed_step_takes_with_it_is_told_once(log):
    with watching(log, [make_step("rank")]) as watch:
        for kind in ("rank", "seal", "run", "run"):
            watch.note(Event(make_step(kind), "rank grad train 0 failed: no memory"))
        watch.note(Event(make_step("run"), "no memory"))
    lines = ["rank grad train 0 failed: no memory", "failed: roar none t=0 scalar seed 0: no memory"]
    assert log.file.getvalue().splitlines() == lines


def test_the_time_left_is_the_estimate_at_first_and_then_what_was_seen(log):
    todo = [make_step("rank", number) for number in range(100)]
    with watching(log, todo, workers=2, load=3.0) as watch:
        assert watch.seconds_left == 150.0  # others compute here: each takes three times as long
        left = []
        for step in todo:
            watch.note(Event(step, "", seconds=10.0))
            left.append(watch.seconds_left)
    assert left[49] == pytest.approx(50 * 10 / 2, rel=0.1)
    assert left[-1] == 0.0
    truth = [10 * (99 - number) / 2 for number in range(100)]
    for before, now, should in zip(left, left[1:], truth[1:], strict=False):
        assert abs(now - before) < 0.3 * max(truth)  # no jump, however wrong the estimate was
        assert now <= should + 1e-9  # nor beyond what it takes


def test_what_steps_cost_by_hand(tmp_path, monkeypatch):
    work = make_work(tmp_path)
    made = steps(work, make_runs(work))
    plan = {step.job.name: step for step in made}
    epochs = find_recipe("planted@1").epochs
    assert cost(work, plan["reference"], RATES) == pytest.approx(epochs * TRAIN + 0.1 * (TRAIN + TEST))
    assert cost(work, plan["rank controls train 0"], RATES) == pytest.approx(TRAIN * 3 * 0.01)  # two units and truth
    assert cost(work, plan["rank trained test 0"], RATES) == pytest.approx(TEST * (1 * 0.5 + 2 * 0.01))
    assert cost(work, plan["seal grad pixel"], RATES) == 0.0
    costs = {step.run.cell.retrain.value: cost(work, step, RATES) for step in made if step.run}
    trained = pytest.approx(epochs * TRAIN + 0.1 * TEST)
    assert costs == {"images": trained, "masks": trained, "none": pytest.approx(0.1 * TEST)}
    spec = work.ranking_spec(find_estimator("mine@12345678"), Unit.SCALAR)
    submitted = Step("rank", Job("rank", print, (work.explained, (spec,), Split.TEST, 0, TEST)), (), group=spec.name)
    assert cost(work, submitted, replace(RATES, submission=7.0)) == pytest.approx(TEST * (7.0 + 0.01))
    assert cost(work, submitted, RATES) == pytest.approx(TEST * (0.5 + 0.01))  # as a gradient: nothing is known
    monkeypatch.setattr("roarbench.plan.suite.find_dataset", lambda name: RECORD)
    planned = sum(RATES.seconds(count_work(SUITE, expand(SUITE))).values())
    assert sum(cost(work, step, RATES) for step in made) == pytest.approx(planned)

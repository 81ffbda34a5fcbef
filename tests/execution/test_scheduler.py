"""The graph of jobs: what is done in which order, what fails with what, and two commands on one store."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sqlalchemy import select, update

from roarbench.errors import CallerError, Diverged, MachineError, RunError, StoreError
from roarbench.estimators.catalogue import PAPER, find_estimator
from roarbench.execution import beats, importance, jobs, scheduler, shards
from roarbench.execution import job_graph as graph
from roarbench.execution import leasing as claims
from roarbench.execution.job_graph import Step, steps
from roarbench.execution.schedule import Schedule
from roarbench.execution.scheduler import complete
from roarbench.kernels.train import fit
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.store.leases import Owner, Wanted
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.schema import leases
from roarbench.terms import Retrain, Split, Unit
from roarbench.workers.job import Job, JobOutcome
from tests.helpers.commands import eventually
from tests.helpers.leasing import lease
from tests.helpers.tiny_suite import SUITE, TEST, TRAIN, InlineEngine, make_context, make_runs

pytestmark = pytest.mark.slow


def clock(sleep):
    """The module `time` of the scheduler alone: what waits for a process sleeps, too."""
    return SimpleNamespace(monotonic=time.monotonic, sleep=sleep)


@contextmanager
def open_store(folder: Path) -> Iterator[ResultsStore]:
    with ResultsStore.open(default_url(folder)) as store:
        yield store


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path) as store:
        yield store


@pytest.fixture
def fresh(tmp_path):
    """A context of which nothing is done, and all runs of the suite."""
    context = make_context(tmp_path)
    return context, make_runs(context)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    for module in (shards, importance, graph, claims):
        monkeypatch.setattr(module, "EXPLAINED", 16)
    monkeypatch.setattr(graph, "SHARD", 16)


def untrained(*_):
    """What is trained, and how well, is no matter here: networks stay as they begin."""
    return 0.5


@pytest.fixture(autouse=True)
def no_waiting_and_no_training(monkeypatch):
    monkeypatch.setattr(jobs, "fit", untrained)
    for name in ("_PATIENCE", "_FIRST_LOOK", "LAST_LOOK"):
        monkeypatch.setattr(scheduler, name, 0.0)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A suite done from nothing: its context, runs, events, the names of the jobs in order, and its results."""
    folder = tmp_path_factory.mktemp("done")
    context, engine = make_context(folder), InlineEngine()
    runs = make_runs(context)
    with pytest.MonkeyPatch.context() as patch, open_store(folder) as store:
        for module in (shards, importance, graph, claims):
            patch.setattr(module, "EXPLAINED", 16)
        patch.setattr(graph, "SHARD", 16)
        patch.setattr(jobs, "fit", untrained)
        events = list(complete(context, runs, store, engine))
        yield context, runs, events, engine.done, store


# --- the graph


def test_a_fresh_suite_needs_one_reference_shards_seals_and_runs(fresh):
    context, runs = fresh
    graph = steps(context, runs)
    kinds = Counter(step.kind for step in graph)
    shards = -(-TRAIN // 16) + -(-TEST // 16)
    rankings = 3 + 2  # random, grad and truth by scalar, random and grad by pixel
    assert kinds == {"reference": 1, "rank": 2 * shards, "seal": rankings, "run": len(runs)}
    assert len({step.job.name for step in graph}) == len(graph)


def test_steps_need_what_they_read(tmp_path):
    context = make_context(tmp_path)
    graph = {step.job.name: step for step in steps(context, make_runs(context))}
    assert graph["rank controls train 0"].needs == ()
    assert graph["rank trained train 16"].needs == ("reference",)
    assert set(graph["seal truth scalar"].needs) == {
        f"rank controls {split} {start}"
        for split, starts in (("train", (0, 16, 32)), ("test", (0, 16)))
        for start in starts
    }
    assert all("trained" in name for name in graph["seal grad pixel"].needs)
    for step in graph.values():
        if step.run:
            cell = step.run.cell
            expected = {f"seal {cell.estimator} {cell.unit}"} if cell.t else set()
            assert set(step.needs) == expected | ({"reference"} if cell.retrain is Retrain.NONE else set())


def test_controls_alone_need_no_reference(tmp_path):
    suite = replace(SUITE, blocks=(Block(ROAR, ("random", "truth"), (0.9,), seeds=1),))
    context = make_context(tmp_path, suite)
    assert "reference" not in {step.kind for step in steps(context, make_runs(context, suite))}


def test_a_redrawn_ranking_is_not_made(tmp_path):
    suite = replace(SUITE, blocks=(Block(ROAR, ("random-redrawn",), (0.9,), seeds=1),))
    context = make_context(tmp_path, suite)
    graph = steps(context, make_runs(context, suite))
    assert [step.kind for step in graph] == ["run", "run"]
    assert all(step.needs == () for step in graph)


def untrained_part(suite=SUITE):
    """Its blocks that score the reference as it is."""
    return replace(suite, blocks=tuple(block for block in suite.blocks if block.protocol.retrain is Retrain.NONE))


def test_only_test_images_are_ranked_where_nothing_is_retrained(done, tmp_path):
    """And what is found is what the suite finds that ranks both."""
    suite = untrained_part()
    context = make_context(tmp_path, suite)
    runs = make_runs(context, suite)
    graph = steps(context, runs)
    shards = -(-TEST // 16)
    assert Counter(step.kind for step in graph) == {"reference": 1, "rank": 2 * shards, "seal": 2, "run": len(runs)}
    with open_store(tmp_path) as store:
        assert not any(event.failure for event in complete(context, runs, store, InlineEngine()))
        found, expected = (each.results([run.key for run in runs]) for each in (store, done[-1]))
    for run in runs:
        assert (found[run.key].bits, found[run.key].probability) == (
            expected[run.key].bits,
            expected[run.key].probability,
        )
        assert found[run.key].smoothness == expected[run.key].smoothness
    assert [context.references.predicted(context.reference, split) for split in Split] == [False, True]
    assert not list(context.workspace.rankings.rglob("train*.arrow"))


def test_what_ranks_test_images_alone_and_what_ranks_both_share_a_store(tmp_path):
    """One after the other: the reference gets the predictions that it lacks, and no file that was there is touched."""
    part = untrained_part()
    context, more = make_context(tmp_path, part), make_context(tmp_path)
    with open_store(tmp_path) as store:
        list(complete(context, make_runs(context, part), store, InlineEngine()))
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.suffix in (".arrow", ".npz", ".pt")}
        runs = [run for run in make_runs(more) if run.cell.estimator in ("random", "grad") and run.seed == 0]
        assert not any(event.failure for event in complete(more, runs, store, InlineEngine()))
    assert all(path.read_bytes() == content for path, content in before.items())
    assert all(more.references.predicted(more.reference, split) for split in Split)


# --- the schedule


def make_step(kind, name, *needs):
    return Step(kind, Job(name, print, ()), needs)


def drain(schedule, failing=()):
    """Names in the order in which they come, each ended at once, and the obstacle of each."""
    order, obstacles = [], {}
    while schedule.active:
        (step,) = schedule.ready(1)
        order.append(step.job.name)
        obstacles[step.job.name] = schedule.obstacle(step)
        reason = "too bad" if step.job.name in failing else obstacles[step.job.name]
        schedule.ended(step, reason)
    return order, obstacles


def test_the_reference_comes_first_then_rankings_then_runs():
    made = [
        make_step("run", "clean"),
        make_step("seal", "seal", "controls", "explained"),
        make_step("run", "degraded", "seal"),
        make_step("rank", "explained", "reference"),
        make_step("rank", "controls"),
        make_step("reference", "reference"),
    ]
    order, _ = drain(Schedule(made))
    assert order == ["reference", "explained", "controls", "seal", "clean", "degraded"]


def test_a_failure_is_an_obstacle_for_what_needs_it_and_for_nothing_else():
    made = [
        make_step("reference", "reference"),
        make_step("rank", "explained", "reference"),
        make_step("rank", "controls"),
        make_step("run", "one", "explained"),
        make_step("run", "other", "controls"),
    ]
    _, obstacles = drain(Schedule(made), failing=["reference"])
    assert {name for name, obstacle in obstacles.items() if obstacle} == {"explained", "one"}


# --- from nothing to rows


def test_everything_is_done_and_stored(done):
    _, runs, events, names, store = done
    assert store.done([run.key for run in runs]) == {run.key for run in runs}
    assert len(store.keys("")) == len(runs)
    assert not any(event.failure for event in events)
    assert [event.step.job.name for event in events] == names
    assert store.running() == []


def test_rows_hold_what_was_scored(done):
    context, runs, *_, store = done
    found = store.results([run.key for run in runs])
    for run in runs:
        result = found[run.key]
        scored = jobs.score(context, run)
        assert result.run == run
        assert (result.correct, result.total) == (scored.correct.sum(), TEST)
        np.testing.assert_array_equal(result.answers, scored.correct)
        assert result.rankings == scored.rankings
        assert (result.probabilities is None) == (run.cell.retrain is not Retrain.NONE)
        if scored.probability is not None:
            np.testing.assert_array_equal(result.probabilities, scored.probability)


@pytest.mark.parametrize("hardware", [True, False])
def test_rows_say_what_the_worker_computed_with(tmp_path, store, monkeypatch, hardware):
    """Not what the command's process would: it never looks at a device."""
    computed = []
    autocast = torch.autocast
    monkeypatch.setattr(jobs, "fit", fit)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: hardware)
    monkeypatch.setattr(
        torch, "autocast", lambda *how, enabled: computed.append(enabled) or autocast(*how, enabled=enabled)
    )
    monkeypatch.setattr(jobs, "device_name", lambda device: f"{device.type} of the worker")
    monkeypatch.setattr(jobs, "gpu_libraries", lambda device: {"cuda": "12.8", "cudnn": "91002"})
    context = make_context(tmp_path)
    trained, scored = runs = [run for run in make_runs(context) if (run.cell.estimator, run.seed) == ("none", 0)]
    assert [run.cell.retrain for run in runs] == [Retrain.IMAGES, Retrain.NONE]
    assert not any(event.failure for event in complete(context, runs, store, InlineEngine()))
    assert set(computed) == {hardware}
    found = store.results([run.key for run in runs])
    for run, precision in ((trained, "bf16" if hardware else "float32"), (scored, "float32")):
        made = found[run.key].provenance
        assert (made.hardware["device"], made.hardware["precision"]) == ("cpu of the worker", precision)
        assert (made.versions["cuda"], made.versions["cudnn"]) == ("12.8", "91002")
        assert made.hardware["cpu"]


def test_a_second_time_nothing_is_done(done):
    context, runs, *_, store = done
    engine = InlineEngine()
    assert list(complete(context, runs, store, engine)) == []
    assert engine.done == []


def test_it_goes_on_where_it_was_cut_off(fresh, store):
    context, runs = fresh
    done: list[str] = []
    for count in (1, 7, 13, 9, 1000):  # cut off after so many
        engine = InlineEngine()
        events = complete(context, runs, store, engine)
        done += [event.step.job.name for event in islice(events, count)]
        events.close()
    assert store.done([run.key for run in runs]) == {run.key for run in runs}
    assert set(Counter(done).values()) == {1}


# --- what fails


def test_a_run_that_fails_is_recorded_and_the_others_go_on(fresh, store, monkeypatch):
    context, runs = fresh
    bad = runs[3]
    score = jobs.score

    def sometimes(context, run):
        if run == bad:
            raise RunError("the loss went away")
        return score(context, run)

    monkeypatch.setattr(jobs, "score", sometimes)
    engine = InlineEngine()
    events = list(complete(context, runs, store, engine))
    assert [(event.step.run, event.failure) for event in events if event.failure] == [(bad, "the loss went away")]
    assert store.done([run.key for run in runs]) == {run.key for run in runs} - {bad.key}
    assert [failure.reason for failure in store.failures.history([bad.key])[bad.key]] == ["the loss went away"]
    assert engine.done.count(bad.key) == 1  # by one call tried once
    assert store.running() == []  # its claim is given up
    monkeypatch.setattr(jobs, "score", score)
    again = InlineEngine()
    (event,) = complete(context, runs, store, again)  # it is told of, and not tried
    assert (event.step.run, event.failure, again.done) == (bad, "the loss went away", [])
    assert store.failures.retry([run.key for run in runs], context.data.fingerprint) == {bad.key}
    assert [event.step.run for event in complete(context, runs, store, InlineEngine())] == [bad]


def test_a_reference_that_diverges_takes_with_it_all_that_needs_it(fresh, store, monkeypatch):
    context, runs = fresh

    def diverging(*given):
        if given[5] == context.reference.seed:
            raise Diverged("loss nan at step 3")
        return 0.5

    monkeypatch.setattr(jobs, "fit", diverging)
    engine = InlineEngine()
    events = list(complete(context, runs, store, engine))
    failed = {event.step.run for event in events if event.failure and event.step.run}
    assert failed == {run for run in runs if run.reference}
    assert store.done([run.key for run in runs]) == {run.key for run in runs if not run.reference}
    assert not any("trained" in name or "grad" in name for name in engine.done)  # not even tried
    assert engine.done.count("reference") == 1
    reasons = {failure.reason for run in failed for failure in store.failures.history([run.key])[run.key]}
    assert all("reference failed: loss " in reason for reason in reasons)


def test_the_callers_mistake_ends_the_command_and_finished_runs_stay(fresh, store, monkeypatch):
    context, runs = fresh
    score = jobs.score

    def until_full(context, run):
        if len(store.keys("")) == 3:
            raise StoreError("the disk is full")
        return score(context, run)

    monkeypatch.setattr(jobs, "score", until_full)
    with pytest.raises(CallerError, match="the disk is full"):
        list(complete(context, runs, store, InlineEngine()))
    assert store.running() == []  # its claims are given up
    assert len(store.keys("")) == 3
    assert store.failures.history([run.key for run in runs]) == {}


# --- what its machine cuts off


class FailingMachine(InlineEngine):
    """Cuts off the first few tries of some jobs, as a killed worker does."""

    def __init__(self, tries):
        super().__init__()
        self.left = Counter(tries)

    def submit(self, job):
        if not self.left[job.name]:
            return super().submit(job)
        self.left[job.name] -= 1
        self.done.append(job.name)
        self._ended.append(JobOutcome(job.name, None, MachineError("its process died (signal SIGKILL)")))
        return None


def test_a_job_that_its_machine_cut_off_is_tried_again(fresh, store):
    context, runs = fresh
    cut_off = {"reference": 1, "rank trained test 0": 2, "seal grad scalar": 1, runs[-1].key: 2}
    engine = FailingMachine(cut_off)
    events = list(complete(context, runs, store, engine))
    assert not any(event.failure for event in events)
    assert store.done([run.key for run in runs]) == {run.key for run in runs}
    assert store.failures.history([run.key for run in runs]) == {}
    assert {name: engine.done.count(name) - 1 for name in cut_off} == cut_off
    told = {event.step.job.name: event.note for event in events if event.note}
    words = "its process died (signal SIGKILL); tried {} times"
    assert told == {name: words.format(1 + count) for name, count in cut_off.items()}
    assert store.running() == []


def test_after_three_tries_a_job_counts_as_failed(fresh, store):
    context, runs = fresh
    bad = runs[-1]
    engine = FailingMachine({bad.key: 9, "rank trained test 0": 9})
    events = list(complete(context, runs, store, engine))
    assert (engine.done.count(bad.key), engine.done.count("rank trained test 0")) == (0, 3)  # bad needs the other one
    (reason,) = [event.failure for event in events if event.step.job.name == "rank trained test 0"]
    assert reason == "rank trained test 0 failed: its process died (signal SIGKILL); tried 3 times"
    again = FailingMachine({bad.key: 9})
    assert all(event.failure for event in complete(context, runs, store, again)) and again.done == []
    assert bad.key in store.failures.retry([run.key for run in runs], context.data.fingerprint)
    events = list(complete(context, runs, store, again))
    assert [event.step.run for event in events if event.failure] == [bad]
    assert again.done.count(bad.key) == 3
    assert store.failures.history([bad.key])[bad.key][-1].reason == "its process died (signal SIGKILL); tried 3 times"
    assert store.running() == []


def test_between_two_tries_another_process_may_take_a_run(tmp_path, store):
    context = make_context(tmp_path)
    runs = make_runs(context)[:2]  # untouched images, two seeds
    engine, other = FailingMachine({runs[0].key: 1}), Owner.here()
    release = store.release

    def take(keys, owner):
        release(keys, owner)
        if engine.done == [runs[0].key]:
            assert lease(store, [runs[0].key], other) == {runs[0].key}
            store.add(scheduler.result_of(runs[0], jobs.score(context, runs[0])))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "release", take)
        events = list(complete(context, runs, store, engine))
    assert [(event.step.run, event.elsewhere) for event in events] == [(runs[0], True), (runs[1], False)]
    assert engine.done == [run.key for run in runs]
    assert store.done([run.key for run in runs]) == {run.key for run in runs}


def test_what_was_cut_off_here_is_left_to_others_that_are_at_work(tmp_path, store, monkeypatch):
    """Else a broken machine, which is idle more often than any other, would try it again and again."""
    context = make_context(tmp_path)
    bad, others = make_runs(context)[:2]
    engine, other, looks = FailingMachine({bad.key: 1}), Owner.here(), []
    store.claim([Wanted((others.key,), "", context.data.fingerprint)], other, 1)

    def sleep(seconds):
        looks.append(engine.done.count(bad.key))
        if len(looks) == 3:
            store.leave(other)

    monkeypatch.setattr(scheduler, "time", clock(sleep))
    assert not any(event.failure for event in complete(context, [bad, others], store, engine))
    assert looks == [1, 1, 1]
    assert engine.done.count(bad.key) == 2


# --- two on one store


def test_two_at_once_share_every_kind_of_step(tmp_path, store, monkeypatch):
    """Where both are equally fast, none does less than 45 % of the shards, and none waits for the other's."""
    monkeypatch.setattr(graph, "SHARD", 4)
    for module in (shards, importance, graph, claims):
        monkeypatch.setattr(module, "EXPLAINED", 4)
    context = make_context(tmp_path)
    runs = make_runs(context)
    engines = InlineEngine(), InlineEngine()
    with open_store(tmp_path) as other:
        one, two = (complete(context, runs, held, engine) for held, engine in zip((store, other), engines, strict=True))
        for _ in zip_longest(one, two):  # one job each, in turn
            pass
    kinds = {step.job.name: step.kind for step in steps(make_context(tmp_path / "planned"), runs)}
    for kind, least in (("rank", 0.45), ("seal", 0.2), ("run", 0.2)):
        shares = [sum(kinds[name] == kind for name in engine.done) for engine in engines]
        assert min(shares) >= least * sum(shares), (kind, shares)
    names = [name for engine in engines for name in engine.done]
    assert len(names) == len(set(names)), "no step was done twice"
    assert len({name for name in names if name.startswith("rank")}) == 2 * (TRAIN + TEST) // 4
    assert not store.running() and len(store.keys("")) == len(runs)


def test_a_step_in_other_hands_is_skipped_and_seen_as_done_when_it_is(fresh, store, monkeypatch):
    context, runs = fresh
    other, engine = Owner.here(), InlineEngine()
    shard = next(step for step in steps(context, runs) if step.job.name == "rank controls train 0")
    assert store.claim([claims.wanted(shard)], other, 1).granted
    names = []

    def sleep(seconds):
        names.append(list(engine.done))
        if len(names) == 2:
            shards.rank_shard(*shard.job.arguments)
            store.leave(other)

    monkeypatch.setattr(scheduler, "time", clock(sleep))
    assert not any(event.failure for event in complete(context, runs, store, engine))
    assert shard.job.name not in engine.done
    assert "rank controls train 16" in names[0] and "seal grad scalar" in names[0], "the work moves on"
    assert not any("truth" in name for name in names[0]) and "seal truth scalar" in engine.done
    assert store.done([run.key for run in runs]) == {run.key for run in runs}


def test_a_lost_lease_stops_its_job_and_writes_nothing(tmp_path, store):
    """It expired while the worker still computed; another process has the run by now."""
    context = make_context(tmp_path)
    runs = make_runs(context)[:2]
    heir, told = Owner.here(), []

    class Losing(InlineEngine):
        def stop(self, name):
            told.append(name)
            self._ended = [JobOutcome(name, None, MachineError("its process died (signal SIGKILL)"))]

        def wait(self, timeout):
            if self.done == [runs[0].key] and not told:
                with store.database.write() as connection:
                    connection.execute(update(leases).values(owner=heir.id, number=7))
                beat()
                return []
            return super().wait(timeout)

    beats = []
    enter = scheduler.Heartbeat.__enter__

    def beat():
        beats[0].beat()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler.Heartbeat, "__enter__", lambda self: beats.append(self) or enter(self))
        patch.setattr(scheduler, "time", clock(lambda seconds: store.leave(heir)))
        engine = Losing()
        events = list(complete(context, runs, store, engine))
    assert told == [runs[0].key]
    assert engine.done == [runs[0].key, runs[1].key, runs[0].key], "it is done here once the heir has let go of it"
    assert [event.step.run for event in events] == [runs[1], runs[0]]
    assert store.failures.cut_off(runs[0].key, "killed") == 1, "to be stopped is no fault of a machine"


def test_leases_are_renewed_while_nothing_can_be_printed(tmp_path, store, monkeypatch):
    """A stopped terminal: whoever reads the events takes none for long."""
    monkeypatch.setattr(beats, "PULSE", 0.01)
    context = make_context(tmp_path)
    runs = make_runs(context)[:2]

    class Two(InlineEngine):
        idle = 2

        def wait(self, timeout):
            return [self._ended.pop(0)] if self._ended else []

    events = complete(context, runs, store, Two())
    next(events)  # one is told of; the other is leased, and nobody asks what became of it
    (held,) = [row.beat for row in rows_of(store)]
    assert eventually(lambda: [row.beat for row in rows_of(store)] > [held])
    assert len(list(events)) == 1


def rows_of(store):
    with store.database.read() as connection:
        return connection.execute(select(leases)).all()


def test_a_run_in_living_hands_is_waited_for_and_one_in_dead_hands_is_taken(tmp_path, store, monkeypatch):
    context = make_context(tmp_path)
    runs = make_runs(context)[:2]  # untouched images, two seeds
    living, dead = Owner.here(), replace(Owner.here(), pid=2**22 + 1)  # beyond the largest process number
    lease(store, [runs[0].key], living)
    lease(store, [runs[1].key], dead)
    engine = InlineEngine()
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            store.release([runs[0].key], living)

    monkeypatch.setattr(scheduler, "time", clock(sleep))
    events = list(complete(context, runs, store, engine))
    assert [event.step.run for event in events] == [runs[1], runs[0]]
    assert len(looks) == 3
    assert engine.done == [runs[1].key, runs[0].key]


def test_work_that_ended_beside_a_callers_mistake_is_kept(fresh, store):
    context, runs = fresh

    kept = []

    class TwoAtOnce(InlineEngine):
        """Of the first two runs that end together, the one that is told first is a mistake."""

        @property
        def idle(self):
            return 2 - len(self._ended)

        def wait(self, timeout):
            ended = super().wait(timeout)
            if len(ended) == 2 and all(isinstance(outcome.value, jobs.Scored) for outcome in ended):
                kept.append(ended[1].name)
                return [ended[0]._replace(value=None, error=CallerError("no room")), ended[1]]
            return ended

    with pytest.raises(CallerError, match="no room"):
        list(complete(context, runs, store, TwoAtOnce()))
    assert store.done(kept) == set(kept) != set()


# --- how much one job is


def test_a_job_is_less_the_more_often_the_reference_looks_at_an_image(tmp_path):
    context = make_context(tmp_path)

    def size(*names, side=64):
        specs = [context.ranking_spec(find_estimator(name), Unit.SCALAR) for name in names]
        return graph._shard_size([replace(spec, shape=(3, side, side)) for spec in specs])

    with pytest.MonkeyPatch.context() as patch:
        for module in (shards, importance, graph, claims):
            patch.setattr(module, "EXPLAINED", 64)
        patch.setattr(graph, "SHARD", 512)
        assert size("random", "sobel") == 512
        assert size("grad", "grad-sq", "sgsq-grad", "var-grad", "ig", "gb", "ig~blurred") == 512  # 40 looks
        assert size(*PAPER) == 64  # 400 looks
        assert size(*PAPER, side=32) == 192
        assert size(*PAPER, side=224) == 64
        patch.setattr(graph, "device", lambda: torch.device("cuda"))
        assert size(*PAPER, side=224) == 512


def test_each_image_is_explained_once_whatever_the_size_of_a_job_was(fresh, store, monkeypatch):
    context, runs = fresh
    explained = Counter()
    maps = importance.maps_together

    def counted(subjects, *rest):
        for estimators, _, batch, _ in subjects:
            explained.update((estimator.id, image) for estimator in estimators for image in batch.ids.tolist())
        return maps(subjects, *rest)

    monkeypatch.setattr(importance, "maps_together", counted)
    for module in (shards, importance, graph, claims):
        monkeypatch.setattr(module, "EXPLAINED", 8)
    for size, count in ((8, 6), (16, 5), (8, 2), (40, 1000)):  # cut off after so many jobs
        monkeypatch.setattr(graph, "SHARD", size)
        events = complete(context, runs, store, InlineEngine())
        list(islice(events, count))
        events.close()
    assert store.done([run.key for run in runs]) == {run.key for run in runs}
    assert set(explained.values()) == {1}
    assert len(explained) == 3 * (TRAIN + TEST)


# --- maps that are not finite


def test_maps_that_are_not_finite_fail_their_own_runs_alone(fresh, store, monkeypatch):
    maps = importance.maps_together

    def broken(subjects, *rest):
        (found,) = maps(subjects, *rest)
        if "truth" in found and subjects[0].batch.ids[0] == 32:
            found["truth"][3, 0, 0, 0] = float("nan")
        return [found]

    monkeypatch.setattr(importance, "maps_together", broken)
    context, runs = fresh
    events = list(complete(context, runs, store, InlineEngine()))
    truth = {run for run in runs if run.cell.estimator == "truth"}
    assert {event.step.run for event in events if event.failure and event.step.run} == truth
    assert store.done([run.key for run in runs]) == {run.key for run in runs if run not in truth}
    reasons = {failure.reason for run in truth for failure in store.failures.history([run.key])[run.key]}
    (reason,) = reasons
    assert reason.startswith("rank truth failed: train images from 32 on: importance of image 3 of the batch has 1")


def test_a_blocked_run_in_other_hands_is_not_called_failed(tmp_path, store, monkeypatch):
    def no_reference(context):
        raise RunError("no luck")

    monkeypatch.setattr(jobs, "train_reference", no_reference)
    context = make_context(tmp_path)
    blocked = [run for run in make_runs(context) if run.cell.retrain is Retrain.NONE][:2]
    living = Owner.here()
    lease(store, [blocked[0].key], living)
    monkeypatch.setattr(scheduler, "time", clock(lambda seconds: store.release([blocked[0].key], living)))
    failed = [event.step.run for event in complete(context, blocked, store, InlineEngine()) if event.step.run]
    assert failed == [blocked[1], blocked[0]]  # the first one only once it was free
    assert store.running() == []

"""The graph of jobs: what is done in which order, what fails with what, and two commands on one store."""

import time
from collections import Counter
from dataclasses import replace
from itertools import islice, zip_longest
from threading import Event
from types import SimpleNamespace

import pytest
import torch
from sqlalchemy import select, update

from roarbench.errors import CallerError, Diverged, MachineError, RunError
from roarbench.execution import beats, importance, jobs, scheduler, shards
from roarbench.execution import job_graph as graph
from roarbench.execution import leasing as claims
from roarbench.execution.job_graph import Step, steps
from roarbench.execution.schedule import Schedule
from roarbench.execution.scheduler import complete
from roarbench.kernels.train import fit
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.store.leases import Owner, Wanted
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.schema import leases
from roarbench.terms import Retrain, Split
from roarbench.workers.job import Job, JobOutcome
from tests.helpers.commands import PATIENCE, eventually
from tests.helpers.leasing import lease
from tests.helpers.tiny_suite import SUITE, TEST, TRAIN, InlineEngine, make_runs, make_work, score

pytestmark = pytest.mark.slow

ROWS = ("random", "grad", "truth")
SMALL = replace(SUITE, blocks=(Block(ROAR, ROWS, (0.9,), seeds=2), Block(MORF, ROWS[:2], (0.9,), seeds=1)))


def size_jobs(patch, explained, shard):
    for module in (shards, importance, graph, claims):
        patch.setattr(module, "EXPLAINED", explained)
    patch.setattr(graph, "SHARD", shard)


@pytest.fixture(scope="module", autouse=True)
def small_jobs_no_waiting_and_no_training():
    """What is trained, and how well, is no matter here: networks stay as they begin."""
    with pytest.MonkeyPatch.context() as patch:
        size_jobs(patch, 16, 16)
        patch.setattr(jobs, "fit", lambda *_: 0.5)
        for name in ("_PATIENCE", "_FIRST_LOOK", "LAST_LOOK"):
            patch.setattr(scheduler, name, 0.0)
        yield


@pytest.fixture
def sleeps(monkeypatch):
    """What the scheduler calls instead of sleeping, one after the other; what waits for a process still sleeps."""
    calls = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: [call() for call in calls])
    monkeypatch.setattr(scheduler, "time", clock)
    return calls


@pytest.fixture
def fresh(tmp_path):
    """A work of which nothing is done, and all runs of a part; the first two are of untouched images."""
    work = make_work(tmp_path, SMALL)
    return work, make_runs(work, SMALL)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A suite done from nothing: its work, runs, events, the names of the jobs in order, and its results."""
    folder = tmp_path_factory.mktemp("done")
    work, engine = make_work(folder), InlineEngine()
    runs = make_runs(work)
    with ResultsStore.open(default_url(folder)) as store:
        events = list(complete(work, runs, store, engine))
        yield work, runs, events, engine.done, store


def keys_of(runs):
    return [run.key for run in runs]


def failed(events):
    return [(event.step.run, event.failure) for event in events if event.failure]


def reasons_of(store, runs):
    return {failure.reason for history in store.failures.history(keys_of(runs)).values() for failure in history}


def test_a_fresh_suite_has_each_step_once_which_needs_what_it_reads(tmp_path):
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


def test_controls_need_no_reference_and_a_redrawn_ranking_is_not_made(tmp_path):
    def kinds(*estimators):
        suite = replace(SUITE, blocks=(Block(ROAR, estimators, (0.9,), seeds=1),))
        work = make_work(tmp_path, suite)
        return [step.kind for step in steps(work, make_runs(work, suite))]

    assert "reference" not in kinds("random", "truth")
    assert kinds("random-redrawn") == ["run", "run"]


def test_only_test_images_are_ranked_where_nothing_is_retrained(done, store, tmp_path):
    """What is found is what the suite finds that ranks both, which then goes on in the same folder."""
    suite = replace(SUITE, blocks=tuple(block for block in SUITE.blocks if block.protocol.retrain is Retrain.NONE))
    work = make_work(tmp_path, suite)
    runs = make_runs(work, suite)
    found = Counter(step.kind for step in steps(work, runs))
    assert found == {"reference": 1, "rank": 2 * -(-TEST // 16), "seal": 2, "run": len(runs)}
    assert failed(complete(work, runs, store, InlineEngine())) == []
    for key, result in done[-1].results(keys_of(runs)).items():
        own = store.results([key])[key]
        assert (own.bits, own.probability, own.smoothness) == (result.bits, result.probability, result.smoothness)
    assert [work.explained[0].store.predicted(split) for split in Split] == [False, True]
    assert not list(work.workspace.rankings.rglob("train*.arrow"))
    more = make_work(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.suffix in (".arrow", ".npz", ".pt")}
    runs = [run for run in make_runs(more) if run.cell.estimator in ("random", "grad") and run.seed == 0]
    assert failed(complete(more, runs, store, InlineEngine())) == []
    assert all(path.read_bytes() == content for path, content in before.items())
    assert all(more.explained[0].store.predicted(split) for split in Split)


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


def test_everything_is_done_and_stored_once(done):
    work, runs, events, names, store = done
    assert set(store.keys("")) == store.done(keys_of(runs)) == set(keys_of(runs))
    assert failed(events) == []
    assert [event.step.job.name for event in events] == names
    assert store.running() == []
    found = store.results(keys_of(runs))
    for run in runs:
        result, scored = found[run.key], score(work, run)
        assert result.run == run
        assert (result.bits, result.total) == (scored.bits, TEST)
        assert result.rankings == scored.rankings
        assert (result.probability is None) == (run.cell.retrain is not Retrain.NONE)
        assert result.probability == scored.probability
    engine = InlineEngine()
    assert (list(complete(work, runs, store, engine)), engine.done) == ([], [])


def test_rows_say_what_the_worker_computed_with(fresh, store, monkeypatch):
    """Not what the command's process would: it never looks at a device."""
    used, cast = [], torch.autocast
    monkeypatch.setattr(jobs, "fit", fit)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch, "autocast", lambda *how, enabled: used.append(enabled) or cast(*how, enabled=enabled))
    monkeypatch.setattr(jobs, "device_name", lambda device: f"{device.type} of the worker")
    monkeypatch.setattr(jobs, "gpu_libraries", lambda device: {"cuda": "12.8"})
    work, runs = fresh
    runs = [run for run in runs if (run.cell.estimator, run.seed) == ("none", 0)]
    assert failed(complete(work, runs, store, InlineEngine())) == []
    assert set(used) == {True}
    for run, precision in zip(runs, ("bf16", "float32"), strict=True):  # trained, scored
        made = store.results([run.key])[run.key].provenance
        assert (made.hardware["device"], made.hardware["precision"]) == ("cpu of the worker", precision)
        assert (made.versions["cuda"], bool(made.hardware["cpu"])) == ("12.8", True)


def test_it_goes_on_where_it_was_cut_off_whatever_the_size_of_a_job_was(fresh, store, monkeypatch):
    work, runs = fresh
    explained, done, maps = Counter(), Counter(), importance.maps_together

    def counted(subjects, *rest):
        for estimators, _, batch, _ in subjects:
            explained.update((estimator.id, image) for estimator in estimators for image in batch.ids.tolist())
        return maps(subjects, *rest)

    monkeypatch.setattr(importance, "maps_together", counted)
    for size, count in ((8, 6), (16, 5), (8, 2), (40, 12), (40, 1000)):  # cut off after so many jobs
        size_jobs(monkeypatch, 8, size)
        events = complete(work, runs, store, InlineEngine())
        done.update(event.step.run.key for event in islice(events, count) if event.step.run)
        events.close()
    assert set(done) == store.done(keys_of(runs)) == set(keys_of(runs))
    assert set(explained.values()) == set(done.values()) == {1}
    assert len(explained) == 3 * (TRAIN + TEST)


def test_runs_that_fail_are_recorded_and_told_again_and_the_others_go_on(fresh, store, monkeypatch):
    """One by itself, and those by maps that are not finite."""
    work, runs = fresh
    bad = next(run for run in runs if (run.cell.estimator, run.seed) == ("random", 1))
    truth = {run for run in runs if run.cell.estimator == "truth"}
    scored, maps = jobs.score, importance.maps_together

    def sometimes(explained, judge, run, row):
        if run == bad:
            raise RunError("the loss went away")
        return scored(explained, judge, run, row)

    def broken(subjects, *rest):
        (found,) = maps(subjects, *rest)
        if "truth" in found and subjects[0].batch.ids[0] == 32:
            found["truth"][3, 0, 0, 0] = float("nan")
        return [found]

    monkeypatch.setattr(jobs, "score", sometimes)
    monkeypatch.setattr(importance, "maps_together", broken)
    engine = InlineEngine()
    assert {run for run, _ in failed(complete(work, runs, store, engine)) if run} == {bad, *truth}
    assert store.done(keys_of(runs)) == set(keys_of(runs)) - set(keys_of({bad, *truth}))
    assert reasons_of(store, [bad]) == {"the loss went away"}
    (reason,) = reasons_of(store, truth)
    assert reason.startswith("rank truth failed: train images from 32 on: importance of image 3 of the batch has 1")
    assert engine.done.count(bad.key) == 1
    assert store.running() == []
    monkeypatch.setattr(jobs, "score", scored)
    again = InlineEngine()
    assert (bad, "the loss went away") in failed(complete(work, runs, store, again))
    assert not set(again.done) & set(keys_of(runs)), "it is told of, and not tried"
    assert store.failures.retry([bad.key], work.images.fingerprint) == {bad.key}
    assert [event.step.run for event in complete(work, [bad], store, InlineEngine())] == [bad]


def test_a_reference_that_diverges_takes_with_it_all_that_needs_it(fresh, store, monkeypatch):
    work, runs = fresh

    def diverging(*given):
        if given[5] == work.explained[0].reference.seed:
            raise Diverged("loss nan at step 3")
        return 0.5

    monkeypatch.setattr(jobs, "fit", diverging)
    engine = InlineEngine()
    lost = {run for run, _ in failed(complete(work, runs, store, engine)) if run}
    assert lost == {run for run in runs if run.reference}
    assert store.done(keys_of(runs)) == {run.key for run in runs if not run.reference}
    assert not any("trained" in name or "grad" in name for name in engine.done)  # not even tried
    assert engine.done.count("reference") == 1
    assert all("reference failed: loss " in reason for reason in reasons_of(store, lost))


def test_the_callers_mistake_ends_the_command_and_what_ended_beside_it_is_kept(fresh, store):
    work, runs = fresh
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
                return [ended[0]._replace(value=None, error=CallerError("the disk is full")), ended[1]]
            return ended

    with pytest.raises(CallerError, match="the disk is full"):
        list(complete(work, runs, store, TwoAtOnce()))
    assert store.done(kept) == set(kept) != set()
    assert (store.running(), reasons_of(store, runs)) == ([], set())


KILLED = MachineError("its process died (signal SIGKILL)")


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
        self._ended.append(JobOutcome(job.name, None, KILLED))
        return None


def test_a_job_that_its_machine_cut_off_is_tried_again_and_counts_as_failed_after_three_tries(fresh, store):
    work, runs = fresh
    bad, rank = runs[-1], "rank trained test 0"  # which it needs
    cut_off = {"reference": 1, "seal random scalar": 2, runs[0].key: 2}
    engine = FailingMachine({bad.key: 9, rank: 9, **cut_off})
    events = list(complete(work, runs, store, engine))
    assert {name: engine.done.count(name) - 1 for name in cut_off} == cut_off
    told = {event.step.job.name: event.note for event in events if event.note}
    assert told == {name: f"{KILLED}; tried {1 + count} times" for name, count in cut_off.items()}
    assert reasons_of(store, runs[:1]) == set()
    assert (engine.done.count(bad.key), engine.done.count(rank)) == (0, 3)
    (reason,) = [event.failure for event in events if event.step.job.name == rank]
    assert reason == f"{rank} failed: {KILLED}; tried 3 times"
    again = FailingMachine({bad.key: 9})
    assert all(event.failure for event in complete(work, runs, store, again)) and again.done == []
    assert bad.key in store.failures.retry(keys_of(runs), work.images.fingerprint)
    assert failed(complete(work, runs, store, again)) == [(bad, f"{KILLED}; tried 3 times")]
    assert again.done.count(bad.key) == 3
    assert store.running() == []


def test_what_was_cut_off_here_is_left_to_others_that_are_at_work(fresh, store, sleeps):
    """Else a broken machine, which is idle more often than any other, would try it again and again."""
    work, (bad, others) = fresh[0], fresh[1][:2]
    engine, other, looks = FailingMachine({bad.key: 1}), Owner.here(), []
    store.claim([Wanted((others.key,), "", work.images.fingerprint)], other, 1)
    sleeps += [lambda: looks.append(engine.done.count(bad.key)), lambda: len(looks) == 3 and store.leave(other)]
    assert failed(complete(work, [bad, others], store, engine)) == []
    assert (looks, engine.done.count(bad.key)) == ([1, 1, 1], 2)


def test_two_at_once_share_every_kind_of_step(fresh, store, tmp_path, monkeypatch):
    """Where both are equally fast, none does less than 45 % of the shards, and none waits for the other's."""
    size_jobs(monkeypatch, 8, 8)
    work, runs = fresh
    kinds = {step.job.name: step.kind for step in steps(work, runs)}
    engines = InlineEngine(), InlineEngine()
    with ResultsStore.open(default_url(tmp_path)) as other:
        one, two = (complete(work, runs, held, engine) for held, engine in zip((store, other), engines, strict=True))
        for _ in zip_longest(one, two):  # one job each, in turn
            pass
    for kind, least in (("rank", 0.45), ("seal", 0.2), ("run", 0.2)):
        shares = [sum(kinds[name] == kind for name in engine.done) for engine in engines]
        assert min(shares) >= least * sum(shares), (kind, shares)
    names = [name for engine in engines for name in engine.done]
    assert len(names) == len(set(names)), "no step was done twice"
    assert len({name for name in names if name.startswith("rank")}) == 2 * (TRAIN + TEST) // 8
    assert not store.running() and len(store.keys("")) == len(runs)


def test_a_step_in_living_hands_is_skipped_until_it_is_done_and_one_in_dead_hands_is_taken(fresh, store, sleeps):
    work, runs = fresh
    other, engine, names = Owner.here(), InlineEngine(), []
    dead = replace(other, id="dead", pid=2**22 + 1)  # beyond the largest process number
    shard = next(step for step in steps(work, runs) if step.job.name == "rank controls train 0")
    assert store.claim([claims.wanted(shard, work.images.fingerprint)], other, 1).granted
    assert lease(store, [runs[0].key], other) and lease(store, [runs[1].key], dead)

    def look():
        names.append(list(engine.done))
        if len(names) == 2:
            shards.rank_shard(*shard.job.arguments)
            store.leave(other)

    sleeps.append(look)
    assert failed(complete(work, runs, store, engine)) == []
    assert shard.job.name not in engine.done
    assert {"rank controls train 16", "seal grad scalar", runs[1].key} < set(names[0]), "the work moves on"
    assert not any("truth" in name for name in names[0]) and "seal truth scalar" in engine.done
    assert runs[0].key not in names[1]
    assert store.done(keys_of(runs)) == set(keys_of(runs))


def test_a_blocked_run_in_other_hands_is_not_called_failed_before_it_is_free(fresh, store, sleeps, monkeypatch):
    def no_reference(explained):
        raise RunError("no luck")

    monkeypatch.setattr(jobs, "train_reference", no_reference)
    work, runs = fresh
    blocked, living = [run for run in runs if run.cell.retrain is Retrain.NONE][:2], Owner.here()
    lease(store, [blocked[0].key], living)
    sleeps.append(lambda: store.release([blocked[0].key], living))
    lost = [run for run, _ in failed(complete(work, blocked, store, InlineEngine())) if run]
    assert lost == [blocked[1], blocked[0]]
    assert store.running() == []


def test_a_lost_lease_stops_its_job_and_writes_nothing(fresh, store, sleeps, monkeypatch):
    """It expired while the worker still computed; another process has the run by now."""
    work, runs = fresh[0], fresh[1][:2]
    heir, told, beating = Owner.here(), [], []

    class Losing(InlineEngine):
        def stop(self, name):
            told.append(name)
            self._ended = [JobOutcome(name, None, KILLED)]

        def wait(self, timeout):
            if self.done == [runs[0].key] and not told:
                with store.database.write() as connection:
                    connection.execute(update(leases).values(owner=heir.id, number=7))
                beating[0].beat()
                return []
            return super().wait(timeout)

    enter = beats.Heartbeat.__enter__
    monkeypatch.setattr(beats.Heartbeat, "__enter__", lambda self: beating.append(self) or enter(self))
    sleeps.append(lambda: store.leave(heir))
    engine = Losing()
    events = list(complete(work, runs, store, engine))
    assert told == [runs[0].key]
    assert engine.done == [runs[0].key, runs[1].key, runs[0].key], "it is done here once the heir has let go of it"
    assert [event.step.run for event in events] == [runs[1], runs[0]]
    assert store.failures.cut_off(runs[0].key, "killed") == 1, "to be stopped is no fault of a machine"


def test_leases_are_renewed_while_nothing_can_be_printed(fresh, store, monkeypatch):
    """A stopped terminal: whoever reads the events takes none for long."""
    monkeypatch.setattr(beats, "PULSE", 0.01)

    class Two(InlineEngine):
        idle = 2

        def wait(self, timeout):
            return [self._ended.pop(0)] if self._ended else []

    def beat():
        with store.database.read() as connection:
            return connection.execute(select(leases.c.beat)).scalar_one()

    events = complete(fresh[0], fresh[1][:2], store, Two())
    next(events)  # one is told of; the other is leased, and nobody asks what became of it
    held = beat()
    assert eventually(lambda: beat() > held)
    assert len(list(events)) == 1


def test_a_database_that_does_not_answer_keeps_nobody(fresh, store, monkeypatch):
    """A server that is gone without a word answers neither yes nor no."""
    monkeypatch.setattr(scheduler, "_FAREWELL", 0.01)
    answered = Event()
    monkeypatch.setattr(store, "leave", lambda owner: answered.wait(PATIENCE))
    events = complete(fresh[0], fresh[1][:1], store, InlineEngine())
    next(events)
    events.close()
    assert not answered.is_set()
    answered.set()

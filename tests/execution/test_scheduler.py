"""`run_missing`: each step runs once, failures block their dependents, and machine errors are retried."""

import platform
from collections import Counter
from dataclasses import replace
from importlib.metadata import version
from itertools import islice

import pytest
import torch

from roarbench.common.enums import ScoredNetwork, Split
from roarbench.common.errors import CallerError, Diverged, MachineError, RunError
from roarbench.common.job_interface import JobOutcome
from roarbench.execution import job_graph, ranking_jobs, training_and_scoring
from roarbench.execution.job_graph import build_job_graph
from roarbench.store.leases import LeaseRequest, Owner
from roarbench.store.run_result import read_code_version
from tests.helpers.tiny_suite import (
    SUITE,
    TEST,
    TRAIN,
    InlineEngine,
    completed,
    make_runs,
    make_work,
    run_missing,
    size_jobs,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_jobs")]


def list_keys(runs):
    return [run.key for run in runs]


def list_failures(events):
    return [(event.step.first_run, event.failure) for event in events if event.failure]


def list_failure_reasons(store, runs):
    return {failure.reason for history in store.failures.read_history(list_keys(runs)).values() for failure in history}


def test_suites_without_retraining_rank_only_test_images(store, tmp_path):
    """Results equal those of the suite that ranks both splits."""
    blocks = tuple(block for block in SUITE.blocks if block.protocol.retrain is ScoredNetwork.NONE)
    suite = replace(SUITE, blocks=blocks)
    work = make_work(tmp_path / "part", suite)
    runs = make_runs(work, suite)
    found = Counter(step.kind for step in build_job_graph(work, runs).steps)
    assert found == {"reference": 1, "rank": 2 * -(-TEST // 16), "seal": 2, "run": len(runs)}
    assert list_failures(run_missing(work, runs, store, InlineEngine())) == []
    with completed(tmp_path / "whole", SUITE) as (whole, all_runs, _, results):
        assert list(run_missing(whole, all_runs, results, InlineEngine())) == [], "it is done"
        expected = results.read_results(list_keys(runs))
    for key, own in store.read_results(list_keys(runs)).items():
        result = expected[key]
        assert (own.bits, own.probability, own.smoothness) == (result.bits, result.probability, result.smoothness)
    assert [work.explained[0].store.has_predictions(split) for split in Split] == [False, True]
    assert not list(work.workspace.rankings.rglob("train*.arrow"))


def test_results_record_hardware_and_versions_of_worker(fresh, store, monkeypatch):
    """The process of the command never queries a device."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(training_and_scoring, "name_device", lambda device: f"{device.type} of the worker")
    monkeypatch.setattr(training_and_scoring, "list_gpu_library_versions", lambda device: {"cuda": "12.8"})
    work, runs = fresh
    runs = [run for run in runs if (run.cell.estimator, run.seed) == ("none", 0)]
    assert list_failures(run_missing(work, runs, store, InlineEngine())) == []
    for run, precision in zip(runs, ("bf16", "float32"), strict=True):  # trained, scored
        made = store.read_results([run.key])[run.key].provenance
        assert (made.hardware["device"], made.hardware["precision"]) == ("cpu of the worker", precision)
        libraries = {"python": platform.python_version(), "torch": version("torch"), "cuda": "12.8"}
        assert made.versions.items() >= libraries.items()
        assert made.code_version == read_code_version()


def test_run_missing_resumes_after_interruption_with_other_job_sizes(fresh, store, monkeypatch):
    work, runs = fresh
    explained, done, maps = Counter(), Counter(), ranking_jobs.compute_maps_of_tasks

    def counted(tasks, *rest):
        for estimators, _, batch, _ in tasks:
            explained.update((estimator.id, image) for estimator in estimators for image in batch.ids.tolist())
        return maps(tasks, *rest)

    monkeypatch.setattr(ranking_jobs, "compute_maps_of_tasks", counted)
    for size, count in ((8, 6), (16, 5), (8, 2), (40, 12), (40, 1000)):  # cut off after so many jobs
        size_jobs(monkeypatch, 8, size)
        events = run_missing(work, runs, store, InlineEngine())
        done.update(event.step.first_run.key for event in islice(events, count) if event.step.first_run)
        events.close()
    assert set(done) == store.find_done_keys(list_keys(runs)) == set(list_keys(runs))
    assert set(explained.values()) == set(done.values()) == {1}
    assert len(explained) == 3 * (TRAIN + TEST)


def test_run_missing_records_failed_runs_and_continues_others(fresh, store, monkeypatch):
    """Failures: one run, the runs with nonfinite maps, and all runs that need a diverging network."""
    work, runs = fresh
    bad = next(run for run in runs if (run.cell.estimator, run.seed) == ("random", 1))
    truth, explaining = {run for run in runs if run.cell.estimator == "truth"}, {run for run in runs if run.reference}
    lost, scored = {bad, *truth, *explaining}, job_graph.execute_runs
    maps = ranking_jobs.compute_maps_of_tasks

    def diverging(*given):
        if given[5] == work.explained[0].reference.seed:
            raise Diverged("loss nan at step 3")
        return 0.5

    def sometimes(work, runs):
        if bad in runs:
            raise RunError("the loss went away")
        return scored(work, runs)

    def broken(tasks, *rest):
        (found,) = maps(tasks, *rest)
        if "truth" in found and tasks[0].batch.ids[0] == 32:
            found["truth"][3, 0, 0, 0] = float("nan")
        return [found]

    monkeypatch.setattr(training_and_scoring, "fit", diverging)
    monkeypatch.setattr(job_graph, "execute_runs", sometimes)
    monkeypatch.setattr(ranking_jobs, "compute_maps_of_tasks", broken)
    engine = InlineEngine()
    assert {run for run, _ in list_failures(run_missing(work, runs, store, engine)) if run} == lost
    assert store.find_done_keys(list_keys(runs)) == set(list_keys(runs)) - set(list_keys(lost)) != set()
    assert list_failure_reasons(store, [bad]) == {"the loss went away"}
    (reason,) = list_failure_reasons(store, truth)
    assert reason.startswith("rank truth failed: train images from number 32: 1 of ")
    assert all("explained network failed: loss nan" in reason for reason in list_failure_reasons(store, explaining))
    assert not any("trained" in name or "grad" in name for name in engine.done), "not even tried"
    assert engine.done.count(bad.key) == engine.done.count("explained network") == 1
    assert store.list_leases() == []
    monkeypatch.setattr(job_graph, "execute_runs", scored)
    again, said = InlineEngine(), []
    assert (bad, "the loss went away") in list_failures(run_missing(work, runs, store, again, said.append))
    assert said == [], "no step is left, so there is nothing to wait for"
    assert not set(again.done) & set(list_keys(runs)), "the failure is reported without a new try"
    assert store.failures.allow_retry_of_runs_and_steps([bad.key], work.images.fingerprint) == {bad.key}
    assert [event.step.first_run for event in run_missing(work, [bad], store, InlineEngine())] == [bad]


def test_caller_error_ends_run_missing_but_keeps_finished_results(fresh, store):
    work, runs = fresh
    kept = []

    class TwoAtOnce(InlineEngine):
        """Of the first two runs that end together, the first ends with a caller error."""

        @property
        def idle(self):
            return 2 - len(self._ended)

        def wait(self, timeout):
            ended = super().wait(timeout)
            if len(ended) == 2 and all(isinstance(outcome.value, training_and_scoring.ScoredRuns) for outcome in ended):
                kept.append(ended[1].name)
                return [ended[0]._replace(value=None, error=CallerError("the disk is full")), ended[1]]
            return ended

    with pytest.raises(CallerError, match="the disk is full"):
        list(run_missing(work, runs, store, TwoAtOnce()))
    assert store.find_done_keys(kept) == set(kept) != set()
    assert (store.list_leases(), list_failure_reasons(store, runs)) == ([], set())


KILLED = MachineError("the worker's process died (signal SIGKILL)")


class FailingMachine(InlineEngine):
    """An engine that ends the first tries of some jobs with the error of a killed worker."""

    def __init__(self, tries):
        super().__init__()
        self.left = Counter(tries)

    def start_job(self, job):
        if self.left[job.name]:
            self.left[job.name] -= 1
            self.done.append(job.name)
            self._ended.append(JobOutcome(job.name, None, KILLED))
        else:
            super().start_job(job)


def test_machine_errors_are_retried_and_fail_after_three_tries(fresh, store):
    work, runs = fresh
    bad, rank = runs[-1], "rank trained test 0"  # a step that `bad` needs
    cut_off = {"explained network": 1, "seal random scalar": 2, runs[0].key: 2}
    engine = FailingMachine({bad.key: 9, rank: 9, **cut_off})
    events = list(run_missing(work, runs, store, engine))
    assert {name: engine.done.count(name) - 1 for name in cut_off} == cut_off
    told = {event.step.job.name: event.note for event in events if event.note}
    assert told == {name: f"{KILLED}; tried {1 + count} times" for name, count in cut_off.items()}
    assert list_failure_reasons(store, runs[:1]) == set()
    assert (engine.done.count(bad.key), engine.done.count(rank)) == (0, 3)
    (reason,) = [event.failure for event in events if event.step.job.name == rank]
    assert reason == f"{rank} failed: {KILLED}; tried 3 times"
    again = FailingMachine({bad.key: 9})
    assert all(event.failure for event in run_missing(work, runs, store, again)) and again.done == []
    assert bad.key in store.failures.allow_retry_of_runs_and_steps(list_keys(runs), work.images.fingerprint)
    assert list_failures(run_missing(work, runs, store, again)) == [(bad, f"{KILLED}; tried 3 times")]
    assert again.done.count(bad.key) == 3
    assert store.list_leases() == []


def test_interrupted_job_is_retried_only_after_other_workers_leave(fresh, store, sleeps, monkeypatch):
    """A broken machine is idle most often and would otherwise retry the job repeatedly."""
    work, (bad, others) = fresh[0], fresh[1][:2]
    engine, other, looks = FailingMachine({bad.key: 1}), Owner.of_this_process(), []
    store.claim_leases([LeaseRequest((others.key,), "", work.images.fingerprint)], other, 1)
    sleeps += [
        lambda: looks.append(engine.done.count(bad.key)),
        lambda: len(looks) == 3 and store.release_all_leases(other),
    ]
    claim, claimed = store.claim_leases, []
    monkeypatch.setattr(store, "claim_leases", lambda new, *rest: claimed.append(len(new)) or claim(new, *rest))
    assert list_failures(run_missing(work, [bad], store, engine)) == []
    assert (looks, engine.done.count(bad.key)) == ([1, 1, 1], 2)
    assert min(claimed) > 0, "no transaction if all ready steps are left to others"

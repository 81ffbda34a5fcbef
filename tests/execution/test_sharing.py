"""Several commands on one store: shared steps, leases, and a folder shared by machines."""

import os
import socket
from dataclasses import replace
from itertools import zip_longest
from threading import Event

import pytest
from sqlalchemy import select, update

from roarbench.analysis.suite_results import explain_inconsistency
from roarbench.common.errors import MachineError
from roarbench.common.job_interface import JobOutcome
from roarbench.execution import ranking_jobs, scheduler
from roarbench.execution.job_graph import build_job_graph, list_needed_artifacts, read_recorded_checksums
from roarbench.plan.protocols import MATCHED, MORF, ROAR
from roarbench.plan.suite import Block
from roarbench.store.artifact_checksums import Checksums
from roarbench.store.leases import Owner
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.schema import leases
from tests.helpers.processes import PATIENCE, wait_until
from tests.helpers.store_rows import lease, list_result_keys
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


def test_two_commands_share_every_kind_of_step(fresh, store, tmp_path, monkeypatch):
    """Of two equally fast commands, each does at least 45 % of the ranking jobs and never waits for the other."""
    size_jobs(monkeypatch, 8, 8)
    work, runs = fresh
    kinds = {step.job.name: step.kind for step in build_job_graph(work, runs).steps}
    engines = InlineEngine(), InlineEngine()
    with ResultsStore.open(make_default_url(tmp_path)) as other:
        one, two = (run_missing(work, runs, held, engine) for held, engine in zip((store, other), engines, strict=True))
        for _ in zip_longest(one, two):  # one job each, in turn
            pass
    for kind, least in (("rank", 0.45), ("seal", 0.2), ("run", 0.2)):
        shares = [sum(kinds[name] == kind for name in engine.done) for engine in engines]
        assert min(shares) >= least * sum(shares), (kind, shares)
    names = [name for engine in engines for name in engine.done]
    assert len(names) == len(set(names)), "no step was done twice"
    assert len({name for name in names if name.startswith("rank")}) == 2 * (TRAIN + TEST) // 8
    assert not store.list_leases() and len(list_result_keys(store)) == len(runs)


def test_run_missing_waits_for_live_leases_and_takes_dead_ones(fresh, store, sleeps):
    work, runs = fresh
    other, engine, names = Owner.of_this_process(), InlineEngine(), []
    dead = replace(other, id="dead", pid=2**22 + 1)  # beyond the largest process number
    shard = next(step for step in build_job_graph(work, runs).steps if step.job.name == "rank controls train 0")
    assert store.claim_leases([shard.make_lease_request(work.images.fingerprint)], other, 1).granted
    assert lease(store, [runs[0].key], other) and lease(store, [runs[1].key], dead)

    def look():
        names.append(list(engine.done))
        if len(names) == 2:
            ranking_jobs.rank_shard(*shard.job.arguments)
            store.release_all_leases(other)

    sleeps.append(look)
    said = []  # a display without news showed `91 %, about 7 s left` for as long as the other command took
    assert not any(event.failure for event in run_missing(work, runs, store, engine, said.append))
    assert said == [f"waiting for 2 steps of process {os.getpid()} on {socket.gethostname()}"]
    assert shard.job.name not in engine.done
    assert {"rank controls train 16", "seal grad scalar", runs[1].key} < set(names[0]), "the work moves on"
    assert not any("truth" in name for name in names[0]) and "seal truth scalar" in engine.done
    assert runs[0].key not in names[1]
    assert store.find_done_keys([run.key for run in runs]) == {run.key for run in runs}


def test_nothing_is_said_of_other_commands_that_ended_meanwhile(fresh, store, sleeps, monkeypatch):
    """The lease ends between its refusal and the list: the line said `of other commands`, which were none."""
    work, runs = fresh
    other, said = Owner.of_this_process(), []
    assert lease(store, [runs[0].key], other)
    monkeypatch.setattr(store, "list_leases", list)
    sleeps.append(lambda: store.release_all_leases(other))
    assert not any(event.failure for event in run_missing(work, runs[:1], store, InlineEngine(), said.append))
    assert said == [] and store.find_done_keys([runs[0].key])


def test_lost_lease_stops_job_without_writing_results(fresh, store, sleeps, monkeypatch):
    """The lease expired while the worker computed, and another process took the run."""
    work, runs = fresh[0], fresh[1][:2]
    heir, told, beating = Owner.of_this_process(), [], []

    class Losing(InlineEngine):
        def stop_job(self, name):
            told.append(name)
            self._ended = [JobOutcome(name, None, MachineError("stopped"))]

        def wait(self, timeout):
            if self.done == [runs[0].key] and not told:
                with store.database.begin_exclusive_write() as connection:
                    connection.execute(update(leases).values(owner=heir.id, number=7))
                beating[0].renew_leases()
                return []
            return super().wait(timeout)

    enter = scheduler.Heartbeat.__enter__
    monkeypatch.setattr(scheduler.Heartbeat, "__enter__", lambda self: beating.append(self) or enter(self))
    sleeps.append(lambda: store.release_all_leases(heir))
    engine = Losing()
    events = list(run_missing(work, runs, store, engine))
    assert told == [runs[0].key]
    stopped, next_run = runs[0].key, runs[1].key
    assert engine.done == [stopped, next_run, stopped], "the run is repeated once the other process releases it"
    assert [event.step.first_run for event in events] == [runs[1], runs[0]]
    assert store.failures.record_interruption(runs[0].key, "killed") == 1, "a stopped job does not count as interrupted"


def test_leases_are_renewed_while_event_reader_is_blocked(fresh, store, monkeypatch):
    """A stopped terminal reads no event for a long time."""
    monkeypatch.setattr(scheduler, "HEARTBEAT_INTERVAL", 0.01)

    class Two(InlineEngine):
        idle = 2

        def wait(self, timeout):
            return [self._ended.pop(0)] if self._ended else []

    def beat():
        with store.database.begin_read() as connection:
            return connection.execute(select(leases.c.beat)).scalar_one()

    events = run_missing(fresh[0], fresh[1][:2], store, Two())
    next(events)  # one run is reported; the other is leased, and no event of it is read
    held = beat()
    assert wait_until(lambda: beat() > held)
    assert len(list(events)) == 1


def test_run_missing_closes_when_database_does_not_answer(fresh, store, monkeypatch):
    """A vanished server sends no error, so the release of leases must have a time limit."""
    monkeypatch.setattr(scheduler, "_RELEASE_SECONDS", 0.01)
    answered = Event()
    monkeypatch.setattr(store, "release_all_leases", lambda owner: answered.wait(PATIENCE))
    events = run_missing(fresh[0], fresh[1][:1], store, InlineEngine())
    next(events)
    events.close()
    assert not answered.is_set()
    answered.set()


def stat_files(folder):
    """Return inode and time of each file of a folder, so that a rewritten file differs."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def do_steps(todo):
    for step in todo:
        step.job.call(*step.job.arguments)


@pytest.mark.parametrize("kind", ["reference", "rank", "seal", "network", "tune"])
def test_job_keeps_artifacts_made_meanwhile_by_another_machine(kind, tmp_path):
    suite = replace(SUITE, blocks=(Block(MATCHED, ("random", "grad"), (0.5, 0.9), seeds=1),))
    work = make_work(tmp_path, suite)
    todo = build_job_graph(work, make_runs(work, suite)).steps
    do_steps(todo[: [step.kind for step in todo].index(kind)])
    last = [step for step in todo if step.kind == kind]
    do_steps(last)  # on the other machine
    made = stat_files(tmp_path)
    do_steps(last)
    assert stat_files(tmp_path) == made


def test_suites_with_other_splits_or_levels_share_one_store(tmp_path):
    """ROAR ranks training images, MoRF does not; a level of its own changes how a ranking is stored."""
    rows = ("random", "grad")
    narrow = replace(SUITE, blocks=(Block(MORF, rows, (0.9,), seeds=1),))
    wide = replace(SUITE, blocks=(Block(ROAR, rows, (0.9,), seeds=1), Block(MORF, rows, (0.2, 0.9), seeds=1)))
    for suite in (narrow, wide, narrow):
        with completed(tmp_path, suite) as (work, runs, _, store):
            results = store.read_results([run.key for run in runs])
            Checksums(store.database, work.workspace).record_or_compare_checksums(
                list(list_needed_artifacts(work, runs, build_job_graph(work, runs))),
                list(read_recorded_checksums(work, results.values())),
            )
            for row in rows:
                found = [result for result in results.values() if result.run.cell.estimator == row]
                assert explain_inconsistency(found, found[0].weights) == ""

"""A suite of seconds: planted images of 8 x 8, a small network, and an engine that works in this process."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from roarbench.common.enums import Order, Split, Unit
from roarbench.common.job_interface import Engine, Job, JobOutcome, perform_job
from roarbench.compute.ranking import find_removed_bits
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import job_graph, ranking_jobs, training_and_scoring
from roarbench.execution.forecast import CORE, assume_rates
from roarbench.execution.job_context import JobContext
from roarbench.execution.rate_measurement import measure_worker_rates
from roarbench.execution.scheduler import FinishedStep, run_steps
from roarbench.plan.cells_and_runs import Run
from roarbench.plan.planned_runs import build_run, list_planned_runs
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MORF, ROAR
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.store.ranking_files import RankingSpec
from roarbench.store.rankings import Rankings
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.run_result import RunResult
from roarbench.store.workspace import Workspace

TRAIN, TEST = 40, 24
RECORD = replace(find_dataset("planted"), train_images=TRAIN, test_images=TEST, size=8)
BLOCKS = (
    Block(ROAR, ("random", "grad", "truth"), (0.5, 0.9), seeds=2),
    *(Block(protocol, ("random", "grad"), (0.9,), seeds=1) for protocol in (KAR, MASK_ONLY, MORF, LERF)),
    Block(ROAR, ("random", "grad"), (0.5,), seeds=1, unit=Unit.PIXEL),
)
SUITE = SuiteSpec("tiny", 1, "", "planted", "resnet-planted", "planted@1", "planted@1", BLOCKS)


def make_work(folder: Path, suite: SuiteSpec = SUITE) -> JobContext:
    """Decoded images and the folders of a store; nothing is trained."""
    workspace = Workspace(folder)
    return JobContext(workspace, decode_dataset(RECORD, workspace.data), suite)


def make_runs(work: JobContext, suite: SuiteSpec = SUITE) -> list[Run]:
    return [build_run(suite, point, work.images.fingerprint, None) for point in list_planned_runs(suite)]


def score(work: JobContext, run: Run) -> RunResult:
    (result,) = training_and_scoring.execute_runs(work, (run,)).results
    return result


def open_rankings_of_run(work: JobContext, run: Run) -> Rankings:
    return work.rankings.open(work.make_ranking_spec_of_run(run))


def make_scalar_spec(work: JobContext, name: str, number: int = 0) -> RankingSpec:
    """What is ranked by this estimator of a reference, scalar by scalar."""
    return work.make_ranking_spec(find_estimator(name), Unit.SCALAR, number)


def open_rankings(work: JobContext, name: str, number: int = 0) -> Rankings:
    return work.rankings.open(make_scalar_spec(work, name, number))


def removed(rankings: Rankings, split: Split, t: float, order: Order = Order.MORF) -> NDArray[np.bool_]:
    """The features of each image that are removed at a level, bool (n, features)."""
    bits = find_removed_bits(rankings.splits[split], t, order, rankings.layout)
    return np.unpackbits(bits, axis=1, count=rankings.layout.features).astype(bool)


def rank_all(work: JobContext, *names: str, number: int = 0) -> None:
    """Rank all images by these estimators of a reference, scalar by scalar, and join the parts."""
    for name in names:
        spec = make_scalar_spec(work, name, number)
        for split, count in ((Split.TRAIN, TRAIN), (Split.TEST, TEST)):
            ranking_jobs.rank_shard(work, [spec], split, 0, count)
        ranking_jobs.join_ranked_ranges(work, spec)


def run_missing(
    work: JobContext,
    runs: list[Run],
    store: ResultsStore,
    engine: Engine,
    show_waiting: Callable[[str], object] = lambda text: None,
) -> Iterator[FinishedStep]:
    """Do the runs without a stored result, and yield the event of each step."""
    done = store.find_done_keys([run.key for run in runs])
    todo = [run for run in runs if run.key not in done]
    return run_steps(work, job_graph.build_job_graph(work, todo).steps, store, engine, show_waiting)


@contextmanager
def completed(folder: Path, suite: SuiteSpec) -> Iterator[tuple[JobContext, list[Run], list[str], ResultsStore]]:
    """A suite done from nothing: its work, runs, the names of its jobs in order, and its results."""
    work, engine = make_work(folder, suite), InlineEngine()
    runs = make_runs(work, suite)
    with ResultsStore.open(make_default_url(folder)) as store:
        assert [event.failure for event in run_missing(work, runs, store, engine) if event.failure] == []
        yield work, runs, engine.done, store


def size_jobs(patch: pytest.MonkeyPatch, explained: int, shard: int) -> None:
    """Explain so many images together, and rank so many in a job."""
    for module in (ranking_jobs, job_graph):
        patch.setattr(module, "IMAGES_PER_PASS", explained)
    patch.setattr(job_graph, "SHARD", shard)


class InlineEngine:
    """Does each job when it is started, but measures nothing, which takes a second; knows what it did."""

    def __init__(self, workers: int = 1, gpus: Sequence[str] = ()) -> None:
        self.done: list[str] = []
        self.gpus = len(gpus)
        self._ended: list[JobOutcome] = []

    def __enter__(self) -> "InlineEngine":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def idle(self) -> int:
        return 0 if self._ended else 1

    def start_job(self, job: Job) -> None:
        self.done.append(job.name)
        if job.call is measure_worker_rates:
            self._ended.append(JobOutcome(job.name, replace(assume_rates(job.arguments[0], CORE), basis=""), None))
        else:
            self._ended.append(JobOutcome(job.name, *perform_job(job)))

    def wait(self, timeout: float) -> list[JobOutcome]:
        ended, self._ended = self._ended, []
        return ended

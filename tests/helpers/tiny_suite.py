"""A suite of seconds: planted images of 8 x 8, a small network, and an engine that works in this process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.loading import decode_dataset
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import shards
from roarbench.execution.context import RunContext
from roarbench.execution.job_graph import steps
from roarbench.execution.jobs import Scored
from roarbench.execution.scheduler import complete
from roarbench.plan.keys import bind
from roarbench.plan.points import expand
from roarbench.plan.recipes import find_recipe
from roarbench.plan.runs import Run
from roarbench.plan.suite import Block, Suite
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.store.layout import Workspace
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Split, Unit
from roarbench.workers.job import Job, JobOutcome, perform

TRAIN, TEST = 40, 24
RECORD = replace(find_dataset("planted"), train_images=TRAIN, test_images=TEST, size=8)
SUITE = Suite(
    name="tiny",
    version=1,
    about="",
    dataset="planted",
    model="resnet-planted",
    recipe="planted@1",
    reference_recipe="planted@1",
    blocks=(
        Block(ROAR, ("random", "grad", "truth"), (0.5, 0.9), seeds=2),
        Block(KAR, ("random", "grad"), (0.9,), seeds=1),
        Block(MASK_ONLY, ("random", "grad"), (0.9,), seeds=1),
        Block(MORF, ("random", "grad"), (0.9,), seeds=1),
        Block(LERF, ("random", "grad"), (0.9,), seeds=1),
        Block(ROAR, ("random", "grad"), (0.5,), seeds=1, unit=Unit.PIXEL),
    ),
)


def make_context(folder: Path, suite: Suite = SUITE) -> RunContext:
    """Decoded images and the folders of a store; nothing is trained."""
    workspace = Workspace(folder)
    return RunContext(workspace, decode_dataset(RECORD, workspace.data).folder, suite)


def make_runs(context: RunContext, suite: Suite = SUITE) -> list[Run]:
    """All runs of a suite on the context's images."""
    return [bind(suite, point, context.data.fingerprint, None) for point in expand(suite)]


def rank_all(context: RunContext, *names: str) -> None:
    """Rank all images by these estimators, scalar by scalar, and join the parts."""
    for name in names:
        spec = context.ranking_spec(find_estimator(name), Unit.SCALAR)
        for split, count in ((Split.TRAIN, TRAIN), (Split.TEST, TEST)):
            shards.rank_shard(context, [spec], split, 0, count)
        shards.seal(context, spec)


def score_all(context: RunContext, runs: list[Run]) -> dict[Run, Scored]:
    """Do all steps in this process, without a results store."""
    made = [(step.run, step.job.call(*step.job.arguments)) for step in steps(context, runs)]
    return {run: value for run, value in made if run}


@contextmanager
def completed(folder: Path, suite: Suite) -> Iterator[tuple[RunContext, list[Run], list[str], ResultsStore]]:
    """A suite done from nothing: its context, runs, the names of its jobs in order, and its results."""
    context, engine = make_context(folder, suite), InlineEngine()
    runs = make_runs(context, suite)
    with ResultsStore.open(default_url(folder)) as store:
        assert [event.failure for event in complete(context, runs, store, engine) if event.failure] == []
        yield context, runs, engine.done, store


class InlineEngine:
    """Does each job when it is submitted; knows what it did."""

    def __init__(self, workers: int = 1, gpus: Sequence[str] = (), logs: Path | None = None) -> None:
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

    def submit(self, job: Job) -> None:
        self.done.append(job.name)
        self._ended.append(JobOutcome(job.name, *perform(job)))

    def wait(self, timeout: float) -> list[JobOutcome]:
        ended, self._ended = self._ended, []
        return ended


LONG = replace(find_recipe("planted@1"), name="long", epochs=64)  # 64 steps of one batch, the 40 images


def long_context(folder):
    return make_context(folder, replace(SUITE, reference_recipe=LONG.title))

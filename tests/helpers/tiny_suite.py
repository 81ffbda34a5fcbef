"""A suite of seconds: planted images of 8 x 8, a small network, and an engine that works in this process."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.loading import decode_dataset
from roarbench.execution.context import RunContext
from roarbench.plan.keys import bind
from roarbench.plan.points import expand
from roarbench.plan.recipes import find_recipe
from roarbench.plan.runs import Run
from roarbench.plan.suite import Block, Suite
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.store.layout import Workspace
from roarbench.terms import Unit
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

"""What `run` and `plan` do, from a suite to finished rows, with words for the one who waits."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console

from roarbench.bench import Bench
from roarbench.console import DecodeWatch, Watch, cost
from roarbench.datasets import find_dataset
from roarbench.datasets.decoded import ImageData
from roarbench.datasets.images import describe_repairs
from roarbench.datasets.loading import decode_dataset
from roarbench.devices import gpus
from roarbench.engines.local import LocalEngine
from roarbench.estimate import Rates, Work, count_work, measure
from roarbench.faithfulness import score_specs
from roarbench.pipeline import complete, steps
from roarbench.plan import Suite, expand
from roarbench.quantus_scores import complete_scores
from roarbench.reports import duration, size
from roarbench.standings import Standing, standing
from roarbench.store.provenance import cores
from roarbench.store.results import ResultsStore
from roarbench.workspace import Workspace, bind, reference_of, stored_levels


@dataclass(frozen=True)
class Plan:
    """What would be done and what it takes.

    Attributes:
        title: The suite.
        runs: Runs in all.
        done: Runs that are stored.
        work: What the missing ones need, counted.
        rates: Measured on this machine.
        workers: Processes that share the work.
    """

    title: str
    runs: int
    done: int
    work: Work
    rates: Rates
    workers: int

    @property
    def seconds(self) -> float:
        """Wall time, if every worker has a core of its own."""
        return self.work.seconds(self.rates) / self.workers

    def record(self) -> dict[str, Any]:
        """As plain values."""
        work = self.work._asdict() | {"core_seconds": self.work.seconds(self.rates)}
        counts = {"runs": self.runs, "done": self.done, "workers": self.workers, "seconds": self.seconds}
        return {"suite": self.title, **counts, "work": work, "rates": self.rates._asdict()}

    def text(self) -> str:
        """For a terminal."""
        if self.done == self.runs:
            return f"{self.title}: all {self.runs} runs are done"
        work, rates = self.work, self.rates
        train, explain = work.images_trained * rates.train, work.images_explained * rates.explain
        rest = work.seconds(rates) - train - explain
        lines = [
            f"{self.title}: {self.runs} runs, {self.done} done, {self.runs - self.done} to do",
            f"  {work.trainings} trainings   {duration(train)} of one core ({work.images_trained:,.0f} images)",
            f"  importance maps  {duration(explain)} of one core ({work.images_explained:,} passes)",
            f"  ranking, scoring {duration(rest)} of one core ({work.images_ranked:,} rankings)",
            f"  together about {duration(self.seconds)} with {self.workers} workers, by a measurement just now",
            f"  disk {size(work.disk)}",
        ]
        return "\n".join(lines)


def make_plan(held: Standing, workers: int) -> Plan:
    """Count what is missing of a suite and measure what it takes."""
    torch.set_num_threads(1)  # as in the workers
    points = expand(held.suite)
    todo = [point for point in points if point not in held.results]
    work = count_work(held.suite, todo, held.results, held.limit)
    return Plan(held.title, len(points), len(held.results), work, measure(held.suite), workers)


def default_workers() -> int:
    """Processes that share the work if nothing else is asked for: one for each GPU, else one for each core."""
    return len(gpus()) or cores()


class Finished(NamedTuple):
    """How a command's runs ended.

    Attributes:
        standing: What the store holds of the suite, on the images that were used.
        failed: Runs that failed.
        bench: Where the images, the reference and the rankings lie.
    """

    standing: Standing
    failed: int
    bench: Bench


def run_suite(
    suite: Suite,
    workspace: Workspace,
    store: ResultsStore,
    data: Path | None,
    limit: int | None,
    workers: int,
    console: Console,
) -> Finished:
    """Do all runs of a suite that are missing."""
    torch.set_num_threads(1)  # this process only measures and writes; the workers have the cores
    decoders = cores() if gpus() else workers  # photographs are decoded by processors
    images = _decode(suite, workspace, data, limit, decoders, console)
    bench = Bench(workspace, images.folder, reference_of(suite, images.fingerprint), stored_levels(suite))
    held = standing(suite, store, images.limit, images.fingerprint)
    if held.complete:
        console.print(f"{held.title}: all {len(held.results)} runs are done")
        return Finished(held, 0, bench)
    plan = make_plan(held, workers)
    console.print(plan.text(), soft_wrap=True)
    todo = [bind(suite, point, held.data, held.limit) for point in expand(suite) if point not in held.results]
    expected = sum(cost(bench, step, plan.rates) for step in steps(bench, todo))
    failed = 0
    with LocalEngine(workers, gpus()) as engine, Watch(console, expected, workers) as watch:
        for event in complete(bench, todo, store, engine):
            watch.note(event, cost(bench, event.step, plan.rates))
            failed += bool(event.failure and event.step.run)
    return Finished(standing(suite, store, held.limit, held.data), failed, bench)


def add_scores(finished: Finished, store: ResultsStore, console: Console) -> Finished:
    """Score the maps of a suite by Quantus, as far as that was not done."""
    held = finished.standing
    start = time.monotonic()
    specs = score_specs(held.suite, held.data)
    for estimator in complete_scores(finished.bench, specs, store.scores):
        console.print(f"Quantus: {estimator} ({duration(time.monotonic() - start)})", soft_wrap=True)
    return finished._replace(standing=standing(held.suite, store, held.limit, held.data))


def _decode(
    suite: Suite, workspace: Workspace, data: Path | None, limit: int | None, workers: int, console: Console
) -> ImageData:
    start = time.monotonic()
    record = find_dataset(suite.dataset)
    with DecodeWatch(console) as watch:
        images = decode_dataset(record, workspace.data, data, limit, workers, watch.note)
    if watch.used and images.repairs:
        console.print(f"{record.name}: {describe_repairs(images.repairs)}", soft_wrap=True)
    lacking = record.classes - len(np.unique(images.train.labels))
    if lacking:
        console.print(
            f"{record.name}: {lacking:,} of {record.classes:,} classes have no training image", soft_wrap=True
        )
    count = len(images.train.labels) + len(images.test.labels)
    seconds = time.monotonic() - start
    console.print(f"{record.name}: {count:,} images in {images.folder} ({seconds:.1f} s)", soft_wrap=True)
    return images

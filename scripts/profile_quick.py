"""Where the core-seconds of `quick` go: one job of each kind is done again, and counted as often as the suite has it.

Beside each part stand two limits of this machine: its multiplications at the speed of a large matrix product, and every
layer's output written and read once, forward and backward, at the speed of a copy.

Run: OMP_NUM_THREADS=1 python scripts/profile_quick.py STORE, where STORE has all of `quick`; nothing is written to it.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from roarbench.estimators import find_estimator
from roarbench.estimators.engine import passes
from roarbench.estimators.noise import noise_draws
from roarbench.execution import jobs
from roarbench.execution.context import RunContext
from roarbench.execution.networks import cuts_of, exchanged, row_rankings
from roarbench.forecast.workload import suite_cost
from roarbench.kernels.train import Inputs, fit
from roarbench.plan.common import common_trainings, tuning_of, tunings
from roarbench.plan.keys import bind
from roarbench.plan.points import expand
from roarbench.plan.recipes import Recipe
from roarbench.plan.runs import Run
from roarbench.plan.suites import find_suite
from roarbench.store.folders import Workspace
from roarbench.terms import Retrain, Split, Unit

SAMPLE, BATCH = 256, 64  # images that are ranked, in batches
COPIES = 15
RANKED = ("random", "random-blurred", "sobel", "sobel-released")


class MeasuredJobs(NamedTuple):
    """One kind of job: how many there are, core-seconds of one, its operations, and its bytes written and read."""

    name: str
    number: float
    seconds: float
    operations: float = 0.0
    moved: float = 0.0


def timed(work: Callable[[], object]) -> float:
    """Return core-seconds of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def product(kind: torch.dtype) -> float:
    """Return operations a second of a large matrix product."""
    a = torch.randn(2048, 2048).to(kind)
    return 2 * 2048**3 / min(timed(lambda: a @ a) for _ in range(5))


def copy() -> float:
    """Return bytes a second of a copy of 256 MB, read and written."""
    a = torch.zeros(2**26)
    b = torch.empty_like(a)
    return 2 * a.nbytes / min(timed(lambda: b.copy_(a)) for _ in range(5))


class FinishedSuite:
    """The jobs of a finished store, by kind."""

    def __init__(self, context: RunContext) -> None:
        self.context, self.recipe = context, context.suite.recipe_record
        self.points = expand(context.suite)
        self.runs = [bind(context.suite, point, context.data.fingerprint, None) for point in self.points]
        self.labels = torch.from_numpy(context.data.train.labels)
        self.images = len(context.data.train.labels) + len(context.data.test.labels)

    def run(self, retrain: Retrain) -> Run:
        """Return a run of VarGrad."""
        return next(run for run in self.runs if run.cell.retrain is retrain and run.cell.estimator == "var-grad")

    def count(self, *retrains: Retrain) -> int:
        """Count the runs of these kinds."""
        return sum(run.cell.retrain in retrains for run in self.runs)

    def fitted(self, inputs: Inputs, recipe: Recipe) -> float:
        """Return core-seconds of a training."""
        model = self.context.network(self.context.suite.model, 5)
        return timed(lambda: fit(model, inputs, self.labels, self.context.norm, recipe, 5))

    def ranked(self, names: Sequence[str]) -> float:
        """Return core-seconds for the maps and rankings of one image, by all references."""
        contexts = [self.context.explaining(number) for number in range(self.context.suite.references)]
        found = {each.ranking_spec(find_estimator(name), Unit.SCALAR) for each in contexts for name in names}
        specs = sorted(found, key=lambda spec: spec.reference)

        def batch(start: int) -> object:
            return list(jobs._rank_batch(self.context, specs, Split.TRAIN, start, start + BATCH))

        batch(0)
        return timed(lambda: [batch(start) for start in range(0, SAMPLE, BATCH)]) / SAMPLE

    def noise(self) -> float:
        """Return core-seconds for the draws of one image's noisy copies, which all references share."""
        _, channels, height, width = self.context.pixels(Split.TRAIN).shape
        images, ids = torch.randn(BATCH, channels, height, width), torch.arange(BATCH)
        images = images.contiguous(memory_format=torch.channels_last)
        return timed(lambda: [noise_draws(images, ids, j, 0) for j in range(COPIES)]) / BATCH

    def scored(self, retrain: Retrain) -> float:
        """Return core-seconds of a scoring."""
        run = self.run(retrain)
        jobs.score(self.context.of(run), run)
        return timed(lambda: [jobs.score(self.context.of(run), run) for _ in range(4)]) / 4

    def parts(self) -> list[MeasuredJobs]:
        """Measure every kind of job once."""
        suite, cost = self.context.suite, suite_cost(self.context.suite)
        rows = sorted({run.cell.ranked_by.id for run in self.runs if run.cell.ranked_by} - set(RANKED))
        looks = passes(find_estimator(name) for name in rows).forward
        tuned, own = self.run(Retrain.COMMON), self.run(Retrain.IMAGES)
        rankings = jobs._rankings(self.context.of(own), own)
        cuts = cuts_of(row_rankings(self.context.of(tuned), tuned), tuned.cell.order)
        exchange = exchanged(self.context, cuts, Unit.SCALAR, 7)
        train, references = len(self.labels), suite.references
        step = 4 * 2 * cost.activations  # every output written and read, forward and backward, in bfloat16
        trained = self.recipe.epochs * self.recipe.area * train
        noise = self.noise()
        return [
            MeasuredJobs(
                "training: references, ROAR, masks",
                references + self.count(Retrain.IMAGES, Retrain.MASKS),
                self.fitted(jobs._inputs(self.context.of(own), own, rankings, Split.TRAIN), self.recipe),
                3 * cost.flops * trained,
                step * trained,
            ),
            MeasuredJobs(
                "training: common networks",
                len(common_trainings(self.points)),
                self.fitted(exchange, self.recipe),
                3 * cost.flops * trained,
                step * trained,
            ),
            MeasuredJobs(
                "tuning of common networks",
                len(tunings(self.points)),
                self.fitted(exchange, tuning_of(self.recipe)),
                3 * cost.flops * train,
                step * train,
            ),
            MeasuredJobs(
                "maps and rankings of five estimators",
                self.images * references,
                (self.ranked(rows) - noise) / references,
                2 * cost.flops * looks,
                step * looks,
            ),
            MeasuredJobs("draws of SmoothGrad's copies", self.images, noise, 0, COPIES * 2 * 4 * 3 * 64 * 64),
            MeasuredJobs("maps and rankings of controls", self.images, self.ranked(RANKED)),
            MeasuredJobs(
                "scoring",
                self.count(*Retrain),
                (self.scored(Retrain.COMMON) + self.scored(Retrain.NONE)) / 2,
                cost.flops * len(self.context.data.test.labels),
                2 * 4 * cost.activations * len(self.context.data.test.labels),
            ),
        ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    workspace, suite = Workspace(parser.parse_args().store), find_suite("quick")
    torch.set_num_threads(1)
    decoded = [
        workspace.data / path.name for path in sorted(workspace.data.glob(f"{suite.dataset}-*")) if path.is_dir()
    ]
    contexts = [RunContext(workspace, folder, suite) for folder in decoded]
    context = max(contexts, key=lambda context: len(context.data.train.labels))
    fast, slow, bytes_a_second = product(torch.bfloat16), product(torch.float32), copy()
    products = f"{fast / 1e12:.2f} (bfloat16) and {slow / 1e12:.2f} TFLOP/s"
    print(f"matrix product {products}, copy {bytes_a_second / 1e9:.0f} GB/s\n")
    print("| part | jobs | core-seconds each | together | arithmetic at least | memory at least |")
    print("|---|---|---|---|---|---|")
    total = 0.0
    for part in FinishedSuite(context).parts():
        arithmetic = part.operations / (slow if part.name == "scoring" else fast)
        each = f"{part.seconds:.2f}" if part.seconds > 0.1 else f"{1000 * part.seconds:.1f} ms"
        limits = f"{part.number * arithmetic:.0f} | {part.number * part.moved / bytes_a_second:.0f}"
        print(f"| {part.name} | {part.number:,.0f} | {each} | {part.number * part.seconds:.0f} | {limits} |")
        total += part.number * part.seconds
    print(f"\ntogether {total:.0f} core-seconds")


if __name__ == "__main__":
    main()

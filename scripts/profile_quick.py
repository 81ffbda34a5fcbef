"""Where a suite's core-seconds go: one job of each kind is done again, and counted as often as the suite has it.

Beside each part stand two limits of this machine: its multiplications at the speed of a large matrix product, and every
layer's output written and read once, forward and backward, at the speed of a copy.

Run: OMP_NUM_THREADS=1 python scripts/profile_quick.py STORE [--suite quick], where STORE has all of that suite, `quick`
or `quick-specific`, which `make run` does; nothing is written to it.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from roarbench.datasets.decoded import open_decoded
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import passes
from roarbench.estimators.noise import noise_draws
from roarbench.execution import jobs, shards
from roarbench.execution.common_networks import cuts_of, exchanged
from roarbench.execution.placed_inputs import untouched
from roarbench.execution.suite_work import SuiteWork
from roarbench.forecast.workload import suite_cost
from roarbench.kernels.inputs import Inputs, Normalisation
from roarbench.kernels.train import fit
from roarbench.plan.common import common_trainings, tuning_of, tunings
from roarbench.plan.keys import bind
from roarbench.plan.points import expand
from roarbench.plan.recipe import Recipe
from roarbench.plan.runs import Run
from roarbench.plan.suites import find_suite
from roarbench.store.layout import Workspace
from roarbench.store.rankings import Rankings
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


def timed(call: Callable[[], object]) -> float:
    """Return core-seconds of a call."""
    start = time.process_time()
    call()
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

    def __init__(self, work: SuiteWork) -> None:
        self.work, self.recipe = work, work.suite.recipe_record
        self.points = expand(work.suite)
        self.runs = [bind(work.suite, point, work.images.fingerprint, None) for point in self.points]
        self.labels = torch.from_numpy(work.images.train.labels)
        self.images = {split: len(work.images[split].labels) for split in Split}

    def run(self, retrain: Retrain) -> Run | None:
        """Return a run of VarGrad, if the suite has such runs."""
        of_kind = (run for run in self.runs if run.cell.retrain is retrain)
        return next((run for run in of_kind if run.cell.estimator == "var-grad"), None)

    def ranked_images(self, names: Sequence[str]) -> int:
        """Count the images that the suite ranks by these estimators, by one reference."""
        spec = self.work.ranking_spec(find_estimator(names[0]), Unit.SCALAR)
        return sum(self.images[split] for split in spec.splits)

    def count(self, *retrains: Retrain) -> int:
        """Count the runs of these kinds."""
        return sum(run.cell.retrain in retrains for run in self.runs)

    def fitted(self, inputs: Inputs, recipe: Recipe) -> float:
        """Return core-seconds of a training."""
        model = self.work.place.network(self.work.suite.model, 5)
        return timed(lambda: fit(model, inputs, self.labels, Normalisation.of(self.work.images), recipe, 5))

    def ranked(self, names: Sequence[str]) -> float:
        """Return core-seconds for the maps and rankings of one image, by all references."""
        numbers, made = range(self.work.suite.references), list(map(find_estimator, names))
        found = {self.work.ranking_spec(estimator, Unit.SCALAR, number) for number in numbers for estimator in made}
        specs = sorted(found, key=lambda spec: spec.reference)

        def batch(start: int) -> object:
            return list(shards._rank_batch(self.work.explained, specs, Split.TRAIN, start, start + BATCH))

        batch(0)
        return timed(lambda: [batch(start) for start in range(0, SAMPLE, BATCH)]) / SAMPLE

    def noise(self) -> float:
        """Return core-seconds for the draws of one image's noisy copies, which all references share."""
        _, channels, height, width = self.work.images.train.pixels.shape
        images, ids = torch.randn(BATCH, channels, height, width), torch.arange(BATCH)
        images = images.contiguous(memory_format=torch.channels_last)
        return timed(lambda: [noise_draws(images, ids, j, 0) for j in range(COPIES)]) / BATCH

    def scored(self, run: Run) -> float:
        """Return core-seconds of a scoring."""
        asked = self.work.scoring(run)
        jobs.score(*asked)
        return timed(lambda: [jobs.score(*asked) for _ in range(4)]) / 4

    def trained_on(self) -> Inputs:
        """Return what most of the trainings from scratch see: degraded images, or untouched ones."""
        if (run := self.run(Retrain.IMAGES)) is None:
            return untouched(self.work.images, Split.TRAIN)
        return jobs._inputs(self.work.images, run, self.rankings(run), Split.TRAIN)

    def rankings(self, run: Run) -> Rankings:
        """Return what a run removes by."""
        spec = self.work.row_spec(run)
        assert spec is not None, "a row of maps"
        return self.work.place.rankings.open(spec)

    def parts(self) -> list[MeasuredJobs]:
        """Measure every kind of job once."""
        suite, cost = self.work.suite, suite_cost(self.work.suite)
        rows = sorted({run.cell.ranked_by.id for run in self.runs if run.cell.ranked_by} - set(RANKED))
        looks = passes(find_estimator(name) for name in rows).forward
        scored = [run for kind in (Retrain.COMMON, Retrain.NONE) if (run := self.run(kind)) is not None]
        tuned, masks = scored[0], suite.tuned_on
        cuts = cuts_of(self.rankings(tuned), tuned.cell.order, masks)
        exchange = exchanged(self.work.images, cuts, Unit.SCALAR, 7, masks)
        train, references = len(self.labels), suite.references
        step = 4 * 2 * cost.activations  # every output written and read, forward and backward, in bfloat16
        trained = self.recipe.epochs * self.recipe.area * train
        noise, explained = self.noise(), self.ranked_images(rows)
        return [
            MeasuredJobs(
                "training: references, ROAR, masks" if self.run(Retrain.IMAGES) else "training: references",
                references + self.count(Retrain.IMAGES, Retrain.MASKS),
                self.fitted(self.trained_on(), self.recipe),
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
                explained * references,
                (self.ranked(rows) - noise) / references,
                2 * cost.flops * looks,
                step * looks,
            ),
            MeasuredJobs("draws of SmoothGrad's copies", explained, noise, 0, COPIES * 2 * 4 * 3 * 64 * 64),
            MeasuredJobs("maps and rankings of controls", self.ranked_images(RANKED), self.ranked(RANKED)),
            MeasuredJobs(
                "scoring",
                self.count(*Retrain),
                sum(self.scored(run) for run in scored) / len(scored),
                cost.flops * len(self.work.images.test.labels),
                2 * 4 * cost.activations * len(self.work.images.test.labels),
            ),
        ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--suite", default="quick")
    asked = parser.parse_args()
    workspace, suite = Workspace(asked.store), find_suite(asked.suite)
    torch.set_num_threads(1)
    decoded = [
        workspace.data / path.name for path in sorted(workspace.data.glob(f"{suite.dataset}-*")) if path.is_dir()
    ]
    images = max(map(open_decoded, decoded), key=lambda images: len(images.train.labels))
    fast, slow, bytes_a_second = product(torch.bfloat16), product(torch.float32), copy()
    products = f"{fast / 1e12:.2f} (bfloat16) and {slow / 1e12:.2f} TFLOP/s"
    print(f"matrix product {products}, copy {bytes_a_second / 1e9:.0f} GB/s\n")
    print("| part | jobs | core-seconds each | together | arithmetic at least | memory at least |")
    print("|---|---|---|---|---|---|")
    total = 0.0
    for part in FinishedSuite(SuiteWork(workspace, images, suite)).parts():
        arithmetic = part.operations / (slow if part.name == "scoring" else fast)
        each = f"{part.seconds:.2f}" if part.seconds > 0.1 else f"{1000 * part.seconds:.1f} ms"
        limits = f"{part.number * arithmetic:.0f} | {part.number * part.moved / bytes_a_second:.0f}"
        print(f"| {part.name} | {part.number:,.0f} | {each} | {part.number * part.seconds:.0f} | {limits} |")
        total += part.number * part.seconds
    print(f"\ntogether {total:.0f} core-seconds")


if __name__ == "__main__":
    main()

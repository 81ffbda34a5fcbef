"""Stores of made-up results whose true accuracies are known, without a network."""

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.datasets.catalogue import PINNED_FINGERPRINTS
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.planned_runs import PlannedRun, build_run, list_clean_runs_of_explained_networks, list_planned_runs
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MORF, ROAR
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.store.run_result import Provenance, RunResult, pack_correctness

DATA = PINNED_FINGERPRINTS["planted"]  # so that titles need not say whose the images are
IMAGES = 2000
LEVELS = (0.3, 0.9)
MAIN = ("random", "sobel", "grad", "var-grad")
TWINS = ("random-blurred", "random-redrawn", *(f"grad~{kind}" for kind in ("blurred", "untrained", "other-target")))
BLOCKS = (
    Block(ROAR, MAIN, LEVELS, seeds=3),
    Block(KAR, MAIN, (0.5, 0.9), seeds=1),
    Block(MORF, MAIN, LEVELS, seeds=1),
    Block(LERF, MAIN, LEVELS, seeds=1),
    Block(MASK_ONLY, MAIN, LEVELS, seeds=2),
    Block(ROAR, TWINS, LEVELS, seeds=1),
    Block(ROAR, MAIN, LEVELS, seeds=1, unit=Unit.PIXEL),
)
SUITE = SuiteSpec("made-up", 1, "", "planted", "resnet-planted", "planted@1", "planted@1", BLOCKS)  # of four classes
SHARED = np.random.default_rng(0).normal(size=IMAGES)  # what makes an image hard for every network

Accuracy = Callable[[Cell], float]


def choose_accuracy(cell: Cell) -> float:
    """True accuracies: grad is worse than Random, var-grad and the blurred grad are better, masks say nothing."""
    if cell.estimator == CLEAN:
        return 0.9
    if cell.retrain is ScoredNetwork.MASKS:
        return 0.25
    steep = {"grad": -0.1, "var-grad": 0.2, "grad~blurred": 0.1, "grad~untrained": -0.3, "sobel": 0.1}
    falls = 0.4 + steep.get(cell.estimator, 0.0) * (1 if cell.order is Order.MORF else -1)
    return 0.9 - cell.t * falls


def make_rng_of_run(point: PlannedRun) -> np.random.Generator:
    """The chance of one run: the same at every call, also when a class of its record gets another name."""
    text = repr(point).replace("PlannedRun", "Point").replace("ScoredNetwork", "Retrain")
    return np.random.default_rng(zlib.crc32(text.encode()))


def answers(point: PlannedRun, accuracy: float) -> np.ndarray:
    """Bits of a training with this true accuracy, up to its own luck of half a point."""
    own = make_rng_of_run(point)
    hidden = np.sqrt(0.7) * SHARED + np.sqrt(0.3) * own.normal(size=IMAGES)
    return ndtr(hidden) < accuracy + 0.005 * own.normal()


def result(suite: SuiteSpec, point: PlannedRun, bits: np.ndarray, smoothness: float | None = None) -> RunResult:
    run = build_run(suite, point, DATA, None)
    origin = Provenance("0", {}, {})
    return RunResult(run, int(bits.sum()), IMAGES, pack_correctness(bits), 1.0, origin, smoothness=smoothness)


def make_suite_results(suite: SuiteSpec = SUITE, accuracy: Accuracy = choose_accuracy) -> SuiteResults:
    bits = {point: answers(point, accuracy(point.cell)) for point in list_planned_runs(suite)}
    results = {point: result(suite, point, bits[point]) for point in bits}
    untouched = enumerate(list_clean_runs_of_explained_networks(suite))
    scored = {number: results[point] for number, point in untouched if point in results}
    return SuiteResults(suite, DATA, None, results, references=scored)


def make_leaky_accuracy(alone: float, images: float = 0.6) -> Accuracy:
    """var-grad's masks reach `alone` at t = .9 and a chance of .25 below; its images reach `images` at t = .9."""

    def accuracy(cell: Cell) -> float:
        if (cell.estimator, cell.t) != ("var-grad", 0.9) or cell.retrain is ScoredNetwork.NONE:
            return choose_accuracy(cell)
        return alone if cell.retrain is ScoredNetwork.MASKS else images

    return accuracy


def limit_to_one_seed(suite: SuiteSpec) -> SuiteSpec:
    return replace(suite, blocks=tuple(replace(block, seeds=1) for block in suite.blocks))

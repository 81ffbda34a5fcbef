"""Made-up results with known true accuracies or handwritten gains, without a network, and tables of results."""

import csv
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import numpy as np
from rich.console import Console, RenderableType
from scipy.special import ndtr

from roarbench.analysis.suite_judges import Grade
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.datasets.catalogue import PINNED_FINGERPRINTS
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.planned_runs import PlannedRun, build_run, list_clean_runs_of_explained_networks, list_planned_runs
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MORF, OWN_NETWORK, ROAR
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.report.combined_table import CombinedTable
from roarbench.report.doubts import Doubt, Kind, Shown
from roarbench.report.table import SuiteTable, make_suite_table
from roarbench.stats.board_records import Board, IntervalScope, Row
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest, OwnNetworkVerdict
from roarbench.stats.verdicts import Comparison, Verdict
from roarbench.store.run_result import Provenance, RunResult, pack_correctness
from tests.helpers.shown_tables import format_text, render

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


def _table(protocol, levels, *rows):
    nothing = (Estimate(),) * len(levels)
    rows = tuple(replace(row, accuracies=nothing, differences=row.differences or nothing) for row in rows)
    board = Board(protocol, levels, rows, 100, IntervalScope.REFERENCES)
    doubt = Doubt("sobel", "masks alone", "Its mask alone has it.", Grade.STRONG, kind=Kind(shown=Shown.GAIN))
    doubts = (doubt,) if protocol == ROAR else ()
    return SuiteTable(SuiteResults(SUITE, DATA, None, {}), board, Unit.SCALAR, doubts)


def _row(name, gain, **found):
    return Row(name, 3, Estimate(), (), (), Estimate(*gain), None, **found)


def _roar(name, gain=(), verdict=None):
    return _row(name, gain, against={"random": Comparison(verdict, 0.01, 0.01)} if verdict else {})


def make_own_row(name, gain, verdict, *points):
    """Build a row from its gain and its gains in points at each level."""
    by_level = tuple(Estimate(-gain_there / 100) for gain_there in points)
    return replace(_row(name, gain, network=OwnNetworkTest(verdict)), differences=by_level)


def make_table_of_both_gains():
    """`ig` was not retrained for, and `gb` lacks results under ROAR."""
    zero = OwnNetworkVerdict.BY_CONSTRUCTION
    return CombinedTable(
        _table(
            ROAR,
            (0.9,),
            _roar("random", (0.0,)),
            _roar("sobel", (5.0, 4.0, 6.0), Verdict.SAME),
            _roar("random-blurred", (10.7, 9.3, 12.1), Verdict.BETTER),
            _roar("grad", (-4.5, -5.7, -3.2), Verdict.WORSE),
            _roar("gb"),
        ),
        _table(
            OWN_NETWORK,
            (0.05, 0.5),
            *(make_own_row(name, (0.0,), zero, 0.0, 0.0) for name in ("random", "sobel", "random-blurred")),
            make_own_row("gb", (-2.0, -3.0, -1.0), OwnNetworkVerdict.OPPOSES),
            make_own_row("grad", (3.1, -0.1, 6.3), OwnNetworkVerdict.OPEN, 8.6, -2.4),
            make_own_row("ig", (1.0, 0.5, 1.5), OwnNetworkVerdict.EXPLAINS, 0.5, 1.5),
        ),
    )


def make_table(results: SuiteResults, protocol: str = "roar", rows: list[str] | None = None) -> SuiteTable:
    return make_suite_table(results, protocol, None, rows)


def render_text(shown: RenderableType, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width, highlight=False, markup=False)
    console.print(shown, crop=False)
    return console.file.getvalue()


def render_words(table: SuiteTable, width: int = 200) -> str:
    """All that a table says on a terminal of this width, with its notes, in one line."""
    return " ".join(render_text(format_text(table, width, notes=True), width).split())


def parse_rows(table: SuiteTable, style: str = "json") -> dict[str, dict]:
    """The rows of a table as JSON or CSV, by estimator."""
    text = render(table, style)
    rows = json.loads(text)["rows"] if style == "json" else csv.DictReader(StringIO(text))
    return {row["estimator"]: row for row in rows}

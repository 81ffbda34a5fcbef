"""Simulate tables with known true gains, and write how often intervals, verdicts and ranks are right to README.md.

Run with `python -m studies.coverage.run --tables 400`. A prediction is correct if a hidden normal number is above a
threshold; the hidden number has parts for the image, for image and cell, for the explained network, and for the
training run. Rows that equal Random stand beside controls that differ from it.
"""

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from roarbench.common.enums import Order
from roarbench.plan.protocols import ROAR
from roarbench.stats.board_records import RANDOM
from roarbench.stats.compute_board import Judge
from roarbench.stats.correctness_and_gain import POINTS, UNTOUCHED, Correctness, compute_trapezoid_weights
from roarbench.stats.intervals import estimate_all, estimate_shares
from roarbench.stats.own_network_gain import OwnNetworkVerdict, compute_own_network_gains, judge_own_network_gains
from roarbench.stats.rank_intervals import Pairs, compute_rank_intervals
from roarbench.stats.variance_components import estimate_variance_components
from roarbench.stats.verdicts import Verdict
from studies.page import write_tables

_CONTROLS = {RANDOM: 0.0, "sobel": 5.5, "random-blurred": 11.0}  # true gains in points, about those of `quick`
_SHARED, _OWN, _OF_NETWORK = 0.6, 0.25, 0.05  # variances of the hidden number; the rest is noise of a training run
NULL, SPREAD = "null", "differ"  # all rows equal Random; rows differ by -6 to 6 points


@dataclass(frozen=True)
class Design:
    """Settings of simulated tables; standard deviations are in points of a row's gain."""

    name: str
    networks: int
    trainings: int = 1
    rows: int = 19
    images: int = 1000
    levels: tuple[float, ...] = (0.9,)
    of_network: float = 2.0  # of a row's gain between explained networks; half of the variance is shared by all rows
    of_training: float = 0.7  # of a cell's accuracy between training runs
    tails: float = 0.0  # degrees of freedom of the networks' effects; 0 means normal
    accuracy: float = 0.6  # Random's at the levels
    unusual: float = 1.0  # spread of the first row between networks, as a multiple of the others'


DESIGNS = (
    Design("`quick`: 3 networks", 3, rows=10),
    Design("3 networks", 3),
    Design("5 networks", 5),
    Design("8 networks", 8),
    Design("3 networks x 2 trainings", 3, trainings=2),
    Design("2 networks x 5 trainings", 2, trainings=5),
    Design("`benchmark-*`: 3 networks, 3 levels", 3, levels=(0.1, 0.5, 0.9), images=2000),
    Design("3 networks, effects t3", 3, tails=3.0),
    Design("5 networks, effects t3", 5, tails=3.0),
    Design("3 networks, accuracy 97 %", 3, accuracy=0.97, of_network=0.5, of_training=0.1),
    Design("3 networks, accuracy 4 %, 200 images", 3, accuracy=0.04, images=200, of_network=0.3, of_training=0.1),
    Design("3 networks, one row varies 4 times as much", 3, unusual=4.0),
    Design("5 networks, one row varies 4 times as much", 5, unusual=4.0),
    Design("3 networks that hardly differ", 3, of_network=0.2),
)


def list_true_gains(design: Design, kind: str) -> dict[str, float]:
    """Return the true gain of every row at each level, in points of accuracy at t = 1."""
    gains = np.linspace(-6, 6, design.rows) if kind == SPREAD else np.zeros(design.rows)
    scale = 0.15 if min(design.accuracy, 1 - design.accuracy) < 0.1 else 1.0
    controls = {name: scale * gain for name, gain in _CONTROLS.items()}
    return {**controls, **{f"row-{number}": scale * float(gain) for number, gain in enumerate(gains)}}


def simulate_table(design: Design, kind: str, chance: np.random.Generator) -> tuple[Correctness, dict[str, float]]:
    """Draw the correctness of a table's predictions, and return them with the true gains in points."""
    gains, runs = list_true_gains(design, kind), design.networks * design.trainings
    explains = np.arange(runs) % design.networks
    names = tuple(f"network {number}" for number in explains)
    shared = np.sqrt(_SHARED) * chance.standard_normal(design.images)
    unit = float(compute_trapezoid_weights((0.0, *design.levels))[1:] @ np.array(design.levels))
    rest = np.sqrt(1 - _SHARED - _OWN - _OF_NETWORK)

    def draw_effects(count: int) -> NDArray[np.float64]:
        if not design.tails:
            return np.asarray(chance.standard_normal(count))
        return np.asarray(chance.standard_t(design.tails, count) / np.sqrt(design.tails / (design.tails - 2)))

    common = draw_effects(design.networks)
    clean = shared + np.sqrt(1 - _SHARED) * chance.standard_normal((runs, design.images))
    correct = {UNTOUCHED: clean < norm.ppf(0.85)}
    for name, gain in gains.items():
        explained = name not in _CONTROLS
        spread = design.of_network * (design.unusual if name == "row-0" else 1.0) * explained
        effect = spread * np.sqrt(0.5) * (common + draw_effects(design.networks))
        for t in design.levels:
            own = shared + np.sqrt(_OWN) * chance.standard_normal(design.images)
            # accuracy falls by gain and effects in proportion to t; both are the row's over all levels
            fall = (gain + effect[explains]) * t / unit + design.of_training * chance.standard_normal(runs)
            limits = norm.ppf(np.clip(design.accuracy - fall / POINTS, 1e-4, 1 - 1e-4))[:, None]
            of_network = chance.standard_normal((design.networks if explained else runs, design.images))
            hidden = own + np.sqrt(_OF_NETWORK) * of_network[explains if explained else slice(None)]
            correct[name, t] = hidden + rest * chance.standard_normal((runs, design.images)) < limits
    references = {(name, t): names for name in gains if name not in _CONTROLS for t in design.levels}
    rows = Correctness(tuple(gains), design.levels, correct, references=references)
    return replace(rows, model_free_controls=frozenset(_CONTROLS)), gains


def measure_table(design: Design, kind: str, chance: np.random.Generator) -> dict[str, float]:
    """Return the shares of right intervals, verdicts and ranks of one simulated table."""
    scores, true = simulate_table(design, kind, chance)
    judge = Judge.from_scores(scores, ROAR, estimate_variance_components([scores]))
    rows = [name for name in true if name not in _CONTROLS]
    gains = estimate_all({name: judge.areas[name] for name in rows})
    differences = estimate_all({pair: judge.areas[pair[0]].subtract(judge.areas[pair[1]]) for pair in pairwise(rows)})
    untouched = estimate_shares({UNTOUCHED: judge.cells[UNTOUCHED]})[UNTOUCHED]
    assert untouched.low is not None and untouched.high is not None

    def is_inside(estimate: tuple[float | None, float | None, float | None], value: float) -> bool:
        return estimate[1] is not None and estimate[2] is not None and estimate[1] <= value <= estimate[2]

    verdicts = {pair: comparison.verdict for pair, comparison in judge.comparisons.items()}
    wrong = {
        pair: verdict is not Verdict.SAME
        and not (abs(d := true[pair[0]] - true[pair[1]]) > 1e-9 and (d > 0) == (verdict is Verdict.BETTER))
        for pair, verdict in verdicts.items()
    }
    of_random = [wrong[name, RANDOM] for name in rows]
    called = [pair for pair in verdicts if pair[1] == RANDOM and pair[0] in rows and verdicts[pair] is not Verdict.SAME]
    ranks = judge.rank_intervals
    return {
        "gains": float(np.mean([is_inside(gains[name], true[name]) for name in rows])),
        "first row": float(is_inside(gains[rows[0]], true[rows[0]])),
        "differences": float(np.mean([is_inside(differences[a, b], true[a] - true[b]) for a, b in pairwise(rows)])),
        "accuracy": float(is_inside(untouched, 0.85)),
        "false per row": float(np.mean(of_random)),
        "false per column": float(any(of_random)),
        "false discoveries": float(np.mean([wrong[pair] for pair in called])) if called else 0.0,
        "false per table": float(any(wrong.values())),
        "all ranks": float(all(_is_rank_inside(true, name, ranks[name]) for name in true)),
        "width": float(np.mean([(gains[name].high or 0) - (gains[name].low or 0) for name in rows])) / 2,
        "found": len(called) / len(rows),
    }


def _is_rank_inside(true: dict[str, float], name: str, rank: object) -> bool:
    best = 1 + sum(other > true[name] + 1e-9 for other in true.values())
    worst = sum(other > true[name] - 1e-9 for other in true.values())
    return bool(rank.low <= best and worst <= rank.high)  # type: ignore[attr-defined]


def measure_own_network_table(
    networks: int, images: int, spread: float, chance: np.random.Generator
) -> dict[str, float]:
    """Return false verdicts of own-network gain in a table of ten rows without information about their network.

    `spread` is the standard deviation of each network's effect on each row's masks, relative to that of images.
    """
    rows, kept = 10, (0.8, 0.3)
    limits = norm.ppf(kept)[:, None]
    shared = np.sqrt(0.5) * chance.normal(size=images)
    shape = (networks, networks, len(kept), images)
    unchanged = {}
    for row in range(rows):
        effects = spread * chance.normal(size=(networks, networks, 1, 1))
        unchanged[f"row-{row}"] = shared + effects + np.sqrt(0.5) * chance.normal(size=shape) < limits
    gains = {name: gain.gain for name, gain in compute_own_network_gains(unchanged, Order.MORF).items()}
    verdicts = [verdict is not OwnNetworkVerdict.OPEN for verdict in judge_own_network_gains(gains).values()]
    ranks = compute_rank_intervals(Pairs.from_contrasts(list(gains.values())))
    inside = [abs(e.value or 0) <= (e.high or 0) - (e.value or 0) for e in estimate_all(gains).values()]
    return {
        "gains": float(np.mean(inside)),
        "false per row": float(np.mean(verdicts)),
        "false per column": float(any(verdicts)),
        "all ranks": float(all(rank.low == 1 and rank.high == rows for rank in ranks)),
    }


def _average(tables: list[dict[str, float]]) -> dict[str, str]:
    columns = defaultdict(list)
    for table in tables:
        for name, value in table.items():
            columns[name].append(value)
    cells = {}
    for name, values in columns.items():
        mean, error = float(np.mean(values)), float(np.std(values) / np.sqrt(len(values)))
        cells[name] = f"{mean:.2f}" if name == "width" else f"{100 * mean:.1f} ± {100 * error:.1f}"
    return cells


def _format_table(rows: dict[str, dict[str, str]]) -> str:
    headings = ["simulated tables", *next(iter(rows.values()))]
    lines = [headings, ["---"] * len(headings), *([name, *cells.values()] for name, cells in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Simulate all designs, and write the tables into the study's page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=400)
    count = parser.parse_args().tables
    page = Path(__file__).with_name("README.md")
    for kind in (NULL, SPREAD):
        rows = {}
        for number, design in enumerate(DESIGNS):
            chance = [np.random.default_rng([1, number, table]) for table in range(count)]
            rows[design.name] = _average([measure_table(design, kind, own) for own in chance])
            print(kind, design.name, rows[design.name], file=sys.stderr, flush=True)
        write_tables(page, {f"coverage, {kind}": _format_table(rows)})
    own = {}
    for networks in (3, 5, 8):
        for images, spread in ((300, 0.0), (300, 0.2), (1000, 0.2)):
            chance = [np.random.default_rng([2, networks, images, table]) for table in range(count)]
            tables = [measure_own_network_table(networks, images, spread, one) for one in chance]
            own[f"{networks} networks, {images} images, effects of networks {spread:g}"] = _average(tables)
            print(own, file=sys.stderr, flush=True)
    write_tables(page, {"coverage, own-network": _format_table(own)})


if __name__ == "__main__":
    main()

"""Simulate tables with known true gains, and count how often their intervals, verdicts and ranks are right.

A prediction is correct if a hidden normal number is above a threshold; the hidden number has parts for the image, for
image and cell, for the explained network, and for the training run. Nothing here depends on a version of the
statistics: `run.py` judges the tables with this source's, and `before.py` with those that the formula replaced.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from roarbench.stats.board_records import RANDOM
from roarbench.stats.correctness_and_gain import POINTS, UNTOUCHED, Correctness, compute_trapezoid_weights

Counts = dict[str, float]  # shares of right and wrong statements of one simulated table, by column
Results = dict[str, dict[str, str]]  # means of counts as cells of a table, by design and column

CONTROLS = {RANDOM: 0.0, "sobel": 5.5, "random-blurred": 11.0}  # true gains in points, about those of `quick`
CLEAN_ACCURACY = 0.85
NULL, SPREAD = "null", "differ"  # all rows equal Random; rows differ by -6 to 6 points
_SHARED, _OWN, _OF_NETWORK = 0.6, 0.25, 0.05  # variances of the hidden number; the rest is noise of a training run
_KEPT = (0.8, 0.3)  # shares of predictions that removal leaves unchanged, by level of own-network gain


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
    # degrees of freedom with which rows' variances between networks differ, as 1 / chi-squared; 0 means equal variances
    prior: float = 0.0


_THREE = (0.1, 0.5, 0.9)
_SKEWED = Design("3 networks, accuracy 97 %", 3, accuracy=0.97, of_network=0.5, of_training=0.1)
DESIGNS = (
    Design("`quick`: 3 networks, 3 rows", 3, rows=3),
    Design("`benchmark-*`: 3 networks, 3 levels", 3, levels=_THREE),
    Design("`benchmark-digits`: 5 networks x 2 trainings, 7 rows", 5, trainings=2, rows=7, images=898, levels=_THREE),
    Design("1 row, 3 networks", 3, rows=1),
    Design("3 networks", 3),
    Design("5 networks", 5),
    Design("8 networks", 8),
    Design("3 networks x 2 trainings", 3, trainings=2),
    Design("3 networks x 5 trainings", 3, trainings=5),
    Design("2 networks x 5 trainings", 2, trainings=5),
    Design("3 networks, effects t3", 3, tails=3.0),
    Design("5 networks, effects t3", 5, tails=3.0),
    Design("8 networks, effects t3", 8, tails=3.0),
    _SKEWED,
    replace(_SKEWED, name="5 networks, accuracy 97 %", networks=5),
    Design("3 networks, accuracy 4 %, 200 images", 3, accuracy=0.04, images=200, of_network=0.3, of_training=0.1),
    Design("3 networks, rows' variances differ", 3, prior=5.0),
    Design("5 networks, rows' variances differ", 5, prior=5.0),
    Design("3 networks, one row varies 4 times as much", 3, unusual=4.0),
    Design("5 networks, one row varies 4 times as much", 5, unusual=4.0),
    Design("8 networks, one row varies 4 times as much", 8, unusual=4.0),
    Design("3 networks that hardly differ", 3, of_network=0.2),
    replace(_SKEWED, name="8 networks, accuracy 97 %", networks=8),
)


class OwnNetworkDesign(NamedTuple):
    """Settings of simulated tables of own-network gain; `spread` is relative to the deviation of images."""

    networks: int
    rows: int
    images: int
    spread: float  # standard deviation of the effect of each pair of map and network
    prior: float = 0.0  # as in `Design`
    unusual: float = 1.0  # as in `Design`

    @property
    def name(self) -> str:
        """Return the first cell of the design's line."""
        name = f"{self.networks} networks, {self.rows} rows, {self.images} images, effects of networks {self.spread:g}"
        name += ", rows' variances differ" * bool(self.prior)
        return name + f", one row varies {self.unusual:g} times as much" * (self.unusual != 1)


OWN_NETWORK_DESIGNS = tuple(
    OwnNetworkDesign(networks, *settings)
    for networks in (3, 5, 8)
    for settings in ((10, 300, 0.0), (10, 300, 0.2), (10, 1000, 0.2), (32, 300, 0.2), (32, 300, 0.2, 5.0))
) + tuple(OwnNetworkDesign(networks, 10, 300, 0.2, unusual=4.0) for networks in (3, 5, 8))


def list_true_gains(design: Design, kind: str) -> dict[str, float]:
    """Return the true gain of every row at each level, in points of accuracy at t = 1."""
    gains = np.linspace(-6, 6, design.rows) if kind == SPREAD and design.rows > 1 else np.zeros(design.rows)
    scale = 0.15 if min(design.accuracy, 1 - design.accuracy) < 0.1 else 1.0
    controls = {name: scale * gain for name, gain in CONTROLS.items()}
    return {**controls, **{f"row-{number}": scale * float(gain) for number, gain in enumerate(gains)}}


def _draw_scales(rows: int, prior: float, unusual: float, chance: np.random.Generator) -> list[float]:
    """Draw each row's standard deviation between networks, as a multiple of the design's."""
    scales = np.sqrt(prior / chance.chisquare(prior, rows)) if prior else np.ones(rows)
    return [unusual if row == 0 and unusual != 1 else float(scale) for row, scale in enumerate(scales)]


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
    scales = dict.fromkeys(CONTROLS, 0.0)
    own_scales = _draw_scales(design.rows, design.prior, design.unusual, chance)
    scales |= {f"row-{row}": scale for row, scale in enumerate(own_scales)}
    clean = shared + np.sqrt(1 - _SHARED) * chance.standard_normal((runs, design.images))
    correct = {UNTOUCHED: clean < norm.ppf(CLEAN_ACCURACY)}
    for name, gain in gains.items():
        explained = name not in CONTROLS
        effect = design.of_network * scales[name] * np.sqrt(0.5) * (common + draw_effects(design.networks))
        for t in design.levels:
            own = shared + np.sqrt(_OWN) * chance.standard_normal(design.images)
            # accuracy falls by gain and effects in proportion to t; both are the row's over all levels
            fall = (gain + effect[explains]) * t / unit + design.of_training * chance.standard_normal(runs)
            limits = norm.ppf(np.clip(design.accuracy - fall / POINTS, 1e-4, 1 - 1e-4))[:, None]
            of_network = chance.standard_normal((design.networks if explained else runs, design.images))
            hidden = own + np.sqrt(_OF_NETWORK) * of_network[explains if explained else slice(None)]
            correct[name, t] = hidden + rest * chance.standard_normal((runs, design.images)) < limits
    references = {(name, t): names for name in gains if name not in CONTROLS for t in design.levels}
    rows = Correctness(tuple(gains), design.levels, correct, references=references)
    return replace(rows, model_free_controls=frozenset(CONTROLS)), gains


def simulate_unchanged(design: OwnNetworkDesign, chance: np.random.Generator) -> dict[str, NDArray[np.bool_]]:
    """Draw which predictions stay the same, (maps, networks, levels, images) by row; maps have no information."""
    limits = norm.ppf(_KEPT)[:, None]
    shared = np.sqrt(0.5) * chance.normal(size=design.images)
    pairs, unchanged = (design.networks, design.networks), {}
    for row, scale in enumerate(_draw_scales(design.rows, design.prior, design.unusual, chance)):
        effects = scale * design.spread * chance.normal(size=(*pairs, 1, 1))
        noise = np.sqrt(0.5) * chance.normal(size=(*pairs, len(_KEPT), design.images))
        unchanged[f"row-{row}"] = shared + effects + noise < limits
    return unchanged


class Interval(NamedTuple):
    """An interval of a number, or of a rank."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Return whether the interval contains a value."""
        return self.low <= value <= self.high


class Judged(NamedTuple):
    """The statistics of one simulated table of ROAR."""

    gains: Mapping[str, Interval]  # of the rows that are no controls, in points
    differences: Mapping[tuple[str, str], Interval]  # of neighbouring rows, in points
    accuracy: Interval  # on untouched images
    verdicts: Mapping[tuple[str, str], str]  # by row and control: better, worse, or another word
    ranks: Mapping[str, Interval]


def count_right(judged: Judged, true: Mapping[str, float]) -> Counts:
    """Return the shares of right intervals, verdicts and ranks of one simulated table; `true` has the true gains."""
    wrong = {pair: _is_wrong(verdict, true[pair[0]] - true[pair[1]]) for pair, verdict in judged.verdicts.items()}
    of_random = [wrong[name, RANDOM] for name in judged.gains]
    called = [name for name in judged.gains if judged.verdicts[name, RANDOM] in ("better", "worse")]
    differences = [interval.holds(true[a] - true[b]) for (a, b), interval in judged.differences.items()]
    return {
        "gains": float(np.mean([interval.holds(true[name]) for name, interval in judged.gains.items()])),
        "first row": float(judged.gains["row-0"].holds(true["row-0"])),
        "differences": float(np.mean(differences)) if differences else np.nan,
        "accuracy": float(judged.accuracy.holds(CLEAN_ACCURACY)),
        "false per row": float(np.mean(of_random)),
        "false per column": float(any(of_random)),
        "false discoveries": float(np.mean([wrong[name, RANDOM] for name in called])) if called else 0.0,
        "false per table": float(any(wrong.values())),
        "all ranks": float(all(_is_rank_inside(true, name, rank) for name, rank in judged.ranks.items())),
        "width": float(np.mean([interval.high - interval.low for interval in judged.gains.values()])) / 2,
        "found": len(called) / len(judged.gains),
    }


def _is_wrong(verdict: str, difference: float) -> bool:
    if verdict not in ("better", "worse"):
        return False
    return abs(difference) <= 1e-9 or (difference > 0) != (verdict == "better")


def _is_rank_inside(true: Mapping[str, float], name: str, rank: Interval) -> bool:
    best = 1 + sum(other > true[name] + 1e-9 for other in true.values())
    worst = sum(other > true[name] - 1e-9 for other in true.values())
    return rank.low <= best and worst <= rank.high


def count_right_own_network(gains: Sequence[Interval], verdicts: Sequence[bool], ranks: Sequence[Interval]) -> Counts:
    """Return the shares of right intervals, verdicts and ranks of a table whose true gains are 0."""
    return {
        "gains": float(np.mean([gain.holds(0.0) for gain in gains])),
        "false per row": float(np.mean(verdicts)),
        "false per column": float(any(verdicts)),
        "all ranks": float(all(rank.low <= 1 and rank.high >= len(ranks) for rank in ranks)),
        "rank width": float(np.mean([rank.high - rank.low + 1 for rank in ranks])) / len(ranks),
    }


def simulate_all(
    tables: int,
    judge: Callable[[Correctness], Judged],
    judge_own_network: Callable[[dict[str, NDArray[np.bool_]]], Counts],
) -> dict[str, Results]:
    """Simulate all designs, and return the results by kind; a table's seed depends on its design and number."""
    found = dict[str, Results]()
    for kind in (NULL, SPREAD):
        rows = found[kind] = {}
        for number, design in enumerate(DESIGNS):
            drawn = (simulate_table(design, kind, np.random.default_rng([1, number, table])) for table in range(tables))
            rows[design.name] = _average([count_right(judge(scores), true) for scores, true in drawn])
            print(kind, design.name, rows[design.name], file=sys.stderr, flush=True)
    rows = found["own-network"] = {}
    for number, own in enumerate(OWN_NETWORK_DESIGNS):
        chances = (np.random.default_rng([2, number, table]) for table in range(tables))
        rows[own.name] = _average([judge_own_network(simulate_unchanged(own, chance)) for chance in chances])
        print(own.name, rows[own.name], file=sys.stderr, flush=True)
    return found


def _average(tables: list[Counts]) -> dict[str, str]:
    columns = defaultdict(list)
    for table in tables:
        for name, value in table.items():
            columns[name].append(value)
    cells = {}
    for name, values in columns.items():
        mean, error = float(np.mean(values)), float(np.std(values) / np.sqrt(len(values)))
        cells[name] = f"{mean:.2f}" if name == "width" else f"{100 * mean:.1f} ± {100 * error:.1f}"
    return {name: "" if np.isnan(columns[name][0]) else cell for name, cell in cells.items()}

"""Do the intervals hold what they promise? Synthetic boards whose truth is known, judged as real ones are.

    python scripts/simulate_coverage.py [--boards 300] [--out docs]

Every answer comes from a hidden number: the cell's strength, the image's difficulty for all cells and for this cell,
the training's luck and plain noise, all normal. So every cell's true accuracy is known exactly. The figures and numbers
are those of `docs/statistics.md`.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from roarbench.plan import CLEAN
from roarbench.stats.agreement import agreement
from roarbench.stats.board import Board, Row, board
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, image_weights, seed_spread
from roarbench.stats.curves import POINTS, UNTOUCHED, Bits, Floats, Point, Scores, gain
from roarbench.stats.verdicts import Verdict
from roarbench.terms import ROAR

CLEAN_ACCURACY = 0.8
SHARED, OWN, NOISE = 0.6, 0.25, 0.15  # variances: an image's difficulty for all cells, for one cell, and per training
SIMPLER = 99  # stream of chance of the simpler bootstraps


@dataclass(frozen=True)
class World:
    """What the boards of one simulation have in common.

    Attributes:
        name: What the table calls it.
        seeds: Per cell.
        drops: True mean gain of every estimator beside Random, in accuracy points.
        levels: Above 0.
        images: Number of test images.
        deviation: Of a training's accuracy over seeds, in accuracy points at accuracy .5.
        unequal: Cells differ in that deviation, by up to this factor up and down.
        common: Share of that variance that all trainings of a seed have in common.
        along: Share that the trainings of a seed along one estimator's curve have in common.
        borrow: Seeds of a second protocol whose spread is used, 0 for none.
    """

    name: str
    seeds: int
    drops: tuple[float, ...] = (0.0, 0.0, -4.0, -1.0, 1.5, 1.5, 6.0)
    levels: tuple[float, ...] = (0.5, 0.9)
    images: int = 2000
    deviation: float = 0.75
    unequal: float = 1.0
    common: float = 0.0
    along: float = 0.0
    borrow: int = 0


WORLDS = (
    World("2 seeds", 2),
    World("3 seeds", 3),
    World("5 seeds", 5),
    World("2 seeds, 10,000 images", 2, images=10_000),
    World("2 seeds, no spread over seeds", 2, deviation=0.0),
    World("2 seeds, large spread over seeds", 2, deviation=1.5),
    World("2 seeds, unequal spread (up to twice or half)", 2, unequal=2.0),
    World("5 seeds, unequal spread (up to twice or half)", 5, unequal=2.0),
    World("2 seeds, half of the spread common to a seed", 2, common=0.5),
    World("2 seeds, half of the spread common along a curve", 2, along=0.5),
    World("1 seed, spread borrowed from a board with 2", 1, borrow=2),
    World("2 seeds, all estimators equal", 2, drops=(0.0,) * 7),
    World("5 seeds, 20 estimators, 5 levels", 5, tuple(np.linspace(-6, 12, 19)), (0.1, 0.3, 0.5, 0.7, 0.9)),
)


def estimators(world: World) -> tuple[str, ...]:
    """Ids of the rows: Random first, Sobel second."""
    return ("random", "sobel", *(f"e{index}" for index in range(1, len(world.drops))))


def truth(world: World) -> dict[Point, float]:
    """True accuracies: Random falls linearly with t, an estimator's gain grows with it."""
    accuracies = {UNTOUCHED: CLEAN_ACCURACY}
    for name, drop in zip(estimators(world), (0.0, *world.drops), strict=True):
        for t in world.levels:
            accuracies[name, t] = CLEAN_ACCURACY - 0.3 * t - drop / POINTS * t
    return accuracies


def true_gains(world: World) -> dict[str, float]:
    """Gains of the true accuracies, in accuracy points."""
    accuracies, levels = truth(world), (0.0, *world.levels)
    curves = {
        name: np.array([CLEAN_ACCURACY, *(accuracies[name, t] for t in world.levels)]) for name in estimators(world)
    }
    return {name: float(gain(levels, curve, curves["random"], ROAR.order)) for name, curve in curves.items()}


def answers(world: World, seeds: int, generator: np.random.Generator) -> Scores:
    """The answers of one synthetic board."""
    luck = world.deviation / POINTS / norm.pdf(0)  # of the hidden number, whose variance is 1 without it
    shared = np.sqrt(SHARED) * generator.standard_normal(world.images, dtype=np.float32)
    common = generator.standard_normal(seeds) * np.sqrt(world.common)
    along = {name: generator.standard_normal(seeds) * np.sqrt(world.along) for name in (CLEAN, *estimators(world))}
    correct: dict[Point, Bits] = {}
    for point, accuracy in truth(world).items():
        size = luck * world.unequal ** generator.uniform(-1, 1)
        own = np.sqrt(OWN) * generator.standard_normal(world.images, dtype=np.float32)
        alone = np.sqrt(1 - world.common - world.along) * generator.standard_normal(seeds)
        lucky = size * (common + along[point[0]] + alone)
        hidden = np.sqrt(NOISE) * generator.standard_normal((seeds, world.images), dtype=np.float32)
        hidden += shared + own + lucky[:, None].astype(np.float32)
        correct[point] = hidden > -norm.ppf(accuracy) * np.sqrt(1 + size**2)
    return Scores(estimators(world), world.levels, correct)


def holds(interval: Estimate, value: float) -> bool:
    """The interval is there and holds the value."""
    return interval.low is not None and interval.high is not None and interval.low <= value <= interval.high


class Outcome(NamedTuple):
    """How often the promises were kept on one board; shares in [0, 1], None where there was nothing to keep."""

    accuracies: float
    gains: float
    over_sobel: float
    false_discoveries: float
    places: float
    all_places: bool
    width: float
    detectable: float
    power: float | None
    plain: float
    images_only: float
    counted_places: float


def outcome(world: World, generator: np.random.Generator, bootstrap: Bootstrap) -> Outcome:
    """Simulate a board, judge it, and compare with the truth."""
    scores = answers(world, world.seeds, generator)
    spread = seed_spread([answers(world, world.borrow, generator)]) if world.borrow else None
    judged = board(scores, ROAR, bootstrap, spread)
    accuracies, gains = truth(world), true_gains(world)
    rows = [row for row in judged.rows if row.estimator != "random"]
    others = simpler(scores, bootstrap)
    placed = [_place_holds(row, gains) for row in judged.rows]
    return Outcome(
        _mean(
            holds(interval, accuracies[row.estimator, t])
            for row in judged.rows
            for t, interval in zip(world.levels, row.accuracies, strict=True)
        ),
        _mean(holds(row.gain, gains[row.estimator]) for row in rows),
        _mean(holds(row.over_sobel, gains[row.estimator] - gains["sobel"]) for row in rows if row.estimator != "sobel"),
        _false_discoveries(judged, gains),
        _mean(placed),
        all(placed),
        float(np.mean([row.gain.high - row.gain.low for row in rows])) / 2,  # type: ignore[operator]
        judged.detectable or 0.0,
        _power(judged, gains),
        _mean(_inside(others.plain[row.estimator], gains[row.estimator]) for row in rows),
        _mean(_inside(others.images_only[row.estimator], gains[row.estimator]) for row in rows),
        _mean(_holds_ties(others.counted[row.estimator], row.estimator, gains) for row in judged.rows),
    )


def _inside(ends: Floats, value: float) -> bool:
    return bool(ends[0] <= value <= ends[1])


def _mean(values: Iterator[bool] | Sequence[bool]) -> float:
    return float(np.mean(list(values)))


def _false_discoveries(judged: Board, gains: dict[str, float]) -> float:
    """Share of wrong verdicts among all that tell an estimator from a control; a wrong direction is wrong, too."""
    wrong = found = 0
    for row in judged.rows:
        for comparison, control in ((row.random, "random"), (row.sobel, "sobel")):
            if comparison is None or comparison.verdict is Verdict.SAME:
                continue
            difference = gains[row.estimator] - gains[control]
            found += 1
            wrong += abs(difference) < 1e-9 or (difference > 0) != (comparison.verdict is Verdict.BETTER)
    return wrong / max(1, found)


def _place_holds(row: Row, gains: dict[str, float]) -> bool:
    assert row.place is not None and row.place.low is not None and row.place.high is not None
    return _holds_ties(np.array([row.place.low, row.place.high]), row.estimator, gains)


def _holds_ties(ends: Floats, estimator: str, gains: dict[str, float]) -> bool:
    """The interval holds every place that a truly tied group shares."""
    own = gains[estimator]
    best = 1 + sum(other > own + 1e-9 for other in gains.values())
    worst = sum(other > own - 1e-9 for other in gains.values())
    return bool(ends[0] <= best and worst <= ends[1])


def _power(judged: Board, gains: dict[str, float]) -> float | None:
    """Of a shift by `detectable`, how often a single comparison finds it: shift every interval of a true zero."""
    shift = judged.detectable
    nulls = [row.gain for row in judged.rows if row.estimator != "random" and abs(gains[row.estimator]) < 1e-9]
    if not nulls or shift is None:
        return None
    return _mean([null.low + shift > 0 for null in nulls])  # type: ignore[operator]


class Simpler(NamedTuple):
    """What simpler methods say about the gains: intervals per estimator, and places counted in the draws."""

    plain: dict[str, Floats]
    images_only: dict[str, Floats]
    counted: dict[str, Floats]


def simpler(scores: Scores, bootstrap: Bootstrap) -> Simpler:
    """Percentiles of the draws of two simpler bootstraps.

    The plain one draws seeds with replacement, the same numbers for all cells, and images likewise; the other one
    draws images alone. Places are counted in the draws of the plain one.
    """
    generator = np.random.default_rng([bootstrap.seed, SIMPLER])
    seeds, levels = len(scores.correct[UNTOUCHED]), (0.0, *scores.levels)
    random = _bits(scores, "random")
    # of every seed and image: shape (estimators, seeds, images)
    single = np.stack([gain(levels, _bits(scores, name), random, ROAR.order) for name in scores.estimators])
    flat = single.astype(np.float32).reshape(-1, scores.images)
    drawn = np.concatenate([weights @ flat.T for weights in image_weights(scores.images, bootstrap)]) / scores.images
    by_seed = drawn.reshape(-1, len(scores.estimators), seeds)
    chosen = generator.multinomial(seeds, np.full(seeds, 1 / seeds), bootstrap.resamples) / seeds
    plain = (by_seed * chosen[:, None, :]).sum(2)
    places = 1 + (plain[:, None, :] > plain[:, :, None]).sum(2)
    return Simpler(*(_percentiles(scores, draws) for draws in (plain, by_seed.mean(2), places)))


def _bits(scores: Scores, estimator: str) -> Floats:
    return np.stack([scores.correct[point] for point in scores.curve(estimator)]).astype(np.float64)


def _percentiles(scores: Scores, draws: Floats) -> dict[str, Floats]:
    return dict(zip(scores.estimators, np.quantile(draws, (0.025, 0.975), axis=0).T, strict=True))


class TauOutcome(NamedTuple):
    """How often the true Kendall's tau is inside, and how wide the intervals are."""

    held: float
    width: float
    held_by_percentiles: float
    width_of_percentiles: float


def simulate_agreement(rows: int, spread: float, likeness: float, repeats: int, seed: int = 0) -> TauOutcome:
    """Agreement of two boards with normal gains.

    Args:
        rows: Number of estimators.
        spread: Standard deviation of true gains, in standard errors of a gain.
        likeness: Correlation of the true gains of both boards.
        repeats: Pairs of boards.
        seed: Source of chance.
    """
    generator = np.random.default_rng([seed, rows, round(spread * 100), round(likeness * 100)])
    outcomes = []
    for _ in range(repeats):
        true = generator.standard_normal((2, rows)) * spread
        true[1] = likeness * true[0] + np.sqrt(1 - likeness**2) * true[1]
        seen = true + generator.standard_normal((2, rows))
        draws = seen[:, :, None] + generator.standard_normal((2, rows, 200))
        boards = [{str(row): Sample(float(seen[b, row]), draws[b, row]) for row in range(rows)} for b in (0, 1)]
        found = agreement(boards[0], boards[1], 0.95)
        assert found is not None and found.tau.low is not None and found.tau.high is not None
        tau = float(_tau(true[0], true[1]))
        low, high = np.quantile(_tau(draws[0], draws[1]), (0.025, 0.975))
        held = found.tau.low - 1e-9 <= tau <= found.tau.high + 1e-9
        by_percentiles = low - 1e-9 <= tau <= high + 1e-9
        outcomes.append((held, found.tau.high - found.tau.low, by_percentiles, high - low))
    return TauOutcome(*np.mean(outcomes, axis=0).tolist())


def _tau(one: Floats, other: Floats) -> Floats:
    """Kendall's tau without ties of arrays (rows, ...)."""
    first, second = np.triu_indices(len(one), 1)
    return np.asarray(np.mean(np.sign(one[first] - one[second]) * np.sign(other[first] - other[second]), axis=0))


def simulate(world: World, boards: int, seed: int, resamples: int = 1000) -> list[Outcome]:
    """Outcomes of this many boards; every one has its own stream of chance."""
    return [
        outcome(world, np.random.default_rng([seed, number]), Bootstrap(resamples, seed=number))
        for number in range(boards)
    ]


def summary(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, float]]:
    """Mean and its standard error over boards of every share."""
    table = {}
    for field in Outcome._fields:
        values = [float(getattr(one, field)) for one in outcomes if getattr(one, field) is not None]
        if values:
            table[field] = (float(np.mean(values)), float(np.std(values) / np.sqrt(len(values))))
    return table


def figure(results: dict[str, dict[str, tuple[float, float]]], path: Path) -> None:
    """Coverage of the gains in every world, by the method here and by the two simpler ones."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(9, 0.42 * len(results) + 1.4), layout="constrained")
    axes = drawing.subplots()
    axes.axvspan(93, 97, color="0.9", label="93-97%")
    kinds = (
        ("gains", "this bootstrap", "#0072B2", "o"),
        ("plain", "seeds and images redrawn, percentiles", "#D55E00", "s"),
        ("images_only", "images alone", "#777777", "^"),
    )
    rows = np.arange(len(results))[::-1]
    for key, label, colour, marker in kinds:
        means, errors = np.array([result[key] for result in results.values()]).T * 100
        axes.errorbar(means, rows, xerr=2 * errors, color=colour, marker=marker, linestyle="", label=label)
    axes.set_yticks(rows, list(results))
    axes.set_xlabel("true gains inside their 95% intervals, in percent")
    drawing.legend(loc="outside upper center", ncols=4, frameon=False, fontsize="small")
    drawing.savefig(path, metadata={"Date": None})


def main() -> None:
    """Simulate all worlds, print the table, write numbers and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", type=int, default=300, help="synthetic boards per line of the table")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    results = {}
    for world in WORLDS:
        start = time.process_time()
        results[world.name] = summary(simulate(world, options.boards, options.seed))
        print(f"{world.name} ({time.process_time() - start:.0f} s)", flush=True)
        print("   " + "  ".join(f"{key} {mean:.3f}±{error:.3f}" for key, (mean, error) in results[world.name].items()))
    taus = {}
    for rows, spread, likeness in product((8, 20), (3.0, 10.0), (0.0, 0.6, 1.0)):
        found = simulate_agreement(rows, spread, likeness, options.boards, options.seed)
        taus[f"{rows} rows, spread {spread:g}, likeness {likeness:g}"] = found._asdict()
        print(rows, spread, likeness, found, flush=True)
    record = {"boards": options.boards, "seed": options.seed, "worlds": results, "agreement": taus}
    (options.out / "statistics-coverage.json").write_text(json.dumps(record, indent=1) + "\n")
    figure(results, options.out / "statistics-coverage.svg")


if __name__ == "__main__":
    main()

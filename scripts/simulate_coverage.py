"""Do the intervals hold what they promise? Synthetic boards whose truth is known, judged as real ones are.

    python scripts/simulate_coverage.py [--boards 1000] [--out docs]

Every answer comes from a hidden number: the cell's strength, the image's difficulty for all cells and for this cell,
the luck of the reference and of the training, and plain noise, all normal. So every cell's true accuracy is known
exactly. The figures and numbers are those of `docs/statistics.md`.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from coverage_page import Summary, figure, write_tables
from synthetic_boards import CONTROLS, DESIGNS, WORLDS, Experiment, World, experiment, gains_of, setting, truth

from roarbench.stats import draws as drawing
from roarbench.stats.agreement import agreement
from roarbench.stats.board import Board, Row
from roarbench.stats.bootstrap import Bootstrap, Sample, half_width
from roarbench.stats.curves import Floats, Scores
from roarbench.stats.draws import Draws, draw
from roarbench.stats.judging import board_of, gain_samples
from roarbench.stats.replication import replication
from roarbench.stats.spread import Spread, spread_of
from roarbench.stats.verdicts import Verdict
from roarbench.terms import ROAR

WEIGHTS = 8  # sets of drawn images that the boards take in turn


class Judged(NamedTuple):
    """Material of a board: its draws, and the gains and those of a replication in them."""

    draws: Draws
    spread: Spread | None
    gains: dict[str, Sample]
    replicated: dict[str, Sample]


def judged(scores: Scores, bootstrap: Bootstrap) -> Judged:
    """Draw for a synthetic board as for a real one."""
    spread = spread_of([scores])
    draws = draw(scores, bootstrap, spread)
    return Judged(draws, spread, gain_samples(scores, ROAR, draws), gain_samples(scores, ROAR, draws.replication))


class Kept(NamedTuple):
    """Shares of one board's intervals that held what they promise, in [0, 1]; None where there was nothing.

    Attributes:
        accuracies: Of cells.
        gains: Of the explained rows.
        controls: Of the controls beside Random.
        over_sobel: Of the explained rows, over Sobel.
        between: Differences between the gains of two explained rows.
        predicted: Gains of a replication of the explained rows.
        network: Gains of the explained rows, true for these references only.
    """

    accuracies: float
    gains: float
    controls: float
    over_sobel: float
    between: float
    predicted: float
    network: float


def kept(world: World, found: Judged, done: Experiment, again: dict[str, Sample]) -> Kept:
    """Compare the intervals of a board with the truth and with the gains of a replication."""
    accuracies = truth(world)
    gains, exact = gains_of(world, accuracies), gains_of(world, done.accuracies)
    rows, own = found.gains, world.explained
    cells = [(sample, accuracies[point]) for point in accuracies if (sample := found.draws.accuracy(point))]
    pairs = zip(own, own[1:], strict=False)
    return Kept(
        _share(cells),
        _share([(rows[name], gains[name]) for name in own]),
        _share([(rows[name], gains[name]) for name in CONTROLS[1:]]),
        _share([(rows[name].minus(rows["sobel"]), gains[name] - gains["sobel"]) for name in own]),
        _share([(rows[one].minus(rows[other]), gains[one] - gains[other]) for one, other in pairs]),
        _share([(found.replicated[name], again[name].value) for name in own]),
        _share([(rows[name], exact[name]) for name in own]),
    )


def _share(pairs: Sequence[tuple[Sample, float]]) -> float:
    """Return the share of 95% intervals that hold their value, in [0, 1]."""
    return float(np.mean([abs(sample.value - value) <= half_width(sample, 0.95) for sample, value in pairs]))


class Outcome(NamedTuple):
    """One board: what the intervals held, the same told that there is one reference, and the rest of the promises."""

    here: Kept
    one_reference: Kept
    false_discoveries: float
    all_places: float
    width: float
    detectable: float
    power: float
    freedom: float | None
    equal_verdicts: float
    opposed_verdicts: float


def outcome(world: World, generator: np.random.Generator, bootstrap: Bootstrap) -> Outcome:
    """Simulate an experiment and its replication, judge both, and compare with the truth and with each other."""
    given = setting(world, generator)
    done, other = (experiment(world, given, generator) for _ in range(2))
    found, again = judged(done.scores, bootstrap), judged(other.scores, bootstrap)
    told = judged(replace(done.scores, references={}), bootstrap)
    gains = gains_of(world, truth(world))
    one, two = (
        board_of(run.scores, ROAR, bootstrap, seen.spread, seen.draws) for run, seen in ((done, found), (other, again))
    )
    alike = replication(one, two)
    return Outcome(
        kept(world, found, done, again.gains),
        kept(world, told, done, again.gains),
        _false_discoveries(one, gains),
        all(_place_holds(row, gains) for row in one.rows),
        float(np.mean([half_width(found.gains[name], 0.95) for name in world.explained])),
        one.detectable or 0.0,
        _power(found, one.detectable or 0.0, gains, world.explained),
        one.reference_freedom,
        alike.equal_share or 0.0,
        alike.opposed_share or 0.0,
    )


def _false_discoveries(judged: Board, gains: dict[str, float]) -> float:
    """Return the share of wrong verdicts among all "better" and "worse"; a wrong direction is wrong, too."""
    wrong = found = 0
    for row in judged.rows:
        for comparison, control in zip((row.random, row.sobel, row.random_blurred), CONTROLS, strict=True):
            if comparison is None or comparison.verdict is Verdict.SAME:
                continue
            difference = gains[row.estimator] - gains[control]
            found += 1
            wrong += abs(difference) < 1e-9 or (difference > 0) != (comparison.verdict is Verdict.BETTER)
    return wrong / max(1, found)


def _place_holds(row: Row, gains: dict[str, float]) -> bool:
    """Return whether the place interval holds every place that a truly tied group shares."""
    assert row.place is not None and row.place.low is not None and row.place.high is not None
    own = gains[row.estimator]
    best = 1 + sum(other > own + 1e-9 for other in gains.values())
    worst = sum(other > own - 1e-9 for other in gains.values())
    return row.place.low <= best and worst <= row.place.high


def _power(found: Judged, shift: float, gains: dict[str, float], rows: Sequence[str]) -> float:
    """Return how often a single comparison finds a difference of this size between two rows, in [0, 1]."""
    shares = []
    for one, other in zip(rows, rows[1:], strict=False):
        difference = found.gains[one].minus(found.gains[other])
        off = difference.value - (gains[one] - gains[other])
        shares.append(off + shift > half_width(difference, 0.95))
    return float(np.mean(shares))


class TauOutcome(NamedTuple):
    """Share of intervals that hold the true Kendall's tau, and their width."""

    held: float
    width: float
    held_by_percentiles: float
    width_of_percentiles: float


def simulate_agreement(rows: int, spread: float, likeness: float, repeats: int, seed: int = 0) -> TauOutcome:
    """Simulate the agreement of two boards with normal gains.

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
    """Compute Kendall's tau without ties of arrays (rows, ...)."""
    first, second = np.triu_indices(len(one), 1)
    return np.asarray(np.mean(np.sign(one[first] - one[second]) * np.sign(other[first] - other[second]), axis=0))


def simulate(world: World, boards: int, seed: int, resamples: int = 600) -> list[Outcome]:
    """Simulate this many boards; each has its own stream of chance, and one of a few sets of drawn images."""
    return [
        outcome(world, np.random.default_rng([seed, number]), Bootstrap(resamples, seed=number % WEIGHTS))
        for number in range(boards)
    ]


def summary(outcomes: Sequence[Outcome]) -> dict[str, Summary]:
    """Return mean and standard error, over boards, of every share."""
    parts: dict[str, Summary] = {"here": {}, "one_reference": {}, "other": {}}
    for name in ("here", "one_reference"):
        for field in Kept._fields:
            parts[name][field] = _mean([getattr(getattr(one, name), field) for one in outcomes])
    for field in Outcome._fields[2:]:
        values = [getattr(one, field) for one in outcomes if getattr(one, field) is not None]
        if values:
            parts["other"][field] = _mean(values)
    return parts


def _mean(values: Sequence[float]) -> tuple[float, float]:
    return round(float(np.mean(values)), 5), round(float(np.std(values) / np.sqrt(len(values))), 5)


def main() -> None:
    """Simulate all worlds, print the table, write numbers and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", type=int, default=1000, help="synthetic boards per design; other lines a fifth")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    share_images()
    results = {}
    for number, world in enumerate(WORLDS):
        start = time.process_time()
        boards = options.boards if number < DESIGNS else options.boards // 5
        results[world.name] = summary(simulate(world, boards, options.seed))
        print(f"{world.name} ({boards} boards, {time.process_time() - start:.0f} s)", flush=True)
        for part, found in results[world.name].items():
            print(f"   {part:13}" + "  ".join(f"{key} {mean:.3f}±{error:.3f}" for key, (mean, error) in found.items()))
    taus = {}
    for rows, spread, likeness in product((8, 20), (3.0, 10.0), (0.0, 0.6, 1.0)):
        agreed = simulate_agreement(rows, spread, likeness, 300, options.seed)
        taus[f"{rows}, {spread:g}, {likeness:g}"] = agreed._asdict()
        print(rows, spread, likeness, agreed, flush=True)
    record = {"boards": options.boards, "seed": options.seed, "worlds": results, "agreement": taus}
    (options.out / "statistics-coverage.json").write_text(json.dumps(record, indent=1) + "\n")
    write_tables(options.out / "statistics.md", record)
    figure(results, options.out / "statistics-coverage.svg")


def share_images() -> None:
    """Let boards share their drawn images, as boards of one suite do; drawing them anew takes most of the time."""
    weights = drawing.image_weights
    drawing.image_weights = lru_cache(maxsize=2 * WEIGHTS)(lambda *asked: list(weights(*asked)))  # type: ignore[assignment]


if __name__ == "__main__":
    main()

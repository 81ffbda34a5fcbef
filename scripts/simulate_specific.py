"""Do intervals of specific gains hold what they promise? Synthetic boards on common networks whose truth is known.

    python scripts/simulate_specific.py [--boards 300] [--seed 0]

Each image is answered with its own removed-map and with another one's, by networks whose luck is the same for all rows
and both maps. Beside it a row has luck of its own with each network, and the explained rows with each reference. Prints
for each world, with standard errors: how often the 95% interval holds the true specific gain, of controls and of
explained rows; how many rows that know nothing are called better or worse than Random; how often a row of 3 points is
found.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from roarbench.stats.board import Board
from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import POINTS, UNTOUCHED, Bits, Point, Scores, area_weights
from roarbench.stats.draws import draw
from roarbench.stats.judging import board_of, covers_of
from roarbench.stats.spread import spread_of
from roarbench.stats.verdicts import Verdict
from roarbench.terms import SPECIFIC

LEVELS = (0.1, 0.5, 0.9)
OTHER = {0.1: 0.62, 0.5: 0.52, 0.9: 0.35}  # accuracy with another image's map
CONTROLS = {"random": 0.0, "sobel": -3.0, "random-blurred": 0.0}
EXPLAINED = {"e1": 3.0, "e2": 0.0, "e3": -3.0, "e4": 0.0, "e5": 1.0}  # true specific gain, accuracy points
SHARED, OWN = 0.6, 0.25  # variances of an image's difficulty: for all cells, and for one


class SpecificWorld(NamedTuple):
    """Sizes of what makes answers vary, as standard deviations in accuracy points.

    Attributes:
        name: What the table calls it.
        networks: Common networks, each with a reference of its own.
        luck: Of a network, in all its accuracies.
        of_rows: Of a row's specific accuracy difference, from network to network.
        of_references: The same of an explained row, from reference to reference.
        images: Test images.
    """

    name: str
    networks: int
    luck: float = 1.0
    of_rows: float = 0.5
    of_references: float = 1.0
    images: int = 3925


WORLDS = (
    SpecificWorld("2 networks", 2),
    SpecificWorld("3 networks", 3),
    SpecificWorld("3 networks, lucky ones", 3, luck=4.0),
    SpecificWorld("3 networks, references alike", 3, of_references=0.0),
    SpecificWorld("5 networks", 5),
)


def experiment(world: SpecificWorld, generator: np.random.Generator) -> Scores:
    """Draw images, networks and references, and let them answer."""
    shape = (world.networks, world.images)
    shared = np.sqrt(SHARED) * generator.normal(size=world.images)
    luck = generator.normal(size=(world.networks, len(LEVELS)))
    common = generator.normal(size=world.networks)
    correct: dict[Point, Bits] = {UNTOUCHED: np.ones(shape, bool)}
    differences: dict[Point, Bits] = {UNTOUCHED: np.zeros(shape, np.int8)}
    for name, gain in (CONTROLS | EXPLAINED).items():
        own = np.sqrt(0.5) * (common + generator.normal(size=world.networks)) * world.of_references
        own = own if name in EXPLAINED else np.zeros(world.networks)
        for number, t in enumerate(LEVELS):
            moved = gain + own + world.of_rows * generator.normal(size=world.networks)  # what the own map costs
            cell = shared + np.sqrt(OWN) * generator.normal(size=world.images)
            accuracy = OTHER[t] + world.luck / POINTS * luck[:, number]
            lines = [norm.ppf(np.clip(level, 0.01, 0.99))[:, None] for level in (accuracy - moved / POINTS, accuracy)]
            said = [cell + np.sqrt(1 - SHARED - OWN) * generator.normal(size=shape) < line for line in lines]
            correct[name, t] = said[0]
            differences[name, t] = said[0].astype(np.int8) - said[1]
    names = tuple(f"reference {number}" for number in range(world.networks))
    references = {(name, t): names for name in EXPLAINED for t in LEVELS}
    rows = (*CONTROLS, *EXPLAINED)
    return Scores(
        rows,
        LEVELS,
        correct,
        references=references,
        differences=Scores(rows, LEVELS, differences, references=references),
    )


def judged(scores: Scores, bootstrap: Bootstrap) -> Board:
    """Judge a synthetic board as a real one."""
    assert scores.differences
    spread = spread_of([scores.differences])
    assert covers_of(SPECIFIC, spread)
    return board_of(scores, SPECIFIC, bootstrap, spread, draw(scores, bootstrap, spread))


class SpecificOutcome(NamedTuple):
    """Shares of one board's rows, in [0, 1].

    Attributes:
        controls, explained: Whose intervals hold the true specific gain.
        wrong: Of the rows that know nothing, those called better or worse than Random.
        found: Whether the row of 3 points is called better.
    """

    controls: float
    explained: float
    wrong: float
    found: float


def outcome(world: SpecificWorld, generator: np.random.Generator, bootstrap: Bootstrap) -> SpecificOutcome:
    """Simulate an experiment and compare what its board says with the truth."""
    rows = {row.estimator: row for row in judged(experiment(world, generator), bootstrap).rows}
    share = float(area_weights((0.0, *LEVELS))[1:].sum())  # of a gain that is the same at all levels above 0
    inside = {}
    for name, gain in (CONTROLS | EXPLAINED).items():
        _, low, high = rows[name].gain
        assert low is not None and high is not None
        inside[name] = low <= share * gain <= high
    idle = [rows[name].random for name, gain in (CONTROLS | EXPLAINED).items() if gain == 0 and name != "random"]
    best = rows["e1"].random
    return SpecificOutcome(
        float(np.mean([inside[name] for name in CONTROLS])),
        float(np.mean([inside[name] for name in EXPLAINED])),
        float(np.mean([one is not None and one.verdict is not Verdict.SAME for one in idle])),
        float(best is not None and best.verdict is Verdict.BETTER),
    )


def simulate(world: SpecificWorld, boards: int, seed: int, resamples: int = 600) -> NDArray[np.float64]:
    """Return the outcomes of this many boards, shape (boards, 4); each has its own stream of chance."""
    return np.array(
        [outcome(world, np.random.default_rng([seed, n]), Bootstrap(resamples, seed=n % 8)) for n in range(boards)]
    )


def lines(worlds: Sequence[SpecificWorld], boards: int, seed: int) -> list[str]:
    """Return a Markdown table, percent with standard errors."""
    table = ["| | controls inside | explained rows inside | false verdicts | 3 points found |", "|---|---|---|---|---|"]
    for world in worlds:
        found = simulate(world, boards, seed)
        errors = found.std(0) / np.sqrt(boards)
        cells = (f"{100 * mean:.1f} ± {100 * error:.1f}" for mean, error in zip(found.mean(0), errors, strict=True))
        table.append(f"| {world.name} | {' | '.join(cells)} |")
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("\n".join(lines(WORLDS, arguments.boards, arguments.seed)))


if __name__ == "__main__":
    main()

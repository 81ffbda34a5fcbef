"""Simulate boards of matched gain with known true gains, and print the coverage of the intervals.

    python -m studies.coverage.paired [--boards 300] [--seed 0] [--world NAME]

Common networks predict each image under its own removal mask and under a matched mask. Each common network has noise
that is the same for all rows and both masks, noise for each row, and, for explained rows, noise of its explained
network. The program prints for each world, with standard errors: how often the 95% interval contains the true gain of
controls, of explained rows, and of the last explained row, which can vary more than the others (the odd row); the share
of rows without information that are called better or worse than Random; how often the first row, which is 3 points
above the best control, is called better; on how many boards a row that is no better than the best control beats every
control, and how often the first row does; and half the width of an explained row's interval, in accuracy points.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from roarbench.common.text import format_markdown_table
from roarbench.plan.protocols import MATCHED
from roarbench.stats.bootstrap_intervals import Bootstrap
from roarbench.stats.compute_board import compute_board
from roarbench.stats.correctness_and_gain import POINTS, UNTOUCHED, Bits, Correctness, Point, compute_trapezoid_weights
from roarbench.stats.verdicts import Verdict
from studies.page import make_parser

HEADS = (
    *("", "controls inside", "explained rows inside", "the odd row", "false verdicts", "3 points found"),
    *("boards with a false 'beats every control'", "3 points above every control found", "half width"),
)
LEVELS = (0.1, 0.5, 0.9)
OTHER = {0.1: 0.62, 0.5: 0.52, 0.9: 0.35}  # accuracy with a matched mask
CONTROLS = {"random": 0.0, "sobel": -3.0, "random-blurred": 0.0}
EXPLAINED = {"e1": 3.0, "e2": 0.0, "e3": -3.0, "e4": 0.0, "e5": 1.0}  # true gain, accuracy points
EIGHT = CONTROLS | {f"c{number}": 0.0 for number in range(4, 8)} | {"best": 2.0}
NEAR = dict.fromkeys(EXPLAINED, 2.0) | {"e1": 5.0}  # only e1 is better than the best of these controls
ODD = "e5"
SHARED, OWN = 0.6, 0.25  # variances of an image's difficulty: for all cells, and for one cell


class PairedWorld(NamedTuple):
    """Settings of the simulated boards; standard deviations are in accuracy points."""

    name: str  # name in the table
    networks: int  # number of common networks, each with its own explained network
    training_noise: float = 1.0  # standard deviation of all accuracies between common networks
    of_rows: float = 0.5  # standard deviation of a row's accuracy difference between common networks
    of_references: float = 1.0  # standard deviation of an explained row's gain between explained networks
    odd: float = 1.0  # factor by which this deviation is larger for the last explained row
    trials: int = 0  # number of added rows whose maps do not depend on the explained network
    images: int = 3925  # number of test images
    controls: Mapping[str, float] = CONTROLS  # true gains of the controls, in accuracy points
    explained: Mapping[str, float] = EXPLAINED  # true gains of the explained rows, in accuracy points


WORLDS = (
    PairedWorld("2 networks", 2),
    PairedWorld("3 networks", 3),
    PairedWorld("3 networks, lucky ones", 3, training_noise=4.0),
    PairedWorld("3 networks, references alike", 3, of_references=0.0),
    PairedWorld("5 networks", 5),
    PairedWorld("3 networks, 5 trial rows", 3, trials=5),
    PairedWorld("3 networks, 20 trial rows", 3, trials=20),
    PairedWorld("3 networks, an odd row", 3, odd=1.9),
    PairedWorld("5 networks, an odd row", 5, odd=1.9),
    PairedWorld("3 networks, 8 controls", 3, images=1000, controls=EIGHT, explained=NEAR),
    PairedWorld("3 networks, 8 controls, an odd row", 3, odd=1.9, images=1000, controls=EIGHT, explained=NEAR),
)


def draw_correctness(world: PairedWorld, generator: np.random.Generator) -> Correctness:
    shape = (world.networks, world.images)
    shared = np.sqrt(SHARED) * generator.normal(size=world.images)
    training_noise = generator.normal(size=(world.networks, len(LEVELS)))
    common = generator.normal(size=world.networks)
    correct: dict[Point, Bits] = {UNTOUCHED: np.ones(shape, bool)}
    differences: dict[Point, Bits] = {UNTOUCHED: np.zeros(shape, np.int8)}
    trials = dict.fromkeys((f"trial-{number}" for number in range(world.trials)), 0.0)
    for name, gain in {**world.controls, **world.explained, **trials}.items():
        own = np.sqrt(0.5) * (common + generator.normal(size=world.networks)) * world.of_references
        own = own * (world.odd if name == ODD else 1) if name in world.explained else np.zeros(world.networks)
        for number, t in enumerate(LEVELS):
            drop = gain + own + world.of_rows * generator.normal(size=world.networks)
            difficulty = shared + np.sqrt(OWN) * generator.normal(size=world.images)
            other = OTHER[t] + world.training_noise / POINTS * training_noise[:, number]
            limits = [norm.ppf(np.clip(share, 0.01, 0.99))[:, None] for share in (other - drop / POINTS, other)]
            bits = [difficulty + np.sqrt(1 - SHARED - OWN) * generator.normal(size=shape) < limit for limit in limits]
            correct[name, t] = bits[0]
            differences[name, t] = bits[0].astype(np.int8) - bits[1]
    names = tuple(f"reference {number}" for number in range(world.networks))
    references = {(name, t): names for name in (*world.explained, *trials) for t in LEVELS}
    rows = (*world.controls, *world.explained, *trials)
    scores = Correctness(rows, LEVELS, differences, references=references, submitted=frozenset(trials))
    return replace(scores, correct=correct, differences=scores, model_free_controls=frozenset(world.controls))


class PairedOutcome(NamedTuple):
    """Outcome of one simulated board, as numbers in [0, 1] except the width."""

    controls: float  # share of controls whose interval contains the true gain
    explained: float  # share of explained rows whose interval contains the true gain
    odd: float  # whether the odd row's interval contains the true gain
    wrong: float  # share of rows without information that are called better or worse than Random
    found: float  # whether the first row, 3 points above the best control, is called better
    wrongly_beats: float  # whether any row that is no better than the best control beats every control
    beats: float  # whether the first row beats every control
    width: float  # half the mean width of an explained row's interval, in accuracy points


def simulate_board(world: PairedWorld, generator: np.random.Generator, bootstrap: Bootstrap) -> PairedOutcome:
    """Simulate an experiment, and compare its board with the truth."""
    scores = draw_correctness(world, generator)
    assert scores.differences
    board = compute_board(scores, MATCHED, bootstrap)
    rows = {row.estimator: row for row in board.rows}
    share = float(compute_trapezoid_weights((0.0, *LEVELS))[1:].sum())  # gain of a row per accuracy point at all levels
    true, inside, halves = {**world.controls, **world.explained}, {}, {}
    for name, gain in true.items():
        _, low, high = rows[name].gain
        assert low is not None and high is not None
        inside[name], halves[name] = low <= share * gain <= high, (high - low) / 2
    verdicts = {name: row.vs_random.verdict if row.vs_random else Verdict.SAME for name, row in rows.items()}
    beats = {name: controls.beats_all for name in world.explained if (controls := rows[name].beating)}
    best = max(world.controls.values())
    null_verdicts = [verdicts[name] for name, gain in true.items() if gain == 0 and name != "random"]
    return PairedOutcome(
        float(np.mean([inside[name] for name in world.controls])),
        float(np.mean([inside[name] for name in world.explained])),
        float(inside[ODD]),
        float(np.mean([verdict is not Verdict.SAME for verdict in null_verdicts])),
        float(verdicts["e1"] is Verdict.BETTER),
        float(any(beats[name] for name, gain in world.explained.items() if gain <= best)),
        float(beats["e1"]),
        float(np.mean([halves[name] for name in world.explained])),
    )


def simulate(world: PairedWorld, boards: int, seed: int, resamples: int = 600) -> NDArray[np.float64]:
    """Return the outcomes of this number of boards, shape (boards, 8); each board has its own random generator."""
    return np.array(
        [
            simulate_board(world, np.random.default_rng([seed, n]), Bootstrap(resamples, seed=n % 8))
            for n in range(boards)
        ]
    )


def make_row(world: PairedWorld, boards: int, seed: int) -> Iterator[str]:
    outcomes = simulate(world, boards, seed)
    *shares, (width, _) = zip(outcomes.mean(0), outcomes.std(0) / np.sqrt(boards), strict=True)
    yield world.name
    yield from (f"{100 * mean:.1f} ± {100 * error:.1f}" for mean, error in shares)
    yield f"{width:.2f}"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--boards", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", default="", help="beginning of the worlds' names; all by default")
    arguments = parser.parse_args()
    worlds = (world for world in WORLDS if world.name.startswith(arguments.world))
    print(format_markdown_table(HEADS, (make_row(world, arguments.boards, arguments.seed) for world in worlds)))


if __name__ == "__main__":
    main()

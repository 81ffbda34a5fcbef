"""Do the intervals have their nominal coverage? Synthetic boards whose truth is known, judged as real ones are.

Run: python -m studies.coverage.run [--boards 1000] simulates and writes results.json and the tables of the README;
python -m studies.coverage.paired prints a table of matched gains.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roarbench.common.text import MISSING, format_markdown_table
from roarbench.plan.protocols import ROAR
from roarbench.stats import resampling as drawing
from roarbench.stats.board import Board, Row
from roarbench.stats.board_agreement import compare_boards
from roarbench.stats.bootstrap_intervals import Bootstrap, Sample, compute_half_width
from roarbench.stats.compute_board import compute_board_from_draws
from roarbench.stats.curves import Correctness
from roarbench.stats.resampling import Draws, draw_resamples
from roarbench.stats.sampled_gains import sample_gains
from roarbench.stats.variance_components import VarianceComponents, estimate_variance_components
from roarbench.stats.verdicts import Verdict
from studies.coverage.tau import simulate_agreement
from studies.coverage.worlds import (
    CONTROLS,
    DESIGNS,
    WORLDS,
    Experiment,
    World,
    compute_gains,
    compute_true_accuracies,
    draw_experiment,
    draw_setting,
)
from studies.page import make_parser, write_tables

FOLDER = Path(__file__).parent
WEIGHTS = 8  # sets of drawn images that the boards take in turn

COVERAGE_HEADS = (
    *("synthetic boards", "accuracies", "gains", "of controls", "over Sobel", "between rows", "replication"),
    *("this network's gains", "false words", "all places", "*gains*", "*replication*"),
)
DESIGN_HEADS = (
    *("references x trainings", "degrees of freedom", "half an interval's width", "minimum detectable difference"),
    *("found in the simulation", "verdicts that a replication repeats", "that it opposes"),
)
TAU_HEADS = (
    "estimators, spread of true gains in standard errors, correlation of true gains",
    *("this interval: holds, width", "percentiles of draws: holds, width"),
)
Shares = dict[str, float]  # by what they are of, in [0, 1]
Summary = dict[str, dict[str, tuple[float, float]]]  # mean and standard error of every share


class Judged(NamedTuple):
    """Material of a board: its draws, and the gains and those of a replication in them."""

    draws: Draws
    variances: VarianceComponents | None
    gains: dict[str, Sample]
    replicated: dict[str, Sample]


def draw_for_board(scores: Correctness, bootstrap: Bootstrap) -> Judged:
    variances = estimate_variance_components([scores])
    draws = draw_resamples(scores, bootstrap, variances)
    return Judged(draws, variances, sample_gains(scores, ROAR, draws), sample_gains(scores, ROAR, draws.replication))


def compute_coverage(world: World, found: Judged, done: Experiment, again: dict[str, Sample]) -> Shares:
    """Return how many of a board's intervals hold the truth, and how many the gains of a replication.

    Those of the accuracies of cells, of the gains of the explained rows and of the controls beside Random, over Sobel,
    between two explained rows, and of the explained rows' gains in a replication and with these references alone.
    """
    accuracies = compute_true_accuracies(world)
    gains, exact = compute_gains(world, accuracies), compute_gains(world, done.accuracies)
    rows, own = found.gains, world.explained
    cells = [(sample, accuracies[point]) for point in accuracies if (sample := found.draws.get_accuracy(point))]
    between = [(rows[one].subtract(rows[other]), gains[one] - gains[other]) for one, other in pairwise(own)]
    return {
        "accuracies": _compute_share(cells),
        "gains": _compute_share([(rows[name], gains[name]) for name in own]),
        "controls": _compute_share([(rows[name], gains[name]) for name in CONTROLS[1:]]),
        "over_sobel": _compute_share(
            [(rows[name].subtract(rows["sobel"]), gains[name] - gains["sobel"]) for name in own]
        ),
        "between": _compute_share(between),
        "predicted": _compute_share([(found.replicated[name], again[name].value) for name in own]),
        "network": _compute_share([(rows[name], exact[name]) for name in own]),
    }


def _compute_share(pairs: Sequence[tuple[Sample, float]]) -> float:
    """Return the share of 95% intervals that hold their value, in [0, 1]."""
    return float(np.mean([abs(sample.value - value) <= compute_half_width(sample, 0.95) for sample, value in pairs]))


def simulate_two_boards(
    world: World, generator: np.random.Generator, bootstrap: Bootstrap
) -> dict[str, dict[str, float | None]]:
    """Simulate an experiment and its replication, judge both, and compare with the truth and with each other.

    Returns what the intervals held, the same told that there is one reference, and the rest of the promises.
    """
    given = draw_setting(world, generator)
    done, other = (draw_experiment(world, given, generator) for _ in range(2))
    found, again = draw_for_board(done.scores, bootstrap), draw_for_board(other.scores, bootstrap)
    told = draw_for_board(replace(done.scores, references={}), bootstrap)
    gains = compute_gains(world, compute_true_accuracies(world))
    one, two = (
        compute_board_from_draws(run.scores, ROAR, bootstrap, seen.variances, seen.draws)
        for run, seen in ((done, found), (other, again))
    )
    alike, detectable = compare_boards(one, two), one.detectable or 0.0
    return {
        "here": {**compute_coverage(world, found, done, again.gains)},
        "one_reference": {**compute_coverage(world, told, done, again.gains)},
        "other": {
            "false_discoveries": _compute_false_discovery_rate(one, gains),
            "all_places": all(_is_true_rank_covered(row, gains) for row in one.rows),
            "width": float(np.mean([compute_half_width(found.gains[name], 0.95) for name in world.explained])),
            "detectable": detectable,
            "power": _compute_power(found, detectable, gains, world.explained),
            "freedom": one.reference_freedom,
            "equal_verdicts": alike.equal_share or 0.0,
            "opposed_verdicts": alike.opposed_share or 0.0,
        },
    }


def _compute_false_discovery_rate(judged: Board, gains: dict[str, float]) -> float:
    """Return the share of wrong verdicts among all "better" and "worse"; a wrong direction is wrong, too."""
    wrong = found = 0
    for row in judged.rows:
        for comparison, control in zip((row.vs_random, row.vs_sobel, row.vs_random_blurred), CONTROLS, strict=True):
            if comparison is None or comparison.verdict is Verdict.SAME:
                continue
            difference = gains[row.estimator] - gains[control]
            found += 1
            wrong += abs(difference) < 1e-9 or (difference > 0) != (comparison.verdict is Verdict.BETTER)
    return wrong / max(1, found)


def _is_true_rank_covered(row: Row, gains: dict[str, float]) -> bool:
    """Return whether the place interval holds every place that a truly tied group shares."""
    assert row.place is not None and row.place.low is not None and row.place.high is not None
    own = gains[row.estimator]
    best = 1 + sum(other > own + 1e-9 for other in gains.values())
    worst = sum(other > own - 1e-9 for other in gains.values())
    return row.place.low <= best and worst <= row.place.high


def _compute_power(found: Judged, shift: float, gains: dict[str, float], rows: Sequence[str]) -> float:
    """Return how often a single comparison finds a difference of this size between two rows, in [0, 1]."""
    shares = []
    for one, other in pairwise(rows):
        difference = found.gains[one].subtract(found.gains[other])
        off = difference.value - (gains[one] - gains[other])
        shares.append(off + shift > compute_half_width(difference, 0.95))
    return float(np.mean(shares))


def simulate(world: World, boards: int, seed: int, resamples: int = 600) -> Summary:
    """Return mean and standard error of every share over this many boards.

    Each board has its own stream of chance, and one of a few sets of drawn images.
    """
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(boards):
        bootstrap = Bootstrap(resamples, seed=number % WEIGHTS)
        for part, shares in simulate_two_boards(world, np.random.default_rng([seed, number]), bootstrap).items():
            for name, share in shares.items():
                if share is not None:
                    found[part][name].append(share)
    return {
        part: {name: _compute_mean_and_error(values) for name, values in shares.items()}
        for part, shares in found.items()
    }


def _compute_mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    return round(float(np.mean(values)), 5), round(float(np.std(values) / np.sqrt(len(values))), 5)


def make_tables_of_record(record: dict[str, Any]) -> dict[str, str]:
    worlds = record["worlds"]
    return {
        "designs": format_markdown_table(
            DESIGN_HEADS, ([name, *_format_design(worlds[name])] for name in list(worlds)[:DESIGNS])
        ),
        "agreement": format_markdown_table(
            TAU_HEADS, ([name, *_format_coverage(tau)] for name, tau in record["agreement"].items())
        ),
        "coverage": format_markdown_table(
            COVERAGE_HEADS, ([name, *_format_shares(world)] for name, world in worlds.items())
        ),
    }


def _format_shares(world: Summary) -> Iterator[str]:
    yield from (f"{100 * mean:.1f} ± {100 * error:.1f}" for mean, error in world["here"].values())
    yield from (f"{100 * world['other'][key][0]:.1f}" for key in ("false_discoveries", "all_places"))
    yield from (f"*{100 * world['one_reference'][key][0]:.1f}*" for key in ("gains", "predicted"))


def _format_design(world: Summary) -> Iterator[str]:
    other = {key: mean for key, (mean, _) in world["other"].items()}
    yield f"{other['freedom']:.1f}" if "freedom" in other else MISSING
    yield from (f"{other[key]:.2f}" for key in ("width", "detectable"))
    yield from (f"{100 * other[key]:.1f}%" for key in ("power", "equal_verdicts", "opposed_verdicts"))


def _format_coverage(tau: dict[str, float]) -> tuple[str, str]:
    plain = f"{100 * tau['held_by_percentiles']:.0f}%, {tau['width_of_percentiles']:.2f}"
    return f"{100 * tau['held']:.0f}%, {tau['width']:.2f}", f"*{plain}*"


def make_shipped_tables() -> dict[str, str]:
    return make_tables_of_record(json.loads((FOLDER / "results.json").read_text("utf-8")))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--boards", type=int, default=1000, help="synthetic boards per design; other lines a fifth")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    share_images()
    worlds = {}
    for number, world in enumerate(WORLDS):
        start = time.process_time()
        boards = options.boards if number < DESIGNS else options.boards // 5
        worlds[world.name] = simulate(world, boards, options.seed)
        print(f"{world.name} ({boards} boards, {time.process_time() - start:.0f} s)", flush=True)
    taus = {
        f"{rows}, {spread:g}, {likeness:g}": simulate_agreement(rows, spread, likeness, 300, options.seed)
        for rows, spread, likeness in product((8, 20), (3.0, 10.0), (0.0, 0.6, 1.0))
    }
    record = {"boards": options.boards, "seed": options.seed, "worlds": worlds, "agreement": taus}
    (FOLDER / "results.json").write_text(json.dumps(record, indent=1) + "\n")
    write_tables(FOLDER / "README.md", make_tables_of_record(record))


def share_images() -> None:
    """Let boards share their drawn images, as boards of one suite do; drawing them anew takes most of the time."""
    weights = drawing.draw_image_weights
    drawing.draw_image_weights = lru_cache(maxsize=2 * WEIGHTS)(lambda *asked: list(weights(*asked)))  # type: ignore[assignment]


if __name__ == "__main__":
    main()

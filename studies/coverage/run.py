"""Simulate boards of ROAR with known true gains, and measure the coverage of the intervals and the error of verdicts.

`python -m studies.coverage.run [--boards 1000]` writes results.json and the tables of README.md; `python -m
studies.coverage.paired` prints a table for matched gain.
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
from roarbench.stats import resampling
from roarbench.stats.board_agreement import compare_boards, compute_agreement
from roarbench.stats.board_records import Board, Row
from roarbench.stats.bootstrap_intervals import Bootstrap, Sample, compute_half_width
from roarbench.stats.compute_board import Judge
from roarbench.stats.correctness_and_gain import Correctness, Floats
from roarbench.stats.resampling import Draws, draw_resamples
from roarbench.stats.sampled_gains import sample_gains
from roarbench.stats.variance_components import VarianceComponents, estimate_variance_components
from roarbench.stats.verdicts import Verdict
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
WEIGHTS = 8  # number of sets of drawn images, which the boards use in turn

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
TAU_OUTCOME = ("held", "width", "held_by_percentiles", "width_of_percentiles")
Shares = dict[str, float]  # shares in [0, 1] by name
Summary = dict[str, dict[str, tuple[float, float]]]  # mean and standard error by group and name


class DrawnBoard(NamedTuple):
    """Draws of a board, with the gains and the gains of a replication."""

    draws: Draws
    variances: VarianceComponents | None
    gains: dict[str, Sample]
    replicated: dict[str, Sample]


def draw_board(scores: Correctness, bootstrap: Bootstrap) -> DrawnBoard:
    variances = estimate_variance_components([scores])
    draws = draw_resamples(scores, bootstrap, variances)
    return DrawnBoard(
        draws, variances, sample_gains(scores, ROAR, draws), sample_gains(scores, ROAR, draws.replication)
    )


def compute_coverage(world: World, board: DrawnBoard, experiment: Experiment, replication: dict[str, Sample]) -> Shares:
    """Compute the shares of a board's intervals that contain the true value.

    The intervals are those of accuracies, of the gains of explained rows and of controls, of gains over Sobel, and of
    differences between explained rows. `predicted` compares prediction intervals with the gains of a replication, and
    `network` compares intervals with the true gains for these explained networks only.
    """
    accuracies = compute_true_accuracies(world)
    gains, exact = compute_gains(world, accuracies), compute_gains(world, experiment.accuracies)
    rows, own = board.gains, world.explained
    cells = [(sample, accuracies[point]) for point in accuracies if (sample := board.draws.get_accuracy(point))]
    between = [(rows[one].subtract(rows[other]), gains[one] - gains[other]) for one, other in pairwise(own)]
    return {
        "accuracies": _compute_share(cells),
        "gains": _compute_share([(rows[name], gains[name]) for name in own]),
        "controls": _compute_share([(rows[name], gains[name]) for name in CONTROLS[1:]]),
        "over_sobel": _compute_share(
            [(rows[name].subtract(rows["sobel"]), gains[name] - gains["sobel"]) for name in own]
        ),
        "between": _compute_share(between),
        "predicted": _compute_share([(board.replicated[name], replication[name].value) for name in own]),
        "network": _compute_share([(rows[name], exact[name]) for name in own]),
    }


def _compute_share(pairs: Sequence[tuple[Sample, float]]) -> float:
    """Return the share of 95% intervals that contain the value, in [0, 1]."""
    return float(np.mean([abs(sample.value - value) <= compute_half_width(sample, 0.95) for sample, value in pairs]))


def simulate_two_boards(
    world: World, generator: np.random.Generator, bootstrap: Bootstrap
) -> dict[str, dict[str, float | None]]:
    """Simulate an experiment and its replication, and compare both boards with the truth and with each other.

    Returns the coverage, the coverage of intervals that treat all explained networks as one, and other numbers.
    """
    setting = draw_setting(world, generator)
    experiments = [draw_experiment(world, setting, generator) for _ in range(2)]
    first, second = drawn = [draw_board(experiment.scores, bootstrap) for experiment in experiments]
    one_network = draw_board(replace(experiments[0].scores, references={}), bootstrap)
    gains = compute_gains(world, compute_true_accuracies(world))
    board, second_board = (
        Judge.from_draws(experiment.scores, ROAR, bootstrap, draws.variances, draws.draws).make_board()
        for experiment, draws in zip(experiments, drawn, strict=True)
    )
    replication, detectable = compare_boards(board, second_board), board.detectable or 0.0
    return {
        "here": {**compute_coverage(world, first, experiments[0], second.gains)},
        "one_reference": {**compute_coverage(world, one_network, experiments[0], second.gains)},
        "other": {
            "false_discoveries": _compute_false_discovery_rate(board, gains),
            "all_places": all(_is_true_rank_covered(row, gains) for row in board.rows),
            "width": float(np.mean([compute_half_width(first.gains[name], 0.95) for name in world.explained])),
            "detectable": detectable,
            "power": _compute_power(first, detectable, gains, world.explained),
            "freedom": board.reference_freedom,
            "equal_verdicts": replication.equal_share or 0.0,
            "opposed_verdicts": replication.opposed_share or 0.0,
        },
    }


def _compute_false_discovery_rate(board: Board, gains: dict[str, float]) -> float:
    """Return the share of wrong verdicts among all "better" and "worse"; the wrong direction is also wrong."""
    wrong = found = 0
    for row in board.rows:
        for comparison, control in zip((row.vs_random, row.vs_sobel, row.vs_random_blurred), CONTROLS, strict=True):
            if comparison is None or comparison.verdict is Verdict.SAME:
                continue
            difference = gains[row.estimator] - gains[control]
            found += 1
            wrong += abs(difference) < 1e-9 or (difference > 0) != (comparison.verdict is Verdict.BETTER)
    return wrong / max(1, found)


def _is_true_rank_covered(row: Row, gains: dict[str, float]) -> bool:
    """Return whether the rank interval contains all ranks that the rows with the same true gain share."""
    assert row.place is not None and row.place.low is not None and row.place.high is not None
    own = gains[row.estimator]
    best = 1 + sum(other > own + 1e-9 for other in gains.values())
    worst = sum(other > own - 1e-9 for other in gains.values())
    return row.place.low <= best and worst <= row.place.high


def _compute_power(board: DrawnBoard, size: float, gains: dict[str, float], rows: Sequence[str]) -> float:
    """Return how often a single comparison detects a difference of this size between two rows, in [0, 1]."""
    detected = []
    for one, other in pairwise(rows):
        difference = board.gains[one].subtract(board.gains[other])
        error = difference.value - (gains[one] - gains[other])
        detected.append(error + size > compute_half_width(difference, 0.95))
    return float(np.mean(detected))


def simulate(world: World, boards: int, seed: int, resamples: int = 600) -> Summary:
    """Simulate this number of boards, and return mean and standard error of every share.

    Each board has its own random generator, and one of `WEIGHTS` sets of drawn images.
    """
    by_group: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(boards):
        bootstrap = Bootstrap(resamples, seed=number % WEIGHTS)
        for group, shares in simulate_two_boards(world, np.random.default_rng([seed, number]), bootstrap).items():
            for name, share in shares.items():
                if share is not None:
                    by_group[group][name].append(share)
    return {
        group: {name: _compute_mean_and_error(values) for name, values in shares.items()}
        for group, shares in by_group.items()
    }


def _compute_mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    return round(float(np.mean(values)), 5), round(float(np.std(values) / np.sqrt(len(values))), 5)


def simulate_agreement(rows: int, spread: float, likeness: float, repeats: int, seed: int = 0) -> dict[str, float]:
    """Simulate the share of intervals that contain the true Kendall's tau of two boards, and their mean width.

    The gains of both boards are normal.

    Args:
        rows: Number of estimators.
        spread: Standard deviation of the true gains, in standard errors of a gain.
        likeness: Correlation of the true gains of both boards.
        repeats: Number of pairs of boards.
        seed: Seed of the random numbers.
    """
    generator = np.random.default_rng([seed, rows, round(spread * 100), round(likeness * 100)])
    outcomes = []
    for _ in range(repeats):
        true = generator.standard_normal((2, rows)) * spread
        true[1] = likeness * true[0] + np.sqrt(1 - likeness**2) * true[1]
        seen = true + generator.standard_normal((2, rows))
        draws = seen[:, :, None] + generator.standard_normal((2, rows, 200))
        boards = [{str(row): Sample(float(seen[b, row]), draws[b, row]) for row in range(rows)} for b in (0, 1)]
        agreement = compute_agreement(boards[0], boards[1], 0.95)
        assert agreement is not None and agreement.tau.low is not None and agreement.tau.high is not None
        tau = float(_compute_tau(true[0], true[1]))
        percentiles = np.quantile(_compute_tau(draws[0], draws[1]), (0.025, 0.975))
        for low, high in ((agreement.tau.low, agreement.tau.high), percentiles):
            outcomes += [low - 1e-9 <= tau <= high + 1e-9, high - low]
    means = np.reshape(outcomes, (repeats, len(TAU_OUTCOME))).mean(0)
    return dict(zip(TAU_OUTCOME, means.tolist(), strict=True))


def _compute_tau(one: Floats, other: Floats) -> Floats:
    """Compute Kendall's tau of arrays (rows, ...) without ties."""
    first, second = np.triu_indices(len(one), 1)
    return np.asarray(np.mean(np.sign(one[first] - one[second]) * np.sign(other[first] - other[second]), axis=0))


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
    percentiles = f"{100 * tau['held_by_percentiles']:.0f}%, {tau['width_of_percentiles']:.2f}"
    return f"{100 * tau['held']:.0f}%, {tau['width']:.2f}", f"*{percentiles}*"


def make_shipped_tables() -> dict[str, str]:
    return make_tables_of_record(json.loads((FOLDER / "results.json").read_text("utf-8")))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--boards", type=int, default=1000, help="boards per design; other worlds get a fifth of them")
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
    """Cache the drawn images, which boards of one suite share; drawing them for each board takes most of the time."""
    draw = resampling.draw_image_weights
    resampling.draw_image_weights = lru_cache(maxsize=2 * WEIGHTS)(lambda *settings: list(draw(*settings)))  # type: ignore[assignment]


if __name__ == "__main__":
    main()

"""A board by `scipy.stats.bootstrap`: the same numbers, intervals, verdicts and places, beside ours."""

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from peers.paired_timing import Figure, PairedTimer
from scipy.stats import bootstrap, false_discovery_control

from roarbench.common.enums import PAPER_LEVELS
from roarbench.plan.protocols import ROAR
from roarbench.stats.board import Board
from roarbench.stats.bootstrap_intervals import Bootstrap
from roarbench.stats.compute_board import compute_board
from roarbench.stats.curves import UNTOUCHED, Correctness, compute_trapezoid_weights
from roarbench.stats.verdicts import FALSE_DISCOVERIES, Verdict

Floats = NDArray[np.floating]

ESTIMATORS = ("random", "sobel", *(f"e{index}" for index in range(18)))
SEEDS, IMAGES, DRAWS, CONFIDENCE = 5, 10_000, 2000, 0.95
LUCK = 0.01  # standard deviation of accuracy between trainings
AT_ONCE = 4  # draws per batch; 1 to 20 are equally fast


def make_correctness() -> Correctness:
    """Make answers of rows that remove more and more of what counts, each training with its luck."""
    generator = np.random.default_rng(0)
    correct = {}
    for name, t in (UNTOUCHED, *product(ESTIMATORS, PAPER_LEVELS)):
        quality = 0.05 * max(0, ESTIMATORS.index(name) - 4) / len(ESTIMATORS) if t else 0.0
        chance = 0.9 - 0.5 * t - quality + LUCK * generator.standard_normal((SEEDS, 1))
        correct[name, t] = generator.random((SEEDS, IMAGES), dtype=np.float32) < chance
    return Correctness(ESTIMATORS, PAPER_LEVELS, correct)


class JudgedRows(NamedTuple):
    """Numbers of a board."""

    estimates: Mapping[str, Floats]  # values and half-widths of their intervals, (2, ...), by field name of `Row`
    verdicts: NDArray[np.bool_]  # significant difference from Random and from Sobel, bool (2, rows)
    places: NDArray[np.int64]  # best and worst rank, (2, rows)


def judge_by_scipy(given: Correctness) -> JudgedRows:
    """Judge all rows as `compute_board` does (docs/statistics.md), by one `bootstrap` over the images.

    The images are drawn for all cells together: one sample of shape (cells, images), which is much faster than a paired
    sample for each cell, of bytes, four times as fast as of float32. Everything else on a board is linear in the
    accuracies of its cells, and is worked out for all draws at once.
    """
    counts = np.stack([bits.sum(0, dtype=np.uint8) for bits in given.correct.values()])

    def accuracy(drawn: NDArray[np.uint8], axis: int) -> Floats:
        found: Floats = drawn.mean(axis=axis, dtype=np.float32) / SEEDS
        return found

    options = {"vectorized": True, "method": "percentile", "n_resamples": DRAWS, "batch": AT_ONCE}
    drawn = bootstrap((counts,), accuracy, axis=1, rng=np.random.default_rng(0), **options).bootstrap_distribution
    true, whole = draw_training_noise(given)
    values = (counts.mean(1) / SEEDS)[:, None]  # the first column is the measured data
    curves = np.hstack([values, drawn + true])
    rows, gains = select_row_curves(curves), compute_gains(curves)
    numbers = {
        "accuracies": curves,
        "differences": rows - rows[:1],
        "gain": gains,
        "predicted": compute_gains(np.hstack([values, values + np.sqrt(2) * whole])),
    }
    return JudgedRows(
        {name: measure_half_widths(draws) for name, draws in numbers.items()},
        find_significant(gains),
        compute_ranks(gains),
    )


def draw_training_noise(given: Correctness) -> tuple[Floats, Floats]:
    """Draw what other trainings would change in each cell, (cells, draws), without and with the noise of single images.

    The variance between trainings is pooled over cells, and drawn by its degrees of freedom.
    """
    generator = np.random.default_rng(1)
    every = np.stack(list(given.correct.values())).astype(np.float32)
    variance = float(every.mean(2).var(1, ddof=1).mean())
    # variance of one image's correctness over trainings: residual plus variance between trainings
    within = every.var(1, ddof=1).mean()
    noise = float(within - variance) / IMAGES
    freedom = len(every) * (SEEDS - 1)
    found = variance * freedom / generator.chisquare(freedom, DRAWS)
    mean = generator.standard_normal((len(every), DRAWS)) / np.sqrt(SEEDS)
    true = np.maximum(0.0, found - noise)
    return np.sqrt(true) * mean, np.sqrt(true + noise) * mean


def select_row_curves(curves: Floats) -> Floats:
    return curves[1:].reshape(len(ESTIMATORS), len(PAPER_LEVELS), -1)


def compute_gains(curves: Floats) -> Floats:
    found = 100 * np.tensordot(compute_trapezoid_weights((0.0, *PAPER_LEVELS))[1:], select_row_curves(curves), (0, 1))
    below: Floats = found[0] - found
    return below


def measure_half_widths(drawn: Floats) -> Floats:
    """Return values and half the widths of their intervals; the values are the first of the draws, on the last axis."""
    far = np.abs(drawn[..., 1:] - drawn[..., :1])
    return np.stack([drawn[..., 0], np.quantile(far, CONFIDENCE, axis=-1)])


def find_significant(gains: Floats) -> NDArray[np.bool_]:
    """Test each row against Random and Sobel, adjusted for all."""
    others = np.stack([gains, gains - gains[1]])
    far = np.abs(others[..., 1:] - others[..., :1])
    p = (1 + (far >= np.abs(others[..., :1])).sum(-1)) / (1 + DRAWS)
    tested = np.ones(p.shape, bool)
    tested[0, 0] = tested[1, 1] = False
    found = np.zeros(p.shape, bool)
    found[tested] = false_discovery_control(p[tested]) <= FALSE_DISCOVERIES
    return found


def compute_ranks(gains: Floats) -> NDArray[np.int64]:
    """Return best and worst places by Romano and Wolf's step-down over all pairs."""
    one, two = np.triu_indices(len(gains), 1)
    pairs = gains[one] - gains[two]
    far, size = np.abs(pairs[:, 1:] - pairs[:, :1]), np.abs(pairs[:, 0])
    scale = np.quantile(far, CONFIDENCE, axis=1)
    far /= scale[:, None]
    apart = np.zeros(len(pairs), bool)
    while not apart.all():
        new = ~apart & (size > np.quantile(far[~apart].max(0), CONFIDENCE) * scale)
        if not new.any():
            break
        apart |= new
    up, down = apart & (pairs[:, 0] < 0), apart & (pairs[:, 0] > 0)
    above = np.bincount(one[up], minlength=len(gains)) + np.bincount(two[down], minlength=len(gains))
    below = np.bincount(two[up], minlength=len(gains)) + np.bincount(one[down], minlength=len(gains))
    return np.stack([1 + above, len(gains) - below])


def extract_judged_rows(found: Board) -> JudgedRows:
    rows = found.rows
    of_rows = ("differences", "gain", "predicted")
    numbers = {name: [getattr(row, name) for row in rows] for name in of_rows}
    numbers["accuracies"] = [rows[0].clean, *(each for row in rows for each in row.accuracies)]
    ends = {name: np.array(estimates, np.float64) for name, estimates in numbers.items()}
    halves = {name: np.stack([each[..., 0], (each[..., 2] - each[..., 1]) / 2]) for name, each in ends.items()}
    words = [[c is not None and c.verdict is not Verdict.SAME for c in (row.vs_random, row.vs_sobel)] for row in rows]
    places = [(row.place.low, row.place.high) for row in rows if row.place]
    return JudgedRows(halves, np.array(words).T, np.array(places).T)


def test_intervals(timer: PairedTimer) -> None:
    given = make_correctness()
    ours, same = extract_judged_rows(compute_board(given, ROAR, Bootstrap(DRAWS))), judge_by_scipy(given)
    for name, (value, half) in ours.estimates.items():
        expected, wide = same.estimates[name]
        np.testing.assert_allclose(value, expected, atol=1e-5, err_msg=name)
        # a 95 % quantile of 2,000 draws has a relative standard error of 2.4 %; the tolerance is five standard errors
        # of a difference
        np.testing.assert_allclose(half, wide, rtol=5 * 0.024 * 2**0.5, atol=1e-9, err_msg=name)
    assert (ours.verdicts == same.verdicts).mean() > 0.9, "those near the threshold may differ"
    assert np.abs(ours.places - same.places).max() <= 1, "so may pairs"
    mine, theirs = timer.time_in_turns(
        lambda: compute_board(given, ROAR, Bootstrap(DRAWS)), lambda: judge_by_scipy(given), rounds=3
    )
    detail = f"{mine:.2f} against {theirs:.2f} core-s, {len(ESTIMATORS)} rows, {IMAGES:,} images, {DRAWS:,} draws"
    timer.add_figure(Figure("bootstrap and place intervals", "scipy.stats.bootstrap", theirs / mine, 20, detail))

"""Compare `compute_board`, which draws nothing, with `scipy.stats.bootstrap`, which gives about the same intervals."""

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from peers.paired_timing import Figure, PairedTimer
from scipy.stats import bootstrap, false_discovery_control

from roarbench.common.enums import PAPER_LEVELS
from roarbench.plan.protocols import ROAR
from roarbench.stats.board_records import Board
from roarbench.stats.correctness_and_gain import UNTOUCHED, Correctness, compute_trapezoid_weights
from roarbench.stats.verdicts import FALSE_DISCOVERIES, Verdict
from tests.helpers.boards import compute_board

Floats = NDArray[np.floating]

ESTIMATORS = ("random", "sobel", *(f"e{index}" for index in range(18)))
SEEDS, IMAGES, DRAWS, CONFIDENCE = 5, 10_000, 2000, 0.95
TRAINING_NOISE = 0.01  # standard deviation of accuracy between training runs
AT_ONCE = 4  # draws per batch; 1 to 20 are equally fast


def make_correctness() -> Correctness:
    """Draw the correctness of rows of increasing quality, with noise for each training run."""
    generator = np.random.default_rng(0)
    correct = {}
    for name, t in (UNTOUCHED, *product(ESTIMATORS, PAPER_LEVELS)):
        quality = 0.05 * max(0, ESTIMATORS.index(name) - 4) / len(ESTIMATORS) if t else 0.0
        accuracy = 0.9 - 0.5 * t - quality + TRAINING_NOISE * generator.standard_normal((SEEDS, 1))
        correct[name, t] = generator.random((SEEDS, IMAGES), dtype=np.float32) < accuracy
    return Correctness(ESTIMATORS, PAPER_LEVELS, correct)


class JudgedRows(NamedTuple):
    """Numbers of a board."""

    estimates: Mapping[str, Floats]  # values and half-widths of their intervals, (2, ...), by field name of `Row`
    verdicts: NDArray[np.bool_]  # whether rows differ significantly from Random and from Sobel, (2, rows)
    ranks: NDArray[np.int64]  # best and worst rank, (2, rows)


def judge_by_scipy(scores: Correctness) -> JudgedRows:
    """Judge all rows as `compute_board` does (docs/statistics.md), by one `bootstrap` over the images.

    The images are drawn for all cells together. One sample of shape (cells, images) is much faster than a paired sample
    for each cell, and a sample of bytes is four times as fast as a sample of float32. All other numbers of a board are
    linear in the accuracies of its cells, and are computed for all draws at once.
    """
    counts = np.stack([bits.sum(0, dtype=np.uint8) for bits in scores.correct.values()])

    def accuracy(drawn: NDArray[np.uint8], axis: int) -> Floats:
        return np.asarray(drawn.mean(axis=axis, dtype=np.float32) / SEEDS)

    options = {"vectorized": True, "method": "percentile", "n_resamples": DRAWS, "batch": AT_ONCE}
    drawn = bootstrap((counts,), accuracy, axis=1, rng=np.random.default_rng(0), **options).bootstrap_distribution
    true, whole = draw_training_noise(scores)
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


def draw_training_noise(scores: Correctness) -> tuple[Floats, Floats]:
    """Draw the deviations of each cell due to training runs, (cells, draws), without and with image noise.

    The variance between training runs is pooled over cells, and drawn with its degrees of freedom.
    """
    generator = np.random.default_rng(1)
    cells = np.stack(list(scores.correct.values())).astype(np.float32)
    variance = float(cells.mean(2).var(1, ddof=1).mean())
    # variance of one image's correctness over training runs: residual plus variance between training runs
    within = cells.var(1, ddof=1).mean()
    noise = float(within - variance) / IMAGES
    freedom = len(cells) * (SEEDS - 1)
    drawn = variance * freedom / generator.chisquare(freedom, DRAWS)
    mean = generator.standard_normal((len(cells), DRAWS)) / np.sqrt(SEEDS)
    true = np.maximum(0.0, drawn - noise)
    return np.sqrt(true) * mean, np.sqrt(true + noise) * mean


def select_row_curves(curves: Floats) -> Floats:
    return curves[1:].reshape(len(ESTIMATORS), len(PAPER_LEVELS), -1)


def compute_gains(curves: Floats) -> Floats:
    areas = 100 * np.tensordot(compute_trapezoid_weights((0.0, *PAPER_LEVELS))[1:], select_row_curves(curves), (0, 1))
    return np.asarray(areas[0] - areas)


def measure_half_widths(drawn: Floats) -> Floats:
    """Return values and half the widths of their intervals; the last axis of `drawn` has the value, then its draws."""
    deviations = np.abs(drawn[..., 1:] - drawn[..., :1])
    return np.stack([drawn[..., 0], np.quantile(deviations, CONFIDENCE, axis=-1)])


def find_significant(gains: Floats) -> NDArray[np.bool_]:
    """Test each row against Random and Sobel; the p values are adjusted for all tests."""
    differences = np.stack([gains, gains - gains[1]])
    deviations = np.abs(differences[..., 1:] - differences[..., :1])
    p = (1 + (deviations >= np.abs(differences[..., :1])).sum(-1)) / (1 + DRAWS)
    tested = np.ones(p.shape, bool)
    tested[0, 0] = tested[1, 1] = False
    significant = np.zeros(p.shape, bool)
    significant[tested] = false_discovery_control(p[tested]) <= FALSE_DISCOVERIES
    return significant


def compute_ranks(gains: Floats) -> NDArray[np.int64]:
    """Compute best and worst ranks by Romano and Wolf's step-down procedure over all pairs."""
    one, two = np.triu_indices(len(gains), 1)
    pairs = gains[one] - gains[two]
    deviations, size = np.abs(pairs[:, 1:] - pairs[:, :1]), np.abs(pairs[:, 0])
    scale = np.quantile(deviations, CONFIDENCE, axis=1)
    deviations /= scale[:, None]
    apart = np.zeros(len(pairs), bool)
    while not apart.all():
        new = ~apart & (size > np.quantile(deviations[~apart].max(0), CONFIDENCE) * scale)
        if not new.any():
            break
        apart |= new
    up, down = apart & (pairs[:, 0] < 0), apart & (pairs[:, 0] > 0)
    above = np.bincount(one[up], minlength=len(gains)) + np.bincount(two[down], minlength=len(gains))
    below = np.bincount(two[up], minlength=len(gains)) + np.bincount(one[down], minlength=len(gains))
    return np.stack([1 + above, len(gains) - below])


def extract_judged_rows(board: Board) -> JudgedRows:
    rows = board.rows
    numbers = {name: [getattr(row, name) for row in rows] for name in ("differences", "gain", "predicted")}
    numbers["accuracies"] = [rows[0].clean, *(accuracy for row in rows for accuracy in row.accuracies)]
    ends = {name: np.array(estimates, np.float64) for name, estimates in numbers.items()}
    halves = {name: np.stack([end[..., 0], (end[..., 2] - end[..., 1]) / 2]) for name, end in ends.items()}
    verdicts = [
        [test is not None and test.verdict is not Verdict.SAME for test in (row.vs_random, row.against.get("sobel"))]
        for row in rows
    ]
    ranks = [(row.place.low, row.place.high) for row in rows if row.place]
    return JudgedRows(halves, np.array(verdicts).T, np.array(ranks).T)


def test_intervals(timer: PairedTimer) -> None:
    scores = make_correctness()
    ours, theirs = extract_judged_rows(compute_board(scores, ROAR)), judge_by_scipy(scores)
    for name, (value, half) in ours.estimates.items():
        expected, expected_half = theirs.estimates[name]
        np.testing.assert_allclose(value, expected, atol=1e-5, err_msg=name)
        # a 95 % quantile of 2,000 draws has a relative standard error of 2.4 %; the tolerance is five standard errors
        # of a difference
        np.testing.assert_allclose(half, expected_half, rtol=5 * 0.024 * 2**0.5, atol=1e-9, err_msg=name)
    assert (ours.verdicts == theirs.verdicts).mean() > 0.9, "verdicts near the threshold may differ"
    assert np.abs(ours.ranks - theirs.ranks).max() <= 1, "pairs near the threshold may differ"
    mine, scipy = timer.time_in_turns(lambda: compute_board(scores, ROAR), lambda: judge_by_scipy(scores), rounds=3)
    detail = f"{mine:.3f} against {scipy:.2f} core-s, {len(ESTIMATORS)} rows, {IMAGES:,} images, {DRAWS:,} draws"
    timer.add_figure(Figure("intervals, verdicts and ranks", "scipy.stats.bootstrap", scipy / mine, 100, detail))

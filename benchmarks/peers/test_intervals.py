"""Gains with intervals and places by `scipy.stats.bootstrap`: the images drawn anew, the same ones for all cells."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray
from peers.beside import Beside, Figure
from scipy.stats import bootstrap

from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import UNTOUCHED, Scores, area_weights
from roarbench.stats.judging import board
from roarbench.terms import PAPER_LEVELS, ROAR

ESTIMATORS = ("random", "sobel", *(f"e{index}" for index in range(18)))
SEEDS, IMAGES, DRAWS = 5, 10_000, 2000


def scores() -> Scores:
    generator = np.random.default_rng(0)
    points = [UNTOUCHED, *product(ESTIMATORS, PAPER_LEVELS)]
    correct = {point: generator.random((SEEDS, IMAGES), dtype=np.float32) < 0.9 - 0.5 * point[1] for point in points}
    return Scores(ESTIMATORS, PAPER_LEVELS, correct)


def by_scipy(given: Scores) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return intervals of all gains (2, rows), and of all places: the ends of 95 % of the draws.

    A gain is linear in the answers, so each row is one number for each image before anything is drawn; no other
    formulation by `bootstrap` is as fast.
    """
    weights = area_weights((0.0, *PAPER_LEVELS))
    curves = np.stack(
        [
            np.tensordot(weights, np.stack([given.correct[point].mean(0) for point in given.curve(name)]), 1)
            for name in ESTIMATORS
        ]
    )
    rows = tuple(100 * (curves[0] - curves[1:]).astype(np.float32))

    def gains(*drawn: NDArray[np.float32], axis: int) -> Sequence[NDArray[np.float32]]:
        return [each.mean(axis=axis) for each in drawn]

    options = {"paired": True, "vectorized": True, "method": "percentile", "n_resamples": DRAWS, "batch": 100}
    found = bootstrap(rows, gains, rng=np.random.default_rng(0), **options)
    places = 1 + (-found.bootstrap_distribution).argsort(0).argsort(0)
    return np.stack(found.confidence_interval), np.quantile(places, (0.025, 0.975), axis=1)


def test_intervals(beside: Beside) -> None:
    """Time the whole board, which draws trainings as well as images, judges every row and places by pairs."""
    given = scores()
    judged = board(given, ROAR, Bootstrap(DRAWS))
    ends, _ = by_scipy(given)
    for row, low, high in zip(judged.rows, *ends, strict=False):
        assert row.gain.value is not None or low < high
    mine, theirs = beside.seconds(lambda: board(given, ROAR, Bootstrap(DRAWS)), lambda: by_scipy(given), rounds=2)
    detail = f"{mine:.1f} against {theirs:.1f} core-s, {len(ESTIMATORS)} rows, {IMAGES:,} images, {DRAWS:,} draws"
    beside.keep(Figure("bootstrap and place intervals", "scipy.stats.bootstrap", theirs / mine, 20, detail))

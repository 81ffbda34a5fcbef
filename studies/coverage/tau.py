"""Simulate pairs of boards with normal gains, and count how often the interval of Kendall's tau contains the truth."""

import numpy as np

from roarbench.stats.board_agreement import compute_agreement
from roarbench.stats.bootstrap_intervals import Sample
from roarbench.stats.curves import Floats

OUTCOME = ("held", "width", "held_by_percentiles", "width_of_percentiles")


def simulate_agreement(rows: int, spread: float, likeness: float, repeats: int, seed: int = 0) -> dict[str, float]:
    """Simulate the share of intervals that contain the true Kendall's tau of two boards, and their mean width.

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
    means = np.reshape(outcomes, (repeats, len(OUTCOME))).mean(0)
    return dict(zip(OUTCOME, means.tolist(), strict=True))


def _compute_tau(one: Floats, other: Floats) -> Floats:
    """Compute Kendall's tau of arrays (rows, ...) without ties."""
    first, second = np.triu_indices(len(one), 1)
    return np.asarray(np.mean(np.sign(one[first] - one[second]) * np.sign(other[first] - other[second]), axis=0))

"""Does the interval of Kendall's tau between two boards hold the true one? Boards with normal gains."""

import numpy as np

from roarbench.stats.board_agreement import compute_agreement
from roarbench.stats.bootstrap_intervals import Sample
from roarbench.stats.curves import Floats

OUTCOME = ("held", "width", "held_by_percentiles", "width_of_percentiles")


def simulate_agreement(rows: int, spread: float, likeness: float, repeats: int, seed: int = 0) -> dict[str, float]:
    """Return which share of intervals holds the true Kendall's tau of two boards, and how wide they are on average.

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
        found = compute_agreement(boards[0], boards[1], 0.95)
        assert found is not None and found.tau.low is not None and found.tau.high is not None
        tau = float(_compute_tau(true[0], true[1]))
        for low, high in (
            (found.tau.low, found.tau.high),
            np.quantile(_compute_tau(draws[0], draws[1]), (0.025, 0.975)),
        ):
            outcomes += [low - 1e-9 <= tau <= high + 1e-9, high - low]
    means = np.reshape(outcomes, (repeats, len(OUTCOME))).mean(0)
    return dict(zip(OUTCOME, means.tolist(), strict=True))


def _compute_tau(one: Floats, other: Floats) -> Floats:
    """Compute Kendall's tau without ties of arrays (rows, ...)."""
    first, second = np.triu_indices(len(one), 1)
    return np.asarray(np.mean(np.sign(one[first] - one[second]) * np.sign(other[first] - other[second]), axis=0))

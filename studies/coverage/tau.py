"""Does the interval of Kendall's tau between two boards hold the true one? Boards with normal gains."""

from typing import NamedTuple

import numpy as np

from roarbench.stats.bootstrap import Sample
from roarbench.stats.curves import Floats
from roarbench.stats.replication import agreement


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

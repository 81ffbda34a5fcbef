"""Do two protocols put the estimators in the same order?"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.stats.bootstrap import Estimate, Sample
from roarbench.stats.curves import Floats
from roarbench.stats.pairs import Pairs

FEWEST_ROWS = 3  # two rows agree or not: that is no correlation


class Agreement(NamedTuple):
    """Agreement of two orders."""

    # Kendall's tau-b, 1 for the same order and -1 for the opposite one. The interval lets every pair whose order is
    # open under one of the protocols fall either way
    tau: Estimate
    rows: int  # estimators with a gain under both
    # pairs whose order is settled under both protocols; its interval of 95% keeps to one side of 0. None where nothing
    # says how trainings vary
    settled: int | None
    opposed: int | None  # those of them that the protocols order differently


def agreement(one: Mapping[str, Sample], other: Mapping[str, Sample], confidence: float) -> Agreement | None:
    """Return Kendall's tau between the gains of two protocols; rows that lack one of them are left out.

    The interval is not read off the draws: noise only ever lowers tau, in each draw once more than in the data, so
    that their percentiles miss a perfect agreement always (docs/statistics.md).

    Args:
        one: Gains by estimator, above 0 is better.
        other: The same of the other protocol.
        confidence: Of each pair's interval, in (0, 1).

    Returns:
        None for fewer than three common rows, or where one protocol gives all the same gain.
    """
    rows = [name for name in one if name in other]
    if len(rows) < FEWEST_ROWS:
        return None
    (first, sure_one), (second, sure_other) = (
        _signs([gains[name] for name in rows], confidence) for gains in (one, other)
    )
    norm = np.sqrt(np.count_nonzero(first) * np.count_nonzero(second))
    if norm == 0:
        return None
    from scipy.stats import kendalltau  # as long to import as a table takes, which needs no tau

    tau = kendalltau([one[name].value for name in rows], [other[name].value for name in rows]).statistic
    products, settled = first * second, sure_one & sure_other
    sure, free = int(products[settled].sum()), int(np.count_nonzero(~settled))
    interval = Estimate(float(tau), float(max(-1.0, (sure - free) / norm)), float(min(1.0, (sure + free) / norm)))
    both = settled & (products != 0)
    return Agreement(interval, len(rows), int(both.sum()), int((products[both] < 0).sum()))


def _signs(samples: list[Sample], confidence: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the signs of all pairs: which one has the larger gain, and whether that is settled."""
    pairs = Pairs.of(samples, confidence)
    values, halves = pairs.differences[pairs.upper], pairs.halves[pairs.upper]
    # twins are settled, too: neither is above the other in any draw
    return np.sign(values), (np.abs(values) > halves) | ((values == 0) & (halves == 0))

"""Looks at a board while its trainings go on: wrong words stay as rare over all looks as one look would leave them.

Whoever looks after every training and stops when a verdict is there finds a false one sooner or later. So each look
spends an equal share of the error that the whole course may make (Lan and DeMets 1983; by Bonferroni's bound, which
asks nothing of how looks depend on each other), and intervals are as wide as that demands (repeated confidence
intervals, Jennison and Turnbull 1989). `docs/decisions/0023-trainings-until-decided.md` has how this was chosen.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from roarbench.stats.bootstrap import Sample
from roarbench.stats.verdicts import Comparison, compare

Key = TypeVar("Key", bound=Hashable)


def share(looks: int) -> float:
    """Return the share of the whole course's error that each of so many planned looks spends."""
    return 1 / looks


def compare_watched(
    family: Mapping[Key, Sample], shares: Mapping[Key, float], joining: Iterable[Mapping[Key, Sample]] = ()
) -> dict[Key, Comparison]:
    """Judge all comparisons of rows that are looked at again and again; above 0 is better.

    Over the whole course and all these comparisons the chance of any wrong word is 5% at most: each p is divided by the
    share, in (0, 1], that its look spends, then all are adjusted together (Holm 1979).
    """
    return compare(family, joining, holm, shares)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p adjusted for the family by Holm's step-down, in [0, 1]."""
    p = np.asarray(ps, np.float64)
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, stepped)
    return [float(q) for q in adjusted]

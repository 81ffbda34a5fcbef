"""How the probability of the predicted class falls in what is not retrained, from stored rows; reaches no torch."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roarbench.analysis.boards import SuiteResults
from roarbench.plan.runs import CLEAN
from roarbench.protocols.declaration import Protocol
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.curves import UNTOUCHED, Floats, Point
from roarbench.stats.probability import Drop, probability_drop
from roarbench.terms import Retrain, Unit

_NOTHING = Drop(Estimate(), (Estimate(),), (Estimate(),))  # of a level that is missing


class ProbabilityDrop(NamedTuple):
    """One row of a table without retraining; intervals are over test images, and what is missing has no value.

    Attributes:
        untouched: Mean probability of the predicted class on the untouched images, p_0, in [0, 1].
        probabilities: The same per level, of the class that was predicted on the untouched image, p_k.
        changes: Mean of |p_0 - p_k| / p_0, per level, at least 0.
        aopc: Mean over images and levels of p_0 - p_k, in [-1, 1]; missing while a level is.
    """

    untouched: Estimate
    probabilities: tuple[Estimate, ...]
    changes: tuple[Estimate, ...]
    aopc: Estimate


def probability_drops(
    suite_results: SuiteResults, protocol: Protocol, unit: Unit, levels: Sequence[float]
) -> dict[str, ProbabilityDrop]:
    """Return the drops of all estimators that have rows under a protocol without retraining; none under any other.

    Missing are those of curves that were made from different references, and all while the untouched images are.
    """
    found = _probabilities(suite_results, protocol, unit)
    mixed, untouched = suite_results.mixed(protocol, unit), found.get(UNTOUCHED)
    if untouched is None or untouched.min() <= 0:
        return {}
    names = dict.fromkeys(name for name, _ in found if name != CLEAN and name not in mixed)
    return {name: _drop_of(untouched, [found.get((name, t)) for t in levels]) for name in names}


def _drop_of(untouched: Floats, degraded: Sequence[Floats | None]) -> ProbabilityDrop:
    found = [probability_drop(untouched, row[None]) if row is not None else _NOTHING for row in (untouched, *degraded)]
    whole = [row for row in degraded if row is not None]
    return ProbabilityDrop(
        found[0].probabilities[0],
        tuple(drop.probabilities[0] for drop in found[1:]),
        tuple(drop.relative[0] for drop in found[1:]),
        probability_drop(untouched, np.stack(whole)).aopc if len(whole) == len(degraded) else Estimate(),
    )


def _probabilities(suite_results: SuiteResults, protocol: Protocol, unit: Unit) -> dict[Point, Floats]:
    """Return the probability of the predicted class for each image, by point; the mean over seeds."""
    found: defaultdict[Point, list[Floats]] = defaultdict(list)
    asked = (protocol.order, unit, suite_results.suite.fill(protocol))
    for point, result in suite_results.results.items():
        cell, probability = point.cell, result.probabilities
        wanted = cell.estimator == CLEAN or (cell.order, cell.unit, cell.fill) == asked
        if protocol.retrain is cell.retrain is Retrain.NONE and wanted and probability is not None:
            found[cell.estimator, cell.t].append(probability.astype(np.float64))
    rows = {point: np.mean(each, axis=0) for point, each in found.items()}
    return {point: row for point, row in rows.items() if ((row >= 0) & (row <= 1)).all()}  # NaN is none

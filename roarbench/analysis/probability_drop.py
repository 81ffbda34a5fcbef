"""Fall of the predicted class's probability without retraining, from stored rows. Imports no torch."""

from collections.abc import Sequence

import numpy as np

from roarbench.analysis.suite_results import SuiteResults
from roarbench.enums import Unit
from roarbench.plan.runs import CLEAN
from roarbench.protocols.protocol import Protocol
from roarbench.stats.curves import UNTOUCHED, Floats, Point
from roarbench.stats.probability_drop import ProbabilityDrop, compute_probability_drop


def compute_probability_drops(
    suite_results: SuiteResults, protocol: Protocol, unit: Unit, levels: Sequence[float]
) -> dict[str, ProbabilityDrop]:
    """Return the drops of all estimators that have rows under a protocol without retraining; none under any other.

    Missing are those of curves that were made from different references, and all while the untouched images are.
    """
    if not protocol.has_probabilities:
        return {}
    found = _probabilities(suite_results, protocol, unit)
    mixed, untouched = suite_results.inconsistent(protocol, unit), found.get(UNTOUCHED)
    if untouched is None or untouched.min() <= 0:
        return {}
    names = dict.fromkeys(name for name, _ in found if name != CLEAN and name not in mixed)
    return {name: compute_probability_drop(untouched, [found.get((name, t)) for t in levels]) for name in names}


def _probabilities(suite_results: SuiteResults, protocol: Protocol, unit: Unit) -> dict[Point, Floats]:
    """Return the probability of the predicted class for each image, by point; the mean over seeds."""
    found: dict[Point, Floats] = {}
    for point, seeds in suite_results.held(protocol, unit).items():
        known = [made.probabilities for made in seeds.values() if made.probabilities is not None]
        row = np.asarray(np.mean(known, axis=0, dtype=np.float64) if known else np.nan)
        if ((row >= 0) & (row <= 1)).all():  # NaN is none
            found[point] = row
    return found

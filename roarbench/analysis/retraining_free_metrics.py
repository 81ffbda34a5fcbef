"""Faithfulness to one network without retraining: the drop of the predicted probability.

It uses a network that was never trained on images with removed features; ROAR avoids this problem. Therefore it has
separate columns and does not affect gains, ranks, verdicts and warnings. Nothing here imports torch.
"""

from collections.abc import Sequence

import numpy as np

from roarbench.analysis.suite_results import SuiteResults
from roarbench.enums import Unit
from roarbench.plan.protocols import Protocol
from roarbench.plan.runs import CLEAN
from roarbench.stats.curves import UNTOUCHED, Floats, Point
from roarbench.stats.probability_drop import ProbabilityDrop, compute_probability_drop


def compute_probability_drops(
    suite_results: SuiteResults, protocol: Protocol, unit: Unit, levels: Sequence[float]
) -> dict[str, ProbabilityDrop]:
    """Return the probability drops of all rows under a protocol without retraining; empty for other protocols.

    Rows with results for different explained networks are left out. The result is empty until the untouched images are
    scored.
    """
    if not protocol.has_probabilities:
        return {}
    probabilities = _collect_probabilities(suite_results, protocol, unit)
    mixed, untouched = suite_results.explain_inconsistent_rows(protocol, unit), probabilities.get(UNTOUCHED)
    if untouched is None or untouched.min() <= 0:
        return {}
    names = dict.fromkeys(name for name, _ in probabilities if name != CLEAN and name not in mixed)
    return {name: compute_probability_drop(untouched, [probabilities.get((name, t)) for t in levels]) for name in names}


def _collect_probabilities(suite_results: SuiteResults, protocol: Protocol, unit: Unit) -> dict[Point, Floats]:
    """Return the predicted class's probability for each image, by point, averaged over seeds."""
    probabilities: dict[Point, Floats] = {}
    for point, seeds in suite_results.find_results(protocol, unit).items():
        known = [made.probabilities for made in seeds.values() if made.probabilities is not None]
        row = np.asarray(np.mean(known, axis=0, dtype=np.float64) if known else np.nan)
        if ((row >= 0) & (row <= 1)).all():  # comparisons with NaN are false
            probabilities[point] = row
    return probabilities

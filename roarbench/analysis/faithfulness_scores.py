"""Define Quantus' metrics, and compute the drops of predicted probabilities of a suite's rows.

Both measure faithfulness on a network that was never trained on images with removed features; ROAR avoids this problem.
Therefore they have separate columns and do not affect gains, ranks, verdicts and warnings (docs/quantus.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import MapNumerics, Unit
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import make_reference_spec
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import SuiteSpec
from roarbench.stats.correctness_and_gain import UNTOUCHED, Floats, Point
from roarbench.stats.probability_drop import ProbabilityDrop, compute_probability_drop
from roarbench.store.annotations_and_scores import ScoreSpec

IMAGES = 64  # the first test images; one batch of Quantus
STEPS = 8  # steps per channel: each step flips an eighth of the pixels, counted in scalars
PATCHES = 8  # regions per side
REGIONS = 16  # removed regions: a quarter of the image
RUNS = 50  # random subsets, each of an eighth of the scalars
SEED = 0


@dataclass(frozen=True)
class Metric:
    """A metric with its column."""

    id: str  # name in the store, in JSON and in CSV
    heading: str  # column heading, with an arrow towards better maps
    parameters: str  # arguments of Quantus, for any image size; part of a score's identity
    about: str  # description of the number


_COMMON = (
    "abs=False, normalise=False, softmax=True, perturb_baseline=0 (the mean of the training images), "
    "constant maps left out one by one"
)
METRICS = (
    Metric("pixel-flipping", "PF ↓", f"features_in_step=h*w/{STEPS}, {_COMMON}; mean over all steps",
        "mean probability of the predicted class while scalars are removed, most important first"),
    Metric("region-perturbation", "RP ↑",
        f"patch_size=h/{PATCHES}, regions_evaluation={REGIONS}, order=morf, {_COMMON}; mean over the regions",
        f"mean decrease of this probability while the {REGIONS} most important of {PATCHES} x {PATCHES} regions are "
        "removed"),
    Metric("faithfulness-correlation", "FC ↑",
        f"nr_runs={RUNS}, subset_size=c*h*w/8 scalars, or h*w/8 pixels for maps with one value per pixel, "
        f"numpy seed={SEED}, {_COMMON}",
        f"correlation, over {RUNS} random subsets of scalars (of pixels, if a map has one value per pixel), of this "
        "decrease with the removed importance"),
)  # fmt: skip


def list_score_specs(suite: SuiteSpec, data: str) -> dict[tuple[str, str], ScoreSpec]:
    """Return the specifications of the scores to compute, by (estimator, metric), for every estimator that has maps."""
    reference = make_reference_spec(suite, data).key
    mapped = [estimator for estimator in suite.estimator_records if estimator.has_own_map]
    making = {estimator: suite.maps if estimator.uses_shared_pass else MapNumerics.FLOAT32 for estimator in mapped}
    return {
        (estimator.id, metric.id): ScoreSpec(
            data, reference, estimator.fingerprint, metric.id, metric.parameters, IMAGES, making[estimator]
        )
        for estimator in mapped
        for metric in METRICS
    }


def compute_probability_drops(
    suite_results: SuiteResults, protocol: Protocol, unit: Unit, levels: Sequence[float]
) -> dict[str, ProbabilityDrop]:
    """Return the probability drops of all rows under a protocol without retraining; empty for other protocols.

    Inconsistent rows are left out. The result is empty until the untouched images are scored.
    """
    if not protocol.stores_predicted_probability:
        return {}
    probabilities: dict[Point, Floats] = {}  # of each image's predicted class, averaged over seeds
    for point, seeds in suite_results.find_results(protocol, unit).items():
        known = [made.probabilities for made in seeds.values() if made.probabilities is not None]
        row = np.asarray(np.mean(known, axis=0, dtype=np.float64) if known else np.nan)
        if ((row >= 0) & (row <= 1)).all():  # comparisons with NaN are false
            probabilities[point] = row
    mixed, untouched = suite_results.explain_inconsistent_rows(protocol, unit), probabilities.get(UNTOUCHED)
    if untouched is None or untouched.min() <= 0:
        return {}
    names = dict.fromkeys(name for name, _ in probabilities if name != CLEAN and name not in mixed)
    return {name: compute_probability_drop(untouched, [probabilities.get((name, t)) for t in levels]) for name in names}

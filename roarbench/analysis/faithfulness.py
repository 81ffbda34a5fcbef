"""Quantus' faithfulness metrics that tables have columns of, with their parameters. No torch, no Quantus.

They judge a map by one network that never learnt images with features missing, which is what ROAR was made to avoid.
So they stand in columns of their own and are no part of gain, place, verdict or flag (docs/quantus.md).
"""

from dataclasses import dataclass

from roarbench.enums import Making
from roarbench.plan.run_keys import make_reference
from roarbench.plan.suite import SuiteSpec
from roarbench.store.quantus_scores import ScoreSpec

IMAGES = 64  # the first of the test split; one batch of Quantus
STEPS = 8  # per channel: a step flips an eighth of the pixels, counted in scalars
PATCHES = 8  # regions along a side
REGIONS = 16  # that are removed: a quarter of the image
RUNS = 50  # random subsets of an eighth of the scalars
SEED = 0


@dataclass(frozen=True)
class Metric:
    """One column."""

    id: str  # name in the store, in JSON and in CSV
    heading: str  # of the column, with an arrow to where a map is better
    parameters: str  # what is asked of Quantus, for any size of image; part of a score's identity
    about: str  # what the number is


_COMMON = "abs=False, normalise=False, softmax=True, perturb_baseline=0 (the mean of the training images)"
METRICS = (
    Metric(
        "pixel-flipping",
        "PF ↓",
        f"features_in_step=h*w/{STEPS}, {_COMMON}; mean over all steps",
        "probability of the predicted class while scalars are removed, most important first",
    ),
    Metric(
        "region-perturbation",
        "RP ↑",
        f"patch_size=h/{PATCHES}, regions_evaluation={REGIONS}, order=morf, {_COMMON}; mean over the regions",
        f"loss of that probability over the {REGIONS} most important of {PATCHES} x {PATCHES} regions",
    ),
    Metric(
        "faithfulness-correlation",
        "FC ↑",
        f"nr_runs={RUNS}, subset_size=c*h*w/8, numpy seed={SEED}, {_COMMON}",
        f"correlation of that loss with the importance removed, over {RUNS} random subsets",
    ),
)


def list_score_specs(suite: SuiteSpec, data: str) -> dict[tuple[str, str], ScoreSpec]:
    """Return what there is to score: (estimator, metric) of every estimator that has maps."""
    reference = make_reference(suite, data).key
    mapped = [estimator for estimator in suite.estimator_records if estimator.has_map]
    making = {estimator: suite.maps if estimator.shared else Making.FLOAT32 for estimator in mapped}
    return {
        (estimator.id, metric.id): ScoreSpec(
            data, reference, estimator.fingerprint, metric.id, metric.parameters, IMAGES, making[estimator]
        )
        for estimator in mapped
        for metric in METRICS
    }

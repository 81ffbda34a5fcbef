"""Select about 24 test images whose maps are shown, with the stored correctness of their predictions."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.correctness_of_suite import load_kept_under_own_and_next_map
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.estimators.catalogue import find_estimator_or_placeholder
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import OWN_NETWORK, Protocol
from roarbench.stats.correctness_and_gain import Bits

IMAGES = 24
RULE = (
    "The {known:,} test images {condition} were sorted by the number of {predictions} "
    "lost under masks of estimators that use the network; {count} at equal steps are shown, the largest loss first."
)


class CorrectCountsPerImage(NamedTuple):
    """Correct predictions per image, summed over levels: under a row's own masks, and under its counterpart's masks.

    `against` is empty if the row has no counterpart. `of` is the number of predictions per image.
    """

    own: tuple[int, ...]
    against: tuple[int, ...]
    of: int
    word: str = "right"  # name of a count; own-network gain counts predictions that are "kept"


def find_pictured_protocol(results: SuiteResults) -> Protocol:
    """Return the protocol whose masks are shown: own-network gain if it has results, else the headline protocol."""
    return OWN_NETWORK if results.has_started(OWN_NETWORK) else results.headline_protocol


def count_correct_per_image_over_all_levels(
    results: SuiteResults, protocol: Protocol, unit: Unit, row: str, images: Sequence[int]
) -> CorrectCountsPerImage:
    """Count a row's predictions on these images that are correct (or stay the same), over all levels and networks."""
    own, by_other_map = _collect_row_and_counterpart_correctness(results, protocol, unit, [row])
    right, against = (
        tuple(sum(bits[image] for bits in rows) for image in images) if rows else () for rows in (own, by_other_map)
    )
    return CorrectCountsPerImage(right, against, len(own), "kept" if protocol.scores_all_network_pairs else "right")


def _collect_row_and_counterpart_correctness(
    results: SuiteResults, protocol: Protocol, unit: Unit, names: Collection[str]
) -> tuple[Sequence[Bits], Sequence[Bits]]:
    """Return the correctness of rows and of their counterparts at the protocol's levels, as lists of bool (images,)."""
    if protocol.scores_all_network_pairs:
        pairs = [load_kept_under_own_and_next_map(results, protocol, unit, name) for name in names]
        return [bits for own, _ in pairs for bits in own], [bits for _, other in pairs for bits in other]
    twins = [protocol.make_paired_twin_id(name) for name in names]
    stored, levels = results.find_results(protocol, unit).items(), results.list_included_levels(protocol, unit)
    own, other = (
        [made.correctness for (name, t), seeds in stored if name in rows and t in levels for made in seeds.values()]
        for rows in (names, twins)
    )
    return own, other


def choose_images_spread_by_lost_predictions(
    results: SuiteResults, protocol: Protocol, unit: Unit, count: int = IMAGES
) -> tuple[NDArray[np.int64], str]:
    """Choose the test images to show, int64 (n,), and describe the rule in words; both are empty without results."""
    rows = results.suite.estimators_with_own_row
    asking = [name for name in rows if not find_estimator_or_placeholder(name).is_control_or_search]
    own, other = _collect_row_and_counterpart_correctness(results, protocol, unit, asking)
    if not own:
        return np.empty(0, np.int64), ""
    cost = np.asarray(np.sum(other, 0, dtype=np.int64) - np.sum(own, 0, dtype=np.int64))
    untouched = results.by_estimator.get(CLEAN, ())
    clean = [made.correctness for point, made in untouched if point.cell.retrain == protocol.retrain]
    known = np.flatnonzero(np.mean(clean, 0) > 0.5) if clean else np.arange(len(cost))
    order = np.asarray(known[np.argsort(-cost[known], kind="stable")])
    steps = np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(np.int64))
    # own-network gain never uses labels: an untouched prediction counts if another network predicts the same class
    condition, predictions = (
        ("on which the networks' predictions mostly agree", "predictions")
        if protocol.scores_all_network_pairs
        else ("that most networks classify correctly", "correct predictions")
    )
    rule = RULE.format(known=len(known), condition=condition, predictions=predictions, count=len(steps))
    return order[steps], rule

"""Compute gains and areas between curves from the measured cells of a protocol."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from roarbench.common.enums import Order, ScoredNetwork
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.protocols import Protocol
from roarbench.stats.board_records import RANDOM
from roarbench.stats.contrasts import Contrast, Quantities, join_quantities, measure_areas
from roarbench.stats.correctness_and_gain import POINTS, UNTOUCHED, Correctness, list_trapezoid_weights
from roarbench.stats.variance_components import VarianceComponents

_POINTS = int(POINTS)


def select_variance_components(protocol: Protocol, variances: VarianceComponents | None) -> VarianceComponents | None:
    """Return the variance components that apply to a protocol; without training, the training variance is left out."""
    if variances is None or protocol.trains:
        return variances
    return replace(variances, trainings=None) if variances.references else None


def measure_row_areas(scores: Correctness, cells: Quantities, levels: Sequence[float]) -> Quantities:
    """Measure the areas under the curves over these levels, in [0, 1], of rows and controls that are complete there.

    The point at t = 0 is left out, because it is the same for two curves that are compared.
    """
    names = dict.fromkeys((*scores.estimators, *CONTROLS))
    curves = {name: [(name, t) for t in levels] for name in names if name not in scores.inconsistent}
    complete = {name: points for name, points in curves.items() if all(point in cells.index for point in points)}
    return measure_areas(cells, complete, list_trapezoid_weights((0.0, *levels))[1:])


def compute_gains(scores: Correctness, protocol: Protocol, cells: Quantities) -> dict[str, Contrast]:
    """Compute gains, in accuracy points, of rows and controls with complete curves; empty without Random's curve.

    If one network is scored under a row's masks and under other masks, `scores` and `cells` are of the differences, and
    the gain is the area under them. Mask-only networks have no gains.
    """
    paired = protocol.random_is_zero
    if not scores.levels or not paired and protocol.retrain is ScoredNetwork.MASKS or UNTOUCHED not in cells.index:
        return {}
    areas = measure_row_areas(scores, cells, scores.levels)
    if not paired and RANDOM not in areas.index:
        return {}
    points = -_POINTS if protocol.order is Order.MORF else _POINTS
    less = {} if paired else {RANDOM: -points}
    return {name: areas.combine({name: points} | less if paired or name != RANDOM else {}) for name in areas.index}


def compute_areas_between_lerf_and_morf(
    morf: tuple[Correctness, Quantities],
    lerf: tuple[Correctness, Quantities],
    levels: Sequence[float],
    inconsistent: Collection[str],
) -> dict[str, Contrast]:
    """Compute the areas between LeRF and MoRF curves, in accuracy points, of rows that are complete and consistent.

    Larger is better. With retraining this is DiffROAR (Shah et al. 2021), without retraining SRG (Bluecher et al.
    2024). `inconsistent` lists the rows that are inconsistent in LeRF, MoRF or both; `morf` and `lerf`, correctness and
    accuracies, have the same images and `levels`.
    """
    above, below = (measure_row_areas(*measured, levels) for measured in (lerf, morf))
    joined = join_quantities(above, below)
    return {
        name: joined.combine({(0, name): _POINTS, (1, name): -_POINTS})
        for name in morf[0].estimators
        if name in above.index and name in below.index and name not in inconsistent
    }

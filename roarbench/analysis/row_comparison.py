"""Compare two rows: their gains, and the counts of predictions behind the gains at each level."""

from typing import NamedTuple

import numpy as np

from roarbench.analysis.bootstrap_draws import Evidence
from roarbench.analysis.own_network_results import compute_own_network_gains
from roarbench.enums import Order, Unit
from roarbench.plan.protocols import Protocol
from roarbench.stats.bootstrap import Estimate, make_estimate
from roarbench.stats.curves import POINTS
from roarbench.stats.sampled_gains import SampledGains
from roarbench.stats.verdicts import Comparison


class PredictionCount(NamedTuple):
    """Predictions at one level that count for and against a row, and their total: networks times test images."""

    gained: int
    against: int
    of: int

    @property
    def net_points(self) -> float:
        """Return the net share in accuracy points: `gained` minus `against`, divided by the total."""
        return POINTS * (self.gained - self.against) / self.of


class LevelComparison(NamedTuple):
    """Counts of two rows at level t; `difference` is the paired difference, first row's points minus the second's."""

    t: float
    first: PredictionCount
    second: PredictionCount
    difference: Estimate


class RowPair(NamedTuple):
    """Two rows under one protocol: the first gain minus the second, in points, and counts per level.

    `counted` describes the predictions that count for a row and those that count against it; the second string is empty
    if no predictions count against a row.
    """

    gain: Estimate
    comparison: Comparison | None  # with the verdict of all tables; None for pairs without a verdict
    levels: tuple[LevelComparison, ...]
    counted: tuple[str, str]


def compare_rows(evidence: Evidence, protocol: Protocol, unit: Unit, first: str, second: str) -> RowPair:
    """Compare two rows of a suite under one of its protocols.

    The tables compare own-network gains only with 0, so a comparison of two such gains has an interval but no verdict.
    """
    drawn = evidence.get_draws(protocol, unit)
    comparison = evidence.compare(protocol, unit, first, second)
    gain = comparison.difference if comparison else _estimate_difference(evidence, drawn, unit, first, second)
    held = (drawn.scores.differences or drawn.scores).correct
    common = [t for t in drawn.levels if (first, t) in held and (second, t) in held]
    return RowPair(
        gain,
        comparison,
        tuple(_compare_at_level(drawn, protocol, t, first, second) for t in common),
        _describe_counted_predictions(protocol),
    )


def _estimate_difference(evidence: Evidence, drawn: SampledGains, unit: Unit, first: str, second: str) -> Estimate:
    results, protocol, bootstrap = evidence.suite_results, drawn.protocol, evidence.bootstrap
    by_networks = protocol.by_networks
    areas = compute_own_network_gains(results, protocol, unit, bootstrap) if by_networks else drawn.areas
    one, two = areas.get(first), areas.get(second)
    if one is None or two is None:
        return Estimate()
    return make_estimate(one.subtract(two), bootstrap.confidence) if by_networks else drawn.estimate(one.subtract(two))


def _describe_counted_predictions(protocol: Protocol) -> tuple[str, str]:
    if not protocol.by_difference:
        return ("wrong answers", "") if protocol.order is Order.MORF else ("right answers", "")
    other = "the other mask" if protocol.paired else "ROAR" if protocol.made_of else "Random’s mask"
    own = "KAR" if protocol.made_of else "its own mask"
    sides = (f"right with {other} alone", f"right with {own} alone")
    return sides if protocol.order is Order.MORF else sides[::-1]


def _compare_at_level(drawn: SampledGains, protocol: Protocol, t: float, first: str, second: str) -> LevelComparison:
    one, other = ((drawn.draws.differences or drawn.draws).get_accuracy((name, t)) for name in (first, second))
    assert one and other, "asked only for points with results"
    over = one.subtract(other) if protocol.order is Order.LERF else other.subtract(one)
    counted, against = (_count_predictions(drawn, protocol, (name, t)) for name in (first, second))
    return LevelComparison(t, counted, against, drawn.estimate(over).in_points)


def _count_predictions(drawn: SampledGains, protocol: Protocol, point: tuple[str, float]) -> PredictionCount:
    removed_first = protocol.order is Order.MORF
    if drawn.scores.differences:
        answers = drawn.scores.differences.correct[point]
        gained, against = (int((answers == side).sum()) for side in ((-1, 1) if removed_first else (1, -1)))
        return PredictionCount(gained, against, answers.size)
    bits = drawn.scores.correct[point]
    return PredictionCount(int(np.count_nonzero(bits != removed_first)), 0, bits.size)

"""Compare two rows: their gains, and the counts of predictions behind the gains at each level."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.suite_judges import SuiteJudges
from roarbench.common.enums import Order, Unit
from roarbench.plan.protocols import Protocol
from roarbench.stats.board_records import RANDOM
from roarbench.stats.compute_board import Judge
from roarbench.stats.correctness_and_gain import POINTS
from roarbench.stats.intervals import Estimate, estimate
from roarbench.stats.verdicts import Comparison, Verdict


class PredictionCount(NamedTuple):
    """Predictions at one level that count for and against a row, and their total.

    The total is the number of networks times the number of test images. For own-network gain, the total is the number
    of pairs of a network and another network's map, times the number of images on which all networks agree.
    """

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

    `counted` has two strings, which describe the predictions that count for a row and against a row; the second string
    is empty if no predictions count against a row.
    """

    gain: Estimate
    comparison: Comparison | None  # with the verdict of all tables; None for pairs without a verdict
    levels: tuple[LevelComparison, ...]
    counted: tuple[str, str]
    planned: bool = False  # whether no column of a table has the comparison, so that its p value is not adjusted


def compare_rows(judges: SuiteJudges, protocol: Protocol, unit: Unit, first: str, second: str) -> RowPair:
    """Compare two rows of a suite under one of its protocols.

    A comparison that no column of a table contains was planned alone, so its p value is not adjusted.
    """
    judge, counted = judges.judge(protocol, unit), _describe_predictions_for_and_against(protocol)
    if protocol.scores_all_network_pairs:
        if not {first, second} <= judge.own_network.keys():
            return RowPair(Estimate(), None, (), counted)
        one, two = (judge.own_network[name] for name in (first, second))
        counts = [_count_discordant_predictions(own.kept, protocol.order) for own in (one, two)]
        compared = [estimate(a.subtract(b)) for a, b in zip(one.levels, two.levels, strict=True)]
        levels = tuple(LevelComparison(*row) for row in zip(judge.levels, *counts, compared, strict=True))
    else:
        correctness = (judge.scores.differences or judge.scores).correct
        common = [t for t in judge.levels if (first, t) in correctness and (second, t) in correctness]
        levels = tuple(_compare_at_level(judge, protocol, t, first, second) for t in common)
    comparison = judges.compare(protocol, unit, first, second)
    gain = comparison.difference if comparison else judge.estimate(judge.subtract_gain(first, second))
    planned = comparison is not None and judge.is_planned_alone(first, second)
    return RowPair(gain, comparison, levels, counted, planned)


def describe_subtraction(protocol: Protocol, names_by_row: Mapping[str, str]) -> str:
    """Return the subtraction behind `RowPair.gain`, `A - B`, with 0 if it replaces Random's measured gain."""
    shown = dict(names_by_row)
    if RANDOM in shown and protocol.random_is_zero and not protocol.scores_all_network_pairs:
        shown[RANDOM] = f"0 ({shown[RANDOM]}'s gain by construction)"
    return " - ".join(shown.values())


def describe_verdict(verdict: Verdict, names: Sequence[str]) -> str:
    """Return the verdict on the first of two rows in words; a larger gain alone does not explain a network."""
    if verdict is Verdict.SAME:
        return str(verdict)
    more, less = names if verdict is Verdict.BETTER else names[::-1]
    return f"{more} has a larger gain than {less}"


def _count_discordant_predictions(unchanged: NDArray[np.bool_], order: Order) -> list[PredictionCount]:
    """Count per level how networks differ under own and other maps; `unchanged` is (maps, networks, levels, images)."""
    networks, images = unchanged.shape[0], unchanged.shape[3]
    own = unchanged[np.arange(networks), np.arange(networks)]  # (networks, levels, images)
    # with its own map on both sides, a network adds 0
    by_other, by_own = ((one & ~two).sum((0, 1, 3)) for one, two in ((unchanged, own), (own, unchanged)))
    sides = (by_other, by_own) if order is Order.MORF else (by_own, by_other)
    return [PredictionCount(int(a), int(b), networks * (networks - 1) * images) for a, b in zip(*sides, strict=True)]


def _describe_predictions_for_and_against(protocol: Protocol) -> tuple[str, str]:
    if protocol.scores_all_network_pairs:
        sides = ("kept with another network’s mask alone", "kept with its own mask alone")
    elif protocol.random_is_zero:
        own, other = ("KAR", "ROAR") if protocol.computed_from else ("its own mask", "the other mask")
        sides = (f"right with {other} alone", f"right with {own} alone")
    else:
        return ("wrong answers", "") if protocol.order is Order.MORF else ("right answers", "")
    return sides if protocol.order is Order.MORF else sides[::-1]


def _compare_at_level(judge: Judge, protocol: Protocol, t: float, first: str, second: str) -> LevelComparison:
    one, other = (judge.paired_cells.get((name, t)) for name in (first, second))
    assert one and other, "asked only for points with results"
    over = one.subtract(other) if protocol.order is Order.LERF else other.subtract(one)
    counted, against = (_count_predictions_for_and_against(judge, protocol, (name, t)) for name in (first, second))
    return LevelComparison(t, counted, against, judge.estimate(over).in_points)


def _count_predictions_for_and_against(judge: Judge, protocol: Protocol, point: tuple[str, float]) -> PredictionCount:
    removed_first = protocol.order is Order.MORF
    if judge.scores.differences:
        answers = judge.scores.differences.correct[point]
        gained, against = (int((answers == side).sum()) for side in ((-1, 1) if removed_first else (1, -1)))
        return PredictionCount(gained, against, answers.size)
    bits = judge.scores.correct[point]
    return PredictionCount(int(np.count_nonzero(bits != removed_first)), 0, bits.size)

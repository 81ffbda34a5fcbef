"""Judge and compare a suite's rows, and find marks, the evidence against a row of ROAR; all boards share the judges."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.correctness_of_suite import collect_correctness, estimate_variance, load_kept_predictions
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import OTHER_IMAGE, Order, ScoredNetwork, Unit
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.protocols import MASK_ONLY, ROAR, Protocol
from roarbench.stats.board_records import RANDOM, Board, drop_ranks_and_verdicts
from roarbench.stats.compute_board import Judge
from roarbench.stats.contrasts import Contrast
from roarbench.stats.correctness_and_gain import POINTS, UNTOUCHED, Point
from roarbench.stats.gains import compute_areas_between_lerf_and_morf
from roarbench.stats.intervals import Estimate, estimate, estimate_ratio
from roarbench.stats.own_network_gain import JudgedGain
from roarbench.stats.verdicts import Comparison, Verdict

SOME, STRONG = 0.5, 0.9  # a mark has this grade if the lower end of its share's interval is larger
STABLE_ENOUGH = 0.8  # minimum prediction stability of a row without a mark
TIED = 0.5  # a row is doubted if a larger share of its features has one value
BLURRED_MAP, MASKS = "random-blurred", "masks"


@dataclass(frozen=True, eq=False)
class SuiteJudges:
    """Gains and accuracies of a suite's boards and checks by protocol, computed at first use and cached.

    All judges but `judges_by_unit` are for the unit `unit`.
    """

    suite_results: SuiteResults
    unit: Unit
    # shared by all units
    _judges: dict[tuple[Protocol, Unit, str], Judge] = field(default_factory=dict, repr=False)

    @cached_property
    def main_protocol(self) -> Protocol:
        return find_roar_or_headline_protocol(self.suite_results)

    @property
    def main_gains(self) -> Judge:
        return self.judge(self.main_protocol, self.unit)

    @property
    def roar(self) -> Judge:
        return self.judge(ROAR, self.unit)

    @property
    def mask_only(self) -> Judge:
        return self.judge(MASK_ONLY, self.unit)

    @property
    def highest_level_shared_with_mask_only(self) -> float:
        """Return the highest removal fraction that ROAR and mask-only share; 0 if there is none.

        The level does not depend on the results, so the error rate equals that of a single comparison.
        """
        return max((t for t in self.mask_only.levels if t in self.roar.levels), default=0.0)

    @cached_property
    def accuracies_above_masks(self) -> dict[Point, Estimate]:
        """Return the accuracies under ROAR minus those of mask-only networks, in [-1, 1], where both are known."""
        images, alone = self.roar.cells, self.mask_only.cells
        common = [point for point in self.mask_only.scores.correct if point in images.index and point != UNTOUCHED]
        judge = self.roar if self.mask_only.has_intervals else self.mask_only  # intervals need both
        return judge.estimate_all({point: images[point].subtract(alone[point]) for point in common})

    @cached_property
    def judges_by_unit(self) -> dict[Unit, Judge]:
        """Return the judges of the main protocol for each of its units in the suite."""
        units = self.suite_results.list_units(self.main_protocol)
        return {unit: self.judge(self.main_protocol, unit) for unit in units}

    @cached_property
    def judges_by_fill(self) -> dict[str, Judge]:
        """Return the judges of the main protocol for each fill value in the suite."""
        main = (self.main_protocol, self.unit)
        blocks = [block for block in self.suite_results.suite.blocks if (block.protocol, block.unit) == main]
        return {fill: self.judge(*main, fill) for fill in dict.fromkeys(block.fill for block in blocks)}

    @cached_property
    def smoothness(self) -> dict[tuple[str, float], float]:
        """Return the smoothness of the MoRF removal masks by estimator and level."""
        rows = [(point.cell, result.smoothness) for point, result in self.suite_results.results.items()]
        return {
            (cell.estimator, cell.t): smooth
            for cell, smooth in rows
            if (cell.order, cell.unit) == (Order.MORF, self.unit) and smooth is not None
        }

    def judge(self, protocol: Protocol, unit: Unit, fill: str = "") -> Judge:
        """Judge a protocol's rows, including twins; the default is the fill of its tables."""
        key = (protocol, unit, fill or self.suite_results.suite.find_fill(protocol))
        if key in self._judges:
            return self._judges[key]
        scores = collect_correctness(self.suite_results, *key)
        if protocol.scores_all_network_pairs:
            kept = load_kept_predictions(self.suite_results, protocol, unit, scores)
            counted = {name: self.suite_results.find_passes(name) for name in scores.estimators}
            sums = {name: passes and sum(passes) for name, passes in counted.items()}
            self._judges[key] = Judge.from_kept(scores, protocol, *kept, sums)
        else:
            variances = estimate_variance(self.suite_results, protocol, key[2]) if scores.levels else None
            self._judges[key] = Judge.from_scores(scores, protocol, variances)
        return self._judges[key]

    def make_board(self, protocol: Protocol, unit: Unit, rows: Collection[str] | None = None) -> Board | None:
        """Return the board with these rows, by default with all; None if the suite lacks the protocol."""
        judge = self.judge(protocol, unit)
        if not judge.levels:
            return None
        board = judge.make_board(rows)
        return drop_ranks_and_verdicts(board) if self.suite_results.at_chance_warning else board

    def list_gains(self, protocol: Protocol, unit: Unit) -> dict[str, JudgedGain]:
        """List the gains and verdicts of all rows, as in `make_board`; empty if the suite lacks the protocol."""
        gains, at_chance = self.judge(protocol, unit).list_gains(), self.suite_results.at_chance_warning
        return {name: gain._replace(verdict=None) if at_chance else gain for name, gain in gains.items()}

    def judge_areas_between_orders(self, morf: Protocol, lerf: Protocol) -> Judge:
        """Return the areas between the LeRF and the MoRF curves over their common levels."""
        one, other = (self.judge(protocol, self.unit) for protocol in (morf, lerf))
        covers = one.covers if other.has_intervals else other.covers
        levels = tuple(t for t in one.levels if t in other.levels)
        mixed = one.scores.inconsistent | other.scores.inconsistent
        scores = replace(one.scores, levels=levels, inconsistent=mixed)
        measured = ((one.scores, one.cells), (other.scores, other.cells))
        known = levels and one.scores.images and other.scores.images
        areas = compute_areas_between_lerf_and_morf(*measured, levels, mixed) if known else {}
        return replace(one, scores=scores, gains=areas, covers=covers)


def judge_suite(suite_results: SuiteResults, unit: Unit | None = None) -> SuiteJudges:
    """Return the judges of a suite; the default is the first unit of its main protocol."""
    return _share_judges(suite_results, unit or _share_judges(suite_results).unit)


@lru_cache(32)  # all tables of a suite's results share their judges
def _share_judges(suite_results: SuiteResults, unit: Unit | None = None) -> SuiteJudges:
    if unit:
        default = _share_judges(suite_results)
        return default if unit is default.unit else replace(default, unit=unit)
    units = suite_results.list_units(find_roar_or_headline_protocol(suite_results))
    return SuiteJudges(suite_results, units[0] if units else Unit.SCALAR)


def find_roar_or_headline_protocol(suite_results: SuiteResults) -> Protocol:
    """Return ROAR if a suite has results of ROAR, or has ROAR but no results at all; else the headline protocol.

    If the headline protocol has no gains (mask-only), ROAR is returned instead.
    """
    leading, has = suite_results.headline_protocol, any(block.protocol == ROAR for block in suite_results.suite.blocks)
    waits = has and not suite_results.results
    return ROAR if waits or suite_results.has_started(ROAR) or leading.retrain is ScoredNetwork.MASKS else leading


class Grade(StrEnum):
    """Severity of evidence against a row."""

    NONE = "none"
    SOME = "some"
    STRONG = "strong"


class Mark(NamedTuple):
    """A piece of evidence against a row."""

    kind: str  # `blurred`, `untrained`, `other-image`, `random-blurred` or `masks`
    # share of the row's gain that a weaker ranking reaches; for `masks`, share of the accuracy above chance that masks
    # alone reach. Missing for rows without a gain
    share: Estimate
    grade: Grade | None  # from the lower end of the interval; None without an interval


def do_marks_apply_to(protocol: Protocol) -> bool:
    """Return whether the marks, which are computed from gains under ROAR, apply to gains under this protocol.

    They do not where networks were never trained on an image's own mask, nor to own-network gain.
    """
    return protocol.retrain not in (ScoredNetwork.COMMON, ScoredNetwork.SIBLINGS)


@lru_cache(1024)  # tables of every protocol, and warnings beside them, show the same marks
def grade_shares_of_gain(judges: SuiteJudges, name: str) -> tuple[Mark, ...]:
    """Return the marks of a row: shares of its gain that weaker rankings reach, and the share that its masks reach.

    The share of the masks is a share of the row's accuracy above chance. If a row is not significantly better than
    Random, shares of its gain are unknown.
    """
    roar = judges.roar
    own = roar.gains.get(name)
    weaker = {kind: roar.gains.get(make_twin_id(name, kind)) for kind in ("blurred", "untrained", OTHER_IMAGE)}
    weaker[BLURRED_MAP] = roar.gains.get(BLURRED_MAP) if name not in (RANDOM, BLURRED_MAP) else None
    marks = [_grade_share(judges, kind, other, own) for kind, other in weaker.items() if own and other]
    at = name, judges.highest_level_shared_with_mask_only
    alone, images = (judge.cells.get(at) for judge in (judges.mask_only, roar))
    if alone and images:
        chance = judges.suite_results.chance
        marks.append(_grade_share(judges, MASKS, alone.shift(-chance), images.shift(-chance)))
    return tuple(marks)


def _grade_share(judges: SuiteJudges, kind: str, part: Contrast, whole: Contrast) -> Mark:
    """Return the mark of `part` as a share of `whole`, unknown without intervals and if networks are at chance."""
    known = judges.roar.has_intervals and (kind != MASKS or judges.mask_only.has_intervals)
    if not known or judges.suite_results.at_chance_warning:
        return Mark(kind, Estimate(), None)
    share = estimate_ratio(part, whole)
    if share.low is None:
        return Mark(kind, share, None)
    return Mark(kind, share, Grade.STRONG if share.low > STRONG else Grade.SOME if share.low > SOME else Grade.NONE)


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
        found = list[LevelComparison]()
        for t in judge.levels:
            own, other = (judge.paired_cells.get((name, t)) for name in (first, second))
            if own and other:  # else a result is missing
                over = own.subtract(other) if protocol.order is Order.LERF else other.subtract(own)
                one_count, other_count = (_count_predictions(judge, protocol, (name, t)) for name in (first, second))
                found.append(LevelComparison(t, one_count, other_count, judge.estimate(over).in_points))
        levels = tuple(found)
    comparison = None if judges.suite_results.at_chance_warning else judge.compare(first, second)
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


def _count_predictions(judge: Judge, protocol: Protocol, point: Point) -> PredictionCount:
    removed_first = protocol.order is Order.MORF
    if judge.scores.differences:
        answers = judge.scores.differences.correct[point]
        gained, against = (int((answers == side).sum()) for side in ((-1, 1) if removed_first else (1, -1)))
        return PredictionCount(gained, against, answers.size)
    bits = judge.scores.correct[point]
    return PredictionCount(int(np.count_nonzero(bits != removed_first)), 0, bits.size)

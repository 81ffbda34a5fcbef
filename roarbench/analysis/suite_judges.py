"""Judge a suite's rows once per protocol; all boards and checks share these judgements."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from roarbench.analysis.correctness_of_suite import collect_correctness, estimate_variance
from roarbench.analysis.own_network_gain_of_suite import load_kept_predictions
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.plan.protocols import MASK_ONLY, ROAR, Protocol
from roarbench.stats.board_records import Board, drop_ranks_and_verdicts
from roarbench.stats.compute_board import Judge
from roarbench.stats.correctness_and_gain import UNTOUCHED, Point
from roarbench.stats.gains import compute_areas_between_lerf_and_morf
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import JudgedGain
from roarbench.stats.verdicts import Comparison


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

    def estimate_accuracy_above_masks(self, estimator: str, t: float) -> Estimate:
        """Return the accuracy under ROAR minus the accuracy of mask-only networks, in [-1, 1]."""
        return self._accuracies_above_masks.get((estimator, t), Estimate())

    @cached_property
    def _accuracies_above_masks(self) -> dict[Point, Estimate]:
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
        if key not in self._judges:
            self._judges[key] = self._judge(*key)
        return self._judges[key]

    def _judge(self, protocol: Protocol, unit: Unit, fill: str) -> Judge:
        scores = collect_correctness(self.suite_results, protocol, unit, fill)
        if protocol.scores_all_network_pairs:
            kept = load_kept_predictions(self.suite_results, protocol, unit, scores)
            counted = {name: self.suite_results.find_passes(name) for name in scores.estimators}
            sums = {name: passes and sum(passes) for name, passes in counted.items()}
            return Judge.from_kept(scores, protocol, *kept, sums)
        variances = estimate_variance(self.suite_results, protocol, fill) if scores.levels else None
        return Judge.from_scores(scores, protocol, variances)

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

    def compare(self, protocol: Protocol, unit: Unit, first: str, second: str) -> Comparison | None:
        """Compare two rows as the tables do; None at chance, and without intervals."""
        return None if self.suite_results.at_chance_warning else self.judge(protocol, unit).compare(first, second)

    def judge_areas_between_orders(self, morf: Protocol, lerf: Protocol) -> Judge:
        """Return the areas between the LeRF and the MoRF curves over their common levels."""
        one, other = (self.judge(protocol, self.unit) for protocol in (morf, lerf))
        covers = one.covers if other.has_intervals else other.covers
        levels = tuple(t for t in one.levels if t in other.levels)
        mixed = one.scores.inconsistent | other.scores.inconsistent
        scores = replace(one.scores, levels=levels, inconsistent=mixed)
        measured = ((one.scores, one.cells), (other.scores, other.cells))
        areas = compute_areas_between_lerf_and_morf(*measured, levels, mixed) if levels else {}
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

"""Judge the rows of one protocol: their gains, verdicts and ranks, whatever the protocol measures."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import OTHER_IMAGE, OTHER_REFERENCE, Order, ScoredNetwork
from roarbench.estimators.estimator import CONTROLS, VARIANTS
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.protocols import Protocol
from roarbench.stats.board_records import RANDOM, ZERO, Board, IntervalScope, Row
from roarbench.stats.contrasts import Contrast, Quantities, measure_cells
from roarbench.stats.correctness_and_gain import POINTS, UNTOUCHED, Correctness, Point
from roarbench.stats.gains import compute_gains
from roarbench.stats.intervals import Estimate, Key, estimate_all, estimate_shares
from roarbench.stats.own_network_gain import (
    JudgedGain,
    OwnNetworkGain,
    OwnNetworkTest,
    OwnNetworkVerdict,
    SearchComparison,
    compare_with_searches,
    compute_own_network_gains,
    judge_beside_search,
    predict_replicated_gain,
)
from roarbench.stats.rank_intervals import Pairs, RankInterval, compute_rank_intervals, rank_by_gain
from roarbench.stats.variance_components import VarianceComponents, estimate_variance_components
from roarbench.stats.verdicts import Comparison, ControlComparison, Verdict, decide_verdicts, judge_comparisons

_TWINS = (OTHER_IMAGE, *VARIANTS, OTHER_REFERENCE)  # a row's own twins, each compared with the row
_MISSING = Estimate()
_Pair = tuple[str, str]  # a row, and the row that it is compared with


@dataclass(frozen=True, eq=False)
class Judge:
    """Measured rows of one protocol, with the variances of their numbers.

    The methods estimate numbers with their intervals, and compare, test and rank the rows.
    """

    scores: Correctness  # rows, levels and correctness; empty if the suite lacks the protocol
    protocol: Protocol
    # by estimator; for `SuiteJudges.judge_areas_between_orders`, areas between curves. In accuracy points, or points of
    # kept predictions
    gains: Mapping[str, Contrast]
    covers: IntervalScope
    # differences of correctness under a row's masks and under other masks, if `scores` has them; else accuracies
    paired_cells: Quantities
    variances: VarianceComponents | None = None  # None if unknown
    own_network: Mapping[str, OwnNetworkGain] = field(default_factory=dict)  # under own-network gain; it has no cells
    fixed: frozenset[str] = frozenset()  # rows whose own-network gain is 0 by construction
    passes: Mapping[str, float | None] = field(default_factory=dict)  # forward and backward, by row; None if unknown

    @classmethod
    def from_scores(cls, scores: Correctness, protocol: Protocol, variances: VarianceComponents | None) -> Self:
        """Compute gains, and determine the scope of their intervals.

        If `scores` has differences, `variances` are their variance components.
        """
        several = variances is not None and variances.references is not None  # explained networks
        if not protocol.trains:
            covers = IntervalScope.NETWORKS if several else IntervalScope.IMAGES
        elif variances is None or variances.trainings is None:
            covers = IntervalScope.NOTHING
        else:
            covers = IntervalScope.REFERENCES if several else IntervalScope.BOTH
        paired = scores.differences or scores
        paired = paired if paired.levels == scores.levels else replace(paired, levels=scores.levels)
        cells = measure_cells(paired, variances)
        return cls(scores, protocol, compute_gains(paired, protocol, cells), covers, cells, variances)

    @classmethod
    def from_kept(
        cls,
        scores: Correctness,
        protocol: Protocol,
        kept: Mapping[str, NDArray[np.bool_]],
        fixed: frozenset[str],
        passes: Mapping[str, float | None],
    ) -> Self:
        """Compute own-network gains of kept predictions; `scores` has rows and levels, and no cells."""
        own_network = compute_own_network_gains(kept, protocol.order)
        gains = {name: own.gain for name, own in own_network.items()}
        covers, no_cells = IntervalScope.NETWORKS, measure_cells(scores, None)
        return cls(scores, protocol, gains, covers, no_cells, own_network=own_network, fixed=fixed, passes=passes)

    @cached_property
    def cells(self) -> Quantities:
        """Return the accuracies of all cells."""
        if not self.scores.differences:
            return self.paired_cells
        accuracies = replace(self.scores, differences=None)
        return measure_cells(accuracies, self.variances and estimate_variance_components([accuracies]))

    @property
    def levels(self) -> tuple[float, ...]:
        return self.scores.levels

    @cached_property
    def searches(self) -> dict[str, int]:
        """Return the passes of the blind searches with which rows compare: those of this order that have a gain."""
        searches, order = self.scores.searches.items(), self.protocol.order
        return {name: one.passes for name, one in searches if name in self.gains and one.order is order}

    @property
    def has_intervals(self) -> bool:
        return self.covers is not IntervalScope.NOTHING

    def estimate(self, contrast: Contrast | None) -> Estimate:
        """Return a number, with its interval if there are intervals."""
        return self.estimate_all({"": contrast})[""] if contrast else _MISSING

    def estimate_gain(self, estimator: str) -> Estimate:
        """Return an estimator's gain in accuracy points."""
        return self._gain_estimates.get(estimator, _MISSING)

    def predict_gain(self, estimator: str) -> Estimate:
        """Return an estimator's gain with the interval for a replication; missing if only images vary."""
        return self._replication_estimates.get(estimator, _MISSING)

    def estimate_accuracy(self, estimator: str, t: float) -> Estimate:
        """Return an accuracy, or under own-network gain the share of predictions kept under own maps; in [0, 1]."""
        return self._accuracy_estimates.get((estimator, t), _MISSING)

    def estimate_difference_from_counterpart(self, estimator: str, t: float) -> Estimate:
        """Return an accuracy minus Random's, or minus the accuracy under other masks or networks' maps; in [-1, 1]."""
        return self._differences_from_counterparts.get((estimator, t), _MISSING)

    def estimate_all(self, contrasts: Mapping[Key, Contrast]) -> dict[Key, Estimate]:
        """Return numbers, with their intervals if there are intervals."""
        if self.has_intervals:
            return estimate_all(contrasts)
        return {key: Estimate(contrast.value) for key, contrast in contrasts.items()}

    @cached_property
    def _gain_estimates(self) -> dict[str, Estimate]:
        gains = {name: gain.limit(POINTS) for name, gain in self.estimate_all(self.gains).items()}
        return gains | dict.fromkeys(self.fixed, Estimate(0.0))

    @cached_property
    def _replication_estimates(self) -> dict[str, Estimate]:
        """Return the gains with intervals for a replication; empty if only images vary."""
        if self.own_network:
            varying = {name: gain for name, gain in self.gains.items() if name not in self.fixed}
            return estimate_all({name: predict_replicated_gain(gain) for name, gain in varying.items()})
        fixed_design = self.covers in (IntervalScope.NOTHING, IntervalScope.IMAGES)
        return {} if fixed_design else estimate_all(self.gains, repeated=True)

    @cached_property
    def _accuracy_estimates(self) -> dict[Point, Estimate]:
        if self.own_network:
            shares = {name: zip(self.levels, own.own_shares, strict=True) for name, own in self.own_network.items()}
            return {(name, t): Estimate(share) for name, levels in shares.items() for t, share in levels}
        accuracies = {point: cell for point in self.scores.correct if (cell := self.cells.get(point))}
        return estimate_shares(accuracies) if self.has_intervals else self.estimate_all(accuracies)

    @cached_property
    def _differences_from_counterparts(self) -> dict[Point, Estimate]:
        differences, fixed = dict[Point, Contrast](), dict[Point, Estimate]()
        for name, own in self.own_network.items():
            for t, gain in zip(self.levels, own.levels, strict=True):
                differences[name, t] = gain.scale((-1 if self.protocol.order is Order.MORF else 1) / POINTS)
                fixed |= {(name, t): Estimate(0.0)} if name in self.fixed else {}
        for name, t in self.scores.correct:
            one, random = self.paired_cells.get((name, t)), self.paired_cells.get((RANDOM, t))
            if not self.scores.differences:
                one = one.subtract(random) if one and random else None
            if one:
                differences[name, t] = one
        return {point: one.limit(1.0) for point, one in self.estimate_all(differences).items()} | fixed

    def make_board(self, shown_rows: Collection[str] | None = None) -> Board:
        """Return the board with the rows in `shown_rows` (all by default); all rows count for verdicts and ranks."""
        scores, references = self.scores, self.variances.references if self.variances else None
        compared = self.columns.get(RANDOM, ()) if self.has_intervals else ()
        networks, images = next(((len(own.kept), own.kept.shape[3]) for own in self.own_network.values()), (0, 0))
        return Board(
            protocol=self.protocol,
            levels=scores.levels,
            rows=tuple(self._make_row(name) for name in scores.estimators if shown_rows is None or name in shown_rows),
            images=images or scores.images,
            covers=self.covers,
            family=sum(name not in scores.submitted for name, _ in compared),
            references=networks or len(scores.explained_networks),
            reference_deviation=POINTS * references.deviation_without_image_noise if references else None,
            reference_rows=references.rows if references else 0,
            reference_freedom=references.freedom if references else None,
        )

    def _make_row(self, name: str) -> Row:
        levels, own = self.levels, self.own_network.get(name)
        twins = {kind: self.subtract_gain(name, make_twin_id(name, kind)) for kind in _TWINS}
        over_twins = {kind: over for kind, over in twins.items() if over and name in self.ranked_gains}
        against = {other: comparison for (row, other), comparison in self.comparisons.items() if row == name}
        own_controls = self.scores.model_free_controls - self.scores.submitted
        is_control = name in self.scores.model_free_controls or name in self.scores.searches
        controls = set() if is_control or self.own_network else own_controls
        beating, network = None, None
        if own and (verdict := self.find_own_network_verdict(name)):
            permutation = None if name in self.fixed else own.permutation
            network = OwnNetworkTest(verdict, permutation, self._search_comparisons.get(name))
        elif controls and controls <= against.keys() & self.ranked_gains.keys():
            beating = ControlComparison({one: against[one] for one in self.controls if one in controls})
        return Row(
            estimator=name,
            seeds=self.count_seeds(name),
            clean=Estimate(1.0) if own else self.estimate_accuracy(*UNTOUCHED),
            accuracies=tuple(self.estimate_accuracy(name, t) for t in levels),
            differences=tuple(self.estimate_difference_from_counterpart(name, t) for t in levels),
            gain=self.estimate_gain(name),
            find_place=partial(self.find_rank, name) if name in self.ranked_gains else None,
            check=name in self.scores.checks,
            predict_gain=partial(self.predict_gain, name),
            against=against,
            beating=beating,
            delta_twins=self.estimate_all(over_twins) if over_twins else {},
            network=network,
        )

    @cached_property
    def _search_comparisons(self) -> dict[str, SearchComparison]:
        passes = {name: self.passes.get(name) for name in self.tested_gains if name not in self.scores.searches}
        return compare_with_searches(self._compared_gains, passes, self.searches, self.scores.submitted)

    def count_seeds(self, name: str) -> int:
        """Return the smallest number of seeds in a cell of a row's curve, or of networks; 0 if a cell is missing."""
        if self.protocol.scores_all_network_pairs:
            return len(self.own_network[name].kept) if name in self.own_network else 0
        has_start = self.protocol.retrain is not ScoredNetwork.MASKS  # mask-only networks have no point at t = 0
        points = [UNTOUCHED] * has_start + [(name, t) for t in self.levels]
        return min(len(self.scores.correct.get(point, ())) for point in points)

    def list_gains(self) -> dict[str, JudgedGain]:
        """Return gains and verdicts of all rows, without the other numbers of `make_board`."""
        return {
            name: JudgedGain(self.estimate_gain(name), self.find_verdict(name), self.count_seeds(name))
            for name in self.scores.estimators
        }

    def find_verdict(self, name: str) -> Verdict | OwnNetworkVerdict | None:
        """Return the verdict on a row's gain; None for a check, and without intervals."""
        own_network = self.protocol.scores_all_network_pairs
        return self.find_own_network_verdict(name) if own_network else self._verdicts_on_gains.get(name)

    def find_own_network_verdict(self, name: str) -> OwnNetworkVerdict | None:
        """Return the verdict on a row's own-network gain; None for a row without a gain."""
        if name in self.fixed:
            return OwnNetworkVerdict.BY_CONSTRUCTION
        if name in self.scores.searches and name in self.gains:
            return OwnNetworkVerdict.CONTROL
        verdict = self._verdicts_on_gains.get(name)
        return judge_beside_search(verdict, self._search_comparisons.get(name)) if verdict else None

    @cached_property
    def _verdicts_on_gains(self) -> dict[str, Verdict]:
        asked = [(RANDOM, name, RANDOM) for name in self.tested_gains if name != RANDOM]  # without other columns
        columns = self._subtract_by_column(asked).values() if self.has_intervals else ()
        verdicts = decide_verdicts(*columns, added_rows=self._list_pairs_with_submissions(columns))
        return {name: verdict for (name, _), verdict in verdicts.items()}

    @property
    def tested_gains(self) -> list[str]:
        """Return the rows whose gain is not 0 by construction, without checks."""
        return [name for name in self.ranked_gains if name not in self.fixed]

    @cached_property
    def ranked_gains(self) -> dict[str, Contrast]:
        """Return the gains of the rows that have a rank, without checks."""
        rows = (name for name in self.scores.estimators if name not in self.scores.checks)
        return {name: self.gains[name] for name in rows if name in self.gains}

    @cached_property
    def rank_intervals(self) -> dict[str, RankInterval]:
        """Return the ranks of the suite's own rows, and of each submission as if it alone joined them."""
        submitted = [name in self.scores.submitted for name in self.ranked_gains]
        added = [] if all(submitted) else [number for number, is_added in enumerate(submitted) if is_added]
        pairs = Pairs.from_contrasts(list(self.ranked_gains.values()), added)
        intervals = compute_rank_intervals(pairs, added) if self.has_intervals else rank_by_gain(pairs.values, added)
        return dict(zip(self.ranked_gains, intervals, strict=True))

    def find_rank(self, name: str) -> RankInterval:
        """Return a row's rank; computing the ranks of all rows takes as long as everything else of a board."""
        return self.rank_intervals[name]

    def subtract_gain(self, first: str, second: str) -> Contrast | None:
        """Return a row's gain minus another's; None if one is missing. A gain of 0 by construction counts as 0."""
        one, other = self._compared_gains.get(first), self._compared_gains.get(second)
        return one.subtract(other) if one and other else None

    @cached_property
    def _compared_gains(self) -> dict[str, Contrast]:
        zeros = {ZERO, *self.fixed, *((RANDOM,) if self.protocol.random_is_zero else ())}
        any_gain = next(iter(self.gains.values()), None)
        return {**self.gains, **dict.fromkeys(zeros, any_gain.quantities.combine({}))} if any_gain else {}

    @cached_property
    def controls(self) -> tuple[str, ...]:
        """Return the controls to compare rows with: the usual and the suite's, but only Random for own-network gain."""
        own = self.scores.model_free_controls - self.scores.submitted
        in_order = dict.fromkeys((*CONTROLS, *(name for name in self.scores.estimators if name in own)))
        return (RANDOM,) if self.protocol.scores_all_network_pairs else tuple(in_order)

    @cached_property
    def columns(self) -> dict[str, dict[_Pair, Contrast]]:
        """Return the differences of each column that a reader reads: all rows minus one control, or minus their twins.

        Controls form columns of their own. Rows whose gain is 0 by construction are not tested.
        """
        tested = self.tested_gains
        asked = [(kind, name, make_twin_id(name, kind)) for kind in _TWINS for name in tested]
        asked += [(other, name, other) for other in self.controls for name in tested if name != other]
        measured = self.protocol.random_is_zero and RANDOM in tested  # Random counts as 0 in all other columns
        zero = {ZERO: {(RANDOM, ZERO): self.gains[RANDOM]}} if measured else {}
        return self._subtract_by_column(asked) | zero

    def _subtract_by_column(self, asked: Iterable[tuple[str, str, str]]) -> dict[str, dict[_Pair, Contrast]]:
        """Return the differences of pairs by column; `asked` has each pair after the title of its column."""
        columns: dict[str, dict[_Pair, Contrast]] = {}
        controls = self.scores.model_free_controls | {*CONTROLS, *self.scores.searches}
        for title, name, other in asked:
            if difference := self.subtract_gain(name, other):
                group = f"{title} (controls)" if name in controls else title
                columns.setdefault(group, {})[name, other] = difference
        return columns

    @cached_property
    def comparisons(self) -> dict[_Pair, Comparison]:
        """Return the comparisons of the board by row and opponent; empty without intervals."""
        columns = self.columns.values() if self.has_intervals else ()
        comparisons = judge_comparisons(*columns, added_rows=self._list_pairs_with_submissions(columns))
        return comparisons | {(name, one.search): one.comparison for name, one in self._search_comparisons.items()}

    def _list_pairs_with_submissions(self, columns: Iterable[Iterable[_Pair]]) -> list[_Pair]:
        alone = self.scores.submitted & self.scores.checks  # twins; a control joins with its whole column
        pairs = [pair for column in columns for pair in column]
        return [(name, other) for name, other in pairs if name in self.scores.submitted or other in alone]

    def compare(self, first: str, second: str) -> Comparison | None:
        """Compare two rows; None without intervals. The p value of a comparison in no column is not adjusted."""
        difference, pair = self.subtract_gain(first, second), {first, second}
        zeros = {RANDOM, *self.fixed} if self.own_network else set()
        if difference is None or not self.has_intervals or len(pair) == 1 or pair <= zeros:
            return None
        return self._find_in_column(first, second) or judge_comparisons({"": difference})[""]

    def is_planned_alone(self, first: str, second: str) -> bool:
        """Return whether no column contains the comparison of two rows that `compare` returns."""
        return self._find_in_column(first, second) is None

    def _find_in_column(self, first: str, second: str) -> Comparison | None:
        first, second = (RANDOM if name in self.fixed else name for name in (first, second))
        if (first, second) in self.comparisons:
            return self.comparisons[first, second]
        return self.comparisons[second, first].reversed if (second, first) in self.comparisons else None

"""Compute the board of one protocol from correct predictions: the gains, verdicts and ranks of all estimators."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from roarbench.common.enums import OTHER_IMAGE, OTHER_REFERENCE, Order, ScoredNetwork
from roarbench.estimators.estimator import CONTROLS, VARIANTS
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.protocols import Protocol
from roarbench.stats.board_records import RANDOM, ZERO, Board, IntervalScope, Row
from roarbench.stats.contrasts import Contrast, Quantities, join_quantities, measure_areas, measure_cells
from roarbench.stats.correctness_and_gain import (
    POINTS,
    UNTOUCHED,
    Correctness,
    Point,
    list_trapezoid_weights,
)
from roarbench.stats.intervals import Estimate, Key, estimate, estimate_all, estimate_shares
from roarbench.stats.rank_intervals import Pairs, RankInterval, compute_rank_intervals, rank_by_gain
from roarbench.stats.variance_components import VarianceComponents, estimate_variance_components
from roarbench.stats.verdicts import Comparison, ControlComparison, judge_comparisons

_POINTS = int(POINTS)
_TWINS = (OTHER_IMAGE, *VARIANTS, OTHER_REFERENCE)  # a row's own twins, each compared with the row


def select_variance_components(protocol: Protocol, variances: VarianceComponents | None) -> VarianceComponents | None:
    """Return the variance components that apply to a protocol; without training, the training variance is left out."""
    if variances is None or protocol.trains:
        return variances
    return replace(variances, trainings=None) if variances.references else None


def _find_interval_scope(protocol: Protocol, variances: VarianceComponents | None) -> IntervalScope:
    """Return the scope of intervals under a protocol with these variance components."""
    references = variances is not None and variances.references is not None
    if not protocol.trains:
        return IntervalScope.NETWORKS if references else IntervalScope.IMAGES
    if variances is None or variances.trainings is None:
        return IntervalScope.NOTHING
    return IntervalScope.REFERENCES if references else IntervalScope.BOTH


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
    gains = {}
    for name in areas.index:
        weights = Counter({name: points})
        weights[RANDOM] -= 0 if paired else points
        gains[name] = areas.combine({name: weight for name, weight in weights.items() if weight})
    return gains


def compute_areas_between_lerf_and_morf(
    morf: "Judge", lerf: "Judge", levels: Sequence[float], inconsistent: Collection[str]
) -> dict[str, Contrast]:
    """Compute the areas between LeRF and MoRF curves, in accuracy points, of rows that are complete and consistent.

    Larger is better, and no control is needed. With retraining this is DiffROAR (Shah et al. 2021), without retraining
    SRG (Bluecher et al. 2024). `inconsistent` lists the rows that are inconsistent in LeRF, MoRF or both; `morf` and
    `lerf` have the same images and `levels`.
    """
    above, below = (measure_row_areas(judge.scores, judge.cells, levels) for judge in (lerf, morf))
    rows = [name for name in morf.scores.estimators if name in above.index and name in below.index]
    joined = join_quantities(above, below)
    signs = {0: _POINTS, 1: -_POINTS}
    kept = [name for name in rows if name not in inconsistent]
    return {name: joined.combine({(part, name): sign for part, sign in signs.items()}) for name in kept}


def compute_board(
    scores: Correctness,
    protocol: Protocol,
    variances: VarianceComponents | None = None,
    shown_rows: Collection[str] | None = None,
) -> Board:
    """Judge all estimators of one protocol, and return the board with the rows in `shown_rows` (all by default).

    If `variances` is None, the variance components are estimated from `scores`.
    """
    variances = select_variance_components(
        protocol, variances or estimate_variance_components([scores.differences or scores])
    )
    return Judge.from_scores(scores, protocol, variances).make_board(shown_rows)


def _name_column_of_controls(title: str) -> str:
    return f"{title} (controls)"


_Pair = tuple[str, str]  # a row, and the row that it is compared with


@dataclass(frozen=True, eq=False)
class Judge:
    """Accuracies of one protocol, and gains or areas between two protocols' curves, with their variances.

    The methods estimate numbers with their intervals, and compare, test and rank the rows.
    """

    scores: Correctness  # rows, levels and correctness; empty if the suite lacks the protocol
    protocol: Protocol
    variances: VarianceComponents | None  # None if unknown
    # differences of correctness under a row's masks and under other masks, if `scores` has them; else accuracies
    paired_cells: Quantities
    areas: Mapping[str, Contrast]  # gains, or areas between MoRF and LeRF curves, by estimator, in accuracy points
    covers: IntervalScope

    @classmethod
    def from_scores(cls, scores: Correctness, protocol: Protocol, variances: VarianceComponents | None) -> Self:
        """Compute gains, and determine the scope of their intervals.

        If `scores` has differences, `variances` are their variance components.
        """
        covers = _find_interval_scope(protocol, variances)
        paired = replace(scores.differences, levels=scores.levels) if scores.differences else scores
        cells = measure_cells(paired, variances)
        return cls(scores, protocol, variances, cells, compute_gains(paired, protocol, cells), covers)

    @cached_property
    def cells(self) -> Quantities:
        """Return the accuracies of all cells."""
        if not self.scores.differences:
            return self.paired_cells
        accuracies = replace(self.scores, differences=None)
        return measure_cells(accuracies, self.variances and estimate_variance_components([accuracies]))

    @property
    def levels(self) -> tuple[float, ...]:
        """Return the levels above 0."""
        return self.scores.levels

    @property
    def has_intervals(self) -> bool:
        """Return whether there are intervals; there are none if the training variance is unknown."""
        return self.covers is not IntervalScope.NOTHING

    def estimate(self, contrast: Contrast | None) -> Estimate:
        """Return a number, with its interval if there are intervals."""
        if contrast is None:
            return Estimate()
        return estimate(contrast) if self.has_intervals else Estimate(contrast.value)

    def estimate_area(self, estimator: str) -> Estimate:
        """Return an estimator's gain or area in accuracy points."""
        return self._area_estimates.get(estimator, Estimate())

    def estimate_difference(self, first: str, second: str) -> Estimate:
        """Return one estimator's gain or area minus another's, in accuracy points."""
        one, other = self.areas.get(first), self.areas.get(second)
        return self.estimate(one.subtract(other) if one and other else None)

    def estimate_accuracy(self, estimator: str, t: float) -> Estimate:
        """Return an accuracy in [0, 1]."""
        return self._accuracy_estimates.get((estimator, t), Estimate())

    def estimate_difference_from_counterpart(self, estimator: str, t: float) -> Estimate:
        """Return an accuracy minus Random's, or the mean of `Correctness.differences` if present, in [-1, 1]."""
        return self._differences_from_counterparts.get((estimator, t), Estimate())

    @cached_property
    def _area_estimates(self) -> dict[str, Estimate]:
        return self._estimate_all(self.areas)

    @cached_property
    def _accuracy_estimates(self) -> dict[Point, Estimate]:
        accuracies = {point: cell for point in self.scores.correct if (cell := self.cells.get(point))}
        if not self.has_intervals:
            return self._estimate_all(accuracies)
        return estimate_shares(accuracies)

    @cached_property
    def _differences_from_counterparts(self) -> dict[Point, Estimate]:
        differences = {}
        for name, t in self.scores.correct:
            one, random = self.paired_cells.get((name, t)), self.paired_cells.get((RANDOM, t))
            if not self.scores.differences:
                one = one.subtract(random) if one and random else None
            if one:
                differences[name, t] = one
        return self._estimate_all(differences)

    def _estimate_all(self, contrasts: Mapping[Key, Contrast]) -> dict[Key, Estimate]:
        if self.has_intervals:
            return estimate_all(contrasts)
        return {key: Estimate(contrast.value) for key, contrast in contrasts.items()}

    def make_board(self, shown_rows: Collection[str] | None = None) -> Board:
        """Return the board with the rows in `shown_rows` (all by default); all rows count for verdicts and ranks."""
        scores, references = self.scores, self.variances.references if self.variances else None
        return Board(
            self.protocol,
            scores.levels,
            tuple(self._make_row(name) for name in scores.estimators if shown_rows is None or name in shown_rows),
            scores.images,
            self.covers,
            self.family,
            len(scores.explained_networks),
            POINTS * references.deviation_without_image_noise if references else None,
            references.rows if references else 0,
            references.freedom if references else None,
        )

    def _make_row(self, name: str) -> Row:
        scores = self.scores
        return Row(
            estimator=name,
            seeds=self.count_seeds(name),
            clean=self.estimate_accuracy(*UNTOUCHED),
            accuracies=tuple(self.estimate_accuracy(name, t) for t in scores.levels),
            differences=tuple(self.estimate_difference_from_counterpart(name, t) for t in scores.levels),
            gain=self.estimate_area(name),
            place=self.rank_intervals.get(name),
            check=name in scores.checks,
            predicted=self._replication_estimates.get(name, Estimate()),
            against=self.comparisons_by_row[name],
            beating=self.compare_with_controls(name),
            delta_twins=self.estimate_gains_over_twins(name),
        )

    def count_seeds(self, name: str) -> int:
        """Return the smallest number of seeds in a cell of a row's curve; 0 if a cell is missing."""
        first = 1 if self.protocol.retrain is ScoredNetwork.MASKS else 0  # mask-only networks have no point at t = 0
        points = self.scores.list_curve_points(name)[first:]
        return min(len(self.scores.correct.get(point, ())) for point in points)

    @cached_property
    def _replication_estimates(self) -> dict[str, Estimate]:
        """Return the gains with intervals for a replication; empty if only images vary."""
        if self.covers in (IntervalScope.NOTHING, IntervalScope.IMAGES):
            return {}
        return estimate_all(self.areas, repeated=True)

    @cached_property
    def ranked_gains(self) -> dict[str, Contrast]:
        """Return the gains of the rows that have a rank, without checks."""
        rows = (name for name in self.scores.estimators if name not in self.scores.checks)
        return {name: self.areas[name] for name in rows if name in self.areas}

    def drop_gains_of_submissions(self, gains: Mapping[str, Contrast]) -> dict[str, Contrast]:
        """Return the gains of the suite's own rows, without submissions; all gains if there are only submissions."""
        return {name: gain for name, gain in gains.items() if name not in self.scores.submitted} or dict(gains)

    def subtract_gain(self, first: str, second: str) -> Contrast | None:
        """Return a row's gain minus another's; None if one is missing.

        If Random's gain is 0 by construction, rows are compared with 0 instead of the noisy measurement of Random's
        gain.
        """
        one, other = self._find_gain_or_fixed_zero(first), self._find_gain_or_fixed_zero(second)
        return one.subtract(other) if one and other else None

    def _find_gain_or_fixed_zero(self, name: str) -> Contrast | None:
        if name == ZERO or (name == RANDOM and self.protocol.random_is_zero):
            one = next(iter(self.areas.values()), None)
            return one and one.quantities.combine({})
        return self.areas.get(name)

    @cached_property
    def controls(self) -> tuple[str, ...]:
        """Return the controls to compare rows with: the usual and the suite's, but only Random for own-network gain."""
        own = self.scores.model_free_controls - self.scores.submitted
        in_order = dict.fromkeys((*CONTROLS, *(name for name in self.scores.estimators if name in own)))
        return (RANDOM,) if self.protocol.scores_all_network_pairs else tuple(in_order)

    @cached_property
    def columns(self) -> dict[str, dict[_Pair, Contrast]]:
        """Return the differences of each column that a reader reads: all rows minus one control, or minus their twins.

        The p values of a column are adjusted together. Controls, whose differences from each other are often large and
        certain, form columns of their own: beside them, a smaller p value of a row would be called significant.
        """
        columns: dict[str, dict[_Pair, Contrast]] = {}
        controls = self.scores.model_free_controls | set(CONTROLS)
        asked = [(kind, name, make_twin_id(name, kind)) for kind in _TWINS for name in self.ranked_gains]
        asked += [(other, name, other) for other in self.controls for name in self.ranked_gains if name != other]
        asked += [(ZERO, RANDOM, ZERO)] if self.protocol.random_is_zero and RANDOM in self.ranked_gains else []
        for title, name, other in asked:
            if difference := self.subtract_gain(name, other):
                group = _name_column_of_controls(title) if name in controls else title
                columns.setdefault(group, {})[name, other] = difference
        return columns

    @cached_property
    def comparisons(self) -> dict[_Pair, Comparison]:
        """Return the comparisons of the board by row and opponent; empty without intervals."""
        return {pair: comparison for title in self.columns for pair, comparison in self._judge_column(title).items()}

    def _judge_column(self, title: str) -> dict[_Pair, Comparison]:
        column = self.columns.get(title, {}) if self.has_intervals else {}
        return judge_comparisons(column, [pair for pair in column if not self.scores.submitted.isdisjoint(pair)])

    def compare_with_random(self) -> dict[str, Comparison]:
        """Return the comparisons with Random by row, without those of other columns; empty without intervals."""
        titles = (RANDOM, _name_column_of_controls(RANDOM))
        return {name: one for title in titles for (name, _), one in self._judge_column(title).items()}

    @property
    def family(self) -> int:
        """Return the number of the suite's own rows that are compared with Random together; 0 without intervals."""
        return sum(self.scores.submitted.isdisjoint(pair) for pair in self.columns.get(RANDOM, ())) * self.has_intervals

    def compare(self, first: str, second: str) -> Comparison | None:
        """Compare two rows; None without intervals.

        A comparison that no column contains was planned alone, so its p value is not adjusted.
        """
        for pair in ((first, second), (second, first)):
            if pair in self.comparisons:
                comparison = self.comparisons[pair]
                return comparison if pair[0] == first else comparison.reversed
        difference = self.subtract_gain(first, second)
        if difference is None or not self.has_intervals or first == second:
            return None
        return judge_comparisons({"": difference})[""]

    @cached_property
    def comparisons_by_row(self) -> dict[str, dict[str, Comparison]]:
        """Return every row's comparisons with the controls and with its twins."""
        comparisons: dict[str, dict[str, Comparison]] = {name: {} for name in self.scores.estimators}
        for (name, other), comparison in self.comparisons.items():
            comparisons[name][other] = comparison
        return comparisons

    def estimate_gains_over_twins(self, name: str) -> dict[str, Estimate]:
        """Return a row's gain minus the gain of each of its twins, by kind of twin."""
        if name not in self.ranked_gains:
            return {}
        differences = {kind: self.subtract_gain(name, make_twin_id(name, kind)) for kind in _TWINS}
        return {kind: self.estimate(difference) for kind, difference in differences.items() if difference}

    def compare_with_controls(self, name: str) -> ControlComparison | None:
        """Compare a row with every model-free control; None for a control, and if a control has no gain."""
        own, against = self.scores.model_free_controls - self.scores.submitted, self.comparisons_by_row[name]
        is_control = name in self.scores.model_free_controls
        if is_control or not own or not own <= against.keys() & self.ranked_gains.keys():
            return None
        return ControlComparison({control: against[control] for control in self.controls if control in own})

    @cached_property
    def rank_intervals(self) -> dict[str, RankInterval]:
        """Return the ranks of the suite's own rows, and of each submission as if it alone joined them."""
        own = self.drop_gains_of_submissions(self.ranked_gains)
        added = [n for n, name in enumerate(self.ranked_gains) if name not in own]
        pairs = Pairs.from_contrasts(list(self.ranked_gains.values()), added)
        intervals = compute_rank_intervals(pairs, added) if self.has_intervals else rank_by_gain(pairs.values, added)
        return dict(zip(self.ranked_gains, intervals, strict=True))

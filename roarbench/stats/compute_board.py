"""Compute the board of one protocol from draws: the gains, verdicts and ranks of all estimators."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from roarbench.common.enums import OTHER_IMAGE, OTHER_REFERENCE, ScoredNetwork
from roarbench.estimators.estimator import CONTROLS, VARIANTS
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.protocols import Protocol
from roarbench.stats.board_records import RANDOM, ZERO, Board, IntervalScope, Row
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate, Sample, make_estimate
from roarbench.stats.correctness_and_gain import (
    POINTS,
    UNTOUCHED,
    Correctness,
    Floats,
    compute_gain,
    compute_trapezoid_weights,
)
from roarbench.stats.rank_intervals import Pairs, RankInterval, compute_rank_intervals, rank_by_gain
from roarbench.stats.resampling import Draws, draw_resamples
from roarbench.stats.variance_components import VarianceComponents, estimate_variance_components
from roarbench.stats.verdicts import Comparison, ControlComparison, compute_detectable_difference, judge_comparisons

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


def sample_gains(scores: Correctness, protocol: Protocol, draws: Draws) -> dict[str, Sample]:
    """Compute gains, in accuracy points, of rows and controls with complete curves; empty without Random's curve.

    If one network is scored under a row's masks and under other masks, the gain is the area under the differences.
    Mask-only networks have no gains.
    """
    if scores.differences and draws.differences:
        scores, draws = replace(scores.differences, levels=scores.levels), draws.differences
        return _compute_areas(scores, protocol, draws, np.zeros((1 + len(scores.levels), 1)))
    if protocol.retrain is ScoredNetwork.MASKS or not scores.is_complete(RANDOM):
        return {}
    return _compute_areas(scores, protocol, draws, draws.stack_accuracies_with_draws(scores.list_curve_points(RANDOM)))


def _compute_areas(scores: Correctness, protocol: Protocol, draws: Draws, baseline: Floats) -> dict[str, Sample]:
    gains = {
        name: compute_gain(
            (0.0, *scores.levels),
            draws.stack_accuracies_with_draws(scores.list_curve_points(name)),
            baseline,
            protocol.order,
        )
        for name in dict.fromkeys((*scores.estimators, *CONTROLS))
        if scores.is_complete(name)
    }
    return {name: Sample(float(gain[0]), gain[1:]) for name, gain in gains.items()}


def compute_areas_between_lerf_and_morf(scores: Correctness, morf: Draws, lerf: Draws) -> dict[str, Sample]:
    """Compute the areas between LeRF and MoRF curves, in accuracy points, of rows that are complete and consistent.

    Larger is better, and no control is needed. With retraining this is DiffROAR (Shah et al. 2021), without retraining
    SRG (Bluecher et al. 2024). `scores.inconsistent` must list the rows that are inconsistent in LeRF, MoRF or both;
    `morf` and `lerf` have the same images, levels and bootstrap.
    """
    weights = POINTS * compute_trapezoid_weights((0.0, *scores.levels))
    areas = {}
    for name in scores.estimators:
        curve = scores.list_curve_points(name)
        if name not in scores.inconsistent and all(point in draws.column for draws in (morf, lerf) for point in curve):
            # both curves have the same accuracy at t = 0
            difference = lerf.stack_accuracies_with_draws(curve[1:]) - morf.stack_accuracies_with_draws(curve[1:])
            area = weights[1:] @ difference
            areas[name] = Sample(float(area[0]), area[1:])
    return areas


def compute_board(
    scores: Correctness,
    protocol: Protocol,
    bootstrap: Bootstrap | None = None,
    variances: VarianceComponents | None = None,
    shown_rows: Collection[str] | None = None,
) -> Board:
    """Judge all estimators of one protocol, and return the board with the rows in `shown_rows` (all by default).

    If `variances` is None, the variance components are estimated from `scores`.
    """
    bootstrap = bootstrap or Bootstrap()
    variances = select_variance_components(
        protocol, variances or estimate_variance_components([scores.differences or scores])
    )
    draws = draw_resamples(scores, bootstrap, variances)
    return Judge.from_draws(scores, protocol, bootstrap, variances, draws).make_board(shown_rows)


_Differences = dict[tuple[str, str], Sample]  # gain differences by (row, row that it is compared with)


@dataclass(frozen=True, eq=False)
class Judge:
    """Accuracies of one protocol, and gains or areas between two protocols' curves, with their draws.

    The methods estimate numbers with their intervals, and compare, test and rank the rows.
    """

    scores: Correctness  # rows, levels and correctness; empty if the suite lacks the protocol
    protocol: Protocol
    bootstrap: Bootstrap
    variances: VarianceComponents | None  # None if unknown
    draws: Draws
    areas: dict[str, Sample]  # gains, or areas between MoRF and LeRF curves, by estimator, in accuracy points
    covers: IntervalScope

    @classmethod
    def from_draws(
        cls,
        scores: Correctness,
        protocol: Protocol,
        bootstrap: Bootstrap,
        variances: VarianceComponents | None,
        draws: Draws,
    ) -> Self:
        """Compute the gains from the draws, and determine the scope of their intervals."""
        areas = sample_gains(scores, protocol, draws)
        return cls(scores, protocol, bootstrap, variances, draws, areas, _find_interval_scope(protocol, variances))

    @property
    def levels(self) -> tuple[float, ...]:
        """Return the levels above 0."""
        return self.scores.levels

    @property
    def has_intervals(self) -> bool:
        """Return whether there are intervals; there are none if the training variance is unknown."""
        return self.covers is not IntervalScope.NOTHING

    def estimate(self, sample: Sample | None) -> Estimate:
        """Return a sample's value, with its interval if there are intervals."""
        if sample is None:
            return Estimate()
        return make_estimate(sample, self.bootstrap.confidence) if self.has_intervals else Estimate(sample.value)

    def estimate_area(self, estimator: str) -> Estimate:
        """Return an estimator's gain or area in accuracy points."""
        return self.estimate(self.areas.get(estimator))

    def estimate_difference(self, first: str, second: str) -> Estimate:
        """Return one estimator's gain or area minus another's, in accuracy points."""
        one, other = self.areas.get(first), self.areas.get(second)
        return self.estimate(one.subtract(other) if one and other else None)

    def estimate_accuracy(self, estimator: str, t: float) -> Estimate:
        """Return an accuracy in [0, 1]."""
        value, low, high = self.estimate(self.draws.get_accuracy((estimator, t)))
        return Estimate(value, None if low is None else max(0.0, low), None if high is None else min(1.0, high))

    def estimate_difference_from_counterpart(self, estimator: str, t: float) -> Estimate:
        """Return an accuracy minus Random's, or the mean of `Correctness.differences` if present, in [-1, 1]."""
        if self.draws.differences:
            return self.estimate(self.draws.differences.get_accuracy((estimator, t)))
        one, random = self.draws.get_accuracy((estimator, t)), self.draws.get_accuracy((RANDOM, t))
        return self.estimate(one.subtract(random) if one and random else None)

    def make_board(self, shown_rows: Collection[str] | None = None) -> Board:
        """Return the board with the rows in `shown_rows` (all by default); all rows count for verdicts and ranks."""
        scores, references = self.scores, self.variances.references if self.variances else None
        explained = {name for name, _ in scores.references}
        return Board(
            self.protocol,
            scores.levels,
            tuple(self._make_row(name) for name in scores.estimators if shown_rows is None or name in shown_rows),
            scores.images,
            self.bootstrap,
            self.covers,
            compute_detectable_difference(self.make_pairs_of_ranked_estimators(explained))
            if self.has_intervals
            else None,
            sum(scores.submitted.isdisjoint(pair) for pair in self.comparisons),
            len(scores.explained_networks),
            POINTS * references.deviation_without_image_noise if references else None,
            references.rows if references else 0,
            references.freedom if references else None,
        )

    def _make_row(self, name: str) -> Row:
        scores = self.scores
        first = 1 if self.protocol.retrain is ScoredNetwork.MASKS else 0  # mask-only networks have no point at t = 0
        return Row(
            estimator=name,
            seeds=min(len(scores.correct.get(point, ())) for point in scores.list_curve_points(name)[first:]),
            clean=self.estimate_accuracy(*UNTOUCHED),
            accuracies=tuple(self.estimate_accuracy(name, t) for t in scores.levels),
            differences=tuple(self.estimate_difference_from_counterpart(name, t) for t in scores.levels),
            gain=self.estimate_area(name),
            place=self.rank_intervals.get(name),
            check=name in scores.checks,
            predicted=self.estimate(self.replication_gains.get(name)),
            against=self.comparisons_by_row[name],
            beating=self.compare_with_controls(name),
            delta_twins=self.estimate_gains_over_twins(name),
        )

    @cached_property
    def replication_gains(self) -> dict[str, Sample]:
        """Return the gains with draws of a replication; empty if only images were resampled."""
        if self.covers in (IntervalScope.NOTHING, IntervalScope.IMAGES):
            return {}
        return sample_gains(self.scores, self.protocol, self.draws.replication)

    @cached_property
    def ranked_gains(self) -> dict[str, Sample]:
        """Return the gains of the rows that have a rank, without checks."""
        rows = (name for name in self.scores.estimators if name not in self.scores.checks)
        return {name: self.areas[name] for name in rows if name in self.areas}

    def drop_gains_of_submissions(self, gains: Mapping[str, Sample]) -> dict[str, Sample]:
        """Return the gains of the suite's own rows, without submissions; all gains if there are only submissions."""
        return {name: gain for name, gain in gains.items() if name not in self.scores.submitted} or dict(gains)

    def make_pairs_of_ranked_estimators(self, explained: Collection[str]) -> Pairs:
        """Return all pairs of the suite's own estimators: rows in `explained` that have a rank and are no controls.

        `explained` has the rows that depend on an explained network. If only submissions are among them, their pairs
        are returned.
        """
        names = set(explained) - self.scores.model_free_controls
        gains = {name: gain for name, gain in self.ranked_gains.items() if name in names}
        return Pairs.from_samples(list(self.drop_gains_of_submissions(gains).values()), self.bootstrap.confidence)

    def subtract_gain(self, first: str, second: str) -> Sample | None:
        """Return a row's gain minus another's; None if one is missing.

        If Random's gain is 0 by construction, rows are compared with 0 instead of the noisy measurement of Random's
        gain.
        """
        one, other = self._find_gain_or_fixed_zero(first), self._find_gain_or_fixed_zero(second)
        return one.subtract(other) if one and other else None

    def _find_gain_or_fixed_zero(self, name: str) -> Sample | None:
        if name == ZERO or (name == RANDOM and self.protocol.random_is_zero):
            return Sample(0.0, np.zeros(self.bootstrap.resamples))
        return self.areas.get(name)

    @cached_property
    def controls(self) -> tuple[str, ...]:
        """Return the controls to compare rows with: the usual and the suite's, but only Random for own-network gain."""
        own = self.scores.model_free_controls - self.scores.submitted
        in_order = dict.fromkeys((*CONTROLS, *(name for name in self.scores.estimators if name in own)))
        return (RANDOM,) if self.protocol.scores_all_network_pairs else tuple(in_order)

    @property
    def family_differences(self) -> _Differences:
        """Return the differences whose p values are adjusted together: every row minus each control and twin."""
        pairs = [(name, make_twin_id(name, kind)) for kind in _TWINS for name in self.ranked_gains]
        pairs += [(name, other) for other in self.controls for name in self.ranked_gains if name != other]
        differences = {pair: self.subtract_gain(*pair) for pair in pairs}
        if self.protocol.random_is_zero:
            differences[RANDOM, ZERO] = self.ranked_gains.get(RANDOM)
        return {pair: difference for pair, difference in differences.items() if difference}

    @cached_property
    def comparisons(self) -> dict[tuple[str, str], Comparison]:
        """Return the comparisons of the board by row and opponent; empty without intervals."""
        return self._compare(*self._split_by_submitted_row(self.family_differences)) if self.has_intervals else {}

    def _compare(self, family: _Differences, of_added_rows: list[_Differences]) -> dict[tuple[str, str], Comparison]:
        samples = {pair: sample for differences in (family, *of_added_rows) for pair, sample in differences.items()}
        return {
            pair: comparison._replace(difference=self.estimate(samples[pair]))
            for pair, comparison in judge_comparisons(family, of_added_rows).items()
        }

    def compare(self, first: str, second: str) -> Comparison | None:
        """Compare two rows; None without intervals.

        A comparison that the board does not contain is judged as if it alone joined the board's comparisons.
        """
        for pair in ((first, second), (second, first)):
            if pair in self.comparisons:
                comparison = self.comparisons[pair]
                return comparison if pair[0] == first else comparison.reversed
        difference = self.subtract_gain(first, second)
        if difference is None or not self.has_intervals or first == second:
            return None
        own, _ = self._split_by_submitted_row(self.family_differences)
        return self._compare(own, [{(first, second): difference}])[first, second]

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

    def _split_by_submitted_row(self, pairs: _Differences) -> tuple[_Differences, list[_Differences]]:
        rows: dict[str, _Differences] = {}
        for pair, difference in pairs.items():
            rows.setdefault(next((name for name in pair if name in self.scores.submitted), ""), {})[pair] = difference
        return rows.pop("", {}), list(rows.values())

    @cached_property
    def rank_intervals(self) -> dict[str, RankInterval]:
        """Return the ranks of the suite's own rows, and of each submission as if it alone joined them."""
        own = self.drop_gains_of_submissions(self.ranked_gains)
        added = [n for n, name in enumerate(self.ranked_gains) if name not in own]
        pairs = Pairs.from_samples(list(self.ranked_gains.values()), self.bootstrap.confidence)
        intervals = compute_rank_intervals(pairs, added) if self.has_intervals else rank_by_gain(pairs.values, added)
        return dict(zip(self.ranked_gains, intervals, strict=True))

"""Compute accuracies, gains and areas of one protocol with their draws."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from roarbench.common.enums import ScoredNetwork
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.protocols import Protocol
from roarbench.stats.board_records import RANDOM, IntervalScope
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate, Sample, make_estimate
from roarbench.stats.correctness_and_gain import POINTS, Correctness, Floats, compute_gain, compute_trapezoid_weights
from roarbench.stats.resampling import Draws
from roarbench.stats.variance_components import VarianceComponents


def select_variance_components(protocol: Protocol, variances: VarianceComponents | None) -> VarianceComponents | None:
    """Return the variance components that apply to a protocol; without training, the training variance is left out."""
    if variances is None or protocol.trains:
        return variances
    return replace(variances, trainings=None) if variances.references else None


def find_interval_scope(protocol: Protocol, variances: VarianceComponents | None) -> IntervalScope:
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
    SRG (Bluecher et al. 2024). `scores.inconsistent` must include the rows that are inconsistent under either order;
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


@dataclass(frozen=True, eq=False)
class SampledGains:
    """Accuracies of one protocol, and gains or areas between two protocols' curves, with their draws."""

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
        return cls(scores, protocol, bootstrap, variances, draws, areas, find_interval_scope(protocol, variances))

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

    def compare_with_counterpart(self, estimator: str, t: float) -> Estimate:
        """Return an accuracy minus Random's, or the mean of `Correctness.differences` if present, in [-1, 1]."""
        if self.draws.differences:
            return self.estimate(self.draws.differences.get_accuracy((estimator, t)))
        one, random = self.draws.get_accuracy((estimator, t)), self.draws.get_accuracy((RANDOM, t))
        return self.estimate(one.subtract(random) if one and random else None)

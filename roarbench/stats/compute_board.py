"""Compute boards of one protocol from draws: the gains, verdicts and ranks of all estimators."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import OTHER_IMAGE, OTHER_REFERENCE, Order, ScoredNetwork
from roarbench.estimators.estimator import CONTROLS, VARIANTS
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.protocols import Protocol
from roarbench.stats.board import RANDOM, ZERO, Board, IntervalScope, Row
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate, Sample
from roarbench.stats.curves import POINTS, UNTOUCHED, Correctness
from roarbench.stats.own_network_gain import (
    OwnNetworkGain,
    OwnNetworkTest,
    OwnNetworkVerdict,
    compute_own_network_gain_per_row,
    predict_replicated_gain,
)
from roarbench.stats.rank_intervals import Pairs, RankInterval, compute_rank_intervals, rank_by_gain
from roarbench.stats.resampling import Draws, draw_resamples
from roarbench.stats.sampled_gains import SampledGains, sample_gains, select_variance_components
from roarbench.stats.training_and_network_variance import VarianceComponents, estimate_variance_components
from roarbench.stats.verdicts import Comparison, ControlComparison, compute_detectable_difference, judge_comparisons

_TWINS = (OTHER_IMAGE, *VARIANTS, OTHER_REFERENCE)  # a row's own twins, each compared with the row


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
    return compute_board_from_draws(
        scores, protocol, bootstrap, variances, draw_resamples(scores, bootstrap, variances), shown_rows
    )


def compute_board_from_draws(
    scores: Correctness,
    protocol: Protocol,
    bootstrap: Bootstrap,
    variances: VarianceComponents | None,
    draws: Draws,
    shown_rows: Collection[str] | None = None,
) -> Board:
    """Judge all estimators of one protocol from existing draws of its cells.

    Verdicts and ranks are computed from all rows, including hidden rows. If `variances` is None, the variance between
    training runs is unknown.
    """
    judge = Judge.from_draws(scores, protocol, bootstrap, variances, draws)
    rows = scores.estimators if shown_rows is None else tuple(name for name in scores.estimators if name in shown_rows)
    references = variances.references if variances else None
    return Board(
        protocol,
        scores.levels,
        tuple(_make_row(judge, name) for name in rows),
        scores.images,
        bootstrap,
        judge.covers,
        compute_detectable_difference(judge.pairs_without_submissions) if judge.has_intervals else None,
        sum(scores.submitted.isdisjoint(pair) for pair in judge.comparisons),
        len(scores.explained_networks),
        POINTS * references.deviation_without_image_noise if references else None,
        references.rows if references else 0,
        references.freedom if references else None,
    )


_Differences = dict[tuple[str, str], Sample]  # gain differences by (row, row that it is compared with)


class Judge(SampledGains):
    """The gains of one protocol, with methods that compare any two rows."""

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
        return {name: one for name, one in gains.items() if name not in self.scores.submitted} or dict(gains)

    @cached_property
    def ranked_pairs(self) -> Pairs:
        """Return all pairs of the rows that have a rank."""
        return Pairs.from_samples(list(self.ranked_gains.values()), self.bootstrap.confidence)

    @property
    def pairs_without_submissions(self) -> Pairs:
        """Return the pairs of the suite's own rows."""
        own = self.drop_gains_of_submissions(self.ranked_gains)
        if len(own) == len(self.ranked_gains):
            return self.ranked_pairs
        return Pairs.from_samples(list(own.values()), self.bootstrap.confidence)

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
        own = [
            name for name in self.scores.estimators if name in self.scores.model_free_controls - self.scores.submitted
        ]
        return (RANDOM,) if self.protocol.compares_networks else tuple(dict.fromkeys((*CONTROLS, *own)))

    @cached_property
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
        samples = {pair: sample for part in (family, *of_added_rows) for pair, sample in part.items()}
        comparisons = judge_comparisons(family, of_added_rows)
        return {pair: one._replace(difference=self.estimate(samples[pair])) for pair, one in comparisons.items()}

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
        for (name, other), one in self.comparisons.items():
            comparisons[name][other] = one
        return comparisons

    def estimate_gains_over_twins(self, name: str) -> dict[str, Estimate]:
        """Return a row's gain minus the gain of each of its twins, by kind of twin."""
        over = (
            {kind: self.subtract_gain(name, make_twin_id(name, kind)) for kind in _TWINS}
            if name in self.ranked_gains
            else {}
        )
        return {kind: self.estimate(difference) for kind, difference in over.items() if difference}

    def compare_with_controls(self, name: str) -> ControlComparison | None:
        """Compare a row that depends on the network with every model-free control; None if a gain is missing."""
        silent, against = self.scores.model_free_controls - self.scores.submitted, self.comparisons_by_row[name]
        if (
            name in self.scores.model_free_controls
            or not silent
            or not silent <= against.keys() & self.ranked_gains.keys()
        ):
            return None
        return ControlComparison({control: against[control] for control in self.controls if control in silent})

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
        intervals = (
            compute_rank_intervals(self.ranked_pairs, added)
            if self.has_intervals
            else rank_by_gain(self.ranked_pairs.values, added)
        )
        return dict(zip(self.ranked_gains, intervals, strict=True))


def _make_row(judge: Judge, name: str) -> Row:
    scores = judge.scores
    first = 1 if judge.protocol.retrain is ScoredNetwork.MASKS else 0  # mask-only networks have no point at t = 0
    twins = judge.estimate_gains_over_twins(name)
    return Row(
        estimator=name,
        seeds=min(len(scores.correct.get(point, ())) for point in scores.list_points(name)[first:]),
        clean=judge.estimate_accuracy(*UNTOUCHED),
        accuracies=tuple(judge.estimate_accuracy(name, t) for t in scores.levels),
        differences=tuple(judge.estimate_difference(name, t) for t in scores.levels),
        gain=judge.estimate_area(name),
        place=judge.rank_intervals.get(name),
        check=name in scores.checks,
        predicted=judge.estimate(judge.replication_gains.get(name)),
        delta_other_image=twins.pop(OTHER_IMAGE, Estimate()),
        against=judge.comparisons_by_row[name],
        beating=judge.compare_with_controls(name),
        delta_twins=twins,
    )


class KeptPredictions(NamedTuple):
    """Record of one estimator that says which predictions stay the same after removal by each network's map."""

    # (maps, networks, levels, images), see `compute_own_network_gain`; only images on which all networks agree
    answers: NDArray[np.bool_]
    same_masks: bool  # all networks' maps remove the same features of each of these images


def compute_own_network_board(
    scores: Correctness,
    predictions: Mapping[str, KeptPredictions],
    protocol: Protocol,
    bootstrap: Bootstrap,
    shown_rows: Collection[str] | None,
) -> Board:
    """Judge the rows that have complete predictions; `scores` lists rows and levels, without correctness bits."""
    answers = {name: row.answers for name, row in predictions.items()}
    gains = compute_own_network_gain_per_row(answers, protocol.order, bootstrap)
    areas = {name: own_gain.gain for name, own_gain in gains.items()}
    judge = Judge(
        scores, protocol, bootstrap, None, draw_resamples(scores, bootstrap, None), areas, IntervalScope.NETWORKS
    )
    # rows whose gain is 0 by construction are ranked but not tested
    untested = {name for name, row in predictions.items() if row.same_masks}
    judge_of_tested = replace(judge, scores=replace(scores, checks=scores.checks | untested))
    names = [name for name in scores.estimators if shown_rows is None or name in shown_rows]
    rows = [
        _make_own_network_row(judge, judge_of_tested, name, predictions[name], gains[name])
        if name in predictions
        else _make_empty_row(name, scores)
        for name in names
    ]
    networks, _, _, images = next((row.answers.shape for row in predictions.values()), (0, 0, 0, 0))
    return Board(
        protocol,
        scores.levels,
        tuple(rows),
        images,
        bootstrap,
        IntervalScope.NETWORKS,
        compute_detectable_difference(judge.pairs_without_submissions) if judge.ranked_gains else None,
        sum(name not in scores.submitted for name, _ in judge_of_tested.comparisons),
        networks,
    )


def _make_own_network_row(
    judge: Judge, judge_of_tested: Judge, name: str, predictions: KeptPredictions, own_gain: OwnNetworkGain
) -> Row:
    """Build a row; its accuracies are the shares of predictions that stay the same after removal by own maps."""
    answers = predictions.answers
    own = np.einsum("iilx->l", answers.astype(int)) / (len(answers) * answers.shape[3])
    sign = (-1 if judge.protocol.order is Order.MORF else 1) / POINTS
    levels = (Sample(sign * sample.value, sign * sample.draws) for sample in own_gain.levels)
    beside_zero, twins = judge_of_tested.comparisons.get((name, RANDOM)), judge.estimate_gains_over_twins(name)
    network = beside_zero and OwnNetworkTest.from_verdict(beside_zero.verdict, own_gain.permutation)
    return replace(
        _make_empty_row(name, judge.scores),
        seeds=len(answers),
        clean=Estimate(1.0),
        accuracies=tuple(Estimate(float(share)) for share in own),
        differences=tuple(Estimate(0.0) if predictions.same_masks else judge.estimate(sample) for sample in levels),
        gain=Estimate(0.0) if predictions.same_masks else judge.estimate_area(name),
        place=judge.rank_intervals.get(name),
        predicted=Estimate() if predictions.same_masks else judge.estimate(predict_replicated_gain(own_gain.gain)),
        delta_other_image=twins.pop(OTHER_IMAGE, Estimate()),
        against=judge_of_tested.comparisons_by_row[name],
        delta_twins=twins,
        network=OwnNetworkTest(OwnNetworkVerdict.BY_CONSTRUCTION) if predictions.same_masks else network,
    )


def _make_empty_row(name: str, scores: Correctness) -> Row:
    nothing = (Estimate(),) * len(scores.levels)
    check = name in scores.checks
    return Row(name, 0, Estimate(), nothing, nothing, Estimate(), None, check)

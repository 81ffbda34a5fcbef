"""Compute a suite's own-network gains and board from stored predictions of each network under each network's maps."""

from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import FEWEST_NETWORKS, Order, Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import MAX_COMPARED_NETWORKS, SEEDS_PER_REPLICATION
from roarbench.stats.board_records import (
    RANDOM,
    Board,
    GainAndVerdict,
    IntervalScope,
    Row,
    drop_ranks_and_verdicts,
)
from roarbench.stats.compute_board import Judge
from roarbench.stats.contrasts import measure_cells
from roarbench.stats.correctness_and_gain import POINTS, UNTOUCHED, Bits, Correctness, Point
from roarbench.stats.intervals import Estimate, estimate, estimate_all
from roarbench.stats.own_network_gain import (
    OwnNetworkGain,
    OwnNetworkTest,
    OwnNetworkVerdict,
    compute_own_network_gains,
    predict_replicated_gain,
)
from roarbench.store.run_result import RunResult, unpack_correctness

Grid = Sequence[Sequence[RunResult]]  # [map][network]


class KeptPredictions(NamedTuple):
    """Predictions of one estimator's row that stay the same after removal by each network's map."""

    # (maps, networks, levels, images), see `compute_own_network_gains`; only images on which all networks agree
    kept: NDArray[np.bool_]
    same_masks: bool  # whether all networks' maps remove the same features of each of these images


class _JudgedRows(NamedTuple):
    """Own-network gains of the complete rows of a suite; rows whose gain is 0 by construction are not tested."""

    judge: Judge
    judge_of_tested: Judge
    predictions: dict[str, KeptPredictions]
    gains: dict[str, OwnNetworkGain]

    def list_verdicts(self) -> dict[str, OwnNetworkVerdict]:
        """Return the verdicts of the rows, without those of checks."""
        compared = self.judge_of_tested.compare_with_random()
        verdicts = {name: OwnNetworkTest.from_verdict(one.verdict, None).verdict for name, one in compared.items()}
        return {**verdicts, **{name: OwnNetworkVerdict.BY_CONSTRUCTION for name in self.untested}}

    @property
    def untested(self) -> set[str]:
        """Return the rows whose gain is 0 by construction."""
        return {name for name, row in self.predictions.items() if row.same_masks}


def _judge_rows(
    results: SuiteResults, protocol: Protocol, unit: Unit, levels: Collection[float] = ()
) -> _JudgedRows | None:
    scores = results.make_empty_correctness(protocol, unit)
    if not scores.levels:
        return None
    scores = replace(scores, levels=tuple(t for t in scores.levels if t in levels) or scores.levels)
    predictions = _collect_unchanged_predictions_by_row(results, protocol, unit, scores)
    gains = compute_own_network_gains({name: row.kept for name, row in predictions.items()}, protocol.order)
    areas = {name: own_gain.gain for name, own_gain in gains.items()}
    measured = next((gain.quantities for gain in areas.values()), measure_cells(scores, None))
    judge = Judge(scores, protocol, None, measured, areas, IntervalScope.NETWORKS)
    untested = {name for name, row in predictions.items() if row.same_masks}
    judge_of_tested = replace(judge, scores=replace(scores, checks=scores.checks | untested))
    return _JudgedRows(judge, judge_of_tested, predictions, gains)


def list_own_network_gains(results: SuiteResults, protocol: Protocol, unit: Unit) -> list[GainAndVerdict]:
    """List the gains and verdicts of all rows of a suite; see `make_own_network_board`."""
    rows = _judge_rows(results, protocol, unit)
    if not rows:
        return []
    verdicts = {} if results.at_chance_warning else rows.list_verdicts()
    return [
        GainAndVerdict(
            name,
            Estimate(0.0) if name in rows.untested else rows.judge.estimate_area(name),
            verdicts.get(name),
            len(rows.predictions[name].kept) if name in rows.predictions else 0,
        )
        for name in rows.judge.scores.estimators
    ]


def make_own_network_board(
    results: SuiteResults,
    protocol: Protocol,
    unit: Unit,
    shown_rows: Collection[str] | None = None,
    levels: Collection[float] = (),
) -> Board | None:
    """Judge rows by own-network gain, at all levels if `levels` is empty; None if the suite lacks the protocol."""
    rows = _judge_rows(results, protocol, unit, levels)
    if rows is None:
        return None
    judge, judge_of_tested, predictions, gains = rows
    scores = judge.scores
    networks, _, _, images = next((row.kept.shape for row in predictions.values()), (0, 0, 0, 0))
    board = Board(
        protocol,
        scores.levels,
        tuple(
            _make_row(judge, judge_of_tested, name, predictions[name], gains[name])
            if name in predictions
            else _make_empty_row(name, scores)
            for name in scores.estimators
            if shown_rows is None or name in shown_rows
        ),
        images,
        IntervalScope.NETWORKS,
        judge_of_tested.family,
        networks,
    )
    return drop_ranks_and_verdicts(board) if results.at_chance_warning else board


def _make_row(
    judge: Judge, judge_of_tested: Judge, name: str, predictions: KeptPredictions, own_gain: OwnNetworkGain
) -> Row:
    """Build a row; its accuracies are the shares of predictions that stay the same after removal by own maps."""
    kept, same_masks = predictions
    own = np.einsum("iilx->l", kept.astype(int)) / (len(kept) * kept.shape[3])
    sign = (-1 if judge.protocol.order is Order.MORF else 1) / POINTS
    levels = estimate_all({number: gain.scale(sign) for number, gain in enumerate(own_gain.levels)}).values()
    predicted = estimate(predict_replicated_gain(own_gain.gain))
    beside_zero = judge_of_tested.comparisons.get((name, RANDOM))
    network = beside_zero and OwnNetworkTest.from_verdict(beside_zero.verdict, own_gain.permutation)
    return replace(
        _make_empty_row(name, judge.scores),
        seeds=len(kept),
        clean=Estimate(1.0),
        accuracies=tuple(Estimate(float(share)) for share in own),
        differences=tuple(Estimate(0.0) if same_masks else level for level in levels),
        gain=Estimate(0.0) if same_masks else judge.estimate_area(name),
        place=judge.rank_intervals.get(name),
        predicted=Estimate() if same_masks else predicted,
        against=judge_of_tested.comparisons_by_row[name],
        delta_twins=judge.estimate_gains_over_twins(name),
        network=OwnNetworkTest(OwnNetworkVerdict.BY_CONSTRUCTION) if same_masks else network,
    )


def _make_empty_row(name: str, scores: Correctness) -> Row:
    nothing = (Estimate(),) * len(scores.levels)
    return Row(name, 0, Estimate(), nothing, nothing, Estimate(), None, name in scores.checks)


def compute_own_network_gains_of_suite(
    results: SuiteResults, protocol: Protocol, unit: Unit
) -> dict[str, OwnNetworkGain]:
    """Compute the own-network gain of each complete row."""
    kept = {name: row.kept for name, row in load_kept_predictions(results, protocol, unit)[1].items()}
    return compute_own_network_gains(kept, protocol.order)


def load_kept_predictions(
    results: SuiteResults, protocol: Protocol, unit: Unit, names: Collection[str] = ()
) -> tuple[tuple[float, ...], dict[str, KeptPredictions]]:
    """Return the levels above 0 and each complete row's kept predictions, of all rows if `names` is empty."""
    scores = results.make_empty_correctness(protocol, unit)
    if names:
        scores = replace(scores, estimators=tuple(name for name in scores.estimators if name in names))
    return scores.levels, _collect_unchanged_predictions_by_row(results, protocol, unit, scores)


def list_points_with_every_map_and_network(results: SuiteResults, protocol: Protocol, unit: Unit) -> list[Point]:
    """Return the points, of rows and of the untouched images, with a result of every network under every map."""
    return [
        at
        for at, by_seed in results.find_results(protocol, unit).items()
        if _arrange_by_map_and_network(results, by_seed, at == UNTOUCHED or find_estimator(at[0]).depends_on_network)
    ]


def describe_total_disagreement_of_networks(results: SuiteResults, protocol: Protocol, unit: Unit) -> str:
    """Return a sentence saying that the networks agree on no test image, or "" if they agree on some.

    The result is also empty if a network lacks stored predictions on the untouched images.
    """
    shared = _mark_images_predicted_alike(results, protocol, unit)
    if shared is None or shared.any():
        return ""
    seen = f"The {results.suite.references} networks predict the same class for none of the {len(shared)} test images"
    return f"{seen}, so own-network gain cannot be computed; use networks with the same classes, or more images."


def load_kept_under_own_and_next_map(
    results: SuiteResults, protocol: Protocol, unit: Unit, name: str
) -> tuple[Sequence[Bits], Sequence[Bits]]:
    """Return predictions kept under the own and the next network's map: bool (images,) per network and level."""
    stored, per_network = results.find_results(protocol, unit), find_estimator(name).depends_on_network
    own, other = list[Bits](), list[Bits]()
    for t in results.list_included_levels(protocol, unit):
        grid = _arrange_by_map_and_network(results, stored.get((name, t), {}), per_network) or ()
        for i in range(len(grid)):
            own.append(grid[i][i].correctness)
            other.append(grid[(i + 1) % len(grid)][i].correctness)
    return own, other


def _collect_unchanged_predictions_by_row(
    results: SuiteResults, protocol: Protocol, unit: Unit, scores: Correctness
) -> dict[str, KeptPredictions]:
    stored, shared = results.find_results(protocol, unit), _mark_images_predicted_alike(results, protocol, unit)
    by_row: dict[str, KeptPredictions] = {}
    if shared is None or not shared.any():
        return by_row
    for name in scores.estimators:
        per_network = find_estimator(name).depends_on_network
        grids = [_arrange_by_map_and_network(results, stored.get((name, t), {}), per_network) for t in scores.levels]
        complete = [grid for grid in grids if grid]
        if complete and len(complete) == len(grids) and name not in scores.inconsistent:
            results_in_order = [result for grid in complete for row in grid for result in row]
            shape = (len(complete), len(complete[0]), len(complete[0]), -1)
            kept = unpack_correctness(results_in_order)[:, shared].reshape(shape)
            same_masks = _has_same_masks_for_all_networks(complete, results.masks, shared)
            by_row[name] = KeptPredictions(kept.transpose(1, 2, 0, 3), same_masks)
    return by_row


def _mark_images_predicted_alike(results: SuiteResults, protocol: Protocol, unit: Unit) -> NDArray[np.bool_] | None:
    """Mark the images to which all networks assign the same class, bool (images,); None without enough results."""
    untouched = _arrange_by_map_and_network(
        results, results.find_results(protocol, unit).get(UNTOUCHED, {}), per_network=True
    )
    if untouched is None or len(untouched) < FEWEST_NETWORKS:
        return None
    return np.asarray(unpack_correctness([result for row in untouched for result in row]).all(0))


def _arrange_by_map_and_network(
    results: SuiteResults, by_seed: Mapping[int, RunResult], per_network: bool
) -> Grid | None:
    """Arrange an estimator's results at one level as a grid of maps by networks; None if a result is missing.

    If the map is the same for all networks, one score per network is stored and used for every map.
    """
    numbers, first = range(results.suite.references), SEEDS_PER_REPLICATION * results.suite.replication
    seeds = {
        (i, j): first + MAX_COMPARED_NETWORKS * (i if per_network else j) + j for i, j in product(numbers, numbers)
    }
    if not by_seed.keys() >= set(seeds.values()):
        return None
    return [[by_seed[seeds[i, j]] for j in numbers] for i in numbers]


def _has_same_masks_for_all_networks(
    grids: Sequence[Grid], masks: Mapping[str, str], shared: NDArray[np.bool_]
) -> bool:
    for grid in grids:
        hashes = [masks.get(grid[i][i].run.key, "") for i in range(len(grid))]
        if not all(hashes):
            return False
        own = [np.frombuffer(b64decode(text), np.uint8).reshape(len(shared), -1)[shared] for text in hashes]
        if not all(np.array_equal(own[0], other) for other in own[1:]):
            return False
    return True

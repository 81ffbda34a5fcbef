"""The board of own-network gain: gains from what networks keep under each other's maps, judged beside 0."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.enums import OTHER_IMAGE, Order
from roarbench.protocols.protocol import Protocol
from roarbench.stats.board import RANDOM, Board, IntervalScope, Row
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample
from roarbench.stats.compute_board import Judged, judge_gains
from roarbench.stats.curves import POINTS, Correctness
from roarbench.stats.own_network_gain import (
    OwnNetworkGain,
    OwnNetworkTest,
    OwnNetworkVerdict,
    compute_own_network_gain,
    predict_replication,
)
from roarbench.stats.resampling import draw_resamples
from roarbench.stats.sampled_gains import Drawn


class Kept(NamedTuple):
    """Predictions that networks keep under an estimator's maps of each of them."""

    # (maps, networks, levels, images), see `compute_own_network_gain`; images that all networks put into one class
    answers: NDArray[np.bool_]
    same: bool  # the maps of all networks remove the same features of each of these images


def compute_own_network_board(
    scores: Correctness,
    kept: Mapping[str, Kept],
    protocol: Protocol,
    bootstrap: Bootstrap,
    shown: Collection[str] | None,
) -> Board:
    """Judge the rows of which all answers are there; `scores` says which rows and levels there are, without answers."""
    gains = {name: compute_own_network_gain(each.answers, protocol.order, bootstrap) for name, each in kept.items()}
    areas = {name: found.gain for name, found in gains.items()}
    drawn = Drawn(
        scores, protocol, bootstrap, None, draw_resamples(scores, bootstrap, None), areas, IntervalScope.NETWORKS
    )
    names = [name for name in scores.estimators if shown is None or name in shown]
    judged = judge_gains(drawn, names, [name for name, each in kept.items() if each.same])
    rows = [
        _row(drawn, judged, name, kept[name], gains[name]) if name in kept else _empty(name, scores) for name in names
    ]
    networks, _, _, images = next((each.answers.shape for each in kept.values()), (0, 0, 0, 0))
    family = sum(name not in scores.submitted for name, _ in judged.comparisons)
    return Board(
        protocol,
        scores.levels,
        tuple(rows),
        images,
        bootstrap,
        IntervalScope.NETWORKS,
        judged.detectable,
        family,
        networks,
    )


def _row(drawn: Drawn, judged: Judged, name: str, kept: Kept, found: OwnNetworkGain) -> Row:
    """Return a row with its numbers; its accuracies are the predictions that networks keep under their own maps."""
    own = np.einsum("iilx->l", kept.answers.astype(int)) / (len(kept.answers) * kept.answers.shape[3])
    sign = (-1 if drawn.protocol.order is Order.MORF else 1) / POINTS
    levels = (Sample(sign * each.value, sign * each.draws) for each in found.levels)
    beside_zero, twins = judged.comparisons.get((name, RANDOM)), {**judged.delta_twins[name]}
    tested = beside_zero and OwnNetworkTest.of(beside_zero.verdict, found.permutation)
    return replace(
        _empty(name, drawn.scores),
        seeds=len(kept.answers),
        clean=Estimate(1.0),
        accuracies=tuple(Estimate(float(share)) for share in own),
        differences=tuple(Estimate(0.0) if kept.same else drawn.estimate(each) for each in levels),
        gain=Estimate(0.0) if kept.same else drawn.area(name),
        place=judged.places.get(name),
        predicted=Estimate() if kept.same else drawn.estimate(predict_replication(found.gain)),
        delta_other_image=twins.pop(OTHER_IMAGE, Estimate()),
        against=judged.against[name],
        delta_twins=twins,
        network=OwnNetworkTest(OwnNetworkVerdict.BY_CONSTRUCTION) if kept.same else tested,
    )


def _empty(name: str, scores: Correctness) -> Row:
    nothing = (Estimate(),) * len(scores.levels)
    check = name in scores.checks
    return Row(name, 0, Estimate(), nothing, nothing, Estimate(), Estimate(), None, check)

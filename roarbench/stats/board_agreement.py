"""Agreement between two orders of the same estimators: under two protocols, or on two boards of one protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roarbench.common.enums import OTHER_IMAGE
from roarbench.estimators.estimator import CONTROLS
from roarbench.stats.board_records import Board
from roarbench.stats.contrasts import Contrast
from roarbench.stats.intervals import Estimate
from roarbench.stats.rank_intervals import Pairs
from roarbench.stats.verdicts import Verdict

FEWEST_ROWS = 3  # two rows give no correlation


class Agreement(NamedTuple):
    """Agreement between two orders."""

    # Kendall's tau-b, 1 for equal and -1 for opposite orders; the interval covers both orders of every pair that is not
    # significant under both protocols
    tau: Estimate
    rows: int  # number of estimators with a gain under both protocols
    # number of pairs that differ significantly under both protocols: the 95 % intervals exclude 0. None if training
    # noise is unknown
    settled: int | None
    opposed: int | None  # number of settled pairs in opposite order


def compute_agreement(first: Mapping[str, Contrast], second: Mapping[str, Contrast]) -> Agreement | None:
    """Compute Kendall's tau between the gains of two protocols, over the estimators that have both gains.

    The interval comes from the 95 % intervals of all pairs' differences. Returns None for fewer than three common rows,
    or if all gains of one protocol are equal.
    """
    rows = [name for name in first if name in second]
    tau = _compute_tau([(first[name].value, second[name].value) for name in rows])
    if tau is None:
        return None
    signs, significant = [], []
    for gains in (first, second):
        pairs = Pairs.from_contrasts([gains[name] for name in rows])
        values, halves = pairs.differences, pairs.half_widths
        signs.append(np.sign(values))
        # without any variance, equal gains are those of equal rows, and others decide nothing
        significant.append(np.where(halves > 0, np.abs(values) > halves, values == 0))
    norm = np.sqrt(np.count_nonzero(signs[0]) * np.count_nonzero(signs[1]))
    products, settled = signs[0] * signs[1], significant[0] & significant[1]
    sure, free = int(products[settled].sum()), int(np.count_nonzero(~settled))
    interval = Estimate(tau, float(max(-1.0, (sure - free) / norm)), float(min(1.0, (sure + free) / norm)))
    both = settled & (products != 0)
    return Agreement(interval, len(rows), int(both.sum()), int((products[both] < 0).sum()))


def _compute_tau(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Compute Kendall's tau-b of pairs of gains; None for fewer than three, or if all gains on one side are equal."""
    if len(pairs) < FEWEST_ROWS:
        return None
    from scipy.stats import kendalltau  # importing scipy.stats takes as long as making a table without tau

    tau = float(kendalltau(*zip(*pairs, strict=True)).statistic)
    return None if tau != tau else tau  # NaN if all gains are equal


class VerdictPair(NamedTuple):
    """The verdicts of two boards on one row, compared with one control."""

    control: str
    first: Verdict
    again: Verdict


class ReplicatedRow(NamedTuple):
    """A row that is on two boards of one protocol; gains are in accuracy points."""

    estimator: str
    gain: Estimate  # on the first board
    again: Estimate  # on the second board
    predicted: Estimate  # the first board's prediction interval for `again`
    # whether `predicted` contains `again`; None without an interval, and for intervals of width 0: Random's gain is 0
    # on every board
    inside: bool | None
    inside_again: bool | None  # whether the second board's prediction interval contains `gain`
    verdicts: tuple[VerdictPair, ...]  # by control, for the comparisons with single controls that both boards have
    # whether the row beats every control, on the first and the second board; empty for a control
    beats_controls: tuple[bool, ...]


@dataclass(frozen=True)
class Replication:
    """Agreement of two boards of one protocol."""

    rows: tuple[ReplicatedRow, ...]  # rows with a gain on both boards, in the first board's order
    verdicts: int  # number of comparisons with single controls that both boards have
    equal: int  # number of equal verdicts
    opposed: int  # number of pairs with "better" on one board and "worse" on the other
    beats_asked: int  # number of rows that both boards compare with every control
    beats_equal: int  # number of these rows that beat every control on both boards, or on neither
    gains: int  # number of gains with a prediction interval from the other board, in both directions
    inside: int  # number of these gains inside their interval
    tau: float | None  # Kendall's tau-b of the gains; None for fewer than three rows, and for equal gains


def compare_boards(first: Board, second: Board) -> Replication:
    """Compare two boards of one protocol that have no explained network and no seed in common.

    Own-network gain uses the images for which all networks predict the same class, so each board has other images.
    Raises ValueError if the boards differ in protocol, levels or (except for own-network gain) number of images.
    """
    first_design, second_design = ((board.protocol.name, board.levels, board.images) for board in (first, second))
    compared = 2 if first.protocol.scores_all_network_pairs else 3
    if first_design[:compared] != second_design[:compared]:
        seen = f"one board has (protocol, levels, images) {first_design}, the other {second_design}"
        raise ValueError(f"{seen}; they must be equal")
    again = {row.estimator: row for row in second.rows if row.gain.value is not None}
    rows = []
    for row in first.rows:
        other = again.get(row.estimator)
        if row.gain.value is None or other is None:
            continue
        pairs = [(control, row.against.get(control), other.against.get(control)) for control in CONTROLS]
        pairs += [(OTHER_IMAGE, row.get_twin_comparison(OTHER_IMAGE), other.get_twin_comparison(OTHER_IMAGE))]
        rows.append(
            ReplicatedRow(
                row.estimator,
                row.gain,
                other.gain,
                row.predicted,
                _is_in_predicted_interval(other.gain, row.predicted),
                _is_in_predicted_interval(row.gain, other.predicted),
                tuple(VerdictPair(control, one.verdict, two.verdict) for control, one, two in pairs if one and two),
                (row.beating.beats_all, other.beating.beats_all) if row.beating and other.beating else (),
            )
        )
    words = [verdict for row in rows for verdict in row.verdicts]
    insides = [inside for row in rows for inside in (row.inside, row.inside_again) if inside is not None]
    beats = [row.beats_controls for row in rows if row.beats_controls]
    return Replication(
        rows=tuple(rows),
        verdicts=len(words),
        equal=sum(verdict.first is verdict.again for verdict in words),
        opposed=sum({verdict.first, verdict.again} == {Verdict.BETTER, Verdict.WORSE} for verdict in words),
        beats_asked=len(beats),
        beats_equal=sum(one == two for one, two in beats),
        gains=len(insides),
        inside=sum(insides),
        tau=_compute_tau([(row.gain.value, row.again.value) for row in rows]),
    )


def _is_in_predicted_interval(gain: Estimate, predicted: Estimate) -> bool | None:
    if gain.value is None or predicted.low is None or predicted.high is None or predicted.low == predicted.high:
        return None
    return predicted.low <= gain.value <= predicted.high

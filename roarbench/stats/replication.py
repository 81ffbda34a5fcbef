"""Two boards of one question, made from other references and trainings: do they say the same?"""

from dataclasses import dataclass
from typing import NamedTuple

from roarbench.stats.agreement import FEWEST_ROWS
from roarbench.stats.board import Board, Row
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.verdicts import Verdict
from roarbench.terms import OTHER_IMAGE

_OPPOSED = {Verdict.BETTER, Verdict.WORSE}


class Words(NamedTuple):
    """Verdicts of two boards on a row beside one control."""

    control: str
    one: Verdict
    other: Verdict


class Repeated(NamedTuple):
    """A row on two boards."""

    estimator: str
    gain: Estimate  # gain, again: on the one and on the other, in accuracy points
    again: Estimate
    predicted: Estimate  # predicted, predicted_again: where each board expects the other's gain
    predicted_again: Estimate
    # whether `again` is in `predicted`; None where there is no interval, or none of any width: Random's gain is 0 on
    # every board
    inside: bool | None
    inside_again: bool | None  # whether `gain` is in `predicted_again`
    verdicts: tuple[Words, ...]  # those against single controls that both boards have
    # whether it beats every control that asks no network, on the one and on the other; empty for a control
    beats: tuple[bool, ...]


@dataclass(frozen=True)
class Replication:
    """Agreement of two boards."""

    rows: tuple[Repeated, ...]  # those with a gain on both, in the order of the first
    verdicts: int  # number of verdicts against single controls that both boards have
    equal: int  # those of them that are the same word
    opposed: int  # those that are better on one and worse on the other
    gains: int  # number of gains that a prediction interval of the other board was there for, both ways
    inside: int  # those of them that lie in it
    tau: float | None  # Kendall's tau-b of the gains; None for fewer than three rows or equal gains

    @property
    def beats(self) -> tuple[int, int]:
        """Return of how many rows both boards say whether they beat every control, and for how many the same."""
        said = [row.beats for row in self.rows if row.beats]
        return len(said), sum(one == other for one, other in said)

    @property
    def equal_share(self) -> float | None:
        """Return the share of the verdicts that are the same, in [0, 1]; None without any."""
        return self.equal / self.verdicts if self.verdicts else None

    @property
    def opposed_share(self) -> float | None:
        """Return the share of the verdicts that are opposed, in [0, 1]; None without any."""
        return self.opposed / self.verdicts if self.verdicts else None

    @property
    def inside_share(self) -> float | None:
        """Return the share of the gains inside their prediction intervals, in [0, 1]; None without intervals."""
        return self.inside / self.gains if self.gains else None


def replication(one: Board, other: Board) -> Replication:
    """Compare boards of disjoint references and seeds; ValueError for other protocols, levels or numbers of images."""
    asked, answered = ((board.protocol.name, board.levels, board.images) for board in (one, other))
    if asked != answered:
        raise ValueError(f"one board has (protocol, levels, images) {asked}, the other {answered}; they must be equal")
    again = {row.estimator: row for row in other.rows if row.gain.value is not None}
    rows = tuple(
        _repeated(row, again[row.estimator])
        for row in one.rows
        if row.gain.value is not None and row.estimator in again
    )
    words = [said for row in rows for said in row.verdicts]
    held = [inside for row in rows for inside in (row.inside, row.inside_again) if inside is not None]
    return Replication(
        rows,
        len(words),
        sum(said.one is said.other for said in words),
        sum({said.one, said.other} == _OPPOSED for said in words),
        len(held),
        sum(held),
        _tau(rows),
    )


def _repeated(row: Row, again: Row) -> Repeated:
    pairs = (
        ("random", row.random, again.random),
        ("sobel", row.sobel, again.sobel),
        ("random-blurred", row.random_blurred, again.random_blurred),
        (OTHER_IMAGE, row.other_image, again.other_image),
    )
    verdicts = tuple(Words(control, one.verdict, two.verdict) for control, one, two in pairs if one and two)
    inside = _inside(again.gain, row.predicted), _inside(row.gain, again.predicted)
    beats = (row.beating.verdict, again.beating.verdict) if row.beating and again.beating else ()
    return Repeated(row.estimator, row.gain, again.gain, row.predicted, again.predicted, *inside, verdicts, beats)


def _inside(gain: Estimate, predicted: Estimate) -> bool | None:
    if gain.value is None or predicted.low is None or predicted.high is None or predicted.low == predicted.high:
        return None
    return predicted.low <= gain.value <= predicted.high


def _tau(rows: tuple[Repeated, ...]) -> float | None:
    if len(rows) < FEWEST_ROWS:
        return None
    from scipy.stats import kendalltau  # see `agreement`

    tau = float(kendalltau([row.gain.value for row in rows], [row.again.value for row in rows]).statistic)
    return None if tau != tau else tau  # not a number where all gains are equal

"""Recommend estimators: the Pareto front of own-network gain against passes, and rows close to the front."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from leaderboard.board_contents import BEATS
from leaderboard.roar_and_own_network_board import Answer, CombinedBoard, NamedRow
from roarbench.stats.bootstrap_intervals import Estimate


class AdvisedRow(NamedTuple):
    """An estimator's row whose verdict is that it explains its network, with its cost and gain."""

    row: NamedRow
    gain: Estimate
    roar: Answer | None  # the row's answer under ROAR; None if ROAR was not run
    # the row's interval is above the gains of all other rows of the suite with at most as many passes, also of rows
    # without a significant gain; rows that were added to the suite do not count
    certain: bool


class Advice(NamedTuple):
    """The Pareto front, cheapest row first, and all other rows whose interval overlaps that of the front's last row."""

    slug: str
    title: str
    included_levels_text: str  # levels of ROAR in words if some of the suite's levels are left out; else empty
    front: list[AdvisedRow]
    near: list[AdvisedRow]


def recommend_rows(board: CombinedBoard) -> Advice | None:
    """Return the rows among which to choose; None if no row with a known cost explains its network."""
    roar, own_network = (question.answers for question in board.questions[:2])
    candidates = list[tuple[NamedRow, Estimate, float]]()
    for row in board.rows:
        answer = own_network.get(row.id)
        if row.passes and answer and answer.colour_class == BEATS and answer.gain.value is not None:
            candidates.append((row, answer.gain, answer.gain.value))
    front, others, best = list[AdvisedRow](), list[AdvisedRow](), float("-inf")
    for row, gain, value in sorted(candidates, key=lambda candidate: (candidate[0].passes, -candidate[2])):
        retrained = roar.get(row.id)
        shown = retrained if retrained and retrained.gain.value is not None else None
        advised = AdvisedRow(row, gain, shown, certain=_is_above_rows_with_as_few_passes(row, board.rows, own_network))
        (front if value > best else others).append(advised)
        best = max(best, value)
    if not front:
        return None
    lowest = front[-1].gain.low or 0.0
    near = [advised for advised in others if advised.gain.high is not None and advised.gain.high >= lowest]
    near.sort(key=lambda advised: -(advised.gain.value or 0.0))
    return Advice(board.slug, board.title, board.questions[0].included_levels_text, front, near)


def _is_above_rows_with_as_few_passes(row: NamedRow, rows: Iterable[NamedRow], answers: Mapping[str, Answer]) -> bool:
    """Return whether a row's interval is above the gains of the suite's other rows with at most as many passes."""
    rivals = (other for other in rows if other != row and not other.added and 0 < other.passes <= row.passes)
    gains = (answers[other.id].gain.value for other in rivals if other.id in answers)
    low = answers[row.id].gain.low
    return low is not None and low > max((gain for gain in gains if gain is not None), default=float("-inf"))

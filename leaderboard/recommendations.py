"""Recommend estimators: the Pareto front of own-network gain against passes, and rows close to the front."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from leaderboard.board_contents import BEATS, BELOW, OPEN
from leaderboard.combined_board import Answer, CombinedBoard, NamedRow
from roarbench.stats.intervals import Estimate


class AdvisedRow(NamedTuple):
    """An estimator's row whose verdict is that it explains its network, with its cost and gain."""

    row: NamedRow
    gain: Estimate
    roar: Answer | None  # the row's answer under ROAR; None if ROAR was not run
    # the row's interval is above the gains of all other rows of the suite with at most as many passes, also of rows
    # without a significant gain; rows that were added to the suite do not count
    certain: bool
    lerf_text: str  # the verdict in LeRF order unless it is the same; empty, too, if LeRF order was not run


class Advice(NamedTuple):
    """The Pareto front, cheapest row first, and all other rows whose interval overlaps that of the front's last row.

    The front is empty if no row explains its network.
    """

    slug: str
    title: str
    removal_text: str  # levels and order of removal behind the own-network gains
    levels_text: str  # levels of each gain that is shown
    front: list[AdvisedRow]
    near: list[AdvisedRow]


_LERF_TEXTS = {OPEN: "not shown in LeRF order", BELOW: "opposes it in LeRF order"}


def recommend_rows(board: CombinedBoard) -> Advice | None:
    """Return the rows among which to choose; None if rows lack verdicts, or if no explaining row has a known cost."""
    roar, own_network = (question.answers for question in board.questions[:2])
    kinds = {answer.colour_class for answer in own_network.values()}
    front, others, best = list[AdvisedRow](), list[AdvisedRow](), float("-inf")
    candidates = [  # rows that explain their network and have a known cost
        (row, answer.gain, answer.gain.value)
        for row in board.rows
        if row.passes
        and (answer := own_network.get(row.id))
        and answer.colour_class == BEATS
        and answer.gain.value is not None
    ]
    for row, gain, value in sorted(candidates, key=lambda each: (each[0].passes or 0.0, -each[2])):
        retrained, lerf = roar.get(row.id), board.lerf_answers.get(row.id)
        advised = AdvisedRow(
            row,
            gain,
            retrained if retrained and retrained.gain.value is not None else None,
            _is_above_rows_with_as_few_passes(row, board.rows, own_network),
            _LERF_TEXTS.get(lerf.colour_class, "") if lerf else "",
        )
        (front if value > best else others).append(advised)
        best = max(best, value)
    if not front and (BEATS in kinds or not {OPEN, BELOW} & kinds):
        return None
    lowest = front[-1].gain.low or 0.0 if front else 0.0
    near = [advised for advised in others if advised.gain.high is not None and advised.gain.high >= lowest]
    near.sort(key=lambda advised: -(advised.gain.value or 0.0))
    levels = (f"{each.gain}: {each.levels_text}" for each in board.questions[:2] if each.answers)
    return Advice(board.slug, board.title, board.questions[1].removal_text, "; ".join(levels), front, near)


def _is_above_rows_with_as_few_passes(row: NamedRow, rows: Iterable[NamedRow], answers: Mapping[str, Answer]) -> bool:
    """Return whether a row's interval is above the gains of the suite's other rows with at most as many passes."""
    most = row.passes or 0.0
    # a row with an unknown number of passes may have as few
    rivals = (other for other in rows if other != row and not other.added and not other.control)
    rivals = (other for other in rivals if other.passes is None or 0 < other.passes <= most)
    gains = (answers[other.id].gain.value for other in rivals if other.id in answers)
    low = answers[row.id].gain.low
    return low is not None and low > max((gain for gain in gains if gain is not None), default=float("-inf"))

"""Advice on choosing an estimator: the Pareto front of own-network gain against passes, and rows close to the front."""

from typing import NamedTuple

from leaderboard.board_contents import BEATS
from leaderboard.roar_and_own_network_board import Answer, NamedRow, PairedBoard
from roarbench.stats.bootstrap_intervals import Estimate


class AdvisedRow(NamedTuple):
    """An estimator's row whose verdict is that it explains its network, with its cost and gain."""

    row: NamedRow
    gain: Estimate
    roar: Answer | None  # the row's answer under ROAR; None if ROAR was not run
    certain: bool  # the row's interval is above the gains of all cheaper rows


class Advice(NamedTuple):
    """The Pareto front, cheapest row first, and all other rows whose interval overlaps that of the front's last row."""

    slug: str
    title: str
    incomplete_levels_text: str  # levels of ROAR in words if some of the suite's levels are left out; else empty
    front: list[AdvisedRow]
    near: list[AdvisedRow]


def recommend_rows(board: PairedBoard) -> Advice | None:
    """Return the rows among which to choose; None if no row with a known cost explains its network."""
    roar, own = (question.answers for question in board.questions[:2])
    there = [(row, own[row.id].gain) for row in board.rows if row.passes and row.id in own]
    there = [(row, gain) for row, gain in there if own[row.id].colour_class == BEATS and gain.value is not None]
    front, rest, best = list[AdvisedRow](), list[AdvisedRow](), float("-inf")
    for row, gain in sorted(there, key=lambda pair: (pair[0].passes, -(pair[1].value or 0.0))):
        answer = roar.get(row.id)
        retrained = answer if answer and answer.gain.value is not None else None
        advised = AdvisedRow(row, gain, retrained, certain=gain.low is not None and gain.low > best)
        if gain.value is not None and gain.value > best:
            best = gain.value
            front.append(advised)
        else:
            rest.append(advised)
    if not front:
        return None
    reached = front[-1].gain.low or 0.0
    near = [choice for choice in rest if choice.gain.high is not None and choice.gain.high >= reached]
    near.sort(key=lambda choice: -(choice.gain.value or 0.0))
    return Advice(board.slug, board.title, board.questions[0].incomplete_levels_text, front, near)

"""Recommend estimators: the Pareto front of own-network gain against passes, and rows close to the front."""

from collections.abc import Iterable
from typing import NamedTuple

from leaderboard.board_contents import BEATS, BELOW, OPEN, BoardContents, BoardRow


class AdvisedRow(NamedTuple):
    """An estimator's row whose verdict is that it explains its network, with its cost and gain."""

    row: BoardRow  # under own-network gain
    roar: BoardRow | None  # the row under ROAR; None if ROAR was not run
    # the row's interval is above the gains of all other rows of the suite with at most as many passes, also of rows
    # without a significant gain; rows that were added to the suite do not count
    certain: bool
    lerf_text: str  # the verdict in LeRF order unless it is the same; empty, too, if LeRF order was not run


class Advice(NamedTuple):
    """The Pareto front, cheapest row first, and all other rows whose interval overlaps that of the front's last row.

    The front is empty if no row explains its network.
    """

    own_network: BoardContents
    levels_text: str  # levels of each gain that is shown
    front: list[AdvisedRow]
    near: list[AdvisedRow]


def recommend_rows(
    own_network: BoardContents, roar: BoardContents | None = None, lerf: BoardContents | None = None
) -> Advice | None:
    """Return the rows among which to choose; None if rows lack verdicts, or if no explaining row has a known cost.

    The boards are those of own-network gain, of ROAR, and of own-network gain in LeRF order.
    """
    rows, (retrained, kept) = own_network.started_rows, (board.started_rows if board else {} for board in (roar, lerf))
    kinds = {row.colour_class for row in rows.values()}
    front, others, best = list[AdvisedRow](), list[AdvisedRow](), float("-inf")
    candidates = [  # rows that explain their network and have a known cost
        (row, row.value.value)
        for row in rows.values()
        if row.passes and row.colour_class == BEATS and row.value.value is not None
    ]
    for row, value in sorted(candidates, key=lambda each: (each[0].passes or 0.0, -each[1])):
        beside, reverse = retrained.get(row.id), kept.get(row.id)
        advised = AdvisedRow(
            row,
            beside if beside and beside.value.value is not None else None,
            _is_above_rows_with_as_few_passes(row, rows.values()),
            f"{reverse.verdict_text} in LeRF order" if reverse and reverse.colour_class in (OPEN, BELOW) else "",
        )
        (front if value > best else others).append(advised)
        best = max(best, value)
    if not front and (BEATS in kinds or not {OPEN, BELOW} & kinds):
        return None
    lowest = front[-1].row.value.low or 0.0 if front else 0.0
    near = [advised for advised in others if advised.row.value.high is not None and advised.row.value.high >= lowest]
    near.sort(key=lambda advised: -(advised.row.value.value or 0.0))
    levels = (f"{board.gain}: {board.levels_text}" for board in (roar, own_network) if board and board.started_rows)
    return Advice(own_network, "; ".join(levels), front, near)


def _is_above_rows_with_as_few_passes(row: BoardRow, rows: Iterable[BoardRow]) -> bool:
    """Return whether a row's interval is above the gains of the suite's other rows with at most as many passes."""
    most = row.passes or 0.0
    # a row with an unknown number of passes may have as few
    rivals = (other for other in rows if other != row and not other.added and not other.control)
    rivals = (other for other in rivals if other.passes is None or 0 < other.passes <= most)
    gains = (other.value.value for other in rivals)
    low = row.value.low
    return low is not None and low > max((gain for gain in gains if gain is not None), default=float("-inf"))

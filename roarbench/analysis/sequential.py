"""Which trainings come next where verdicts are still open. Nothing here imports torch."""

from collections.abc import Mapping

from roarbench.stats.board import RANDOM, Board, IntervalScope, Row
from roarbench.stats.verdicts import Comparison, Verdict


def is_settled(comparison: Comparison, difference: float | None) -> bool:
    """Return whether a comparison needs no more trainings.

    It is enough to know that no two gains differ by `difference` accuracy points; None asks for any difference.
    """
    if comparison.verdict is not Verdict.SAME:
        return True
    _, low, high = comparison.difference
    return difference is not None and low is not None and high is not None and -difference < low and high < difference


def is_open(row: Row, difference: float | None) -> bool:
    """Return whether a row needs more trainings: its comparison with Random is not settled, or nothing has intervals.

    Other controls do not keep it open: a course that is to settle them all saves next to nothing (decision 0023).
    """
    if row.check or row.estimator == RANDOM:
        return False
    if row.random:
        return not is_settled(row.random, difference)
    return not (row.sobel or row.random_blurred)


def next_seeds(board: Board, planned: Mapping[str, int], difference: float | None) -> dict[str, int]:
    """Return the trainings that rows should have next, of those that should have more than they have.

    An open row gets one more, and Random as many as the row: the luck of both is in their difference. Random needs none
    where its gain is 0 by construction, once it is known how much trainings vary. No row gets more than it has
    `planned`.
    """
    known = board.protocol.paired and board.covers is not IntervalScope.NOTHING  # Random's gain, and how trainings vary
    has = {row.estimator: row.seeds for row in board.rows}
    wanted: dict[str, int] = {}
    for row in board.rows:
        if is_open(row, difference) and row.seeds < planned.get(row.estimator, 0):
            for name in (row.estimator,) if known else (row.estimator, RANDOM):
                wanted[name] = max(wanted.get(name, 0), row.seeds + 1)
    goals = {name: min(goal, planned.get(name, 0)) for name, goal in wanted.items()}
    return {name: goal for name, goal in goals.items() if goal > has.get(name, 0)}

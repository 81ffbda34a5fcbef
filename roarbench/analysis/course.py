"""Which trainings come next where verdicts are still open. Nothing here imports torch."""

from collections.abc import Collection, Mapping

from roarbench.estimators import CONTROLS
from roarbench.stats.board import RANDOM, Board, Covers, Row
from roarbench.stats.verdicts import Comparison, Verdict

ASKED = (RANDOM,)  # the controls that a course is to settle: with all of them it saves next to nothing (decision 0023)


def settled(comparison: Comparison, difference: float | None) -> bool:
    """Return whether a comparison needs no more trainings.

    It is enough to know that no two gains differ by `difference` accuracy points; None asks for any difference.
    """
    if comparison.verdict is not Verdict.SAME:
        return True
    _, low, high = comparison.difference
    return difference is not None and low is not None and high is not None and -difference < low and high < difference


def open_with(row: Row, difference: float | None, controls: Collection[str] = ASKED) -> tuple[str, ...]:
    """Return the controls with which a row's comparison is open; all where there are no intervals yet."""
    others = dict(zip(CONTROLS, (row.random, row.sobel, row.random_blurred), strict=True))
    if row.check:
        return ()
    if not any(others.values()):
        return tuple(name for name in controls if name != row.estimator)
    return tuple(name for name in controls if (found := others[name]) and not settled(found, difference))


def next_seeds(
    board: Board, planned: Mapping[str, int], difference: float | None, controls: Collection[str] = ASKED
) -> dict[str, int]:
    """Return the trainings that rows should have next, of those that should have more than they have.

    A row with an open comparison with `controls` gets one more, and the control as many as the row: the luck of both is
    in their difference. Random needs none where its gain is 0 by construction, once it is known how much trainings
    vary. No row gets more than it has `planned`.
    """
    known = board.protocol.paired and board.covers is not Covers.NOTHING  # Random's gain, and how trainings vary
    has = {row.estimator: row.seeds for row in board.rows}
    wanted: dict[str, int] = {}
    for row in board.rows:
        against = open_with(row, difference, controls)
        if against and row.seeds < planned.get(row.estimator, 0):
            for name in (row.estimator, *(c for c in against if c != RANDOM or not known)):
                wanted[name] = max(wanted.get(name, 0), row.seeds + 1)
    goals = {name: min(goal, planned.get(name, 0)) for name, goal in wanted.items()}
    return {name: goal for name, goal in goals.items() if goal > has.get(name, 0)}

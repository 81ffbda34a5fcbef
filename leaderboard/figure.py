"""Curves of one estimator beside the controls, as points of a small picture."""

from typing import NamedTuple

from leaderboard.records import Axis, linear_axis
from roarbench.estimators.naming import human_name, lookup_estimator
from roarbench.report.table import SuiteTable
from roarbench.stats.bootstrap import Estimate
from roarbench.text import interval, signed


class Figure(NamedTuple):
    """The curves of one protocol, controls first and the estimator last: for each level from 0 on, what was measured.

    What is drawn is said in the title, with the level where there is one alone, and what it shows, for those who do not
    see it, in words.
    """

    title: str
    curves: list[list[tuple[float, Estimate]]]
    axis: Axis
    signed: bool
    words: str


def figure(table: SuiteTable, estimator: str) -> Figure | None:
    """Return an estimator's curve with the controls'; None where a point of it is missing."""
    board, gains = table.board, table.board.protocol.by_difference
    rows = [row for row in board.rows if row.estimator == estimator or lookup_estimator(row.estimator).asks_nothing]
    found = {row.estimator: [(t, at.in_points) for t, at in board.curve(row).items()] for row in rows}
    curves = {name: curve for name, curve in found.items() if all(at.value is not None for _, at in curve)}
    if estimator not in curves:
        return None
    own = curves.pop(estimator)
    drawn = [*curves.values(), own]
    ends = [end for curve in drawn for _, at in curve for end in at if end is not None]
    form = signed if gains else "{:.1f}".format
    said = ", ".join(f"t = {t:g}: {interval(at, form)}" for t, at in own[1:])
    alone = f"; measured at t = {board.levels[0]:g} alone" if len(board.levels) == 1 else ""
    return Figure(
        f"{board.protocol.curve_axis}{'' if gains else ', %'}{alone}",
        drawn,
        linear_axis(ends if gains else [*ends, 100.0]),
        gains,
        f"{human_name(estimator).name} by fraction removed: {said}. Grey: the controls.",
    )

"""Curves of one estimator beside the controls, as points of a small picture."""

from collections.abc import Sequence
from typing import NamedTuple

from leaderboard.records import Axis, in_points, linear_axis
from roarbench.estimators.naming import human_name, lookup_estimator
from roarbench.report.table import SuiteTable
from roarbench.stats.board import Row
from roarbench.stats.bootstrap import Estimate
from roarbench.text import interval, signed


class Figure(NamedTuple):
    """The curves of one protocol, controls first and the estimator last: for each level from 0 on, what was measured.

    What is drawn is said in the title, and what it shows, for those who do not see it, in words.
    """

    title: str
    curves: list[list[tuple[float, Estimate]]]
    axis: Axis
    signed: bool
    words: str


def figure(table: SuiteTable, estimator: str) -> Figure | None:
    """Return an estimator's curve with the controls'; None where fewer than two levels were measured."""
    board, gains = table.board, table.by_difference
    rows = [row for row in board.rows if row.estimator == estimator or lookup_estimator(row.estimator).asks_nothing]
    found = {row.estimator: _points(table, row) for row in rows}
    curves = {name: points for name, points in found.items() if all(at.value is not None for at in points)}
    if len(board.levels) < 2 or estimator not in curves:
        return None
    own = curves.pop(estimator)
    drawn = (*curves.values(), own)
    ends = [end for curve in drawn for at in curve for end in at if end is not None]
    form = signed if gains else "{:.1f}".format
    said = ", ".join(f"t = {t:g}: {interval(at, form)}" for t, at in zip(board.levels, own[1:], strict=True))
    return Figure(
        f"{board.protocol.curve_axis}{'' if gains else ', %'}",
        [list(zip((0.0, *board.levels), curve, strict=True)) for curve in drawn],
        linear_axis(ends if gains else [*ends, 100.0]),
        gains,
        f"{human_name(estimator).name} by fraction removed: {said}. Grey: the controls.",
    )


def _points(table: SuiteTable, row: Row) -> Sequence[Estimate]:
    """Return a row's gains in points, or accuracies in percent, from t = 0 on."""
    if table.by_difference:
        return [Estimate(0.0, 0.0, 0.0), *map(in_points, table.board.gains(row))]
    return list(map(in_points, (row.clean, *row.accuracies)))

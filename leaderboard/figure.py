"""Curves of one estimator beside the controls, as points of a small picture."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leaderboard.records import Axis, in_points, linear_axis
from roarbench.estimators.naming import human_name, lookup_estimator
from roarbench.report.table import SuiteTable
from roarbench.stats.board import Row
from roarbench.stats.bootstrap import Estimate
from roarbench.text import interval, signed

WIDTH, HEIGHT = 300, 150  # of the plot, in units of the picture


class Line(NamedTuple):
    """One curve.

    Attributes:
        control: Whether it never looks at the network.
        path: Its points, for a polyline.
        band: Corners of its intervals, for a polygon; empty where there are none.
        end: Height of its last point.
    """

    control: bool
    path: str
    band: str
    end: float


class Figure(NamedTuple):
    """The curves of one protocol.

    Attributes:
        title: What is drawn: `matched gain, points`.
        lines: Controls first, the estimator last.
        y: Where ticks stand, each with its text.
        words: What it shows, for those who do not see it.
    """

    title: str
    lines: tuple[Line, ...]
    y: tuple[tuple[float, str], ...]
    words: str


def figure(table: SuiteTable, estimator: str) -> Figure | None:
    """Return an estimator's curve with the controls'; None where fewer than two levels were measured."""
    board, gains = table.board, table.by_difference
    rows = [row for row in board.rows if row.estimator == estimator or lookup_estimator(row.estimator).asks_nothing]
    found = {row.estimator: _points(table, row) for row in rows}
    curves = {name: points for name, points in found.items() if all(at.value is not None for at in points)}
    if len(board.levels) < 2 or estimator not in curves:
        return None
    ends = [end for curve in curves.values() for at in curve for end in at if end is not None]
    axis = linear_axis(ends if gains else [*ends, 100.0])
    levels, form = (0.0, *board.levels), signed if gains else "{:.1f}".format
    own = ", ".join(
        f"t = {t:g}: {interval(at, form)}" for t, at in list(zip(levels, curves[estimator], strict=True))[1:]
    )
    return Figure(
        f"{board.protocol.curve_axis}{'' if gains else ', %'}",
        tuple(_line(name, levels, curves[name], axis) for name in sorted(curves, key=lambda name: name == estimator)),
        tuple((_up(axis, tick), f"{tick:{'+' if gains and tick else ''}g}".replace("-", "−")) for tick in axis.ticks),
        f"{human_name(estimator).name} by fraction removed: {own}. Grey: the controls.",
    )


def _points(table: SuiteTable, row: Row) -> Sequence[Estimate]:
    """Return a row's gains in points, or accuracies in percent, from t = 0 on."""
    if table.by_difference:
        return [Estimate(0.0, 0.0, 0.0), *map(in_points, table.board.gains(row))]
    return list(map(in_points, (row.clean, *row.accuracies)))


def _line(name: str, levels: Sequence[float], curve: Sequence[Estimate], axis: Axis) -> Line:
    value, low, high = (
        [(round(WIDTH * t, 1), _up(axis, end)) for t, end in zip(levels, ends, strict=True) if end is not None]
        for ends in zip(*curve, strict=True)
    )
    control = lookup_estimator(name).control
    return Line(control, _joined(value), "" if control else _joined([*high, *reversed(low)]), value[-1][1])


def _up(axis: Axis, value: float) -> float:
    return round(HEIGHT * (1 - axis.at(value) / 100), 1)


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)

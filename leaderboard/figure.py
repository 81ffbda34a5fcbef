"""Curves of one estimator beside the controls, as points of a small picture."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leaderboard.names import human_name
from leaderboard.records import Axis, in_points, linear_axis
from leaderboard.source import lookup_estimator
from roarbench.report.table import SuiteTable
from roarbench.stats.board import Row
from roarbench.stats.bootstrap import Estimate
from roarbench.text import interval, signed

WIDTH, HEIGHT = 300, 150  # of the plot, in units of the picture


class Line(NamedTuple):
    """One curve.

    Attributes:
        name: What it is called.
        control: Whether it never looks at the network.
        path: Its points, for a polyline.
        band: Corners of its intervals, for a polygon; empty where there are none.
        end: Height of its last point.
    """

    name: str
    control: bool
    path: str
    band: str
    end: float


class Figure(NamedTuple):
    """The curves of one protocol.

    Attributes:
        title: What is drawn: `matched gain, points`.
        lines: Controls first, the estimator last.
        x, y: Where ticks stand, each with its text.
        words: What it shows, for those who do not see it.
    """

    title: str
    lines: tuple[Line, ...]
    x: tuple[tuple[float, str], ...]
    y: tuple[tuple[float, str], ...]
    words: str


def figure(table: SuiteTable, estimator: str) -> Figure | None:
    """Return an estimator's curve with the controls'; None where fewer than two levels were measured."""
    board = table.board
    rows = [row for row in board.rows if row.estimator == estimator or lookup_estimator(row.estimator).asks_nothing]
    curves = {row.estimator: _points(table, row) for row in rows}
    if len(board.levels) < 2 or estimator not in curves or any(at.value is None for at in curves[estimator][1:]):
        return None
    gains = table.by_difference
    ends = [end for curve in curves.values() for at in curve for end in at if end is not None]
    axis = linear_axis(ends) if gains else linear_axis([*ends, 100.0])
    levels = (0.0, *board.levels)
    order = sorted(curves, key=lambda name: name == estimator)
    lines = tuple(_line(name, levels, curves[name], axis) for name in order if _whole(curves[name]))
    own = ", ".join(
        f"t = {t:g}: {interval(at, signed if gains else '{:.1f}'.format)}"
        for t, at in zip(board.levels, curves[estimator][1:], strict=True)
    )
    return Figure(
        board.protocol.curve_axis if gains else f"{board.protocol.curve_axis}, %",
        lines,
        tuple((round(WIDTH * t, 1), f"{t:g}") for t in (0, 0.5, 1)),
        tuple((_up(axis, tick), f"{tick:{'+' if gains and tick else ''}g}".replace("-", "−")) for tick in axis.ticks),
        f"{human_name(estimator).name} by fraction removed: {own}. Grey: the controls.",
    )


def _points(table: SuiteTable, row: Row) -> Sequence[Estimate]:
    """Return a row's gains in points, or accuracies in percent, from t = 0 on."""
    if table.by_difference:
        return [Estimate(0.0, 0.0, 0.0), *map(in_points, table.board.gains(row))]
    return list(map(in_points, (row.clean, *row.accuracies)))


def _whole(curve: Iterable[Estimate]) -> bool:
    return all(at.value is not None for at in curve)


def _line(name: str, levels: Sequence[float], curve: Sequence[Estimate], axis: Axis) -> Line:
    places = [(round(WIDTH * t, 1), at) for t, at in zip(levels, curve, strict=True)]
    path = [(x, _up(axis, at.value or 0.0)) for x, at in places]
    lows = [(x, _up(axis, at.low)) for x, at in places if at.low is not None]
    highs = [(x, _up(axis, at.high)) for x, at in places if at.high is not None]
    control = lookup_estimator(name).control
    band = "" if control or not lows else _joined([*highs, *reversed(lows)])
    return Line(human_name(name).name, control, _joined(path), band, path[-1][1])


def _up(axis: Axis, value: float) -> float:
    return round(HEIGHT * (1 - axis.at(value) / 100), 1)


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)

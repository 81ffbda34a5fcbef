"""From a board to the curves that are drawn."""

from collections.abc import Mapping

from roarbench.analysis.paper_curves import read_published_curves
from roarbench.enums import Order
from roarbench.errors import CallerError
from roarbench.estimators.catalogue import find_estimator
from roarbench.protocols.roar import KAR, ROAR
from roarbench.report.figure_panel import Curve as PanelCurve
from roarbench.report.figures import Axis, Chart
from roarbench.report.table import SuiteTable
from roarbench.stats.board import Board, IntervalScope
from roarbench.stats.bootstrap import Estimate


def make_chart(table: SuiteTable, published: str = "") -> Chart:
    """Return the chart of accuracy, or of gain, against t; under LeRF protocols such as KAR the axis says what is kept.

    The curves of a data set of Hooker et al. 2019 are laid over, for the rows that are shown.

    Raises:
        UnknownName: They did not use that data set.
        CallerError: They asked another question than this board.
    """
    board = table.board
    lerf = board.protocol.order is Order.LERF
    # the point of the untouched images belongs to all
    started = [row for row in board.rows if any(point.value is not None for point in row.accuracies)]
    return Chart(
        title=f"{table.suite_results.title}: {board.protocol.title}",
        caption=f"{table.caption}. {_bands(board)}",
        axis=Axis.KEPT if lerf else Axis.REMOVED,
        curves=tuple(_curve(row.estimator, board.curve(row)) for row in started),
        published=_published(published, board) if published else (),
        above_masks=_above_masks(table),
        height=board.protocol.curve_axis,
    )


def _bands(board: Board) -> str:
    if board.covers is IntervalScope.NOTHING:
        return "One training per cell: no bands."
    return f"Bands: {board.bootstrap.confidence:.0%} intervals over {board.covers}."


def _above_masks(table: SuiteTable) -> tuple[PanelCurve, ...]:
    """Return accuracies minus those of masks alone; none for a single level, which the table has and is no curve."""
    if len(table.mask_levels) < 2:
        return ()
    shown = [row.estimator for row in table.board.rows if row.estimator in table.above_masks]
    return tuple(_curve(name, table.above_masks[name]) for name in shown)


def _published(dataset: str, board: Board) -> tuple[PanelCurve, ...]:
    if board.protocol not in (ROAR, KAR):
        axis = f"{board.protocol.name}, {board.protocol.curve_axis}"
        seen = f"this plot is of {axis}"
        raise CallerError(f"{seen}, the paper's curves are accuracies under roar or kar; leave --published out")
    rows = {row.estimator for row in board.rows}
    curves = read_published_curves(dataset, board.protocol.order)
    points = {name: {t: Estimate(value) for t, value in curve.items()} for name, curve in curves.items()}
    return tuple(_curve(name, points[name]) for name in curves if name in rows)


def _curve(name: str, points: Mapping[float, Estimate]) -> PanelCurve:
    estimator = find_estimator(name)
    value, low, high = (tuple(part) for part in zip(*points.values(), strict=True))
    return PanelCurve(name, estimator.base, estimator.control, tuple(points), value, low, high)

"""From a board to the curves that are drawn."""

from roarbench.estimators import find_estimator
from roarbench.figures import Axis, Chart
from roarbench.panels import Curve
from roarbench.stats.board import Row
from roarbench.tables import ShownTable
from roarbench.terms import Order


def chart(table: ShownTable) -> Chart:
    """Accuracy against t of all rows of a table; for KAR and other LeRF protocols the axis says what is kept."""
    board = table.board
    lerf = board.protocol.order is Order.LERF
    return Chart(
        title=f"{table.standing.title}: {board.protocol.name.upper()}",
        caption=f"{table.caption}. Bands: {board.bootstrap.confidence:.0%} intervals over {board.covers}.",
        axis=Axis.KEPT if lerf else Axis.REMOVED,
        curves=tuple(_curve(row, board.levels) for row in board.rows),
    )


def _curve(row: Row, levels: tuple[float, ...]) -> Curve:
    estimator = find_estimator(row.estimator)
    points = (row.clean, *row.accuracies)
    return Curve(
        estimator=row.estimator,
        family=estimator.base,
        control=estimator.control,
        levels=(0.0, *levels),
        accuracy=tuple(point.value for point in points),
        low=tuple(point.low for point in points),
        high=tuple(point.high for point in points),
    )

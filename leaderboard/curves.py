"""Accuracy against level as frozen records: measured curves with bands, and the paper's laid over."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from leaderboard.source import known, units
from leaderboard.tables import judge
from leaderboard.words import plain, protocol_name
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.published import HOOKER_DATASETS, published_curves
from roarbench.estimators import CONTROLS
from roarbench.report.table import ShownTable
from roarbench.stats.board import Board
from roarbench.terms import KAR, MORF, ROAR, Order, Protocol

SHOWN = (ROAR, KAR, MORF)  # side by side
PUBLISHED = tuple(HOOKER_DATASETS.values())


@dataclass(frozen=True)
class CurvePoint:
    """One point of one curve.

    Attributes:
        estimator: Its id.
        control: Never looks at the model.
        source: `measured`, or `published` for the paper's own numbers.
        t: Level, the fraction removed.
        accuracy: In [0, 1]; None where it is missing.
        low, high: Ends of its interval.
    """

    estimator: str
    control: bool
    source: str
    t: float
    accuracy: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class CurveTable:
    """The curves of one protocol.

    Attributes:
        title: Suite and protocol.
        protocol: Its name.
        kept: The least important features go first, so that the axis says what is kept.
        caption: Of what the numbers are, and what the bands are.
        points: By estimator, then by level.
    """

    title: str
    protocol: str
    kept: bool
    caption: str
    points: tuple[CurvePoint, ...]


def curve_table(held: SuiteResults, board: Board, chosen: Iterable[str], published: str = "") -> CurveTable:
    """The chosen curves and the controls' under one protocol.

    Args:
        held: The suite and its results.
        board: Its rows under the protocol.
        chosen: Ids; the controls come with them.
        published: One of `PUBLISHED`, whose curves of the same ids are laid over; none if empty.
    """
    wanted = {*CONTROLS, *chosen}
    told = [row for row in board.rows if row.estimator in wanted and any(t.value is not None for t in row.accuracies)]
    rows = sorted(told, key=lambda row: row.estimator not in CONTROLS)
    points = [
        CurvePoint(row.estimator, known(row.estimator).control, "measured", t, *estimate)
        for row in rows
        for t, estimate in zip((0.0, *board.levels), (row.clean, *row.accuracies), strict=True)
    ]
    laid = _published(published, board.protocol, wanted) if published else []
    dashed = f" Dashed: the paper's means of five ResNet-50 on {published}, without bands." if laid else ""
    shown = ShownTable(held, board, units(held, board.protocol)[0], {})
    return CurveTable(
        title=f"{held.title}: {protocol_name(board.protocol.name)}",
        protocol=board.protocol.name,
        kept=board.protocol.order is Order.LERF,
        caption=f"{shown.caption}. Bands: {board.bootstrap.confidence:.0%} intervals over {board.covers}.{dashed}",
        points=(*points, *laid),
    )


def _published(dataset: str, protocol: Protocol, wanted: set[str]) -> list[CurvePoint]:
    """The paper's curves; it retrained, so that there are none without."""
    if protocol not in (ROAR, KAR):
        return []
    curves = published_curves(dataset, protocol.order)
    return [
        CurvePoint(name, known(name).control, "published", t, accuracy)
        for name, curve in curves.items()
        if name in wanted
        for t, accuracy in curve.items()
    ]


def curve_boards(evidence: Evidence) -> list[Board]:
    """ROAR, KAR and MoRF without retraining, those of them that the suite has."""
    found = [(protocol, units(evidence.suite_results, protocol)) for protocol in SHOWN]
    boards = [judge(evidence, protocol, has[0]) for protocol, has in found if has]
    return [board for board in boards if board]


def curve_tables(
    held: SuiteResults, boards: Iterable[Board], chosen: Sequence[str], published: str = ""
) -> list[CurveTable]:
    """The chosen curves of several protocols, to stand side by side."""
    return [curve_table(held, board, chosen, published) for board in boards]


def curve_records(tables: Iterable[CurveTable]) -> list[dict[str, Any]]:
    """All points as flat records."""
    return [
        {"protocol": table.protocol, **asdict(point), "estimator": plain(point.estimator)}
        for table in tables
        for point in table.points
    ]

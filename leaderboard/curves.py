"""What happens as features are removed: gains, accuracies, the toy's, the predicted class's probability."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from leaderboard.boards import main_board
from leaderboard.source import lookup_estimator, main_rows, slug, units
from leaderboard.text import plain
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.probability_drop import probability_drops
from roarbench.analysis.published import HOOKER_DATASETS, published_curves
from roarbench.estimators import CONTROLS
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.declaration import ACCURACY, Protocol
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.report.table import SuiteTable
from roarbench.stats.board import Board, Covers, Row
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.curves import POINTS
from roarbench.terms import Order, Retrain, Unit
from toy.linear import FEATURES, INFORMATIVE, ToyCurve, ToyResult, experiment

SIDE_BY_SIDE = (MATCHED, SPECIFIC, AUGMENTED, ROAR, KAR, MORF)  # gains first
ABOVE_MASKS = "test accuracy above masks alone"
POINTS_TABLE = "Gain or accuracy by protocol, estimator and level, with intervals"
PUBLISHED = tuple(HOOKER_DATASETS.values())


@dataclass(frozen=True)
class CurvePoint:
    """One point of one curve.

    Attributes:
        estimator: Its id.
        control: Never looks at the model.
        source: `measured`, or `published` for the paper's own numbers.
        t: Level, the fraction removed.
        value: Accuracy in [0, 1], a difference of two, or a gain in accuracy points; None where it is missing.
        low, high: Ends of its interval.
    """

    estimator: str
    control: bool
    source: str
    t: float
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class CurveTable:
    """The curves of one protocol.

    Attributes:
        title: Suite and protocol.
        protocol: Its name.
        kept: The least important features go first, so that the axis says what is kept.
        caption: Of what the numbers are.
        points: By estimator, then by level.
        quantity: What the points are.
        bands: What the bands are; empty where there are none, or nothing is said of them.
        gains: The points are gains in accuracy points.
    """

    title: str
    protocol: str
    kept: bool
    caption: str
    points: tuple[CurvePoint, ...]
    quantity: str = ACCURACY
    bands: str = ""
    gains: bool = False

    @property
    def levels(self) -> list[float]:
        """Return the levels above 0 that have a point."""
        return sorted({point.t for point in self.points if point.value is not None and point.t > 0})

    @property
    def drawn(self) -> bool:
        """Return whether there is a curve: one level is better told in words."""
        return len(self.levels) > 1

    def shows(self, names: Iterable[str]) -> bool:
        """Return whether any of these estimators has a point."""
        return not {point.estimator for point in self.points if point.value is not None}.isdisjoint(names)


def curve_table(suite_results: SuiteResults, board: Board, chosen: Iterable[str], published: str = "") -> CurveTable:
    """Return the chosen curves and the controls' under one protocol: gains where common networks give them.

    Args:
        suite_results: The suite and its results.
        board: Its rows under the protocol.
        chosen: Ids; the controls come with them.
        published: One of `PUBLISHED`, whose curves of the same ids are added; none if empty.
    """
    wanted = {*CONTROLS, *chosen}
    shown = [row for row in board.rows if row.estimator in wanted]
    measured = [row for row in shown if any(at.value is not None for at in _measured(board, row)[1:])]
    rows = sorted(measured, key=lambda row: row.estimator not in CONTROLS)
    points = [
        CurvePoint(row.estimator, lookup_estimator(row.estimator).control, "measured", t, *estimate)
        for row in rows
        for t, estimate in zip((0.0, *board.levels), _measured(board, row), strict=True)
    ]
    added = _published(published, board.protocol, wanted) if published else []
    dashed = f". Dashed: the paper's means of five ResNet-50 on {published}, without bands" if added else ""
    described = SuiteTable(suite_results, board, units(suite_results, board.protocol)[0], {})
    return CurveTable(
        title=f"{suite_results.title}: {board.protocol.title}",
        protocol=board.protocol.name,
        kept=board.protocol.order is Order.LERF,
        caption=f"{described.caption}{dashed}",
        points=(*points, *added),
        quantity=board.protocol.curve_axis,
        bands=""
        if board.covers is Covers.NOTHING
        else f"{board.bootstrap.confidence:.0%} intervals over {board.covers}",
        gains=board.protocol.retrain is Retrain.COMMON,
    )


def _measured(board: Board, row: Row) -> tuple[Estimate, ...]:
    """Return a row's accuracies, or gains in accuracy points, from t = 0 on."""
    if board.protocol.retrain is not Retrain.COMMON:
        return (row.clean, *row.accuracies)
    points = ((None if end is None else POINTS * end for end in gain) for gain in board.gains(row))
    return (Estimate(0.0, 0.0, 0.0), *(Estimate(*ends) for ends in points))


def _published(dataset: str, protocol: Protocol, wanted: set[str]) -> list[CurvePoint]:
    """Return the paper's curves; it always retrained, so there are none of other protocols."""
    if protocol not in (ROAR, KAR):
        return []
    curves = published_curves(dataset, protocol.order)
    return [
        CurvePoint(name, lookup_estimator(name).control, "published", t, accuracy)
        for name, curve in curves.items()
        if name in wanted or lookup_estimator(name).control
        for t, accuracy in curve.items()
    ]


def curve_boards(evidence: Evidence) -> list[Board]:
    """Return the boards of the protocols side by side, those of them that the suite has."""
    found = [(protocol, units(evidence.suite_results, protocol)) for protocol in SIDE_BY_SIDE]
    boards = [main_board(evidence, protocol, has[0]) for protocol, has in found if has]
    return [board for board in boards if board]


def curve_tables(
    suite_results: SuiteResults, boards: Iterable[Board], chosen: Sequence[str], published: str = ""
) -> list[CurveTable]:
    """Return the chosen curves of several protocols, to stand side by side.

    A protocol under which nothing of what was chosen was measured is left out: its controls stand elsewhere.
    """
    tables = [curve_table(suite_results, board, chosen, published) for board in boards]
    return [table for table in tables if table.levels and (table.shows(chosen) or not chosen)]


def above_masks_table(evidence: Evidence, caption: str, chosen: Iterable[str]) -> CurveTable | None:
    """Return the chosen curves' accuracy under ROAR minus that of masks alone; None for fewer than two levels.

    Args:
        evidence: Of the suite.
        caption: Of what the numbers under ROAR are.
        chosen: Ids; the controls come with them.
    """
    levels, wanted = evidence.masks.levels, {*CONTROLS, *chosen}
    names = [name for name in evidence.suite_results.suite.placed if name in wanted]
    points = [
        CurvePoint(name, lookup_estimator(name).control, "measured", t, *evidence.above_masks(name, t))
        for name in sorted(names, key=lambda name: name not in CONTROLS)
        for t in levels
    ]
    if len(levels) < 2 or all(point.value is None for point in points):
        return None
    note = "Minus the accuracy of networks that see only where features were removed; at 0 the images tell no more"
    title = f"{evidence.suite_results.title}: ROAR above masks alone"
    kept = tuple(point for point in points if point.value is not None)
    return CurveTable(title, "roar", False, f"{caption}. {note}", kept, ABOVE_MASKS)


def curve_records(tables: Iterable[CurveTable]) -> list[dict[str, Any]]:
    """Return all points as flat records."""
    return [
        {"protocol": table.protocol, "quantity": table.quantity, **asdict(point), "estimator": plain(point.estimator)}
        for table in tables
        for point in table.points
    ]


@cache
def toy_tables() -> tuple[CurveTable, ...]:
    """Return the toy's curves without and with retraining: mean accuracies of three rankings.

    Bands are two standard errors to each side.
    """
    result = experiment()
    return tuple(_table(result, retrain) for retrain in (False, True))


def _table(result: ToyResult, retrain: bool) -> CurveTable:
    kind = "with retraining" if retrain else "without retraining"
    points = [point for curve in result.curves if curve.retrain == retrain for point in _points(result, curve)]
    caption = (
        f"The toy {kind}: {FEATURES} features, {INFORMATIVE} of them informative; mean test accuracy of "
        f"{result.draws} draws, seed {result.seed}"
    )
    bands = "two standard errors to each side"
    return CurveTable(f"Toy, {kind}", "roar" if retrain else "morf", False, caption, tuple(points), bands=bands)


def _points(result: ToyResult, curve: ToyCurve) -> list[CurvePoint]:
    errors = curve.error or (0.0,) * len(curve.accuracy)
    return [
        CurvePoint(curve.ranking, False, "measured", t, mean, mean - 2 * error, mean + 2 * error)
        for t, mean, error in zip(result.levels, curve.accuracy, errors, strict=True)
    ]


UNRETRAINED = (MORF, LERF)


@dataclass(frozen=True)
class ProbabilityTable:
    """Fall of the probability of the predicted class under one protocol.

    Attributes:
        stem: For the names of its files.
        title: Of what it is.
        explanation: What its columns mean.
        records: Its rows, the best estimator first; missing is None.
    """

    stem: str
    title: str
    explanation: str
    records: list[dict[str, Any]]

    @property
    def texts(self) -> list[dict[str, Any]]:
        """Return the rows as text, with three decimals for each number."""
        return [{k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()} for row in self.records]


def probability_tables(suite_results: SuiteResults) -> list[ProbabilityTable]:
    """Return the tables of all protocols and units of a suite that have any."""
    asked = [(protocol, unit) for protocol in UNRETRAINED for unit in units(suite_results, protocol)]
    found = [probability_table(suite_results, protocol, unit) for protocol, unit in asked]
    return [table for table in found if table.records]


def probability_table(suite_results: SuiteResults, protocol: Protocol, unit: Unit) -> ProbabilityTable:
    """Return the table of one protocol without retraining."""
    blocks = [block for block in suite_results.suite.blocks if (block.protocol, block.unit) == (protocol, unit)]
    levels = sorted({t for block in blocks for t in block.levels})
    found, rows = probability_drops(suite_results, protocol, unit, levels), main_rows(suite_results)
    records = []
    for name in sorted((name for name in found if name in rows), key=lambda name: _best(found[name].aopc, protocol)):
        fall, (value, low, high) = found[name], found[name].aopc
        record = {"estimator": plain(name), "AOPC": value, "AOPC low": low, "AOPC high": high}
        record |= {"p at t = 0": fall.untouched.value}
        record |= {f"p at t = {t:g}": each.value for t, each in zip(levels, fall.probabilities, strict=True)}
        record |= {f"change at t = {t:g}": each.value for t, each in zip(levels, fall.changes, strict=True)}
        records.append(record)
    title = f"Probability of the predicted class: {protocol.name.upper()}, unit {unit}"
    return ProbabilityTable(
        f"probability-{slug(suite_results)}-{protocol.name}-{unit.stem}", title, _explanation(protocol), records
    )


def _best(aopc: Estimate, protocol: Protocol) -> float:
    if aopc.value is None:
        return float("inf")
    return -aopc.value if protocol.order is Order.MORF else aopc.value


def _explanation(protocol: Protocol) -> str:
    better = "more" if protocol.order is Order.MORF else "less"
    return (
        "p is the mean softmax probability that the reference, as it is, gives the class that it predicts on the "
        "untouched image. AOPC is the mean of p at t = 0 minus p over the levels, with a 95% interval over test "
        f"images, change the mean of |p at t = 0 - p| / p at t = 0. Under {protocol.name.upper()} the better "
        f"estimator makes it fall {better}."
    )

"""The board as frozen records: one row per estimator, filtered, sorted, and placed among the rows shown."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from leaderboard.beside import beside
from leaderboard.source import about, known, main_rows, slug, status, units
from leaderboard.words import plain
from roarbench.evidence import Evidence
from roarbench.plan import CLEAN
from roarbench.standings import Standing
from roarbench.stats.board import SOBEL, Board, Row
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.places import Place
from roarbench.tables import ShownTable
from roarbench.terms import KAR, MORF, ROAR, Protocol, Unit


@dataclass(frozen=True)
class Entry:
    """One row of the board.

    Attributes:
        estimator: Its id.
        about: One sentence.
        family: The base that it is built on.
        control: Never looks at the model.
        place: Among the rows shown; None where the gain is missing.
        gain: Under the board's protocol, in accuracy points.
        random, sobel: Verdicts in words; empty for the control itself and where there is none.
        kar, unretrained: Gains under KAR and under MoRF without retraining, in accuracy points.
        flag: Why the row should be doubted; empty where nothing says so.
        seconds: Processor seconds for the maps of 1,000 images; None where not known.
        seeds: Fewest in a cell of its curve.
        date: Day of the newest run of its curve; empty where there is none.
        status: `verified`, `trusted` or `self-reported`, see `source.status`.
        gap: Why there is no place; empty where there is one.
    """

    estimator: str
    about: str
    family: str
    control: bool
    place: Place | None
    gain: Estimate
    random: str
    sobel: str
    kar: Estimate
    unretrained: Estimate
    flag: str
    seconds: float | None
    seeds: int
    date: str
    status: str
    gap: str


@dataclass(frozen=True)
class BoardTable:
    """A board that is shown.

    Attributes:
        slug: Of the suite, for addresses.
        title: Suite with version.
        protocol: Name of the protocol whose gain is shown.
        unit: What one feature is.
        levels: Levels above 0 that the gain is taken over.
        caption: Of what the numbers are.
        footnote: What the intervals cover, and of what the gains of the other protocols are.
        entries: The rows.
        whole: Number of rows before any was filtered out.
        sobel: Sobel's gain, in accuracy points, shown or not.
    """

    slug: str
    title: str
    protocol: str
    unit: Unit
    levels: tuple[float, ...]
    caption: str
    footnote: str
    entries: tuple[Entry, ...]
    whole: int
    sobel: float | None


@dataclass(frozen=True)
class Filter:
    """Which rows are shown, and in which order.

    Attributes:
        families: Bases; all if empty. Controls go by the name `control`.
        search: Each of its words is in the id or in the sentence about it.
        status: One of these; any if empty.
        sort: A key of `SORTS`.
    """

    families: tuple[str, ...] = ()
    search: str = ""
    status: str = ""
    sort: str = "gain"


def judge(evidence: Evidence, protocol: Protocol, unit: Unit, levels: tuple[float, ...] = ()) -> Board | None:
    """The statistics of one protocol over all main rows; None where the suite does not have it.

    Args:
        evidence: Of the suite.
        protocol: The question.
        unit: What one feature is.
        levels: Only these, of those that the suite has; all if empty.
    """
    return evidence.board(protocol, unit, main_rows(evidence.standing), levels)


def board_table(
    evidence: Evidence,
    protocol: Protocol = ROAR,
    unit: Unit | None = None,
    levels: tuple[float, ...] = (),
    flags: dict[str, str] | None = None,
    seconds: dict[str, float] | None = None,
) -> BoardTable:
    """The board of a suite under one protocol.

    Args:
        evidence: Of the suite.
        protocol: Whose gain is shown; the suite has it.
        unit: What one feature is; the suite's first if not given.
        levels: Only these; all if empty.
        flags: Why rows should be doubted, by estimator.
        seconds: For the maps of 1,000 images, by estimator.
    """
    held = evidence.standing
    unit = unit or units(held, protocol)[0]
    judged = judge(evidence, protocol, unit, levels)
    assert judged is not None, "the suite has the protocol"
    kar, unretrained = (evidence.gains(other, unit, main_rows(held), levels) for other in (KAR, MORF))
    dates = _dates(held, protocol, unit)
    entries = tuple(
        replace(
            _entry(row, held),
            kar=kar.get(row.estimator, Estimate()),
            unretrained=unretrained.get(row.estimator, Estimate()),
            flag=plain((flags or {}).get(row.estimator, "")),
            seconds=(seconds or {}).get(row.estimator),
            date=dates.get(row.estimator, ""),
            gap="" if row.place else _gap(held, judged, unit, row.estimator),
        )
        for row in judged.rows
    )
    shown = ShownTable(held, judged, unit, {})
    sobel = next((row.gain.value for row in judged.rows if row.estimator == SOBEL), None)
    table = BoardTable(
        slug(held),
        held.title,
        protocol.name,
        unit,
        judged.levels,
        shown.caption,
        f"{shown.footnote} {beside(held, unit, judged.levels)}".strip(),
        entries,
        len(entries),
        sobel,
    )
    return narrow(table, Filter())


def _entry(row: Row, held: Standing) -> Entry:
    estimator = known(row.estimator)
    return Entry(
        estimator=row.estimator,
        about=about(held, row.estimator),
        family=estimator.base,
        control=estimator.control,
        place=row.place,
        gain=row.gain,
        random=row.random.verdict.value if row.random else "",
        sobel=row.sobel.verdict.value if row.sobel else "",
        kar=Estimate(),
        unretrained=Estimate(),
        flag="",
        seconds=None,
        seeds=row.seeds,
        date="",
        status=status(held, row.estimator),
        gap="",
    )


def _dates(held: Standing, protocol: Protocol, unit: Unit) -> dict[str, str]:
    """Day of the newest run of each curve."""
    dates: dict[str, str] = {}
    for point, result in held.results.items():
        cell = point.cell
        if (cell.order, cell.retrain, cell.unit) == (protocol.order, protocol.retrain, unit):
            dates[cell.estimator] = max(dates.get(cell.estimator, ""), f"{result.created:%Y-%m-%d}")
    return dates


def _gap(held: Standing, judged: Board, unit: Unit, estimator: str) -> str:
    """What does not belong together, or which levels have no result yet, of this estimator or of Random."""
    if reason := held.mixed(judged.protocol, unit).get(estimator):
        return reason
    scores = held.scores(judged.protocol, unit, [estimator])
    assert scores is not None, "the board was made from them"
    for name in (estimator, "random"):
        absent = [t for who, t in scores.curve(name) if (who, t) not in scores.correct and t in (0.0, *judged.levels)]
        if absent:
            whose = CLEAN if absent == [0.0] else name
            levels = ", ".join(f"{t:g}" for t in absent)
            return f"no result yet of {'the untouched images' if whose == CLEAN else plain(name)} at t = {levels}"
    return ""


def narrow(table: BoardTable, asked: Filter) -> BoardTable:
    """The rows that pass a filter, sorted, with their places among each other."""
    kept = [entry for entry in table.entries if _passes(entry, asked)]
    return replace(table, entries=tuple(sorted(placed(kept), key=SORTS[asked.sort])))


def _passes(entry: Entry, asked: Filter) -> bool:
    family = "control" if entry.control else entry.family
    text = f"{entry.estimator} {entry.about}".casefold()
    return (
        (not asked.families or family in asked.families)
        and (not asked.status or entry.status == asked.status)
        and all(word in text for word in asked.search.casefold().split())
    )


def placed(entries: Iterable[Entry]) -> list[Entry]:
    """Places among these rows.

    Two rows are told apart if they share no tie group. The tests hold for all pairs of the board at once, so also for
    the pairs that are left: nothing has to be drawn again, and no choice of rows can make a difference look surer.
    """
    rows = list(entries)
    ranked = [entry for entry in rows if entry.place]
    return [replace(entry, place=_place(entry, ranked)) if entry.place else entry for entry in rows]


def _place(entry: Entry, others: list[Entry]) -> Place:
    above = [other for other in others if _value(other) > _value(entry)]
    below = [other for other in others if _value(other) < _value(entry)]
    assert entry.place, "only rows with a gain have a place"
    if entry.place.low is None:
        return Place(1 + len(above))
    low, high = (sum(_apart(entry, other) for other in side) for side in (above, below))
    return Place(1 + len(above), 1 + low, len(others) - high, entry.place.groups)


def _apart(one: Entry, other: Entry) -> bool:
    assert one.place and other.place, "only rows with a gain are compared"
    return not set(one.place.groups) & set(other.place.groups)


def _value(entry: Entry) -> float:
    return -float("inf") if entry.gain.value is None else entry.gain.value


def _falling(value: float | None) -> float:
    """Sorts the largest first and what is missing last."""
    return float("inf") if value is None else -value


def _gain(entry: Entry, column: str) -> float:
    estimate: Estimate = getattr(entry, column)
    return _falling(estimate.value)


SORTS: dict[str, Callable[[Entry], Any]] = {
    "gain": partial(_gain, column="gain"),
    "estimator": lambda entry: entry.estimator.casefold(),
    "family": lambda entry: (entry.family, _gain(entry, "gain")),
    "kar": partial(_gain, column="kar"),
    "no-retrain": partial(_gain, column="unretrained"),
    "seconds": lambda entry: float("inf") if entry.seconds is None else entry.seconds,
    "seeds": lambda entry: -entry.seeds,
    "date": lambda entry: entry.date,
}

"""The board as frozen records: one row per estimator, filtered, sorted, and placed among the rows shown."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from leaderboard.source import about, known, main_rows, slug, status, units
from leaderboard.text import plain
from roarbench.analysis.boards import VOID, SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.validity import Concerns
from roarbench.estimators import CONTROLS
from roarbench.plan.runs import CLEAN
from roarbench.report.table import SuiteTable
from roarbench.stats.board import RANDOM, Board, Row
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.places import Place
from roarbench.stats.verdicts import Comparison
from roarbench.terms import KAR, MASK_ONLY, MORF, ROAR, Protocol, Retrain, Unit

_COLUMNS = {"KAR gain": KAR, "No-retrain gain": MORF}


def beside(held: SuiteResults, unit: Unit, levels: tuple[float, ...]) -> str:
    """Levels and seeds of the gains under KAR and without retraining, on a board of this unit and these levels.

    A protocol that has none of the levels is shown over all that it has, as `tables.judge` does it.
    """
    parts = [
        f"{heading}: {_levels_and_seeds(held, protocol, unit, levels)}."
        for heading, protocol in _COLUMNS.items()
        if unit in units(held, protocol)
    ]
    return " ".join(parts)


def _levels_and_seeds(held: SuiteResults, protocol: Protocol, unit: Unit, levels: tuple[float, ...]) -> str:
    kind, rows = (protocol.order, protocol.retrain, unit, "mean"), set(main_rows(held))
    cells = [point.cell for point in held.results]
    found = [cell for cell in cells if (cell.order, cell.retrain, cell.unit, cell.fill) == kind]
    blocks = [block for block in held.suite.blocks if (block.protocol, block.unit, block.fill) == (protocol, *kind[2:])]
    has = sorted({t for block in blocks for t in block.levels})
    kept = [t for t in has if t in levels] or has
    counts = Counter((cell.estimator, cell.t) for cell in found if cell.estimator in rows and cell.t in kept)
    text = f"levels {', '.join(f'{t:g}' for t in kept)}"
    if protocol.retrain is Retrain.NONE:
        return f"{text}, the reference as it is"
    seeds = " or ".join(map(str, sorted(set(counts.values())))) or "no"
    return f"{text}, {seeds} seed{'' if seeds == '1' else 's'}"


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
        accuracies: Per level of the board, in [0, 1].
        random, sobel, blurred: Verdicts on it beside each control in words; empty for the control itself and where
            there is none.
        kar, unretrained: Gains under KAR and under MoRF without retraining, in accuracy points.
        flag: Why the row should be doubted; empty where nothing says so.
        concerns: How large the commonest reasons for doubt are.
        seconds: Processor seconds for the maps of 1,000 images; None where not known.
        seeds: Fewest in a cell of its curve.
        date: Day of the newest run of its curve; empty where there is none.
        status: `verified`, `trusted` or `self-reported`, see `source.status`; empty where its curve has no run.
        gap: Why there is no place; empty where there is one, and under a protocol that has none.
    """

    estimator: str
    about: str
    family: str
    control: bool
    place: Place | None
    gain: Estimate
    accuracies: tuple[Estimate, ...]
    random: str
    sobel: str
    blurred: str
    kar: Estimate
    unretrained: Estimate
    flag: str
    concerns: Concerns
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
        lines: Gains of the controls that bars are held against, shown or not, in accuracy points; Random's is 0.
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
    lines: dict[str, float]

    @property
    def gained(self) -> bool:
        """The protocol orders estimators; mask-only tells accuracies, which have no gain and give no place."""
        return self.protocol != MASK_ONLY.name

    @property
    def stem(self) -> str:
        """What its files are called."""
        return f"board-{self.slug}-{self.protocol}-{self.unit}"


class Doubts(NamedTuple):
    """Why rows should be doubted, by estimator.

    Attributes:
        flags: In a sentence.
        concerns: How large the commonest reasons are, of every row.
    """

    flags: dict[str, str]
    concerns: dict[str, Concerns]


@dataclass(frozen=True)
class Filter:
    """Which rows are shown, and in which order.

    Attributes:
        families: Bases; all if empty. Controls go by the name `control`.
        search: Each of its words is in the id or in the sentence about it.
        status: One of these; any if empty.
        sort: A key of `SORTS`.
        down: The largest first; as readers expect it of the column if not given.
    """

    families: tuple[str, ...] = ()
    search: str = ""
    status: str = ""
    sort: str = "gain"
    down: bool | None = None


def judge(evidence: Evidence, protocol: Protocol, unit: Unit, levels: tuple[float, ...] = ()) -> Board | None:
    """The statistics of one protocol over all main rows; None where the suite does not have it.

    Args:
        evidence: Of the suite.
        protocol: The question.
        unit: What one feature is.
        levels: Only these, of those that the suite has; all if empty.
    """
    return evidence.board(protocol, unit, main_rows(evidence.suite_results), levels)


def board_table(
    evidence: Evidence,
    protocol: Protocol = ROAR,
    unit: Unit | None = None,
    levels: tuple[float, ...] = (),
    doubts: Doubts | None = None,
    seconds: dict[str, float] | None = None,
) -> BoardTable:
    """The board of a suite under one protocol.

    Args:
        evidence: Of the suite.
        protocol: Whose gain is shown; the suite has it.
        unit: What one feature is; the suite's first if not given.
        levels: Only these; all if empty.
        doubts: Why rows should be doubted, and how much speaks against each.
        seconds: For the maps of 1,000 images, by estimator.
    """
    held = evidence.suite_results
    unit, doubts = unit or units(held, protocol)[0], doubts or Doubts({}, {})
    judged = judge(evidence, protocol, unit, levels)
    assert judged is not None, "the suite has the protocol"
    kar, unretrained = (evidence.gains(other, unit, main_rows(held), levels) for other in (KAR, MORF))
    dates = _dates(held, protocol, unit)
    shown = SuiteTable(held, judged, unit, {})
    entries = tuple(
        replace(
            _entry(row, held),
            kar=kar.get(row.estimator, Estimate()),
            unretrained=unretrained.get(row.estimator, Estimate()),
            flag=plain(doubts.flags.get(row.estimator, "")),
            concerns=doubts.concerns.get(row.estimator, Concerns()),
            seconds=(seconds or {}).get(row.estimator),
            date=dates.get(row.estimator, ""),
            status=status(held, row.estimator) if row.estimator in dates else "",
            gap="" if row.place or protocol == MASK_ONLY else _gap(held, judged, unit, row.estimator),
        )
        for row in shown.rows
    )
    gains = {row.estimator: row.gain.value for row in judged.rows if row.estimator in CONTROLS}
    return BoardTable(
        slug(held),
        held.title,
        protocol.name,
        unit,
        judged.levels,
        shown.caption,
        shown.footnote if protocol == MASK_ONLY else f"{shown.footnote} {beside(held, unit, judged.levels)}".strip(),
        tuple(placed(entries)),
        len(entries),
        {name: gain for name, gain in gains.items() if gain is not None and name != RANDOM},
    )


def _entry(row: Row, held: SuiteResults) -> Entry:
    estimator = known(row.estimator)
    return Entry(
        estimator=row.estimator,
        about=about(held, row.estimator),
        family=estimator.base,
        control=estimator.control,
        place=row.place,
        gain=row.gain,
        accuracies=row.accuracies,
        random=_verdict(row.random),
        sobel=_verdict(row.sobel),
        blurred=_verdict(row.random_blurred),
        kar=Estimate(),
        unretrained=Estimate(),
        flag="",
        concerns=Concerns(),
        seconds=None,
        seeds=row.seeds,
        date="",
        status="",
        gap="",
    )


def _verdict(found: Comparison | None) -> str:
    return found.verdict.value if found else ""


def _dates(held: SuiteResults, protocol: Protocol, unit: Unit) -> dict[str, str]:
    """Day of the newest run of each curve."""
    dates: dict[str, str] = {}
    for point, result in held.results.items():
        cell = point.cell
        if (cell.order, cell.retrain, cell.unit) == (protocol.order, protocol.retrain, unit):
            dates[cell.estimator] = max(dates.get(cell.estimator, ""), f"{result.created:%Y-%m-%d}")
    return dates


def _gap(held: SuiteResults, judged: Board, unit: Unit, estimator: str) -> str:
    """What does not belong together, which levels have no result, of this estimator or Random, or that all is void."""
    if reason := held.mixed(judged.protocol, unit).get(estimator):
        return reason
    scores = held.scores(judged.protocol, unit)
    assert scores is not None, "the board was made from them"
    for name in (estimator, "random"):
        absent = [t for who, t in scores.curve(name) if (who, t) not in scores.correct and t in (0.0, *judged.levels)]
        if absent:
            whose = CLEAN if absent == [0.0] else name
            levels = ", ".join(f"{t:g}" for t in absent)
            return f"no result yet of {'the untouched images' if whose == CLEAN else plain(name)} at t = {levels}"
    return f"at chance, {VOID}" if held.at_chance else ""


def narrow(table: BoardTable, asked: Filter) -> BoardTable:
    """The rows that pass a filter, sorted, with their places among each other; what is missing is last either way."""
    rows = placed(entry for entry in table.entries if _passes(entry, asked))
    value = SORTS[asked.sort]
    down = asked.sort not in RISING if asked.down is None else asked.down
    there = sorted((row for row in rows if value(row) is not None), key=value, reverse=down)
    return replace(table, entries=(*there, *(row for row in rows if value(row) is None)))


def _passes(entry: Entry, asked: Filter) -> bool:
    family = "control" if entry.control else entry.family
    text = f"{entry.estimator} {entry.about}".casefold()
    return (
        (not asked.families or family in asked.families)
        and (not asked.status or entry.status == asked.status)
        and all(word in text for word in asked.search.casefold().split())
    )


def placed(entries: Iterable[Entry]) -> list[Entry]:
    """Return these rows with their places among each other.

    Two rows are significantly different if they share no tie group. The tests hold for all pairs of the board at once,
    so also for the pairs that are left: nothing is drawn again, and no choice of rows makes a difference look surer.
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


SORTS: dict[str, Callable[[Entry], Any]] = {  # by column; None where a row has nothing there
    "place": lambda entry: entry.place and -_value(entry),
    "estimator": lambda entry: entry.estimator.casefold(),
    "gain": lambda entry: entry.gain.value,
    "accuracy": lambda entry: entry.accuracies[-1].value if entry.accuracies else None,
    "random": lambda entry: entry.random or None,
    "sobel": lambda entry: entry.sobel or None,
    "blurred": lambda entry: entry.blurred or None,
    "kar": lambda entry: entry.kar.value,
    "no-retrain": lambda entry: entry.unretrained.value,
    "twin": lambda entry: entry.concerns.twin.size,
    "masks": lambda entry: entry.concerns.masks.size,
    "seconds": lambda entry: entry.seconds,
    "seeds": lambda entry: entry.seeds,
    "date": lambda entry: entry.date or None,
    "status": lambda entry: entry.status or None,
}
RISING = ("place", "estimator", "random", "sobel", "blurred", "seconds", "status")  # the smallest is asked for first

"""Make boards from the evidence of a suite: what was judged, as records to show."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from leaderboard.doubts import doubts_of
from leaderboard.headline import headline
from leaderboard.names import human_name
from leaderboard.records import BoardRecord, BoardRow, cost_axis, in_points, linear_axis
from leaderboard.source import about, lookup_estimator, slug, status
from leaderboard.text import capital, plain
from roarbench.analysis.boards import VOID, SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR
from roarbench.report.table import SuiteTable
from roarbench.report.table_notes import remarks
from roarbench.stats.board import RANDOM, Board, Row
from roarbench.stats.curves import Scores
from roarbench.stats.places import Place
from roarbench.terms import Unit
from roarbench.text import counted

_ORIGINS = {"verified": "run here", "trusted": "trusted", "self-reported": "imported"}


class Places(NamedTuple):
    """Where rows stand under ROAR.

    Attributes:
        title: Of the suite that says it.
        by_id: Their places.
    """

    title: str
    by_id: Mapping[str, Place]


NOWHERE = Places("", {})


def board_record(
    evidence: Evidence, table: SuiteTable, roar: Places = NOWHERE, seconds: Mapping[str, float] | None = None
) -> BoardRecord:
    """Return a board of a suite, as it is shown.

    Args:
        evidence: Of the suite.
        table: The board with what it is of.
        roar: Places that stand beside.
        seconds: For the maps of 1,000 images, by estimator.
    """
    board, protocol, unit = table.board, table.board.protocol, table.unit
    results = evidence.suite_results
    rows = _rows(evidence, table, {} if protocol == ROAR else roar.by_id, seconds or {})
    ends = [end for row in rows for end in row.value if end is not None]
    controls = [row for row in rows if lookup_estimator(row.id).asks_nothing and row.value.value is not None]
    return BoardRecord(
        slug=slug(results),
        title=results.title,
        protocol=protocol.name,
        unit=unit,
        levels=board.levels,
        headline=headline(rows, results.suite.entered, board.one_network),
        facts=_facts(results, board, rows),
        measured=_measured(protocol, board),
        caption=table.caption,
        footnote=remarks(table),
        rows=tuple(rows),
        best_control=controls[0].id if controls and protocol != MASK_ONLY else "",
        axis=linear_axis(ends),
        costs=cost_axis([row.seconds for row in rows if row.seconds]),
        roar_from=roar.title if any(row.roar for row in rows) else "",
        gained=protocol != MASK_ONLY,
    )


def _measured(protocol: Protocol, board: Board) -> str:
    return protocol.gain_axis if protocol != MASK_ONLY else f"accuracy at t = {board.levels[-1]:g}, %"


def _facts(results: SuiteResults, board: Board, rows: list[BoardRow]) -> tuple[str, ...]:
    """Return what was asked of what, on how many networks, when."""
    suite, record = results.suite, results.suite.dataset_record
    where = plain(suite.dataset) if record.tabular else f"{plain(suite.dataset)}, {record.size} px"
    networks = (
        f"{plain(suite.model)}, {counted(board.references, 'network')}" if board.references else plain(suite.model)
    )
    controls = sum(row.control for row in rows)
    counts = f"{counted(len(rows) - controls, 'estimator')}, {counted(controls, 'control')}"
    newest = max((result.created for result in results.results.values()), default=None)
    when = f"{newest.day} {newest:%b %Y}" if newest else ""
    return tuple(
        filter(
            None,
            (
                capital(board.protocol.gain) if board.protocol != MASK_ONLY else "Masks alone",
                where,
                networks,
                f"{board.images:,} test images",
                counts,
                when,
            ),
        )
    )


def _rows(
    evidence: Evidence, table: SuiteTable, roar: Mapping[str, Place], seconds: Mapping[str, float]
) -> list[BoardRow]:
    results, protocol = table.suite_results, table.board.protocol
    dates, scores = _dates(results, protocol, table.unit), evidence.drawn(protocol, table.unit).scores
    here = {row.estimator: row.place for row in table.rows if row.place}
    found = [_row(evidence, table, row, roar, here, seconds, dates, scores) for row in table.rows]
    best = _frontier(found)
    return [replace(row, frontier=row.id in best) for row in found]


def _row(
    evidence: Evidence,
    table: SuiteTable,
    row: Row,
    roar: Mapping[str, Place],
    here: Mapping[str, Place],
    seconds: Mapping[str, float],
    dates: Mapping[str, str],
    scores: Scores,
) -> BoardRow:
    results, name, estimator = table.suite_results, row.estimator, lookup_estimator(row.estimator)
    value = row.gain if table.judged else in_points(row.accuracies[-1])
    return BoardRow(
        id=name,
        name=human_name(name).name,
        detail=human_name(name).detail,
        about=about(results, name),
        family=estimator.base,
        control=estimator.control,
        place=row.place,
        value=value,
        beating=row.beating,
        accuracies=row.accuracies,
        roar=roar.get(name),
        reversed_by=reversed_by(name, here, roar),
        doubts=doubts_of(evidence, table.board.protocol, row, table.mixed.get(name, "")),
        seconds=seconds.get(name),
        frontier=False,
        seeds=row.seeds,
        date=dates.get(name, ""),
        origin=_ORIGINS[status(results, name)] if name in dates else "",
        gap="" if row.place or not table.judged else _gap(table, scores, name),
    )


def reversed_by(name: str, here: Mapping[str, Place], there: Mapping[str, Place]) -> tuple[str, ...]:
    """Return the rows that one board has significantly above a row and the other significantly below it."""
    if name not in here or name not in there:
        return ()
    others = [other for other in here if other in there and other != name]
    return tuple(other for other in others if _above(here[name], here[other]) * _above(there[name], there[other]) < 0)


def _above(one: Place, other: Place) -> int:
    """Return 1 where a row is significantly above another, -1 below, 0 where they share a tie group."""
    if not one.groups or not other.groups or not set(one.groups).isdisjoint(other.groups):
        return 0
    return 1 if one.place < other.place else -1


def _dates(results: SuiteResults, protocol: Protocol, unit: Unit) -> dict[str, str]:
    """Return the day of the newest run of each curve."""
    kinds = {(part.order, part.retrain, unit) for part in protocol.made_of or (protocol,)}
    dates: dict[str, str] = {}
    for point, result in results.results.items():
        cell = point.cell
        if (cell.order, cell.retrain, cell.unit) in kinds:
            dates[cell.estimator] = max(dates.get(cell.estimator, ""), f"{result.created:%Y-%m-%d}")
    return dates


def _gap(table: SuiteTable, scores: Scores, estimator: str) -> str:
    """Return why an estimator has no place: results that differ in origin, missing levels, or networks at chance."""
    if reason := table.mixed.get(estimator):
        return plain(reason)
    for name in (estimator, RANDOM):
        points = [(who, t) for who, t in scores.curve(name) if t in (0.0, *table.board.levels)]
        absent = [t for who, t in points if (who, t) not in scores.correct]
        if absent:
            whose = "the untouched images" if absent == [0.0] else plain(name)
            return f"no result yet of {whose} at t = {', '.join(f'{t:g}' for t in absent)}"
    return f"at chance, {VOID}" if table.suite_results.at_chance else ""


def _frontier(rows: list[BoardRow]) -> set[str]:
    """Return the rows that none beats at the same or a smaller cost."""
    best, found = float("-inf"), set[str]()
    priced = [(row.seconds, row.value.value, row.id) for row in rows if row.seconds and row.value.value is not None]
    for _, gain, name in sorted(priced, key=lambda row: (row[0], -row[1])):
        if gain > best:
            best = gain
            found.add(name)
    return found

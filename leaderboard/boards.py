"""Make the board of a suite from its evidence, as frozen rows."""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from leaderboard.rows import BoardRow, BoardTable
from leaderboard.source import about, lookup_estimator, main_rows, slug, status, units
from leaderboard.text import plain
from roarbench.analysis.boards import VOID, SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.marks import Flag, Grade, Mark
from roarbench.estimators import CONTROLS
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.report.table import SuiteTable
from roarbench.report.table_notes import remarks
from roarbench.stats.board import ONE_NETWORK, RANDOM, Board
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.curves import Scores
from roarbench.stats.verdicts import Comparison
from roarbench.terms import Retrain, Unit
from roarbench.text import counted

_SOUND = Flag(Grade.NONE, "")
_COLUMNS = {"KAR gain": KAR, "No-retrain gain": MORF}


def other_gains_note(suite_results: SuiteResults, unit: Unit, levels: tuple[float, ...]) -> str:
    """Return the levels and seeds of the gains under KAR and without retraining, for a board of this unit and levels.

    A protocol that has none of the levels is shown over all that it has, as `main_board` does it.
    """
    parts = [
        f"{heading}: {_levels_and_seeds(suite_results, protocol, unit, levels)}."
        for heading, protocol in _COLUMNS.items()
        if unit in units(suite_results, protocol)
    ]
    return " ".join(parts)


def _levels_and_seeds(suite_results: SuiteResults, protocol: Protocol, unit: Unit, levels: tuple[float, ...]) -> str:
    fill, rows = suite_results.suite.fill(protocol), set(main_rows(suite_results))
    kind = (protocol.order, protocol.retrain, unit, fill)
    cells = [point.cell for point in suite_results.results]
    found = [cell for cell in cells if (cell.order, cell.retrain, cell.unit, cell.fill) == kind]
    blocks = [
        block
        for block in suite_results.suite.blocks
        if (block.protocol, block.unit, block.fill) == (protocol, *kind[2:])
    ]
    has = sorted({t for block in blocks for t in block.levels})
    kept = [t for t in has if t in levels] or has
    counts = Counter((cell.estimator, cell.t) for cell in found if cell.estimator in rows and cell.t in kept)
    text = f"levels {', '.join(f'{t:g}' for t in kept)}"
    if protocol.retrain is Retrain.NONE:
        return f"{text}, the reference as it is"
    seeds = " or ".join(map(str, sorted(set(counts.values())))) or "no"
    return f"{text}, {seeds} seed{'' if seeds == '1' else 's'}"


class Doubts(NamedTuple):
    """Reasons to doubt rows, by estimator.

    Attributes:
        flags: In a sentence, with the highest grade.
        marks: How much speaks against every row, doubted or not.
        above_masks: Under ROAR, accuracy minus that of masks alone at the highest level that has both, in [-1, 1].
        floor: Which rows' images tell no more than their masks, in a sentence.
    """

    flags: dict[str, Flag]
    marks: dict[str, tuple[Mark, ...]]
    above_masks: dict[str, Estimate]
    floor: str


def main_board(evidence: Evidence, protocol: Protocol, unit: Unit, levels: tuple[float, ...] = ()) -> Board | None:
    """Return the board of one protocol over all main rows; None where the suite does not have it.

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
    """Return the board of a suite under one protocol, as it is shown.

    Args:
        evidence: Of the suite.
        protocol: Whose gain is shown; the suite has it.
        unit: What one feature is; the suite's first if not given.
        levels: Only these; all if empty.
        doubts: Why rows should be doubted, and by how much.
        seconds: For the maps of 1,000 images, by estimator.
    """
    suite_results = evidence.suite_results
    unit = unit or units(suite_results, protocol)[0]
    board = main_board(evidence, protocol, unit, levels)
    assert board is not None, "the suite has the protocol"
    doubts = doubts or Doubts({}, {}, {}, "")
    described = SuiteTable(suite_results, board, unit, doubts.flags)
    rows = _rows(evidence, described, levels, doubts, seconds or {})
    note = "" if protocol == MASK_ONLY else other_gains_note(suite_results, unit, board.levels)
    gains = {row.estimator: row.gain.value for row in board.rows if row.estimator in CONTROLS}
    return BoardTable(
        slug=slug(suite_results),
        title=suite_results.title,
        protocol=protocol.name,
        unit=unit,
        levels=board.levels,
        caption=described.caption,
        headline=headline(board, suite_results.suite.entered),
        footnote=" ".join(filter(None, (remarks(described), doubts.floor if protocol == ROAR else "", note))),
        rows=tuple(rows),
        whole=len(rows),
        lines={name: gain for name, gain in gains.items() if gain is not None and name != RANDOM},
    )


def headline(board: Board, strangers: Collection[str] = ()) -> str:
    """Return how many estimators beat every control, as a sentence; empty where a gain or a verdict is missing.

    Strangers, which the suite does not name, are not counted: each is judged as if it alone joined the others. Nothing
    is said where one is a control, which no verdict is about.
    """
    own = [row for row in board.rows if row.estimator not in strangers]
    asking = [row for row in board.rows if not lookup_estimator(row.estimator).control]
    found = [row.beating for row in own if row in asking]
    verdicts = [each.verdict for each in found if each]
    strange = any(row not in own and row not in asking for row in board.rows)
    if strange or not verdicts or len(verdicts) < len(found) or any(row.gain.value is None for row in own):
        return ""
    of = f"{sum(verdicts)} of {counted(len(found), 'estimator')}{' of the suite' * (len(own) < len(board.rows))}"
    beat = "beats" if sum(verdicts) == 1 else "beat"
    return f"{of} {beat} every control that asks no network{f', {ONE_NETWORK}' * board.one_network}."


def _rows(
    evidence: Evidence, table: SuiteTable, levels: tuple[float, ...], doubts: Doubts, seconds: dict[str, float]
) -> list[BoardRow]:
    """Return the rows of a table as they are shown."""
    suite_results, board, unit = table.suite_results, table.board, table.unit
    kar, unretrained = (evidence.gains(other, unit, main_rows(suite_results), levels) for other in (KAR, MORF))
    dates, scores = _dates(suite_results, board.protocol, unit), evidence.drawn(board.protocol, unit).scores
    return [
        BoardRow(
            estimator=row.estimator,
            about=about(suite_results, row.estimator),
            family=lookup_estimator(row.estimator).base,
            control=lookup_estimator(row.estimator).control,
            place=row.place,
            gain=row.gain,
            beating=row.beating,
            accuracies=row.accuracies,
            random=_verdict(row.random),
            sobel=_verdict(row.sobel),
            blurred=_verdict(row.random_blurred),
            kar=kar.get(row.estimator, Estimate()),
            unretrained=unretrained.get(row.estimator, Estimate()),
            other_image=row.over_other_image,
            vs_other_image=_verdict(row.other_image),
            flag=plain(doubts.flags.get(row.estimator, _SOUND).reason),
            sign=table.sign(row.estimator),
            marks=doubts.marks.get(row.estimator, ()),
            above_masks=doubts.above_masks.get(row.estimator, Estimate()),
            seconds=seconds.get(row.estimator),
            seeds=row.seeds,
            date=dates.get(row.estimator, ""),
            status=status(suite_results, row.estimator) if row.estimator in dates else "",
            gap="" if row.place or board.protocol == MASK_ONLY else _gap(table, scores, row.estimator),
        )
        for row in table.rows
    ]


def _verdict(comparison: Comparison | None) -> str:
    return comparison.verdict.value if comparison else ""


def _dates(suite_results: SuiteResults, protocol: Protocol, unit: Unit) -> dict[str, str]:
    """Return the day of the newest run of each curve."""
    dates: dict[str, str] = {}
    for point, result in suite_results.results.items():
        cell = point.cell
        if (cell.order, cell.retrain, cell.unit) == (protocol.order, protocol.retrain, unit):
            dates[cell.estimator] = max(dates.get(cell.estimator, ""), f"{result.created:%Y-%m-%d}")
    return dates


def _gap(table: SuiteTable, scores: Scores, estimator: str) -> str:
    """Return why an estimator has no place: results that differ in origin, missing levels, or networks at chance."""
    if reason := table.mixed.get(estimator):
        return reason
    for name in (estimator, RANDOM):
        absent = [
            t for who, t in scores.curve(name) if (who, t) not in scores.correct and t in (0.0, *table.board.levels)
        ]
        if absent:
            whose = "the untouched images" if absent == [0.0] else plain(name)
            return f"no result yet of {whose} at t = {', '.join(f'{t:g}' for t in absent)}"
    return f"at chance, {VOID}" if table.suite_results.at_chance else ""

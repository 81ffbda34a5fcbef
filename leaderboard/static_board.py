"""The fields of a board's static page: its rows under every protocol, unit and level."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from leaderboard.downloads import DECIMALS, header_fields
from leaderboard.pages import bar_lines, empty_columns, legend
from leaderboard.rows import BoardRow, BoardTable
from leaderboard.snapshot import SuiteView
from leaderboard.source import protocols, units
from roarbench.protocols import SHOWN
from roarbench.stats.beating import Beating
from roarbench.stats.bootstrap import Estimate

_COLOURS = " Green beats every control, orange is below one, blue is neither."


class BarScale(NamedTuple):
    """The ends of a common scale, in accuracy points."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Return where a value lies, in percent of the width."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)


class GainBar(NamedTuple):
    """A gain with its interval, in percent of the width."""

    low: float
    width: float
    value: float
    zero: float
    lines: dict[str, float]


def scale(table: BoardTable) -> BarScale:
    """Return the scale from the lowest to the highest end of any interval, Random's 0 among them."""
    ends = [0.0, *(end for entry in table.rows for end in entry.gain if end is not None)]
    margin = 0.02 * (max(ends) - min(ends)) or 1.0
    return BarScale(min(ends) - margin, max(ends) + margin)


def bar(entry: BoardRow, table: BoardTable, on: BarScale) -> GainBar | None:
    """Return the bar of a row; None where there is no gain."""
    value, low, high = entry.gain
    if value is None:
        return None
    left, right = (on.share(end if end is not None else value) for end in (low, high))
    lines = {name: on.share(gain) for name, gain in table.lines.items()}
    return GainBar(left, round(right - left, 2), on.share(value), on.share(0.0), lines)


class BoardOption(NamedTuple):
    """A board that a reader can choose: over all its levels, or over the one that `level` names."""

    table: BoardTable
    level: str = ""


def boards(view: SuiteView) -> list[BoardOption]:
    """Return the first board, then each protocol and unit over all its levels and over every single one."""
    kinds = [
        (protocol, unit) for protocol in protocols(view.suite_results) for unit in units(view.suite_results, protocol)
    ]
    kinds.sort(key=lambda kind: kind != (view.protocol, view.unit))
    choices: list[BoardOption] = []
    for protocol, unit in kinds:
        whole = view.board(protocol, unit, ()) if choices else view.table
        alone = whole.levels if len(whole.levels) > 1 else ()
        choices += [BoardOption(whole), *(BoardOption(view.board(protocol, unit, (t,)), f"{t:g}") for t in alone)]
    return choices


def board_page(view: SuiteView) -> dict[str, Any]:
    """Return the fields of a board's page: the rows of the first board, and all boards as data to choose from."""
    choices = boards(view)
    table = choices[0].table
    entries = {entry.estimator: entry for choice in reversed(choices) for entry in choice.table.rows}
    entries |= {name: _with_doubts(entry, choices) for name, entry in entries.items()}
    first = [entry.estimator for entry in table.rows]
    names = [*first, *(name for name in entries if name not in first)]
    on = scale(table)
    wholes = [choice.table for choice in choices if not choice.level]
    return {
        "table": table,
        "tables": wholes,
        "families": ["control", *dict.fromkeys(e.family for e in entries.values() if not e.control)],
        "rows": [(entries[name], bar(entries[name], table, on), name in first) for name in names],
        "small": view.suite_results.limit,
        "boards": [_data(view, choice, names) for choice in choices],
        "protocols": list(dict.fromkeys(choice.table.protocol for choice in choices)),
        "units": list(dict.fromkeys(str(choice.table.unit) for choice in choices)),
        "levels": [f"{t:g}" for t in sorted({t for choice in choices for t in choice.table.levels})],
    }


def _with_doubts(entry: BoardRow, choices: Iterable[BoardOption]) -> BoardRow:
    """Return a row with its marks on the boards that have them; the others hide those."""
    for choice in choices:
        for row in choice.table.rows if choice.table.marked else ():
            if row.estimator == entry.estimator:
                return replace(entry, marks=row.marks, above_masks=row.above_masks)
    return entry


def _data(view: SuiteView, choice: BoardOption, names: Iterable[str]) -> dict[str, Any]:
    table = choice.table
    entries = {entry.estimator: {"at": at, **_packed(entry, table)} for at, entry in enumerate(table.rows)}
    return {
        **header_fields(table),
        "about": SHOWN[table.protocol].about,
        "called": SHOWN[table.protocol].title,
        "without": empty_columns(table),
        "level": choice.level,
        "legend": f"{legend(table)} In the bars {bar_lines(table)}.{_COLOURS}" if table.gained else legend(table),
        "gained": table.gained,
        "marked": table.marked,
        "scale": [round(end, DECIMALS) for end in scale(table)],
        "lines": table.lines,
        "rows": [entries.get(name) for name in names],
    }


def _packed(entry: BoardRow, table: BoardTable) -> dict[str, Any]:
    """Return what differs from board to board in one row."""
    return {
        "gain": rounded(entry.gain),
        "accuracies": [] if table.gained else [rounded(accuracy) for accuracy in entry.accuracies],
        "kar": rounded(entry.kar),
        "unretrained": rounded(entry.unretrained),
        "kind": entry.kind,
        "beats": entry.beats,
        "beating": _beating(entry.beating),
        "random": entry.random,
        "sobel": entry.sobel,
        "blurred": entry.blurred,
        "other": rounded(entry.other_image),
        "vsOther": entry.vs_other_image,
        "place": entry.place,
        "seeds": entry.seeds,
        "date": entry.date,
        "status": entry.status,
        "gap": entry.gap,
        "flag": entry.flag,
        "sign": entry.sign,
    }


def _beating(found: Beating | None) -> list[Any]:
    """Return verdict, nearest control, gain over it, and p, which sorts."""
    return [found.verdict, found.nearest, rounded(found.over), found.p] if found else [None, None, [None] * 3, None]


def rounded(found: Estimate) -> list[float | None]:
    """Return value and ends with the decimals of a board's files, so that a page computes with the same numbers."""
    return [None if value is None else round(value, DECIMALS) for value in found]

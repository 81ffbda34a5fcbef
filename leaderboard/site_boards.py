"""The static board of a suite: its rows under every protocol, unit and level, for a page that can only choose."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from leaderboard.content import legend, strokes, without
from leaderboard.formats import DECIMALS, about
from leaderboard.shown import SuiteShown
from leaderboard.source import protocols, units
from leaderboard.tables import BoardTable, Entry
from leaderboard.words import PROTOCOLS, protocol_name
from roarbench.stats.bootstrap import Estimate


class Scale(NamedTuple):
    """The ends of a common scale, in accuracy points."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Where a value lies, in percent of the width."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)


class Bar(NamedTuple):
    """A gain with its interval, in percent of the width."""

    low: float
    width: float
    value: float
    zero: float
    lines: dict[str, float]


def scale(table: BoardTable) -> Scale:
    """From the lowest to the highest end of any interval, Random's 0 among them."""
    ends = [0.0, *(end for entry in table.entries for end in entry.gain if end is not None)]
    margin = 0.02 * (max(ends) - min(ends)) or 1.0
    return Scale(min(ends) - margin, max(ends) + margin)


def bar(entry: Entry, table: BoardTable, on: Scale) -> Bar | None:
    """The bar of a row; None where there is no gain."""
    value, low, high = entry.gain
    if value is None:
        return None
    left, right = (on.share(end if end is not None else value) for end in (low, high))
    lines = {name: on.share(gain) for name, gain in table.lines.items()}
    return Bar(left, round(right - left, 2), on.share(value), on.share(0.0), lines)


class Choice(NamedTuple):
    """A board that a reader can choose: over all its levels, or over the one that `level` names."""

    table: BoardTable
    level: str = ""


def boards(shown: SuiteShown) -> list[Choice]:
    """The board that is shown first, then each protocol and unit over all its levels and over every single one."""
    kinds = [(protocol, unit) for protocol in protocols(shown.held) for unit in units(shown.held, protocol)]
    kinds.sort(key=lambda kind: kind != (shown.protocol, shown.unit))
    choices: list[Choice] = []
    for protocol, unit in kinds:
        whole = shown.board(protocol, unit, ()) if choices else shown.table
        alone = whole.levels if len(whole.levels) > 1 else ()
        choices += [Choice(whole), *(Choice(shown.board(protocol, unit, (t,)), f"{t:g}") for t in alone)]
    return choices


def board_page(shown: SuiteShown) -> dict[str, Any]:
    """What the template of a board takes: the rows of the first board, and all boards as data to choose from."""
    choices = boards(shown)
    table = choices[0].table
    entries = {entry.estimator: entry for choice in reversed(choices) for entry in choice.table.entries}
    first = [entry.estimator for entry in table.entries]
    names = [*first, *(name for name in entries if name not in first)]
    on = scale(table)
    wholes = [choice.table for choice in choices if not choice.level]
    return {
        "table": table,
        "tables": wholes,
        "families": ["control", *dict.fromkeys(e.family for e in entries.values() if not e.control)],
        "rows": [(entries[name], bar(entries[name], table, on), name in first) for name in names],
        "small": shown.held.limit,
        "boards": [_data(shown, choice, names) for choice in choices],
        "protocols": list(dict.fromkeys(choice.table.protocol for choice in choices)),
        "units": list(dict.fromkeys(str(choice.table.unit) for choice in choices)),
        "levels": [f"{t:g}" for t in sorted({t for choice in choices for t in choice.table.levels})],
    }


def _data(shown: SuiteShown, choice: Choice, names: Iterable[str]) -> dict[str, Any]:
    table = choice.table
    entries = {entry.estimator: {"at": at, **_packed(entry, table)} for at, entry in enumerate(table.entries)}
    return {
        **about(table),
        "about": PROTOCOLS[table.protocol],
        "called": protocol_name(table.protocol),
        "without": without(table),
        "level": choice.level,
        "legend": f"{legend(table)} In the bars {strokes(table)}." if table.gained else legend(table),
        "gained": table.gained,
        "scale": [round(end, DECIMALS) for end in scale(table)],
        "lines": table.lines,
        "rows": [entries.get(name) for name in names],
    }


def _packed(entry: Entry, table: BoardTable) -> dict[str, Any]:
    """What differs from board to board in one row."""
    return {
        "gain": rounded(entry.gain),
        "accuracies": [] if table.gained else [rounded(accuracy) for accuracy in entry.accuracies],
        "kar": rounded(entry.kar),
        "unretrained": rounded(entry.unretrained),
        "random": entry.random,
        "sobel": entry.sobel,
        "blurred": entry.blurred,
        "groups": list(entry.place.groups) if entry.place else None,
        "seeds": entry.seeds,
        "date": entry.date,
        "status": entry.status,
        "gap": entry.gap,
    }


def rounded(found: Estimate) -> list[float | None]:
    """Value and ends as the files of a board have them, so that what a page computes is what they say."""
    return [None if value is None else round(value, DECIMALS) for value in found]

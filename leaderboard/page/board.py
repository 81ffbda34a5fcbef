"""The board: who wins, and why to believe it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from leaderboard.asked import Asked, NotThere
from leaderboard.card import card
from leaderboard.links import Address, address
from leaderboard.records import UNJUDGED, BoardRecord, BoardRow
from leaderboard.text import plain
from leaderboard.views import SuiteView, Views
from leaderboard.words import lede, question
from roarbench.plan.suites import leading
from roarbench.protocols import SHOWN
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.report.table import SuiteTable
from roarbench.report.table_values import as_csv, as_json
from roarbench.terms import Unit

LISTED = 6  # tabs and suites before the others are under "more"


class Tab(NamedTuple):
    """A link to another board.

    Attributes:
        label: A few words.
        href: Where it leads.
        current: Whether it is what is shown.
    """

    label: str
    href: str
    current: bool


class Mark(NamedTuple):
    """Where a row's interval and dot stand, in percent of the figure's width."""

    low: float
    width: float
    dot: float


def addresses(views: Views) -> Iterator[Address]:
    """Yield one page for each protocol and unit of each suite."""
    for view in views.values():
        for protocol in view.protocols:
            for unit in view.units(protocol):
                yield _address(view, protocol, unit)


def _address(view: SuiteView, protocol: Protocol, unit: Unit | None = None) -> Address:
    """Return the address of a board: what is shown first is not said."""
    first = unit is None or unit == view.units(protocol)[0]
    return address(
        "board",
        view.slug,
        protocol="" if protocol == view.leading else protocol.name,
        unit="" if first else str(unit),
    )


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of a board."""
    view = asked.view
    protocol, unit = _protocol(asked), _unit(asked)
    whole = view.board_of(protocol, unit)
    levels = _levels(asked, whole)
    board = view.board_of(protocol, unit, levels)
    stem = "-".join((board.stem, *map(str, levels)))
    heading = board.headline or f"{view.title}: {question(board.protocol)}"
    return {
        "title": f"{plain(view.title)}: {plain(question(board.protocol))}",
        "description": board.headline,
        "card": _card(asked, board, heading),
        "board": board,
        "heading": heading,
        "lede": lede(board.protocol),
        "tabs": list(_tabs(asked, protocol)),
        "units": [
            Tab(str(each), _to(asked, _address(view, protocol, each)), each == unit) for each in view.units(protocol)
        ],
        "levels": list(_level_tabs(asked, whole, board)),
        "suites": list(_suites(asked)),
        "runs": _runs(view.status),
        "marks": {row.id: _mark(row, board) for row in board.rows},
        "best": board.by_id.get(board.best_control),
        "zero": board.axis.at(0.0),
        "methods": {row.id: asked.links.to("method", estimator=row.id) for row in board.rows},
        "families": list(dict.fromkeys(row.family for row in board.rows if not row.control)),
        "doubtful": any(row.doubts or row.gap for row in board.rows),
        "unjudged": any(row.kind == UNJUDGED for row in board.rows),
        "files": list(_files(asked, view.table(protocol, unit, levels), stem)),
    }


def _files(asked: Asked, shown: SuiteTable, stem: str) -> Iterator[tuple[str, str]]:
    """Yield the files to download: label and address. They are what `roarbench table` writes.

    The static site has one of each kind for all boards of a suite; a running program makes those of the board shown.
    """
    view, live = asked.view, asked.links.live
    tables, name = ([shown], stem) if live else (view.tables, view.slug)
    for kind, write in (("csv", as_csv), ("json", _json)):
        made = view.kept((kind, name), partial(_written, write, tables))
        yield kind.upper(), asked.links.file(f"{name}.{kind}", made)


def _written(write: Callable[..., str], tables: list[SuiteTable]) -> bytes:
    return f"{write(*tables)}\n".encode()


def _json(*tables: SuiteTable) -> str:
    lines = ",\n".join(map(as_json, tables))
    return f"[{lines}]"


def _card(asked: Asked, board: BoardRecord, heading: str) -> str:
    """Return the address of the picture for links; empty in the app, which nobody else reaches."""
    return "" if asked.links.live else asked.links.file(f"{board.stem}.png", card(board, heading))


def _protocol(asked: Asked) -> Protocol:
    name = asked.at.chosen("protocol")
    if not name:
        return asked.view.leading
    if name not in {each.name for each in asked.view.protocols}:
        raise NotThere(f"There is no protocol {name!r} in {asked.view.title}.")
    return SHOWN[name]


def _unit(asked: Asked) -> Unit:
    has = asked.view.units(_protocol(asked))
    name = asked.at.chosen("unit") or has[0]
    if name not in has:
        raise NotThere(f"There is no unit {name!r} in {asked.view.title}.")
    return Unit(name)


def _levels(asked: Asked, whole: BoardRecord) -> tuple[float, ...]:
    level = asked.at.chosen("level")
    if level and level not in {f"{t:g}" for t in whole.levels}:
        raise NotThere(f"There is no level {level!r} under {question(whole.protocol)}.")
    return (float(level),) if level else ()


def _to(asked: Asked, at: Address, **more: str) -> str:
    return asked.links.to(at.page, at.suite, **dict(at.choices), **more)


def _tabs(asked: Asked, shown: Protocol) -> Iterator[Tab]:
    """Yield a tab for each protocol of the suite, then what leads other suites on its images and network.

    The leading protocol is first, ROAR second.
    """
    view = asked.view
    own = [Tab(question(each.name), _to(asked, _address(view, each)), each == shown) for each in view.protocols]
    has, others = {protocol.name for protocol in view.protocols}, list[tuple[str, Tab]]()
    for other in (each for each in view.siblings if each.results.suite.name != view.results.suite.name):
        for protocol in leading(other.results.suite):
            if protocol.name not in has and protocol in other.protocols:
                has.add(protocol.name)
                label = f"{question(protocol.name)} · {plain(other.title, 40)}"
                others.append((protocol.name, Tab(label, _to(asked, _address(other, protocol)), False)))
    yield from own[:1]
    yield from (tab for name, tab in others if name == ROAR.name)
    yield from own[1:]
    yield from (tab for name, tab in others if name != ROAR.name)


def _level_tabs(asked: Asked, whole: BoardRecord, board: BoardRecord) -> Iterable[Tab]:
    """Yield the gain over all levels, then at each one; only where a running program can compute it."""
    if not asked.links.live or len(whole.levels) < 2:
        return
    choices = {name: value for name, value in asked.at.choices if name != "level"}
    yield Tab("all levels", asked.links.to("board", asked.view.slug, **choices), board.levels == whole.levels)
    for t in whole.levels:
        link = asked.links.to("board", asked.view.slug, **choices, level=f"{t:g}")
        yield Tab(f"{t:.0%} removed", link, board.levels == (t,))


def _suites(asked: Asked) -> Iterator[Tab]:
    for view in asked.views.values():
        yield Tab(plain(view.title, 80), _to(asked, _address(view, view.leading)), view is asked.view)


class Runs(NamedTuple):
    """State of the runs of a suite.

    Attributes:
        words: How many are done, running, missing, failed.
        failures: Each that failed, with the reason.
    """

    words: str
    failures: list[str]


def _runs(status: Mapping[str, Any]) -> Runs:
    counts = {state: status[state] for state in ("done", "running", "missing", "failed")}
    others = [f"{counts[state]:,} {state}" for state in ("running", "missing", "failed") if counts[state]]
    words = ", ".join([f"{counts['done']:,} of {sum(counts.values()):,} runs are done", *others])
    return Runs(words, [f"{plain(row['run'])}: {plain(row['reason'], 500)}" for row in status["failures"]])


def _mark(row: BoardRow, board: BoardRecord) -> Mark | None:
    """Return where a row stands on the axis; None where it has no value."""
    value, low, high = row.value
    if value is None:
        return None
    left, right = (board.axis.at(value if end is None else end) for end in (low, high))
    return Mark(left, round(right - left, 1), board.axis.at(value))

"""The board: who wins, and why to believe it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from leaderboard.card import card
from leaderboard.links import Address, Asked, NotThere, address
from leaderboard.records import BoardRecord
from leaderboard.views import SuiteView
from leaderboard.words import lede, plain
from roarbench.plan.points import describe
from roarbench.plan.suites import leading
from roarbench.protocols import SHOWN
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.report.table import SuiteTable
from roarbench.report.table_values import as_csv, as_json
from roarbench.terms import Unit
from roarbench.text import place_interval


class Tab(NamedTuple):
    """A link to another board, and whether it is what is shown."""

    label: str
    href: str
    current: bool


def board_at(view: SuiteView, protocol: Protocol, unit: Unit | None = None, level: str = "") -> Address:
    """Return the address of a board: what is shown first is not said."""
    other = "" if protocol == view.leading else protocol.name
    named = "" if unit in (None, view.results.units(protocol)[0]) else str(unit)
    return address("board", view.slug, protocol=other, unit=named, level=level)


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of a board."""
    view, at = asked.view, asked.links.at
    protocol = SHOWN[_chosen(asked, "protocol", [each.name for each in view.protocols])]
    unit = Unit(_chosen(asked, "unit", view.results.units(protocol)))
    measured = view.table(protocol, unit).board.levels
    level = _chosen(asked, "level", ["", *(f"{t:g}" for t in measured)])
    levels = (float(level),) if level else ()
    board = view.board_of(protocol, unit, levels)
    heading = board.headline or f"{view.title}: {protocol.tab}"
    units = [Tab(str(u), at(board_at(view, protocol, u)), u == unit) for u in view.results.units(protocol)]
    live = asked.links.live
    return {
        "title": f"{plain(view.title)}: {plain(protocol.tab)}",
        "description": board.headline,
        "card": "" if live else asked.links.file(f"{board.stem}.png", card(board, heading)),
        "board": board,
        "heading": heading,
        "lede": lede(protocol),
        "tabs": list(_tabs(asked, protocol)),
        "units": units,
        "levels": [
            Tab(f"{float(t):.0%} removed" if t else "all levels", at(board_at(view, protocol, unit, t)), t == level)
            for t in ("", *(f"{t:g}" for t in measured if live and len(measured) > 1))
        ],
        "suites": [Tab(plain(v.title, 80), at(board_at(v, v.leading)), v is view) for v in asked.views.values()],
        "key": list(key_of(board, view.results.suite.entered)),
        "runs": _runs(view),
        "files": list(_files(asked, view.table(protocol, unit, levels), "-".join((board.stem, *map(str, levels))))),
    }


def _chosen(asked: Asked, what: str, there: Iterable[str]) -> str:
    """Return what is chosen of something, or the first of it."""
    has = list(there)
    name = asked.at.chosen(what) or has[0]
    if name not in has:
        raise NotThere(f"There is no {what} {plain(name, 40)!r} in {asked.view.title}.")
    return name


def _files(asked: Asked, shown: SuiteTable, stem: str) -> Iterator[tuple[str, str]]:
    """Yield the files to download: label and address. They are what `roarbench table` writes.

    The static site has one of each kind for all boards of a suite; a running program makes those of the board shown.
    """
    view, live = asked.view, asked.links.live
    name = stem if live else view.slug

    def written() -> dict[str, str]:
        tables = [shown] if live else view.tables
        return {"csv": as_csv(*tables), "json": "[" + ",\n".join(map(as_json, tables)) + "]"}

    for kind, text in view.kept(("files", name), written).items():
        yield kind.upper(), asked.links.file(f"{name}.{kind}", f"{text}\n".encode())


def _tabs(asked: Asked, shown: Protocol) -> Iterator[Tab]:
    """Yield a tab for each protocol of the suite, then what leads other suites on its images and network."""
    view, to = asked.view, asked.links.at
    others = {
        protocol: other
        for other in reversed(view.siblings)
        for protocol in leading(other.results.suite)
        if other.results.suite.name != view.results.suite.name and protocol in other.protocols
    }
    found = dict.fromkeys(view.protocols, view)
    for protocol in sorted(found | others, key=lambda each: (each != view.leading, each != ROAR, each not in found)):
        whose = found.get(protocol) or others[protocol]
        label = protocol.tab + ("" if whose is view else f" · {plain(whose.title, 40)}")
        yield Tab(label, to(board_at(whose, protocol)), whose is view and protocol == shown)


def key_of(board: BoardRecord, entered: Collection[str]) -> Iterator[str]:
    """Yield what a range of places and masks alone mean, where a board has them."""
    ranges = [row.place for row in board.rows if row.place and row.place.low != row.place.high]
    if ranges:
        added = "; an added row changes no other row’s place" if any(row.id in entered for row in board.rows) else ""
        place = place_interval(ranges[0]).replace("-", "–")
        yield f"Place {place}: the true one is among these, with 95 % confidence for all rows at once{added}"
    masks = [doubt.short for row in board.rows for doubt in row.doubts if doubt.short.startswith("masks alone")]
    if masks:
        share = masks[0].removeprefix("masks alone ")
        yield f"{masks[0]}: networks that see which features are missing, and no image, answer {share} right"


def _runs(view: SuiteView) -> tuple[str, list[str]]:
    """Return how many runs of a suite are done, running, missing and failed, and each that failed, with the reason."""
    states, suite = view.states, view.results.suite
    count = Counter(state for state, _ in states.values())
    others = [f"{count[state]:,} {state}" for state in ("running", "missing", "failed") if count[state]]
    words = ", ".join([f"{count['done']:,} of {len(states):,} runs are done", *others])
    failures = ((describe(point, suite), reason) for point, (_, reason) in states.items() if reason)
    return words, [f"{plain(run)}: {plain(reason, 500)}" for run, reason in failures]

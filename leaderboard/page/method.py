"""One estimator: its verdict, why to doubt it, and how to do it again."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from leaderboard.asked import Asked, NotThere
from leaderboard.figure import Figure, figure
from leaderboard.links import Address, address
from leaderboard.names import human_name
from leaderboard.page import images
from leaderboard.profile import command, profile
from leaderboard.records import BEATS, BELOW, BoardRecord, BoardRow, Doubt
from leaderboard.text import plain
from leaderboard.views import SuiteView, Views
from leaderboard.words import question
from roarbench.plan.points import describe
from roarbench.plan.suites import leading
from roarbench.text import interval, place_interval

KEY = 12  # hexadecimal digits of a run's key that a command takes: enough to tell 25,000 runs apart
FIGURES, PICTURES = 3, 6  # of a page


class Verdict(NamedTuple):
    """How an estimator does on one board.

    Attributes:
        suite: Title of the suite.
        asked: The question of the protocol.
        row: Its row.
        best: The control that is hardest to beat there; empty where there is none.
        left, width, dot, zero, line: Where interval, value, 0 and the best control stand, in percent.
        href: The board.
    """

    suite: str
    asked: str
    row: BoardRow
    best: str
    left: float
    width: float
    dot: float
    zero: float
    line: float | None
    href: str


def addresses(views: Views) -> Iterator[Address]:
    """Yield one page for each estimator that is a row somewhere."""
    names = (name for view in views.values() for name in view.results.suite.placed)
    for name in dict.fromkeys(names):
        yield address("method", estimator=name)


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of an estimator's page."""
    name = asked.at.chosen("estimator")
    views = [view for view in asked.views.values() if name in view.results.suite.placed]
    if not views:
        raise NotThere(f"There is no estimator {plain(name, 60)!r} here.")
    boards = [(view, board) for view in views for board in _leading(view)]
    found = [(view, board, board.by_id[name]) for view, board in boards if name in board.by_id]
    first = next((each for each in found if each[2].value.value is not None), found[0] if found else None)
    about = profile(name, (view.results for view in views))
    called = human_name(name)
    return {
        "title": called.whole,
        "name": called.name,
        "detail": called.detail,
        "id": name,
        "about": about,
        "origin": _origin(first[2]) if first else "",
        "verdict": _sentence(*first) if first else "",
        "description": _sentence(*first) if first else about.about,
        "verdicts": [_verdict(asked, view, board, row) for view, board, row in found],
        "against": _against(first[2]) if first else [],
        "figures": list(islice(_figures(views, name), FIGURES)),
        "pictures": _pictures(asked, views, name),
        "doubts": _doubts(found),
        "gaps": [(view.title, row.gap) for view, _, row in found if row.gap],
        "commands": _commands(views, name),
        "submit": asked.links.to("submit"),
        "compare": asked.links.to("compare", first[0].slug) if first else "",
    }


def _origin(row: BoardRow) -> str:
    """Return who ran it, and when; empty where nothing of it was run."""
    return f"{row.origin}, {row.date}" if row.origin else ""


def _leading(view: SuiteView) -> list[BoardRecord]:
    """Return the boards that say whether a row knows anything: of the leading protocol, and of ROAR beside it."""
    return [view.board_of(protocol) for protocol in dict.fromkeys((view.leading, *leading(view.results.suite)))]


def _sentence(view: SuiteView, board: BoardRecord, row: BoardRow) -> str:
    """Return the verdict in a sentence, no more than the board says."""
    if row.value.value is None:
        return f"It has no place on {view.title}: {row.gap}." if row.gap else ""
    place = f", place {place_interval(row.place)} of {len(board.rows)}" if row.place else ""
    size = f"{interval(row.value)} points{place} on {view.title}"
    if row.control:
        return f"A control: it never asks the network. {size}; an estimator has to beat it."
    if not row.beating:
        return f"{size}. Nothing says yet whether it beats the controls."
    rival = human_name(row.beating.nearest).whole
    if row.kind == BEATS:
        return f"It beats every control that asks no network: {size}."
    size = f"It has {size}"
    if row.kind == BELOW:
        over = f"{abs(row.beating.over.value or 0.0):.1f}"
        return f"It is {over} points below {rival}, a control that asks no network. {size}."
    over = interval(row.beating.over)
    return f"It is not told apart from {rival}, a control that asks no network: {over} points. {size}."


def _verdict(asked: Asked, view: SuiteView, board: BoardRecord, row: BoardRow) -> Verdict:
    at = board.axis.at
    value, low, high = row.value
    left, right = (at(end if end is not None else value or 0.0) for end in (low, high))
    best = board.by_id.get(board.best_control)
    choice = "" if board.protocol == view.leading.name else board.protocol
    return Verdict(
        plain(view.title),
        question(board.protocol),
        row,
        best.name if best else "",
        left,
        round(right - left, 1),
        at(value or 0.0),
        at(0.0),
        at(best.value.value) if best and best.value.value is not None else None,
        asked.links.to("board", view.slug, protocol=choice),
    )


def _against(row: BoardRow) -> list[tuple[str, str]]:
    """Return its gain minus that of each control, the hardest first."""
    if not row.beating:
        return []
    each = sorted(row.beating.each.items(), key=lambda item: item[1].value or 0.0)
    return [(human_name(control).whole, interval(over)) for control, over in each]


def _figures(views: Iterable[SuiteView], name: str) -> Iterator[tuple[str, Figure]]:
    """Yield its curves, those of the first suites and protocols before the others."""
    for view in views:
        for protocol in view.protocols:
            table = view.table(protocol, view.units(protocol)[0])
            drawn = figure(table, name)
            if drawn:
                yield f"{plain(view.title)}: {question(protocol.name)}", drawn


def _pictures(asked: Asked, views: Iterable[SuiteView], name: str) -> dict[str, Any] | None:
    """Return its pictures on the first suite that has any."""
    view = next((view for view in views if view.pictures and name in view.pictures.rows), None)
    if not view or not view.pictures:
        return None
    there = asked._replace(at=address("images", view.slug))
    count = len(view.pictures.numbers)
    return {
        "found": view.pictures,
        "photos": images.photos(there),
        "row": images.shown(there, name, held=True),
        "masks": {kind: images.MASKS[kind] for kind in view.pictures.kinds if kind != "map"},
        "against": view.leading.against and view.pictures.kinds[2],
        "answers": images.answers(view, name),
        "places": [i * count // PICTURES for i in range(PICTURES)],
        "href": asked.links.to("images", view.slug),
    }


def _doubts(found: Iterable[tuple[SuiteView, BoardRecord, BoardRow]]) -> list[tuple[Doubt, str]]:
    """Return what speaks against it, each once with the boards where it does."""
    places = defaultdict[Doubt, list[str]](list)
    for view, board, row in found:
        for doubt in row.doubts:
            places[doubt].append(f"{plain(view.title)}, {question(board.protocol)}")
    return [(doubt, "; ".join(where)) for doubt, where in places.items()]


def _commands(views: Iterable[SuiteView], name: str) -> list[tuple[str, list[tuple[str, list[tuple[str, str]]]]]]:
    """Return the commands that repeat its runs, each once, with the suites that it is for and their runs."""
    found = defaultdict[str, list[tuple[str, list[tuple[str, str]]]]](list)
    for view in views:
        found[command(view.results, name)].append((plain(view.title), list(_runs(view, name))))
    return list(found.items())


def _runs(view: SuiteView, name: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of its runs, those of one cell together: what was run, and the keys of its trainings."""
    keys = defaultdict[str, list[str]](list)
    for point, result in view.results.by_estimator.get(name, ()):
        words = plain(describe(point, view.results.suite)).partition(" seed ")[0]
        keys[words].append(result.run.key[:KEY])
    yield from ((what, " ".join(each)) for what, each in keys.items())

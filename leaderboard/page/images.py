"""Images: what maps remove from a few test images, and how many networks still know them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from leaderboard.asked import Asked, NotThere
from leaderboard.links import Address, address
from leaderboard.names import human_name
from leaderboard.pictures import Pictures, answers_of
from leaderboard.text import plain
from leaderboard.views import SuiteView, Views
from leaderboard.words import question
from roarbench.text import counted

_PAGE = 12  # rows that a static page can show; a running program has all
MASKS = {"own": "its own mask", "matched": "matched mask", "other": "another’s mask"}


class Shown(NamedTuple):
    """A row whose pictures can be shown.

    Attributes:
        id: What the command line takes.
        name, detail: What people call it.
        href: Of its pictures; where a script of the page shows them, what it is to look for.
        sheet: Address of its sheet; empty where the page does not hold it.
        own, against: Right answers for each image, with its own mask and with the one that it is held against.
    """

    id: str
    name: str
    detail: str
    href: str
    sheet: str
    own: tuple[int, ...]
    against: tuple[int, ...]


def addresses(views: Views) -> Iterator[Address]:
    """Yield a page for each suite that has pictures."""
    yield from (address("images", view.slug) for view in views.values() if view.pictures)


def context(asked: Asked) -> dict[str, Any]:
    """Return the fields of the page of a suite."""
    view, found = asked.view, asked.view.pictures
    if found is None:
        raise NotThere(f"The store has no images and rankings of {plain(asked.view.title)}.")
    names = rows_of(view, found) if asked.links.live else rows_of(view, found)[:_PAGE]
    wanted = asked.at.chosen("estimator") or names[0]
    if wanted not in names:
        raise NotThere(f"There are no pictures of {plain(wanted, 60)!r} in {plain(view.title)}.")
    held = [shown(asked, name, name == wanted or not asked.links.live) for name in names]
    networks, levels = _networks(view, wanted)
    return {
        "title": f"{plain(view.title)}: images",
        "description": f"{counted(len(found.numbers), 'test image')}, their maps and what is left of them",
        "pictures": found,
        "photos": photos(asked),
        "rows": held,
        "now": next(row for row in held if row.id == wanted),
        "masks": {kind: MASKS[kind] for kind in found.kinds if kind != "map"},
        "against": view.leading.against and found.kinds[2],
        "answers": answers(view, wanted),
        "asks": f"{counted(networks, 'network')} at {counted(levels, 'level')}",
        "question": question(view.leading.name),
    }


def rows_of(view: SuiteView, found: Pictures) -> list[str]:
    """Return the rows with pictures in the order of the board, estimators before controls."""
    order = sorted(view.board.rows, key=lambda row: row.control)
    return [row.id for row in order if row.id in found.rows]


def photos(asked: Asked) -> str:
    """Return the address of the sheet of the images themselves."""
    assert asked.view.pictures is not None, "asked only where there are pictures"
    return asked.links.file(f"images-{asked.view.slug}.webp", asked.view.pictures.sheet(""))


def shown(asked: Asked, name: str, held: bool) -> Shown:
    """Return a row with its sheet, if the page is to hold it, and its answers."""
    view, found = asked.view, asked.view.pictures
    assert found is not None, "asked only where there are pictures"
    at = found.rows.index(name)
    sheet = asked.links.file(f"images-{view.slug}-{at}.webp", found.sheet(name)) if held else ""
    own, against = answers_of(view.results, view.leading, view.units(view.leading)[0], name, found.numbers)
    href = asked.links.to("images", view.slug, estimator=name) if asked.links.live else f"#row={at}"
    return Shown(name, *human_name(name), href, sheet, own, against)


def answers(view: SuiteView, name: str) -> int:
    """Return how many answers to each image there are."""
    networks, levels = _networks(view, name)
    return networks * levels


def _networks(view: SuiteView, name: str) -> tuple[int, int]:
    """Return how many networks answered, and at how many levels."""
    board = view.board_of(view.leading)
    return board.by_id[name].seeds, len(board.levels)

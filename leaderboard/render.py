"""Render pages: one set of templates for the static site and for the app.

**How a page is added.** A page is one module in `leaderboard/page/` and one template in `leaderboard/templates/`.

The module has two pure functions:

    def addresses(views: Views) -> Iterable[Address]     which pages of this kind a static site has
    def context(asked: Asked) -> dict[str, Any]          fields of the template, of plain records

`asked` says which page it is (`asked.at`, `asked.view`), what the store has (`asked.views`), and how to link
(`asked.links.to("method", estimator=id)`, empty where there is no such page; `asked.links.file("name.csv", content)`
keeps a file that the page shows or offers). `context` returns at least `title`; `files` lists what is offered: pairs
of a label and an address. It raises `NotThere` with a sentence where the store does not have what is asked for.
Nothing of it imports a template or HTML.

The template is `templates/NAME.html`: it extends `layout` (`page.html` of the site, `bare.html` within the app), fills
the block `main` and shows all text by autoescape. `parts.html` has macros that pages share. Then one line in `PAGES`.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leaderboard.asked import Asked, NotThere
from leaderboard.links import Address, Links
from leaderboard.page import board, cite, claims, compare, images, method, submit, suites, trust
from leaderboard.text import plain
from leaderboard.views import Views
from leaderboard.words import ADVICE, REPOSITORY
from roarbench.store.provenance import code_version
from roarbench.text import MISSING, place_interval

TEMPLATES = Path(__file__).parent / "templates"


class Page(NamedTuple):
    """A kind of page.

    Attributes:
        label: What the navigation calls it; empty where it is not in it.
        addresses: Those that a static site has.
        context: Fields of its template.
    """

    label: str
    addresses: Callable[[Views], Iterable[Address]]
    context: Callable[[Asked], dict[str, Any]]


PAGES = {  # by name in addresses, in the order of the navigation
    "board": Page("Board", board.addresses, board.context),
    "suites": Page("Suites", suites.addresses, suites.context),
    "claims": Page("Claims", claims.addresses, claims.context),
    "method": Page("", method.addresses, method.context),
    "images": Page("Images", images.addresses, images.context),
    "compare": Page("Compare", compare.addresses, compare.context),
    "trust": Page("Can I trust this?", trust.addresses, trust.context),
    "submit": Page("Submit", submit.addresses, submit.context),
    "cite": Page("", cite.addresses, cite.context),
}


class Rendered(NamedTuple):
    """A page.

    Attributes:
        title: For the browser.
        html: The whole document, or what stands within the app.
    """

    title: str
    html: str


def render(asked: Asked) -> Rendered:
    """Return a page.

    Raises:
        NotThere: The store does not have what is asked for.
    """
    name = asked.at.page
    if name not in PAGES:
        raise NotThere(f"There is no page {plain(name, 40)!r} here.")
    fields = PAGES[name].context(asked)
    nav = [(key, PAGES[key].label, _link(key, asked)) for key in _listed(asked)]
    shared = _shared(asked.links) | {"page": name, "nav": nav}
    shared["cite"] = asked.links.to("cite", asked.at.suite or next(iter(asked.views), "")) if asked.views else ""
    return Rendered(fields["title"], templates().get_template(f"{name}.html").render(shared | fields))


def _shared(links: Links) -> dict[str, Any]:
    return {
        "layout": "bare.html" if links.live else "page.html",
        "live": links.live,
        "link": links.to,
        "keep": lambda name, text: links.file(name, str(text).encode()),
        "cite": "",
        "card": "",
        "files": [],
        "description": "",
        "version": code_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def message(text: str, links: Links) -> Rendered:
    """Return a page that says in a sentence what is not there, and what to do."""
    fields = {
        "page": "",
        "title": "Nothing here",
        "text": plain(text, 300),
        "advice": ADVICE,
        "nav": [("board", "Board", links.to("board"))],
    }
    return Rendered("Nothing here", templates().get_template("message.html").render(_shared(links) | fields))


def known(views: Views) -> list[Address]:
    """Return the addresses of all pages that a static site of these suites has, the first board first."""
    return [at for page in PAGES.values() for at in page.addresses(views)]


def _listed(asked: Asked) -> list[str]:
    """Return the pages of the navigation: those that have anything to show."""
    there = {at.page for at in asked.known}
    return [name for name, page in PAGES.items() if page.label and name in there]


def _link(page: str, asked: Asked) -> str:
    """Return the address of a page, of the suite that is looked at if it has one."""
    found = [at for at in asked.known if at.page == page]
    at = next((at for at in found if at.suite and (at.suite, at.choices) == (asked.at.suite, ())), found[0])
    return asked.links.to(at.page, at.suite, **dict(at.choices))


@cache
def templates() -> Environment:
    """Return the templates, which escape whatever they are given and fail where something is missing."""
    loader = FileSystemLoader(TEMPLATES)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals["repository"] = REPOSITORY
    made.filters |= {
        "plain": plain,
        "number": number,
        "place": lambda place: place_interval(place).replace("-", "–"),
        "tick": lambda value, signed: f"{value:{'+' if signed and value else ''}g}".replace("-", "−"),
    }
    return made


def number(value: float | None, signed: bool = True) -> str:
    """Return a number with one decimal and a real minus; a dash where it is missing."""
    if value is None:
        return MISSING
    text = f"{value:+.1f}" if signed else f"{value:.1f}"
    return "0.0" if text[1:] == "0.0" else text.replace("-", "−")

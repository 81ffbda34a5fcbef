"""Render pages: one set of templates for the app and for the static site, which is whole without scripts."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leaderboard.first import Page
from leaderboard.links import Address, Asked, NotThere, StaticLinks, address, data_uri, file_name
from leaderboard.page import board, cite, claims, compare, images, method, submit, suites, trust
from leaderboard.records import KINDS
from leaderboard.views import Views
from leaderboard.words import ADVICE, REPOSITORY, plain
from roarbench.errors import CallerError
from roarbench.store.provenance import code_version
from roarbench.text import place_interval, signed

TEMPLATES = Path(__file__).parent / "templates"
ASSETS = ("board.css", "board.js")
PAGES: dict[str, tuple[str, ModuleType]] = {  # by name in addresses, with the label in the navigation, in its order
    "board": ("Board", board),
    "suites": ("Suites", suites),
    "claims": ("Claims", claims),
    "method": ("", method),
    "images": ("Images", images),
    "compare": ("Compare", compare),
    "trust": ("Can I trust this?", trust),
    "submit": ("Submit", submit),
    "cite": ("", cite),
}


def render(asked: Asked) -> Page:
    """Return a page.

    Raises:
        NotThere: The store does not have what is asked for.
    """
    name = asked.at.page
    if name not in PAGES:
        raise NotThere(f"There is no page {plain(name, 40)!r} here.")
    there = {at.page for at in asked.known}
    nav = [(key, label, _link(key, asked)) for key, (label, _) in PAGES.items() if label and key in there]
    suite = asked.at.suite or next(iter(asked.views), "")
    fields = {"page": name, "nav": nav, "cite": asked.links.to("cite", suite) if suite else ""}
    return _rendered(f"{name}.html", asked.links, fields | PAGES[name][1].context(asked))


def message(text: str, links: StaticLinks) -> Page:
    """Return a page that says in a sentence what is not there, and what to do."""
    nav = [("board", "Board", links.to("board"))]
    return _rendered(
        "message.html", links, {"page": "", "title": "Nothing here", "text": plain(text), "advice": ADVICE, "nav": nav}
    )


def _rendered(template: str, links: StaticLinks, fields: dict[str, Any]) -> Page:
    shared = {
        "live": links.live,
        "to": links.to,
        "keep": lambda name, text: links.file(name, str(text).encode()),
        "cite": "",
        "card": "",
        "description": "",
        "version": code_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    return Page(fields["title"], templates().get_template(template).render(shared | fields))


def known(views: Views) -> list[Address]:
    """Return the addresses of all pages that a static site of these suites has, the first board first."""
    suites = views.values()
    shown = [(view, protocol) for view in suites for protocol in view.protocols]
    found = [board.board_at(view, protocol, unit) for view, protocol in shown for unit in view.results.units(protocol)]
    if sum(view.results.has_rows for view in suites) > 1:
        found.append(address("suites"))
    if claims.tested(views):
        found.append(address("claims"))
    names = (name for view in suites for name in view.results.suite.placed)
    found += [address("method", estimator=name) for name in dict.fromkeys(names)]
    found += [address("images", view.slug) for view in suites if view.pictures]
    found += [address("compare", view.slug) for view in suites if compare.has_pair(view)]
    return [*found, address("trust"), address("submit"), *(address("cite", view.slug) for view in suites)]


def export(views: Views, folder: Path) -> int:
    """Write all pages; files of other names in the folder stay.

    Returns:
        The number of pages.

    Raises:
        CallerError: The folder cannot be written.
    """
    pages = known(views)
    links = StaticLinks(pages)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not views:
            (folder / "index.html").write_text(message("No results yet.", links).html, encoding="utf-8")
        for at in pages:
            html = render(Asked(at, views, links, pages)).html
            for name in {links.at(at), file_name(at)}:  # the first has two
                (folder / name).write_text(html, encoding="utf-8")
        files = links.files | {name: (TEMPLATES / name).read_bytes() for name in ASSETS}
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise CallerError(f"cannot write {folder}: {error.strerror}; name a folder that can be written") from None
    return len(pages) or 1


def _link(page: str, asked: Asked) -> str:
    """Return the address of a page, of the suite that is looked at if it has one."""
    found = [at for at in asked.known if at.page == page]
    return asked.links.at(next((at for at in found if at == Address(page, asked.at.suite)), found[0]))


@cache
def templates() -> Environment:
    """Return the templates, which escape whatever they are given and fail where something is missing."""
    loader = FileSystemLoader(TEMPLATES)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals |= {"repository": REPOSITORY, "kinds": KINDS}
    made.filters |= {
        "plain": plain,
        "inline": lambda svg: data_uri("image/svg+xml", svg.encode()),
        "number": lambda value, plus=True: (signed(value) if plus else f"{value:.1f}").replace("-", "−"),
        "place": lambda place: place_interval(place).replace("-", "–"),
        "tick": lambda value, plus: f"{value:{'+' if plus and value else ''}g}".replace("-", "−"),
    }
    return made

"""Render pages: one set of templates for the app and for the static site, which is whole without scripts."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leaderboard.links import Address, PageNotFound, Site, address, data_uri, file_name
from leaderboard.page import board, compare, estimator, images, share, suites, trust
from leaderboard.page_cache import Page
from leaderboard.page_text import REPOSITORY, day, make_plain
from leaderboard.views import Views
from roarbench.errors import CallerError
from roarbench.estimators.naming import name_for_people
from roarbench.plan.points import describe
from roarbench.store.provenance import code_version
from roarbench.text import format_count, format_signed, interval, list_some, place_interval, typeset

TEMPLATES = Path(__file__).parent / "templates"
ASSETS = ("board.css", "board.js")
PAGES: dict[str, tuple[str, Callable[[Site, Address], dict[str, Any]]]] = {
    # by name in addresses: the label in the navigation, in its order, and what makes the fields of the template
    "board": ("Board", board.context),
    "suites": ("Suites", suites.context),
    "claims": ("Claims", trust.claims),
    "method": ("", estimator.context),
    "images": ("Images", images.context),
    "compare": ("Compare", compare.context),
    "trust": ("Can I trust this?", trust.context),
    "submit": ("Submit", share.submit),
    "cite": ("", share.cite),
}


def render(site: Site, at: Address) -> Page:
    """Return a page.

    Raises:
        NotThere: The store does not have what is asked for.
    """
    if at.page not in PAGES:
        raise PageNotFound(f"There is no page {make_plain(at.page, 40)!r} here.")
    there = {each.page for each in site.known}
    nav = [(name, label, _link(name, site, at)) for name, (label, _) in PAGES.items() if label and name in there]
    suite = at.suite or next(iter(site.views), "")
    fields = PAGES[at.page][1](site, at)
    return _render(at.page, site, nav=nav, cite=site.to("cite", suite) if suite else "", **fields)


def message(text: str, site: Site) -> Page:
    """Return a page that says in a sentence what is not there, and what to do."""
    return _render("message", site, text=make_plain(text), nav=[("board", "Board", site.to("board"))])


def _render(page: str, site: Site, **fields: Any) -> Page:
    shared = {
        "page": page,
        "live": site.live,
        "to": site.to,
        "keep": lambda file, text: site.file(file, str(text).encode()),
        "version": code_version(),
        "date": day(datetime.now(UTC)),
    }
    made: Any = templates().get_template(f"{page}.html").make_module(shared | fields)
    return Page(made.title, str(made))


def list_addresses(views: Views) -> list[Address]:
    """Return the addresses of all pages that a static site of these suites has, the first board first."""
    suites = views.values()
    shown = [(view, protocol) for view in suites for protocol in view.protocols]
    single = [board.board_at(view, protocol, unit) for view, protocol in shown for unit in view.results.units(protocol)]
    found = list(dict.fromkeys([*(address("board", view.slug) for view in suites), *single]))
    if sum(view.results.has_rows for view in suites) > 1:
        found.append(address("suites"))
    if trust.suites_with_paper_protocols(views):
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
    site = Site(views, list_addresses(views))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not views:
            (folder / "index.html").write_text(message("No results yet.", site).html, encoding="utf-8")
        for at in site.known:
            html = render(site, at).html
            for name in {site.at(at), file_name(at)}:  # the first has two
                (folder / name).write_text(html, encoding="utf-8")
        files = site.files | {name: (TEMPLATES / name).read_bytes() for name in ASSETS}
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise CallerError(f"cannot write {folder}: {error.strerror}; name a folder that can be written") from None
    return len(site.known) or 1


def _link(page: str, site: Site, at: Address) -> str:
    """Return the link to a page, of the suite that is looked at if it has one."""
    found = [each for each in site.known if each.page == page]
    return site.at(next((each for each in found if each == Address(page, at.suite)), found[0]))


@cache
def templates() -> Environment:
    """Return the templates, which escape whatever they are given and fail where something is missing."""
    loader = FileSystemLoader(TEMPLATES)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals |= {"repository": REPOSITORY, "counted": format_count, "some": list_some, "describe": describe}
    made.filters |= {
        "plain": make_plain,
        "human": lambda name: name_for_people(name).whole,
        "interval": interval,
        "typeset": typeset,
        "inline": lambda svg: data_uri("image/svg+xml", svg.encode()),
        "number": lambda value, plus=True: (format_signed(value) if plus else f"{value:.1f}").replace("-", "−"),
        "place": lambda place: place_interval(place).replace("-", "–"),
        "tick": lambda value, plus: f"{value:{'+' if plus and value else ''}g}".replace("-", "−"),
    }
    return made

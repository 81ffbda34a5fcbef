"""Render pages for the app and the static site from one set of templates; the pages work without scripts."""

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

from leaderboard.links import ADDRESS_PARTS, Address, PageNotFound, Site, make_address, make_data_uri, make_file_name
from leaderboard.page import about, board, estimator, overview
from leaderboard.suite_view import Views
from leaderboard.text_helpers import REPOSITORY, format_day, shorten_line
from roarbench.common.errors import CallerError
from roarbench.common.text import (
    capitalize,
    format_count,
    format_interval,
    format_passes,
    format_rank,
    format_signed,
    list_some,
    typeset_minus_and_percent_signs,
)
from roarbench.estimators.catalogue import find_display_name
from roarbench.store.run_result import read_code_version, read_package_version

TEMPLATES = Path(__file__).parent / "templates"
ASSETS = ("board.css", "board.js")
PAGES: dict[str, tuple[str, Callable[[Site, Address], dict[str, Any]]]] = {
    # from a page's name in addresses to its label in the navigation and the function that makes the template's fields,
    # in the order of the navigation
    "suites": ("Overview", overview.build_overview_context),
    "board": ("Board", board.build_board_context),
    "claims": ("Claims", about.build_claims_context),
    "estimator": ("", estimator.build_estimator_context),
    "images": ("Images", estimator.build_images_context),
    "compare": ("Compare", board.build_compare_context),
    "trust": ("Can I trust this?", about.build_trust_context),
    "submit": ("Submit", about.build_submit_context),
    "cite": ("", about.build_cite_context),
}


class Page(NamedTuple):
    """A page: its title, its HTML, and files to download."""

    title: str
    html: str
    files: dict[str, Callable[[], bytes]] = {}  # by name


def render_page(site: Site, address: Address) -> Page:
    """Render a page; raise PageNotFound if the store has no results for the page."""
    if address.page not in PAGES:
        raise PageNotFound(f"There is no page {shorten_line(address.page, 40)!r} here.")
    there = {address.page for address in site.known}
    nav = list[tuple[str, str, str]]()
    for name, (label, _) in PAGES.items():
        if label and name in there:  # a page that belongs to a suite leads to that of the current suite
            alike = [one for one in site.known if one.page == name]
            own = Address(name, address.suite)
            nav.append((name, label, site.get_link(own if own in alike else alike[0])))
    fields = PAGES[address.page][1](site, address)
    cite = site.get_page_link("cite", address.suite) if address.suite else ""
    return _render_template(address.page, site, nav=nav, cite=cite, **fields)


def render_live_page(views: Views, query: dict[str, str], all_read: bool = True) -> Page:
    """Return the app's page for a query, by default the first page; until `all_read`, `views` lacks suites."""
    site = Site(views, list_addresses(views), live=True)
    first = site.first_address if all_read else make_address()
    asked = {name: value for name, value in query.items() if name in ADDRESS_PARTS}  # other sites add words to links
    page = render_page(site, make_address(**asked) if asked else first)
    unread = "<p class='rb fine'>The other suites are being read.</p>" * (not all_read)
    return Page(page.title, page.html + unread, site.files)


def render_message(text: str, site: Site) -> Page:
    """Render a page with a message, such as an explanation of missing results."""
    nav = [("board", "Board", site.get_page_link("board"))]
    return _render_template("message", site, text=shorten_line(text), nav=nav)


def _render_template(page: str, site: Site, **fields: Any) -> Page:
    shared = {
        "page": page,
        "live": site.live,
        "home": site.get_link(site.first_address),
        "to": site.get_page_link,
        "keep": lambda file, text: site.add_file(file, str(text).encode),
        "version": read_code_version(),
        "date": format_day(datetime.now(UTC)),
    }
    made: Any = load_templates().get_template(f"{page}.html").make_module(shared | fields)
    return Page(made.title, str(made))


def list_addresses(views: Views) -> list[Address]:
    """Return the addresses of all pages.

    The overview comes first if several suites lead with both ROAR and own-network gain; otherwise a board comes first.
    """
    suites = views.values()
    shown = ((view, protocol) for view in suites for protocol in view.protocols)
    boards = ((view, protocol, unit) for view, protocol in shown for unit in view.results.list_units(protocol))
    single = [board.find_board_address(*each) for each in boards]
    addresses = list(dict.fromkeys([*(make_address("board", view.slug) for view in suites), *single]))
    if len(suites) > 1:
        several = sum(view.leads_with_roar_and_own_network for view in suites) > 1
        addresses.insert(0 if several else len(addresses), make_address("suites"))
    if about.find_suites_that_test_claims(views):
        addresses.append(make_address("claims"))
    names = dict.fromkeys(name for view in suites for name in view.rows)
    addresses += [make_address("estimator", estimator=name) for name in names]
    addresses += [make_address("images", view.slug) for view in suites if view.pictures]
    addresses += [address for view in suites for address in board.list_exported_addresses(view)]
    addresses += [make_address("trust"), make_address("submit")]
    return addresses + [make_address("cite", view.slug) for view in suites]


_FORWARD_PAGE = """<!doctype html>
<html lang="en"><title>roarbench</title><meta http-equiv="refresh" content="0; url={link}">
<a href="{link}">roarbench</a></html>
"""


def export_site(views: Views, folder: Path) -> int:
    """Write all pages, or a page that says that there are no results; other files in the folder stay.

    Returns:
        The number of pages.

    Raises:
        CallerError: The folder cannot be written.
    """
    site = Site(views, list_addresses(views) if views else ())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not views:
            (folder / "index.html").write_text(render_message("No results yet.", site).html, encoding="utf-8")
        for at in site.known:
            (folder / site.get_link(at)).write_text(render_page(site, at).html, encoding="utf-8")
        if site.known and site.first_address.page == "board":  # its own name is the address that the page to cite has
            forward = _FORWARD_PAGE.format(link=site.get_link(site.first_address))
            (folder / make_file_name(site.first_address)).write_text(forward, encoding="utf-8")
        for name, make in (site.files | {name: (TEMPLATES / name).read_bytes for name in ASSETS}).items():
            (folder / name).write_bytes(make())
    except OSError as error:
        raise CallerError(f"cannot write {folder}: {error.strerror}; name a folder that can be written") from None
    return len(site.known) or 1


class CompiledTemplates(FileSystemBytecodeCache):
    """Compiled templates beside their sources, as Python keeps compiled modules; none where they cannot be written."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                Path(self.directory).mkdir(exist_ok=True)
                super().dump_bytecode(bucket)


@cache
def load_templates() -> Environment:
    """Load the templates, which escape all values and raise an error if a value is missing."""
    # constant expressions are few, and the search for them takes half of the compilation
    options: dict[str, Any] = dict(autoescape=True, trim_blocks=True, lstrip_blocks=True, optimized=False)
    # Jinja itself tells apart versions of Python and of each source, but not the options, which compiled code contains
    compiled = f"%s.jinja-{read_package_version('jinja2')}-{''.join(f'{value:d}' for value in options.values())}"
    cache_of_code = CompiledTemplates(str(TEMPLATES / "__pycache__"), compiled)
    loader = FileSystemLoader(TEMPLATES)
    made = Environment(loader=loader, bytecode_cache=cache_of_code, undefined=StrictUndefined, **options)
    made.globals |= {"repository": REPOSITORY, "counted": format_count, "some": list_some}
    made.filters |= {
        "capitalize": capitalize,  # Jinja's own filter changes the other letters to lower case
        "count_of_passes": format_passes,
        "plain": shorten_line,
        "human": lambda name: find_display_name(name).full_name,
        "interval": format_interval,
        "typeset_minus_and_percent_signs": typeset_minus_and_percent_signs,
        "inline": lambda svg: make_data_uri("image/svg+xml", svg.encode()),
        "number": lambda value, plus=True: (format_signed(value) if plus else f"{value:.1f}").replace("-", "−"),
        "place": lambda interval: format_rank(interval).replace("-", "–"),
        "tick": lambda value, plus: f"{value:{'+' if plus and value else ''}g}".replace("-", "−"),
    }
    return made

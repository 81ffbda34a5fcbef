"""Addresses of pages; links and files of the static site and the app."""

import base64
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import urlencode

from leaderboard.suite_view import SuiteView, Views
from leaderboard.text_helpers import shorten_line

_IMAGES = {"svg": "image/svg+xml", "webp": "image/webp"}  # from the endings of files that pages show to their types

ADDRESS_PARTS = ("page", "suite", "estimator", "first", "protocol", "second", "unit")


class PageNotFound(LookupError):
    """Raised for an address for which the store has no results; the message is a sentence for the reader."""


class Address(NamedTuple):
    """The address of a page: a key of `render.PAGES`, a suite's slug, and choices as pairs of name and value."""

    page: str
    suite: str = ""
    choices: tuple[tuple[str, str], ...] = ()

    def get_choice(self, name: str) -> str:
        """Return the value of the choice with this name; an empty string if there is no such choice."""
        return dict(self.choices).get(name, "")


def make_address(page: str = "board", suite: str = "", **choices: str) -> Address:
    """Make an address; empty choices, which stand for defaults, are left out."""
    return Address(page, suite, tuple(sorted((name, value) for name, value in choices.items() if value)))


class Site:
    """The links between the pages of some suites, and functions that make the `files` that the pages show or offer.

    On an exported site, links lead to the files of the `known` pages; the first page is the index. In the running app
    (`live`), links are queries, which may choose any pair of rows; pictures are inlined, and other files have buttons.
    """

    def __init__(self, views: Views, known: Sequence[Address] = (), live: bool = False) -> None:
        self.views, self.known, self.live = views, known, live
        self.files: dict[str, Callable[[], bytes]] = {}  # by name; called after the page is made
        self._names = {address: make_file_name(address) for address in known} | dict.fromkeys(known[:1], "index.html")

    @property
    def first_address(self) -> Address:
        """Return the address of the first page; if there are no suites, the address of a board."""
        return self.known[0] if self.views and self.known else make_address()

    def get_link(self, address: Address) -> str:
        """Return the link to a page; an empty string if the static site has no such page."""
        if not self.live:
            return self._names.get(address, "")
        return "?" + urlencode(
            [("page", address.page), *([("suite", address.suite)] if address.suite else []), *address.choices]
        )

    def get_page_link(self, page: str, suite: str = "", **choices: str) -> str:
        return self.get_link(make_address(page, suite, **choices))

    def add_file(self, name: str, make: Callable[[], bytes]) -> str:
        """Add a file that a page shows or offers; return its address, or an empty string if the app adds a button."""
        kind = _IMAGES.get(name.rpartition(".")[2])
        if self.live and kind:
            return make_data_uri(kind, make())
        self.files[name] = make
        return "" if self.live else name

    def find_view(self, address: Address) -> SuiteView:
        """Return the suite of an address, by default the first suite; raise PageNotFound if there is no such suite."""
        name = address.suite or next(iter(self.views), "")
        if name not in self.views:
            raise PageNotFound(f"There is no suite {name!r} here." if name else "No results yet.")
        return self.views[name]


def read_choice(view: SuiteView, address: Address, option: str, options: Iterable[str]) -> str:
    """Return the chosen option, or the first option if none is chosen; raise PageNotFound for an unknown option."""
    names = list(options)
    name = address.get_choice(option) or next(iter(names), "")
    if name not in names:
        seen = f" {shorten_line(name, 60)!r}" if name else ""
        raise PageNotFound(f"There is no {option}{seen} in {view.title}.")
    return name


def make_data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def make_file_name(address: Address) -> str:
    """Return a safe name for the file of a page, which differs between addresses."""
    plain = "-".join(filter(None, [address.page, address.suite, *(value for _, value in address.choices)]))
    harmless = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in plain)[:60]
    mark = "" if harmless == plain else f"-{sha256(repr(address).encode()).hexdigest()[:8]}"
    return f"{harmless}{mark}.html"

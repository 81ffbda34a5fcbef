"""Addresses of pages, and links and files on the static site or in the app."""

import base64
from collections.abc import Sequence
from hashlib import sha256
from mimetypes import guess_type
from typing import NamedTuple
from urllib.parse import urlencode

from leaderboard.views import SuiteView, Views


class PageNotFound(LookupError):
    """Raised for an address without results in the store; the message is a sentence for the reader."""


class Address(NamedTuple):
    """The address of a page: a key of `render.PAGES`, a suite's slug, and choices by name; defaults are left out."""

    page: str
    suite: str = ""
    choices: tuple[tuple[str, str], ...] = ()

    def get_choice(self, name: str) -> str:
        """Return the choice with this name; empty if there is none."""
        return dict(self.choices).get(name, "")


def make_address(page: str = "board", suite: str = "", **choices: str) -> Address:
    """Make an address without empty choices."""
    return Address(page, suite, tuple(sorted((name, value) for name, value in choices.items() if value)))


class Site:
    """The pages of some suites: their links, and `files` by name that they show or offer.

    An exported site links its `known` pages as files, the first one as its index. In a running program (`live`: any
    level, any pair) links are queries, pictures are inlined, and other files have buttons.
    """

    def __init__(self, views: Views, known: Sequence[Address] = (), live: bool = False) -> None:
        self.views, self.known, self.live = views, known, live
        self.files: dict[str, bytes] = {}
        self._names = {address: make_file_name(address) for address in known} | dict.fromkeys(known[:1], "index.html")

    @property
    def first_address(self) -> Address:
        """Return the address of the first page; without suites, that of a board."""
        return self.known[0] if self.views and self.known else make_address()

    def get_link(self, address: Address) -> str:
        """Return the link to a page; empty if there is none."""
        if not self.live:
            return self._names.get(address, "")
        return "?" + urlencode(
            [("page", address.page), *([("suite", address.suite)] if address.suite else []), *address.choices]
        )

    def get_page_link(self, page: str, suite: str = "", **choices: str) -> str:
        """Return the link to a page by its parts."""
        return self.get_link(make_address(page, suite, **choices))

    def add_file(self, name: str, content: bytes) -> str:
        """Add a file that a page shows or offers; return its address, empty if a button replaces it."""
        kind = guess_type(name)[0] or ""
        if self.live and kind.startswith("image/"):
            return make_data_uri(kind, content)
        self.files[name] = content
        return "" if self.live else name

    def find_view(self, address: Address) -> SuiteView:
        """Return the suite of an address, by default the first one; PageNotFound if there is none."""
        name = address.suite or next(iter(self.views), "")
        if name not in self.views:
            raise PageNotFound(f"There is no suite {name!r} here." if name else "No results yet.")
        return self.views[name]


def make_data_uri(kind: str, content: bytes) -> str:
    """Return a file as a data URI."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def make_file_name(address: Address) -> str:
    """Return a safe file name, distinct for each address."""
    plain = "-".join(filter(None, [address.page, address.suite, *(value for _, value in address.choices)]))
    harmless = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in plain)[:60]
    mark = "" if harmless == plain else f"-{sha256(repr(address).encode()).hexdigest()[:8]}"
    return f"{harmless}{mark}.html"

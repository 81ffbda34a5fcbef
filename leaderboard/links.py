"""What a page is asked for, and how it links to other pages and keeps files: on the static site, or in the app."""

import base64
from collections.abc import Sequence
from hashlib import sha256
from mimetypes import guess_type
from typing import NamedTuple
from urllib.parse import urlencode

from leaderboard.views import SuiteView, Views


class PageNotFound(LookupError):
    """The store does not have what an address asks for; the text is a sentence for the reader."""


class Address(NamedTuple):
    """Address of a page: its name, a key of `render.PAGES`, the slug of a suite, and further choices by name.

    What is shown anyway, such as the first suite or protocol, is left out.
    """

    page: str
    suite: str = ""
    choices: tuple[tuple[str, str], ...] = ()

    def chosen(self, name: str) -> str:
        """Return what is chosen under a name; empty where nothing is."""
        return dict(self.choices).get(name, "")


def make_address(page: str = "board", suite: str = "", **choices: str) -> Address:
    """Return an address; empty choices are left out."""
    return Address(page, suite, tuple(sorted((name, value) for name, value in choices.items() if value)))


class Site:
    """The pages of some suites: how they link, and in `files`, by name, all that they show or offer.

    An exported site links its `known` pages as files, the first one as its index. Where a program runs (`live`: any
    level, any pair) a link is a query that it answers, pictures stand in their address, and other files wait for
    buttons.
    """

    def __init__(self, views: Views, known: Sequence[Address] = (), live: bool = False) -> None:
        self.views, self.known, self.live = views, known, live
        self.files: dict[str, bytes] = {}
        self._names = {each: make_file_name(each) for each in known} | dict.fromkeys(known[:1], "index.html")

    def at(self, page: Address) -> str:
        """Return the link to a page; empty where there is no such page."""
        if not self.live:
            return self._names.get(page, "")
        return "?" + urlencode([("page", page.page), *([("suite", page.suite)] if page.suite else []), *page.choices])

    def to(self, page: str, suite: str = "", **choices: str) -> str:
        """Return the link to a page by what it is asked for."""
        return self.at(make_address(page, suite, **choices))

    def file(self, name: str, content: bytes) -> str:
        """Keep a file that a page shows or offers; return its address, empty where a button stands for it."""
        kind = guess_type(name)[0] or ""
        if self.live and kind.startswith("image/"):
            return make_data_uri(kind, content)
        self.files[name] = content
        return "" if self.live else name

    def view(self, at: Address) -> SuiteView:
        """Return the suite that is asked for; the first one where none is.

        Raises:
            NotThere: There is no such suite, or none at all.
        """
        name = at.suite or next(iter(self.views), "")
        if name not in self.views:
            raise PageNotFound(f"There is no suite {name!r} here." if name else "No results yet.")
        return self.views[name]


def make_data_uri(kind: str, content: bytes) -> str:
    """Return a file within an address."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def make_file_name(of: Address) -> str:
    """Return a file name of harmless letters, whatever the address is made of; different for different addresses."""
    plain = "-".join(filter(None, [of.page, of.suite, *(value for _, value in of.choices)]))
    harmless = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in plain)[:60]
    mark = "" if harmless == plain else f"-{sha256(repr(of).encode()).hexdigest()[:8]}"
    return f"{harmless}{mark}.html"

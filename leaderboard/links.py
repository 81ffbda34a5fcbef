"""What a page is asked for, and how it links to other pages and keeps files: on the static site, or in the app."""

import base64
from collections.abc import Sequence
from hashlib import sha256
from mimetypes import guess_type
from typing import NamedTuple
from urllib.parse import urlencode

from leaderboard.views import SuiteView, Views


class NotThere(LookupError):
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


def address(page: str = "board", suite: str = "", **choices: str) -> Address:
    """Return an address; empty choices are left out."""
    return Address(page, suite, tuple(sorted((name, value) for name, value in choices.items() if value)))


class StaticLinks:
    """Links between the files of an exported site. `files` has, by name, all that pages show or offer."""

    live = False  # whether a running program answers: any level, any pair

    def __init__(self, known: Sequence[Address] = ()) -> None:
        """Take the pages of the site, of which the first one is its index."""
        self.files: dict[str, bytes] = {}
        self._names = {each: file_name(each) for each in known} | dict.fromkeys(known[:1], "index.html")

    def at(self, page: Address) -> str:
        """Return the address of a page; empty where there is no such page."""
        return self._names.get(page, "")

    def to(self, page: str, suite: str = "", **choices: str) -> str:
        """Return the address of a page by what it is asked for."""
        return self.at(address(page, suite, **choices))

    def file(self, name: str, content: bytes) -> str:
        """Keep a file that the page shows or offers; return its address."""
        self.files[name] = content
        return name


class AppLinks(StaticLinks):
    """Links within the app: queries that it answers. Pictures stand in their address; other files wait for buttons."""

    live = True

    def at(self, page: Address) -> str:
        """Return the query that the app answers with a page."""
        return "?" + urlencode([("page", page.page), *([("suite", page.suite)] if page.suite else []), *page.choices])

    def file(self, name: str, content: bytes) -> str:
        """Return a picture within its address; keep any other file, which has none."""
        kind = guess_type(name)[0] or ""
        if kind.startswith("image/"):
            return data_uri(kind, content)
        super().file(name, content)
        return ""


def data_uri(kind: str, content: bytes) -> str:
    """Return a file within an address."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def file_name(of: Address) -> str:
    """Return a file name of harmless letters, whatever the address is made of; different for different addresses."""
    plain = "-".join(filter(None, [of.page, of.suite, *(value for _, value in of.choices)]))
    harmless = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in plain)[:60]
    mark = "" if harmless == plain else f"-{sha256(repr(of).encode()).hexdigest()[:8]}"
    return f"{harmless}{mark}.html"


class Asked(NamedTuple):
    """A page that is asked for, of all suites of a store, with its links and the addresses of all pages there are."""

    at: Address
    views: Views
    links: StaticLinks
    known: Sequence[Address]

    @property
    def view(self) -> SuiteView:
        """Return the suite that is asked for; the first one where none is.

        Raises:
            NotThere: The store does not have it, or is empty.
        """
        name = self.at.suite or next(iter(self.views), "")
        if name not in self.views:
            raise NotThere(f"There is no suite {name!r} here." if name else "No results yet.")
        return self.views[name]

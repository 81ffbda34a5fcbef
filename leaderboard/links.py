"""Addresses of pages and files: of the static site, or of the app."""

import base64
from collections.abc import Mapping, Sequence
from hashlib import sha256
from mimetypes import guess_type
from typing import NamedTuple, Protocol
from urllib.parse import urlencode


class Address(NamedTuple):
    """What a page is asked for.

    Attributes:
        page: Its name, a key of `render.PAGES`.
        suite: Slug of the suite; empty where it is of none, or of the first.
        choices: Further choices by name, such as `protocol` or `estimator`; only those that are not the first.
    """

    page: str
    suite: str = ""
    choices: tuple[tuple[str, str], ...] = ()

    def chosen(self, name: str) -> str:
        """Return what is chosen under a name; empty where nothing is."""
        return dict(self.choices).get(name, "")


def address(page: str, suite: str = "", **choices: str) -> Address:
    """Return an address; empty choices are left out."""
    return Address(page, suite, tuple(sorted((name, value) for name, value in choices.items() if value)))


class Links(Protocol):
    """What templates link through."""

    live: bool  # whether a running program answers: any level, any pair

    def to(self, page: str, suite: str = "", **choices: str) -> str:
        """Return the address of a page; empty where there is no such page."""
        ...

    def file(self, name: str, content: bytes) -> str:
        """Keep a file that the page shows or offers; return its address."""
        ...


class StaticLinks:
    """Links between the files of an exported site.

    Attributes:
        files: By name, all that pages show or offer.
    """

    live = False

    def __init__(self, known: Sequence[Address]) -> None:
        """Take the pages of the site, of which the first one is its index."""
        self.files: dict[str, bytes] = {}
        self._names = {each: file_name(each) for each in known}
        self._names.update(dict.fromkeys(known[:1], "index.html"))

    def to(self, page: str, suite: str = "", **choices: str) -> str:
        """Return the name of a page's file; empty where the site has no such page."""
        return self._names.get(address(page, suite, **choices), "")

    def file(self, name: str, content: bytes) -> str:
        """Keep a file once; return its name."""
        self.files[name] = content
        return name


class AppLinks:
    """Links within the app.

    Attributes:
        offered: By name, the files that the page offers, for buttons.
    """

    live = True

    def __init__(self) -> None:
        self.offered: dict[str, bytes] = {}

    def to(self, page: str, suite: str = "", **choices: str) -> str:
        """Return the query that the app answers with a page."""
        found = address(page, suite, **choices)
        return "?" + urlencode([("page", page), *([("suite", suite)] if suite else []), *found.choices])

    def file(self, name: str, content: bytes) -> str:
        """Return a picture within its address; any other file waits for a button."""
        kind = guess_type(name)[0] or "application/octet-stream"
        if kind.startswith("image/"):
            return data_uri(content, kind)
        self.offered[name] = content
        return ""


def data_uri(content: bytes, kind: str) -> str:
    """Return a file within an address."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def file_name(of: Address) -> str:
    """Return a file name of harmless letters, whatever the address is made of; different for different addresses."""
    parts = [of.page, of.suite, *(value for _, value in of.choices)]
    plain = "-".join(filter(None, parts))
    harmless = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in plain)[:60]
    mark = "" if harmless == plain else f"-{sha256(repr(of).encode()).hexdigest()[:8]}"
    return f"{harmless}{mark}.html"


def from_query(query: Mapping[str, str]) -> Address:
    """Return what the app is asked for by its address."""
    choices = {name: value for name, value in query.items() if name not in ("page", "suite")}
    return address(query.get("page", "board"), query.get("suite", ""), **choices)

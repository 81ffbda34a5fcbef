"""Words of the pages, and text from outside made plain."""

import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata

from roarbench.protocols.declaration import Protocol
from roarbench.text import one_line

ADVICE = "Results come with roarbench run --suite quick-matched --store STORE; open the board on the same store."


def _repository() -> str:
    """Return the public address of the source, as the installed package says it; empty where it says none."""
    with suppress(PackageNotFoundError):
        for url in metadata("roarbench").get_all("Project-URL") or []:
            name, _, address = url.partition(", ")
            if name == "Repository":
                return str(address.rstrip("/"))
    return ""


REPOSITORY = _repository()


def plain(text: str, longest: int = 300) -> str:
    """Return text from outside as one printable line, cut where it is too long."""
    return one_line(text, longest)


def capital(words: str) -> str:
    """Return words with a capital at their beginning; the others stay as they are."""
    return words[:1].upper() + words[1:]


def typeset(text: str) -> str:
    """Return a text with real minus signs, and a narrow space before percent signs."""
    return re.sub(r"(?<!\w)-(?=\d)", "−", text.replace("%", "\N{NARROW NO-BREAK SPACE}%"))


def lede(protocol: Protocol) -> str:
    """Return what one dot of a board shows, as HTML of ours."""
    return re.sub(r"\*(.+?)\*", r"<b>\1</b>", protocol.dot.replace("'", "’"))

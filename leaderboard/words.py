"""Hold the words of the pages: questions that protocols ask, and where to read on."""

import re
from importlib.metadata import PackageNotFoundError, metadata

from roarbench.protocols import SHOWN


def _repository() -> str:
    """Return the public address of the source, as the installed package says it; empty where it says none."""
    try:
        urls = metadata("roarbench").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    named = (url.split(", ", 1) for url in urls)
    return next((address.rstrip("/") for name, address in named if name == "Repository"), "")


REPOSITORY = _repository()
ADVICE = "Results come with roarbench run --suite quick-matched --store STORE; open the board on the same store."


def question(protocol: str) -> str:
    """Return the question that a protocol asks, for its tab."""
    return SHOWN[protocol].tab


def lede(protocol: str) -> str:
    """Return what one dot of a board shows, as HTML of ours."""
    return re.sub(r"\*(.+?)\*", r"<b>\1</b>", SHOWN[protocol].dot.replace("'", "’"))

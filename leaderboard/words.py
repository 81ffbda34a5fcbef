"""Hold the words of the pages: questions that protocols ask, and where to read on."""

import re

from roarbench.protocols import SHOWN

REPOSITORY = "https://github.com/roarbench/roarbench"
ADVICE = "Results come with roarbench run --suite quick-matched --store STORE; open the board on the same store."


def question(protocol: str) -> str:
    """Return the question that a protocol asks, for its tab."""
    return SHOWN[protocol].tab


def lede(protocol: str) -> str:
    """Return what one dot of a board shows, as HTML of ours."""
    return re.sub(r"\*(.+?)\*", r"<b>\1</b>", SHOWN[protocol].dot.replace("'", "’"))

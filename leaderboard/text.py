"""Make text from outside plain."""

from roarbench.text import one_line, printable

LONGEST = 300  # characters of a text from outside that a page shows


def plain(text: str, longest: int = LONGEST) -> str:
    """Return text from outside as one printable line, cut where it is too long."""
    return one_line(text, longest)


def capital(words: str) -> str:
    """Return words with a capital at their beginning; the others stay as they are."""
    return words[:1].upper() + words[1:]


def plain_lines(text: str) -> str:
    """Return a file from outside as lines of plain text: what could move or hide letters becomes a space."""
    return "\n".join(printable(line) for line in text.expandtabs(4).splitlines())

"""Parts of a page that programs write: what stands between two marks, each on a line of its own."""


def filled(page: str, begin: str, end: str, text: str) -> str:
    """Return a page with this text between two marks, in place of what stood there.

    Raises:
        ValueError: The page lacks one of the marks.
    """
    before, rest = page.split(begin, 1)
    _, after = rest.split(end, 1)
    return f"{before}{begin}\n{text}\n{end}{after}"


def between(page: str, begin: str, end: str) -> str:
    """Return what stands between two marks of a page, without the line breaks around it."""
    return page.partition(begin)[2].partition(end)[0].strip("\n")

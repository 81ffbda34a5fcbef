"""What the studies share: tables between two marks of a page, and the words of verdicts."""

from collections.abc import Mapping
from pathlib import Path

from roarbench.stats.verdicts import Verdict

SIGNS = {Verdict.BETTER: "better", Verdict.WORSE: "worse", Verdict.SAME: "≈"}


def filled(page: str, name: str, table: str) -> str:
    """Return a page with this table between the marks of its name, in place of what stood there.

    Raises:
        ValueError: The page lacks one of the marks.
    """
    begin, end = _marks(name)
    return f"{page[: page.index(begin)]}{begin}\n{table}\n{page[page.index(end) :]}"


def between(page: str, name: str) -> str:
    """Return what stands between the marks of a name, without the line breaks around it.

    Raises:
        ValueError: The page lacks one of the marks.
    """
    begin, end = _marks(name)
    return page[page.index(begin) + len(begin) : page.index(end)].strip("\n")


def write(page: Path, tables: Mapping[str, str]) -> None:
    """Put tables into a page, each between the marks of its name."""
    text = page.read_text("utf-8")
    for name, table in tables.items():
        text = filled(text, name, table)
    page.write_text(text, "utf-8")


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->", f"<!-- end of {name} -->"

"""What the studies share: their programs, tables between two marks of a page, and the words of verdicts."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from roarbench.stats.verdicts import Verdict
from roarbench.store.results import ResultsStore, default_url

SIGNS = {Verdict.BETTER: "better", Verdict.WORSE: "worse", Verdict.SAME: "≈"}


def program(doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of a program whose help is its docstring as it stands."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def write_recorded(doc: str | None, page: Path, tables: Callable[[], Mapping[str, str]]) -> None:
    """Be the program that writes the tables of shipped results into a page."""
    program(doc).parse_args()
    write(page, tables())


def write_stored(doc: str | None, page: Path, tables: Callable[[ResultsStore], Mapping[str, str]]) -> None:
    """Be the program that writes the tables of a store's results into a page."""
    parser = program(doc)
    parser.add_argument("--store", type=Path, required=True, help="a folder with the rows")
    with ResultsStore.open(default_url(parser.parse_args().store), read_only=True) as store:
        write(page, tables(store))


def filled(page: str, name: str, table: str) -> str:
    """Return a page with this table between the marks of its name, in place of what stood there.

    Raises:
        ValueError: The page lacks one of the marks.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    return f"{page[: page.index(begin)]}{begin}\n{table}\n{page[page.index(end) :]}"


def write(page: Path, tables: Mapping[str, str]) -> None:
    """Put tables into a page, each between the marks of its name."""
    text = page.read_text("utf-8")
    for name, table in tables.items():
        text = filled(text, name, table)
    page.write_text(text, "utf-8")

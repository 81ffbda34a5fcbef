"""Parse the studies' options, format verdicts, and write tables into the studies' pages."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from roarbench.common.text import SAME, format_interval
from roarbench.stats.board_agreement import Agreement
from roarbench.stats.verdicts import Comparison, Verdict


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Make a parser whose help text is the program's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def format_verdict(comparison: Comparison | None) -> str:
    """Format a verdict for a table; empty if there is none."""
    return "" if comparison is None else SAME if comparison.verdict is Verdict.SAME else comparison.verdict


def format_agreement(agreement: Agreement) -> tuple[str, str]:
    """Format Kendall's tau of two orders with its interval, and the number of settled pairs."""
    tau = format_interval(agreement.tau, "{:+.2f}".format)
    return tau, f"{agreement.settled}, {agreement.opposed} opposed"


def write_tables(page: Path, tables: Mapping[str, str]) -> None:
    """Write each table into a page, between the marks `<!-- NAME -->` and `<!-- end of NAME -->`.

    Raises:
        ValueError: The page lacks a mark.
    """
    text = page.read_text("utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        text = f"{text[: text.index(begin)]}{begin}\n{table}\n{text[text.index(end) :]}"
    page.write_text(text, "utf-8")

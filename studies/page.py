"""Parse the studies' options, open stores, format rows, and write tables into the studies' pages."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.text import SAME, format_interval
from roarbench.plan.protocols import Protocol
from roarbench.stats.board_agreement import Agreement
from roarbench.stats.board_records import Board, Row
from roarbench.stats.verdicts import Comparison, Verdict
from roarbench.store.results import ResultsStore, make_default_url

Tables = Mapping[str, str]  # Markdown tables by name; a page has the marks `<!-- NAME -->` and `<!-- end of NAME -->`


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Make a parser whose help text is the program's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def write_shipped_tables(doc: str | None, page: Path, tables: Callable[[], Tables]) -> None:
    """Run a program without options that writes tables of the repository's results into a page."""
    make_parser(doc).parse_args()
    write_tables(page, tables())


def write_store_tables(doc: str | None, page: Path, tables: Callable[[ResultsStore], Tables]) -> None:
    """Run a program with the option `--store` that writes tables of the store's results into a page."""
    parser = make_parser(doc)
    parser.add_argument("--store", type=Path, required=True, help="store with the results")
    with open_store(parser.parse_args().store) as store:
        write_tables(page, tables(store))


def open_store(folder: Path) -> ResultsStore:
    return ResultsStore.open(make_default_url(folder), read_only=True)


def make_board(results: SuiteResults, protocol: Protocol) -> Board:
    board = SuiteDraws(results, Unit.SCALAR).make_board(protocol, Unit.SCALAR)
    assert board is not None, "the suite has this protocol"
    return board


def sort_rows_by_gain(board: Board) -> dict[str, Row]:
    """Return the rows of a board by estimator, largest gain first."""
    return {row.estimator: row for row in sorted(board.rows, key=lambda row: -(row.gain.value or 0.0))}


def format_verdict(comparison: Comparison | None) -> str:
    """Format a verdict for a table; empty if there is none."""
    return "" if comparison is None else SAME if comparison.verdict is Verdict.SAME else comparison.verdict


def format_gain_and_verdict(row: Row) -> str:
    """Format a gain with its interval and the verdict against Random: `+3.6 [+2.1, +5.1] better`."""
    return f"{format_interval(row.gain)} {format_verdict(row.vs_random)}".strip()


def format_agreement(agreement: Agreement) -> tuple[str, str]:
    """Format Kendall's tau of two orders with its interval, and the number of settled pairs."""
    tau = format_interval(agreement.tau, "{:+.2f}".format)
    return tau, f"{agreement.settled}, {agreement.opposed} opposed"


def fill_table(page: str, name: str, table: str) -> str:
    """Replace the text between the marks of a table's name by the table; raise ValueError if a mark is missing."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    return f"{page[: page.index(begin)]}{begin}\n{table}\n{page[page.index(end) :]}"


def write_tables(page: Path, tables: Tables) -> None:
    """Write each table into a page, between the marks of its name."""
    text = page.read_text("utf-8")
    for name, table in tables.items():
        text = fill_table(text, name, table)
    page.write_text(text, "utf-8")

"""What the studies share: their programs, what they read from stores, and tables between two marks of a page."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from roarbench.analysis.results_by_images_and_weights import collect_results
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.text import SAME, format_interval
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import SuiteSpec
from roarbench.stats.board import Board, Row
from roarbench.stats.verdicts import Comparison, Verdict
from roarbench.store.results import ResultsStore, make_default_url

Tables = Mapping[str, str]  # by the name of their marks


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of a program whose help is its docstring as it stands."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def write_shipped_tables(doc: str | None, page: Path, tables: Callable[[], Tables]) -> None:
    """Be the program that writes the tables of shipped results into a page."""
    make_parser(doc).parse_args()
    write_tables(page, tables())


def write_store_tables(doc: str | None, page: Path, tables: Callable[[ResultsStore], Tables]) -> None:
    """Be the program that writes the tables of a store's results into a page."""
    parser = make_parser(doc)
    parser.add_argument("--store", type=Path, required=True, help="a folder with the rows")
    with open_store(parser.parse_args().store) as store:
        write_tables(page, tables(store))


def open_store(folder: Path) -> ResultsStore:
    return ResultsStore.open(make_default_url(folder), read_only=True)


def collect_runs(suite: SuiteSpec, store: ResultsStore, most: int = 10) -> list[SuiteResults]:
    """Return what a store has of a suite and of its replications, of the first so many that are not empty."""
    held = (collect_results(replace(suite, replication=number), store) for number in range(most))
    return [each for each in held if each.results]


def make_board(results: SuiteResults, protocol: Protocol) -> Board:
    found = results.make_board(protocol, Unit.SCALAR)
    assert found is not None, "the suite has it"
    return found


def sort_rows_by_gain(judged: Board) -> dict[str, Row]:
    """Return the rows of a board by estimator, the largest gain first."""
    return {row.estimator: row for row in sorted(judged.rows, key=lambda row: -(row.gain.value or 0.0))}


def format_verdict(comparison: Comparison | None) -> str:
    """Return a verdict as tables have it; empty where there is none."""
    return "" if comparison is None else SAME if comparison.verdict is Verdict.SAME else comparison.verdict


def format_gain_and_verdict(row: Row) -> str:
    """Return a gain with its interval and the verdict against Random: `+3.6 [+2.1, +5.1] better`."""
    return f"{format_interval(row.gain)} {format_verdict(row.vs_random)}".strip()


def fill_table(page: str, name: str, table: str) -> str:
    """Return a page with this table between the marks of its name, in place of what stood there.

    Raises:
        ValueError: The page lacks one of the marks.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    return f"{page[: page.index(begin)]}{begin}\n{table}\n{page[page.index(end) :]}"


def write_tables(page: Path, tables: Tables) -> None:
    """Put tables into a page, each between the marks of its name."""
    text = page.read_text("utf-8")
    for name, table in tables.items():
        text = fill_table(text, name, table)
    page.write_text(text, "utf-8")

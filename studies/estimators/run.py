"""What does each estimator gain on photographs? Writes two tables of docs/estimators.md.

Run: roarbench import studies/estimators/results.parquet --store DIR; python -m studies.estimators.run --store DIR
(the rows: `roarbench run` and `roarbench replicate` of examples/all-estimators.toml).
"""

from dataclasses import replace
from pathlib import Path

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.collecting import collect
from roarbench.estimators.catalogue import shown_name
from roarbench.plan.suite_file import read_suite
from roarbench.protocols.specific import SPECIFIC
from roarbench.stats.board import Row
from roarbench.stats.verdicts import Comparison
from roarbench.store.results import ResultsStore
from roarbench.terms import Unit
from roarbench.text import interval, markdown_table
from studies.estimators.costs import PAGE
from studies.page import SIGNS, write_stored
from studies.replication.run import boards
from studies.replication.run import table as table_of_runs

SUITE = Path(__file__).parents[2] / "examples" / "all-estimators.toml"


def tables(store: ResultsStore) -> dict[str, str]:
    """Return the gains of the suite, and those of it and its first replication."""
    runs = [collect(replace(read_suite(SUITE), replication=number), store) for number in range(2)]
    return {"gains": table(runs[0]), "replication": again(runs)}


def again(runs: list[SuiteResults]) -> str:
    """Return the gains of rows that both runs have, as Markdown, the largest of the first run first."""
    return table_of_runs(boards(runs, SPECIFIC))


def table(results: SuiteResults) -> str:
    """Return all rows as Markdown, the largest gain first."""
    board = results.board(SPECIFIC, Unit.SCALAR)
    rows = sorted(board.rows if board else (), key=lambda row: -(row.gain.value or 0.0))
    lines = [_line(row) for row in rows if row.gain.value is not None]
    heads = ("estimator", "specific gain [95 %]", "against Random", "against Sobel")
    return markdown_table(heads, lines)


def _line(row: Row) -> list[str]:
    return [f"`{shown_name(row.estimator)}`", interval(row.gain), _verdict(row.random), _verdict(row.sobel)]


def _verdict(comparison: Comparison | None) -> str:
    return SIGNS[comparison.verdict] if comparison else ""


if __name__ == "__main__":
    write_stored(__doc__, PAGE, tables)

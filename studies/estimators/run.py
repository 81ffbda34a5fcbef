"""What does each estimator gain on photographs? Writes two tables of README.md.

Run: roarbench import studies/estimators/results.parquet --store DIR; python -m studies.estimators.run --store DIR
(the rows: `roarbench run` and `roarbench replicate` of examples/all-estimators.toml).
"""

from pathlib import Path

from roarbench.estimators.catalogue import format_name
from roarbench.plan.suite_file import read_suite
from roarbench.protocols.specific import SPECIFIC
from roarbench.stats.board import Board
from roarbench.store.results import ResultsStore
from roarbench.text import interval, markdown_table
from studies.page import board, by_gain, runs, verdict, write_stored
from studies.replication.run import table as table_of_runs

SUITE = Path(__file__).parents[2] / "examples" / "all-estimators.toml"
PAGE = Path(__file__).with_name("README.md")


def tables(store: ResultsStore) -> dict[str, str]:
    """Return the gains of the suite, and those of rows that its first replication has, too."""
    boards = [board(run, SPECIFIC) for run in runs(read_suite(SUITE), store, 2)]
    return {"gains": table(boards[0]), "replication": table_of_runs(boards)}


def table(judged: Board) -> str:
    """Return all rows as Markdown, the largest gain first."""
    lines = (
        [f"`{format_name(name)}`", interval(row.gain), verdict(row.random), verdict(row.sobel)]
        for name, row in by_gain(judged).items()
        if row.gain.value is not None
    )
    return markdown_table(("estimator", "specific gain [95 %]", "against Random", "against Sobel"), lines)


if __name__ == "__main__":
    write_stored(__doc__, PAGE, tables)

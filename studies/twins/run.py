"""What do training, the class and the network put into a map? Writes the table of the page.

Run: python -m studies.twins.run --store DIR, where `roarbench run --suite studies/twins/twins.toml` has run.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from roarbench.analysis.collecting import collect
from roarbench.plan.suite_file import read_suite
from roarbench.protocols.matched import MATCHED
from roarbench.stats.board import Board
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Unit
from roarbench.text import interval, markdown_table
from studies.page import write

HERE = Path(__file__).parent


def main() -> None:
    """Write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    with ResultsStore.open(default_url(parser.parse_args().store), read_only=True) as store:
        board = collect(read_suite(HERE / "twins.toml"), store).board(MATCHED, Unit.SCALAR)
    if board is None:
        raise SystemExit("no results of the suite in this store")
    write(
        HERE / "README.md",
        {"matched": markdown_table(("twin", "its gain [95 %]", "row minus twin"), list(over(board)))},
    )


def over(board: Board) -> Iterator[list[str]]:
    """Yield each twin with its gain, and what its row has over it."""
    rows = {row.estimator: row for row in board.rows}
    for row in board.rows:
        for kind, difference in row.over_twins.items():
            twin = f"{row.estimator}~{kind}"
            yield [f"`{twin}`", interval(rows[twin].gain), interval(difference)]


if __name__ == "__main__":
    main()

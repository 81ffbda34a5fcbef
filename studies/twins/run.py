"""What do training, the class and the network put into a map? Writes the tables of the page.

Run: python -m studies.twins.run --store DIR, where suites of this folder have run; other tables stay.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from roarbench.analysis.collecting import collect
from roarbench.plan.suite_file import read_suite
from roarbench.stats.board import Board, Row
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Unit
from roarbench.text import interval, markdown_table
from studies.page import write

HERE = Path(__file__).parent


def main() -> None:
    """Write the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    tables = {}
    with ResultsStore.open(default_url(parser.parse_args().store), read_only=True) as store:
        for file in HERE.glob("*.toml"):
            results = collect(read_suite(file), store)
            if results.complete and (board := results.board(results.leading, Unit.SCALAR)):
                tables[file.stem] = over(board)
    write(HERE / "README.md", tables)


def over(board: Board) -> str:
    """Return each row that has twins with its gain, and what it has over each of them."""
    rows = [row for row in board.rows if row.over_twins]
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.over_twins))
    return markdown_table(("row", "gain [95 %]", *(f"over {kind}" for kind in kinds)), list(_lines(rows, kinds)))


def _lines(rows: Sequence[Row], kinds: Sequence[str]) -> Iterator[list[str]]:
    for row in rows:
        yield [f"`{row.estimator}`", interval(row.gain), *(interval(row.over_twins[kind]) for kind in kinds)]


if __name__ == "__main__":
    main()

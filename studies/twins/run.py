"""What do training, the class and the network put into a map? Writes the tables of the page.

Run: python -m studies.twins.run --store DIR, where suites of this folder have run; other tables stay.
"""

from pathlib import Path

from roarbench.analysis.stored_results import collect_results
from roarbench.plan.suite_file import read_suite
from roarbench.stats.board import Board
from roarbench.store.results import ResultsStore
from roarbench.text import format_interval, format_markdown_table
from studies.page import board, write_stored

HERE = Path(__file__).parent


def tables(store: ResultsStore) -> dict[str, str]:
    """Return the tables of the suites that are complete, by the name of their file."""
    found = {}
    for file in HERE.glob("*.toml"):
        results = collect_results(read_suite(file), store)
        if results.complete:
            found[file.stem] = over(board(results, results.suite.blocks[0].protocol))
    return found


def over(judged: Board) -> str:
    """Return each row that has twins with its gain, and what it has over each of them."""
    rows = [row for row in judged.rows if row.delta_twins]
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.delta_twins))
    lines = (
        [f"`{row.estimator}`", format_interval(row.gain), *(format_interval(row.delta_twins[kind]) for kind in kinds)]
        for row in rows
    )
    return format_markdown_table(("row", "gain [95 %]", *(f"Δ {kind}" for kind in kinds)), lines)


if __name__ == "__main__":
    write_stored(__doc__, HERE / "README.md", tables)

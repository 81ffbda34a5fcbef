"""What do training, the class and the network put into a map? Writes the tables of the page.

Run: python -m studies.twins.run --store DIR, where suites of this folder have run; other tables stay.
"""

from pathlib import Path

from roarbench.analysis.stored_results import collect
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.suite_file import read_suite
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.specific import SPECIFIC
from roarbench.stats.board import Board
from roarbench.store.results import ResultsStore
from roarbench.text import format_interval, format_markdown_table, format_signed
from studies.page import board, write_stored

HERE = Path(__file__).parent
DECOY = "decoy"


def tables(store: ResultsStore) -> dict[str, str]:
    """Return the tables of the suites that are complete, by the name of their file."""
    found = {}
    for file in HERE.glob("*.toml"):
        results = collect(read_suite(file), store)
        if results.complete:
            asked = dict.fromkeys(block.protocol for block in results.suite.blocks)
            boards = [board(results, protocol) for protocol in asked]
            found[file.stem] = squares(*boards) if asked.keys() == {SPECIFIC, AUGMENTED} else over(boards[0])
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


def squares(specific: Board, augmented: Board) -> str:
    """Return augmented gains with the image's own and another image's masks, of the trained network and of a decoy."""
    knows, own = ({row.estimator: row.gain for row in judged.rows} for judged in (specific, augmented))

    def other(name: str) -> float:
        whole, part = own[name].value, knows[name].value
        assert whole is not None and part is not None, "the suite is complete"
        return whole - part

    lines = []
    for row in augmented.rows:
        if DECOY in row.delta_twins:
            line = [f"`{row.estimator}`"]
            for name in (row.estimator, make_twin_id(row.estimator, DECOY)):
                line += [format_interval(own[name]), format_signed(other(name))]
            lines.append([*line, format_interval(row.delta_twins[DECOY])])
    masks = ("trained: own masks", "another image's", "decoy: own masks", "another image's")
    return format_markdown_table(("row", *masks, "trained over decoy"), lines)


if __name__ == "__main__":
    write_stored(__doc__, HERE / "README.md", tables)

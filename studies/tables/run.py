"""What do 20 references tell on a table of numbers, and what would fewer?

Run: roarbench import studies/tables/results.parquet --store DIR; python -m studies.tables.run --store DIR
"""

from pathlib import Path

from roarbench.analysis.stored_results import collect
from roarbench.plan.points import select
from roarbench.plan.suites import find_suite
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.protocol import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.protocols.unretrained import MORF
from roarbench.stats.board import Board
from roarbench.stats.verdicts import Verdict
from roarbench.store.results import ResultsStore
from roarbench.text import MISSING, format_markdown_table, format_percent
from studies.page import board, by_gain, judged_gain, write_stored

REFERENCES = {"breast-cancer": 20, "breast-cancer-10": 5, "digits": 5}  # that were run
ASKED = (MATCHED, SPECIFIC, ROAR, MORF)
COUNTS = (3, 5, 10, 20)
_LAST = 0.9  # the level at which answers are shown


def judged(store: ResultsStore, suite: str, protocol: Protocol, count: int) -> Board:
    """Return the board of the first so many references and seeds of a suite."""
    return board(collect(select(find_suite(suite), seeds=count, protocol=protocol), store), protocol)


def power(store: ResultsStore) -> str:
    """Return what is settled by how many references: rows beside Random, and the minimum detectable difference."""
    lines = []
    for suite, most in REFERENCES.items():
        for protocol in (MATCHED, SPECIFIC, ROAR):
            said = [_settled(judged(store, suite, protocol, count)) if count <= most else MISSING for count in COUNTS]
            if set(said) != {MISSING}:  # what was not run
                lines.append([f"`{suite}`", f"`{protocol.name}`", *said])
    return format_markdown_table(["table", "protocol", *(f"{count} references" for count in COUNTS)], lines)


def _settled(found: Board) -> str:
    """Return the minimum detectable difference with the numbers of rows better and worse than Random."""
    if found.detectable is None:
        return MISSING
    said = [row.random.verdict for row in found.rows if row.random]
    return f"{found.detectable:.1f} ({said.count(Verdict.BETTER)} better, {said.count(Verdict.WORSE)} worse)"


def gains(store: ResultsStore) -> str:
    """Return the gains of all rows with all references, the best by the first protocol first.

    Beside them the percentage that networks answer correctly at the last level, on images and on masks alone.
    """
    lines = []
    for suite, most in REFERENCES.items():
        boards = [by_gain(judged(store, suite, protocol, most)) for protocol in ASKED]
        answers = [_answered(judged(store, suite, protocol, most)) for protocol in (ROAR, MASK_ONLY)]
        for name in boards[0]:
            said = (judged_gain(each[name]) if name in each else MISSING for each in boards)
            lines.append([f"`{suite}`", f"`{name}`", *said, *(each.get(name, MISSING) for each in answers)])
    asked = (f"`{protocol.name}`" for protocol in ASKED)
    return format_markdown_table(["table", "row", *asked, "images", "masks alone"], lines)


def _answered(found: Board) -> dict[str, str]:
    return {row.estimator: format_percent(found.curve(row)[_LAST].value) for row in found.rows if row.accuracies}


def tables(store: ResultsStore) -> dict[str, str]:
    """Return both tables of the page."""
    return {"power": power(store), "gains": gains(store)}


if __name__ == "__main__":
    write_stored(__doc__, Path(__file__).with_name("README.md"), tables)

"""The replications of `quick` in a store, side by side: the table of the README.

    python scripts/replication_table.py STORE

Prints for each leading protocol the gain of every row in the first run and in each replication, with its verdict
against Random, and what all pairs of runs add up to.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from roarbench.analysis.boards import collect
from roarbench.plan.suites import find_suite, leading
from roarbench.stats.board import Board, Row
from roarbench.stats.replication import replication
from roarbench.stats.verdicts import Verdict
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Protocol, Unit
from roarbench.text import MISSING, markdown_table, signed

MOST = 10  # replications that are looked for
SIGNS = {Verdict.BETTER: "better", Verdict.WORSE: "worse", Verdict.SAME: "≈"}


def boards(store: Path, protocol: Protocol) -> list[Board]:
    """Return the boards of `quick` under a protocol: that of the suite, then those of its replications."""
    suite = find_suite("quick")
    with ResultsStore.open(default_url(store), read_only=True) as results:
        held = [collect(replace(suite, replication=number), results) for number in range(MOST)]
    found = [board for each in held if each.results and (board := each.board(protocol, Unit.SCALAR))]
    return [board for board in found if any(row.random for row in board.rows)]


def common(made: Sequence[Board]) -> list[str]:
    """Return the rows that have a verdict against Random in every run, best of the first run first."""
    first = sorted(made[0].rows, key=lambda row: -(row.gain.value or 0.0))
    return [row.estimator for row in first if all(_row(board, row.estimator).random for board in made)]


def _row(board: Board, name: str) -> Row:
    return next(row for row in board.rows if row.estimator == name)


def table(made: Sequence[Board]) -> str:
    """Return gains and verdicts against Random, a column for each run."""
    rows = [[name, *(_cell(_row(board, name)) for board in made)] for name in common(made)]
    return markdown_table(("estimator", "first run", *(f"replication {n}" for n in range(1, len(made)))), rows)


def _cell(row: Row) -> str:
    gain = MISSING if row.gain.value is None else signed(row.gain.value)
    return f"{gain} {SIGNS[row.random.verdict] if row.random else MISSING}"


def sums(made: Sequence[Board]) -> str:
    """Return in a sentence what all pairs of runs add up to."""
    pairs = [replication(one, other) for one, other in combinations(made, 2)]
    if not pairs:
        raise SystemExit("no finished replication of quick in this store; roarbench replicate makes one")
    verdicts, equal, opposed, gains, inside = (
        sum(getattr(pair, name) for pair in pairs) for name in ("verdicts", "equal", "opposed", "gains", "inside")
    )
    words = [said for pair in pairs for row in pair.rows for said in row.verdicts if said.control == "random"]
    same = sum(said.one is said.other for said in words)
    return (
        f"{len(pairs)} pairs of runs: {same} of {len(words)} verdicts against Random are the same, "
        f"{equal} of {verdicts} against all controls, {opposed} opposed; "
        f"{inside} of {gains} gains lie in the other run's 95 % prediction interval ({100 * inside / gains:.0f} %)."
    )


def page(store: Path) -> Iterator[str]:
    """Yield the lines of the README's section, a table and a sentence for each protocol."""
    for protocol in leading(find_suite("quick")):
        made = boards(store, protocol)
        yield from (f"`{protocol.name}`:", "", *table(made).splitlines(), "", sums(made), "")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    print("\n".join(page(parser.parse_args().store)).rstrip())


if __name__ == "__main__":
    main()

"""Compare the gains of all replications of `quick` in a store, and count how often one run predicts another.

Run: roarbench import studies/replication/quick-2.parquet --store DIR; python -m studies.replication.run --store DIR
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.collect_results import add_stored_estimators, collect_results
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.text import format_interval, format_markdown_table
from roarbench.plan.protocols import ROAR, Protocol
from roarbench.plan.read_suite_file import read_suite
from roarbench.plan.suite import SuiteSpec
from roarbench.stats.board_agreement import Replication, compare_boards
from roarbench.stats.board_records import Board, Row
from roarbench.stats.bootstrap_intervals import Estimate
from roarbench.store.results import ResultsStore
from studies.page import format_verdict, sort_rows_by_gain, write_store_tables

SUITE = read_suite(Path(__file__).with_name("quick-2.toml"))


def collect_replications(suite: SuiteSpec, store: ResultsStore) -> list[SuiteResults]:
    """Collect the results of a suite (number 0) and of its first nine replications, including submissions."""
    extended = add_stored_estimators(suite, store)
    replications = (collect_results(replace(extended, replication=number), store) for number in range(10))
    return [results for results in replications if results.results]


def make_boards(runs: Sequence[SuiteResults], protocol: Protocol) -> list[Board]:
    boards = [board for run in runs if (board := SuiteDraws(run, Unit.SCALAR).make_board(protocol, Unit.SCALAR))]
    return [board for board in boards if any(row.vs_random for row in board.rows)]


def collect_common_rows(boards: Sequence[Board]) -> dict[str, list[Row]]:
    """Collect the rows that have a verdict against Random on every board, by the first board's gains."""
    rows = [sort_rows_by_gain(board) for board in boards]
    return {name: [run[name] for run in rows] for name in rows[0] if all(run[name].vs_random for run in rows)}


def make_gains_table(boards: Sequence[Board], names: Sequence[str] = ()) -> str:
    """Make a table of gains and verdicts against Random, one column per board; `names` are those after the first."""
    later = names or [f"replication {n}" for n in range(1, len(boards))]
    lines = ([name, *map(_format_cell, rows)] for name, rows in collect_common_rows(boards).items())
    return format_markdown_table(("estimator", "first run", *later), lines)


def _format_cell(row: Row) -> str:
    return f"{format_interval(Estimate(row.gain.value))} {format_verdict(row.vs_random)}"


def describe_all_pairs(boards: Sequence[Board]) -> str:
    pairs = [compare_boards(first, second) for first, second in combinations(boards, 2)]
    if not pairs:
        raise SystemExit("no finished replication of quick in this store; roarbench replicate makes one")
    return describe_pairs(pairs)


def describe_pairs(pairs: Sequence[Replication]) -> str:
    """Describe in a sentence how often the runs of these pairs agree."""
    verdicts, equal, opposed, gains, inside = (
        sum(getattr(pair, name) for pair in pairs) for name in ("verdicts", "equal", "opposed", "gains", "inside")
    )
    over_random = [
        verdict for pair in pairs for row in pair.rows for verdict in row.verdicts if verdict.control == "random"
    ]
    same = sum(verdict.one is verdict.other for verdict in over_random)
    return (
        f"{len(pairs)} pairs of runs: {same} of {len(over_random)} verdicts against Random are the same, "
        f"{equal} of {verdicts} against all controls, {opposed} opposed; "
        f"{inside} of {gains} gains lie in the other run's 95 % prediction interval ({100 * inside / gains:.0f} %)."
    )


def make_tables(store: ResultsStore) -> dict[str, str]:
    boards = make_boards(collect_replications(SUITE, store), ROAR)
    return {"roar": f"{make_gains_table(boards)}\n\n{describe_all_pairs(boards)}"}


if __name__ == "__main__":
    write_store_tables(__doc__, Path(__file__).with_name("README.md"), make_tables)

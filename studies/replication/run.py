"""Does `quick` come out the same again? The gains of every run of a store side by side, and how they predict another.

Run: roarbench import studies/replication/quick-2.parquet --store DIR; python -m studies.replication.run --store DIR
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from roarbench.analysis.results_by_images_and_weights import add_stored_estimators
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.text import format_interval, format_markdown_table
from roarbench.plan.protocols import ROAR, Protocol
from roarbench.plan.read_suite_file import read_suite
from roarbench.plan.suite import SuiteSpec
from roarbench.stats.board import Board, Row
from roarbench.stats.board_agreement import Replication, compare_boards
from roarbench.stats.bootstrap_intervals import Estimate
from roarbench.store.results import ResultsStore
from studies.page import collect_runs, format_verdict, sort_rows_by_gain, write_store_tables

SUITE = read_suite(Path(__file__).with_name("quick-2.toml"))


def collect_runs_with_submissions(suite: SuiteSpec, store: ResultsStore) -> list[SuiteResults]:
    """Return the runs of a suite that a store has, with what was submitted: its own, then its replications."""
    return collect_runs(add_stored_estimators(suite, store), store)


def make_boards(made: Sequence[SuiteResults], protocol: Protocol) -> list[Board]:
    """Return the boards of these runs under a protocol, of those that have verdicts under it."""
    found = [judged for each in made if (judged := each.make_board(protocol, Unit.SCALAR))]
    return [judged for judged in found if any(row.vs_random for row in judged.rows)]


def collect_common_rows(made: Sequence[Board]) -> dict[str, list[Row]]:
    """Return the rows that have a verdict against Random in every run, best of the first run first."""
    rows = [sort_rows_by_gain(judged) for judged in made]
    return {name: [run[name] for run in rows] for name in rows[0] if all(run[name].vs_random for run in rows)}


def make_gains_table(made: Sequence[Board], names: Sequence[str] = ()) -> str:
    """Return gains and verdicts against Random, a column for each run; the names are those of runs after the first."""
    later = names or [f"replication {n}" for n in range(1, len(made))]
    lines = ([name, *map(_format_cell, rows)] for name, rows in collect_common_rows(made).items())
    return format_markdown_table(("estimator", "first run", *later), lines)


def _format_cell(row: Row) -> str:
    return f"{format_interval(Estimate(row.gain.value))} {format_verdict(row.vs_random)}"


def describe_all_pairs(made: Sequence[Board]) -> str:
    pairs = [compare_boards(one, other) for one, other in combinations(made, 2)]
    if not pairs:
        raise SystemExit("no finished replication of quick in this store; roarbench replicate makes one")
    return describe_pairs(pairs)


def describe_pairs(pairs: Sequence[Replication]) -> str:
    """Return in a sentence what these pairs of runs add up to."""
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


def make_tables(store: ResultsStore) -> dict[str, str]:
    made = make_boards(collect_runs_with_submissions(SUITE, store), ROAR)
    return {"roar": f"{make_gains_table(made)}\n\n{describe_all_pairs(made)}"}


if __name__ == "__main__":
    write_store_tables(__doc__, Path(__file__).with_name("README.md"), make_tables)

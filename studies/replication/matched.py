"""Does `quick-matched` come out the same again, and on other test images? Writes two tables of a version.

What to type: README.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np

from roarbench.analysis.load_results import find_suite_spec
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.text import format_markdown_table
from roarbench.plan.protocols import MATCHED
from roarbench.stats.board import Board
from roarbench.stats.board_agreement import compare_boards
from roarbench.stats.compute_board import compute_board
from roarbench.stats.curves import Correctness
from studies.page import make_parser, open_store, write_tables
from studies.replication.run import (
    collect_common_rows,
    collect_runs_with_submissions,
    describe_all_pairs,
    describe_pairs,
    make_boards,
    make_gains_table,
)


def describe_equal_verdicts(pairs: Sequence[tuple[Board, Board]]) -> str:
    """Return in a sentence how often two boards give the same verdict that leads."""
    counts = [compare_boards(*pair).beats_all_compared_and_equal for pair in pairs]
    return f"Beats every control: {sum(same for _, same in counts)} of {sum(asked for asked, _ in counts)} the same."


def make_verdict_table(made: Sequence[Board], names: Sequence[str]) -> str:
    said = {name: [row.beating.text for row in rows if row.beating] for name, rows in collect_common_rows(made).items()}
    lines = ([f"`{name}`", *words] for name, words in said.items() if words)
    return format_markdown_table(("beats every control", *names), lines)


def select_half(scores: Correctness, second: bool) -> Correctness:
    """Return the answers to every other test image, as many in both halves."""
    kept = slice(int(second), scores.images // 2 * 2, 2)
    correct: Any = {point: np.ascontiguousarray(bits[:, kept]) for point, bits in scores.correct.items()}
    return replace(scores, correct=correct, differences=scores.differences and select_half(scores.differences, second))


def name_run(run: SuiteResults, machine: int) -> str:
    name = f"replication {run.suite.replication}" if run.suite.replication else "first run"
    return name if machine == 1 else f"{name}, machine {machine}"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--store", type=Path, action="append", required=True, help="once for each machine")
    parser.add_argument("--suite", default="quick-matched", help="a name or a file")
    arguments = parser.parse_args()
    found: list[tuple[str, SuiteResults]] = []
    for machine, folder in enumerate(arguments.store, 1):
        with open_store(folder) as store:
            found += [
                (name_run(run, machine), run)
                for run in collect_runs_with_submissions(find_suite_spec(arguments.suite, folder), store)
            ]
    names, runs = [name for name, _ in found], [run for _, run in found]
    suite = runs[0].suite
    version = suite.name.rpartition("-")[2] if suite.own else suite.version
    made = make_boards(runs, MATCHED)
    scores = [told for run in runs if (told := run.collect_correctness(MATCHED, Unit.SCALAR))]
    halves = [[compute_board(select_half(each, second), MATCHED) for second in (False, True)] for each in scores]
    apart = [(halves[one][0], halves[other][1]) for one, other in permutations(range(len(halves)), 2)]
    again = describe_equal_verdicts(list(combinations(made, 2)))
    parts = (make_gains_table(made, names[1:]), make_verdict_table(made, names), f"{describe_all_pairs(made)} {again}")
    halved = describe_pairs([compare_boards(*pair) for pair in apart])
    tables = {
        f"matched-{version}": "\n\n".join(parts),
        f"halves-{version}": f"{halved} {describe_equal_verdicts(apart)}",
    }
    write_tables(Path(__file__).with_name("README.md"), tables)


if __name__ == "__main__":
    main()

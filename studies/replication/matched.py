"""Compare replications of `quick-matched`, and halves of its test images, and write two tables of a version.

README.md has the commands.
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
from roarbench.stats.board_agreement import compare_boards
from roarbench.stats.board_records import Board
from roarbench.stats.compute_board import compute_board
from roarbench.stats.correctness_and_gain import Correctness
from studies.page import make_parser, open_store, write_tables
from studies.replication.run import (
    collect_common_rows,
    collect_replications,
    describe_all_pairs,
    describe_pairs,
    make_boards,
    make_gains_table,
)


def describe_equal_verdicts(pairs: Sequence[tuple[Board, Board]]) -> str:
    """Describe in a sentence how often two boards agree on whether a row beats every control."""
    counts = [compare_boards(*pair).beats_all_compared_and_equal for pair in pairs]
    same, compared = sum(equal for _, equal in counts), sum(rows for rows, _ in counts)
    return f"Beats every control: {same} of {compared} the same."


def make_verdict_table(boards: Sequence[Board], names: Sequence[str]) -> str:
    rows_by_name = collect_common_rows(boards).items()
    verdicts = {name: [row.beating.text for row in rows if row.beating] for name, rows in rows_by_name}
    lines = ([f"`{name}`", *texts] for name, texts in verdicts.items() if texts)
    return format_markdown_table(("beats every control", *names), lines)


def select_half(scores: Correctness, second: bool) -> Correctness:
    """Return the correctness on every other test image; both halves have the same number of images."""
    kept = slice(int(second), scores.images // 2 * 2, 2)
    correct: Any = {point: np.ascontiguousarray(bits[:, kept]) for point, bits in scores.correct.items()}
    return replace(scores, correct=correct, differences=scores.differences and select_half(scores.differences, second))


def name_run(run: SuiteResults, machine: int) -> str:
    name = f"replication {run.suite.replication}" if run.suite.replication else "first run"
    return name if machine == 1 else f"{name}, machine {machine}"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--store", type=Path, action="append", required=True, help="store; repeat for each machine")
    parser.add_argument("--suite", default="quick-matched", help="name or file of the suite")
    arguments = parser.parse_args()
    runs_by_name: list[tuple[str, SuiteResults]] = []
    for machine, folder in enumerate(arguments.store, 1):
        with open_store(folder) as store:
            suite = find_suite_spec(arguments.suite, folder)
            replications = collect_replications(suite, store)
            runs_by_name += [(name_run(run, machine), run) for run in replications]
    names, runs = [name for name, _ in runs_by_name], [run for _, run in runs_by_name]
    suite = runs[0].suite
    version = suite.name.rpartition("-")[2] if suite.own else suite.version
    boards = make_boards(runs, MATCHED)
    scores = [correctness for run in runs if (correctness := run.collect_correctness(MATCHED, Unit.SCALAR))]
    halves = [[compute_board(select_half(run, second), MATCHED) for second in (False, True)] for run in scores]
    pairs_of_halves = [(halves[one][0], halves[other][1]) for one, other in permutations(range(len(halves)), 2)]
    sentences = f"{describe_all_pairs(boards)} {describe_equal_verdicts(list(combinations(boards, 2)))}"
    parts = (make_gains_table(boards, names[1:]), make_verdict_table(boards, names), sentences)
    halved = describe_pairs([compare_boards(*pair) for pair in pairs_of_halves])
    tables = {
        f"matched-{version}": "\n\n".join(parts),
        f"halves-{version}": f"{halved} {describe_equal_verdicts(pairs_of_halves)}",
    }
    write_tables(Path(__file__).with_name("README.md"), tables)


if __name__ == "__main__":
    main()

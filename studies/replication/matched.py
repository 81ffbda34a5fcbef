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
from roarbench.enums import Unit
from roarbench.plan.protocols import MATCHED
from roarbench.stats.board import Board
from roarbench.stats.board_agreement import compare_boards
from roarbench.stats.compute_board import compute_board
from roarbench.stats.curves import Correctness
from roarbench.text import format_markdown_table
from studies.page import opened, program, write
from studies.replication.run import boards, common, held, sums, sums_of, table


def beats(pairs: Sequence[tuple[Board, Board]]) -> str:
    """Return in a sentence how often two boards give the same verdict that leads."""
    counts = [compare_boards(*pair).beats for pair in pairs]
    return f"Beats every control: {sum(same for _, same in counts)} of {sum(asked for asked, _ in counts)} the same."


def leading(made: Sequence[Board], names: Sequence[str]) -> str:
    """Return the verdict that leads of each row that asks a network, a column for each run."""
    said = {name: [row.beating.words for row in rows if row.beating] for name, rows in common(made).items()}
    lines = ([f"`{name}`", *words] for name, words in said.items() if words)
    return format_markdown_table(("beats every control", *names), lines)


def half(scores: Correctness, second: bool) -> Correctness:
    """Return the answers to every other test image, as many in both halves."""
    kept = slice(int(second), scores.images // 2 * 2, 2)
    correct: Any = {point: np.ascontiguousarray(bits[:, kept]) for point, bits in scores.correct.items()}
    return replace(scores, correct=correct, differences=scores.differences and half(scores.differences, second))


def called(run: SuiteResults, machine: int) -> str:
    """Return the head of a run's column."""
    name = f"replication {run.suite.replication}" if run.suite.replication else "first run"
    return name if machine == 1 else f"{name}, machine {machine}"


def main() -> None:
    """Write the tables into the page."""
    parser = program(__doc__)
    parser.add_argument("--store", type=Path, action="append", required=True, help="once for each machine")
    parser.add_argument("--suite", default="quick-matched", help="a name or a file")
    arguments = parser.parse_args()
    found: list[tuple[str, SuiteResults]] = []
    for machine, folder in enumerate(arguments.store, 1):
        with opened(folder) as store:
            found += [(called(run, machine), run) for run in held(find_suite_spec(arguments.suite, folder), store)]
    names, runs = [name for name, _ in found], [run for _, run in found]
    suite = runs[0].suite
    version = suite.name.rpartition("-")[2] if suite.own else suite.version
    made = boards(runs, MATCHED)
    scores = [told for run in runs if (told := run.collect_correctness(MATCHED, Unit.SCALAR))]
    halves = [[compute_board(half(each, second), MATCHED) for second in (False, True)] for each in scores]
    apart = [(halves[one][0], halves[other][1]) for one, other in permutations(range(len(halves)), 2)]
    again = beats(list(combinations(made, 2)))
    tables = {
        f"matched-{version}": f"{table(made, names[1:])}\n\n{leading(made, names)}\n\n{sums(made)} {again}",
        f"halves-{version}": f"{sums_of([compare_boards(*pair) for pair in apart])} {beats(apart)}",
    }
    write(Path(__file__).with_name("README.md"), tables)


if __name__ == "__main__":
    main()

"""Does `quick` come out the same again? The gains of every run of a store side by side, and how they predict another.

Run: roarbench import studies/replication/quick-2.parquet --store DIR; python -m studies.replication.run --store DIR
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.stored_results import add_stored_submissions
from roarbench.analysis.suite_results import SuiteResults
from roarbench.enums import Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_file import read_suite
from roarbench.plan.suites import find_leading_protocols
from roarbench.protocols.protocol import Protocol
from roarbench.stats.board import Board, Row
from roarbench.stats.board_agreement import Replication, compare_boards
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.compute_board import compute_board
from roarbench.stats.curves import Bits, Correctness, Point
from roarbench.store.results import ResultsStore
from roarbench.text import format_interval, format_markdown_table
from studies.page import by_gain, runs, verdict, write_stored

SUITE = read_suite(Path(__file__).with_name("quick-2.toml"))
Chosen = Callable[[Point, Sequence[str]], slice | NDArray[np.generic]]  # of a point and its references, if it has any


def held(suite: SuiteSpec, store: ResultsStore) -> list[SuiteResults]:
    """Return the runs of a suite that a store has, with what was submitted: its own, then its replications."""
    return runs(add_stored_submissions(suite, store), store)


def boards(made: Sequence[SuiteResults], protocol: Protocol) -> list[Board]:
    """Return the boards of these runs under a protocol, of those that have verdicts under it."""
    found = [judged for each in made if (judged := each.board(protocol, Unit.SCALAR))]
    return [judged for judged in found if any(row.random for row in judged.rows)]


def common(made: Sequence[Board]) -> dict[str, list[Row]]:
    """Return the rows that have a verdict against Random in every run, best of the first run first."""
    rows = [by_gain(judged) for judged in made]
    return {name: [run[name] for run in rows] for name in rows[0] if all(run[name].random for run in rows)}


def table(made: Sequence[Board], names: Sequence[str] = ()) -> str:
    """Return gains and verdicts against Random, a column for each run; the names are those of runs after the first."""
    later = names or [f"replication {n}" for n in range(1, len(made))]
    lines = ([name, *map(_cell, rows)] for name, rows in common(made).items())
    return format_markdown_table(("estimator", "first run", *later), lines)


def _cell(row: Row) -> str:
    return f"{format_interval(Estimate(row.gain.value))} {verdict(row.random)}"


def sums(made: Sequence[Board]) -> str:
    """Return in a sentence what all pairs of runs add up to."""
    pairs = [compare_boards(one, other) for one, other in combinations(made, 2)]
    if not pairs:
        raise SystemExit("no finished replication of quick in this store; roarbench replicate makes one")
    return sums_of(pairs)


def sums_of(pairs: Sequence[Replication]) -> str:
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


def tables(store: ResultsStore) -> dict[str, str]:
    """Return the tables of the README by name: a table and a sentence for each protocol, and one of all methods."""
    found = held(SUITE, store)
    made = {protocol.name: boards(found, protocol) for protocol in find_leading_protocols(SUITE)}
    return {name: f"{table(each)}\n\n{sums(each)}" for name, each in made.items()} | {"methods": methods(found)}


def some(scores: Correctness, chosen: Chosen) -> Correctness:
    """Return the answers of some of each point's networks, those at the places that are chosen."""
    correct: dict[Point, Bits] = {
        point: bits[chosen(point, scores.references.get(point, ()))] for point, bits in scores.correct.items()
    }
    names = {point: tuple(np.array(held)[chosen(point, held)].tolist()) for point, held in scores.references.items()}
    differences = scores.differences and some(scores.differences, chosen)
    return replace(scores, correct=correct, references=names, differences=differences)


def told_of_one(scores: Correctness) -> Correctness:
    """Return the same answers as if all rows explained one network: the luck of networks counts as trainings'."""
    differences = scores.differences and told_of_one(scores.differences)
    return replace(scores, references={}, differences=differences)


def explaining(scores: Correctness, network: str) -> Correctness:
    """Return the answers of a run that explained this one of its networks alone, beside all those of its controls."""
    part = some(scores, lambda _, names: np.array(names) == network if names else slice(None))
    return told_of_one(part)


def methods(found: Sequence[SuiteResults]) -> str:
    """Return how many gains lie in the other run's prediction interval, by this method and by those before it."""
    lines = []
    for protocol in find_leading_protocols(SUITE):
        has = [each for each in found if boards([each], protocol)]
        all_scores = [scores for each in has if (scores := each.scores(protocol, Unit.SCALAR))]
        ways = {
            "references crossed, as here": [[made] for made in boards(has, protocol)],
            "the same answers, told of one network": [
                [compute_board(told_of_one(each), protocol)] for each in all_scores
            ],
            "one network explained in each run": [
                [compute_board(explaining(each, name), protocol) for name in sorted(each.networks)]
                for each in all_scores
            ],
        }
        for way, made in ways.items():
            pairs = [compare_boards(*pair) for one, other in combinations(made, 2) for pair in product(one, other)]
            lines.append([f"`{protocol.name}`", way, str(len(pairs)), *_held(pairs), _verdicts(pairs)])
    inside = ("all rows inside", "explained rows inside")
    return format_markdown_table(("protocol", "intervals", "pairs", *inside, "verdicts the same / opposed"), lines)


def _held(pairs: Sequence[Replication]) -> Iterator[str]:
    """Yield how many gains lie inside, of all rows and of those that explain a network."""
    rows = [row for pair in pairs for row in pair.rows]
    for chosen in (rows, [row for row in rows if not find_estimator(row.estimator).control]):
        inside = [one for row in chosen for one in (row.inside, row.inside_again) if one is not None]
        yield f"{sum(inside)} of {len(inside)} ({100 * sum(inside) / len(inside):.0f} %)"


def _verdicts(pairs: Sequence[Replication]) -> str:
    verdicts, equal, opposed = (sum(getattr(pair, name) for pair in pairs) for name in ("verdicts", "equal", "opposed"))
    return f"{equal} of {verdicts} ({100 * equal / verdicts:.0f} %) / {opposed}"


if __name__ == "__main__":
    write_stored(__doc__, Path(__file__).with_name("README.md"), tables)

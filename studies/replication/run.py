"""Does `quick` come out the same again? The gains of every run of a store side by side, and how they predict another.

Run: roarbench import studies/replication/quick-2.parquet --store DIR; python -m studies.replication.run --store DIR
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.collecting import collect, with_entered
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.suites import find_suite, leading
from roarbench.protocols.declaration import Protocol
from roarbench.stats.board import Board, Row
from roarbench.stats.curves import Scores
from roarbench.stats.judging import board
from roarbench.stats.replication import Replication, replication
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Unit
from roarbench.text import MISSING, markdown_table, signed
from studies.page import SIGNS, write

MOST = 10  # replications that are looked for


def runs(store: Path, name: str = "quick@2") -> list[SuiteResults]:
    """Return the runs of a suite that a store holds, with what was submitted: its own, then its replications."""
    with ResultsStore.open(default_url(store), read_only=True) as results:
        suite = with_entered(find_suite(name), results)
        held = [collect(replace(suite, replication=number), results) for number in range(MOST)]
    return [each for each in held if each.results]


def boards(held: Sequence[SuiteResults], protocol: Protocol) -> list[Board]:
    """Return the boards of these runs under a protocol, of those that have verdicts under it."""
    found = [made for each in held if (made := each.board(protocol, Unit.SCALAR))]
    return [made for made in found if any(row.random for row in made.rows)]


def common(made: Sequence[Board]) -> list[str]:
    """Return the rows that have a verdict against Random in every run, best of the first run first."""
    first = sorted(made[0].rows, key=lambda row: -(row.gain.value or 0.0))
    return [row.estimator for row in first if all(row_of(board, row.estimator).random for board in made)]


def row_of(board: Board, name: str) -> Row:
    """Return the row of an estimator."""
    return next(row for row in board.rows if row.estimator == name)


def table(made: Sequence[Board], names: Sequence[str] = ()) -> str:
    """Return gains and verdicts against Random, a column for each run; the names are those of runs after the first."""
    rows = [[name, *(_cell(row_of(board, name)) for board in made)] for name in common(made)]
    later = names or [f"replication {n}" for n in range(1, len(made))]
    return markdown_table(("estimator", "first run", *later), rows)


def _cell(row: Row) -> str:
    gain = MISSING if row.gain.value is None else signed(row.gain.value)
    return f"{gain} {SIGNS[row.random.verdict] if row.random else MISSING}"


def sums(made: Sequence[Board]) -> str:
    """Return in a sentence what all pairs of runs add up to."""
    pairs = [replication(one, other) for one, other in combinations(made, 2)]
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


def tables(held: Sequence[SuiteResults]) -> dict[str, str]:
    """Return the tables of the README by name: a table and a sentence for each protocol, and one of all methods."""
    made = {protocol.name: boards(held, protocol) for protocol in leading(find_suite("quick@2"))}
    return {name: f"{table(each)}\n\n{sums(each)}" for name, each in made.items()} | {"methods": methods(held)}


def told_of_one(scores: Scores) -> Scores:
    """Return the same answers as if all rows explained one network: the luck of networks counts as trainings'."""
    differences = scores.differences and told_of_one(scores.differences)
    return replace(scores, references={}, differences=differences)


def networks(scores: Scores) -> list[str]:
    """Return the names of the explained networks."""
    return sorted({name for names in scores.references.values() for name in names})


def explaining(scores: Scores, network: str) -> Scores:
    """Return the answers of a run that explained this one of its networks alone, beside all those of its controls."""
    correct = {
        point: bits[[name == network for name in scores.references[point]]] if point in scores.references else bits
        for point, bits in scores.correct.items()
    }
    differences = scores.differences and explaining(scores.differences, network)
    return replace(scores, correct=correct, references={}, differences=differences)


def methods(held: Sequence[SuiteResults]) -> str:
    """Return how many gains lie in the other run's prediction interval, by this method and by those before it."""
    lines = []
    for protocol in leading(find_suite("quick@2")):
        has = [each for each in held if boards([each], protocol)]
        all_scores = [scores for each in has if (scores := each.scores(protocol, Unit.SCALAR))]
        ways = {
            "references crossed, as here": [[made] for made in boards(has, protocol)],
            "the same answers, told of one network": [[board(told_of_one(each), protocol)] for each in all_scores],
            "one network explained in each run": [
                [board(explaining(each, name), protocol) for name in networks(each)] for each in all_scores
            ],
        }
        for way, made in ways.items():
            pairs = [replication(*pair) for one, other in combinations(made, 2) for pair in product(one, other)]
            lines.append([f"`{protocol.name}`", way, str(len(pairs)), *_held(pairs), _verdicts(pairs)])
    heads = (
        "protocol",
        "intervals",
        "pairs",
        "all rows inside",
        "explained rows inside",
        "verdicts the same / opposed",
    )
    return markdown_table(heads, lines)


def _held(pairs: Sequence[Replication]) -> Iterator[str]:
    """Yield how many gains lie inside, of all rows and of those that explain a network."""
    rows = [row for pair in pairs for row in pair.rows]
    for chosen in (rows, [row for row in rows if not find_estimator(row.estimator).control]):
        inside = [one for row in chosen for one in (row.inside, row.inside_again) if one is not None]
        yield f"{sum(inside)} of {len(inside)} ({100 * sum(inside) / len(inside):.0f} %)"


def _verdicts(pairs: Sequence[Replication]) -> str:
    verdicts, equal, opposed = (sum(getattr(pair, name) for pair in pairs) for name in ("verdicts", "equal", "opposed"))
    return f"{equal} of {verdicts} ({100 * equal / verdicts:.0f} %) / {opposed}"


def main() -> None:
    """Write the tables into the README."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    write(Path(__file__).with_name("README.md"), tables(runs(parser.parse_args().store)))


if __name__ == "__main__":
    main()

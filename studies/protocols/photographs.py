"""How alike are the orders that the protocols give the rows of `quick`? Writes four tables of tables.md.

Run: roarbench import results --store DIR, then both files quick-*.parquet
of this folder; python -m studies.protocols.photographs --store DIR
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.collecting import collect
from roarbench.plan.suites import find_suite
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.exchanged import ROAR_EXCHANGED
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC, SPECIFIC_CLASS
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.stats.board import RANDOM, Row
from roarbench.stats.bootstrap import Bootstrap, Sample
from roarbench.stats.draws import draw
from roarbench.stats.judging import gain_samples
from roarbench.stats.replication import Agreement, agreement, replication
from roarbench.store.results import ResultsStore
from roarbench.terms import Unit
from roarbench.text import MISSING, interval, markdown_table, percent
from studies.page import SIGNS, write_stored
from studies.replication.run import boards, sums, sums_of

ASKED = (SPECIFIC, AUGMENTED, ROAR, MORF, LERF)
RUNS = 4  # the first run and its replications


def gains(found: SuiteResults, protocol: Protocol) -> dict[str, Sample]:
    """Return the gains of a protocol's rows with their draws; Random's is 0 by construction."""
    scores, bootstrap = found.scores(protocol, Unit.SCALAR), Bootstrap()
    assert scores is not None, "the suite has it"
    drawn = gain_samples(scores, protocol, draw(scores, bootstrap, found.spread(protocol)))
    rows = {name: sample for name, sample in drawn.items() if name not in scores.checks}
    return rows | {RANDOM: Sample(0.0, np.zeros(bootstrap.resamples))}


def compared(found: SuiteResults) -> list[tuple[str, str, Agreement]]:
    """Return every two protocols and how alike their orders are, by the rows that both have."""
    of = {protocol.name: gains(found, protocol) for protocol in ASKED}
    pairs = [(one, other, agreement(of[one], of[other], Bootstrap().confidence)) for one, other in combinations(of, 2)]
    return [(one, other, alike) for one, other, alike in pairs if alike]


def table(runs: Sequence[SuiteResults]) -> str:
    """Return Kendall's tau of every two protocols, a column for each run; counts of pairs are of the first."""
    made = [compared(found) for found in runs]
    lines = []
    for (one, other, first), *again in zip(*made, strict=True):
        taus = [_tau(first), *(_tau(alike) for *_, alike in again)]
        lines.append([f"`{one}`, `{other}`", str(first.rows), *taus, str(first.settled), str(first.opposed)])
    runs_named = ("first run", *(f"replication {number}" for number in range(1, len(runs))))
    return markdown_table(["protocols", "rows", *runs_named, "pairs settled under both", "opposed"], lines)


def classes(store: ResultsStore) -> str:
    """Return specific gains against any image's map and within classes, with their verdicts against Random."""
    asked = (("quick@2", SPECIFIC), ("quick-class", SPECIFIC_CLASS))
    rows = [_rows(collect(find_suite(suite), store), protocol) for suite, protocol in asked]
    order = sorted(rows[1].values(), key=lambda row: -(row.gain.value or 0.0))
    lines = [[row.estimator, *(_judged(each[row.estimator]) for each in rows)] for row in order]
    return markdown_table(["row", "any other image", "another image of its class"], lines)


def exchanged(store: ResultsStore) -> str:
    """Return what a row keeps at t = .9, and its gain, where masks tell the class and where they were exchanged."""
    suite = find_suite("quick-exchanged")
    runs = [collect(replace(suite, replication=number), store) for number in (0, 1)]
    roar = _rows(collect(find_suite("quick@2"), store), ROAR)
    other, within = ([_rows(run, protocol) for run in runs] for protocol in (ROAR_EXCHANGED, ROAR))
    first = sorted((row for row in other[0].values() if not row.check), key=lambda row: -(row.gain.value or 0.0))
    lines = []
    for name in (row.estimator for row in first):
        asked = (other, name), (other, f"{name}~other-image"), (within, f"{name}~same-class")
        kept = [" / ".join(_kept(run.get(twin)) for run in found) for found, twin in asked]
        gains = [_judged(row[name]) for row in (roar, *other)]
        lines.append([name, _kept(roar[name]), *kept, *gains])
    heads = ["row", "ROAR", "exchanged", "exchanged in the test, too", "of its class"]
    return markdown_table([*heads, "gain, ROAR", "gain, exchanged", "again"], lines)


def on_test_masks(store: ResultsStore) -> str:
    """Return specific gains by networks tuned on masks of training and of test images, the latter in each run."""
    usual, tuned = (
        boards([collect(replace(find_suite(name), replication=number), store) for number in range(RUNS)], SPECIFIC)
        for name in ("quick@2", "quick-specific")
    )
    shown = [{row.estimator: row for row in board.rows} for board in (usual[0], *tuned)]
    order = sorted(shown[0].values(), key=lambda row: -(row.gain.value or 0.0))
    lines = [[row.estimator, *(_judged(board[row.estimator]) for board in shown)] for row in order]
    again = (f"replication {number}" for number in range(1, RUNS))
    table = markdown_table(["row", "`quick`", "`quick-specific`", *again], lines)
    beside = sums_of([replication(one, other) for one, other in zip(usual, tuned, strict=True)])
    among = f"The runs of `quick-specific`, {sums(tuned)}"
    return f"{table}\n\n{among}\n\nEach beside the run of `quick` with its seeds and references, {beside}"


def _rows(found: SuiteResults, protocol: Protocol) -> dict[str, Row]:
    """Return the rows of a board by their estimator."""
    board = found.board(protocol, Unit.SCALAR)
    assert board is not None, "the suite has the protocol"
    return {row.estimator: row for row in board.rows}


def _kept(row: Row | None) -> str:
    return percent(row.accuracies[0].value) if row else MISSING


def _judged(row: Row) -> str:
    verdict = SIGNS[row.random.verdict] if row.random else ""
    return f"{interval(row.gain)} {verdict}".strip()


def _tau(alike: Agreement) -> str:
    value, low, high = alike.tau
    return f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"


def read(store: ResultsStore) -> list[SuiteResults]:
    """Return the runs of `quick` 2."""
    suite = find_suite("quick@2")
    return [collect(replace(suite, replication=number), store) for number in range(RUNS)]


def tables(store: ResultsStore) -> dict[str, str]:
    """Return four tables of the page."""
    return {
        "agreements": table(read(store)),
        "classes": classes(store),
        "exchanged": exchanged(store),
        "tuned": on_test_masks(store),
    }


if __name__ == "__main__":
    write_stored(__doc__, Path(__file__).with_name("tables.md"), tables)

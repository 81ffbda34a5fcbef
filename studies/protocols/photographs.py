"""How alike are the orders that the protocols give the rows of `quick`? Writes four tables of tables.md.

Run: roarbench import of studies/replication/quick-2.parquet, quick-specific-1.parquet beside it and both files
quick-*.parquet of this folder, each with --store DIR; python -m studies.protocols.photographs --store DIR
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from roarbench.analysis.evidence import Evidence
from roarbench.analysis.stored_results import collect
from roarbench.analysis.suite_results import SuiteResults
from roarbench.plan.suites import find_suite
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.exchanged import ROAR_EXCHANGED
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC, SPECIFIC_CLASS
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.stats.board import Row
from roarbench.stats.replication import Agreement, agreement, replication
from roarbench.store.results import ResultsStore
from roarbench.text import MISSING, markdown_table, percent
from studies.page import board, by_gain, judged_gain, runs, write_stored
from studies.protocols.run import gains
from studies.replication.run import sums, sums_of

QUICK = find_suite("quick@2")
ASKED = (SPECIFIC, AUGMENTED, ROAR, MORF, LERF)
RUNS = 4  # the first run and its replications


def compared(found: SuiteResults) -> list[tuple[str, str, Agreement]]:
    """Return every two protocols and how alike their orders are, by the rows that both have."""
    evidence = Evidence.of(found)
    of = {protocol.name: gains(evidence, protocol) for protocol in ASKED}
    confidence = evidence.bootstrap.confidence
    pairs = [(one, other, agreement(of[one], of[other], confidence)) for one, other in combinations(of, 2)]
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
    rows = [by_gain(board(collect(find_suite(suite), store), protocol)) for suite, protocol in asked]
    lines = [[name, *(judged_gain(each[name]) for each in rows)] for name in rows[1]]
    return markdown_table(["row", "any other image", "another image of its class"], lines)


def exchanged(store: ResultsStore) -> str:
    """Return what a row keeps at t = .9, and its gain, where masks tell the class and where they were exchanged."""
    held = runs(find_suite("quick-exchanged"), store, 2)
    roar = by_gain(board(collect(QUICK, store), ROAR))
    other, within = ([by_gain(board(run, protocol)) for run in held] for protocol in (ROAR_EXCHANGED, ROAR))
    lines = []
    for name in (name for name, row in other[0].items() if not row.check):
        asked = (other, name), (other, f"{name}~other-image"), (within, f"{name}~same-class")
        kept = [" / ".join(_kept(run.get(twin)) for run in found) for found, twin in asked]
        lines.append([name, _kept(roar[name]), *kept, *(judged_gain(rows[name]) for rows in (roar, *other))])
    heads = ["row", "ROAR", "exchanged", "exchanged in the test, too", "of its class"]
    return markdown_table([*heads, "gain, ROAR", "gain, exchanged", "again"], lines)


def on_test_masks(store: ResultsStore) -> str:
    """Return specific gains by networks tuned on masks of training and of test images, the latter in each run."""
    usual, tuned = (
        [board(run, SPECIFIC) for run in runs(suite, store, RUNS)] for suite in (QUICK, find_suite("quick-specific"))
    )
    shown = [by_gain(each) for each in (usual[0], *tuned)]
    lines = [[name, *(judged_gain(rows[name]) for rows in shown)] for name in shown[0]]
    again = (f"replication {number}" for number in range(1, RUNS))
    table = markdown_table(["row", "`quick`", "`quick-specific`", *again], lines)
    beside = sums_of([replication(one, other) for one, other in zip(usual, tuned, strict=True)])
    among = f"The runs of `quick-specific`, {sums(tuned)}"
    return f"{table}\n\n{among}\n\nEach beside the run of `quick` with its seeds and references, {beside}"


def _kept(row: Row | None) -> str:
    return percent(row.accuracies[0].value) if row else MISSING


def _tau(alike: Agreement) -> str:
    value, low, high = alike.tau
    return f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"


def tables(store: ResultsStore) -> dict[str, str]:
    """Return four tables of the page."""
    return {
        "agreements": table(runs(QUICK, store, RUNS)),
        "classes": classes(store),
        "exchanged": exchanged(store),
        "tuned": on_test_masks(store),
    }


if __name__ == "__main__":
    write_stored(__doc__, Path(__file__).with_name("tables.md"), tables)

"""How alike are the orders that the protocols give the rows of `quick`? Writes a table of docs/protocols.md.

    roarbench import docs/quick-2.parquet --store DIR
    python scripts/agreement_table.py --store DIR

Kendall's tau of the gains, for every two protocols and every run that has them all.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.collecting import collect
from roarbench.plan.suites import find_suite
from roarbench.stats.agreement import Agreement, agreement
from roarbench.stats.board import RANDOM, gain_samples
from roarbench.stats.bootstrap import Bootstrap, Sample
from roarbench.stats.draws import draw
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import AUGMENTED, LERF, MORF, ROAR, SPECIFIC, Protocol, Unit
from roarbench.text import markdown_table

ASKED = (SPECIFIC, AUGMENTED, ROAR, MORF, LERF)
RUNS = 3  # the first run, and the replications with all of these protocols
PAGE = Path(__file__).parents[1] / "docs" / "protocols.md"
START, END = "<!-- table: scripts/agreement_table.py -->", "<!-- end of the agreements -->"


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


def _tau(alike: Agreement) -> str:
    value, low, high = alike.tau
    return f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"


def read(store: ResultsStore) -> list[SuiteResults]:
    """Return the runs of `quick` 2."""
    suite = find_suite("quick@2")
    return [collect(replace(suite, replication=number), store) for number in range(RUNS)]


def main() -> None:
    """Write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True, help="a folder with the rows of docs/quick-2.parquet")
    parser.add_argument("--page", type=Path, default=PAGE, help="what has the two markers")
    options = parser.parse_args()
    with ResultsStore.open(default_url(options.store), read_only=True) as store:
        made = table(read(store))
    before, _, rest = options.page.read_text("utf-8").partition(START)
    options.page.write_text(f"{before}{START}\n{made}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()

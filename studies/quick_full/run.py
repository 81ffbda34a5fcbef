"""Write the tables of gains under each protocol of the suite quick-full into README.md, from a store's results.

Run: python -m studies.quick_full.run --store DIR
"""

from pathlib import Path

from roarbench.analysis.collect_results import collect_results
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.text import MISSING, format_markdown_table
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MATCHED, MORF, OWN_NETWORK, OWN_NETWORK_LERF, ROAR
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.results import ResultsStore
from studies.page import Tables, format_gain_and_verdict, make_board, sort_rows_by_gain, write_store_tables

SHOWN = (ROAR, KAR, MATCHED, MORF, LERF, OWN_NETWORK, OWN_NETWORK_LERF)


def make_tables(store: ResultsStore) -> Tables:
    results = collect_results(find_builtin_suite("quick-full"), store)
    return {"runs": make_runs_table(results), "gains": make_gains_table(results)}


def make_runs_table(results: SuiteResults) -> str:
    points = list_planned_runs(results.suite)
    lines = []
    for protocol in (*SHOWN, MASK_ONLY):
        kind = (protocol.retrain, protocol.order)
        planned = [point for point in points if (point.cell.retrain, point.cell.order) == kind]
        done = sum(point in results.results for point in planned)
        lines.append([f"`{protocol.name}`", f"{done} of {len(planned)}"])
    return format_markdown_table(("protocol", "runs"), lines)


def make_gains_table(results: SuiteResults) -> str:
    """Make a table of gains with verdicts, one column per protocol, largest own-network gain first."""
    boards = {protocol: sort_rows_by_gain(make_board(results, protocol)) for protocol in SHOWN}
    lines = [
        [f"`{name}`", *(format_gain_and_verdict(rows[name]) if name in rows else MISSING for rows in boards.values())]
        for name in boards[OWN_NETWORK]
    ]
    return format_markdown_table(("row", *(f"`{protocol.name}`" for protocol in SHOWN)), lines)


if __name__ == "__main__":
    write_store_tables(__doc__, Path(__file__).with_name("README.md"), make_tables)

"""Does a short recipe order estimators as a long one does? Writes the tables of README.md from a store's rows.

Run: python -m studies.short_recipe.run --store DIR
"""

from collections.abc import Mapping
from pathlib import Path

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.results_by_images_and_weights import collect_results
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.text import MISSING, format_interval, format_markdown_table
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import ROAR
from roarbench.plan.read_suite_file import read_suite
from roarbench.stats.board_agreement import Agreement, compute_agreement
from roarbench.stats.bootstrap_intervals import Sample
from roarbench.store.results import ResultsStore
from studies.page import Tables, format_gain_and_verdict, make_board, sort_rows_by_gain, write_store_tables

HERE = Path(__file__).parent
NAMES = ("short", "long")
IMAGES, CONFIDENCE = 1500, 0.95
HOLDS = 0.6  # Kendall's tau from here on says that two orders agree


def make_tables_of_store(store: ResultsStore) -> Tables:
    return make_tables({name: collect_results(read_suite(HERE / f"{name}.toml"), store, IMAGES) for name in NAMES})


def make_tables(found: Mapping[str, SuiteResults]) -> Tables:
    """Return how many runs there are, the gains by both recipes, and whether their orders agree."""
    counts = [[name, f"{len(each.results)} of {len(list_planned_runs(each.suite))}"] for name, each in found.items()]
    whole = all(len(each.results) == len(list_planned_runs(each.suite)) for each in found.values())
    short, long = (draw_gains(found[name]) for name in NAMES)
    agreed = compute_agreement(short, long, CONFIDENCE) if whole else None
    return {
        "runs": format_markdown_table(("recipe", "runs"), counts),
        "gains": _make_gains_table(found) if whole else "Not measured: runs are missing.",
        "agreement": _make_agreement_table(agreed),
    }


def draw_gains(results: SuiteResults) -> dict[str, Sample]:
    """Return the drawn gains of the rows that the suite's file names, without the control that every suite has."""
    areas = SuiteDraws.of(results).draw_gains(ROAR, Unit.SCALAR).areas
    return {name: areas[name] for name in results.suite.estimators if name != "random-blurred"}


def _make_gains_table(found: Mapping[str, SuiteResults]) -> str:
    rows = {name: sort_rows_by_gain(make_board(each, ROAR)) for name, each in found.items()}
    lines = [[f"`{row}`", *(format_gain_and_verdict(rows[name][row]) for name in NAMES)] for row in rows["long"]]
    return format_markdown_table(("row", *(f"gain by the {name} recipe" for name in NAMES)), lines)


def _make_agreement_table(found: Agreement | None) -> str:
    settled = MISSING if found is None or found.settled is None else f"{found.settled}, {found.opposed} opposed"
    tau = MISSING if found is None else format_interval(found.tau, lambda value: f"{value:+.2f}")
    return format_markdown_table(("Kendall's tau [95 %]", "settled pairs", "verdict"), [[tau, settled, judge(found)]])


def judge(found: Agreement | None) -> str:
    """Return the verdict of the plan's rule; without all runs there is none."""
    if found is None:
        return "not measured"
    low, high = found.tau.low, found.tau.high
    if found.opposed or (high is not None and high < HOLDS):
        return "the short recipe does not order these rows as the long one does"
    if low is not None and low >= HOLDS:
        return "the short recipe orders these rows as the long one does"
    return "open"


if __name__ == "__main__":
    write_store_tables(__doc__, HERE / "README.md", make_tables_of_store)

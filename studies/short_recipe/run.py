"""Test whether a short training recipe orders estimators like a long recipe, and write the tables into README.md.

Run: python -m studies.short_recipe.run --store DIR
"""

from collections.abc import Mapping
from pathlib import Path

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.collect_results import collect_results
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.text import MISSING, format_markdown_table
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import ROAR
from roarbench.plan.read_suite_file import read_suite
from roarbench.stats.board_agreement import Agreement, compute_agreement
from roarbench.stats.bootstrap_intervals import Sample
from roarbench.store.results import ResultsStore
from studies.page import (
    Tables,
    format_agreement,
    format_gain_and_verdict,
    make_board,
    sort_rows_by_gain,
    write_store_tables,
)

HERE = Path(__file__).parent
NAMES = ("short", "long")
IMAGES, CONFIDENCE = 1500, 0.95
HOLDS = 0.6  # minimum Kendall's tau of orders that agree


def make_tables_of_store(store: ResultsStore) -> Tables:
    return make_tables({name: collect_results(read_suite(HERE / f"{name}.toml"), store, IMAGES) for name in NAMES})


def make_tables(results: Mapping[str, SuiteResults]) -> Tables:
    """Make tables of the number of runs, the gains by both recipes, and the agreement of their orders."""
    planned = {name: len(list_planned_runs(recipe.suite)) for name, recipe in results.items()}
    counts = [[name, f"{len(recipe.results)} of {planned[name]}"] for name, recipe in results.items()]
    complete = all(len(recipe.results) == planned[name] for name, recipe in results.items())
    short, long = (draw_gains(results[name]) for name in NAMES)
    agreement = compute_agreement(short, long, CONFIDENCE) if complete else None
    return {
        "runs": format_markdown_table(("recipe", "runs"), counts),
        "gains": _make_gains_table(results) if complete else "Not measured: runs are missing.",
        "agreement": _make_agreement_table(agreement),
    }


def draw_gains(results: SuiteResults) -> dict[str, Sample]:
    """Draw the gains of the rows in the suite's file, without the control `random-blurred`, which every suite has."""
    areas = SuiteDraws.of(results).draw_gains(ROAR, Unit.SCALAR).areas
    return {name: areas[name] for name in results.suite.estimators if name != "random-blurred"}


def _make_gains_table(results: Mapping[str, SuiteResults]) -> str:
    rows = {name: sort_rows_by_gain(make_board(recipe, ROAR)) for name, recipe in results.items()}
    lines = [[f"`{row}`", *(format_gain_and_verdict(rows[name][row]) for name in NAMES)] for row in rows["long"]]
    return format_markdown_table(("row", *(f"gain by the {name} recipe" for name in NAMES)), lines)


def _make_agreement_table(agreement: Agreement | None) -> str:
    cells = format_agreement(agreement) if agreement else (MISSING, MISSING)
    heads = ("Kendall's tau [95 %]", "settled pairs", "verdict")
    return format_markdown_table(heads, [[*cells, judge(agreement)]])


def judge(agreement: Agreement | None) -> str:
    """Return the verdict by the rule of plan.md; `agreement` is None if runs are missing."""
    if agreement is None:
        return "not measured"
    low, high = agreement.tau.low, agreement.tau.high
    if agreement.opposed or (high is not None and high < HOLDS):
        return "the short recipe does not order these rows as the long one does"
    if low is not None and low >= HOLDS:
        return "the short recipe orders these rows as the long one does"
    return "open"


if __name__ == "__main__":
    write_store_tables(__doc__, HERE / "README.md", make_tables_of_store)

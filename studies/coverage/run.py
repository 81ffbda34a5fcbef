"""Judge simulated tables with known true gains, and write how often statements are right to README.md.

Run with `python -m studies.coverage.run --tables 100`; `simulate.py` describes the tables. The same tables are judged
with the bootstrap that the formula replaced (`before.py`), for before.md and for the table of false verdicts.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Order
from roarbench.common.text import format_markdown_table
from roarbench.plan.protocols import ROAR
from roarbench.stats.compute_board import Judge
from roarbench.stats.correctness_and_gain import UNTOUCHED, Correctness
from roarbench.stats.intervals import Estimate, estimate_all, estimate_shares
from roarbench.stats.own_network_gain import compute_own_network_gains
from roarbench.stats.rank_intervals import Pairs, compute_rank_intervals
from roarbench.stats.variance_components import estimate_variance_components
from roarbench.stats.verdicts import Verdict, decide_verdicts
from studies.coverage.before import run_in_copy_of_old_package
from studies.coverage.simulate import (
    CONTROLS,
    NULL,
    SPREAD,
    Counts,
    Interval,
    Judged,
    Results,
    count_right_own_network,
    simulate_all,
)
from studies.page import write_tables


def judge_table(scores: Correctness) -> Judged:
    """Judge a simulated table of ROAR."""
    judge = Judge.from_scores(scores, ROAR, estimate_variance_components([scores]))
    areas = {name: area for name, area in judge.gains.items() if name not in CONTROLS}
    gains, cell = estimate_all(areas), {UNTOUCHED: judge.cells[UNTOUCHED]}
    differences = estimate_all({(one, other): areas[one].subtract(areas[other]) for one, other in pairwise(areas)})
    return Judged(
        {name: _make_interval(gain) for name, gain in gains.items()},
        {pair: _make_interval(difference) for pair, difference in differences.items()},
        _make_interval(estimate_shares(cell)[UNTOUCHED]),
        {pair: comparison.verdict for pair, comparison in judge.comparisons.items()},
        {name: Interval(rank.low or 0, rank.high or 0) for name, rank in judge.rank_intervals.items()},
    )


def judge_own_network_table(unchanged: dict[str, NDArray[np.bool_]]) -> Counts:
    """Judge a simulated table of own-network gain, whose true gains are 0."""
    gains = {name: gain.gain for name, gain in compute_own_network_gains(unchanged, Order.MORF).items()}
    ranks = compute_rank_intervals(Pairs.from_contrasts(list(gains.values())))
    return count_right_own_network(
        [_make_interval(gain) for gain in estimate_all(gains).values()],
        [verdict is not Verdict.SAME for verdict in decide_verdicts(gains).values()],
        [Interval(rank.low or 0, rank.high or 0) for rank in ranks],
    )


def format_results(results: Results) -> str:
    """Format results as a table with a line for each design."""
    columns = next(iter(results.values()))
    return format_markdown_table(["simulated tables", *columns], ([name, *results[name].values()] for name in results))


def set_false_verdicts_beside(now: Results, before: Results) -> str:
    """Return a table of false verdicts, as these statistics give them and as those before did."""
    columns = ("false per row", "false per column", "false per table")
    headings = [f"{column}{when}" for column in columns for when in ("", ", before")]
    lines = [[name, *(of[name][column] for column in columns for of in (now, before))] for name in now]
    return format_markdown_table(["simulated tables", *headings], lines)


def _make_interval(estimate: Estimate) -> Interval:
    assert estimate.low is not None and estimate.high is not None, "all simulated tables have intervals"
    return Interval(estimate.low, estimate.high)


def main() -> None:
    """Simulate all designs, and write the tables into the study's page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    count = parser.parse_args().tables
    now = simulate_all(count, judge_table, judge_own_network_table)
    before = run_in_copy_of_old_package("before", "--tables", str(count))
    for page, found in (("README.md", now), ("before.md", before)):
        tables = {f"coverage, {kind}": format_results(results) for kind, results in found.items()}
        write_tables(Path(__file__).with_name(page), tables)
    beside = {f"false verdicts, {kind}": set_false_verdicts_beside(now[kind], before[kind]) for kind in (NULL, SPREAD)}
    write_tables(Path(__file__).with_name("README.md"), beside)


if __name__ == "__main__":
    main()

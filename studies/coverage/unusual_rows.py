"""Simulate one row that varies more than the others, and try to leave such rows out of the pooled variance.

`python -m studies.coverage.unusual_rows --tables 400` writes the table to README.md. Here gains vary with explained
networks and a little noise alone, so thousands of tables take minutes; `run.py` simulates predictions.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f, t

from roarbench.common.text import format_markdown_table
from roarbench.stats.variance_components import estimate_prior_freedom, estimate_variance_and_shared_fraction
from roarbench.stats.verdicts import FALSE_DISCOVERIES, adjust_by_benjamini_hochberg
from studies.page import write_tables

Floats = NDArray[np.float64]

ROWS, DEVIATION, NOISE = 19, 2.0, 1.1  # deviation of a row's gain between networks, half of it shared; in points
LARGEST_GAIN = 6.0  # true gains are 0, or from minus this to this
FEWEST = 20  # tables from which a percentage is shown
LONG = 1.5  # an interval is long if its width is above this many medians of the column
THRESHOLDS = (0.0, 0.05, 0.1, 0.2)  # a row is not pooled if the p value of its variance is below


class Design(NamedTuple):
    """Settings of simulated tables."""

    name: str
    unusual: float = 1.0  # deviation of the first row, as a multiple of the others'
    prior: float = 0.0  # degrees of freedom with which rows' variances differ; 0 means equal variances


DESIGNS = (
    Design("one row varies 4 times as much", 4.0),
    Design("equal rows"),
    Design("rows' variances differ", 1.0, 5.0),
)


def draw_gains(design: Design, networks: int, true: Floats, chance: np.random.Generator) -> Floats:
    """Draw the gain of every row with every network, (rows, networks)."""
    scales = np.sqrt(design.prior / chance.chisquare(design.prior, ROWS)) if design.prior else np.ones(ROWS)
    scales[0] = design.unusual if design.unusual != 1 else scales[0]
    effects = np.sqrt(0.5) * (chance.standard_normal((1, networks)) + chance.standard_normal((ROWS, networks)))
    return np.asarray(
        true[:, None] + DEVIATION * scales[:, None] * effects + NOISE * chance.standard_normal((ROWS, networks))
    )


def judge_gains(gains: Floats, true: Floats, threshold: float) -> dict[str, float]:
    """Judge all rows as the tables do, but pool no row whose variance is above the others' with p below `threshold`."""
    networks = gains.shape[1]
    deviations = gains - gains.mean(1, keepdims=True)
    pooled, shared, _ = estimate_variance_and_shared_fraction(deviations)
    own = (deviations**2).sum(1) / (networks - 1)
    prior = estimate_prior_freedom(own, np.full(ROWS, networks - 1))
    freedom_of_pooled = (networks - 1) / (1 / ROWS + (1 - 1 / ROWS) * shared**2)
    weight = 1 / (1 / prior + 1 / freedom_of_pooled)
    weights = np.where(f.sf(own / pooled, networks - 1, weight) < threshold, 0.0, weight)
    freedom = weights + networks - 1
    errors = np.sqrt((weights * pooled + (networks - 1) * own) / freedom / networks)
    means, halves = gains.mean(1), t.ppf(0.975, freedom) * errors
    ps = 2 * t.sf(np.abs(means) / errors, freedom)
    called = np.array(adjust_by_benjamini_hochberg([float(p) for p in ps])) <= FALSE_DISCOVERIES
    wrong = called & ((true == 0) | (np.sign(means) != np.sign(true)))
    holds = np.abs(means - true) < halves
    return {
        "first row": float(holds[0]),
        "first row long": float(halves[0] > LONG * np.median(halves)),
        "error in half widths": float(np.abs(means - true)[0] / halves[0]),  # of the first row
        "gains": float(holds.mean()),
        "false per column": float(wrong.any()),
        "found": float(called.mean()),
        "width of other rows": float(halves[1:].mean()),
    }


def simulate(tables: int) -> str:
    """Return the table of results in Markdown."""
    headings, lines = ["simulated tables", "not pooled if p below"], list[list[str]]()
    for networks in (3, 5, 8):
        for number, design in enumerate(DESIGNS):
            counts = defaultdict[float, list[dict[str, float]]](list)
            true = np.linspace(-LARGEST_GAIN, LARGEST_GAIN, ROWS) * (design.name == "equal rows")
            for table in range(tables):
                gains = draw_gains(design, networks, true, np.random.default_rng([networks, number, table]))
                for threshold in THRESHOLDS:
                    counts[threshold].append(judge_gains(gains, true, threshold))
            for threshold, found in counts.items():
                means = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
                del means["error in half widths"]
                long = np.array([one["first row long"] for one in found]) > 0
                errors = np.array([one["error in half widths"] for one in found])
                for name, right in (
                    ("long: right", errors[long] < 1),
                    ("long: right if doubled", errors[long] < 2),
                    ("not long: right", errors[~long] < 1),
                ):
                    means[name] = float(right.mean()) if len(right) > FEWEST else np.nan
                cells = [f"{mean:.2f}" if "width" in name else f"{100 * mean:.1f}" for name, mean in means.items()]
                cells = [cell.replace("nan", "") for cell in cells]
                headings[2:] = means
                lines.append([f"{networks} networks, {design.name}", f"{threshold:g}", *cells])
    return format_markdown_table(headings, lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=400)
    write_tables(Path(__file__).with_name("README.md"), {"unusual rows": simulate(parser.parse_args().tables)})

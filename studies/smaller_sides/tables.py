"""Make the study's tables from results.csv: `python -m studies.smaller_sides.tables` writes them into README.md."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from roarbench.common.text import format_markdown_table, format_signed
from studies.page import make_parser, write_tables
from studies.smaller_sides.run import ROWS, WAYS

FOLDER = Path(__file__).parent
COMPARED = len(ROWS) - 1  # rows of the plan besides Random, for which intervals are adjusted
PAIRS = (("today", "shrunk first"), ("today", "full"), ("shrunk first", "full"))


class Gain(NamedTuple):
    """Half of Random's mean accuracy minus the row's, in points, and the variances of both halves."""

    value: float
    variances: tuple[float, float]


def read_accuracies() -> dict[tuple[str, str], list[float]]:
    """Return the accuracies of each row and way, in percent."""
    accuracies: dict[tuple[str, str], list[float]] = {}
    with (FOLDER / "results.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            accuracies.setdefault((line["row"], line["way"]), []).append(100 * float(line["accuracy"]))
    return accuracies


def measure_gain(random: list[float], row: list[float]) -> Gain:
    """Measure the gain of a row."""
    one, other = (float(np.var(each, ddof=1)) / len(each) / 4 for each in (random, row))
    return Gain(float(np.mean(random) - np.mean(row)) / 2, (one, other))


def format_difference(first: Gain, second: Gain, trainings: int) -> str:
    """Format a difference of gains with Welch's interval, bold if it excludes 0."""
    parts = np.array([*first.variances, *second.variances])
    freedom = parts.sum() ** 2 / (parts**2 / (trainings - 1)).sum()
    half, difference = t.ppf(1 - 0.025 / COMPARED, freedom) * parts.sum() ** 0.5, first.value - second.value
    text = f"{format_signed(difference)} ± {half:.1f}"
    return f"**{text}**" if abs(difference) > half else text


def main() -> None:
    """Write both tables."""
    make_parser(__doc__).parse_args()
    found = read_accuracies()
    rows = [row for row in ROWS if all((row, way) in found for way in WAYS)]
    means = [
        [f"`{row}`", *(f"{np.mean(found[row, way]):.1f} ± {np.std(found[row, way], ddof=1):.1f}" for way in WAYS)]
        for row in rows
    ]
    heading = "accuracy at t = .9, %, mean ± standard deviation of three trainings"
    accuracies = format_markdown_table([heading, *WAYS], means)
    lines = []
    for row in rows[1:]:
        gains = {way: measure_gain(found["random", way], found[row, way]) for way in WAYS}
        each = [f"{format_signed(gains[way].value)} ± {sum(gains[way].variances) ** 0.5:.1f}" for way in WAYS]
        count = len(found[row, "full"])
        lines.append([f"`{row}`", *each, *(format_difference(gains[a], gains[b], count) for a, b in PAIRS)])
    differences = [f"{a} - {b}" for a, b in PAIRS]
    gains_table = format_markdown_table(["gain, points ± standard error", *WAYS, *differences], lines)
    write_tables(FOLDER / "README.md", {"accuracies": accuracies, "gains": gains_table})


if __name__ == "__main__":
    main()

"""Make the study's tables from results.csv: `python -m studies.smaller_sides.tables` writes them into README.md."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from roarbench.common.text import format_markdown_table, format_signed
from studies.page import make_parser, write_tables
from studies.smaller_sides.run import CROPS, ROWS, WAYS

FOLDER = Path(__file__).parent
TRAININGS = 3  # of each row and way
PAIRS = (("today", "shrunk first"), ("today", "full"), ("shrunk first", "full"))


class Gain(NamedTuple):
    """Half of Random's mean accuracy minus the row's, in points, and the variances of both halves."""

    value: float
    variances: tuple[float, float]


def read_accuracies(ways: Sequence[str]) -> dict[tuple[str, str], list[float]]:
    """Return the accuracies of the trainings of each row and way, in percent."""
    accuracies: dict[tuple[str, str], list[float]] = {}
    with (FOLDER / "results.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["way"] in ways:
                accuracies.setdefault((line["row"], line["way"]), []).append(100 * float(line["accuracy"]))
    return accuracies


def measure_gain(random: list[float], row: list[float]) -> Gain:
    """Measure the gain of a row."""
    one, other = (float(np.var(each, ddof=1)) / len(each) / 4 for each in (random, row))
    return Gain(float(np.mean(random) - np.mean(row)) / 2, (one, other))


def format_difference(first: Gain, second: Gain, compared: int) -> str:
    """Format a difference of gains with Welch's interval, adjusted for all compared rows, bold if it excludes 0."""
    parts = np.array([*first.variances, *second.variances])
    freedom = parts.sum() ** 2 / (parts**2 / (TRAININGS - 1)).sum()
    half, difference = t.ppf(1 - 0.025 / compared, freedom) * parts.sum() ** 0.5, first.value - second.value
    text = f"{format_signed(difference)} ± {half:.1f}"
    return f"**{text}**" if abs(difference) > half else text


def make_tables(ways: Sequence[str], pairs: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Make the tables of accuracies and of gains of some ways of training."""
    found = read_accuracies(ways)
    rows = [row for row in ROWS if all((row, way) in found for way in ways)]
    means = [
        [f"`{row}`", *(f"{np.mean(found[row, way]):.1f} ± {np.std(found[row, way], ddof=1):.1f}" for way in ways)]
        for row in rows
    ]
    heading = f"accuracy at t = .9, %, mean ± standard deviation of {TRAININGS} trainings"
    lines = []
    for row in rows[1:]:
        gains = {way: measure_gain(found["random", way], found[row, way]) for way in ways}
        each = [f"{format_signed(gains[way].value)} ± {sum(gains[way].variances) ** 0.5:.1f}" for way in ways]
        differences = (format_difference(gains[a], gains[b], len(rows) - 1) for a, b in pairs)
        lines.append([f"`{row}`", *each, *differences])
    headings = ["gain, points ± standard error", *ways, *(f"{a} - {b}" for a, b in pairs)]
    return format_markdown_table([heading, *ways], means), format_markdown_table(headings, lines)


def main() -> None:
    """Write all tables."""
    make_parser(__doc__).parse_args()
    accuracies, gains = make_tables(WAYS, PAIRS)
    cropped, cropped_gains = make_tables(CROPS, [CROPS])
    tables = {"accuracies": accuracies, "gains": gains, "cropped": cropped, "cropped gains": cropped_gains}
    write_tables(FOLDER / "README.md", tables)


if __name__ == "__main__":
    main()

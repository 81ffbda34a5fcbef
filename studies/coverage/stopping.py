"""Simulate explained networks that are added one at a time until an own-network gain is shown, without information.

Run with `python -m studies.coverage.stopping --tables 500`. Each simulated table has as many networks as the study
allows; it is judged with the first three, the first four, and so on. Maps know nothing about their network, so every
verdict is false.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from roarbench.common.enums import FEWEST_NETWORKS, Order
from roarbench.stats.own_network_gain import compute_own_network_gains
from roarbench.stats.verdicts import Verdict, decide_verdicts
from studies.page import write_tables

_KEPT = (0.8, 0.3)  # shares of predictions that removal leaves unchanged, by level
_MOST = 10  # networks
_DESIGNS = ((1, 300, 0.0), (1, 300, 0.2), (1, 300, 0.5))  # rows, images, spread of networks' effects


def simulate_table(rows: int, images: int, spread: float, chance: np.random.Generator) -> dict[str, NDArray[np.bool_]]:
    """Draw which predictions stay the same, (maps, networks, levels, images) by row.

    `spread` is the standard deviation of the effect of each pair of map and network, relative to that of images.
    """
    limits = norm.ppf(_KEPT)[:, None]
    shared = np.sqrt(0.5) * chance.normal(size=images)
    unchanged = {}
    for row in range(rows):
        effects = spread * chance.normal(size=(_MOST, _MOST, 1, 1))
        noise = np.sqrt(0.5) * chance.normal(size=(_MOST, _MOST, len(_KEPT), images))
        unchanged[f"row-{row}"] = shared + effects + noise < limits
    return unchanged


def list_verdicts_by_networks(unchanged: dict[str, NDArray[np.bool_]]) -> list[set[Verdict]]:
    """Judge the table with three networks, with four, and so on; return the verdicts of its rows."""
    verdicts = []
    for count in range(FEWEST_NETWORKS, _MOST + 1):
        part = {name: bits[:count, :count] for name, bits in unchanged.items()}
        gains = {name: gain.gain for name, gain in compute_own_network_gains(part, Order.MORF).items()}
        verdicts.append(set(decide_verdicts(gains).values()))
    return verdicts


def measure_design(rows: int, images: int, spread: float, tables: int) -> list[str]:
    """Return percentages of tables with a false verdict, with their standard errors."""
    chances = [np.random.default_rng([3, rows, images, round(10 * spread), table]) for table in range(tables)]
    looks = [list_verdicts_by_networks(simulate_table(rows, images, spread, chance)) for chance in chances]
    explains = np.array([[Verdict.BETTER in verdicts for verdicts in table] for table in looks])
    any_verdict = np.array([[verdicts != {Verdict.SAME} for verdicts in table] for table in looks])
    shares = [explains[:, 0], explains[:, -1], explains.any(1), any_verdict.any(1)]
    return [_format_share(np.asarray(share)) for share in shares]


def _format_share(found: NDArray[np.bool_]) -> str:
    share = found.mean()
    return f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / len(found)):.1f}"


def main() -> None:
    """Simulate all designs, and write the table into the page beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=500)
    tables = parser.parse_args().tables
    headings = ["rows, images, effects of networks", "explains, 3 networks", "explains, 10 networks"]
    headings += ["explains at the first of 3 to 10", "any verdict at the first of 3 to 10"]
    lines = [headings, ["---"] * len(headings)]
    for rows, images, spread in _DESIGNS:
        lines.append([f"{rows}, {images}, {spread:g}", *measure_design(rows, images, spread, tables)])
        print(lines[-1], file=sys.stderr, flush=True)
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    write_tables(Path(__file__).with_name("stopping.md"), {"stopping": table})


if __name__ == "__main__":
    main()

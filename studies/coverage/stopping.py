"""Simulate explained networks that are added one at a time until an own-network gain is shown, without information.

Run with `python -m studies.coverage.stopping --tables 2000`. Each simulated table has as many networks as the study
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
from roarbench.common.text import format_markdown_table
from roarbench.stats.own_network_gain import compute_own_network_gains
from roarbench.stats.verdicts import Verdict, decide_verdicts
from studies.page import write_tables

_KEPT = (0.8, 0.3)  # shares of predictions that removal leaves unchanged, by level
_MOST = 10  # networks
_IMAGES = 300
PAIRS, OWN = "every pair of map and network", "a network and its own map alone"
_DESIGNS = ((0.0, PAIRS), (0.2, PAIRS), (0.5, PAIRS), (0.5, OWN))  # spread of effects, and what has an effect


def simulate_row(spread: float, kind: str, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Draw which predictions stay the same, (maps, networks, levels, images).

    `spread` is the standard deviation of effects of networks, relative to that of images.
    """
    shared = np.sqrt(0.5) * chance.normal(size=_IMAGES)
    effects = spread * chance.normal(size=(_MOST, _MOST, 1, 1))
    if kind == OWN:
        effects *= np.eye(_MOST)[:, :, None, None]
    noise = np.sqrt(0.5) * chance.normal(size=(_MOST, _MOST, len(_KEPT), _IMAGES))
    return np.asarray(shared + effects + noise < norm.ppf(_KEPT)[:, None])


def list_verdicts_by_networks(unchanged: NDArray[np.bool_]) -> list[Verdict]:
    """Judge a row with three networks, with four, and so on."""
    verdicts = []
    for count in range(FEWEST_NETWORKS, _MOST + 1):
        gains = compute_own_network_gains({"row": unchanged[:count, :count]}, Order.MORF)
        verdicts.append(decide_verdicts({"row": gains["row"].gain})["row"])
    return verdicts


def measure_design(spread: float, kind: str, tables: int) -> list[str]:
    """Return percentages of tables with a false verdict, with their standard errors."""
    chances = [np.random.default_rng([3, 1, _IMAGES, round(10 * spread), table]) for table in range(tables)]
    looks = [list_verdicts_by_networks(simulate_row(spread, kind, chance)) for chance in chances]
    above = np.array([[verdict is Verdict.BETTER for verdict in verdicts] for verdicts in looks])
    any_verdict = np.array([[verdict is not Verdict.SAME for verdict in verdicts] for verdicts in looks])
    shares = [above[:, 0], above[:, -1], above.any(1), any_verdict.any(1)]
    return [_format_share(np.asarray(share)) for share in shares]


def _format_share(found: NDArray[np.bool_]) -> str:
    share = found.mean()
    return f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / len(found)):.1f}"


def main() -> None:
    """Simulate all designs, and write the table into the page beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=2000)
    tables = parser.parse_args().tables
    headings = ["effects, of", "above 0, 3 networks", "above 0, 10 networks"]
    headings += ["above 0 at the first of 3 to 10", "any verdict at the first of 3 to 10"]
    lines = list[list[str]]()
    for spread, kind in _DESIGNS:
        lines.append([f"{spread:g}, {kind}", *measure_design(spread, kind, tables)])
        print(lines[-1], file=sys.stderr, flush=True)
    write_tables(Path(__file__).with_name("stopping.md"), {"stopping": format_markdown_table(headings, lines)})


if __name__ == "__main__":
    main()

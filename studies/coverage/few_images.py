"""Simulate tables of maps without information, and print how many of the tables have a false verdict.

    python -m studies.coverage.few_images [--tables 1000] [--seed 0]

The maps of all rows are exchangeable, so every verdict is false. Whether a network keeps its prediction depends on the
difficulty of the image for all maps (half of the variance), for the map (`rb.check` only: 35 %), and on noise. A false
verdict of `rb.check` is a leader, or a pair of rows in significantly opposite orders; a false verdict of
`rb.own_network_gain` is any verdict except "not shown".
"""

from collections.abc import Iterator

import numpy as np
from scipy.stats import norm

from roarbench.api.check_table import CONTROLS, CheckTable
from roarbench.api.primitives import bootstrap_means
from roarbench.api.training_free_check import CHECK_LEVELS
from roarbench.common.enums import Order
from roarbench.common.text import format_markdown_table
from roarbench.stats.bootstrap_intervals import FEWEST_IMAGES, Bootstrap
from roarbench.stats.correctness_and_gain import POINTS, compute_trapezoid_weights
from roarbench.stats.own_network_gain import (
    OwnNetworkVerdict,
    compute_own_network_gain_per_row,
    judge_own_network_gains,
)
from studies.page import make_parser

IMAGES = (1, 2, 3, 5, 8, 10, 15, 20)
BOOTSTRAP = Bootstrap(resamples=1000)
# number of estimators, share of predictions kept at each level; for own-network gain first the number of networks
CHECK: tuple[tuple[int, tuple[float, ...]], ...] = (
    (1, (0.8, 0.5, 0.3)),
    (2, (0.95, 0.9, 0.8)),
    (4, (0.5, 0.2, 0.1)),
    (8, (0.8, 0.5, 0.3)),
)
OWN: tuple[tuple[int, int, tuple[float, ...]], ...] = (
    (3, 1, (0.8, 0.2)),
    (3, 4, (0.8, 0.2)),
    (4, 1, (0.5, 0.1)),
    (6, 4, (0.9, 0.5)),
)


def has_false_check_verdict(images: int, rows: int, kept: tuple[float, ...], chance: np.random.Generator) -> bool:
    """Simulate one table of `rb.check`; `kept` has the share of correct predictions at each level."""
    names, gains = [*CONTROLS, *map(str, range(rows))], {}
    weights, limits = np.asarray(compute_trapezoid_weights((0.0, *CHECK_LEVELS))), norm.ppf(kept)[:, None]
    shared = np.sqrt(0.5) * chance.normal(size=images)
    for order, sign in ((Order.MORF, -POINTS), (Order.LERF, POINTS)):
        of_map = shared + np.sqrt(0.35) * chance.normal(size=(len(names), 1, images))
        correct = of_map + np.sqrt(0.15) * chance.normal(size=(len(names), len(kept), images)) < limits
        areas = weights[1:] @ correct
        samples = bootstrap_means((areas - areas[0]) * sign, BOOTSTRAP)
        gains[str(order)] = dict(zip(names, samples, strict=True))
    # with the true number of images, a table of few images would have no verdicts
    table = CheckTable(gains, dict.fromkeys(gains, CHECK_LEVELS), max(images, FEWEST_IMAGES))
    return any(table.leaders.values()) or bool(table.reversed)


def has_false_own_network_verdict(
    images: int, networks: int, rows: int, kept: tuple[float, ...], chance: np.random.Generator
) -> bool:
    """Simulate one table of `rb.own_network_gain`; `kept` has the share of kept predictions at each level."""
    shape, limits = (networks, networks, len(kept), images), norm.ppf(kept)[:, None]
    shared = np.sqrt(0.5) * chance.normal(size=images)
    unchanged = {f"{row}": shared + np.sqrt(0.5) * chance.normal(size=shape) < limits for row in range(rows)}
    gains = compute_own_network_gain_per_row(unchanged, Order.MORF, BOOTSTRAP)
    verdicts = judge_own_network_gains({name: gain.gain for name, gain in gains.items()})
    return any(verdict is not OwnNetworkVerdict.OPEN for verdict in verdicts.values())


def make_rows(tables: int, seed: int) -> Iterator[list[str]]:
    chance = np.random.default_rng(seed)
    for rows, kept in CHECK:
        shares = [np.mean([has_false_check_verdict(n, rows, kept, chance) for _ in range(tables)]) for n in IMAGES]
        yield [f"check, {rows}, {kept}", *(f"{100 * share:.1f}" for share in shares)]
    for networks, rows, kept in OWN:
        shares = [
            np.mean([has_false_own_network_verdict(n, networks, rows, kept, chance) for _ in range(tables)])
            for n in IMAGES
        ]
        yield [f"own-network gain of {networks} networks, {rows}, {kept}", *(f"{100 * share:.1f}" for share in shares)]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    heads = ("table, estimators, predictions kept at each level", *(f"{n} image{'s' * (n > 1)}" for n in IMAGES))
    print(format_markdown_table(heads, make_rows(arguments.tables, arguments.seed)))


if __name__ == "__main__":
    main()

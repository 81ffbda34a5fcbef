"""Which levels shall own-network gain be the mean of? By the rule of plan.md, on the positive controls alone.

Run: roarbench run --suite studies/own_network/levels.toml --store FOLDER, then
python -m studies.own_network.levels --store FOLDER prints the power of sets of levels.
"""

import argparse
from itertools import chain, combinations
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.own_network_results import load_kept_predictions
from roarbench.analysis.stored_results import collect_results
from roarbench.enums import Unit
from roarbench.plan.protocols import OWN_NETWORK, OWN_NETWORK_LERF
from roarbench.plan.suite_file import read_suite
from roarbench.stats.bootstrap import Bootstrap, Sample
from roarbench.stats.own_network_gain import compute_interactions, compute_own_network_gain
from studies.page import opened, program

FOLDER = Path(__file__).parent
ROWS = ("corner-own", "corner-mixed-25", "corner-mixed-50", "grad", "grad-sq", "sgsq-grad", "var-grad", "input-x-grad",
    "ig(baseline=mean)", "gb-sq", "gradcam")  # fmt: skip
IMAGES = 100  # for which power is computed
CLOSE = 0.02  # of the best set's power


class Levels(NamedTuple):
    """Gains of a row at each level, in points."""

    samples: tuple[Sample, ...]
    by_image: NDArray[np.float64]  # mean over pairs, (levels, images)


def power(row: Levels, chosen: tuple[int, ...]) -> float:
    """Return the chance that a row's mean over some levels is significantly above 0 with `IMAGES` images."""
    value = float(np.mean([row.samples[k].value for k in chosen]))
    whole = float(np.mean([row.samples[k].draws for k in chosen], axis=0).var())
    over_images = float(row.by_image[list(chosen)].mean(0).var()) / row.by_image.shape[1]
    error = (max(0.0, whole - over_images) + over_images * row.by_image.shape[1] / IMAGES) ** 0.5
    return NormalDist().cdf(value / error - 1.96) if error else float(value > 0)


def choose(powers: NDArray[np.float64], sets: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Choose the smallest set of two levels or more whose power is close to the best; of equal ones the strongest."""
    close = [(len(s), -p, s) for s, p in zip(sets, powers, strict=True) if p >= powers.max() - CLOSE and len(s) > 1]
    return min(close)[2]


def parser() -> argparse.ArgumentParser:
    """Return the parser of this program."""
    made = program(__doc__)
    made.add_argument("--store", type=Path, required=True, help="a folder with the rows of levels.toml")
    return made


def main() -> None:
    """Print the power of each level, of the sets that the rule compares, and the set that it chooses."""
    suite = read_suite(FOLDER / "levels.toml")
    with opened(parser().parse_args().store) as store:
        results = collect_results(suite, store)
    gains: dict[tuple[str, str], Levels] = {}
    levels: tuple[float, ...] = ()
    for protocol in (OWN_NETWORK, OWN_NETWORK_LERF):
        levels, found = load_kept_predictions(results, protocol, Unit.SCALAR)
        for name, kept in found.items():
            if name in ROWS:
                samples = compute_own_network_gain(kept.answers, protocol.order, Bootstrap()).levels
                by_image = compute_interactions(kept.answers, protocol.order).mean(0)
                gains[protocol.name, name] = Levels(samples, by_image)
    numbers = range(len(levels))
    sets = list(chain.from_iterable(combinations(numbers, count) for count in numbers if count)) + [tuple(numbers)]
    powers = np.array([np.mean([power(row, chosen) for row in gains.values()]) for chosen in sets])
    for count in range(1, len(levels) + 1):
        of_size = [(p, s) for p, s in zip(powers, sets, strict=True) if len(s) == count]
        for p, s in sorted(of_size, reverse=True)[: 7 if count == 1 else 2]:
            print(f"{p:.3f}  {', '.join(f'{levels[k]:g}' for k in s)}")
    print("chosen:", ", ".join(f"{levels[k]:g}" for k in choose(powers, sets)))


if __name__ == "__main__":
    main()

"""Compare half widths of published gains with two million bootstrap draws, and write a table to draws.md.

Run with `python -m studies.coverage.draws`. A draw of a gain adds three deviations: of images drawn with replacement,
of explained networks, and of training runs. The last two are normal numbers times an estimated standard deviation,
divided by the root of chi-squared over its degrees of freedom, as in Student's t.
"""

import argparse
import sys
from collections.abc import Iterator
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import roarbench as rb
from roarbench.analysis.suite_judges import SuiteJudges, judge_suite
from roarbench.common.enums import Order, Unit
from roarbench.common.text import format_markdown_table
from roarbench.plan.protocols import KAR, OWN_NETWORK, OWN_NETWORK_LERF, ROAR, Protocol
from roarbench.stats.board_records import RANDOM
from roarbench.stats.contrasts import measure_spreads
from roarbench.stats.correctness_and_gain import list_trapezoid_weights
from roarbench.stats.intervals import CONFIDENCE, estimate_all
from studies.page import write_tables

Floats = NDArray[np.float64]

SUITES = (
    "quick",
    "benchmark-breast-cancer",
    "benchmark-cifar10",
    "benchmark-digits",
    "benchmark-fashion-mnist",
    "benchmark-imagenet",
    "benchmark-imagenette64",
)
_CHUNK = 250_000
_REACH = 40  # standard deviations of a sum that the discrete Fourier transform tells apart


class Row(NamedTuple):
    """A published gain, with the numbers from which draws of its deviation are made."""

    name: str
    half_width: float  # by the formula, in points
    influences: NDArray[np.int64]  # (images,): each image's part of the gain, as a multiple of `unit`
    unit: float  # points
    image_variance: float  # squared points; less than that of `influences` if another part holds some of the noise
    others: tuple[tuple[float, float], ...]  # variance and degrees of freedom of networks and of training runs


def draw_deviations(row: Row, draws: int, chance: np.random.Generator) -> Iterator[Floats]:
    """Draw deviations of a gain from its value, in points and in chunks."""
    sums, shares = compute_distribution_of_sum(row.influences)
    limits, images = np.cumsum(shares), len(row.influences)
    spread = row.unit**2 * float(row.influences.var()) / images
    scale = np.sqrt(row.image_variance / spread) if spread else 0.0
    for start in range(0, draws, _CHUNK):
        count = min(_CHUNK, draws - start)
        drawn = sums[np.minimum(np.searchsorted(limits, chance.random(count)), len(sums) - 1)]
        total = scale * row.unit * (drawn / images - row.influences.mean())
        for variance, freedom in row.others:
            deviation = np.sqrt(variance) * chance.standard_normal(count)
            total += deviation if np.isinf(freedom) else deviation / np.sqrt(chance.chisquare(freedom, count) / freedom)
        yield total


def compute_distribution_of_sum(influences: NDArray[np.int64]) -> tuple[NDArray[np.int64], Floats]:
    """Return the sums of as many influences drawn with replacement, ascending, and their probabilities.

    The distribution of a sum of n numbers is the n-fold convolution of one number's, exact but for rounding. Drawing
    from it costs less than drawing n images.
    """
    images, middle = len(influences), round(float(influences.mean()))
    centred = influences - middle
    reach = _REACH * (1 + float(influences.std()) * np.sqrt(images)) + abs(float(centred.mean())) * images
    size = 1 << int(np.ceil(np.log2(reach + np.ptp(influences) + 1)))
    one = np.bincount(centred % size, minlength=size) / images
    shares = np.fft.irfft(np.fft.rfft(one) ** images, size).clip(0.0)
    sums = np.arange(size)
    start = round(float(centred.mean()) * images) - size // 2  # the period of `size` sums around the mean
    sums = start + (sums - start) % size
    order = sums.argsort()
    return sums[order] + middle * images, shares[order] / shares.sum()


def list_rows_of_retraining(judges: SuiteJudges, protocol: Protocol, unit: Unit) -> list[Row]:
    """Return the gains of a protocol that compares accuracies with Random's."""
    judge = judges.judge(protocol, unit)
    rows, sign = [], 1 if protocol.order is Order.MORF else -1
    weights = list_trapezoid_weights((0.0, *judge.levels))[1:]
    halves = estimate_all(judge.gains)
    for name, area in judge.gains.items():
        cells = [(sign * w, judge.scores.correct[RANDOM, t]) for w, t in zip(weights, judge.levels, strict=True)]
        cells += [(-sign * w, judge.scores.correct[name, t]) for w, t in zip(weights, judge.levels, strict=True)]
        unit_of_row = lcm(*(Fraction(w, len(bits)).denominator for w, bits in cells))
        influences = sum(int(unit_of_row * w / len(bits)) * bits.sum(0, dtype=np.int64) for w, bits in cells)
        variances, freedoms = (part[0].tolist() for part in measure_spreads([area]))
        high = halves[name].high
        if high is None or high == area.value:  # Random's gain, and rows that equal it, cannot vary
            continue
        others = tuple((v, f) for v, f in zip(variances[1:], freedoms[1:], strict=True) if v)
        rows.append(Row(name, high - area.value, np.asarray(influences), 100 / unit_of_row, variances[0], others))
    return rows


def list_rows_of_all_networks(judges: SuiteJudges, protocol: Protocol, unit: Unit) -> list[Row]:
    """Return the own-network gains, with the jackknife variance over networks as a loop over networks."""
    judge = judges.judge(protocol, unit)
    kept = {name: own.kept for name, own in judge.own_network.items() if name not in judge.fixed}
    gains = {name: judge.gains[name] for name in kept}
    rows, sign = [], 1 if protocol.order is Order.MORF else -1
    for name, estimate in estimate_all(gains).items():
        bits = kept[name].astype(np.int64).sum(2)  # (maps, networks, images)
        networks, levels = len(bits), kept[name].shape[2]
        pairs = {(i, j): bits[i, j] + bits[j, i] - bits[i, i] - bits[j, j] for j in range(networks) for i in range(j)}
        influences = sign * sum(pairs.values())
        rest = [[values for pair, values in pairs.items() if number not in pair] for number in range(networks)]
        table = np.array([np.mean(some, axis=0) for some in rest])  # (networks, images): means without one network
        without, factor = table.mean(1), (networks - 1) / networks
        jackknife = factor * float(((without - without.mean()) ** 2).sum())
        unit_of_row = 100 / (2 * len(pairs) * levels)
        variance = float(np.var(influences, ddof=1)) / influences.size * unit_of_row**2
        # the jackknife's noise of single images: the interaction of images and networks
        residuals = table - table.mean(0) - without[:, None] + table.mean()
        noise = factor * float((residuals**2).sum()) / (influences.size - 1) / influences.size
        variance = max(0.0, variance - noise * (50 / levels) ** 2)
        others = ((jackknife * (50 / levels) ** 2, networks - 1.0),)
        assert estimate.high is not None and estimate.value is not None
        if estimate.high == estimate.value:
            continue
        rows.append(Row(name, estimate.high - estimate.value, influences, unit_of_row, variance, others))
    return rows


def compare_protocol(suite: str, protocol: Protocol, draws: int) -> list[tuple[Row, float]]:
    """Return the rows of a published protocol with the half widths of their draws, in points."""
    judges = judge_suite(rb.load_published_results(suite).stored)
    if not any(block.protocol == protocol for block in judges.suite_results.suite.blocks):
        return []
    list_rows = list_rows_of_all_networks if protocol.scores_all_network_pairs else list_rows_of_retraining
    pairs = []
    for number, row in enumerate(list_rows(judges, protocol, judges.unit)):
        chance = np.random.default_rng([4, number])
        sizes = np.abs(np.concatenate([*draw_deviations(row, draws, chance)]))
        pairs.append((row, float(np.quantile(sizes, CONFIDENCE))))
    return pairs


def main() -> None:
    """Draw for all published rows, and write the table into the page beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2_000_000)
    draws = parser.parse_args().draws
    headings = ["suite", "protocol", "rows", "images", "formula / draws", "more than 1 % apart"]
    lines = list[list[str]]()
    for suite in SUITES:
        for protocol in (ROAR, KAR, OWN_NETWORK, OWN_NETWORK_LERF):
            if not (pairs := compare_protocol(suite, protocol, draws)):
                continue
            ratios = np.array([row.half_width / drawn for row, drawn in pairs])
            images, apart = len(pairs[0][0].influences), np.count_nonzero(np.abs(ratios - 1) > 0.01)
            span = f"{ratios.min():.4f} to {ratios.max():.4f}"
            lines.append([suite, protocol.name, str(len(pairs)), f"{images:,}", span, str(apart)])
            print(lines[-1], file=sys.stderr, flush=True)
    write_tables(Path(__file__).with_name("draws.md"), {"draws": format_markdown_table(headings, lines)})


if __name__ == "__main__":
    main()

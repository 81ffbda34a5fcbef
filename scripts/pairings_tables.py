"""The tables of docs/protocols.md, from what `pairings_study.py` wrote.

    python scripts/pairings_tables.py --store DIR --out FOLDER [--seeds 0,1,2]

Intervals hold 95 %, over test images drawn anew; those of a board also over references and networks. MoRF, the area
over the suite's levels, accuracy points, unless a table says otherwise.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pairings_study import AnsweredCell, pairings, study_context

from roarbench.analysis.collecting import collect
from roarbench.estimators import CONTROLS
from roarbench.plan.suites import find_suite
from roarbench.stats.bootstrap import Bootstrap, estimate
from roarbench.stats.curves import UNTOUCHED, Scores, area_weights
from roarbench.stats.draws import draw, image_weights
from roarbench.stats.judging import gain_samples
from roarbench.stats.reference_spread import squares
from roarbench.stats.spread import spread_of
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import PAPER_LEVELS, SPECIFIC, Unit
from roarbench.text import markdown_table, signed

LEVELS = (0.1, 0.5, 0.9)  # of the suite
ROWS = (*CONTROLS, "grad", "sgsq-grad", "var-grad", "ig", "gb")
RUNS = 4  # the first one and its replications
FEWEST = 1.0  # points of gain from 0 on which a row counts where power is compared
POINTS = 100.0
Floats = NDArray[np.float32]
Measure = Callable[[NDArray[np.float16], NDArray[np.int64]], Floats]


def answered(probabilities: NDArray[np.float16], labels: NDArray[np.int64]) -> Floats:
    """Return 1 where the likeliest class is the label, else 0, (..., n) for probabilities (..., n, classes)."""
    found: Floats = (probabilities.argmax(-1) == labels).astype(np.float32)
    return found


def likelihood(probabilities: NDArray[np.float16], labels: NDArray[np.int64]) -> Floats:
    """Return the probability of the label, (..., n) for probabilities (..., n, classes)."""
    index = np.broadcast_to(labels[:, None], (*probabilities.shape[:-1], 1))
    return np.take_along_axis(probabilities, index, -1)[..., 0].astype(np.float32)


@dataclass(frozen=True)
class PairingStudy:
    """Answers that were written, and what is needed to judge them.

    Attributes:
        folder: With the files of `pairings_study.py`.
        labels: Int64 (n,).
        seeds: Of the networks.
        references: Name of the reference of each.
    """

    folder: Path
    labels: NDArray[np.int64]
    seeds: tuple[int, ...]
    references: tuple[str, ...]

    @cached_property
    def draws(self) -> Floats:
        """Return how often each draw holds each image, divided by their number, (resamples, n)."""
        drawn = np.concatenate(list(image_weights(len(self.labels), Bootstrap())))
        return (drawn / len(self.labels)).astype(np.float32)

    def probabilities(self, row: str, kind: str, levels: Sequence[float] = LEVELS) -> NDArray[np.float16]:
        """Return what was answered, (networks, levels, …, n, classes); `kind` as `score` names it.

        Of other images as many as were asked of every network at every level.
        """
        cells = [[np.load(AnsweredCell(row, seed, t).file(self.folder))[kind] for t in levels] for seed in self.seeds]
        fewest = min(len(answers) for network in cells for answers in network)
        return np.stack([np.stack([answers[:fewest] for answers in network]) for network in cells])

    def differences(self, row: str, measure: Measure, levels: Sequence[float] = LEVELS) -> Floats:
        """Return points lost with the own map beside each other image's, (networks, pairings, levels, n)."""
        own = measure(self.probabilities(row, "own", levels), self.labels)
        others = measure(self.probabilities(row, "others", levels), self.labels)
        return np.float32(POINTS) * (others - own[:, :, None]).swapaxes(1, 2)

    @cached_property
    def same_class(self) -> NDArray[np.bool_]:
        """Return whether the other image is of the same class, (networks, pairings, n), for eight pairings."""
        others = [pairings(len(self.labels), seed, 8) for seed in self.seeds]
        return np.stack([np.stack([self.labels[other] == self.labels for other in each]) for each in others])

    def interval(self, value: float, drawn: NDArray[np.floating]) -> str:
        """Return a number with the interval of its draws."""
        low, high = np.quantile(drawn, [0.025, 0.975])
        return f"{signed(value)} [{signed(low)}, {signed(high)}]"

    def ratio(self, value: float, drawn: NDArray[np.floating]) -> str:
        """Return a ratio with the interval of its draws."""
        low, high = np.quantile(drawn, [0.025, 0.975])
        return f"{value:.2f} [{low:.2f}, {high:.2f}]"

    def mean(self, sums: Floats, counts: Floats | None = None) -> str:
        """Return the mean of sums (n,), by counts (n,) of what they are sums of, with its interval."""
        counts = np.ones_like(sums) if counts is None else counts
        return self.interval(float(sums.sum() / counts.sum()), (self.draws @ sums) / (self.draws @ counts))

    def error(self, values: Floats) -> tuple[float, Floats]:
        """Return the squared standard error of the mean over images of values (n,), and the same in every draw."""
        mean = self.draws @ values
        n = len(values)
        return float(values.var(ddof=1) / n), ((self.draws @ values**2 - mean**2) / n).astype(np.float32)


def area(differences: Floats, levels: Sequence[float] = LEVELS) -> Floats:
    """Return the gain of each image, (networks, pairings, n), for differences (networks, pairings, levels, n)."""
    weights = area_weights((0.0, *levels))[1:].astype(np.float32)
    found: Floats = np.einsum("l,skln->skn", weights, differences)
    return found


def board_intervals(study: PairingStudy, measure: Measure, count: int) -> dict[str, tuple[float, float]]:
    """Return gain and half the width of its interval as a board of this many pairings has them."""
    correct = {UNTOUCHED: np.zeros((len(study.seeds), len(study.labels)), np.float32)}
    references: dict[tuple[str, float], tuple[str, ...]] = {}
    for row in ROWS:
        lost = study.differences(row, measure)[:, :count].mean(1)  # (networks, levels, n)
        for index, t in enumerate(LEVELS):
            correct[row, t] = -lost[:, index] / np.float32(POINTS)
            if row not in CONTROLS:
                references[row, t] = study.references
    held = Scores(ROWS, LEVELS, correct, references=references)  # type: ignore[arg-type]
    whole = Scores(ROWS, LEVELS, correct, references=references, differences=held)  # type: ignore[arg-type]
    gains = gain_samples(whole, SPECIFIC, draw(whole, Bootstrap(), spread_of([held])))
    found = {row: estimate(gains[row], Bootstrap().confidence) for row in ROWS}
    return {row: (one.value or 0.0, (one.high or 0.0) - (one.value or 0.0)) for row, one in found.items()}


def several_images(study: PairingStudy) -> Iterator[list[str]]:
    """Yield for each row its standard error over images by the number of pairings, and the board's half widths."""
    boards = {count: board_intervals(study, answered, count) for count in (1, 2, 4, 8)}
    for row in ROWS:
        gains, errors = area(study.differences(row, answered)), []
        for count in (1, 2, 4, 8):
            parts = [study.error(gains[:, first : first + count].mean((0, 1))) for first in range(0, 8, count)]
            errors.append((np.mean([value for value, _ in parts]), np.mean([drawn for _, drawn in parts], axis=0)))
        (one, one_drawn), *more = errors
        ratios = [study.ratio(float(np.sqrt(value / one)), np.sqrt(drawn / one_drawn)) for value, drawn in more]
        yield [row, f"{np.sqrt(one):.2f}", *ratios, *(f"{boards[count][row][1]:.2f}" for count in (1, 2, 4, 8))]


def by_class(study: PairingStudy) -> Iterator[list[str]]:
    """Yield for each row the gain against any image's map, other classes', the same class's and the own mirrored."""
    for row in ROWS:
        gains = area(study.differences(row, answered))
        same = study.same_class
        cells = [study.mean(gains.mean((0, 1)))]
        for chosen in (~same, same):
            cells.append(study.mean((gains * chosen).sum((0, 1)), chosen.sum((0, 1)).astype(np.float32)))
        own, mirrored = (answered(study.probabilities(row, kind), study.labels) for kind in ("own", "mirrored"))
        cells.append(study.mean(area(np.float32(POINTS) * (mirrored - own)[:, None]).mean((0, 1))))
        yield [row, *cells, *pull(study, row)]


def pull(study: PairingStudy, row: str) -> Iterator[str]:
    """Yield by level how far a mask draws the answer to *another* image towards the class of the mask's own image.

    Probability of that class with this mask, minus that with the masks of images of other classes on the same image.
    """
    probabilities = study.probabilities(row, "others").astype(np.float32)
    sums = np.zeros((len(LEVELS), len(study.labels)), np.float32)
    counts = np.zeros(len(study.labels), np.float32)
    for network, seed in enumerate(study.seeds):
        owners = study.labels[np.stack(pairings(len(study.labels), seed, 8))]
        for number, owner in enumerate(owners):
            beside = (owner != study.labels) & (owners != owner) & (owners != study.labels)
            used = beside.any(0)
            index = np.broadcast_to(owner[None, None, :, None], (*probabilities.shape[1:4], 1))
            said = np.take_along_axis(probabilities[network], index, -1)[..., 0]  # (levels, pairings, n)
            base = (said * beside).sum(1) / np.maximum(beside.sum(0), 1)
            sums += np.where(used, POINTS * (said[:, number] - base), 0).astype(np.float32)
            counts += used
    yield from (study.mean(level, counts) for level in sums)


def soft(study: PairingStudy) -> Iterator[list[str]]:
    """Yield for each row the gain in answers and in probability, and how much more the latter tells of a difference.

    How much more: the squared ratio of gain to standard error over images, one pairing each.
    """
    boards = [board_intervals(study, measure, 1) for measure in (answered, likelihood)]
    for row in ROWS:
        values, drawn, cells = [], [], []
        for measure in (answered, likelihood):
            gains = area(study.differences(row, measure))[:, 0].mean(0)
            error, error_drawn = study.error(gains)
            values.append(gains.mean() ** 2 / error)
            drawn.append((study.draws @ gains) ** 2 / error_drawn)
            cells += [study.mean(gains)]
        more = study.ratio(float(values[1] / values[0]), drawn[1] / drawn[0])
        known = abs(boards[0][row][0]) > FEWEST
        ends = [f"{signed(board[row][0])} ± {board[row][1]:.2f}" for board in boards]
        yield [row, *cells, more if known else "", *ends]


def few_levels(study: PairingStudy) -> Iterator[list[str]]:
    """Yield what a few levels tell, beside five: power over images, and how far their gain is from that of five."""
    lost = {row: study.differences(row, answered, PAPER_LEVELS)[:, :1] for row in ROWS}
    whole = {row: area(lost[row], PAPER_LEVELS).mean((0, 1)) for row in ROWS}
    known = [row for row in ROWS if abs(whole[row].mean()) > FEWEST]

    def power(gains: dict[str, Floats]) -> tuple[float, Floats]:
        squares, drawn = [], []
        for row in known:
            error, error_drawn = study.error(gains[row])
            squares.append(gains[row].mean() ** 2 / error)
            drawn.append((study.draws @ gains[row]) ** 2 / error_drawn)
        return float(np.exp(np.mean(np.log(squares)))), np.exp(np.mean(np.log(drawn), axis=0))

    most, most_drawn = power(whole)
    for count in (2, 3):
        for chosen in combinations(range(len(PAPER_LEVELS)), count):
            levels = [PAPER_LEVELS[index] for index in chosen]
            gains = {row: area(lost[row][:, :, list(chosen)], levels).mean((0, 1)) for row in ROWS}
            value, drawn = power(gains)
            off = float(np.sqrt(np.mean([(gains[row].mean() - whole[row].mean()) ** 2 for row in ROWS])))
            ratio = study.ratio(value / most, drawn / most_drawn)
            yield [", ".join(f"{t:g}" for t in levels), ratio, f"{off:.2f}"]


def spread(store: Path) -> Iterator[list[str]]:
    """Yield for each row how its gain varies from network to network, and how much of that is finitely many images.

    Over the first run in a store and its replications, each network with references, trainings and pairings of its own.
    """
    suite, held = find_suite("quick@2"), []
    with ResultsStore.open(default_url(store), read_only=True) as results:
        for number in range(RUNS):
            scores = collect(replace(suite, replication=number), results).scores(SPECIFIC, Unit.SCALAR)
            if scores and scores.differences:
                held.append(scores.differences.correct)
    weights = area_weights((0.0, *LEVELS))[1:]
    for row in ROWS:
        whole = [bits for bits in held if all((row, t) in bits for t in LEVELS)]
        gains = np.concatenate(
            [
                -POINTS * sum(w * bits[row, t].astype(np.float64) for w, t in zip(weights, LEVELS, strict=True))
                for bits in whole
            ]
        )
        freedom = len(gains) - 1
        between, images = squares(gains) / freedom
        yield [row, str(len(gains)), signed(float(gains.mean())), f"{between:.2f}", f"{images:.2f}"]


def tables(study: PairingStudy, store: Path) -> Iterator[str]:
    """Yield the tables, with a heading each."""
    yield "Spread"
    yield markdown_table(["row", "networks", "gain", "variance between networks", "of it images"], spread(store))
    ratios, halves = (f"{count} beside 1" for count in (2, 4, 8)), (f"board of {count}" for count in (1, 2, 4, 8))
    yield "Several other images"
    yield markdown_table(["row", "error of 1", *ratios, *halves], several_images(study))
    yield "Other images' classes"
    heads = ["row", "any class", "other classes", "same class", "own, mirrored", *(f"pull t={t:g}" for t in LEVELS)]
    yield markdown_table(heads, by_class(study))
    yield "Probability of the right class"
    heads = ["row", "answers", "probability", "power of the latter", "board: answers", "board: probability"]
    yield markdown_table(heads, soft(study))
    if AnsweredCell(ROWS[0], study.seeds[-1], 0.3).file(study.folder).exists():
        yield "Few levels"
        yield markdown_table(["levels", "power beside five", "off by"], few_levels(study))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2")
    arguments = parser.parse_args()
    context = study_context(arguments.store)
    seeds = tuple(int(seed) for seed in arguments.seeds.split(","))
    numbers = [context.suite.reference_number(seed) for seed in seeds]
    references = tuple(context.explaining(number).reference.key for number in numbers)
    labels = context.data.test.labels.astype(np.int64)
    print("\n\n".join(tables(PairingStudy(arguments.out, labels, seeds, references), arguments.store)))


if __name__ == "__main__":
    main()

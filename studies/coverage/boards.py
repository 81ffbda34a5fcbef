"""Boards whose truth is known, on which courses are tried: synthetic ones, and networks drawn from stored answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.collecting import collect
from roarbench.estimators import CONTROLS
from roarbench.plan.suite import Suite
from roarbench.plan.suites import find_suite
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.stats.board import Board
from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import UNTOUCHED, Bits, Point, Scores, area_weights
from roarbench.stats.draws import Draws, draw
from roarbench.stats.judging import board_of, spread_for
from roarbench.stats.spread import Spread, spread_of
from roarbench.stats.verdicts import Verdict
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Unit
from studies.coverage import specific
from studies.coverage.worlds import World, experiment, gains_of, setting, truth

QUICK = find_suite("quick")
MOST = 5  # trainings of a row, and looks
RESAMPLES = 500
CHANCES = 4  # sets of draws that the courses take in turn


class Truth(NamedTuple):
    """Truth of a world.

    Attributes:
        signs: By row and control, +1 where the row is better, -1 where it is worse, 0 where they are equal.
        counted: Those of them that power is counted over: the differences of interest.
    """

    signs: Mapping[tuple[str, str], int]
    counted: frozenset[tuple[str, str]]


class Example(NamedTuple):
    """Five trainings of every row, and what is true of them.

    Attributes:
        scores: Answers of all rows.
        protocol: The question.
        truth: Of the rows that are judged.
        judged: Those rows; the others have their five trainings when the course begins.
    """

    scores: Scores
    protocol: Protocol
    truth: Truth
    judged: tuple[str, ...]


Drawing = Callable[[np.random.Generator], Example]


def truth_of(gains: Mapping[str, float], interest: float) -> Truth:
    """Return the signs of differences of these gains, and those differences that are of interest."""
    apart = {(name, control): gains[name] - gains[control] for name in gains for control in CONTROLS if name != control}
    signs = {key: 0 if abs(size) < 1e-9 else int(np.sign(size)) for key, size in apart.items()}
    return Truth(signs, frozenset(key for key, size in apart.items() if abs(size) >= interest))


def words(judged: Board) -> Iterator[tuple[tuple[str, str], Verdict]]:
    """Yield row, control and verdict of all comparisons."""
    for row in judged.rows:
        for control, found in zip(CONTROLS, (row.random, row.sobel, row.random_blurred), strict=True):
            if found:
                yield (row.estimator, control), found.verdict


def part(scores: Scores, seeds: Mapping[str, int]) -> Scores:
    """Return the first trainings of each row; of untouched images the most that any row has."""
    most = max(seeds.values())

    def cut(each: Scores) -> Scores:
        counts = {point: most if point == UNTOUCHED else seeds[point[0]] for point in each.correct}
        correct: dict[Point, Bits] = {point: bits[: counts[point]] for point, bits in each.correct.items()}
        names = {point: held[: counts[point]] for point, held in each.references.items()}
        return replace(each, correct=correct, references=names, differences=None)

    return replace(cut(scores), differences=cut(scores.differences) if scores.differences else None)


class Looks:
    """Boards of an example after so many trainings of each row; what they are made from is drawn once."""

    def __init__(self, example: Example, number: int) -> None:
        self.example, self._bootstrap = example, Bootstrap(RESAMPLES, seed=number % CHANCES)
        self._drawn: dict[tuple[int, ...], tuple[Scores, Spread | None, Draws]] = {}

    def board(self, seeds: Mapping[str, int], watched: Mapping[str, int]) -> Board:
        """Judge as `table` does, with fewer draws."""
        asked = tuple(seeds.values())
        if asked not in self._drawn:
            scores = part(self.example.scores, seeds)
            spread = spread_for(self.example.protocol, spread_of([scores.differences or scores]))
            self._drawn[asked] = scores, spread, draw(scores, self._bootstrap, spread)
        scores, spread, draws = self._drawn[asked]
        return board_of(replace(scores, watched=watched), self.example.protocol, self._bootstrap, spread, draws)


def newcomer(made: Drawing) -> Drawing:
    """Return what draws the same boards where one explained row is judged, beside others that are done."""

    def drawn(generator: np.random.Generator) -> Example:
        example = made(generator)
        explained = sorted({name for name, _ in example.scores.references})
        name = explained[int(generator.integers(len(explained)))]
        signs = {key: sign for key, sign in example.truth.signs.items() if key[0] == name}
        known = Truth(signs, frozenset(key for key in example.truth.counted if key[0] == name))
        return example._replace(truth=known, judged=(name,))

    return drawn


def synthetic_roar(world: World, interest: float) -> Drawing:
    """Return what draws boards of ROAR."""
    known = truth_of(gains_of(world, truth(world)), interest)

    def drawn(generator: np.random.Generator) -> Example:
        scores = experiment(world, setting(world, generator), generator).scores
        return Example(scores, ROAR, known, scores.estimators)

    return drawn


def synthetic_specific(world: specific.SpecificWorld, interest: float) -> Drawing:
    """Return what draws boards of specific gain."""
    share = float(area_weights((0.0, *specific.LEVELS))[1:].sum())
    known = truth_of({name: share * gain for name, gain in (specific.CONTROLS | specific.EXPLAINED).items()}, interest)

    def drawn(generator: np.random.Generator) -> Example:
        scores = specific.experiment(world, generator)
        return Example(scores, SPECIFIC, known, scores.estimators)

    return drawn


def stored(store: Path, protocol: Protocol) -> Drawing:
    """Return what draws five networks of `quick` and its replications; all together are taken for the truth.

    What is open with all networks is known to nobody: no word on it is wrong.
    """
    whole = together(store, protocol)
    meant = {Verdict.BETTER: 1, Verdict.WORSE: -1}
    count = len(whole.correct[UNTOUCHED])
    looks = Looks(Example(whole, protocol, Truth({}, frozenset()), whole.estimators), 0)
    said = words(looks.board(dict.fromkeys(whole.estimators, count), dict.fromkeys(whole.estimators, 1)))
    signs = {key: meant[verdict] for key, verdict in said if verdict in meant}
    known = Truth(signs, frozenset(signs))

    def drawn(generator: np.random.Generator) -> Example:
        chosen = generator.permutation(count)[:MOST]
        scores = networks_of(whole, chosen)
        return Example(scores, protocol, known, scores.estimators)

    return drawn


def networks_of(scores: Scores, chosen: NDArray[np.int64]) -> Scores:
    """Return the board of these networks alone."""
    differences = networks_of(scores.differences, chosen) if scores.differences else None
    correct: dict[Point, Bits] = {point: bits[chosen] for point, bits in scores.correct.items()}
    names = {point: tuple(held[k] for k in chosen) for point, held in scores.references.items()}
    return replace(scores, correct=correct, references=names, differences=differences)


def together(store: Path, protocol: Protocol, suite: Suite = QUICK) -> Scores:
    """Return a suite and its replications as one board: the rows that have a training by every network."""
    with ResultsStore.open(default_url(store), read_only=True) as results:
        held = [collect(replace(suite, replication=number), results) for number in range(10)]
    scores = [each for one in held if (each := one.scores(protocol, Unit.SCALAR)) and each.correct]
    scores = [each for each in scores if each.complete("random")]
    joined = _joined(scores)
    differences = [each.differences for each in scores if each.differences]
    return replace(joined, differences=_joined(differences) if differences else None)


def _joined(scores: Sequence[Scores]) -> Scores:
    first = scores[0]
    count = sum(len(each.correct["random", first.levels[0]]) for each in scores)
    shared = [point for point in first.correct if all(point in each.correct for each in scores)]
    joined = {point: np.concatenate([each.correct[point] for each in scores]) for point in shared}
    correct: dict[Point, Bits] = {point: bits for point, bits in joined.items() if len(bits) == count}
    rows = tuple(name for name in first.estimators if all((name, t) in correct for t in first.levels))
    names = {p: tuple(name for each in scores for name in each.references[p]) for p in first.references if p in correct}
    return replace(first, estimators=rows, correct=correct, references=names, mixed=frozenset(), differences=None)

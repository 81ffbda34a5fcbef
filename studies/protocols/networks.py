"""Boards of some of the networks that a suite and its replications have: what a cheaper run would have said."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.collecting import collect
from roarbench.analysis.course import next_seeds
from roarbench.estimators import CONTROLS
from roarbench.plan.suite import Suite
from roarbench.protocols.declaration import Protocol
from roarbench.stats.board import Board
from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import UNTOUCHED, Bits, Point, Scores
from roarbench.stats.draws import Draws, draw
from roarbench.stats.judging import board_of, spread_for
from roarbench.stats.spread import Spread, spread_of
from roarbench.stats.verdicts import Verdict
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Unit

RESAMPLES = 500
CHANCES = 4  # sets of draws that the boards take in turn


def together(store: Path, protocol: Protocol, suite: Suite) -> Scores:
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


def networks_of(scores: Scores, chosen: NDArray[np.int64]) -> Scores:
    """Return the board of these networks alone."""
    differences = networks_of(scores.differences, chosen) if scores.differences else None
    correct: dict[Point, Bits] = {point: bits[chosen] for point, bits in scores.correct.items()}
    names = {point: tuple(held[k] for k in chosen) for point, held in scores.references.items()}
    return replace(scores, correct=correct, references=names, differences=differences)


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
    """Boards after so many trainings of each row; what they are made from is drawn once."""

    def __init__(self, scores: Scores, protocol: Protocol, number: int) -> None:
        self._scores, self._protocol = scores, protocol
        self._bootstrap = Bootstrap(RESAMPLES, seed=number % CHANCES)
        self._drawn: dict[tuple[int, ...], tuple[Scores, Spread | None, Draws]] = {}

    def fixed(self, count: int) -> Board:
        """Judge once, after so many trainings of every row."""
        return self._board(dict.fromkeys(self._scores.estimators, count), {})

    def until_decided(self, difference: float, most: int) -> tuple[Board, dict[str, int]]:
        """Train where verdicts are open, as `run --until-decided` does; return the last board, and what rows have."""
        planned = dict.fromkeys(self._scores.estimators, most)
        seeds = dict.fromkeys(self._scores.estimators, 1)
        while True:
            judged = self._board(seeds, planned)
            goals = next_seeds(judged, planned, difference)
            if not goals:
                return judged, seeds
            seeds |= goals

    def _board(self, seeds: Mapping[str, int], watched: Mapping[str, int]) -> Board:
        """Judge as `table` does, with fewer draws."""
        asked = tuple(seeds.values())
        if asked not in self._drawn:
            scores = part(self._scores, seeds)
            spread = spread_for(self._protocol, spread_of([scores.differences or scores]))
            self._drawn[asked] = scores, spread, draw(scores, self._bootstrap, spread)
        scores, spread, draws = self._drawn[asked]
        return board_of(replace(scores, watched=watched), self._protocol, self._bootstrap, spread, draws)


def beside_random(judged: Board) -> Iterator[tuple[str, Verdict]]:
    """Yield the rows that explain a network with their verdicts beside Random."""
    for row in judged.rows:
        if row.estimator not in CONTROLS and row.random:
            yield row.estimator, row.random.verdict

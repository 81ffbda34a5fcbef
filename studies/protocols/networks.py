"""Boards of some of the networks that a suite and its replications have: what a cheaper run would have said."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.sequential import next_seeds
from roarbench.enums import Unit
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.suite import SuiteSpec
from roarbench.protocols.protocol import Protocol
from roarbench.stats.board import RANDOM, Board
from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.compute_board import compute_drawn_board
from roarbench.stats.curves import UNTOUCHED, Bits, Correctness, Point
from roarbench.stats.resampling import Draws, draw
from roarbench.stats.sampled_gains import spread_for
from roarbench.stats.variance_components import Spread, spread_of
from roarbench.stats.verdicts import Verdict
from studies.page import opened, runs

RESAMPLES = 500
CHANCES = 4  # sets of draws that the boards take in turn
Chosen = Callable[[Point, Sequence[str]], slice | NDArray[np.generic]]  # of a point and its references, if it has any


def some(scores: Correctness, chosen: Chosen) -> Correctness:
    """Return the answers of some of each point's networks, those at the places that are chosen."""
    correct: dict[Point, Bits] = {
        point: bits[chosen(point, scores.references.get(point, ()))] for point, bits in scores.correct.items()
    }
    names = {point: tuple(np.array(held)[chosen(point, held)].tolist()) for point, held in scores.references.items()}
    differences = scores.differences and some(scores.differences, chosen)
    return replace(scores, correct=correct, references=names, differences=differences)


def together(store: Path, protocol: Protocol, suite: SuiteSpec) -> Correctness:
    """Return a suite and its replications as one board: the rows that have a training by every network."""
    with opened(store) as results:
        held = [each for run in runs(suite, results) if (each := run.scores(protocol, Unit.SCALAR))]
    scores = [each for each in held if each.complete(RANDOM)]
    differences = [each.differences for each in scores if each.differences]
    return replace(_joined(scores), differences=_joined(differences) if differences else None)


def _joined(scores: Sequence[Correctness]) -> Correctness:
    first = scores[0]
    shared = [point for point in first.correct if all(point in each.correct for each in scores)]
    joined = {point: np.concatenate([each.correct[point] for each in scores]) for point in shared}
    count = len(joined[RANDOM, first.levels[0]])
    correct: dict[Point, Bits] = {point: bits for point, bits in joined.items() if len(bits) == count}
    rows = tuple(name for name in first.estimators if all((name, t) in correct for t in first.levels))
    names = {p: tuple(name for each in scores for name in each.references[p]) for p in first.references if p in correct}
    return replace(
        first, estimators=rows, correct=correct, references=names, inconsistent=frozenset(), differences=None
    )


class Looks:
    """Boards after so many trainings of each row; what they are made from is drawn once."""

    def __init__(self, scores: Correctness, protocol: Protocol, number: int) -> None:
        self._scores, self._protocol = scores, protocol
        self._bootstrap = Bootstrap(RESAMPLES, seed=number % CHANCES)
        self._drawn: dict[tuple[int, ...], tuple[Correctness, Spread | None, Draws]] = {}

    def fixed(self, count: int) -> tuple[Board, dict[str, int]]:
        """Judge once, after so many trainings of every row; return the board, and what rows have."""
        seeds = dict.fromkeys(self._scores.estimators, count)
        return self._board(seeds, {}), seeds

    def until_decided(self, difference: float, most: int) -> tuple[Board, dict[str, int]]:
        """Train where verdicts are open, as `run --stop-early` does; return the last board, and what rows have."""
        planned = dict.fromkeys(self._scores.estimators, most)
        seeds = dict.fromkeys(self._scores.estimators, 1)
        while True:
            judged = self._board(seeds, planned)
            goals = next_seeds(judged, planned, difference)
            if not goals:
                return judged, seeds
            seeds |= goals

    def _board(self, seeds: Mapping[str, int], watched: Mapping[str, int]) -> Board:
        """Judge the first trainings of each row as `table` does, with fewer draws; untouched, the most of any row."""
        asked = tuple(seeds.values())
        if asked not in self._drawn:
            counts = {**seeds, UNTOUCHED[0]: max(asked)}
            scores = some(self._scores, lambda point, _: slice(counts[point[0]]))
            spread = spread_for(self._protocol, spread_of([scores.differences or scores]))
            self._drawn[asked] = scores, spread, draw(scores, self._bootstrap, spread)
        scores, spread, draws = self._drawn[asked]
        return compute_drawn_board(replace(scores, watched=watched), self._protocol, self._bootstrap, spread, draws)


def beside_random(judged: Board) -> dict[str, Verdict]:
    """Return the verdicts beside Random of the rows that explain a network."""
    return {row.estimator: row.random.verdict for row in judged.rows if row.estimator not in CONTROLS and row.random}

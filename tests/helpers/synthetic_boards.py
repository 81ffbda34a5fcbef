"""Boards of made-up answers, and their rows."""

import numpy as np

from roarbench.stats.board_records import Board, Row
from roarbench.stats.bootstrap_intervals import Bootstrap
from roarbench.stats.correctness_and_gain import UNTOUCHED, Bits, Correctness, Point

IMAGES = 600
BOOTSTRAP = Bootstrap(400, seed=3)
STRENGTHS = {"random": 0.0, "sobel": 0.4, "good": 1.5, "bad": -1.2, "same": 0.0, "weak": 0.15}
MAIN = ("random", "sobel", "good", "bad", "same")


def synthetic(seeds: int, names: tuple[str, ...] = MAIN, levels: tuple[float, ...] = (0.5, 0.9)) -> Correctness:
    """A board on which `good` falls fastest and `bad` slowest; every cell has its own luck."""
    difficulty = np.random.default_rng(0).normal(size=IMAGES)
    correct: dict[Point, Bits] = {}
    for point in (UNTOUCHED, *((name, t) for name in names for t in levels)):
        name, t = point
        generator = np.random.default_rng([ord(letter) for letter in name] + [round(100 * t)])
        hidden = difficulty + 0.5 * generator.normal(size=(seeds, IMAGES)) + 0.03 * generator.normal(size=(seeds, 1))
        correct[point] = hidden > -1.0 + t * (1 + STRENGTHS.get(name, 0.0))
    return Correctness(names, levels, correct)


def row(judged: Board, name: str) -> Row:
    return next(one for one in judged.rows if one.estimator == name)

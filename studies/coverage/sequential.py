"""How many trainings does `run --until-decided` take, and how often is it wrong? Against five fixed ones.

    python -m studies.coverage.sequential [--boards 400] [--seed 0] [--difference 2] [--store DIR]

Courses on synthetic boards whose truth is known (the worlds of `run.py` and `specific.py`) and,
with a store that has `quick` and its replications (`roarbench import results --store DIR`), on stored
answers: each course draws five of the networks in a chance order, and what all of them say together is taken for the
truth. A course judges all rows from their first training on, or one newcomer beside rows that have their five.

Prints for each world and rule, with standard errors: courses with any wrong "better" or "worse" at any look; the share
of the true differences from Random, and from all controls, that are found in the end; and how many times fewer
trainings than five for each row it took.
"""

import argparse
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from roarbench.analysis.course import ASKED, next_seeds
from roarbench.estimators import CONTROLS
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.stats.board import RANDOM, Board
from roarbench.stats.verdicts import Verdict
from roarbench.text import markdown_table
from studies.coverage.boards import (
    MOST,
    Drawing,
    Example,
    Looks,
    Truth,
    newcomer,
    stored,
    synthetic_roar,
    synthetic_specific,
    words,
)
from studies.coverage.run import share_images
from studies.coverage.specific import SpecificWorld
from studies.coverage.worlds import DROPS, World

Share = Callable[[Any, str], float]  # in place of `_Judge.share`


def by_power(exponent: float) -> Share:
    """Return how a course spends its error: by this power of the share of its trainings; 1 is what boards do."""

    def share(judge: Any, estimator: str) -> float:
        looks: int = judge.scores.watched.get(estimator, 0)
        if not looks:
            return 1.0
        seeds = len(judge.scores.correct[estimator, judge.scores.levels[0]])
        return float((seeds / looks) ** exponent - ((seeds - 1) / looks) ** exponent)

    return share


RULES: dict[str, tuple[Share, tuple[str, ...]]] = {  # how the error is spent, and which controls keep a row open
    "no allowance": (lambda judge, estimator: 1.0, ASKED),
    "equal shares": (by_power(1.0), ASKED),
    "rising shares (2)": (by_power(2.0), ASKED),
    "rising shares (3)": (by_power(3.0), ASKED),
    "equal shares, all controls": (by_power(1.0), CONTROLS),
}


class Course(NamedTuple):
    """One course at its end.

    Attributes:
        wrong: Whether any word at any look was wrong.
        beside_random: Share of the counted differences from Random that have the right word at the end, in [0, 1].
        found: The same of all counted differences.
        trainings: Of the rows that are judged, each in those of five fixed ones.
    """

    wrong: float
    beside_random: float
    found: float
    trainings: float


def wrong(judged: Board, known: Truth) -> bool:
    """Return whether any word of a board is wrong."""
    meant = {Verdict.BETTER: 1, Verdict.WORSE: -1}
    said = ((meant[verdict], known.signs.get(key)) for key, verdict in words(judged) if verdict in meant)
    return any(sign is not None and word != sign for word, sign in said)


def found(judged: Board, known: Truth, controls: Collection[str] = CONTROLS) -> float:
    """Return the share of the counted differences from these controls that have the right word; 1 without any."""
    meant = {1: Verdict.BETTER, -1: Verdict.WORSE}
    said = dict(words(judged))
    held = [said.get(key) is meant[known.signs[key]] for key in known.counted if key[1] in controls]
    return float(np.mean(held)) if held else 1.0


def fixed(looks: Looks, holm: bool) -> Course:
    """Judge once, after all trainings; by the rule of ordinary boards or by one that allows 5% of any wrong word."""
    example = looks.example
    watched = dict.fromkeys(example.judged, 1) if holm else {}
    judged = looks.board(dict.fromkeys(example.scores.estimators, MOST), watched)
    return _course(judged, example, wrong(judged, example.truth), MOST * len(example.judged))


class Ended(NamedTuple):
    """End of a course.

    Attributes:
        board: The last one.
        seeds: Trainings of each row.
        wrong: Whether any word at any look was wrong.
    """

    board: Board
    seeds: dict[str, int]
    wrong: bool


def until_decided(looks: Looks, difference: float | None, controls: Collection[str] = ASKED, most: int = MOST) -> Ended:
    """Train where verdicts are open, as `run --until-decided` does, up to the most trainings of a row."""
    example, erred = looks.example, False
    planned = dict.fromkeys(example.judged, most)
    seeds = dict.fromkeys(example.scores.estimators, most) | dict.fromkeys(example.judged, 1)
    while True:
        judged = looks.board(seeds, planned)
        erred |= wrong(judged, example.truth)
        goals = next_seeds(judged, planned, difference, controls)
        if not goals:
            return Ended(judged, seeds, erred)
        seeds |= goals


def _course(judged: Board, example: Example, erred: bool, trainings: int) -> Course:
    ends = found(judged, example.truth, (RANDOM,)), found(judged, example.truth)
    return Course(erred, *ends, trainings / (MOST * len(example.judged)))


def courses(world: Drawing, number: int, seed: int, difference: float | None) -> dict[str, Course]:
    """Return how one board's course ends by each rule."""
    looks = Looks(world(np.random.default_rng([seed, number])), number)
    ended = {
        "five fixed, ordinary board": fixed(looks, holm=False),
        "five fixed, 5% of any wrong": fixed(looks, holm=True),
    }
    for name, (rule, controls) in RULES.items():
        with patch("roarbench.stats.judging._Judge.share", rule):
            end = until_decided(looks, difference, controls)
        trainings = sum(end.seeds[row] for row in looks.example.judged)
        ended[name] = _course(end.board, looks.example, end.wrong, trainings)
    return ended


def lines(name: str, world: Drawing, boards: int, seed: int, difference: float | None) -> Iterator[list[str]]:
    """Yield a line of the table for each rule: means over the boards, with standard errors."""
    ended = [courses(world, number, seed, difference) for number in range(boards)]
    for rule in ended[0]:
        made = np.array([each[rule] for each in ended])
        means, errors = made.mean(0), made.std(0) / np.sqrt(boards)
        shares = [f"{100 * means[k]:.1f} ± {100 * errors[k]:.1f}" for k in range(3)]
        yield [name, rule, *shares, f"{1 / means[3]:.2f} ± {errors[3] / means[3] ** 2:.2f}"]


def worlds_of(interest: float, store: Path | None) -> dict[str, Drawing]:
    """Return the worlds by name; beside those that have one, the same with a newcomer."""
    far = tuple(2 * drop for drop in DROPS)
    made = {
        "ROAR, rows 1 to 6 points apart": synthetic_roar(World("", MOST, 1, of_trainings=(0.3, 1.0)), interest),
        "ROAR, rows 2 to 12 points apart": synthetic_roar(World("", MOST, 1, far, of_trainings=(0.3, 1.0)), interest),
        "ROAR, all rows equal": synthetic_roar(World("", MOST, 1, (0.0,) * 9), interest),
        "specific": synthetic_specific(SpecificWorld("", MOST), interest),
        "specific, lucky networks": synthetic_specific(SpecificWorld("", MOST, luck=4.0), interest),
    }
    if store:
        made |= {f"stored, {protocol.name}": stored(store, protocol) for protocol in (ROAR, SPECIFIC)}
    return made | {f"{name}, a newcomer": newcomer(world) for name, world in made.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--difference", type=float, help="smallest difference of interest, in accuracy points")
    parser.add_argument("--store", type=Path, help="a store with `quick` and its replications")
    parser.add_argument("--world", default="", help="only those whose name begins so")
    options = parser.parse_args()
    share_images()
    worlds = worlds_of(1.0 if options.difference is None else options.difference, options.store)
    asked = {name: world for name, world in worlds.items() if name.startswith(options.world)}
    rows = [row for name in asked for row in lines(name, asked[name], options.boards, options.seed, options.difference)]
    found = ("found beside Random, %", "beside all controls, %")
    print(markdown_table(["world", "rule", "any wrong word, %", *found, "times fewer trainings"], rows))


if __name__ == "__main__":
    main()

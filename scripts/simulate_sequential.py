"""How many trainings does `run --until-decided` take, and how often is it wrong? Against five fixed ones.

    python scripts/simulate_sequential.py [--boards 400] [--seed 0] [--difference 2] [--store DIR]

Courses on synthetic boards whose truth is known (the worlds of `simulate_coverage.py` and `simulate_specific.py`) and,
with a store that has `quick` and its replications (`roarbench import docs/quick-2.parquet --store DIR`), on stored
answers: each course draws five of the networks in a chance order, and what all of them say together is taken for the
truth. A course judges all rows from their first training on, or one newcomer beside rows that have their five.

Prints for each world and rule, with standard errors: courses with any wrong "better" or "worse" at any look; the share
of the true differences from Random, and from all controls, that are found in the end; and how many times fewer
trainings than five for each row it took.
"""

import argparse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from simulate_coverage import DROPS, World, experiment, gains_of, setting, share_images, truth
from simulate_specific import CONTROLS as SPECIFIC_CONTROLS
from simulate_specific import EXPLAINED, SpecificWorld
from simulate_specific import LEVELS as SPECIFIC_LEVELS
from simulate_specific import experiment as specific_experiment

from roarbench.analysis.collecting import collect
from roarbench.analysis.course import ASKED, next_seeds
from roarbench.estimators import CONTROLS
from roarbench.plan.suite import Suite
from roarbench.plan.suites import find_suite
from roarbench.stats.board import RANDOM, Board
from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import UNTOUCHED, Bits, Point, Scores, area_weights
from roarbench.stats.draws import Draws, draw
from roarbench.stats.judging import board_of, spread_for
from roarbench.stats.spread import Spread, spread_of
from roarbench.stats.verdicts import Verdict
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import ROAR, SPECIFIC, Protocol, Unit
from roarbench.text import markdown_table

QUICK = find_suite("quick")
MOST = 5  # trainings of a row, and looks
RESAMPLES = 500
CHANCES = 4  # sets of draws that the courses take in turn
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


class Truth(NamedTuple):
    """Truth of a world.

    Attributes:
        signs: By row and control, +1 where the row is better, -1 where it is worse, 0 where they are equal.
        counted: Those of them that power is counted over: the differences of interest.
    """

    signs: Mapping[tuple[str, str], int]
    counted: frozenset[tuple[str, str]]


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


def synthetic_specific(world: SpecificWorld, interest: float) -> Drawing:
    """Return what draws boards of specific gain."""
    share = float(area_weights((0.0, *SPECIFIC_LEVELS))[1:].sum())
    known = truth_of({name: share * gain for name, gain in (SPECIFIC_CONTROLS | EXPLAINED).items()}, interest)

    def drawn(generator: np.random.Generator) -> Example:
        scores = specific_experiment(world, generator)
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

"""The board: gains, verdicts and places of all estimators under one protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from roarbench.estimators import CONTROLS
from roarbench.stats.bootstrap import Bootstrap, Draws, Estimate, Sample, SeedSpread, draw, estimate, seed_spread
from roarbench.stats.curves import POINTS, UNTOUCHED, Scores, gain
from roarbench.stats.pairs import Pairs
from roarbench.stats.places import Place, place_intervals, places
from roarbench.stats.verdicts import Comparison, compare, detectable
from roarbench.terms import Protocol, Retrain

RANDOM, SOBEL, BLURRED = CONTROLS


class Covers(StrEnum):
    """What may be repeated, and the intervals still hold the truth as often as they say."""

    IMAGES = "images"  # the choice of test images; nothing was trained
    BOTH = "images and seeds"  # the choice of test images and the trainings
    NOTHING = "nothing"  # one training per cell: there are no intervals


@dataclass(frozen=True)
class Row:
    """One estimator.

    Attributes:
        estimator: Its id.
        seeds: Fewest seeds in a cell of its curve; 0 where one is missing.
        clean: Accuracy on untouched images, in [0, 1].
        accuracies: Per level, in [0, 1].
        differences: Per level, its accuracy minus Random's, in [-1, 1].
        gain: In accuracy points.
        over_sobel: Its gain minus Sobel's, in accuracy points.
        random, sobel, random_blurred: The comparisons with the controls; None with the control itself, of a check,
            without intervals or where a gain is missing.
        place: None of a check and where the gain is missing.
        check: It is a check of another row, and changes no verdict and no place.
    """

    estimator: str
    seeds: int
    clean: Estimate
    accuracies: tuple[Estimate, ...]
    differences: tuple[Estimate, ...]
    gain: Estimate
    over_sobel: Estimate
    random: Comparison | None
    sobel: Comparison | None
    random_blurred: Comparison | None
    place: Place | None
    check: bool = False


@dataclass(frozen=True)
class Board:
    """All rows of one protocol with what is needed to judge them.

    Attributes:
        protocol: The question.
        levels: Levels above 0.
        rows: In the order of the scores.
        images: Number of test images.
        bootstrap: Resamples, seed and confidence of every interval here.
        covers: What the intervals cover.
        detectable: Smallest true difference of two gains, in accuracy points, that one comparison planned
            beforehand finds with a chance of 80%; the median over the pairs of the board. None without intervals.
        seed_deviation: Standard deviation of an accuracy over trainings, in accuracy points; None if not known.
        seed_freedom: Degrees of freedom that it was estimated from.
    """

    protocol: Protocol
    levels: tuple[float, ...]
    rows: tuple[Row, ...]
    images: int
    bootstrap: Bootstrap
    covers: Covers
    detectable: float | None
    seed_deviation: float | None
    seed_freedom: int


def board(
    scores: Scores, protocol: Protocol, bootstrap: Bootstrap | None = None, spread: SeedSpread | None = None
) -> Board:
    """Judge all estimators of one protocol.

    Args:
        scores: Their correct answers.
        protocol: Its order says which curve is better, its network whether trainings vary.
        bootstrap: How often and from which seed; 2000 draws from seed 0 if not given.
        spread: How trainings vary, where more cells than these are known (all rows of a board of which some are
            shown, or ROAR's where KAR has one seed); from `scores` if not given.
    """
    bootstrap = bootstrap or Bootstrap()
    spread = (spread or seed_spread([scores])) if protocol.retrain is not Retrain.NONE else None
    return board_of(scores, protocol, bootstrap, spread, draw(scores, bootstrap, spread))


def board_of(
    scores: Scores, protocol: Protocol, bootstrap: Bootstrap, spread: SeedSpread | None, draws: Draws
) -> Board:
    """Judge all estimators of one protocol by draws that are there already.

    Args:
        scores: Their correct answers.
        protocol: Its order says which curve is better, its network whether trainings vary.
        bootstrap: What the draws were made with.
        spread: The same; None where nothing is trained or nothing says how trainings vary.
        draws: Of the cells of `scores`, or of more.
    """
    trained = protocol.retrain is not Retrain.NONE
    covers = Covers.IMAGES if not trained else Covers.BOTH if spread else Covers.NOTHING
    judge = _Judge(scores, bootstrap, covers, draws, gain_samples(scores, protocol, draws))
    return Board(
        protocol,
        scores.levels,
        _rows(judge, protocol),
        scores.images,
        bootstrap,
        covers,
        None if covers is Covers.NOTHING else detectable(judge.pairs),
        POINTS * spread.deviation if spread else None,
        spread.freedom if spread else 0,
    )


def unjudged(board: Board) -> Board:
    """The same numbers without places and verdicts: nothing can be concluded from them."""
    rows = (replace(row, random=None, sobel=None, random_blurred=None, place=None) for row in board.rows)
    return replace(board, rows=tuple(rows), detectable=None)


def gain_samples(scores: Scores, protocol: Protocol, draws: Draws) -> dict[str, Sample]:
    """The gains, in accuracy points, of all rows and controls with a complete curve; none if Random's is not.

    How much masks alone tell is no gain: a lower curve is neither better nor worse.
    """
    if protocol.retrain is Retrain.MASKS or not scores.complete(RANDOM):
        return {}
    levels = (0.0, *scores.levels)
    random = draws.curve(scores.curve(RANDOM))
    gains = {
        name: gain(levels, draws.curve(scores.curve(name)), random, protocol.order)
        for name in dict.fromkeys((*scores.estimators, *CONTROLS))
        if scores.complete(name)
    }
    return {name: Sample(float(both[0]), both[1:]) for name, both in gains.items()}


@dataclass(frozen=True, eq=False)
class _Judge:
    """What the rows are made from."""

    scores: Scores
    bootstrap: Bootstrap
    covers: Covers
    draws: Draws
    gains: Mapping[str, Sample]

    def estimate(self, sample: Sample | None) -> Estimate:
        if sample is None:
            return Estimate()
        return Estimate(sample.value) if self.covers is Covers.NOTHING else estimate(sample, self.bootstrap.confidence)

    def accuracy(self, estimator: str, t: float) -> Estimate:
        value, low, high = self.estimate(self.draws.accuracy((estimator, t)))
        return Estimate(value, None if low is None else max(0.0, low), None if high is None else min(1.0, high))

    def difference(self, estimator: str, t: float) -> Estimate:
        one, random = self.draws.accuracy((estimator, t)), self.draws.accuracy((RANDOM, t))
        return self.estimate(one.minus(random) if one and random else None)

    @property
    def placed(self) -> dict[str, Sample]:
        """The gains of the rows that are compared, without those of checks and of controls that are not shown."""
        rows = (name for name in self.scores.estimators if name not in self.scores.checks)
        return {name: self.gains[name] for name in rows if name in self.gains}

    @cached_property
    def pairs(self) -> Pairs:
        return Pairs.of(list(self.placed.values()), self.bootstrap.confidence)

    def over(self, control: str) -> dict[str, Sample]:
        """Gains minus the control's; empty where the control has none."""
        if control not in self.gains:
            return {}
        return {name: sample.minus(self.gains[control]) for name, sample in self.placed.items()}

    def comparisons(self) -> dict[tuple[str, str], Comparison]:
        if self.covers is Covers.NOTHING:
            return {}
        pairs = {(name, control): d for control in CONTROLS for name, d in self.over(control).items()}
        return compare({(name, control): d for (name, control), d in pairs.items() if name != control})

    def places(self) -> dict[str, Place]:
        gains = self.placed
        found = places(self.pairs.values) if self.covers is Covers.NOTHING else place_intervals(self.pairs)
        return dict(zip(gains, found, strict=True))


def _rows(judge: _Judge, protocol: Protocol) -> tuple[Row, ...]:
    comparisons, positions, over_sobel = judge.comparisons(), judge.places(), judge.over(SOBEL)
    scores = judge.scores
    first = 1 if protocol.retrain is Retrain.MASKS else 0  # masks alone have no point at t = 0
    return tuple(
        Row(
            estimator=name,
            seeds=min(len(scores.correct.get(point, ())) for point in scores.curve(name)[first:]),
            clean=judge.accuracy(*UNTOUCHED),
            accuracies=tuple(judge.accuracy(name, t) for t in scores.levels),
            differences=tuple(judge.difference(name, t) for t in scores.levels),
            gain=judge.estimate(judge.gains.get(name)),
            over_sobel=judge.estimate(over_sobel.get(name)),
            random=comparisons.get((name, RANDOM)),
            sobel=comparisons.get((name, SOBEL)),
            random_blurred=comparisons.get((name, BLURRED)),
            place=positions.get(name),
            check=name in scores.checks,
        )
        for name in scores.estimators
    )

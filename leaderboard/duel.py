"""Two estimators beside each other: paired differences, and the images that only one of them destroys."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from leaderboard.source import main_rows
from leaderboard.words import plain
from roarbench.standings import Standing
from roarbench.stats.board import gain_samples
from roarbench.stats.bootstrap import Bootstrap, Draws, Estimate, Sample, draw, estimate
from roarbench.stats.curves import POINTS, Bits, Point, Scores
from roarbench.terms import ROAR, Protocol, Retrain, Unit

_NAMED = 12  # images that are listed by number


@dataclass(frozen=True)
class LevelDuel:
    """Two estimators at one level.

    Attributes:
        t: Level.
        difference: Accuracy of the first minus that of the second, in accuracy points, paired.
        only_first, only_second: Test images that most networks get wrong after the one's removal and right after the
            other's: those that only the first, or only the second, destroys.
        both, neither: Images that both, or none of them, destroys.
        examples_first, examples_second: Numbers of the first few of these images.
    """

    t: float
    difference: Estimate
    only_first: int
    only_second: int
    both: int
    neither: int
    examples_first: tuple[int, ...]
    examples_second: tuple[int, ...]


@dataclass(frozen=True)
class Duel:
    """Two estimators under one protocol.

    Attributes:
        first, second: Their ids.
        protocol: Its name.
        gain: The first's gain minus the second's, in accuracy points, paired.
        levels: Those that both have.
        caption: Of what the numbers are.
    """

    first: str
    second: str
    protocol: str
    gain: Estimate
    levels: tuple[LevelDuel, ...]
    caption: str


@dataclass(frozen=True, eq=False)
class Arena:
    """One protocol of a suite, drawn once for all comparisons of its estimators.

    Attributes:
        title: Suite with version.
        protocol: The question.
        unit: What one feature is.
        scores: Correct answers.
        draws: Of all accuracies.
        gains: Of the complete curves.
        bootstrap: How often and from which seed was drawn.
        sure: There are intervals.
    """

    title: str
    protocol: Protocol
    unit: Unit
    scores: Scores
    draws: Draws
    gains: dict[str, Sample]
    bootstrap: Bootstrap
    sure: bool

    def duel(self, first: str, second: str) -> Duel:
        """Compare two of its estimators."""
        both = self.gains[first].minus(self.gains[second]) if {first, second} <= self.gains.keys() else None
        levels = [self._level(t, first, second) for t in self.scores.levels if {(first, t), (second, t)} <= self.cells]
        seeds = sorted({len(self.scores.correct[name, level.t]) for name in (first, second) for level in levels})
        caption = (
            f"{self.protocol.name.upper()} of {self.title}; {self.scores.images} test images; unit {self.unit}; "
            f"fill mean; {' or '.join(map(str, seeds)) or 'no'} seeds; {self.bootstrap.confidence:.0%} intervals"
        )
        gain = self._points(both, 1.0) if both else Estimate()
        return Duel(first, second, self.protocol.name, gain, tuple(levels), caption)

    @property
    def cells(self) -> frozenset[Point]:
        """The points that have results."""
        return frozenset(self.scores.correct)

    def _level(self, t: float, first: str, second: str) -> LevelDuel:
        one, two = self.draws.accuracy((first, t)), self.draws.accuracy((second, t))
        assert one and two, "asked only for points with results"
        lost, other = (_destroyed(self.scores.correct[name, t]) for name in (first, second))
        return LevelDuel(
            t=t,
            difference=self._points(one.minus(two), POINTS),
            only_first=int((lost & ~other).sum()),
            only_second=int((other & ~lost).sum()),
            both=int((lost & other).sum()),
            neither=int((~lost & ~other).sum()),
            examples_first=tuple(np.flatnonzero(lost & ~other)[:_NAMED].tolist()),
            examples_second=tuple(np.flatnonzero(other & ~lost)[:_NAMED].tolist()),
        )

    def _points(self, sample: Sample, scale: float) -> Estimate:
        scaled = Sample(scale * sample.value, scale * sample.draws)
        return estimate(scaled, self.bootstrap.confidence) if self.sure else Estimate(scaled.value)


def arena(held: Standing, protocol: Protocol = ROAR, unit: Unit = Unit.SCALAR) -> Arena | None:
    """All that comparisons under one protocol need; None where the suite does not have it."""
    scores = held.scores(protocol, unit, main_rows(held))
    if scores is None:
        return None
    bootstrap, spread = Bootstrap(), held.spread(protocol)
    draws = draw(scores, bootstrap, spread)
    sure = protocol.retrain is Retrain.NONE or spread is not None
    gains = gain_samples(scores, protocol, draws)
    return Arena(held.title, protocol, unit, scores, draws, gains, bootstrap, sure)


def duel(held: Standing, first: str, second: str, protocol: Protocol = ROAR, unit: Unit = Unit.SCALAR) -> Duel | None:
    """Compare two estimators of a suite; None where the suite does not have the protocol."""
    found = arena(held, protocol, unit)
    return found.duel(first, second) if found else None


def _destroyed(bits: Bits) -> Bits:
    """Wrong in more than half of the trainings, bool (images,)."""
    wrong: Bits = (~bits).mean(0) > 0.5
    return wrong


def duel_records(found: Duel) -> list[dict[str, Any]]:
    """The levels as flat records."""
    names = {"first": plain(found.first), "second": plain(found.second), "protocol": found.protocol}
    rows = []
    for level in found.levels:
        row = asdict(level)
        value, low, high = row.pop("difference")
        row |= {key: " ".join(map(str, row[key])) for key in ("examples_first", "examples_second")}
        rows.append({**names, "t": level.t, "difference": value, "low": low, "high": high, **row})
    return rows

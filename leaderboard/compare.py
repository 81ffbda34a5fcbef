"""Two estimators beside each other: paired differences, and the images that only one of them destroys."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from leaderboard.text import plain
from roarbench.analysis.evidence import Drawn, Evidence
from roarbench.stats.bootstrap import Estimate, Sample
from roarbench.stats.curves import POINTS, Bits
from roarbench.terms import ROAR, Protocol, Unit

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
        drawn: Its answers and draws.
    """

    title: str
    protocol: Protocol
    unit: Unit
    drawn: Drawn

    def duel(self, first: str, second: str) -> Duel:
        """Compare two of its estimators."""
        gains, scores = self.drawn.areas, self.drawn.scores
        both = gains[first].minus(gains[second]) if {first, second} <= gains.keys() else None
        levels = [
            self._level(t, first, second) for t in scores.levels if {(first, t), (second, t)} <= scores.correct.keys()
        ]
        seeds = sorted({len(scores.correct[name, level.t]) for name in (first, second) for level in levels})
        caption = (
            f"{self.protocol.name.upper()} of {self.title}; {scores.images} test images; unit {self.unit}; "
            f"fill mean; {' or '.join(map(str, seeds)) or 'no'} seeds; {self.drawn.confidence:.0%} intervals"
        )
        gain = self._points(both, 1.0) if both else Estimate()
        return Duel(first, second, self.protocol.name, gain, tuple(levels), caption)

    def _level(self, t: float, first: str, second: str) -> LevelDuel:
        one, two = self.drawn.draws.accuracy((first, t)), self.drawn.draws.accuracy((second, t))
        assert one and two, "asked only for points with results"
        lost, other = (_destroyed(self.drawn.scores.correct[name, t]) for name in (first, second))
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
        return self.drawn.estimate(Sample(scale * sample.value, scale * sample.draws))


def arena(evidence: Evidence, protocol: Protocol = ROAR, unit: Unit = Unit.SCALAR) -> Arena | None:
    """All that comparisons under one protocol need; None where the suite does not have it."""
    drawn = evidence.drawn(protocol, unit)
    return Arena(evidence.suite_results.title, protocol, unit, drawn) if drawn.levels else None


def duel(
    evidence: Evidence, first: str, second: str, protocol: Protocol = ROAR, unit: Unit = Unit.SCALAR
) -> Duel | None:
    """Compare two estimators of a suite; None where the suite does not have the protocol."""
    found = arena(evidence, protocol, unit)
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

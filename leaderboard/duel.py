"""Two estimators beside each other: paired differences, and the images that only one of them destroys."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from leaderboard.words import plain
from roarbench.standings import Standing
from roarbench.stats.board import gain_samples
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, draw, estimate
from roarbench.stats.curves import Bits
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


def duel(held: Standing, first: str, second: str, protocol: Protocol = ROAR, unit: Unit = Unit.SCALAR) -> Duel | None:
    """Compare two estimators of a suite; None where the suite does not have the protocol."""
    scores = held.scores(protocol, unit, [first, second])
    if scores is None:
        return None
    bootstrap, spread = Bootstrap(), held.spread(protocol)
    sure = protocol.retrain is Retrain.NONE or spread is not None
    draws = draw(scores, bootstrap, spread)
    gains = gain_samples(scores, protocol, draws)
    both = gains[first].minus(gains[second]) if first in gains and second in gains else None
    levels = [
        _level(t, one.minus(other), scores.correct[first, t], scores.correct[second, t], bootstrap, sure)
        for t in scores.levels
        if (one := draws.accuracy((first, t))) and (other := draws.accuracy((second, t)))
    ]
    seeds = sorted({len(bits) for (name, _), bits in scores.correct.items() if name in (first, second)})
    caption = (
        f"{protocol.name.upper()} of {held.title}; {scores.images} test images; unit {unit}; fill mean; "
        f"{' or '.join(map(str, seeds)) or 'no'} seeds; {bootstrap.confidence:.0%} intervals"
    )
    gain = _points(both, bootstrap, sure, 1.0) if both else Estimate()
    return Duel(first, second, protocol.name, gain, tuple(levels), caption)


def _level(t: float, difference: Sample, first: Bits, second: Bits, bootstrap: Bootstrap, sure: bool) -> LevelDuel:
    lost, other = _destroyed(first), _destroyed(second)
    return LevelDuel(
        t=t,
        difference=_points(difference, bootstrap, sure, 100.0),
        only_first=int((lost & ~other).sum()),
        only_second=int((other & ~lost).sum()),
        both=int((lost & other).sum()),
        neither=int((~lost & ~other).sum()),
        examples_first=tuple(np.flatnonzero(lost & ~other)[:_NAMED].tolist()),
        examples_second=tuple(np.flatnonzero(other & ~lost)[:_NAMED].tolist()),
    )


def _destroyed(bits: Bits) -> Bits:
    """Wrong in more than half of the trainings, bool (images,)."""
    wrong: Bits = (~bits).mean(0) > 0.5
    return wrong


def _points(sample: Sample, bootstrap: Bootstrap, sure: bool, scale: float) -> Estimate:
    scaled = Sample(scale * sample.value, scale * sample.draws)
    return estimate(scaled, bootstrap.confidence) if sure else Estimate(scaled.value)


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

"""Compare two estimators: paired differences, and the images that only one of them destroys."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from leaderboard.text import capital, plain
from roarbench.analysis.evidence import Drawn, Evidence
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.stats.bootstrap import Estimate, Sample
from roarbench.stats.curves import POINTS, Bits
from roarbench.terms import Order, Retrain, Unit

_NAMED = 12  # images that are listed by number


@dataclass(frozen=True)
class LevelComparison:
    """Two estimators compared at one level.

    Attributes:
        t: Level.
        difference: Accuracy of the first minus that of the second, or gain where common networks give one at every
            level, in accuracy points, paired.
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
class PairComparison:
    """Two estimators compared under one protocol.

    Attributes:
        first, second: Their ids.
        protocol: Its name.
        gain: The first's gain minus the second's, in accuracy points, paired.
        gain_name: What that gain is called, with a capital.
        levels: Those that both have.
        caption: Of what the numbers are.
        heading: What the differences per level are.
        reading: What these differences mean, in sentences.
    """

    first: str
    second: str
    protocol: str
    gain: Estimate
    gain_name: str
    levels: tuple[LevelComparison, ...]
    caption: str
    heading: str
    reading: str


def compare_pair(
    evidence: Evidence, first: str, second: str, protocol: Protocol = ROAR, unit: Unit = Unit.SCALAR
) -> PairComparison | None:
    """Compare two estimators of a suite; None where the suite does not have the protocol."""
    drawn = evidence.drawn(protocol, unit)
    if not drawn.levels:
        return None
    areas, scores = drawn.areas, drawn.scores
    gain = _points(drawn, areas[first].minus(areas[second]), 1.0) if {first, second} <= areas.keys() else Estimate()
    common = [t for t in scores.levels if {(first, t), (second, t)} <= _held(drawn, protocol)]
    levels = [_at_level(drawn, protocol, t, first, second) for t in common]
    seeds = sorted({len(scores.correct[name, t]) for name in (first, second) for t in common})
    caption = (
        f"{protocol.name.upper()} of {evidence.suite_results.title}; {scores.images} test images; unit {unit}; "
        f"fill mean; {' or '.join(map(str, seeds)) or 'no'} seeds; {drawn.confidence:.0%} intervals"
    )
    return PairComparison(
        first=first,
        second=second,
        protocol=protocol.name,
        gain=gain,
        gain_name=capital(protocol.gain),
        levels=tuple(levels),
        caption=caption,
        heading=_heading(protocol),
        reading=_reading(protocol),
    )


def _heading(protocol: Protocol) -> str:
    if protocol.retrain is Retrain.COMMON:
        return f"difference of {protocol.gain}, points"
    return "accuracy difference, points"


def _reading(protocol: Protocol) -> str:
    destroyed = "An image counts as destroyed where most networks get it wrong"
    if protocol.retrain is Retrain.COMMON:
        better = f"A difference above 0 means that the first estimator has the larger {protocol.gain}."
        return f"{better} {destroyed} with its own removal mask."
    side = "lowers accuracy further" if protocol.order is Order.MORF else "lowers accuracy more, which is worse here"
    return f"A difference below 0 means that the first estimator {side}. {destroyed}."


def _held(drawn: Drawn, protocol: Protocol) -> set[tuple[str, float]]:
    """Return the points that can be compared: those with a gain where levels have gains, else those with results."""
    scores = drawn.scores.differences if protocol.retrain is Retrain.COMMON else drawn.scores
    return set(scores.correct) if scores else set()


def _at_level(drawn: Drawn, protocol: Protocol, t: float, first: str, second: str) -> LevelComparison:
    one, two = (_sample(drawn, protocol, (name, t)) for name in (first, second))
    assert one and two, "asked only for points with results"
    lost, other = (_destroyed(drawn.scores.correct[name, t]) for name in (first, second))
    return LevelComparison(
        t=t,
        difference=_points(drawn, one.minus(two), POINTS),
        only_first=int((lost & ~other).sum()),
        only_second=int((other & ~lost).sum()),
        both=int((lost & other).sum()),
        neither=int((~lost & ~other).sum()),
        examples_first=tuple(np.flatnonzero(lost & ~other)[:_NAMED].tolist()),
        examples_second=tuple(np.flatnonzero(other & ~lost)[:_NAMED].tolist()),
    )


def _sample(drawn: Drawn, protocol: Protocol, point: tuple[str, float]) -> Sample | None:
    """Return an accuracy; a gain where levels have gains."""
    if protocol.retrain is not Retrain.COMMON:
        return drawn.draws.accuracy(point)
    assert drawn.draws.differences, "asked only for points with gains"
    found = drawn.draws.differences.accuracy(point)
    sign = 1.0 if protocol.order is Order.LERF else -1.0
    return found and Sample(sign * found.value, sign * found.draws)


def _points(drawn: Drawn, sample: Sample, scale: float) -> Estimate:
    return drawn.estimate(Sample(scale * sample.value, scale * sample.draws))


def _destroyed(bits: Bits) -> Bits:
    """Mark the images that more than half of the trainings get wrong, bool (images,)."""
    wrong: Bits = (~bits).mean(0) > 0.5
    return wrong


def comparison_records(pair: PairComparison) -> list[dict[str, Any]]:
    """Return the levels as flat records."""
    names = {"first": plain(pair.first), "second": plain(pair.second), "protocol": pair.protocol}
    rows = []
    for level in pair.levels:
        row = asdict(level)
        value, low, high = row.pop("difference")
        row |= {key: " ".join(map(str, row[key])) for key in ("examples_first", "examples_second")}
        rows.append({**names, "t": level.t, "difference": value, "low": low, "high": high, **row})
    return rows

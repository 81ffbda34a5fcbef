"""Compare two estimators: paired differences, and the images that only one of them destroys."""

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
class LevelComparison:
    """Two estimators compared at one level.

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
class PairComparison:
    """Two estimators compared under one protocol.

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
    levels: tuple[LevelComparison, ...]
    caption: str


def compare_pair(
    evidence: Evidence, first: str, second: str, protocol: Protocol = ROAR, unit: Unit = Unit.SCALAR
) -> PairComparison | None:
    """Compare two estimators of a suite; None where the suite does not have the protocol."""
    drawn = evidence.drawn(protocol, unit)
    if not drawn.levels:
        return None
    areas, scores = drawn.areas, drawn.scores
    gain = _points(drawn, areas[first].minus(areas[second]), 1.0) if {first, second} <= areas.keys() else Estimate()
    common = [t for t in scores.levels if {(first, t), (second, t)} <= scores.correct.keys()]
    levels = [_at_level(drawn, t, first, second) for t in common]
    seeds = sorted({len(scores.correct[name, t]) for name in (first, second) for t in common})
    caption = (
        f"{protocol.name.upper()} of {evidence.suite_results.title}; {scores.images} test images; unit {unit}; "
        f"fill mean; {' or '.join(map(str, seeds)) or 'no'} seeds; {drawn.confidence:.0%} intervals"
    )
    return PairComparison(first, second, protocol.name, gain, tuple(levels), caption)


def _at_level(drawn: Drawn, t: float, first: str, second: str) -> LevelComparison:
    one, two = drawn.draws.accuracy((first, t)), drawn.draws.accuracy((second, t))
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

"""Convert stored results to the correctness of predictions, and subtract the correctness under other masks."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roarbench.plan.protocols import Protocol
from roarbench.stats.board_records import RANDOM
from roarbench.stats.correctness_and_gain import Correctness, Point
from roarbench.store.run_result import RunResult

ByPoint = Mapping[Point, Mapping[int, RunResult]]  # results by (estimator, level) and seed


class CorrectnessByPoint(Mapping[Point, NDArray[np.bool_]]):
    """Correctness by point, (seeds, images); bits are unpacked on request, which saves seven eighths of the memory."""

    def __init__(self, results: Mapping[Point, Collection[RunResult]]) -> None:
        self._results = results

    def __getitem__(self, at: Point) -> NDArray[np.bool_]:
        results = list(self._results[at])
        packed = np.frombuffer(b"".join(result.bits for result in results), np.uint8).reshape(len(results), -1)
        return np.unpackbits(packed, axis=1, count=results[0].total).view(np.bool_)

    def __contains__(self, at: object) -> bool:
        return at in self._results

    def __iter__(self) -> Iterator[Point]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


def subtract_counterparts(scores: Correctness, by_own: ByPoint, by_other: ByPoint, protocol: Protocol) -> Correctness:
    """Return each cell's correctness minus that of its counterpart, separately for each point and seed.

    The counterpart is the result of the same network on the same images, but with masks taken from other images or from
    Random. For a protocol derived from two others, the counterpart is the same row's result under the second protocol.
    """
    correct: dict[Point, NDArray[np.int8]] = {}
    references: dict[Point, tuple[str, ...]] = {}
    mixed = set(scores.inconsistent)
    for name, t in scores.correct:
        other_row = protocol.make_paired_twin_id(name) if protocol.compares_with_other_image else RANDOM
        against = name if t == 0 or protocol.computed_from else other_row
        mixed |= {name} if against in scores.inconsistent else set()
        own, other = by_own[name, t], by_other.get((against, t), {})
        if seeds := [seed for seed in own if seed in other]:
            pairs = [(own[seed].correctness.astype(np.int8), other[seed].correctness) for seed in seeds]
            correct[name, t] = np.stack([one - two for one, two in pairs])
            explained = tuple(own[seed].run.reference for seed in seeds)
            references |= {(name, t): explained} if (name, t) in scores.references else {}
    return replace(scores, correct=correct, references=references, inconsistent=frozenset(mixed))

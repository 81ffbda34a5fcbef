"""Answers by point of a curve, and differences of answers: each cell's minus those that it is held against."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roarbench.protocols.protocol import Protocol
from roarbench.stats.board import RANDOM
from roarbench.stats.curves import Correctness
from roarbench.store.run_result import RunResult

ByPoint = Mapping[tuple[str, float], Mapping[int, RunResult]]  # by point of a curve and seed


class Answers(Mapping[tuple[str, float], NDArray[np.bool_]]):
    """Answers by point of a curve, (seeds, images) each, unpacked when asked for: bytes are 8 times as large."""

    def __init__(self, held: Mapping[tuple[str, float], Collection[RunResult]]) -> None:
        self._held = held

    def __getitem__(self, at: tuple[str, float]) -> NDArray[np.bool_]:
        found = list(self._held[at])
        packed = np.frombuffer(b"".join(result.bits for result in found), np.uint8).reshape(len(found), -1)
        return np.unpackbits(packed, axis=1, count=found[0].total).view(np.bool_)

    def __contains__(self, at: object) -> bool:
        return at in self._held

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def subtract_paired_answers(scores: Correctness, held: ByPoint, others: ByPoint, protocol: Protocol) -> Correctness:
    """Return each cell's answers minus those that it is held against, both by point and seed.

    Of one network these are its answers to the same images with the removal masks of other images, or with those of
    Random; of a protocol that is made of two those of the row itself under the other one.
    """
    correct: dict[tuple[str, float], NDArray[np.int8]] = {}
    references: dict[tuple[str, float], tuple[str, ...]] = {}
    mixed = set(scores.inconsistent)
    for name, t in scores.correct:
        other_row = protocol.counterpart(name) if protocol.paired else RANDOM
        against = name if t == 0 or protocol.made_of else other_row
        mixed |= {name} if against in scores.inconsistent else set()
        own, other = held[name, t], others.get((against, t), {})
        if seeds := [seed for seed in own if seed in other]:
            pairs = [(own[seed].answers.astype(np.int8), other[seed].answers) for seed in seeds]
            correct[name, t] = np.stack([one - two for one, two in pairs])
            explained = tuple(own[seed].run.reference for seed in seeds)
            references |= {(name, t): explained} if (name, t) in scores.references else {}
    return replace(scores, correct=correct, references=references, inconsistent=frozenset(mixed))

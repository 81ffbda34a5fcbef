"""Store the correctness of predictions under one protocol, and add them up over runs, images and levels."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roarbench.estimators.estimator import Search
from roarbench.plan.cells_and_runs import CLEAN

Bits = NDArray[np.bool_] | NDArray[np.int8]  # correctness, or difference of two correctness values of the same network
Floats = NDArray[np.float64]
Point = tuple[str, float]  # estimator and level

UNTOUCHED: Point = (CLEAN, 0.0)  # the point at t = 0, shared by all curves
_AT_ONCE = 4_000_000  # sums that are converted to floats at a time, 16 to 32 MB
# products that OpenBLAS computes in one thread; its other threads would spin for 25 ms after each larger matrix product
_IN_ONE_THREAD = 250_000
_FEW_IMAGES = 8  # a matrix product of fewer images takes longer than the threads spin
_EXACT_IN_FLOAT32 = 2**24
POINTS = 100.0  # accuracy points (percent) per unit of accuracy


@dataclass(frozen=True, eq=False)
class Correctness:
    """Correctness of the predictions on the test images, for all cells of one protocol."""

    estimators: tuple[str, ...]
    levels: tuple[float, ...]  # levels above 0, ascending
    # bits of shape (seeds, images) by (estimator, level); clean images are under `UNTOUCHED`. Cells may be missing, and
    # may differ in their number of seeds, but all have the same images
    correct: Mapping[Point, Bits]
    # estimators without a curve, because their points have different rankings
    inconsistent: frozenset[str] = frozenset()
    # sanity-check variants (twins) and other checks: these estimators have gains, but neither verdicts nor ranks
    checks: frozenset[str] = frozenset()
    # explained network of each row of bits, by cell. Cells that depend on no network (controls, retrained clean images)
    # are missing
    references: Mapping[Point, tuple[str, ...]] = field(default_factory=dict)
    # per cell, correctness minus the correctness of the same network on the same image with other masks (another
    # image's, or Random's), in {-1, 0, 1}; gains come from these differences alone. None if each cell has its own
    # networks
    differences: "Correctness | None" = None
    # added estimators and their twins; each is judged as if it alone joined the suite's own rows, and changes no
    # number of these rows
    submitted: frozenset[str] = frozenset()
    model_free_controls: frozenset[str] = frozenset()  # controls that a row must beat to beat every control
    searches: Mapping[str, Search] = field(default_factory=dict)  # blind searches, of any order; all are controls

    @property
    def without_submissions(self) -> "Correctness":
        """Return the correctness without submissions, or this object if it has no submissions."""
        if not any(point[0] in self.submitted for point in self.correct):
            return self
        correct = {point: bits for point, bits in self.correct.items() if point[0] not in self.submitted}
        references = {point: names for point, names in self.references.items() if point in correct}
        return replace(self, correct=correct, references=references, differences=None)

    @property
    def explained_networks(self) -> frozenset[str]:
        return frozenset(name for names in self.references.values() for name in names)

    @property
    def images(self) -> int:
        """Return the number of test images; 0 without cells."""
        return next((bits.shape[1] for bits in self.correct.values()), 0)

    @cached_property
    def sums(self) -> dict[Point, NDArray[np.int16]]:
        """Return each image's sum over a cell's runs, (images,)."""
        return {point: sum_runs(bits) for point, bits in self.correct.items()}

    @cached_property
    def accuracies_by_network(self) -> dict[Point, dict[str, float]]:
        """Return the mean accuracy of each explained network's runs, by cell that depends on explained networks."""
        accuracies, images = {}, self.images or 1
        for point, networks in self.references.items():
            counts = count_correct(self.correct[point])
            accuracies[point] = {
                name: sum(map(counts.__getitem__, runs)) / len(runs) / images
                for name, runs in list_runs_by_network(networks).items()
            }
        return accuracies


@lru_cache(256)  # most cells of a board have runs of the same networks
def list_runs_by_network(networks: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
    """Return the positions of each network's runs, by name in alphabetical order."""
    return {name: [run for run, network in enumerate(networks) if network == name] for name in sorted({*networks})}


def count_correct(bits: Bits) -> list[int]:
    """Return each run's sum of bits, or of differences of bits; `bits` has the shape (runs, images)."""
    if bits.dtype.kind == "b":
        return [int(np.count_nonzero(run)) for run in bits]
    return [int(count) for count in bits.sum(1, dtype=np.int64)]


def sum_runs(bits: Bits) -> NDArray[np.int16]:
    """Return each image's sum over runs, (images,), of bits of shape (runs, images)."""
    few = len(bits) < 128  # sums of bytes take a fifth of the time
    sums: NDArray[np.int16] = bits.view(np.int8).sum(0, dtype=np.int8 if few else np.int16).astype(np.int16)
    return sums


def add_weighted_sums(parts: Sequence[NDArray[Any]], weights: Sequence[Sequence[int]], largest: int) -> NDArray[Any]:
    """Add arrays of whole numbers, (rows, images) each, times the weight of each row; no sum exceeds `largest`."""
    kind: Any = np.int16 if largest < 2**15 else np.int32 if largest < 2**31 else np.float64
    total: NDArray[Any] = np.zeros(parts[0].shape, kind)
    for part, row in zip(parts, weights, strict=True):
        total += np.array(row, kind)[:, None] * part
    return total


def compute_second_moments(sums: NDArray[Any]) -> Floats:
    """Compute the sums over images of the products of all rows, (k, k), of an array (k, images).

    Floats hold sums of whole numbers exactly, and other numbers are added in a fixed order, so every machine gets the
    same digits.
    """
    count, images = sums.shape
    if sums.dtype.kind == "f":  # a product of matrices has other last bits on other processors
        return np.array([(sums * row).sum(1) for row in sums]).reshape(count, count)
    exact = float(np.abs(sums).max(initial=0)) ** 2 * images < _EXACT_IN_FLOAT32
    moments, step = np.zeros((count, count)), _IN_ONE_THREAD // max(1, count**2)
    if step < _FEW_IMAGES:
        step = max(1, _AT_ONCE // max(1, 2 * count))
    for start, end in pairwise((*range(0, images, step), images)):
        part: NDArray[Any] = sums[:, start:end].astype(np.float32 if exact else np.float64)
        moments += part @ part.T
    return moments


def hash_correctness(bits: Bits) -> bytes:
    """Return a hash of the runs' bits, in any order, and their shape, 16 bytes."""
    packed = np.packbits(bits, axis=1) if bits.dtype == np.bool_ else bits
    runs = sorted(run.tobytes() for run in packed)
    return hashlib.sha256(b"".join(runs) + bytes(str(bits.shape), "ascii")).digest()[:16]


@lru_cache(64)  # all rows of a board have the same levels
def list_trapezoid_weights(levels: tuple[float, ...]) -> Sequence[Fraction]:
    """Return each level's weight in the mean height of a curve (trapezoid rule), exactly; the weights sum to 1."""
    exact = [Fraction(repr(float(t))) for t in levels]
    widths = [after - before for before, after in pairwise(exact)]
    sides = zip([*widths, Fraction(0)], [Fraction(0), *widths], strict=True)
    return tuple((right + left) / (2 * sum(widths)) for right, left in sides)


def compute_trapezoid_weights(levels: tuple[float, ...]) -> Floats:
    """Return each level's weight in the mean height of a curve (trapezoid rule), rounded to floats."""
    return np.array([float(weight) for weight in list_trapezoid_weights(levels)])

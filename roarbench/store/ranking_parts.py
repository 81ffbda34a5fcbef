"""Parts of rankings, as workers leave them: ranges of images that are joined when all are there."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from roarbench.errors import StoreError
from roarbench.store.map_provenance import ExplainedBatches
from roarbench.store.planes import read_planes
from roarbench.terms import Split


def covers(done: Iterable[range], start: int, stop: int) -> bool:
    """Return whether one of the ranges holds all of `start` … `stop - 1`."""
    return any(part.start <= start and stop <= part.stop for part in done)


class RankedRange(NamedTuple):
    """The bit-planes of the images `start` … `stop - 1`."""

    start: int
    stop: int
    path: Path


def parts_of(folder: Path, split: Split) -> list[RankedRange]:
    """List what there is of a split, by the first image; of those that begin together the longest first."""
    found = []
    for path in folder.glob(f"{split}-*-*.arrow"):
        start, stop = (int(number) for number in path.stem.split("-")[1:])
        found.append(RankedRange(start, stop, path))
    return sorted(found, key=lambda part: (part.start, -part.stop))


def chain_of(folder: Path, split: Split, count: int) -> list[tuple[RankedRange, int]]:
    """Choose parts that hold the images 0 … count - 1, in order, each with the image from which on it counts.

    Parts may overlap, where commands divided the images in different ways: an image's planes do not depend on that.
    """
    chain, done = [], 0
    for part in parts_of(folder, split):
        if part.start <= done < part.stop <= count:
            chain.append((part, done))
            done = part.stop
    if done < count:
        raise StoreError(f"no part of {folder} holds {split} image {done} of {count}; rank these images first")
    return chain


def told_by(parts: Path, counts: Mapping[Split, int]) -> list[dict[str, Any]]:
    """Return what each part that is used says of itself."""
    used = [part.path for split, count in counts.items() for part, _ in chain_of(parts, split, count)]
    return [read_planes(path).about for path in used]


def noted_batches(made: Iterable[Iterable[Any]]) -> list[ExplainedBatches]:
    """Return which batches a part notes that were explained in one go, read back from JSON."""
    return [ExplainedBatches(*entry) for entry in made]


def refuse_mixed(parts: Path, told: Iterable[Mapping[str, Any]]) -> None:
    """Refuse maps by devices of different kinds, which round differently: no other machine could make them again."""
    kinds = {batches.device for about in told for batches in noted_batches(about.get("made", []))} - {""}
    if len(kinds) > 1:
        names = " and ".join(sorted(kinds))
        raise StoreError(f"{parts} has maps by {names}, expected one kind of device; {remedy(parts)} on one kind")


def weights_of(parts: Path, told: Iterable[Mapping[str, Any]]) -> str:
    """Return the checksum of the explained model that all parts are of; empty where one does not say."""
    checksums = {about.get("weights", "") for about in told}
    if len(checksums - {""}) > 1:
        raise StoreError(f"{parts} was made from {len(checksums - {''})} different references; {remedy(parts)}")
    return checksums.pop() if len(checksums) == 1 else ""


def remedy(path: Path) -> str:
    """Return what to do about a folder or file that is damaged, or not what it should be."""
    return f"delete {path} and run again"

"""How the maps behind stored rankings were made, as far as it may differ between two stores that have the same ones."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Made(NamedTuple):
    """How some images that follow each other were explained.

    Attributes:
        images: How many.
        at_once: In batches of how many; 0 where it was not noted.
        precision: What the network computed with; empty where it was not noted.
    """

    images: int
    at_once: int
    precision: str


def merged(parts: Iterable[Made]) -> list[Made]:
    """Join neighbours that were made alike."""
    found: list[Made] = []
    for part in parts:
        if found and found[-1][1:] == part[1:]:
            part = part._replace(images=found.pop().images + part.images)
        found.append(part)
    return found


def without(first: int, parts: Iterable[Made]) -> Iterator[Made]:
    """Leave out the first so many images."""
    for part in parts:
        gone = min(first, part.images)
        first -= gone
        if gone < part.images:
            yield part._replace(images=part.images - gone)

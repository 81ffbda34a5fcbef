"""Provenance of the maps behind stored rankings: device, batch and precision may differ between stores."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple


class ExplainedBatches(NamedTuple):
    """Consecutive images with how they were explained."""

    images: int
    at_once: int  # in batches of how many; 0 where it was not noted
    precision: str  # what the network computed with, and `-stem` where it was divided; empty where it was not noted
    device: str = ""  # `cpu`, or what the GPU is called; empty where it was not noted


class MapProvenance(NamedTuple):
    """Record of how the maps behind some stored bit-planes were computed."""

    seconds: float  # processor time spent on them
    weights: str = ""  # checksum of the explained model's weights; empty for controls
    batches: Sequence[ExplainedBatches] = ()  # all the images in order, how they were explained; empty if not noted
    # How many of the noisy copies of each image the model puts into the class that it predicts for the image itself;
    # empty for maps without noisy copies, and where it was not noted.
    kept: Sequence[int] = ()
    ties: Sequence[float] = ()  # share of each map's features that have its commonest value; empty if not noted


def merge_neighbours(parts: Iterable[ExplainedBatches]) -> list[ExplainedBatches]:
    """Join neighbours that were made alike."""
    return [
        ExplainedBatches(sum(part.images for part in alike), *how)
        for how, alike in groupby(parts, lambda part: part[1:])
    ]


def drop_first(first: int, parts: Iterable[ExplainedBatches]) -> Iterator[ExplainedBatches]:
    """Leave out the first so many images."""
    for part in parts:
        gone = min(first, part.images)
        first -= gone
        if gone < part.images:
            yield part._replace(images=part.images - gone)

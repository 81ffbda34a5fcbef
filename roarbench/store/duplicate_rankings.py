"""Rankings of one estimator that a store has more than once: for suites that need other splits or other levels."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.enums import Order, Split
from roarbench.kernels.bit_planes import Layout, find_removed_bits
from roarbench.store.ranking_parts import MANIFEST
from roarbench.store.ranking_spec import RankingSpec, describe_spec

_AT_ONCE = 512  # images that are compared at once


def find_sibling_rankings(folder: Path, spec: RankingSpec) -> Iterator[RankingSpec]:
    """Yield the specs of finished rankings beside a folder that differ from its own in splits and levels alone."""
    for manifest in sorted(folder.parent.glob(f"*/{MANIFEST}")):
        with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):  # damaged: no sibling
            found = json.loads(manifest.read_text())
            splits = tuple(map(Split, found.get("splits", [*Split])))
            other = replace(spec, splits=splits, levels=tuple(found["levels"]))
            identity, names = describe_spec(other), {field.name for field in fields(other)}
            if other != spec and all(found.get(name) == identity.get(name) for name in names | identity.keys()):
                yield other


def are_same_rankings(
    planes: Mapping[Split, NDArray[np.uint8]],
    layout: Layout,
    others: Mapping[Split, NDArray[np.uint8]],
    other_layout: Layout,
) -> bool:
    """Return whether two rankings of the same images remove the same features, as far as both can be read."""
    levels = {*layout.levels} & {*other_layout.levels}
    for split in planes.keys() & others.keys():
        own, their = planes[split], others[split]
        for start, t, order in product(range(0, len(own), _AT_ONCE), levels, Order):
            rows = slice(start, start + _AT_ONCE)
            removed = find_removed_bits(own[rows], t, order, layout)
            if not np.array_equal(removed, find_removed_bits(their[rows], t, order, other_layout)):
                return False
    return True

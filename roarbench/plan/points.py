"""The points of a suite: its cells with their seeds, or those of a part of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from roarbench.enums import Unit
from roarbench.plan.runs import CLEAN, Cell, find_untouched
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.protocols import PROTOCOLS
from roarbench.protocols.protocol import Protocol
from roarbench.protocols.unretrained import MORF


@dataclass(frozen=True)
class Point:
    """A cell and a seed, before the data's and the reference's fingerprints are known."""

    cell: Cell
    seed: int


@cache  # a board asks for those of every suite, again and again
def expand_points(suite: SuiteSpec) -> tuple[Point, ...]:
    """Return all points of a suite, each once; the untouched images (t = 0) first in every block."""
    return tuple(dict.fromkeys(point for block in suite.blocks for point in _block_points(suite, block)))


def _block_points(suite: SuiteSpec, block: Block) -> Iterator[Point]:
    protocol = block.protocol
    place = (suite.dataset, suite.model)
    if clean := find_untouched(protocol.retrain, block.fill):
        cell = Cell(*place, CLEAN, MORF.order, *clean, Unit.SCALAR, 0.0)
        yield from (Point(cell, seed) for seed in suite.seeds(block))
    for estimator, t in product(block.estimators, block.levels):
        for seed in suite.seeds(block, estimator):
            for name in (estimator, protocol.counterpart(estimator)) if protocol.paired else (estimator,):
                cell = Cell(*place, name, protocol.order, protocol.retrain, block.fill, block.unit, t)
                yield Point(cell, seed)


def select_part_of_suite(
    suite: SuiteSpec,
    estimators: Iterable[str] | None = None,
    seeds: int | None = None,
    protocol: Protocol | None = None,
) -> SuiteSpec:
    """Return the part of a suite with these estimators, or one protocol, or other numbers of seeds where it trains."""
    names = suite.estimators if estimators is None else tuple(estimators)
    blocks = []
    for block in (block for block in suite.blocks if protocol in (None, block.protocol)):
        kept = tuple(name for name in block.estimators if name in names)
        blocks.append(replace(block, estimators=kept, seeds=seeds if seeds and block.protocol.trains else block.seeds))
    asked = tuple(block for block in blocks if block.estimators)
    # references that no seed is ranked by are not needed, unless they are held against each other
    most = suite.references if any(block.protocol.by_networks for block in asked) else seeds or suite.references
    return replace(suite, blocks=asked, references=min(suite.references, most))


def describe_run(point: Point, suite: SuiteSpec | None = None) -> str:
    """Describe one run in a few words, the suite's where it is known which one asks."""
    cell = point.cell
    return f"{find_protocol_name(cell, suite)} {cell.estimator} t={cell.t:g} {cell.unit} seed {point.seed}"


def find_protocol_name(cell: Cell, suite: SuiteSpec | None = None) -> str:
    """Return the name of the protocol that a cell belongs to: the first one by which the suite has it, if any.

    Protocols that answer each image twice have cells of another one; without a suite it is the other one's name.
    """
    asked = [block.protocol for block in suite.blocks] if suite else []
    asked += [protocol for protocol in PROTOCOLS.values() if not protocol.paired]
    return next(each.name for each in asked if (each.order, each.retrain) == (cell.order, cell.retrain))

"""What runs rest on and share, made once: the explained networks, rankings and common networks."""

from collections.abc import Iterable, Set
from typing import NamedTuple

from roarbench.enums import Order, ScoredNetwork, Split, Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import Estimator
from roarbench.plan.points import Point
from roarbench.plan.run_keys import depends_on_reference, ranks_only_test_images
from roarbench.plan.suite import SuiteSpec


class RankedSplit(NamedTuple):
    """Rankings of a split's images; those of controls have the reference 0."""

    estimator: Estimator
    unit: Unit
    reference: int
    split: Split


class Common(NamedTuple):
    """A common network before it is tuned on any row."""

    order: Order
    unit: Unit
    seed: int
    fill: str


class SharedInputs(NamedTuple):
    """Inputs that runs of a suite share."""

    references: Set[int] = frozenset()  # numbers of the networks that are explained, or scored as they are
    rankings: Set[RankedSplit] = frozenset()
    common: Set[Common] = frozenset()
    # common networks, each with the rankings of a row, of its test images, that it is tuned on
    tuned: Set[tuple[Common, RankedSplit]] = frozenset()


def list_shared_inputs(suite: SuiteSpec, points: Iterable[Point]) -> SharedInputs:
    """Return what these points rest on."""
    references, rankings = set[int](), set[RankedSplit]()
    networks, tuned = set[Common](), set[tuple[Common, RankedSplit]]()
    for cell, seed in ((point.cell, point.seed) for point in points):
        if depends_on_reference(cell):
            references.add(suite.scored(cell, seed))
        rows = []
        if row := cell.ranked_by:
            number = suite.explained(cell, seed) if row.hangs_on_network else 0
            rows = [RankedSplit(row, cell.unit, number, split) for split in Split]
            rankings.update(rows[-1:] if ranks_only_test_images(suite, cell.retrain) else rows)
        if cell.retrain is ScoredNetwork.COMMON:
            common = Common(cell.order, cell.unit, seed, cell.fill)
            networks.add(common)
            tuned.update((common, row) for row in rows[-1:])
            controls = map(find_estimator, suite.controls)
            rankings.update(RankedSplit(control, cell.unit, 0, split) for control in controls for split in Split)
    return SharedInputs(references, rankings, networks, tuned)

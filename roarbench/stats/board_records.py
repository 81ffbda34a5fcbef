"""A board: rows with gains, verdicts and ranks under one protocol, and the scope of their intervals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from roarbench.common.enums import Order
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.protocols import Protocol
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest
from roarbench.stats.rank_intervals import RankInterval
from roarbench.stats.verdicts import Comparison, ControlComparison

VERSION = 8  # increases with every change that gives other numbers for the same predictions
RANDOM = "random"
ZERO = "0"  # id of the value 0, with which Random's measured gain is compared if its true gain is 0
ONE_NETWORK = "for this network only"  # note on boards with a single explained network
ONE_TRAINING = "One training per cell"  # note on boards without intervals


class IntervalScope(StrEnum):
    """Kinds of repetition that intervals cover: with other test images, training runs or explained networks."""

    IMAGES = "images"  # the protocol trains no network
    NETWORKS = "images and explained networks"  # the protocol trains no other network
    BOTH = "images and seeds"
    REFERENCES = "images, explained networks and seeds"
    NOTHING = "nothing"  # training runs were not repeated, so there are no intervals


@dataclass(frozen=True)
class Row:
    """The results of one estimator."""

    estimator: str
    seeds: int  # smallest number of seeds in a cell of the curve; 0 if a cell is missing
    clean: Estimate  # accuracy on clean images, in [0, 1]
    accuracies: tuple[Estimate, ...]  # per level, in [0, 1]
    # per level, accuracy minus Random's, in [-1, 1]; under a paired protocol, accuracy minus accuracy under other
    # images' masks; under DiffROAR, accuracy under KAR minus accuracy under ROAR
    differences: tuple[Estimate, ...]
    gain: Estimate  # in accuracy points; own-network gain is in points of unchanged predictions
    # gives the row's rank, which is computed when it is first shown; None for a check, and for a row without a gain
    find_place: Callable[[], RankInterval] | None = field(compare=False)
    check: bool = False  # whether the row is a twin or another check, which verdicts and ranks ignore
    # gives the prediction interval for the gain of a replication, at the board's confidence, which is computed when it
    # is first shown. A replication has the same test images and design, and other references and training runs; for
    # own-network gain also other images. Missing if only images vary
    predict_gain: Callable[[], Estimate] = field(default=Estimate, compare=False)
    # comparisons with controls and with the row's twins, by id; Random's own comparison is under `ZERO`. Empty for a
    # check, and if intervals or gains are missing
    against: Mapping[str, Comparison] = field(default_factory=dict)
    # comparison with every control of the suite; None for a control or a check, and if intervals or gains are missing
    beating: ControlComparison | None = None
    # gain minus the twin's gain by kind of twin, `OTHER_IMAGE` first, in accuracy points, paired
    delta_twins: Mapping[str, Estimate] = field(default_factory=dict)
    network: OwnNetworkTest | None = None  # for own-network gain; None for a check, and for a row without a gain

    @property
    def place(self) -> RankInterval | None:
        return self.find_place() if self.find_place else None

    @property
    def predicted(self) -> Estimate:
        return self.predict_gain()

    @property
    def vs_random(self) -> Comparison | None:
        return self.against.get(RANDOM)

    def get_twin_comparison(self, twin: str) -> Comparison | None:
        return self.against.get(make_twin_id(self.estimator, twin))


@dataclass(frozen=True)
class Board:
    """All rows of one protocol, with the settings and variances used to judge them."""

    protocol: Protocol
    levels: tuple[float, ...]  # levels above 0
    rows: tuple[Row, ...]  # shown rows, in the order of `Correctness.estimators`
    images: int  # number of test images
    covers: IntervalScope
    # number of the suite's own rows, including hidden rows, whose comparisons with one control are adjusted together
    family: int = 0
    references: int = 0  # number of explained networks; 0 if no cell depends on one
    # standard deviation of a row's gain between references and their training runs, in accuracy points, without
    # Random's training noise; None if unknown
    reference_deviation: float | None = None
    reference_rows: int = 0  # number of rows from which `reference_deviation` is estimated
    reference_freedom: float | None = None  # degrees of freedom of this estimate

    def list_gains_by_level(self, row: Row) -> tuple[Estimate, ...]:
        """Return a row's gain at every level above 0, in [-1, 1]; at one level, an area is half of this gain."""
        if self.protocol.order is Order.LERF:
            return row.differences
        return tuple(difference.negative for difference in row.differences)

    def find_two_opposite_gains(self, row: Row) -> dict[float, Estimate]:
        """Return a ranked row's gain at a level where it is above 0 and at one where it is below; in [-1, 1], by level.

        These are the largest and the smallest of the gains whose intervals, which hold for each level alone, exclude 0.
        The result is empty for rows without both.
        """
        if row.find_place is None:
            return {}
        gains = dict(zip(self.levels, self.list_gains_by_level(row), strict=True))
        above = [at for at, gain in gains.items() if gain.low is not None and gain.low > 0]
        below = [at for at, gain in gains.items() if gain.high is not None and gain.high < 0]
        chosen = {max(above, key=lambda at: gains[at]), min(below, key=lambda at: gains[at])} if above and below else ()
        return {at: gains[at] for at in sorted(chosen)}

    def make_accuracy_or_gain_curve(self, row: Row) -> dict[float, Estimate]:
        """Return a row's curve from t = 0: accuracies, or gains if one scoring network is shared by all rows."""
        gains = self.protocol.random_is_zero
        points = (Estimate(0.0, 0.0, 0.0), *self.list_gains_by_level(row)) if gains else (row.clean, *row.accuracies)
        return dict(zip((0.0, *self.levels), points, strict=True))

    @property
    def one_network(self) -> bool:
        """Return whether there is a single explained network, so that results hold for this network only."""
        return self.references == 1


def drop_ranks_and_verdicts(board: Board) -> Board:
    """Return the board without ranks and verdicts, for numbers that support no conclusion."""
    rows = (replace(row, against={}, beating=None, find_place=None, network=None) for row in board.rows)
    return replace(board, rows=tuple(rows))

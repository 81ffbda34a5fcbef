"""A board: rows with gains, verdicts and ranks under one protocol, and the scope of its intervals."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from roarbench.enums import OTHER_IMAGE, Order
from roarbench.estimators.estimator import CONTROLS
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.protocols import Protocol
from roarbench.stats.bootstrap import Bootstrap, Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest
from roarbench.stats.rank_intervals import Place
from roarbench.stats.verdicts import Comparison, ControlComparison

VERSION = 2  # counts up with every change by which the same answers give other numbers
RANDOM, SOBEL, BLURRED = CONTROLS
ZERO = "0"  # what Random's measured gain is held against where it is 0 by construction
ONE_NETWORK = "for this network only"  # of a board whose rows explain one reference


class IntervalScope(StrEnum):
    """Repetitions over which intervals have their stated coverage: other images, trainings, explained networks."""

    IMAGES = "images"  # the choice of test images; nothing was trained
    NETWORKS = "images and references"  # and the explained networks; nothing else was trained
    BOTH = "images and seeds"  # the choice of test images and the trainings
    REFERENCES = "images, references and seeds"  # and the explained networks
    NOTHING = "nothing"  # one training per cell: there are no intervals


@dataclass(frozen=True)
class Row:
    """The results of one estimator."""

    estimator: str
    seeds: int  # fewest seeds in a cell of its curve; 0 where one is missing
    clean: Estimate  # accuracy on untouched images, in [0, 1]
    accuracies: tuple[Estimate, ...]  # per level, in [0, 1]
    # per level, its accuracy minus Random's, in [-1, 1]; under a paired protocol minus that with the removal masks of
    # other images; under DiffROAR that of KAR minus that of ROAR
    differences: tuple[Estimate, ...]
    gain: Estimate  # in accuracy points
    delta_sobel: Estimate  # its gain minus Sobel's, in accuracy points
    place: Place | None  # None of a check and where the gain is missing
    check: bool = False  # it is a check of another row, and changes no verdict and no place
    # where the gain of a replication is expected, with the confidence of the board: the same test images and design,
    # other references and trainings; of own-network gain other images, too. Missing where only images were repeated
    predicted: Estimate = Estimate()
    # its gain minus that of its maps handed to other images, in accuracy points: what it knows about this image.
    # Missing without that twin's curve
    delta_other_image: Estimate = Estimate()
    # the comparisons with controls and with its twins, by their ids, Random's own with `ZERO`; nothing of a check,
    # without intervals or where a gain is missing
    against: Mapping[str, Comparison] = field(default_factory=dict)
    # it beside every control of the suite; None of a control or a check, where a gain is
    # missing, and without intervals
    beating: ControlComparison | None = None
    # by what a twin of it explains instead, its gain minus that twin's, in accuracy points, paired
    delta_twins: Mapping[str, Estimate] = field(default_factory=dict)
    network: OwnNetworkTest | None = None  # under own-network gain; None of a check, and where the gain is missing

    @property
    def random(self) -> Comparison | None:
        """Return the comparison with Random."""
        return self.against.get(RANDOM)

    @property
    def sobel(self) -> Comparison | None:
        """Return the comparison with Sobel."""
        return self.against.get(SOBEL)

    @property
    def random_blurred(self) -> Comparison | None:
        """Return the comparison with the blurred random map."""
        return self.against.get(BLURRED)

    @property
    def other_image(self) -> Comparison | None:
        """Return the comparison with its own maps of other images."""
        return self.over(OTHER_IMAGE)

    def over(self, twin: str) -> Comparison | None:
        """Return the comparison with its twin of this kind."""
        return self.against.get(make_twin_id(self.estimator, twin))


@dataclass(frozen=True)
class Board:
    """All rows of one protocol, with the settings and variances needed to judge them."""

    protocol: Protocol
    levels: tuple[float, ...]  # those above 0
    rows: tuple[Row, ...]  # those shown, in the order of the scores
    images: int  # number of test images
    bootstrap: Bootstrap  # resamples, seed and confidence of every interval here
    covers: IntervalScope
    # smallest true difference of two gains, in accuracy points, that one comparison planned beforehand finds with a
    # chance of 80%; the median over all pairs of the suite's own rows, shown or not. None without intervals
    detectable: float | None
    # number of comparisons that the verdicts are adjusted for: of all of the suite's own rows with results, shown or
    # not
    family: int = 0
    references: int = 0  # number of explained networks; 0 where no cell depends on one
    # standard deviation of a row's gain from one reference, with its training, to another, in accuracy points, Random's
    # own luck aside; None if not known
    reference_deviation: float | None = None
    reference_rows: int = 0  # number of rows that it was estimated from, worth `reference_freedom` degrees of freedom
    reference_freedom: float | None = None

    def gains(self, row: Row) -> tuple[Estimate, ...]:
        """Return a row's gain at every level above 0, in [-1, 1]; empty where gains are areas between curves."""
        if not self.protocol.by_difference:
            return ()
        return row.differences if self.protocol.order is Order.LERF else tuple(t.negative for t in row.differences)

    def curve(self, row: Row) -> dict[float, Estimate]:
        """Return a row's points from t = 0: accuracies, or gains where one scoring network serves all rows."""
        gains = self.protocol.by_difference
        points = (Estimate(0.0, 0.0, 0.0), *self.gains(row)) if gains else (row.clean, *row.accuracies)
        return dict(zip((0.0, *self.levels), points, strict=True))

    @property
    def one_network(self) -> bool:
        """Return whether all rows explain the same network, so that results hold for that network only."""
        return self.references == 1


def drop_verdicts(board: Board) -> Board:
    """Remove ranks and verdicts where the numbers support no conclusion."""
    rows = (replace(row, against={}, beating=None, place=None, network=None) for row in board.rows)
    return replace(board, rows=tuple(rows), detectable=None)

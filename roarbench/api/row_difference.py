"""Records of the comparison of two rows."""

from typing import NamedTuple

from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict


class Difference(NamedTuple):
    """Comparison of two rows of a table, paired by images, references and seeds.

    Attributes:
        points: The first row's gain minus the second row's, in accuracy points; None if a gain is missing. If Random's
            gain is 0 by construction (`matched`, DiffROAR), 0 is used instead of Random's measured gain.
        low, high: 95 % interval of this difference; None if the variance between training runs is unknown.
        p_adjusted: Two-sided p value. If a column of the table has the comparison, p is adjusted for the column
            (Benjamini and Hochberg 1995); if `planned`, it is not adjusted.
        verdict: `better`, `worse` or `not significantly different`, at 5%, as in every table. None without an
            interval, if the networks are at chance, and if both gains are 0 by construction.
        gains: Gains of the two rows, with their intervals.
        protocol: Protocol that measured the gains, such as `roar`.
        unit: Unit of the removed features, such as `scalar`.
        beside_zero: For own-network gain, each row's verdict, such as `0 by construction`; None for other protocols.
        subtraction: The subtraction behind `points`, such as `grad - 0 (random's gain by construction)`.
        planned: Whether no column of a table has this comparison. It is then one planned comparison; of several such
            comparisons, some are significant by chance, and rank intervals hold for all pairs at once.
        unfinished: Missing runs that can change the verdict, such as `6 of 99 runs are missing`; empty without any.
    """

    points: float | None
    low: float | None
    high: float | None
    p_adjusted: float | None
    verdict: Verdict | None
    gains: tuple[Estimate, Estimate]
    protocol: str
    unit: str
    beside_zero: tuple[OwnNetworkVerdict | None, OwnNetworkVerdict | None] = (None, None)
    subtraction: str = ""
    planned: bool = False
    unfinished: str = ""


class TwoDifferences(NamedTuple):
    """Two rows compared by ROAR and by own-network gain; None if the suite does not measure both rows."""

    roar: Difference | None
    own_network: Difference | None

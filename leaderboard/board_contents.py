"""Contents of a board as frozen records, built in `build_board_contents` and laid out by templates."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import NamedTuple

from roarbench.plan.protocols import Protocol
from roarbench.report.row_doubts import Doubt
from roarbench.stats.bootstrap_intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest, OwnNetworkVerdict
from roarbench.stats.rank_intervals import RankInterval
from roarbench.stats.verdicts import ControlComparison

BEATS, OPEN, BELOW, CONTROL, UNJUDGED = "beats", "open", "below", "control", "unjudged"
KINDS = {  # descriptions of the colour classes
    BEATS: "beats every control",
    OPEN: "not shown to beat every control",
    BELOW: "below a control",
    CONTROL: "control: uses at most the predicted class",
    UNJUDGED: "no verdict: too few runs",
}

NETWORK_KINDS = {  # descriptions under own-network gain
    BEATS: str(OwnNetworkVerdict.EXPLAINS),
    OPEN: str(OwnNetworkVerdict.OPEN),
    BELOW: str(OwnNetworkVerdict.OPPOSES),
    CONTROL: str(OwnNetworkVerdict.BY_CONSTRUCTION),
    UNJUDGED: "no verdict",
}
_BESIDE_ZERO = {OwnNetworkVerdict(words): kind for kind, words in NETWORK_KINDS.items() if kind != UNJUDGED}


def choose_colour_class(test: OwnNetworkTest | None) -> str:
    """Return a row's colour class under own-network gain; a gain of 0 by construction gets the colour of controls."""
    return _BESIDE_ZERO[test.verdict] if test else UNJUDGED


@dataclass(frozen=True)
class BoardRow:
    """A row of a board."""

    id: str  # id for the command line; `name` and `detail` are the printed name and the parameters that matter
    name: str
    detail: str
    about: str
    control: bool  # the row uses at most the network's predicted class
    place: RankInterval | None
    # the shown number: gain in points, or accuracy in percent for boards without gains
    value: Estimate
    # comparison with every control; None for a control, and without verdicts
    beating: ControlComparison | None
    better_than: tuple[str, ...]  # `CONTROLS`, with or without `UNTRAINED`, of `report.table`; empty for a control
    roar: RankInterval | None  # rank under ROAR; None if unknown
    # ids of rows whose order with this row is significant and opposite here and under ROAR
    reversed_by: tuple[str, ...]
    doubts: tuple[Doubt, ...]  # why the row has no rank, then reasons to doubt it, in a fixed order of kinds
    seconds: float | None  # CPU seconds for the maps of 1,000 images; None if unknown
    network: OwnNetworkTest | None = None  # only for own-network gain
    added: bool = False  # the suite does not name the row, and its rank does not change other ranks
    started: bool = True  # the row has a result under the protocol

    @property
    def colour_class(self) -> str:
        """Return the row's colour class; `BEATS` means that the row beats every control or explains its network."""
        if self.network:
            return choose_colour_class(self.network)
        if self.control:
            return CONTROL
        if not self.beating:
            return UNJUDGED
        return BEATS if self.beating.beats_all else BELOW if self.beating.loses_to_a_control else OPEN

    @property
    def verdict_text(self) -> str:
        """Return the verdict as text."""
        return (NETWORK_KINDS if self.network else KINDS)[self.colour_class]

    @property
    def by_construction(self) -> bool:
        """Return whether the row's gain is exactly 0, because the row has the same maps for every network."""
        return self.network is not None and self.network.verdict is OwnNetworkVerdict.BY_CONSTRUCTION


class Axis(NamedTuple):
    """A common scale: its ends, labelled values, and whether it is logarithmic."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def to_percent(self, value: float) -> float:
        """Return the position of a value, in percent of the width, within [0, 100]."""
        low, high, here = (log10(x) if self.log else x for x in (self.low, self.high, value))
        return round(min(100.0, max(0.0, 100 * (here - low) / (high - low))), 1)


def make_linear_axis(values: list[float]) -> Axis:
    """Return a scale for these values and 0, with about six round ticks."""
    low, high = min(0.0, *values, 0.0), max(0.0, *values, 0.0)
    span = (high - low) or 1.0
    power = 10.0 ** floor(log10(span / 6))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if span / (m * power) <= 7)
    low, high = low - 0.03 * span, high + 0.03 * span
    return Axis(low, high, tuple(round(step * n, 10) + 0.0 for n in range(ceil(low / step), floor(high / step) + 1)))


def make_cost_axis(seconds: list[float]) -> Axis | None:
    """Return a logarithmic scale for these numbers, with powers of ten; None without numbers."""
    if not seconds:
        return None
    low, high = floor(log10(min(seconds))), ceil(log10(max(seconds)))
    low, high = (low - 1, high) if low == high else (low, high)
    return Axis(0.8 * 10.0**low, 1.25 * 10.0**high, tuple(10.0**n for n in range(low, high + 1)), log=True)


@dataclass(frozen=True)
class BoardContents:
    """A board as shown: one protocol and unit of a suite, over some levels."""

    slug: str
    title: str
    protocol: Protocol
    levels: tuple[float, ...]
    incomplete_levels_text: str  # levels in words if some of the suite's are left out, such as `at 90 %`; else empty
    headline: str  # estimators that beat every control, in one or two sentences; empty without such verdicts
    facts: tuple[str, ...]  # data, estimators, networks and date
    measured: str  # label of the shown numbers, such as `matched gain, points`
    caption: str  # meaning of the numbers, scope of the intervals, and exceptions
    rows: tuple[BoardRow, ...]  # by value, best first; rows without a value last
    best: BoardRow | None  # control with the largest gain; None without controls, or if all gains are 0
    axis: Axis
    costs: Axis | None  # scale of seconds per 1,000 maps; None if no cost is known
    roar_from: str  # title of the suite whose ROAR ranks are shown; empty without ROAR ranks
    gained: bool  # rows have gains and ranks; boards of mask-only networks have accuracies

    @property
    def tab_label(self) -> str:
        """Return the board's short name: its protocol, and its levels if some are left out."""
        return f"{self.protocol.tab} {self.incomplete_levels_text}".rstrip()

    @property
    def colour_legend(self) -> list[tuple[str, str]]:
        """Return the colour classes with their texts under this protocol."""
        words = NETWORK_KINDS if self.protocol.compares_networks else KINDS
        there = {row.colour_class for row in self.rows}
        return [(kind, meaning) for kind, meaning in words.items() if kind in there]

    @property
    def rows_by_id(self) -> Mapping[str, BoardRow]:
        """Return the rows by id."""
        return {row.id: row for row in self.rows}

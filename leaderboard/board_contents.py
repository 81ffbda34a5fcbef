"""Contents of a board as frozen records, which `build_board_contents` builds and templates lay out."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import NamedTuple

from roarbench.common.text import capitalize
from roarbench.plan.protocols import MATCHED, ORDER_NAMES, OWN_NETWORK, ROAR, Protocol, describe_levels
from roarbench.report.doubts import Doubt, Shown, join_signs
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest, OwnNetworkVerdict
from roarbench.stats.rank_intervals import RankInterval
from roarbench.stats.verdicts import ControlComparison, Verdict

BEATS, OPEN, BELOW, CONTROL, UNJUDGED = "beats", "open", "below", "control", "unjudged"
_VERDICTS = (BEATS, OPEN, BELOW)
# descriptions of the colour classes; rows without a verdict lack runs, or their networks are at chance
_UNCOMPARED = {CONTROL: "control", UNJUDGED: "no verdict"}
# of rows that are compared with every control
KINDS = {BEATS: "beats every control", OPEN: "not shown to beat all", BELOW: "below a control"} | _UNCOMPARED
RANDOM_KINDS = {  # under ROAR, where rows are compared with Random alone
    BEATS: "better than Random",
    OPEN: "no significant difference",
    BELOW: "worse than Random",
} | _UNCOMPARED
NETWORK_KINDS = {  # under own-network gain
    BEATS: str(OwnNetworkVerdict.EXPLAINS),
    OPEN: "not shown to explain it",
    BELOW: str(OwnNetworkVerdict.OPPOSES),
    CONTROL: "control, or 0 by construction",
    UNJUDGED: "no verdict",
}
_ASKS = {  # questions of the board of all gains
    ROAR: "Do the pixels matter in the data?",
    OWN_NETWORK: "Does the map explain this network?",
    MATCHED: "Does the map show evidence in the image?",
}
_KINDS_BY_VERDICT = {  # other verdicts are `OPEN`
    Verdict.BETTER: BEATS,
    Verdict.WORSE: BELOW,
    OwnNetworkVerdict.EXPLAINS: BEATS,
    OwnNetworkVerdict.OPPOSES: BELOW,
    OwnNetworkVerdict.BY_CONSTRUCTION: CONTROL,
    OwnNetworkVerdict.CONTROL: CONTROL,
}


def find_kinds(protocol: Protocol) -> Mapping[str, str]:
    """Return the descriptions of the colour classes under a protocol."""
    return NETWORK_KINDS if protocol.scores_all_network_pairs else RANDOM_KINDS if protocol == ROAR else KINDS


def classify_verdict(verdict: Verdict | OwnNetworkVerdict | None, protocol: Protocol, control: bool) -> str:
    """Return the class of `SuiteTable.find_verdict`; a row with gain 0 by construction looks like a control."""
    if verdict is None:
        return CONTROL if control and not protocol.scores_all_network_pairs else UNJUDGED
    return _KINDS_BY_VERDICT.get(verdict, OPEN)


@dataclass(frozen=True)
class BoardRow:
    """A row of a board."""

    id: str  # id for the command line; `name` is the printed name, and `detail` has the parameters that differ
    name: str
    detail: str
    about: str
    control: bool  # whether the verdict on the row is `control`
    find_place: Callable[[], RankInterval] | None = field(compare=False)  # as in `board_records.Row`
    # number that the row shows: gain in points, or accuracy in percent on boards without gains
    value: Estimate
    # comparison with every control; None for a control, and on boards without verdicts
    beating: ControlComparison | None
    # reason why the row has no rank, followed by reasons to doubt the row, in a fixed order of kinds
    doubts: tuple[Doubt, ...] = ()
    network: OwnNetworkTest | None = None  # test of the own-network gain; None on other boards
    verdict_class: str = UNJUDGED  # `BEATS` means that the row beats what it is compared with, or explains its network
    verdict_text: str = ""  # with `unfinished` if missing runs can change the verdict
    passes: float | None = None  # forward and backward passes per image; None if unknown, 0 for controls
    truth: bool = False  # whether the row is a known ranking, which is judged, but is no estimator
    signs: str = ""  # on the board of all gains, signs of doubts about the row under every protocol, such as †
    added: bool = False  # whether the row was added to the suite; the rank of such a row does not change other ranks
    started: bool = True  # whether the row has a result or a failed run under the protocol
    unfinished: bool = False  # whether missing runs can change the row's verdicts
    more: tuple[str, ...] = ()  # texts of other columns, such as the gain at each level

    @property
    def place(self) -> RankInterval | None:
        return self.find_place() if self.find_place else None

    @property
    def colour_class(self) -> str:
        """Return the class of the row's verdict; a control looks like a control, whatever its verdict is."""
        return CONTROL if self.control and self.verdict_class in _VERDICTS else self.verdict_class

    @property
    def is_estimator(self) -> bool:
        return not (self.control or self.truth)

    @property
    def gain_doubts(self) -> list[Doubt]:
        """Return the doubts that stand beside the gain on the board of all gains."""
        return [doubt for doubt in self.doubts if doubt.kind.shown is Shown.GAIN]

    @property
    def gain_sign(self) -> str:
        """Return the sign of `gain_doubts`, `(!!)` or `(!)`; empty without doubts."""
        return join_signs(self.gain_doubts)

    @property
    def by_construction(self) -> bool:
        """Return whether the row's gain is exactly 0, because the row has the same maps for every network."""
        return self.network is not None and self.network.verdict is OwnNetworkVerdict.BY_CONSTRUCTION


class Axis(NamedTuple):
    """A scale that all rows of a board share: its ends, labelled values, and whether it is logarithmic."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def to_percent(self, value: float) -> float:
        """Return the position of a value on the scale, in percent of its width, clipped to [0, 100]."""
        low, high, here = (log10(x) if self.log else x for x in (self.low, self.high, value))
        return round(min(100.0, max(0.0, 100 * (here - low) / (high - low))), 1)


def make_linear_axis(values: list[float]) -> Axis:
    """Return a scale that contains these values and 0, with about six round ticks."""
    low, high = min(0.0, *values, 0.0), max(0.0, *values, 0.0)
    span = (high - low) or 1.0
    power = 10.0 ** floor(log10(span / 6))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if span / (m * power) <= 7)
    low, high = low - 0.03 * span, high + 0.03 * span
    return Axis(low, high, tuple(round(step * n, 10) + 0.0 for n in range(ceil(low / step), floor(high / step) + 1)))


def make_gain_axis(gains: Iterable[Estimate]) -> Axis:
    """Return a linear scale that contains these gains with their intervals."""
    return make_linear_axis([end for gain in gains for end in gain if end is not None])


def make_pass_axis(passes: list[float]) -> Axis:
    """Return a logarithmic scale for these numbers of passes, with ticks at powers of four times two."""
    low, high = min(passes), max(passes)
    return Axis(0.8 * low, 1.25 * high, tuple(t for n in range(12) if low <= (t := 2.0 * 4.0**n) <= high), log=True)


@dataclass(frozen=True)
class BoardContents:
    """A board as a page shows it: one protocol and one unit of a suite, over some levels.

    On the board of all gains, such a board is a column.
    """

    slug: str
    title: str
    protocol: Protocol
    levels: tuple[float, ...]
    # levels in words, such as `at 90 %`, if some of the suite's levels are left out; else empty
    included_levels_text: str
    headline: str  # one or two sentences on estimators that beat every control; empty if verdicts are missing
    facts: tuple[str, ...]  # data, estimators, networks and date
    value_label: str  # label of the shown numbers, such as `matched gain, points`
    rows: tuple[BoardRow, ...]  # rows by value, the best first and rows without a value last
    best_control: BoardRow | None  # control with the largest gain; None under own-network gain and without one
    axis: Axis
    has_gains: bool  # whether rows have gains and ranks; rows of mask-only networks have accuracies instead

    @property
    def tab_label(self) -> str:
        """Return the board's short name: its protocol, and its levels if some of the suite's levels are left out."""
        return f"{self.protocol.title} {self.included_levels_text}".rstrip()

    @property
    def removal_text(self) -> str:
        """Return the board's levels and order of removal in words."""
        return self.protocol.describe_removal(self.levels)

    @property
    def asks(self) -> str:
        return _ASKS.get(self.protocol, "")

    @property
    def gain(self) -> str:
        """Return the name of the gain in a sentence."""
        return self.protocol.gain_name.removesuffix(" over Random") or self.protocol.title

    @property
    def gain_with_levels(self) -> str:
        """Return the name of the gain in a sentence, with the levels if some of the suite's levels are left out."""
        return f"{self.gain} {self.included_levels_text}".rstrip()

    @property
    def levels_text(self) -> str:
        return describe_levels(self.levels)

    @property
    def legend_title(self) -> str:
        """Return the name of the gain, with the order of removal if the name alone does not tell two orders apart."""
        name = capitalize(self.gain)
        return f"{name} ({ORDER_NAMES[self.protocol.order]})" if self.protocol.scores_all_network_pairs else name

    @property
    def colour_legend(self) -> list[tuple[str, str]]:
        """Return the colour class of each symbol on the board, with its description; a row without value has none."""
        present = {row.colour_class for row in self.rows if row.value.value is not None}
        return [(kind, meaning) for kind, meaning in find_kinds(self.protocol).items() if kind in present]

    @property
    def rows_by_id(self) -> Mapping[str, BoardRow]:
        return {row.id: row for row in self.rows}

    @property
    def started_rows(self) -> Mapping[str, BoardRow]:
        """Return the rows with a result or a failed run by id; on the board of all gains, another row is not run."""
        return {row.id: row for row in self.rows if row.started}

"""The table of `rb.own_network_gain`: gains of several estimators with intervals and verdicts; what tables share.

The comparison of two rows is the same record in this table and in that of a suite.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from roarbench.analysis.suite_judges import describe_verdict
from roarbench.common.enums import Order, Unit
from roarbench.common.errors import UnknownName
from roarbench.common.text import format_decimals, format_interval
from roarbench.report.table_record import ROW_KEY, Bar, Table, format_signed_value, format_thousandths, make_column
from roarbench.report.table_renderers import format_html, format_plain_text, make_data_frame
from roarbench.stats.compute_board import Judge
from roarbench.stats.contrasts import Contrast
from roarbench.stats.correctness_and_gain import POINTS
from roarbench.stats.intervals import Estimate, estimate
from roarbench.stats.own_network_gain import (
    BESIDE_SEARCH,
    FEWEST_PERMUTED,
    NO_SEARCH,
    OwnNetworkGain,
    OwnNetworkVerdict,
)
from roarbench.stats.verdicts import Verdict

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class Difference(NamedTuple):
    """Comparison of two rows of a table, paired by images, explained networks and seeds; printed as one sentence.

    Attributes:
        points: The first row's gain minus the second row's, in accuracy points; None if a gain is missing. If Random's
            gain is 0 by construction (`matched`, DiffROAR), 0 is used instead of Random's measured gain.
        low, high: 95 % interval of this difference; None if the variance between training runs is unknown.
        p: Two-sided p value of this comparison alone.
        p_adjusted: The p value adjusted for the column of the table that has the comparison (Benjamini and Hochberg
            1995); None if `planned`, as no column has it.
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
        names: Names of the two rows.
    """

    points: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    verdict: Verdict | None
    gains: tuple[Estimate, Estimate]
    protocol: str
    unit: str
    beside_zero: tuple[OwnNetworkVerdict | None, OwnNetworkVerdict | None] = (None, None)
    subtraction: str = ""
    planned: bool = False
    unfinished: str = ""
    names: tuple[str, str] = ("", "")

    def __repr__(self) -> str:
        p, kind = (self.p, "p") if self.planned else (self.p_adjusted, "adjusted p")
        p_text = "" if p is None else f", {kind} {format_decimals(p, 4) if p >= 5e-5 else '< 0.0001'}"
        if self.verdict is not None:
            verdict = describe_verdict(self.verdict, self.names)
        elif lacking := [name for name, gain in zip(self.names, self.gains, strict=True) if gain.value is None]:
            verb = "has" if len(lacking) == 1 else "have"
            verdict = f"no verdict, because {' and '.join(lacking)} {verb} no gain"
        else:
            fixed = set(self.beside_zero) == {OwnNetworkVerdict.BY_CONSTRUCTION}
            reason = "both gains are 0 by construction" if fixed else "there is no interval" if self.low is None else ""
            verdict = f"no verdict{f': {reason}' * bool(reason)}"
        return f"{self.subtraction}: {format_interval(self[:3])} points{p_text}: {verdict}"


class TwoDifferences(NamedTuple):
    """Two rows compared by ROAR and by own-network gain; None if the suite does not measure both rows."""

    roar: Difference | None
    own_network: Difference | None

    def __repr__(self) -> str:
        return "\n".join(f"{each.protocol}, {each}" for each in self if each)


class GainTable(ABC):
    """Gains of several estimators with their intervals."""

    @abstractmethod
    def present(self) -> Table:
        """Return the table with its columns and notes."""

    @abstractmethod
    def bars_by_panel(self) -> Mapping[str, Mapping[str, Bar]]:
        """Return gains and verdicts by panel label and estimator."""

    @property
    def plot_title(self) -> str:
        """Return the title of the figure; empty if it needs none."""
        return ""

    def __repr__(self) -> str:
        return format_plain_text(self.present())

    def _repr_html_(self) -> str:
        return format_html(self.present())

    def plot(self, file: str | Path | None = None) -> "Figure":
        """Draw the gains with their intervals; `file` (PNG, SVG or PDF) also saves the figure."""
        from roarbench.report.curve_panels import save_figure
        from roarbench.report.suite_charts import plot_gains

        figure = plot_gains(self.bars_by_panel(), self.plot_title, self.present().notes)
        if file is not None:
            save_figure(figure, Path(file))
        return figure


def estimate_gain(gain: Contrast) -> Estimate:
    """Return a gain with its 95 % interval; no interval if 0 on every image, or of one image.

    No gain is outside -100 to 100, so intervals end there; verdicts do not.
    """
    return estimate(gain).limit(POINTS)


def explain_missing_intervals(computed: Iterable[Estimate]) -> str:
    """Explain gains without an interval; empty if all computed gains have one."""
    known = all(gain.low is not None for gain in computed)
    return "" if known else " Without an interval: 0 on every image, or one image; others may differ."


@dataclass(frozen=True, eq=False, repr=False)
class OwnNetworkTable(GainTable):
    """Own-network gains of several estimators as a table.

    Attributes:
        gains: Gain by estimator name; None if the removal masks are the same for every network.
        verdicts: Verdict by estimator name; p values are adjusted for testing all rows.
        networks: Number of explained networks.
        images: Number of images to which all networks assign the same class; only these are used.
        of: Number of all images.
        levels: Removal fractions.
        order: `morf` or `lerf`.
        passes: Forward and backward passes of an image's map by estimator name; None if they are unknown. Empty without
            a row `search`, with which verdicts compare.
    """

    judge: Judge
    ids: Mapping[str, str]  # of rows in `judge`, by name; a caller's name may be an id that means something there
    networks: int
    images: int
    of: int
    passes: Mapping[str, float | None]

    @cached_property
    def gains(self) -> dict[str, OwnNetworkGain | None]:
        return {name: self.judge.own_network.get(id_) for name, id_ in self.ids.items()}

    @cached_property
    def verdicts(self) -> dict[str, OwnNetworkVerdict | None]:
        """Return the verdict of each estimator that has a gain."""
        return {name: self.judge.find_own_network_verdict(id_) for name, id_ in self.ids.items()}

    @property
    def levels(self) -> tuple[float, ...]:
        return self.judge.levels

    @property
    def order(self) -> Order:
        return self.judge.protocol.order

    def gain(self, name: str) -> Estimate:
        """Return a gain in points with its 95 % interval; no interval if 0 on every image, or of one image."""
        return self.judge.estimate_gain(self.ids[name])

    def compare(self, first: str, second: str) -> Difference:
        """Compare two rows by the first gain minus the second, paired by images and networks.

        A comparison with a row of gain 0 by construction, or with a row's own search, has the verdict of the table. Any
        other pair is one planned comparison, whose p value is not adjusted.

        Raises:
            CallerError: The table has no such row.
        """
        for name in (first, second):
            if name not in self.gains:
                raise UnknownName("row", name, self.gains)
        one, other = self.gains[first], self.gains[second]
        if one and other:
            points = estimate(one.gain.subtract(other.gain))
        else:
            points = self.gain(first) if one else self.gain(second).negative
        pair = self.ids[first], self.ids[second]
        comparison = self.judge.compare(*pair)
        planned = comparison is not None and self.judge.is_planned_alone(*pair)
        return Difference(
            *points,
            p=comparison and comparison.p,
            p_adjusted=comparison.q if comparison and not planned else None,
            verdict=comparison and comparison.verdict,
            gains=(self.gain(first), self.gain(second)),
            protocol=self.judge.protocol.name,
            unit=Unit.SCALAR,
            beside_zero=(self.verdicts[first], self.verdicts[second]),
            subtraction=f"{first} - {second}",
            planned=planned,
            names=(first, second),
        )

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator, largest gain first, with the keys of `result.to_dataframe()`."""
        return make_data_frame(self.present())

    @property
    def caption(self) -> str:
        """Describe the measurement, its intervals, and what verdicts compare with."""
        levels = ", ".join(f"{t:g}" for t in self.levels)
        verb, past = ("lose", "lost") if self.order is Order.MORF else ("keep", "kept")
        missing = explain_missing_intervals(self.gain(name) for name, own_gain in self.gains.items() if own_gain)
        search = BESIDE_SEARCH if self.judge.searches else NO_SEARCH[self.order]
        return (
            f"{self.networks} networks; the {self.images} of {self.of} images on which all networks agree; "
            f"{self.order} at t = {levels}.\nGain, in points: predictions that networks {verb} under the mask of their "
            f"own map, minus those {past} under that of another network's map.\n"
            f"95 % intervals over images and networks; verdicts are adjusted for testing all rows. {search}{missing}"
        )

    def present(self) -> Table:
        """Return the table, largest gain first, with its columns and notes."""
        names = self._sort_names()
        verdicts = [self.verdicts[name] for name in names]
        gains = [self.gains[name] for name in names]
        permutations = [gain and gain.permutation for gain in gains]
        permutation = "permutation p" * (self.networks >= FEWEST_PERMUTED)
        columns = [
            make_column(ROW_KEY, names, "estimator", side="left"),
            make_column("gain", map(self.gain, names), "gain [95 %]"),
        ]
        for number, t in enumerate(self.levels):
            estimates = [estimate_gain(gain.levels[number]) if gain else Estimate(0.0) for gain in gains]
            columns.append(make_column(f"gains{{}}/{t}", estimates, f"at {t:g}", form=format_signed_value))
        columns += [
            make_column("verdict", (verdict and str(verdict) for verdict in verdicts), "verdict", has_words=True),
            make_column("permutation_p", permutations, permutation, form=format_thousandths),
        ]
        return Table("", tuple(columns), tuple(self.caption.split("\n")))

    def bars_by_panel(self) -> dict[str, dict[str, Bar]]:
        """Return a single panel with the gains and verdicts by estimator, largest gain first."""
        bars = {name: Bar(self.gain(name), self.verdicts[name]) for name in self._sort_names()}
        return {"own-network gain, points": bars}

    def _sort_names(self) -> list[str]:
        return sorted(self.gains, key=lambda name: -(self.gain(name).value or 0.0))

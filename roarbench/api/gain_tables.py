"""The tables of `rb.check` and `rb.own_network_gain`: gains of several estimators with intervals and verdicts."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from roarbench.api.row_difference import Difference
from roarbench.common.enums import Order, Unit
from roarbench.common.errors import CallerError
from roarbench.common.text import (
    format_count,
    format_interval,
    format_percent_number,
    list_some,
)
from roarbench.plan.protocols import OWN_NETWORK, OWN_NETWORK_LERF
from roarbench.report.table_record import ROW_KEY, Table, format_signed_value, format_thousandths, make_column
from roarbench.report.table_renderers import format_html, format_plain_text, make_data_frame
from roarbench.stats.contrasts import Contrast
from roarbench.stats.correctness_and_gain import POINTS
from roarbench.stats.intervals import FEWEST_IMAGES, Estimate, estimate_over_images
from roarbench.stats.own_network_gain import FEWEST_PERMUTED, JudgedGain, OwnNetworkGain, OwnNetworkVerdict
from roarbench.stats.search_control import BESIDE_SEARCH, NO_SEARCH
from roarbench.stats.verdicts import Comparison, Verdict, judge_comparisons

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

CONTROLS = ("random", "sobel")
OWN = "own network"  # column of own-network gain
_FEW_IMAGES = f"Fewer than {FEWEST_IMAGES} images: no intervals and no verdicts."


class GainTable(ABC):
    """Gains of several estimators with their intervals."""

    @property
    @abstractmethod
    def caption(self) -> str:
        """Describe the measure and the scope of its intervals."""

    @abstractmethod
    def present(self) -> Table:
        """Return the table with its columns and notes."""

    @abstractmethod
    def bars_by_panel(self) -> Mapping[str, Mapping[str, JudgedGain]]:
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

        figure = plot_gains(self.bars_by_panel(), self.plot_title)
        if file is not None:
            save_figure(figure, Path(file))
        return figure


def _estimate_gain(gain: Contrast) -> Estimate:
    """Return a gain with its 95 % interval; no interval for few images, and if the gain is 0 on every image.

    Images without any difference do not show how large a difference on other images may be. No gain is outside -100 to
    100, so intervals end there; verdicts do not.
    """
    if not (gain.value or gain.varies):
        return Estimate(0.0)
    value, *ends = estimate_over_images(gain)
    return Estimate(value, *(None if end is None else min(max(end, -POINTS), POINTS) for end in ends))


def _describe_zero_gains(computed: Iterable[Estimate]) -> str:
    """Explain gains without an interval; empty if all computed gains have one."""
    known = all(gain.low is not None for gain in computed)
    return "" if known else " 0.0 without an interval: the gain is 0 on every image, which does not show equality."


@dataclass(frozen=True, eq=False, repr=False)
class OwnNetworkTable(GainTable):
    """Own-network gains of several estimators as a table.

    Attributes:
        gains: Gain by estimator name; None if the removal masks are the same for every network.
        verdicts: Verdict by estimator name; p values are adjusted for testing all rows. None if there are fewer than 10
            images, which also give no intervals.
        networks: Number of explained networks.
        images: Number of images to which all networks assign the same class; only these are used.
        of: Number of all images.
        levels: Removal fractions.
        order: `morf` or `lerf`.
        passes: Forward and backward passes of an image's map by estimator name; None if they are unknown. Empty without
            a row `search`, with which verdicts compare.
    """

    gains: Mapping[str, OwnNetworkGain | None]
    verdicts: Mapping[str, OwnNetworkVerdict | None]
    networks: int
    images: int
    of: int
    levels: tuple[float, ...]
    order: Order
    passes: Mapping[str, float | None] = field(default_factory=dict)

    def gain(self, name: str) -> Estimate:
        """Return a gain in points with its 95 % interval; without interval for few images, or if all gains are 0."""
        own_gain = self.gains[name]
        return Estimate(0.0) if own_gain is None else _estimate_gain(own_gain.gain)

    def compare(self, first: str, second: str) -> Difference:
        """Compare two rows by the first gain minus the second, paired by images and networks.

        A comparison with a row of gain 0 by construction has the verdict of the table. Any other pair is one planned
        comparison, whose p value is not adjusted. There is no verdict for fewer than 10 images.

        Raises:
            CallerError: The table has no such row.
        """
        for name in (first, second):
            if name not in self.gains:
                raise CallerError(f"there is no row '{name}' here, only: {', '.join(self.gains)}")
        own_first, own_second = self.gains[first], self.gains[second]
        comparison: Comparison | None = None
        planned = bool(own_first and own_second)
        if own_first and own_second:
            difference = own_first.gain.subtract(own_second.gain)
            points = estimate_over_images(difference)
            if first != second and difference.varies:
                comparison = judge_comparisons({"": difference})[""]
        else:
            points = self.gain(first) if own_first else self.gain(second).negative
            tested = judge_comparisons({name: own_gain.gain for name, own_gain in self.gains.items() if own_gain})
            comparison = tested.get(first) or (tested[second].reversed if second in tested else None)
        if comparison is None or self.images < FEWEST_IMAGES:
            comparison, planned = None, False
        protocol = OWN_NETWORK if self.order is Order.MORF else OWN_NETWORK_LERF
        return Difference(
            *points,
            p_adjusted=comparison and comparison.q,
            verdict=comparison and comparison.verdict,
            gains=(self.gain(first), self.gain(second)),
            protocol=protocol.name,
            unit=Unit.SCALAR,
            beside_zero=(self.verdicts[first], self.verdicts[second]),
            subtraction=f"{first} - {second}",
            planned=planned,
        )

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator, largest gain first, with the keys of `result.to_dataframe()`."""
        return make_data_frame(self.present())

    @property
    def caption(self) -> str:
        """Describe the measurement, its intervals, and what verdicts compare with."""
        levels = ", ".join(f"{t:g}" for t in self.levels)
        verb, past = ("lose", "lost") if self.order is Order.MORF else ("keep", "kept")
        zeros = _describe_zero_gains(self.gain(name) for name, own_gain in self.gains.items() if own_gain)
        search = BESIDE_SEARCH if self.passes else NO_SEARCH
        adjusted = f"verdicts are adjusted for testing all rows. {search}"
        intervals = f"95 % intervals over images and networks; {adjusted}{zeros}"
        return (
            f"{self.networks} networks; the {self.images} of {self.of} images on which all networks agree; "
            f"{self.order} at t = {levels}.\nGain, in points: predictions that networks {verb} under the mask of their "
            f"own map, minus those {past} under that of another network's map.\n"
            f"{_FEW_IMAGES if self.images < FEWEST_IMAGES else intervals}"
        )

    def present(self) -> Table:
        """Return the table, largest gain first, with its columns and notes."""
        names = self._sort_names()
        verdicts = [self.verdicts[name] for name in names]
        permutations = [gain and gain.permutation for gain in map(self.gains.get, names)]
        permutation = "permutation p" * (self.networks >= FEWEST_PERMUTED)
        columns = [
            make_column(ROW_KEY, names, "estimator", side="left"),
            make_column("gain", map(self.gain, names), "gain [95 %]"),
            *(
                make_column(
                    f"gains{{}}/{t}",
                    (self._estimate_at_level(name, number) for name in names),
                    f"at {t:g}",
                    form=format_signed_value,
                )  # fmt: skip
                for number, t in enumerate(self.levels)
            ),
            make_column("verdict", (verdict and str(verdict) for verdict in verdicts), "verdict", has_words=True),
            make_column("permutation_p", permutations, permutation, form=format_thousandths),
        ]
        return Table("", tuple(columns), tuple(self.caption.split("\n")))

    def _estimate_at_level(self, name: str, number: int) -> Estimate:
        own_gain = self.gains[name]
        return Estimate(0.0) if own_gain is None else _estimate_gain(own_gain.levels[number])

    def bars_by_panel(self) -> dict[str, dict[str, JudgedGain]]:
        """Return a single panel with the gains and verdicts by estimator, largest gain first."""
        bars = {name: JudgedGain(self.gain(name), self.verdicts[name]) for name in self._sort_names()}
        return {"own-network gain, points": bars}

    def _sort_names(self) -> list[str]:
        return sorted(self.gains, key=lambda name: -(self.gain(name).value or 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class CheckTable(GainTable):
    """Gains of several estimators and the controls in several columns; positive is better in every column.

    Attributes:
        gains: Gains in points by column and name, which vary with images (own-network gain: with networks, too).
        levels: Removal fractions by column.
        images: Number of images.
        accuracy: The network's accuracy on the untouched images, in [0, 1].
        own_network: The own-network column as a separate table, with verdicts; None if `check` got no siblings.
        controls: Names of the rows that are controls; a control never leads a column.
        at_chance_warning: Sentence saying that the network is not significantly better than chance; otherwise empty.
    """

    gains: Mapping[str, Mapping[str, Contrast]]
    levels: Mapping[str, tuple[float, ...]]
    images: int
    accuracy: float
    own_network: OwnNetworkTable | None = None
    controls: frozenset[str] = frozenset(CONTROLS)
    at_chance_warning: str = ""

    def gain(self, column: str, name: str) -> Estimate:
        """Return a gain in points with its 95 % interval; without interval for few images, or if all gains are 0."""
        return _estimate_gain(self.gains[column][name])

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator with its gain in each column; `intervals_to_dataframe` adds intervals.

        Frames of a network at chance have a column `note`, which says so.
        """
        return make_data_frame(self.present())

    def intervals_to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator and column: the gain and the ends of its 95 % interval."""
        import pandas

        return pandas.DataFrame(
            {"estimator": name, "column": column, **self.gain(column, name)._asdict(), **self._chance_note_column}
            for name in self._names
            for column in self.gains
        ).rename(columns={"value": "gain"})

    def present(self) -> Table:
        """Return the table with its columns and notes."""
        columns = [make_column(ROW_KEY, self._names, "estimator", side="left")]
        for column in self.gains:
            values = [self.gain(column, name).value for name in self._names]
            texts = [self._format_gain(column, name) for name in self._names]
            columns.append(make_column(column, values, column, texts))
        columns += [make_column(key, [text] * len(self._names)) for key, text in self._chance_note_column.items()]
        return Table("", tuple(columns), tuple(self.caption.split("\n")))

    def bars_by_panel(self) -> dict[str, dict[str, JudgedGain]]:
        """Return the gains and verdicts against Random by panel label and estimator; each column is a panel."""

        def judge(column: str, name: str) -> Verdict | OwnNetworkVerdict | None:
            if column == OWN and self.own_network and name in self.own_network.verdicts:
                return self.own_network.verdicts[name]
            return None if name == CONTROLS[0] or self.at_chance_warning else self._judge(column, name, CONTROLS[0])

        return {
            f"{column}, points": {
                name: JudgedGain(self.gain(column, name), judge(column, name)) for name in self._names
            }
            for column in self.gains
        }

    @property
    def plot_title(self) -> str:
        """Return the title of the figure, which says that the network is at chance; otherwise empty."""
        return self.at_chance_warning

    @property
    def leaders(self) -> dict[str, str | None]:
        """Return the estimator that leads each column; None if no estimator is shown to lead.

        The leader has the largest gain of all rows and is significantly above Random; for own-network gain, its verdict
        in `own_network` is "explains its network". If the network is at chance, or if there are fewer than 10 images,
        no estimator leads.
        """
        return {column: self._find_leader(column) for column in self.gains}

    @property
    def reversed(self) -> list[tuple[str, str]]:
        """Return the pairs of rows whose order in one column is significantly reversed in another.

        The tests are paired; p values are adjusted over all pairs and columns, at a false discovery rate of 5 %. If the
        network is at chance, or if there are fewer than 10 images, there are no such pairs.
        """
        opposed = {Verdict.BETTER, Verdict.WORSE}
        pairs = [] if self.at_chance_warning else combinations(self._names, 2)
        return [pair for pair in pairs if opposed <= {self._judge(column, *pair) for column in self.gains}]

    @property
    def disagreement(self) -> str:
        """Describe each column's leader and the pairs whose order changes significantly, or say why there are none."""
        if reason := self.at_chance_warning or (_FEW_IMAGES if self.images < FEWEST_IMAGES else ""):
            return reason
        leaders = self.leaders
        clauses = [
            f"{name} leads {column}{self._describe_close_rows(column, name)}"
            for column, name in leaders.items()
            if name
        ]
        if without := [column for column, name in leaders.items() if not name]:
            clauses.append(f"no estimator leads {' or '.join(without)}")
        pairs, leads = self.reversed, ", ".join(clauses)
        if not pairs:
            return f"{leads}; no pair of rows has significantly opposite orders in two columns."
        count = format_count(len(pairs), "pair")
        listed = list_some([f"{a} vs {b}" for a, b in pairs])
        return f"{leads}; {count} of rows with significantly opposite orders in two columns: {listed}."

    @property
    def caption(self) -> str:
        """Describe the columns, their intervals, and significant disagreements."""
        levels = "; ".join(f"{column} at t = {', '.join(f'{t:g}' for t in ts)}" for column, ts in self.levels.items())
        computed = [(column, name) for column in self.gains for name in self._names if not self._is_fixed(column, name)]
        zeros = _describe_zero_gains(self.gain(*cell) for cell in computed if not self._has_few_images(cell[0]))
        agree = f" {OWN}: the {self.own_network.images} images on which all networks agree." if self.own_network else ""
        return (
            f"{self.disagreement}\n{format_count(self.images, 'image')}, of which the network classifies "
            f"{format_percent_number(self.accuracy)} % correctly; {levels}.\n"
            "Gain over Random in accuracy points, area over t; above 0 is better (morf: accuracy falls more than "
            f"Random's, lerf: less).{agree}{self._describe_intervals()}{zeros}"
        )

    def _describe_intervals(self) -> str:
        if self.images < FEWEST_IMAGES:
            return ""  # the first line says so
        own = f"; those of {OWN} also over networks" if self.own_network else ""
        if own and self._has_few_images(OWN):
            own = f"; none for {OWN}, because the networks agree on fewer than {FEWEST_IMAGES} images"
        return f"\n95 % intervals over images{own}."

    @property
    def _names(self) -> list[str]:
        return list(next(iter(self.gains.values())))

    @property
    def _chance_note_column(self) -> dict[str, str]:
        return {"note": "accuracy not significantly above chance"} if self.at_chance_warning else {}

    @cached_property
    def _comparisons(self) -> dict[tuple[str, str, str], Comparison]:
        """Compare every pair of rows in each column with enough images; keys: column, two rows in the table's order."""
        pairs = list(combinations(self._names, 2))
        judged = {column: rows for column, rows in self.gains.items() if not self._has_few_images(column)}
        return judge_comparisons(
            {(column, a, b): rows[a].subtract(rows[b]) for column, rows in judged.items() for a, b in pairs}
        )

    def _judge(self, column: str, first: str, second: str) -> Verdict:
        if self._has_few_images(column):
            return Verdict.SAME
        if comparison := self._comparisons.get((column, first, second)):
            return comparison.verdict
        return self._comparisons[column, second, first].reversed.verdict

    def _count_images(self, column: str) -> int:
        return self.own_network.images if column == OWN and self.own_network else self.images

    def _has_few_images(self, column: str) -> bool:
        return self._count_images(column) < FEWEST_IMAGES

    def _is_fixed(self, column: str, name: str) -> bool:
        """Return whether a gain is 0 by construction."""
        if column == OWN and self.own_network:
            return self.own_network.verdicts[name] is OwnNetworkVerdict.BY_CONSTRUCTION
        return name == CONTROLS[0]

    def _find_leader(self, column: str) -> str | None:
        rows = self.gains[column]
        largest = max(row.value for row in rows.values())
        best, *others = [name for name, row in rows.items() if row.value == largest]
        if others or best in self.controls or self.at_chance_warning or self._has_few_images(column):
            return None
        if column == OWN and self.own_network:
            return best if self.own_network.verdicts[best] is OwnNetworkVerdict.EXPLAINS else None
        return best if self._judge(column, best, CONTROLS[0]) is Verdict.BETTER else None

    def _describe_close_rows(self, column: str, leader: str) -> str:
        others = [name for name in self._names if name != leader and not self._is_fixed(column, name)]
        close = [name for name in others if self._judge(column, leader, name) is not Verdict.BETTER]
        return f" (not significantly above {list_some(close)})" if close else ""

    def _format_gain(self, column: str, name: str) -> str:
        if column == OWN and self._is_fixed(column, name):
            return OwnNetworkVerdict.BY_CONSTRUCTION.value
        return format_interval(self.gain(column, name))

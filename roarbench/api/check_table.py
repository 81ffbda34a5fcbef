"""The table of `rb.check`: gains of several measures beside each other, and where they disagree."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from roarbench.api.gain_tables import GainTable, OwnNetworkTable, estimate_gain, explain_missing_intervals
from roarbench.common.text import format_count, format_interval, format_percent_number, list_some
from roarbench.report.table_record import ROW_KEY, Bar, Table, make_column
from roarbench.report.table_renderers import make_data_frame
from roarbench.stats.contrasts import Contrast
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Comparison, Verdict, judge_comparisons

if TYPE_CHECKING:
    import pandas

CONTROLS = ("random", "sobel")
OWN = "own network"  # column of own-network gain


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
        """Return a gain in points with its 95 % interval; no interval if 0 on every image, or of one image."""
        return estimate_gain(self.gains[column][name])

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
            gains = [self.gain(column, name) for name in self._names]
            fixed = [column == OWN and self._is_fixed(column, name) for name in self._names]
            texts = [
                OwnNetworkVerdict.BY_CONSTRUCTION.value if is_fixed else format_interval(gain)
                for gain, is_fixed in zip(gains, fixed, strict=True)
            ]
            columns.append(make_column(column, [gain.value for gain in gains], column, texts))
        columns += [make_column(key, [text] * len(self._names)) for key, text in self._chance_note_column.items()]
        return Table("", tuple(columns), tuple(self.caption.split("\n")))

    def bars_by_panel(self) -> dict[str, dict[str, Bar]]:
        """Return the gains and verdicts against Random by panel label and estimator; each column is a panel."""
        return {
            f"{column}, points": {
                name: Bar(self.gain(column, name), self._find_verdict(column, name)) for name in self._names
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
        in `own_network` is "explains its network", or "above 0" without a search. If the network is at chance, no
        estimator leads.
        """
        leaders: dict[str, str | None] = dict.fromkeys(self.gains)
        for column, rows in self.gains.items():
            largest = max(row.value for row in rows.values())
            best, *others = [name for name, row in rows.items() if row.value == largest]
            if others or best in self.controls or self.at_chance_warning:
                continue
            leading = (OwnNetworkVerdict.EXPLAINS, OwnNetworkVerdict.ABOVE_ZERO, Verdict.BETTER)
            leaders[column] = best if self._find_verdict(column, best) in leading else None
        return leaders

    @property
    def reversed(self) -> list[tuple[str, str]]:
        """Return the pairs of rows whose order in one column is significantly reversed in another.

        The tests are paired; p values are adjusted over all pairs and columns, at a false discovery rate of 5 %. If the
        network is at chance, there are no such pairs.
        """
        opposed = {Verdict.BETTER, Verdict.WORSE}
        pairs = [] if self.at_chance_warning else combinations(self._names, 2)
        return [pair for pair in pairs if opposed <= {self._judge(column, *pair) for column in self.gains}]

    @property
    def disagreement(self) -> str:
        """Describe each column's leader and the pairs whose order changes significantly, or say why there are none."""
        if self.at_chance_warning:
            return self.at_chance_warning
        leaders, clauses = self.leaders, []
        for column, leader in ((column, leader) for column, leader in leaders.items() if leader):
            others = [name for name in self._names if name != leader and not self._is_fixed(column, name)]
            close = [name for name in others if self._judge(column, leader, name) is not Verdict.BETTER]
            clauses.append(
                f"{leader} leads {column}" + (f" (not significantly above {list_some(close)})" if close else "")
            )
        if without := [column for column, leader in leaders.items() if not leader]:
            clauses.append(f"no estimator leads {' or '.join(without) if clauses else 'a column'}")
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
        missing = explain_missing_intervals(self.gain(*cell) for cell in computed)
        shared = format_count(self.own_network.images, "image") if self.own_network else ""
        agree = f" {OWN}: the {shared} on which all networks agree." if shared else ""
        own = f"; those of {OWN} also over networks" if self.own_network else ""
        return (
            f"{self.disagreement}\n{format_count(self.images, 'image')}, of which the network classifies "
            f"{format_percent_number(self.accuracy)} % correctly; {levels}.\n"
            "Gain over Random in accuracy points, area over t; above 0 is better (morf: accuracy falls more than "
            f"Random's, lerf: less).{agree}\n95 % intervals over images{own}.{missing}"
        )

    @property
    def _names(self) -> list[str]:
        return list(next(iter(self.gains.values())))

    @property
    def _chance_note_column(self) -> dict[str, str]:
        return {"note": "accuracy not significantly above chance"} if self.at_chance_warning else {}

    @cached_property
    def _comparisons(self) -> dict[tuple[str, str, str], Comparison]:
        """Compare every pair of rows in each column; keys: column, two rows in the table's order."""
        pairs = list(combinations(self._names, 2))
        return judge_comparisons(
            {(column, a, b): rows[a].subtract(rows[b]) for column, rows in self.gains.items() for a, b in pairs}
        )

    def _judge(self, column: str, first: str, second: str) -> Verdict:
        if comparison := self._comparisons.get((column, first, second)):
            return comparison.verdict
        return self._comparisons[column, second, first].reversed.verdict

    def _find_verdict(self, column: str, name: str) -> Verdict | OwnNetworkVerdict | None:
        """Return a row's verdict, in columns of accuracy against Random."""
        if column == OWN and self.own_network:
            return self.own_network.verdicts[name]
        return None if name == CONTROLS[0] or self.at_chance_warning else self._judge(column, name, CONTROLS[0])

    def _is_fixed(self, column: str, name: str) -> bool:
        """Return whether a gain is 0 by construction."""
        if column == OWN and self.own_network:
            return self.own_network.verdicts[name] is OwnNetworkVerdict.BY_CONSTRUCTION
        return name == CONTROLS[0]

"""The table of `rb.check`: gains of each estimator in several columns, leaders, and rows in opposite orders."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from roarbench.api.own_network_gain_of_maps import (
    GainTable,
    OwnNetworkTable,
    describe_few_images,
    describe_zero_gains,
    estimate_gain,
)
from roarbench.common.text import format_count, format_interval, format_percent_number, list_some, name_item
from roarbench.plan.suite import NO_NEIGHBOURS
from roarbench.stats.bootstrap_intervals import FEWEST_IMAGES, Estimate, Sample
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Comparison, Verdict, judge_comparisons

if TYPE_CHECKING:
    import pandas

CONTROLS = ("random", "sobel")
OWN = "own network"  # column of own-network gain
_MOST_PAIRS = 4  # pairs of rows that a sentence names


@dataclass(frozen=True, eq=False, repr=False)
class CheckTable(GainTable):
    """Gains of several estimators and the controls in several columns; positive is better in every column.

    Attributes:
        gains: Gains in points by column and name, with draws over images (own-network gain: over networks, too).
        levels: Removal fractions by column.
        images: Number of images.
        own_network: The own-network column as a separate table, with verdicts; None if `check` got no siblings.
        controls: Names of the rows that are controls; a control never leads a column.
        accuracy: The network's accuracy on the untouched images, in [0, 1].
        unchanged: Columns in which no removal changed a prediction, so their gains of 0 do not show equality.
        at_chance_warning: Sentence saying that the network is not significantly better than chance; otherwise empty.
        tabular: True if the images are rows of a table, for which the control Sobel does not exist.
    """

    gains: Mapping[str, Mapping[str, Sample]]
    levels: Mapping[str, tuple[float, ...]]
    images: int
    own_network: OwnNetworkTable | None = None
    # (column, name) pairs whose gain is 0 by construction
    fixed: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    controls: frozenset[str] = frozenset(CONTROLS)
    accuracy: float = math.nan
    unchanged: tuple[str, ...] = ()
    at_chance_warning: str = ""
    tabular: bool = False

    def gain(self, column: str, name: str) -> Estimate:
        """Return a gain in points with its 95 % interval; without interval for few images, or if all gains are 0."""
        fixed = (column, name) in self.fixed
        return Estimate(0.0) if fixed else estimate_gain(self.gains[column][name], self._count_images(column))

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator with its gain in each column; `intervals_to_dataframe` adds intervals.

        Frames of a network at chance have a column `note`, which says so.
        """
        import pandas

        gains = {column: [self.gain(column, name).value for name in self._names()] for column in self.gains}
        return pandas.DataFrame({"estimator": self._names(), **gains, **self._chance_note_column})

    def intervals_to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator and column: the gain and the ends of its 95 % interval."""
        import pandas

        return pandas.DataFrame(
            {"estimator": name, "column": column, **self.gain(column, name)._asdict(), **self._chance_note_column}
            for name in self._names()
            for column in self.gains
        ).rename(columns={"value": "gain"})

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table's cells as strings, headings first."""
        rows = ((name, *(self._format_gain(column, name) for column in self.gains)) for name in self._names())
        return [("estimator", *self.gains), *rows]

    def gains_by_panel(self) -> dict[str, dict[str, Estimate]]:
        """Return the gains by panel label and estimator; each column is a panel."""
        notes = dict.fromkeys(self.unchanged, "\n(no prediction changed)")
        return {
            f"{column}, points{notes.get(column, '')}": {name: self.gain(column, name) for name in self._names()}
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
        first = {column: best[0] for column, best in self._best_rows.items()}
        return {column: None if self._explain_missing_leader(column) else name for column, name in first.items()}

    @property
    def reversed(self) -> list[tuple[str, str]]:
        """Return the pairs of rows whose order in one column is significantly reversed in another.

        The tests are paired; p values are adjusted over all pairs and columns, at a false discovery rate of 5 %. If the
        network is at chance, or if there are fewer than 10 images, there are no such pairs.
        """
        opposed = {Verdict.BETTER, Verdict.WORSE}
        pairs = [] if self.at_chance_warning else combinations(self._names(), 2)
        return [pair for pair in pairs if opposed <= {self._judge(column, *pair) for column in self.gains}]

    @property
    def disagreement(self) -> str:
        """Describe each column's leader and the pairs whose order changes significantly, or say why there are none."""
        if reason := self.at_chance_warning or describe_few_images(self.images, name_item(self.tabular)):
            return reason
        clauses, columns_by_reason = list[str](), dict[str, list[str]]()
        for column, name in self.leaders.items():
            if name:
                clauses.append(f"{name} leads {column}{self._describe_close_rows(column, name)}")
            else:
                columns_by_reason.setdefault(self._explain_missing_leader(column), []).append(column)
        clauses += [f"{reason} {' or '.join(columns)}" for reason, columns in columns_by_reason.items()]
        leads = ", ".join(clauses)
        pairs = self.reversed
        if not pairs:
            return f"{leads}; no pair of rows has significantly opposite orders in two columns."
        listed_pairs = ", ".join(f"{a} and {b}" for a, b in pairs[:_MOST_PAIRS])
        more = f" and {len(pairs) - _MOST_PAIRS} more" if len(pairs) > _MOST_PAIRS else ""
        count = format_count(len(pairs), "pair")
        return f"{leads}; {count} of rows with significantly opposite orders in two columns: {listed_pairs}{more}."

    @property
    def caption(self) -> str:
        """Describe the measure and the scope of its intervals."""
        levels = "; ".join(f"{column} at t = {', '.join(f'{t:g}' for t in ts)}" for column, ts in self.levels.items())
        accuracy = f", of which the network classifies {format_percent_number(self.accuracy)} % correctly"
        unchanged = f"No prediction changed under {' or '.join(self.unchanged)}.\n" if self.unchanged else ""
        computed = [
            (column, name) for column in self.gains for name in self._names() if (column, name) not in self.fixed
        ]
        without_reason = [
            cell for cell in computed if cell[0] not in self.unchanged and not self._has_few_images(cell[0])
        ]
        zeros = describe_zero_gains(self.gain(*cell) for cell in without_reason)
        own, noun = self.own_network, name_item(self.tabular)
        left_out = f"Left out: sobel and the fill linear: {NO_NEIGHBOURS}.\n" if self.tabular else ""
        agree = f" {OWN}: the {own.images} {noun}s on which all {own.networks} networks agree." if own else ""
        return (
            f"{self.disagreement}\n{unchanged}{left_out}{format_count(self.images, noun)}{accuracy}; {levels}.\n"
            "Gain over Random in accuracy points, area over t; above 0 is better (morf: accuracy falls more than "
            f"Random's, lerf: less).{agree}{self._describe_intervals()}{zeros}"
        )

    def _describe_intervals(self) -> str:
        if self.images < FEWEST_IMAGES:
            return ""  # the first line says so
        noun, own = name_item(self.tabular), f"; those of {OWN} also over networks" if self.own_network else ""
        if own and self._has_few_images(OWN):
            own = f"; none for {OWN}, because the networks agree on fewer than {FEWEST_IMAGES} {noun}s"
        return f"\n95 % intervals over {noun}s{own}."

    @property
    def _chance_note_column(self) -> dict[str, str]:
        return {"note": "accuracy not significantly above chance"} if self.at_chance_warning else {}

    @cached_property
    def _comparisons(self) -> dict[tuple[str, str, str], Comparison]:
        """Compare every pair of rows in each column with enough images; keys: column, two rows in the table's order."""
        pairs = list(combinations(self._names(), 2))
        judged = {column: rows for column, rows in self.gains.items() if not self._has_few_images(column)}
        return judge_comparisons(
            {(column, a, b): rows[a].subtract(rows[b]) for column, rows in judged.items() for a, b in pairs}
        )

    @cached_property
    def _best_rows(self) -> dict[str, list[str]]:
        """Return the rows with the largest gain, by column."""
        largest = {column: max(row.value for row in rows.values()) for column, rows in self.gains.items()}
        return {
            column: [name for name, row in rows.items() if row.value == largest[column]]
            for column, rows in self.gains.items()
        }

    def _count_images(self, column: str) -> int:
        return self.own_network.images if column == OWN and self.own_network else self.images

    def _has_few_images(self, column: str) -> bool:
        return self._count_images(column) < FEWEST_IMAGES

    def _judge(self, column: str, first: str, second: str) -> Verdict:
        if self._has_few_images(column):
            return Verdict.SAME
        names = self._names()
        if names.index(first) < names.index(second):
            return self._comparisons[column, first, second].verdict
        return self._comparisons[column, second, first].reversed.verdict

    def _is_above_random(self, column: str, name: str) -> bool:
        if column == OWN and self.own_network:
            return self.own_network.verdicts[name] is OwnNetworkVerdict.EXPLAINS
        return self._judge(column, name, CONTROLS[0]) is Verdict.BETTER

    def _explain_missing_leader(self, column: str) -> str:
        """Return the beginning of a clause that says why no estimator leads a column; empty if an estimator leads."""
        if self._has_few_images(column):
            return f"fewer than {FEWEST_IMAGES} {name_item(self.tabular)}s for a leader under"
        estimators, best = [name for name in self._names() if name not in self.controls], self._best_rows[column]
        if self.at_chance_warning or not any(self._is_above_random(column, name) for name in estimators):
            return "no estimator is significantly above random under"
        if controls := [name for name in best if name in self.controls]:
            return f"no estimator is above {controls[0]} under"
        leads = len(best) == 1 and self._is_above_random(column, best[0])
        return "" if leads else "no single estimator leads"

    def _describe_close_rows(self, column: str, leader: str) -> str:
        others = [name for name in self._names() if name != leader and (column, name) not in self.fixed]
        close = [name for name in others if self._judge(column, leader, name) is not Verdict.BETTER]
        return f" (not significantly above {list_some(close)})" if close else ""

    def _format_gain(self, column: str, name: str) -> str:
        if column == OWN and (column, name) in self.fixed:
            return OwnNetworkVerdict.BY_CONSTRUCTION.value
        return format_interval(self.gain(column, name))

    def _names(self) -> list[str]:
        return list(next(iter(self.gains.values())))

"""The table that `check` returns: gains of each row in several columns, and the disagreements between columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from roarbench.api.own_network_gain_of_maps import GainTable, OwnNetworkTable
from roarbench.common.text import format_count, format_interval, format_percent_number
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate, Sample, make_estimate
from roarbench.stats.verdicts import Verdict, judge_comparisons

if TYPE_CHECKING:
    import pandas

OWN = "own network"
_SHOWN = 4  # pairs of rows that a sentence names


@dataclass(frozen=True, eq=False, repr=False)
class CheckTable(GainTable):
    """Gains of several estimators and two controls in several columns; positive is better in every column.

    Attributes:
        gains: Gains in points by column and name, with draws over images (own-network gain: over networks, too).
        levels: Removal fractions by column.
        images: Number of images.
        own_network: The own-network column as a separate table, with verdicts; None if `check` got no siblings.
        accuracy: The network's accuracy on the untouched images, in [0, 1].
    """

    gains: Mapping[str, Mapping[str, Sample]]
    levels: Mapping[str, tuple[float, ...]]
    images: int
    own_network: OwnNetworkTable | None = None
    # (column, name) pairs whose gain is 0 by construction
    fixed: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    accuracy: float | None = None

    def gain(self, column: str, name: str) -> Estimate:
        """Return a gain in points with its 95 % interval; 0 without an interval if the gain is 0 by construction."""
        if (column, name) in self.fixed:
            return Estimate(0.0)
        return make_estimate(self.gains[column][name], Bootstrap().confidence)

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator with its gain in each column; `intervals_to_dataframe` adds intervals."""
        import pandas

        gains = {column: [self.gain(column, name).value for name in self._names()] for column in self.gains}
        return pandas.DataFrame({"estimator": self._names(), **gains})

    def intervals_to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator and column: the gain and the ends of its 95 % interval."""
        import pandas

        return pandas.DataFrame(
            {"estimator": name, "column": column, **self.gain(column, name)._asdict()}
            for name in self._names()
            for column in self.gains
        ).rename(columns={"value": "gain"})

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table's cells as strings, headings first."""
        rows = ((name, *(format_interval(self.gain(column, name)) for column in self.gains)) for name in self._names())
        return [("estimator", *self.gains), *rows]

    def gains_by_panel(self) -> dict[str, dict[str, Estimate]]:
        """Return the gains by panel label and estimator; each column is a panel."""
        return {f"{column}, points": {name: self.gain(column, name) for name in self._names()} for column in self.gains}

    @property
    def leaders(self) -> dict[str, str | None]:
        """Return the estimator with the largest gain in each column; None if several estimators tie."""
        leaders_by_column: dict[str, str | None] = {}
        for column, rows in self.gains.items():
            best = max(row.value for row in rows.values())
            first, *tied = (name for name, row in rows.items() if row.value == best)
            leaders_by_column[column] = None if tied else first
        return leaders_by_column

    @property
    def reversed(self) -> list[tuple[str, str]]:
        """Return the pairs of rows whose order in one column is significantly reversed in another.

        The tests are paired; p values are adjusted over all pairs and columns, at a false discovery rate of 5 %.
        """
        pairs = list(combinations(self._names(), 2))
        family = {
            (column, one, two): rows[one].subtract(rows[two])
            for column, rows in self.gains.items()
            for one, two in pairs
        }
        comparisons = judge_comparisons(family)
        both = {Verdict.BETTER, Verdict.WORSE}
        return [pair for pair in pairs if both <= {comparisons[column, *pair].verdict for column in self.gains}]

    @property
    def disagreement(self) -> str:
        """Describe in one sentence the leader of each column, and the pairs whose order changes significantly."""
        leads = ", ".join(f"{name} leads {column}" for column, name in self.leaders.items() if name)
        if tied := [column for column, name in self.leaders.items() if not name]:
            leads = ", ".join(filter(None, [leads, f"no single row leads {' or '.join(tied)}"]))
        pairs = self.reversed
        if not pairs:
            return f"{leads}; no pair of rows has significantly opposite orders in two columns."
        listed_pairs = ", ".join(f"{one} and {two}" for one, two in pairs[:_SHOWN])
        more = f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
        count = format_count(len(pairs), "pair")
        return f"{leads}; {count} of rows with significantly opposite orders in two columns: {listed_pairs}{more}."

    @property
    def caption(self) -> str:
        """Describe the measure and the scope of its intervals."""
        levels = "; ".join(f"{name} at t = {', '.join(f'{t:g}' for t in some)}" for name, some in self.levels.items())
        own, known = self.own_network, self.accuracy is not None
        accuracy = (
            f", of which the network classifies {format_percent_number(self.accuracy)} % correctly" if known else ""
        )
        agree = f" {OWN}: the {own.images} images on which all {own.networks} networks agree." if own else ""
        return (
            f"{self.disagreement}\n{format_count(self.images, 'image')}{accuracy}; {levels}.\n"
            "Gain over Random in accuracy points, area over t; above 0 is better (morf: accuracy falls more than "
            f"Random's, lerf: less).{agree}\n"
            f"95 % intervals over images{f'; those of {OWN} also over networks' if own else ''}."
        )

    def _names(self) -> list[str]:
        return list(next(iter(self.gains.values())))

"""The table that `check` returns: gains of each row by several questions, and where their leaders disagree."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from roarbench.api.gain_table import GainTable
from roarbench.api.own_network_table import OwnNetworkTable
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, make_estimate
from roarbench.stats.verdicts import Verdict, judge_comparisons
from roarbench.text import format_count, format_interval

if TYPE_CHECKING:
    import pandas

OWN = "own network"
_SHOWN = 4  # pairs of rows that a sentence names


@dataclass(frozen=True, eq=False, repr=False)
class CheckTable(GainTable):
    """Gains of several estimators and two controls by several questions; above 0 is better in every column.

    Attributes:
        gains: By column and by name, in accuracy points, with draws over the images (and networks, where these are
            several).
        levels: Fractions of features removed, by column.
        images: Images in all.
        own_network: The column of own-network gain as a table of its own, with verdicts; None without siblings.
    """

    gains: Mapping[str, Mapping[str, Sample]]
    levels: Mapping[str, tuple[float, ...]]
    images: int
    own_network: OwnNetworkTable | None = None
    fixed: frozenset[tuple[str, str]] = field(default_factory=frozenset)  # columns and names of 0 by construction

    def gain(self, column: str, name: str) -> Estimate:
        """Return a gain in accuracy points with its interval of 95 %; 0 without one where it is 0 by construction."""
        if (column, name) in self.fixed:
            return Estimate(0.0)
        return make_estimate(self.gains[column][name], Bootstrap().confidence)

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row for each estimator with its gain in each column; `intervals_to_dataframe` has more."""
        import pandas

        gains = {column: [self.gain(column, name).value for name in self._names()] for column in self.gains}
        return pandas.DataFrame({"estimator": self._names(), **gains})

    def intervals_to_dataframe(self) -> "pandas.DataFrame":
        """Return one row for each estimator and column: gain, and the ends of its interval of 95 %."""
        import pandas

        return pandas.DataFrame(
            {"estimator": name, "column": column, **self.gain(column, name)._asdict()}
            for name in self._names()
            for column in self.gains
        ).rename(columns={"value": "gain"})

    def cells(self) -> list[tuple[str, ...]]:
        """Return the rows of the table as text, headings first."""
        rows = ((name, *(format_interval(self.gain(column, name)) for column in self.gains)) for name in self._names())
        return [("estimator", *self.gains), *rows]

    def bars(self) -> dict[str, dict[str, Estimate]]:
        """Return a panel for each column."""
        return {f"{column}, points": {name: self.gain(column, name) for name in self._names()} for column in self.gains}

    @property
    def leaders(self) -> dict[str, str | None]:
        """Return the estimator with the largest gain of each column; None where several have it."""
        found: dict[str, str | None] = {}
        for column, rows in self.gains.items():
            best = max(row.value for row in rows.values())
            first, *others = (name for name, row in rows.items() if row.value == best)
            found[column] = None if others else first
        return found

    @property
    def reversed(self) -> list[tuple[str, str]]:
        """Return pairs of rows that one column puts in one order and another in the other, both clearly.

        Differences are paired and adjusted for all pairs and columns, at a false discovery rate of 5 %.
        """
        pairs = list(combinations(self._names(), 2))
        family = {
            (column, one, two): rows[one].minus(rows[two]) for column, rows in self.gains.items() for one, two in pairs
        }
        found = judge_comparisons(family)
        both = {Verdict.BETTER, Verdict.WORSE}
        return [pair for pair in pairs if both <= {found[column, *pair].verdict for column in self.gains}]

    @property
    def disagreement(self) -> str:
        """Say in one sentence which row leads each column, and which pairs of rows change their order."""
        leads = ", ".join(f"{name or 'no row alone'} leads {column}" for column, name in self.leaders.items())
        pairs = self.reversed
        if not pairs:
            return f"{leads}; no pair of rows changes its order with both intervals clear of 0."
        named = ", ".join(f"{one} and {two}" for one, two in pairs[:_SHOWN])
        more = f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
        return f"{leads}; {format_count(len(pairs), 'pair')} of rows change order, both intervals clear: {named}{more}."

    @property
    def caption(self) -> str:
        """Say what was measured, and what the intervals cover."""
        levels = "; ".join(f"{name} at t = {', '.join(f'{t:g}' for t in some)}" for name, some in self.levels.items())
        own = self.own_network
        images = f" {OWN}: the {own.images} images that all {own.networks} networks put into one class." if own else ""
        return (
            f"{self.disagreement}\n{format_count(self.images, 'image')}; {levels}.\n"
            "Gain over Random in accuracy points, area over t; above 0 is better (morf: accuracy falls further, "
            f"lerf: less far).{images}\n"
            f"95 % intervals over images{f'; those of {OWN} over networks, too' if own else ''}."
        )

    def _names(self) -> list[str]:
        return list(next(iter(self.gains.values())))

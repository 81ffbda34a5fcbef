"""Format estimators and gains as cells of the study's tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from roarbench.common.text import MISSING, format_interval, format_markdown_table
from roarbench.estimators.catalogue import format_id_with_samples
from roarbench.stats.board_records import Row
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from studies.page import format_verdict
from studies.paper.published import value_of

_MARKS = {
    OwnNetworkVerdict.EXPLAINS: " **yes**",
    OwnNetworkVerdict.ABOVE_ZERO: " **above 0**",
    OwnNetworkVerdict.OPPOSES: " **opposes**",
}


def make_gain_table(by_set: Mapping[str, Mapping[str, Row]], format_gain: Callable[[Row | None], str]) -> str:
    """Make a table with a line for each row and a column for each data set that has rows."""
    tables = {name: rows for name, rows in by_set.items() if rows}
    names = sort_by_largest_gain(dict.fromkeys(name for rows in tables.values() for name in rows), [*tables.values()])
    lines = [[quote_estimator(name), *(format_gain(rows.get(name)) for rows in tables.values())] for name in names]
    return format_markdown_table(("estimator", *tables), lines)


def sort_by_largest_gain(names: Iterable[str], tables: Sequence[Mapping[str, Row]]) -> list[str]:
    """Sort names by their largest gain in any of the tables."""
    return sorted(names, key=lambda name: -max(value_of(rows.get(name)) for rows in tables))


def quote_estimator(name: str) -> str:
    """Return an estimator's id, with its number of samples, as code."""
    return f"`{format_id_with_samples(name)}`"


def format_own_network_gain(row: Row | None) -> str:
    """Format an own-network gain with the mark of its verdict; a dash if there is no row."""
    if row is None:
        return MISSING
    return mark_own_network_gain(row.gain, row.network.verdict) if row.network else format_interval(row.gain)


def mark_own_network_gain(gain: Estimate, verdict: OwnNetworkVerdict) -> str:
    """Format a gain with the mark of its verdict."""
    return format_interval(gain) + _MARKS.get(verdict, "")


def format_judged_gain(row: Row | None) -> str:
    """Format a gain with its verdict against Random; a dash if there is no row."""
    return MISSING if row is None else f"{format_interval(row.gain)} {format_verdict(row.vs_random)}"

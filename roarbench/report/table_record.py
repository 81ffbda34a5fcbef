"""A table as one record: columns with plain values and texts, and notes; `table_renderers` writes it in every format.

A column is one entry: JSON, CSV and data frames have its `values`, and terminal, Markdown and HTML its `texts`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from roarbench.common.text import MISSING, SAME, format_count, format_decimals, format_interval
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict

NOT_RUN = "not run"  # cell of a row that a part of the table does not include; a dash stands for a missing result
FAILED = "failed"  # cell of a row without a result that has a failed run
WORTH_WRAPPING = 10  # see `Column.worth`
ROW_KEY = "estimator"  # key of the column that names the rows; plain rows begin with it
Side: TypeAlias = Literal["left", "right"]
_ENDS = {"": "value", "_low": "low", "_high": "high"}  # from suffixes of keys to fields of an estimate


class Bar(NamedTuple):
    """A row's gain in a picture."""

    gain: Estimate  # without a value if the result is missing
    verdict: Verdict | OwnNetworkVerdict | None = None  # colours the bar
    signs: str = ""  # of doubts about this gain, such as (!!); doubts about the row stand after its name
    missing: str = MISSING  # text in place of a missing result


@dataclass(frozen=True)
class Column:
    """A column of a table, with a value and a text for every row.

    Attributes:
        key: Name in JSON, CSV and data frames; empty for a column of texts alone. `GROUP/NAME` is a value of an object
            in JSON, and `GROUP_NAME` in CSV. An estimate has two more keys, which end in `_low` and `_high`; in a key
            with `{}`, these endings replace it.
        values: Plain values or estimates, one per row; None is missing.
        heading: Heading of the texts; empty for a column of values alone.
        texts: Texts, one per row.
        short: Heading for a terminal, up to two lines; `heading` if empty.
        narrow: Shorter texts, for a terminal that is too narrow for the table; `texts` if empty.
        side: Side to which texts are aligned.
        worth: Narrow terminals drop columns of low worth first; columns of worth 0 always stay. Columns of
            `WORTH_WRAPPING` and more are dropped only if the table does not fit with names and words on several lines.
        about: Sentence that explains the column in the notes of a terminal, if the column is shown.
        has_words: Whether values are words, not numbers; tells data frames how to show a column without any value.
        beside: The column as a table of several gains shows it; None for a column that such a table leaves out.
    """

    key: str
    values: tuple[Any, ...]
    heading: str = ""
    texts: tuple[str, ...] = ()
    short: str = ""
    narrow: tuple[str, ...] = ()
    side: Side = "right"
    worth: float = 0
    about: str = ""
    has_words: bool = False
    beside: "Column | None" = None

    @property
    def terminal_cells(self) -> tuple[str, ...]:
        return tuple(cell.replace(Verdict.SAME, SAME) for cell in (self.short or self.heading, *self.texts))

    @cached_property
    def plain_keys(self) -> tuple[str, ...]:
        """Return the keys of the column's plain values: three for estimates, else one."""
        if not any(isinstance(value, Estimate) for value in self.values):
            return (self.key,)
        pattern = self.key if "{}" in self.key else f"{self.key}{{}}"
        return tuple(pattern.format(suffix) for suffix in _ENDS)


@dataclass(frozen=True)
class Table:
    """A table: its columns, what its rows share, and notes.

    Attributes:
        title: Title.
        columns: Columns in the order of the texts.
        notes: Short notes, one per line.
        all_notes: All notes, one per line.
        shared: Values that all rows share, by JSON key.
        shared_keys: Keys of `shared` that have a column in CSV and data frames.
        flat_groups: Name of a group in CSV and data frames, if it differs from that in JSON.
        last_note: End of the sentences on the shown columns.
        notes_after_columns: Notes of a terminal that follow these sentences.
        dim: Numbers of the rows that a terminal shows dim.
        sections: Numbers of the rows before which a terminal shows a line.
        name_texts: Names of the rows in Markdown; those of the terminal if empty.
        parts: Tables whose rows are objects in this table's rows, by JSON key; a row that a part lacks is not run.
    """

    title: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    all_notes: tuple[str, ...] = ()
    shared: Mapping[str, Any] = field(default_factory=dict)
    shared_keys: Sequence[str] = ()
    flat_groups: Mapping[str, str] = field(default_factory=dict)
    last_note: str = ""
    notes_after_columns: tuple[str, ...] = ()
    dim: frozenset[int] = frozenset()
    sections: frozenset[int] = frozenset()
    name_texts: tuple[str, ...] = ()
    parts: Mapping[str, "Table"] = field(default_factory=dict)

    @property
    def texts(self) -> list[Column]:
        return [column for column in self.columns if column.heading]

    @property
    def lines(self) -> list[tuple[str, ...]]:
        return list(zip(*(column.texts for column in self.texts), strict=True))

    def select_rows(self, numbers: Iterable[int]) -> "Table":
        """Return the table with these rows alone; `numbers` increase."""
        chosen = list(numbers)
        columns = []
        for column in self.columns:
            values, texts = (tuple(cells[number] for number in chosen) for cells in (column.values, column.texts))
            columns.append(replace(column, values=values, texts=texts))
        dim = frozenset(at for at, number in enumerate(chosen) if number in self.dim)
        sections = frozenset(bisect_left(chosen, start) for start in self.sections)
        return replace(self, columns=tuple(columns), dim=dim, sections=sections)

    def leave_out_empty_checks(self) -> "Table":
        """Return the table without the rows of dashes below its first line across, which a note counts."""
        first = min(self.sections, default=len(self.names))
        cells = list(zip(*(column.texts for column in self.texts if column.key != ROW_KEY), strict=True))
        empty = [number for number in range(first, len(self.names)) if {*cells[number]} == {MISSING}]
        if not empty:
            return self
        kept = self.select_rows(sorted({*range(len(self.names))} - {*empty}))
        note = f"Not shown: {format_count(len(empty), 'row')} without a result, such as {self.names[empty[0]]}."
        return replace(kept, notes=(*kept.notes, note), all_notes=(*kept.all_notes, note))

    @cached_property
    def names(self) -> tuple[Any, ...]:
        return next((column.values for column in self.columns if column.key == ROW_KEY), ())

    @cached_property
    def plain_rows(self) -> list[dict[str, Any]]:
        """Return the rows as plain values for JSON, with groups and parts as dictionaries."""
        keyed = sorted((column for column in self.columns if column.key), key=lambda column: column.key != ROW_KEY)
        rows = list[dict[str, Any]]()
        for number, name in enumerate(self.names):
            row: dict[str, Any] = {}
            for column in keyed:
                value, ends = column.values[number], _ENDS.values() if len(column.plain_keys) > 1 else ("",)
                for key, end in zip(column.plain_keys, ends, strict=True):
                    group, _, item = key.rpartition("/")
                    in_group = row.setdefault(group, {}) if group else row
                    in_group[item] = getattr(value, end) if end and value is not None else value
            for key, part in self.parts.items():
                row[key] = part.plain_rows[part.names.index(name)] if name in part.names else None
            rows.append(row)
        return rows

    @cached_property
    def flat_rows(self) -> list[dict[str, Any]]:
        """Return the rows without nested values, for CSV and data frames; groups follow, then parts."""
        rows = list[dict[str, Any]]()
        found_in = {key: dict(zip(part.names, part.flat_rows, strict=True)) for key, part in self.parts.items()}
        keys = {  # of the parts' rows, without those that all parts share
            key: [one for one in next(iter(part.flat_rows), {}) if one not in (ROW_KEY, "protocol")]
            for key, part in self.parts.items()
        }
        for name, row in zip(self.names, self.plain_rows, strict=True):
            flat = {key: value for key, value in row.items() if not (isinstance(value, dict) or key in self.parts)}
            flat |= {key: self.shared[key] for key in self.shared_keys}
            for group, values in row.items():
                if group not in flat and group not in self.parts:
                    flat |= {f"{self.flat_groups.get(group, group)}_{key}": value for key, value in values.items()}
            for key, rows_by_name in found_in.items():
                found = rows_by_name.get(name)
                flat[key] = NOT_RUN if found is None else FAILED if found.get("failed") else "run"
                flat |= {f"{key}_{one}": found and found[one] for one in keys[key]}
            rows.append(flat)
        return rows

    @property
    def word_keys(self) -> set[str]:
        """Return the keys of flat rows whose values are words."""
        own = {key for column in self.columns if column.has_words for key in column.plain_keys}
        flat = {key.replace("/", "_") for key in own}
        return flat | {f"{name}_{key}" for name, part in self.parts.items() for key in part.word_keys}


def align_part(part: Table, names: Sequence[str]) -> Iterator[Column]:
    """Yield a part's columns as a table of several gains shows them; rows that the part lacks are not run."""
    at = {name: number for number, name in enumerate(part.names)}
    shown = [column.beside for column in part.columns if column.beside]
    for number, column in enumerate(shown):
        absent = "" if number else NOT_RUN
        texts, narrow = (
            tuple(cells[at[name]] if name in at else absent for name in names)
            for cells in (column.texts, column.narrow or column.texts)
        )
        yield replace(column, texts=texts, narrow=narrow)


def list_texts_beside_gain(columns: Sequence[Column]) -> dict[str, tuple[str, ...]]:
    """Return, by row, what a page shows below gain and verdict, such as `+33.0 at .05`, without missing values."""
    names = next(column.values for column in columns if column.key == ROW_KEY)
    shown = [column.beside for column in columns if column.beside and column.key not in ("gain", "verdict")]
    labels = [(column.short or column.heading).replace("\n", " ").replace(" 0.", " .") for column in shown]
    return {
        name: tuple(
            f"{column.texts[number]} {label}"
            for column, label in zip(shown, labels, strict=True)
            if column.texts[number] not in ("", MISSING)
        )
        for number, name in enumerate(names)
    }


def format_value(value: Any) -> str:
    """Format a value for a terminal; a dash for a missing value."""
    if isinstance(value, Estimate):
        return format_interval(value)
    return MISSING if value is None else str(value)


def format_signed_value(estimate: Estimate) -> str:
    """Format an estimate without its interval, with a sign and one decimal; a dash for a missing value."""
    return format_interval(Estimate(estimate.value))


def format_thousandths(number: float | Estimate | None) -> str:
    """Format a number, or an estimate without its interval, with three decimals; a dash for a missing value."""
    return format_decimals(number.value if isinstance(number, Estimate) else number, 3)


def make_column(
    key: str,
    values: Iterable[Any],
    heading: str = "",
    texts: Iterable[str] = (),
    form: Callable[[Any], str] = format_value,
    **more: Any,
) -> Column:
    """Make a column whose texts are the values in this form, or a dash for None, unless texts are given."""
    listed = tuple(values)
    shown = tuple(texts) or tuple(MISSING if value is None else form(value) for value in listed)
    return Column(key, listed, heading, shown, **more)

"""One table with ROAR (do features matter in the data?) and own-network gain (does a map explain its network?)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from roarbench.analysis.suite_judges import judge_suite
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import CallerError
from roarbench.common.text import MISSING, SAME, format_interval, format_markdown_table, format_records_as_csv
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.protocols import OWN_NETWORK, ROAR, Protocol
from roarbench.plan.suite import SuiteSpec
from roarbench.report import table_formats
from roarbench.report.notes_and_doubts import NOTES_METHOD, list_table_doubts, note_if_self_reported, write_all_notes
from roarbench.report.table import SuiteTable, find_default_unit, make_suite_table, make_table
from roarbench.report.table_json_and_csv import list_flat_rows, list_shared_values, make_plain_row, write_rows_as_json
from roarbench.stats.board_records import RANDOM, IntervalScope, Row
from roarbench.stats.own_network_gain import JudgedGain, OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict

HEADINGS = ("estimator", "ROAR gain [95%]", "vs Random", "own-network gain", "explains?")
_SIDES: dict[str, Literal["left", "right"]] = {text: "right" if "gain" in text else "left" for text in HEADINGS}
NOT_RUN = "not run"  # cell of a row that the suite does not include; a dash stands for a missing result
_SHORT_ANSWERS = {  # to the question "does the map explain its network?"
    OwnNetworkVerdict.EXPLAINS: "yes",
    OwnNetworkVerdict.OPEN: "not shown",
    OwnNetworkVerdict.OPPOSES: "opposes it",
}


@dataclass(frozen=True, repr=False)
class CombinedTable:
    """The tables of ROAR and of own-network gain of one suite, side by side."""

    roar: SuiteTable
    own_network: SuiteTable

    def __repr__(self) -> str:
        title = f"ROAR and own-network table of {self.title}"
        return f"<{title}, {len(self.names)} rows; print() of the result shows them>"

    @property
    def title(self) -> str:
        """Return the suite's name and version, with options that change its results."""
        return self.roar.suite_results.title

    @property
    def names(self) -> list[str]:
        """Return the ids of the estimators by own-network gain, then those of the controls by ROAR gain."""
        roar, own = self._rows_by_name

        def make_sort_key(name: str) -> tuple[bool, float]:
            control = find_estimator(name).control
            row = (roar if control else own).get(name)
            value = row.gain.value if row else None
            return control, -(float("-inf") if value is None else value)

        return sorted({**own, **roar}, key=make_sort_key)

    @property
    def display_names(self) -> dict[str, str]:
        """Return the display names of the suite's rows by id, including rows that are not shown."""
        return self.own_network.display_names | self.roar.display_names

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of each row, in the order of the names."""
        (roar, own), called = self._rows_by_name, self.display_names
        return [
            (
                " ".join((called[name], *self.list_row_signs(name))),
                *_format_roar_cells(self.roar, roar.get(name)),
                *_format_own_network_cells(self.own_network, own.get(name)),
            )
            for name in self.names
        ]

    @property
    def _tables(self) -> tuple[SuiteTable, SuiteTable]:
        return self.roar, self.own_network

    @property
    def _rows_by_name(self) -> tuple[dict[str, Row], dict[str, Row]]:
        roar, own = ({row.estimator: row for row in table.rows} for table in self._tables)
        return roar, own

    def list_row_signs(self, name: str) -> tuple[str, ...]:
        """Return the signs after a row's name in either table."""
        signs = (sign for table in self._tables for sign in table.format_row_signs(name).split())
        return tuple(dict.fromkeys(signs))

    @property
    def unfinished_text(self) -> str:
        """Return the missing runs of each table in words, such as `ROAR: 6 of 99 runs are missing`; else empty."""
        texts = [
            f"{table.board.protocol.title}: {table.unfinished_text}" for table in self._tables if table.unfinished_text
        ]
        return "; ".join(texts)

    @property
    def bars_by_axis_label(self) -> dict[str, dict[str, JudgedGain | None]]:
        """Return, for each kind of gain, its axis label and the bars by name and signs; None for a row not run."""
        called = {name: " ".join((self.display_names[name], *self.list_row_signs(name))) for name in self.names}
        roar, own = self._rows_by_name
        return {
            "ROAR gain, points": {
                called[name]: JudgedGain(roar[name].gain, (against := roar[name].vs_random) and against.verdict)
                if name in roar
                else None
                for name in self.names
            },
            "own-network gain, points": {
                called[name]: JudgedGain(own[name].gain, (test := own[name].network) and test.verdict)
                if name in own
                else None
                for name in self.names
            },
        }

    def summarize_notes(self, source: str = "--notes") -> tuple[str, ...]:
        """Return the short notes: definitions, doubts, the intervals' scope, and the `source` of all other notes."""
        signs = dict.fromkeys(sign for name in self.names for sign in self.list_row_signs(name))
        more = f"{self._interval_note}; {' '.join(signs) or 'more'}: {source}."
        notes = (*self._gain_definitions, *self._origins_and_doubts, more)
        return tuple(notes)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Return all notes of both tables."""
        notes = (f"{table.caption}. {write_all_notes(table)}" for table in self._tables)
        return (*self._gain_definitions, "Rows: estimators by own-network gain, then controls by ROAR gain.", *notes)

    @property
    def _gain_definitions(self) -> tuple[str, str]:
        retrained, scored = (", ".join(f"{t:g}" for t in table.board.levels) for table in self._tables)
        return (
            f"ROAR gain: area between Random's accuracy curve and the row's, t = {retrained}.",
            f"Own-network gain, MoRF: predictions changed by own map - others, t = {scored}.",
        )

    @property
    def _origins_and_doubts(self) -> list[str]:
        origins, doubts = [note_if_self_reported(table) for table in self._tables], list[str]()
        for table, origin in zip(self._tables, origins, strict=True):
            own = [origin] if len({*origins}) > 1 else []
            doubts += [f"{table.board.protocol.title}: {line}" for line in (*own, *list_table_doubts(table)) if line]
        return [*filter(None, {*origins} if len({*origins}) == 1 else ()), *doubts]

    @property
    def _interval_note(self) -> str:
        if self.roar.suite_results.at_chance_warning:
            return "At chance: these numbers test the installation only"
        if self.roar.has_results and self.roar.board.covers is IntervalScope.NOTHING:
            return f"One training per cell: no intervals for ROAR; {SAME} not significant"
        return f"95% intervals (images, networks, seeds); {SAME} not significant"


def _format_roar_cells(table: SuiteTable, row: Row | None) -> tuple[str, str]:
    if row is None:
        return NOT_RUN, ""
    if row.estimator == RANDOM:
        return format_interval((row.gain.value, None, None)), "control"
    if row.vs_random is None:
        return format_interval(row.gain), MISSING
    verdict = row.vs_random.verdict.replace(Verdict.SAME, SAME)
    return format_interval(row.gain), table.mark_verdict(verdict, row.estimator)


def _format_own_network_cells(table: SuiteTable, row: Row | None) -> tuple[str, str]:
    if row is None:
        return NOT_RUN, ""
    if row.network is None:
        return format_interval(row.gain), MISSING
    if row.network.verdict is OwnNetworkVerdict.BY_CONSTRUCTION:
        return str(row.network.verdict), ""
    return format_interval(row.gain), table.mark_verdict(_SHORT_ANSWERS[row.network.verdict], row.estimator)


def has_combined_table(suite: SuiteSpec) -> bool:
    """Return whether ROAR is a suite's first protocol and the suite also has own-network gain."""
    return suite.blocks[0].protocol == ROAR and any(block.protocol == OWN_NETWORK for block in suite.blocks)


def make_combined_table(results: SuiteResults, rows: Sequence[str] | None = None) -> CombinedTable:
    """Build the combined table of these rows, by default of all; CallerError if neither table has any of them."""
    names = results.suite.estimators if rows is None else rows
    tables = [_make_single_table(results, protocol, names) for protocol in (ROAR, OWN_NETWORK)]
    if not any(table.rows for table in tables):
        missing = f"no roar or own-network rows of {', '.join(names)}"
        raise CallerError(f"suite '{results.suite.name}' has {missing}; leave these rows out")
    return CombinedTable(*tables)


def _make_single_table(results: SuiteResults, protocol: Protocol, rows: Sequence[str]) -> SuiteTable:
    table = make_table(judge_suite(results, find_default_unit(results.suite, protocol)), protocol, rows)
    assert table is not None, f"{results.suite.name} has no {protocol.name}"
    return table


def make_default_table(results: SuiteResults) -> SuiteTable | CombinedTable:
    """Return a suite's default table: the combined table if the suite has one, else its headline protocol's table."""
    if has_combined_table(results.suite):
        return make_combined_table(results)
    return make_suite_table(results, "", None, None)


def render(table: SuiteTable | CombinedTable, style: str, notes: bool = False) -> str:
    """Format a table as `json`, `csv` or `markdown`; Markdown ends with the short notes or, if `notes`, all notes."""
    if isinstance(table, SuiteTable):
        return table_formats.render(table, style, notes)
    if style == "json":
        return write_rows_as_json(list_shared_values_by_table(table), _nest_rows(table))
    if style == "csv":
        return format_records_as_csv(flatten_rows(table)).rstrip("\n")
    called = table.display_names
    titles = [" ".join((f"`{called[name]}`", *table.list_row_signs(name))) for name in table.names]
    cells = [(title, *others) for title, (_, *others) in zip(titles, table.rows, strict=True)]
    note_lines = table.all_notes if notes else table.summarize_notes()
    return "\n\n".join((f"**{table.title}**", format_markdown_table(HEADINGS, cells), *note_lines))


def _get_named_tables(table: CombinedTable) -> dict[str, SuiteTable]:
    return {"roar": table.roar, "own_network": table.own_network}


def list_shared_values_by_table(table: CombinedTable) -> dict[str, Any]:
    """Return the shared values of both tables, each in its group."""
    suite = table.roar.suite_results.suite
    groups = {name: list_shared_values(one_table) for name, one_table in _get_named_tables(table).items()}
    return {"suite": suite.name, "version": suite.version, **groups}


def _nest_rows(table: CombinedTable) -> list[dict[str, Any]]:
    """Return the rows as dictionaries with a group of values per table; the group is None if the row was not run."""
    rows_by_group = {
        group: {row.estimator: make_plain_row(one_table, row) for row in one_table.rows}
        for group, one_table in _get_named_tables(table).items()
    }
    return [
        {"estimator": name, "control": find_estimator(name).control}
        | {group: rows.get(name) for group, rows in rows_by_group.items()}
        for name in table.names
    ]


def flatten_rows(table: CombinedTable) -> list[dict[str, Any]]:
    """Return the rows as flat values: columns `roar` and `own_network` state whether a row was run.

    The values of each table are in columns `roar_…` and `own_network_…`.
    """
    combined = [{"estimator": name, "control": find_estimator(name).control} for name in table.names]
    for group, one_table in _get_named_tables(table).items():
        rows = {row["estimator"]: row for row in list_flat_rows(one_table)}
        keys = [key for key in next(iter(rows.values()), {}) if key not in ("estimator", "protocol")]
        for line in combined:
            row = rows.get(line["estimator"])
            line[group] = NOT_RUN if row is None else "run"
            line |= {f"{group}_{key}": row and row[key] for key in keys}
    return combined


def format_text(
    table: SuiteTable | CombinedTable, width: int, notes: bool = False, in_python: bool = False
) -> Table | Group:
    """Format a table for a terminal of this width, in characters, with short notes or all notes; no number is cut."""
    if isinstance(table, SuiteTable):
        return table_formats.format_text(table, width, notes, in_python)
    texts = [i for i, side in enumerate(_SIDES.values()) if i and side == "left"]
    wrapped = table_formats.wrap_columns(zip(HEADINGS, *table.rows, strict=True), 0, texts, width)
    shown = Table(title=table.title, box=SIMPLE_HEAD, padding=0, width=table_formats.measure_table_width(wrapped))
    for side, (heading, *_) in zip(_SIDES.values(), wrapped, strict=True):
        shown.add_column(heading, justify=side, no_wrap=True)
    for i, name in enumerate(table.names, start=1):  # after the heading
        shown.add_row(*(column[i] for column in wrapped), style="dim" if find_estimator(name).control else "")
    short_notes = table.summarize_notes(NOTES_METHOD) if in_python else table.summarize_notes()
    note_lines = table.all_notes if notes else short_notes
    return Group(shown, *(Text(line, style="table.caption") for line in note_lines))


def format_html(table: SuiteTable | CombinedTable) -> str:
    """Format a table as HTML with its title and short notes, for notebooks."""
    if isinstance(table, SuiteTable):
        return table_formats.format_html(table)
    return table_formats.format_html_table(
        table.title, [*_SIDES.items()], table.rows, table.summarize_notes(NOTES_METHOD)
    )

"""One table with ROAR (do features matter in the data?) and own-network gain (does a map explain its network?)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from roarbench.analysis.suite_results import AT_CHANCE, SuiteResults
from roarbench.common.errors import CallerError
from roarbench.common.text import MISSING, SAME
from roarbench.estimators.catalogue import find_estimator, is_search_for_another_order
from roarbench.plan.protocols import OWN_NETWORK, ROAR
from roarbench.plan.suite import SuiteSpec
from roarbench.report.doubts import Shown, join_signs
from roarbench.report.suite_table_columns import present_suite_table
from roarbench.report.table import SuiteTable, make_table
from roarbench.report.table_notes import NOTES_METHOD, list_table_doubts, note_if_self_reported, write_all_notes
from roarbench.report.table_record import FAILED, ROW_KEY, Bar, Column, Table, align_part
from roarbench.stats.board_records import ONE_NETWORK, ONE_TRAINING, IntervalScope, Row

_GROUPS = ("roar", "own_network")  # keys of both tables in JSON


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

    @cached_property
    def names(self) -> list[str]:
        """Return the ids of estimators and then of searches by own-network gain, then other controls by ROAR gain."""
        roar, own = self._rows_by_name

        def make_sort_key(name: str) -> tuple[bool, bool, float]:
            estimator = find_estimator(name)
            row = (roar if estimator.control else own).get(name)
            value = row.gain.value if row else None
            gain = float("-inf") if value is None else value
            return estimator.is_control_or_search, estimator.control, -gain

        return sorted({**own, **roar}, key=make_sort_key)

    @property
    def display_names(self) -> dict[str, str]:
        """Return the display names of the suite's rows by id, including rows that are not shown."""
        return self.own_network.display_names | self.roar.display_names

    @property
    def tables(self) -> tuple[SuiteTable, SuiteTable]:
        return self.roar, self.own_network

    @property
    def _rows_by_name(self) -> tuple[dict[str, Row], dict[str, Row]]:
        roar, own = ({row.estimator: row for row in table.rows} for table in self.tables)
        return roar, own

    def list_row_signs(self, name: str) -> tuple[str, ...]:
        """Return the signs after a row's name; signs of marks, which doubt ROAR's gain, stand beside this gain."""
        doubts = (doubt for table in self.tables for doubt in table.list_doubts(name, Shown.NAME))
        return tuple(join_signs(doubts).split())

    @property
    def bars_by_axis_label(self) -> dict[str, dict[str, Bar | None]]:
        """Return, for each kind of gain, its axis label and the bars by name and signs; None for a row not run."""
        called, panels = self.names_with_signs, dict[str, dict[str, Bar | None]]()
        for gain, table, rows in zip(("ROAR gain", "own-network gain"), self.tables, self._rows_by_name, strict=True):
            bars = panels.setdefault(f"{gain}, points", {})
            for name in self.names:
                row = rows.get(name)
                signs = table.format_row_signs(name, Shown.GAIN)
                missing = FAILED if name in table.failed_rows else MISSING
                bars[called[name]] = Bar(row.gain, table.find_verdict(row), signs, missing) if row else None
        return panels

    @property
    def passes(self) -> dict[str, float]:
        """Return the forward and backward passes of an image's map by name and signs.

        Rows of unknown passes and searches for another order lack.
        """
        found = dict[str, float]()
        for name, text in self.names_with_signs.items():
            passes = self.own_network.suite_results.find_passes(name)
            if passes and not is_search_for_another_order(name, OWN_NETWORK.order):
                found[text] = sum(passes)
        return found

    @cached_property
    def names_with_signs(self) -> dict[str, str]:
        """Return the names of the rows, with the signs of doubts, by id."""
        return {name: " ".join((self.display_names[name], *self.list_row_signs(name))) for name in self.names}

    def summarize_notes(self, source: str = "--notes") -> tuple[str, ...]:
        """Return the short notes: definitions, doubts, the intervals' scope, and the `source` of all other notes."""
        marks = (self.roar.format_row_signs(name, Shown.GAIN) for name in self.names)
        signs = dict.fromkeys([sign for name in self.names for sign in self.list_row_signs(name)])
        signs |= dict.fromkeys(filter(None, marks))
        if self.roar.suite_results.at_chance_warning:
            intervals = AT_CHANCE
        elif self.roar.has_results and self.roar.board.covers is IntervalScope.NOTHING:
            intervals = f"{ONE_TRAINING}: no intervals for ROAR; {SAME} not significant"
        else:
            one = f"; ROAR {ONE_NETWORK}" * (self.roar.has_results and self.roar.board.one_network)
            intervals = f"95% intervals (images, networks, seeds{one}); {SAME} not significant"
        origins = [note_if_self_reported(table) for table in self.tables]
        shared = {*origins} if len({*origins}) == 1 else ()
        lines = [line for line in shared if line]
        for table, origin in zip(self.tables, origins, strict=True):
            own = () if shared else (origin,)
            lines += [f"{table.board.protocol.title}: {line}" for line in (*own, *list_table_doubts(table)) if line]
        more = f"{intervals}; {' '.join(signs) or 'more'}: {source}."
        return (*self._gain_definitions, *lines, more)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Return all notes of both tables."""
        notes = (f"{table.caption}. {write_all_notes(table)}" for table in self.tables)
        return (
            *self._gain_definitions,
            "Rows: estimators, then blind searches, by own-network gain; then other controls by ROAR gain.",
            *notes,
        )

    @property
    def _gain_definitions(self) -> tuple[str, str]:
        retrained, scored = (", ".join(f"{t:g}" for t in table.board.levels) for table in self.tables)
        return (
            f"ROAR gain: area between Random's accuracy curve and the row's, t = {retrained}.",
            f"Own-network gain, MoRF: predictions changed by own map - others, t = {scored}.",
        )


def has_combined_table(suite: SuiteSpec) -> bool:
    """Return whether ROAR is a suite's first protocol and the suite also has own-network gain."""
    return suite.blocks[0].protocol == ROAR and any(block.protocol == OWN_NETWORK for block in suite.blocks)


def make_combined_table(results: SuiteResults, rows: Sequence[str] | None = None) -> CombinedTable:
    """Build the combined table of these rows, by default of all; CallerError if neither table has any of them."""
    names = results.suite.estimators if rows is None else rows
    tables = [table for protocol in (ROAR, OWN_NETWORK) if (table := make_table(results, protocol, names))]
    if not any(table.rows for table in tables):
        missing = f"no roar or own-network rows of {', '.join(names)}"
        raise CallerError(f"suite '{results.suite.name}' has {missing}; leave these rows out")
    return CombinedTable(*tables)


def present(table: SuiteTable | CombinedTable, in_python: bool = False) -> Table:
    """Return a table with its columns and notes; notes name where all notes are, `in_python` or not."""
    one, *others = (present_suite_table(part, in_python) for part in table.tables)
    if not others:
        return one
    both, parts = CombinedTable(*table.tables), dict(zip(_GROUPS, (one, *others), strict=True))
    names, called, suite = both.names, both.display_names, both.roar.suite_results.suite
    controls = tuple(find_estimator(name).is_control_or_search for name in names)
    columns = [
        Column(ROW_KEY, tuple(names), "estimator", tuple(both.names_with_signs.values()), side="left"),
        Column("control", controls),
        *(column for part in parts.values() for column in align_part(part, names)),
    ]
    return Table(
        both.title,
        tuple(columns),
        notes=both.summarize_notes(NOTES_METHOD) if in_python else both.summarize_notes(),
        all_notes=both.all_notes,
        shared={"suite": suite.name, "version": suite.version, **{key: part.shared for key, part in parts.items()}},
        dim=frozenset(number for number, control in enumerate(controls) if control),
        name_texts=tuple(" ".join((f"`{called[name]}`", *both.list_row_signs(name))) for name in names),
        parts=parts,
    )

"""Show the rows of a suite as a table, figure or data frame, and compare rows."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from roarbench.analysis.incomplete_results import keep_most_shared_levels
from roarbench.analysis.load_results import load_from_open_store, open_store_for_reading
from roarbench.analysis.suite_judges import compare_rows, describe_subtraction, judge_suite
from roarbench.analysis.suite_results import SuiteResults
from roarbench.api.gain_tables import Difference, TwoDifferences
from roarbench.common.errors import CallerError, UnknownName
from roarbench.estimators.catalogue import map_row_names_to_ids, refuse_name_of_several_submissions
from roarbench.plan.protocols import OWN_NETWORK, ROAR, SHOWN
from roarbench.plan.settings import Settings
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_changes import find_unit
from roarbench.report.combined_table import CombinedTable, has_combined_table, make_combined_table, present
from roarbench.report.status import list_run_failures
from roarbench.report.table import SuiteTable, make_suite_table
from roarbench.report.table_renderers import format_html, format_text, list_all_notes, make_data_frame

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_WIDTH = 120  # characters per line of text


@dataclass(frozen=True, eq=False)
class EvaluatedRows:
    """Rows of a suite, read from the store once.

    A notebook shows a figure and the table, a terminal only the table. `a | b` has the rows of both results.

    Attributes:
        plan: The suite.
        settings: Store, images and explained networks of the results.
        stored: All results of the suite in the store, submissions included.
        failures: Failed runs, each with `estimator`, `run` and `reason`.
        names: Row ids by the names that the caller gave.
        rows: Ids of the rows to show; all if None.
        published: Whether the rows are published results, so that no run adds to them.
    """

    plan: SuiteSpec
    settings: Settings
    stored: SuiteResults
    failures: tuple[dict[str, str], ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] | None = None
    published: bool = False

    @classmethod
    def read(
        cls,
        plan: SuiteSpec,
        settings: Settings,
        names: Mapping[str, str] = MappingProxyType({}),
        rows: tuple[str, ...] | None = None,
        published: bool = False,
    ) -> Self:
        """Read a suite's rows, published rows at the levels that most share; raises as `Suite.result` does."""
        with open_store_for_reading(settings.store, settings.database) as results:
            stored = load_from_open_store(results, plan, settings)
            failures = tuple(list_run_failures(stored, results))
        stored = keep_most_shared_levels(stored) if published else stored
        return cls(plan, settings, stored, failures, names, rows, published)

    def __or__(self, other: "EvaluatedRows") -> "EvaluatedRows":
        """Return the rows of both results, read again; CallerError if suites or stores differ."""
        if (self.plan, self.settings) != (other.plan, other.settings):
            seen = f"the rows are from {self.plan.title} and {other.plan.title}, or from two stores"
            raise CallerError(f"{seen}; combine rows of one suite in one store")
        rows = None if self.rows is None or other.rows is None else tuple(dict.fromkeys((*self.rows, *other.rows)))
        return self.read(self.plan, self.settings, {**self.names, **other.names}, rows, self.published)

    def __repr__(self) -> str:
        from rich.console import Console

        console = Console(width=_WIDTH, highlight=False, markup=False, force_jupyter=False, force_terminal=False)
        with console.capture() as text:
            console.print(format_text(present(self.table(), in_python=True), _WIDTH), crop=False)
        return text.get().rstrip()

    def _repr_html_(self) -> str:
        text, image = format_html(present(self.table(), in_python=True)), BytesIO()
        self.plot().savefig(image, format="png", dpi=100)
        picture = base64.b64encode(image.getvalue()).decode()
        return f'<img alt="curves" src="data:image/png;base64,{picture}">{text}'

    def table(self, protocol: str = "", unit: str | None = None, fill: str = "") -> SuiteTable | CombinedTable:
        """Return one protocol's table; the default is the table of ROAR and own-network gain if the suite has both.

        Args:
            protocol: Such as `matched`; the suite's headline protocol if empty.
            unit: `scalar`, `pixel` …; the suite's first if None.
            fill: Such as `linear` (ROAD's); the suite's first if empty.

        Raises:
            CallerError: The suite lacks this protocol, unit or fill, or no results of the protocol are published.
        """
        if not (protocol or unit or fill) and self._has_combined_table:
            return make_combined_table(self.stored, self.rows)
        return self.single_table(protocol, unit, fill)

    def single_table(self, protocol: str = "", unit: str | None = None, fill: str = "") -> SuiteTable:
        """Return the table of one protocol, by default the headline protocol; arguments are as for `table`."""
        if self.published and protocol in SHOWN:
            names = [started.name for started in self.stored.list_started_protocols()]
            if protocol not in names:
                seen = f"no {protocol} results of {self.plan.title} are published"
                raise CallerError(f"{seen}, only: {', '.join(names)}")
        return make_suite_table(self.stored, protocol, find_unit(unit) if unit else None, self.rows, fill)

    def notes(self, protocol: str = "", unit: str | None = None, fill: str = "") -> str:
        """Return all notes of a table: scope of the intervals, doubts, signs and columns; arguments as for `table`."""
        table = present(self.table(protocol, unit, fill), in_python=True)
        return "\n".join(list_all_notes(table, table.texts))

    def to_dataframe(self, protocol: str = "", unit: str | None = None, fill: str = "") -> "pandas.DataFrame":
        """Return the table as a data frame, best row first, with the columns of `table --format csv`.

        Gains are in points, accuracies in [0, 1]; missing values are NaN or None. `attrs` has suite, version,
        protocol and everything else that the rows share. Arguments are as for `table`.
        """
        names_by_row = {row: name for name, row in self._rows_by_name.items()}
        return make_data_frame(present(self.table(protocol, unit, fill)), names_by_row)

    def compare(
        self, first: str, second: str, protocol: str = "", unit: str | None = None
    ) -> Difference | TwoDifferences:
        """Compare two rows by a paired test under one protocol, or under ROAR and own-network gain if `table` has both.

        Arguments after the rows are as for `table`.

        Raises:
            CallerError: There is no such row, both rows are the same, or the suite lacks the protocol for one of them.
        """
        ids = (self.find_row_id(first), self.find_row_id(second))
        if ids[0] == ids[1]:
            raise CallerError(f"{first} cannot be compared with itself; name two different rows")
        names, found = dict(zip(ids, (first, second), strict=True)), list[Difference | None]()
        tables = replace(self, rows=None).table(protocol, unit).tables
        for table in tables:
            rows = {row.estimator: row for row in table.rows}
            if not names.keys() <= rows.keys():
                found.append(None)
                continue
            row, other = (rows[id_] for id_ in ids)
            judges, board = judge_suite(table.suite_results, table.unit), table.board
            points, comparison, *_, planned = compare_rows(judges, board.protocol, table.unit, *ids)
            difference = Difference(
                *points,
                p=comparison and comparison.p,
                p_adjusted=comparison.q if comparison and not planned else None,
                verdict=comparison and comparison.verdict,
                gains=(row.gain, other.gain),
                protocol=board.protocol.name,
                unit=table.unit,
                beside_zero=(row.network and row.network.verdict, other.network and other.network.verdict),
                subtraction=describe_subtraction(board.protocol, names),
                planned=planned,
                unfinished=table.unfinished_text if any(map(table.runs.is_unfinished, ids)) else "",
                names=(first, second),
            )
            found.append(difference)
        if len(found) > 1:
            return TwoDifferences(*found)
        if found[0] is None:
            raise CallerError(f"{tables[0].board.protocol.name} is not run for both {first} and {second}")
        return found[0]

    def plot(
        self, file: str | Path | None = None, protocol: str = "", unit: str | None = None, published: str = ""
    ) -> "Figure":
        """Draw the curves of a table; unless rows were chosen, twins and other checks are left out.

        Args:
            file: PNG, SVG or PDF file to which the figure is also saved.
            protocol: As for `table`.
            unit: As for `table`.
            published: Add the curves of Hooker et al. 2019 for imagenet, food101 or birdsnap.

        Raises:
            CallerError: No row has a finished point of its curve yet, or the file cannot be written.
        """
        from roarbench.report.curve_panels import make_figure, save_figure
        from roarbench.report.suite_charts import make_chart, plot_gains

        judge = replace(self, rows=self.rows or self.stored.suite.estimators_with_own_row)
        if not (protocol or unit or published) and self._has_combined_table:
            table = make_combined_table(self.stored, judge.rows)
            caption = table.summarize_notes("notes of the table")
            figure = plot_gains(table.bars_by_axis_label, self.stored.title, caption, table.passes)
        else:
            figure = make_figure(make_chart(judge.single_table(protocol, unit), published))
        if file is not None:
            save_figure(figure, Path(file))
        return figure

    @property
    def _has_combined_table(self) -> bool:
        """Return whether the default table has both ROAR and own-network gain; published results may lack either."""
        both = ROAR, OWN_NETWORK
        started = all(map(self.stored.has_started, both)) if self.published else self.stored.headline_protocol in both
        return started and has_combined_table(self.stored.suite)

    @property
    def _rows_by_name(self) -> dict[str, str]:
        """Return row ids by the caller's names, unless a stored row has the name, and by the names in tables."""
        shown = map_row_names_to_ids(self.stored.suite.estimators).items()
        own = {name: row for name, row in self.names.items() if name not in self.stored.by_estimator}
        return {name: row for name, row in shown if name not in own} | own  # of a row's names, the last is the caller's

    def find_row_id(self, name: str) -> str:
        """Return a row's id by its id, the caller's name, or its name in tables."""
        known = self.stored.suite.estimators
        if name in self._rows_by_name:
            return self._rows_by_name[name]
        if name not in known:
            refuse_name_of_several_submissions(name, known)
            listed = {**self._rows_by_name, **dict.fromkeys(self.rows or known)}
            raise UnknownName("row", name, listed)
        return name

"""Give pages the boards, tables and pictures of a suite; each is computed at first use and only once."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from leaderboard.board_contents import CONTROL, UNJUDGED, BoardContents
from leaderboard.build_board_contents import (
    Advice,
    CombinedBoard,
    make_board_contents,
    make_combined_board,
    recommend_rows,
)
from leaderboard.pictures import Pictures, read_pictures
from leaderboard.text_helpers import make_slug, shorten_line
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.plan.protocols import MATCHED, OWN_NETWORK, OWN_NETWORK_LERF, ROAR, Protocol
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import find_headline_protocols
from roarbench.report.combined_table import CombinedTable, has_combined_table
from roarbench.report.status import find_run_states, format_failure_reasons, list_failures
from roarbench.report.table import SuiteTable, make_table
from roarbench.store.results import ResultsStore

Made = TypeVar("Made")
Views = Mapping[str, "SuiteView"]  # from a suite's slug to the suite, in the order of the pages


@dataclass(frozen=True, eq=False)
class SuiteView:
    """A suite of a store; its boards, tables and pictures are computed at first use.

    `beside` has all suites of the store, including this suite. Only pages about the state of runs need `store`.
    """

    results: SuiteResults
    folder: Path
    beside: list["SuiteView"] = field(default_factory=list, repr=False)
    store: ResultsStore | None = field(default=None, repr=False)
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False)
    _lock: RLock = field(default_factory=RLock, init=False)

    @property
    def slug(self) -> str:
        return make_slug(self.results)

    @property
    def title(self) -> str:
        """Return the suite's name and version as one line, with options that change its results."""
        return shorten_line(self.results.title)

    @property
    def headline_protocol(self) -> Protocol:
        return self.results.headline_protocol

    @cached_property
    def protocols(self) -> tuple[Protocol, ...]:
        """Return the protocols of the suite's boards: the headline protocol, then ROAR and others that were started."""
        started = sorted(self.results.list_started_protocols(), key=lambda protocol: protocol != ROAR)
        return tuple(dict.fromkeys((self.headline_protocol, *started)))

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """Return the ranked estimators on the boards of the first unit, in the suite's order."""
        results = self.results
        boards = ((protocol, results.list_units(protocol)[0]) for protocol in self.protocols)
        there = {name for board in boards for name in results.list_planned_rows_and_included_levels(*board)[0]}
        return tuple(name for name in results.suite.estimators_with_own_row if name in there)

    def get_tab_label(self, protocol: Protocol) -> str:
        """Return the short name of a protocol's board over all levels that the board compares."""
        return f"{protocol.title} {self.results.describe_included_levels(protocol)}".rstrip()

    @property
    def board(self) -> BoardContents:
        return self.get_board(self.headline_protocol)

    @property
    def rank(self) -> int:
        """Return the rank of the suite among other suites by its headline protocol (`rank_by_headline`)."""
        return rank_by_headline(self.results.suite, self.headline_protocol)

    @property
    def leads_with_roar_and_own_network(self) -> bool:
        return self.rank == 0

    @property
    def combined_board(self) -> CombinedBoard | None:
        """Return the board of ROAR and own-network gain, with matched gain if the suite has it; else None."""
        if not self.leads_with_roar_and_own_network:
            return None
        tables = CombinedTable(self.table(ROAR), self.table(OWN_NETWORK))
        matched = self._find_board(MATCHED)
        # if a control was not run, no row has a verdict
        judged = matched and {CONTROL, UNJUDGED} != {row.colour_class for row in matched.rows}
        return self.get_or_compute("paired", lambda: make_combined_board(tables, matched if judged else None))

    @property
    def advice(self) -> Advice | None:
        """Return the recommended estimators; None for a suite that does not lead with own-network gain."""
        lerf = self._find_board(OWN_NETWORK_LERF)
        if self.combined_board:
            roar, own_network, *_ = self.combined_board.boards
            return recommend_rows(own_network, roar, lerf)
        alone = self._find_board(OWN_NETWORK) if self.headline_protocol == OWN_NETWORK else None
        return recommend_rows(alone, lerf=lerf) if alone else None

    def _find_board(self, protocol: Protocol) -> BoardContents | None:
        return self.get_board(protocol) if protocol in self.protocols else None

    def get_board(self, protocol: Protocol, unit: Unit | None = None) -> BoardContents:
        """Return a protocol's board, by default of the first unit."""
        key = ("board", protocol, unit or self.results.list_units(protocol)[0])
        return self.get_or_compute(key, lambda: make_board_contents(self.table(protocol, unit)))

    def table(self, protocol: Protocol, unit: Unit | None = None) -> SuiteTable:
        """Return the table from which a board is made, as `roarbench table` shows it."""
        results, unit = self.results, unit or self.results.list_units(protocol)[0]
        table = self.get_or_compute(
            ("table", protocol, unit),
            lambda: make_table(results, protocol, results.suite.estimators_with_own_row, unit),
        )
        assert table is not None, "the suite has the protocol"
        return table

    @property
    def tables(self) -> list[SuiteTable]:
        """Return the table of every board over all levels; the tables of the headline protocol come first."""
        return [self.table(protocol, unit) for protocol in self.protocols for unit in self.results.list_units(protocol)]

    @property
    def headline_boards(self) -> list[BoardContents]:
        """Return the boards of the headline protocol and of the suite's other headline protocols that were started."""
        leading = dict.fromkeys((self.headline_protocol, *find_headline_protocols(self.results.suite)))
        return [self.get_board(protocol) for protocol in leading if protocol in self.protocols]

    @property
    def suites_on_same_images_and_network(self) -> list["SuiteView"]:
        """Return the other suites on the same images and network, with the same options of fill and unit."""

        def describe(view: SuiteView) -> tuple[Any, ...]:
            results = view.results
            return results.data, results.suite.model, results.limit, results.suite.changes.options

        return [view for view in self.beside if view is not self and describe(view) == describe(self)]

    @property
    def pictures(self) -> Pictures | None:
        """Return pictures of test images; None if the store has neither rankings nor a file of pictures."""
        return self.get_or_compute("pictures", lambda: read_pictures(self.results, self.folder))

    @property
    def run_states(self) -> tuple[Counter[str], list[str]]:
        """Return the number of planned runs in each state now, and a line for each reason of failed runs."""
        assert self.store, "views of pages have a store"
        states = find_run_states(self.results, self.store)
        failed = format_failure_reasons(list_failures(states, self.results.suite))
        return Counter(state for state, _ in states.values()), failed

    def get_or_compute(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """Return the object with this name; `make` is called only once, even if several visitors need the object."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            made: Made = self._made[name]
            return made


def sort_for_display(views: Iterable[SuiteView]) -> list[SuiteView]:
    """Sort suites: images before tables, then suites that lead with both questions, larger images, and more rows."""

    def make_sort_key(view: SuiteView) -> tuple[bool, bool, int, int]:
        suite, leads = view.results.suite, view.leads_with_roar_and_own_network
        own_rows = sum(name not in suite.added for name in view.rows)
        return suite.dataset_record.tabular, not leads, -prod(suite.dataset_record.shape), -own_rows

    return sorted(views, key=make_sort_key)


def rank_by_headline(suite: SuiteSpec, protocol: Protocol) -> int:
    """Return 0 for a suite that leads with ROAR and own-network gain, 1 for matched gain, 2 for other protocols."""
    if has_combined_table(suite) and protocol in (ROAR, OWN_NETWORK):
        return 0
    return 1 if protocol == MATCHED else 2

"""The suites of a store in the form that pages need; each board is computed once, and again after new results."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from pathlib import Path
from threading import RLock
from time import sleep
from typing import Any, TypeVar

from leaderboard.board_contents import CONTROL, UNJUDGED, BoardContents
from leaderboard.build_board_contents import make_board_contents
from leaderboard.first_page_cache import ALL, Selection, ShownStore, boards_ready, first_page_shown
from leaderboard.pictures import Pictures, read_pictures
from leaderboard.roar_and_own_network_board import PairedBoard, make_paired_board
from leaderboard.text_helpers import make_slug
from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.levels_of_partly_run_protocols import keep_most_shared_levels
from roarbench.analysis.load_results import has_only_results_of_other_suites, matches_query
from roarbench.analysis.results_by_images_and_weights import (
    add_prediction_stability_and_ties,
    add_stored_estimators,
    collect_results_by_images_and_weights,
    drop_unrun_submissions,
    list_image_sources,
)
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.errors import StoreError
from roarbench.plan.planned_runs import PlannedRun
from roarbench.plan.protocols import MATCHED, OWN_NETWORK, ROAR, Protocol
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import SUITE_VERSIONS, SUITES, find_headline_protocols
from roarbench.report.roar_and_own_network_table import CombinedTable, has_combined_table
from roarbench.report.status import find_run_states
from roarbench.report.table import SuiteTable, make_table
from roarbench.stats.bootstrap_intervals import Bootstrap
from roarbench.store.results import ResultsStore
from roarbench.store.user_suites import read_suites

Made = TypeVar("Made")
Views = Mapping[str, "SuiteView"]  # from a suite's slug to the suite, in the order of the pages
_PAUSE = 10.0  # seconds between checks for new results
_BREATH = 0.05  # seconds of pause between computations in advance, in which visitors' requests are served


@dataclass(frozen=True, eq=False)
class SuiteView:
    """A suite of a store; its boards, tables and pictures are computed at first use.

    `beside` returns all suites of the store, including this suite. `store` is needed only by pages about the state of
    runs.
    """

    results: SuiteResults
    folder: Path
    beside: Callable[[], Views] = field(repr=False)
    store: ResultsStore | None = field(default=None, repr=False)
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False)
    _lock: RLock = field(default_factory=RLock, init=False)

    @property
    def slug(self) -> str:
        """Return the suite's name in addresses."""
        return make_slug(self.results)

    @property
    def title(self) -> str:
        """Return the suite's name and version, with options that change its results."""
        return self.results.title

    @property
    def headline_protocol(self) -> Protocol:
        """Return the protocol of the first board."""
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
        return tuple(name for name in results.suite.estimators_with_rank if name in there)

    def get_tab_label(self, protocol: Protocol) -> str:
        """Return the short name of a protocol's board over all levels that the board compares."""
        return f"{protocol.tab_name} {self.describe_included_levels(protocol)}".rstrip()

    def describe_included_levels(self, protocol: Protocol) -> str:
        """Return the levels of a protocol's board in words, or an empty string if the board has all the suite's."""
        results = self.results
        units = results.list_units(protocol)[:1]
        return "".join(
            results.describe_included_levels(protocol, unit, results.list_included_levels(protocol, unit))
            for unit in units
        )

    @cached_property
    def suite_draws(self) -> SuiteDraws:
        """Return the bootstrap draws from which all pages are computed."""
        return SuiteDraws(self.results, self.results.list_units(self.headline_protocol)[0], Bootstrap())

    @property
    def board(self) -> BoardContents:
        """Return the first board."""
        return self.get_board(self.headline_protocol)

    @property
    def leads_with_roar_and_own_network(self) -> bool:
        """Return whether the suite leads with ROAR and own-network gain."""
        return not _rank_by_headline(self.results.suite, self.headline_protocol)

    @property
    def combined_table(self) -> CombinedTable | None:
        """Return the combined table of ROAR and own-network gain if the suite leads with both; else None."""
        if not self.leads_with_roar_and_own_network:
            return None
        return CombinedTable(self.table(ROAR), self.table(OWN_NETWORK))

    @property
    def paired_board(self) -> PairedBoard | None:
        """Return the board of ROAR and own-network gain, with matched gain if the suite has it; else None."""
        both = self.combined_table
        if both is None:
            return None
        matched_board = self.get_board(MATCHED) if MATCHED in self.protocols else None
        if matched_board and {CONTROL, UNJUDGED} == {row.colour_class for row in matched_board.rows}:
            matched_board = None  # a control was not run, so no row has a verdict
        return self.get_or_compute("paired", lambda: make_paired_board(both, matched_board))

    def get_board(self, protocol: Protocol, unit: Unit | None = None, levels: tuple[float, ...] = ()) -> BoardContents:
        """Return a protocol's board; the defaults are the first unit and all levels."""
        roar = self.roar_table  # computed outside the lock, because another suite may have to compute this table

        def make() -> BoardContents:
            seconds = self.pictures.seconds if self.pictures else {}
            return make_board_contents(self.suite_draws, self.table(protocol, unit, levels), roar, seconds)

        return self.get_or_compute(("board", protocol, unit or self.results.list_units(protocol)[0], levels), make)

    def table(self, protocol: Protocol, unit: Unit | None = None, levels: tuple[float, ...] = ()) -> SuiteTable:
        """Return the table from which a board is made, as `roarbench table` shows it."""
        unit = unit or self.results.list_units(protocol)[0]

        def make() -> SuiteTable:
            table = make_table(self.suite_draws, protocol, self.results.suite.estimators_with_rank, unit, levels)
            assert table is not None, "the suite has the protocol"
            return table

        return self.get_or_compute(("table", protocol, unit, levels), make)

    @property
    def tables(self) -> list[SuiteTable]:
        """Return the table of every board over all levels; the tables of the headline protocol come first."""
        return [self.table(protocol, unit) for protocol in self.protocols for unit in self.results.list_units(protocol)]

    @property
    def protocol_boards(self) -> list[BoardContents]:
        """Return the board of every protocol over its first unit and all levels; the first board comes first."""
        return [self.get_board(protocol) for protocol in self.protocols]

    @property
    def headline_boards(self) -> list[BoardContents]:
        """Return the boards of the headline protocols."""
        return [
            self.get_board(protocol)
            for protocol in dict.fromkeys((self.headline_protocol, *find_headline_protocols(self.results.suite)))
            if protocol in self.protocols
        ]

    @property
    def suites_on_same_images_and_network(self) -> list["SuiteView"]:
        """Return the other suites on the same images and network."""
        like = (self.results.data, self.results.suite.model, self.results.limit)
        other_views = (view for view in self.beside().values() if view is not self)
        return [v for v in other_views if (v.results.data, v.results.suite.model, v.results.limit) == like]

    @property
    def roar_table(self) -> SuiteTable | None:
        """Return a ROAR table with ranks, of this or another suite on the same images and network; None without one."""
        tables = (
            view.table(ROAR) for view in (self, *self.suites_on_same_images_and_network) if ROAR in view.protocols
        )
        return next((table for table in tables if any(row.place for row in table.rows)), None)

    @property
    def pictures(self) -> Pictures | None:
        """Return pictures of test images; None if the store has neither rankings nor a file of pictures."""
        return self.get_or_compute("pictures", lambda: read_pictures(self.results, self.folder))

    @property
    def run_states(self) -> dict[PlannedRun, tuple[str, str]]:
        """Return a dict from each planned run to its current state and the reason if it failed."""
        assert self.store, "views of pages have a store"
        return find_run_states(self.results, self.store)

    def get_or_compute(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """Return the object with this name; `make` is called only once, even if several visitors need the object."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            made: Made = self._made[name]
            return made


class LiveStore:
    """The suites of a store that have results, read again after new results.

    `state` is the stamp that the store had when all its suites were last read; `state` is empty while suites are still
    to be read.
    """

    def __init__(self, store: ResultsStore, folder: Path, selection: Selection = ALL) -> None:
        self.state = ""
        self._store, self._folder, self._selection = store, folder, selection
        self._lock = RLock()
        # from a suite to the stamp of its results when they were read, and its views
        self._read: dict[SuiteSpec, tuple[str, list[SuiteView]]] = {}
        self._views: Views = {}

    def read_views(self, first_page_only: bool = False) -> Views:
        """Return the suites by slug, in the order of the pages; suites with rows come first.

        A suite without new results keeps its object with its boards and tables. With `first_page_only`, only the suites
        that the first page needs are read, because a visitor waits.

        Raises:
            StoreError: The database cannot be read.
        """
        with self._lock, self._store.database.use_one_connection():
            state = self._store.read_change_stamp()
            if state != self.state:
                order = list_possible_suites(self._store)
                needed = self._read_and_select_first_page_suites(order) if first_page_only else order
                self._read = {suite: self._read_if_changed(suite) for suite in needed}
                read = [view for _, views in self._read.values() for view in views]
                self._views = {view.slug: view for view in sorted(read, key=lambda view: make_sort_key(view.results))}
                self.state = state if len(needed) == len(order) else ""
            return self._views

    def _read_and_select_first_page_suites(self, order: list[SuiteSpec]) -> list[SuiteSpec]:
        """Return the suite of the first page, the suites that were read before, and the suites that this page needs.

        If the first suite has no ROAR, its page shows the ROAR ranks of suites on the same data set and network.
        """
        near = "", ""
        best = {suite: min(_rank_by_headline(suite, block.protocol) for block in suite.blocks) for suite in order}
        for suite in sorted(order, key=best.__getitem__):
            self._read[suite] = self._read_if_changed(suite)
            if any(make_sort_key(view.results) == (False, best[suite]) for view in self._read[suite][1]):
                if best[suite]:
                    near = suite.dataset, suite.model
                break  # later suites in `order` cannot come first
        return [suite for suite in order if suite in self._read or (suite.dataset, suite.model) == near]

    def _read_if_changed(self, suite: SuiteSpec) -> tuple[str, list[SuiteView]]:
        stamp = self._store.read_change_stamp_of_network(suite.dataset, suite.model)
        if suite in self._read and self._read[suite][0] == stamp:
            return self._read[suite]
        read = read_suite_versions(self._store, suite, self._folder, self._selection)
        return stamp, [SuiteView(results, self._folder, lambda: self._views, self._store) for results in read]

    def compute_pages_in_advance(self) -> None:
        """Compute boards in an endless loop: first those of the first page and, after a visit or pause, all others."""
        while True:
            with suppress(StoreError):  # visitors see the error on their page
                for view in self.read_views(first_page_only=True).values():
                    view.paired_board or view.board  # noqa: B018
                    first_page_shown.wait(_PAUSE)
                for suite in list_possible_suites(self._store):
                    # the lock is released after each suite, so that a visitor waits for one suite at most
                    with self._lock, self._store.database.use_one_connection():
                        self._read[suite] = self._read_if_changed(suite)
                    sleep(_BREATH)
                for view in self.read_views().values():
                    view.paired_board or view.board  # noqa: B018
                    sleep(_BREATH)
                boards_ready.set()
                for view in self.read_views().values():
                    view.protocol_boards  # noqa: B018
            sleep(_PAUSE)


def sort_for_display(views: Iterable[SuiteView]) -> list[SuiteView]:
    """Sort suites for a page: images before tables, then suites that lead with both questions, then by image size."""
    records = {view: view.results.suite.dataset_record for view in views}
    return sorted(
        records,
        key=lambda view: (records[view].tabular, not view.leads_with_roar_and_own_network, -prod(records[view].shape)),
    )


def list_possible_suites(store: ResultsStore) -> list[SuiteSpec]:
    """Return the suites of which a store may have results; newest versions come first, and users' suites last.

    Suites with equal `make_sort_key` keep this order.
    """
    listed, there = list(SUITES), store.list_datasets_and_networks()
    order = {
        suite: (suite.blocks[0].protocol != MATCHED, listed.index(suite.name)) for suite in SUITE_VERSIONS.values()
    }
    built_in = sorted(reversed(SUITE_VERSIONS.values()), key=order.__getitem__)
    all_suites = [*built_in, *reversed(read_suites(store.database))]
    return [suite for suite in all_suites if (suite.dataset, suite.model) in there]


def make_sort_key(results: SuiteResults) -> tuple[bool, int]:
    """Return the key by which suites are sorted: suites with rows come first, then the headline protocol decides."""
    return not results.has_rows, _rank_by_headline(results.suite, results.headline_protocol)


def _rank_by_headline(suite: SuiteSpec, protocol: Protocol) -> int:
    """Return 0 for a suite that leads with ROAR and own-network gain, 1 for matched gain, 2 for other protocols."""
    if has_combined_table(suite) and protocol in (ROAR, OWN_NETWORK):
        return 0
    return 1 if protocol == MATCHED else 2


def read_suite_versions(
    store: ResultsStore, suite: SuiteSpec, folder: Path, selection: Selection = ALL
) -> list[SuiteResults]:
    """Read a suite's results: first those on the whole data set, then those on reduced data sets, the largest first.

    Results on different images or with different explained networks are separate; the suite's own results come first.
    """
    sources = list_image_sources(store, folder, suite.dataset)
    versions = collect_results_by_images_and_weights(add_stored_estimators(suite, store), store, sources)
    wanted = (results for results in versions if matches_query(results, *selection, sources))
    matching = [drop_unrun_submissions(results, suite, store) for results in wanted]
    newest = SUITES.get(suite.name, suite).title == suite.title  # a newer version may contain all runs of an older one
    return [
        keep_most_shared_levels(add_prediction_stability_and_ties(results, folder))
        for results in matching
        if (results.complete and newest) or not has_only_results_of_other_suites(results, store)
    ]


def read_views(store: ResultsStore, folder: Path, selection: Selection = ALL) -> Views:
    """Read the suites of a store that have results."""
    return LiveStore(store, folder, selection).read_views()


@cache
def find_live_store(shown: ShownStore) -> LiveStore:
    """Return this process's live store; raise StoreError if the store cannot be opened."""
    store = ResultsStore.open(shown.url, read_only=True)
    return LiveStore(store, Path(shown.folder), (shown.data, shown.reference))

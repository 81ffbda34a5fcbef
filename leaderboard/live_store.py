"""Read the suites of a store, and again after new results; compute the pages of the running app in advance."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import RLock
from time import sleep

from leaderboard.first_page_cache import ALL, Selection, ShownStore, boards_ready, first_page_shown
from leaderboard.suite_view import SuiteView, Views, rank_by_headline
from roarbench.analysis.collect_results import (
    add_stability_ties_and_chance,
    add_stored_estimators,
    collect_results_of_all_versions,
    drop_unrun_submissions,
)
from roarbench.analysis.load_results import has_only_results_of_other_suites, matches_selection
from roarbench.analysis.result_versions import list_image_sources
from roarbench.analysis.shown_rows_and_levels import keep_most_shared_levels
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import StoreError
from roarbench.plan.protocols import MATCHED
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import SUITE_VERSIONS, SUITES
from roarbench.store.results import ResultsStore
from roarbench.store.user_files import read_suites

_PAUSE = 10.0  # seconds between checks for new results
_BREATH = 0.05  # seconds of pause between computations in advance, in which visitors' requests are served


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
        with self._lock:
            state = self._store.read_change_stamp()
            if state != self.state:
                order, read_stamp = list_possible_suites(self._store), cache(self._store.read_change_stamp_of_network)
                needed = self._read_and_select_first_page_suites(order, read_stamp) if first_page_only else order
                self._read = {suite: self._read_if_changed(suite, read_stamp) for suite in needed}
                read = [view for _, views in self._read.values() for view in views]
                in_order = sorted(read, key=lambda view: rank_by_rows_and_headline(view.results))
                self._views = {view.slug: view for view in in_order}
                self.state = state if len(needed) == len(order) else ""
            return self._views

    def _read_and_select_first_page_suites(
        self, order: list[SuiteSpec], read_stamp: Callable[[str, str], str]
    ) -> list[SuiteSpec]:
        """Return the suite of the first page, the suites that were read before, and the suites that this page needs.

        If the first suite has no ROAR, its page shows the ROAR ranks of suites on the same data set and network.
        """
        near = "", ""
        best = {suite: min(rank_by_headline(suite, block.protocol) for block in suite.blocks) for suite in order}
        for suite in sorted(order, key=best.__getitem__):
            self._read[suite] = self._read_if_changed(suite, read_stamp)
            if any(rank_by_rows_and_headline(view.results) == (False, best[suite]) for view in self._read[suite][1]):
                if best[suite]:
                    near = suite.dataset, suite.model
                break  # later suites in `order` cannot come first
        return [suite for suite in order if suite in self._read or (suite.dataset, suite.model) == near]

    def _read_if_changed(self, suite: SuiteSpec, read_stamp: Callable[[str, str], str]) -> tuple[str, list[SuiteView]]:
        stamp = read_stamp(suite.dataset, suite.model)
        if suite in self._read and self._read[suite][0] == stamp:
            return self._read[suite]
        read = read_all_results_of_suite(self._store, suite, self._folder, self._selection)
        return stamp, [SuiteView(results, self._folder, lambda: self._views, self._store) for results in read]

    def compute_boards_in_endless_loop(self) -> None:
        """Compute boards in an endless loop: first those of the first page and, after a visit or pause, all others."""
        while True:
            with suppress(StoreError):  # visitors see the error on their page
                for view in self.read_views(first_page_only=True).values():
                    view.combined_board or view.board  # noqa: B018
                    first_page_shown.wait(_PAUSE)
                for suite in list_possible_suites(self._store):
                    # the lock is released after each suite, so that a visitor waits for one suite at most
                    with self._lock:
                        read_stamp = self._store.read_change_stamp_of_network
                        self._read[suite] = self._read_if_changed(suite, read_stamp)
                    sleep(_BREATH)
                for view in self.read_views().values():
                    view.combined_board or view.board  # noqa: B018
                    sleep(_BREATH)
                boards_ready.set()
                for view in self.read_views().values():
                    view.protocol_boards  # noqa: B018
            sleep(_PAUSE)


def list_possible_suites(store: ResultsStore) -> list[SuiteSpec]:
    """Return the suites of which a store may have results; newest versions come first, and users' suites last.

    Suites with equal `rank_by_rows_and_headline` keep this order.
    """
    listed, there = list(SUITES), store.list_datasets_and_networks()
    order = {
        suite: (suite.blocks[0].protocol != MATCHED, listed.index(suite.name)) for suite in SUITE_VERSIONS.values()
    }
    built_in = sorted(reversed(order), key=order.__getitem__)
    all_suites = [*built_in, *reversed(read_suites(store.database))]
    return [suite for suite in all_suites if (suite.dataset, suite.model) in there]


def rank_by_rows_and_headline(results: SuiteResults) -> tuple[bool, int]:
    """Return the key by which suites are sorted: suites with rows come first, then the headline protocol decides."""
    return not results.has_rows, rank_by_headline(results.suite, results.headline_protocol)


def read_all_results_of_suite(
    store: ResultsStore, suite: SuiteSpec, folder: Path, selection: Selection = ALL
) -> list[SuiteResults]:
    """Read a suite's results: first those on the whole data set, then those on reduced data sets, the largest first.

    Results on different images or with different explained networks are separate; the suite's own results come first.
    """
    sources = list_image_sources(store, folder, suite.dataset)
    versions = collect_results_of_all_versions(add_stored_estimators(suite, store), store, sources)
    wanted = (results for results in versions if matches_selection(results, *selection, sources))
    matching = [drop_unrun_submissions(results, suite, store) for results in wanted]
    newest = SUITES.get(suite.name, suite).title == suite.title  # a newer version may contain all runs of an older one
    return [
        keep_most_shared_levels(add_stability_ties_and_chance(results, folder))
        for results in matching
        if (results.complete and newest) or not has_only_results_of_other_suites(results, store)
    ]


def read_views(store: ResultsStore, folder: Path, selection: Selection = ALL) -> Views:
    return LiveStore(store, folder, selection).read_views()


@cache
def find_live_store(shown: ShownStore) -> LiveStore:
    """Return this process's live store; raise StoreError if the store cannot be opened."""
    store = ResultsStore.open(shown.url, read_only=True)
    return LiveStore(store, Path(shown.folder), (shown.data, shown.reference))

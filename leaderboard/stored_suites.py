"""Read the suites of a store that have results."""

from collections.abc import Callable
from itertools import chain
from pathlib import Path

from leaderboard.suite_view import SuiteView, Views, rank_by_headline
from roarbench.analysis.collect_results import (
    add_facts_of_store_folder,
    add_stored_estimators,
    collect_results_of_all_versions,
    drop_unrun_submissions,
)
from roarbench.analysis.incomplete_results import keep_most_shared_levels
from roarbench.analysis.load_results import has_only_results_of_other_suites
from roarbench.analysis.result_versions import list_image_sources
from roarbench.plan.protocols import MATCHED
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import SUITE_VERSIONS, SUITES
from roarbench.store.results import ResultsStore
from roarbench.store.user_files import read_suites

SHOWN_VARIABLE = "ROARBENCH_BOARD"  # environment variable for the app's script: URL and folder, as JSON


def read_views(store: ResultsStore, folder: Path) -> Views:
    """Return the suites that have rows by slug, in the order of the pages.

    Raises:
        StoreError: The database cannot be read.
    """
    return collect_views(store, lambda suite: read_views_of_suite(store, suite, folder))[0]


def collect_views(
    store: ResultsStore, read: Callable[[SuiteSpec], list[SuiteView]], first_page_only: bool = False
) -> tuple[Views, bool]:
    """Return the views that `read` returns for the suites of a store, as `read_views` does, and whether all were read.

    With `first_page_only`, suites are read until the suite that comes first is found, because a visitor waits.
    """
    # suites of equal rank keep this order: the built-in suites, newest versions first, then users' suites
    listed, there = list(SUITES), store.list_datasets_and_networks()
    order = {
        suite: (suite.blocks[0].protocol != MATCHED, listed.index(suite.name)) for suite in SUITE_VERSIONS.values()
    }
    built_in = sorted(reversed(order), key=order.__getitem__)
    all_suites = [*built_in, *reversed(read_suites(store.database))]
    possible = [suite for suite in all_suites if (suite.dataset, suite.model) in there]
    views = dict[SuiteSpec, list[SuiteView]]()
    best = {suite: min(rank_by_headline(suite, block.protocol) for block in suite.blocks) for suite in possible}
    for suite in sorted(possible, key=best.__getitem__):
        views[suite] = read(suite)
        if first_page_only and any(view.rank == best[suite] for view in views[suite]):
            break  # later suites cannot come first
    found = chain.from_iterable(views.get(suite, ()) for suite in possible)
    in_order = sorted(found, key=lambda view: view.rank)
    for view in in_order:
        view.beside[:] = in_order
    return {view.slug: view for view in in_order}, len(views) == len(possible)


def read_views_of_suite(store: ResultsStore, suite: SuiteSpec, folder: Path) -> list[SuiteView]:
    """Read a suite's results: first those on the whole data set, then those on reduced data sets, the largest first.

    Results on different images or with different explained networks are separate; the suite's own results come first.
    Results on untouched images alone are left out: all suites with the same networks share them.
    """
    sources = list_image_sources(store, folder, suite.dataset)
    versions = collect_results_of_all_versions(add_stored_estimators(suite, store), store, sources)
    run = (drop_unrun_submissions(results, suite, store) for results in versions)
    newest = SUITES.get(suite.name, suite).title == suite.title  # a newer version may contain all runs of an older one
    return [
        SuiteView(keep_most_shared_levels(add_facts_of_store_folder(results, folder)), folder, store=store)
        for results in run
        if results.has_rows and ((results.complete and newest) or not has_only_results_of_other_suites(results, store))
    ]

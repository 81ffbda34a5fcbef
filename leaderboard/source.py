"""From a results store to what the pages show: its suites and their rows."""

from pathlib import Path

from leaderboard.first import ALL, Selection
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.collecting import collect_all
from roarbench.analysis.entered import with_entered, without_idle
from roarbench.analysis.load import fits, only_part
from roarbench.analysis.noisy_copies import with_kept
from roarbench.analysis.versions import image_notes
from roarbench.plan.suite import Suite
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.protocols.matched import MATCHED
from roarbench.store.kept_suites import kept_suites
from roarbench.store.results import ResultsStore


def shown_order(store: ResultsStore) -> list[Suite]:
    """Return the suites that a store may have, in the order of the pages: what matched gain leads, then as listed.

    Of each name the newest version is first. Those from somebody's file are last.
    """
    listed, there = list(SUITES), store.places()
    order = {suite: (suite.blocks[0].protocol != MATCHED, listed.index(suite.name)) for suite in VERSIONS.values()}
    named = sorted(reversed(VERSIONS.values()), key=order.__getitem__)
    found = [*named, *reversed(kept_suites(store.database))]
    return [suite for suite in found if (suite.dataset, suite.model) in there]


def shown_first(results: SuiteResults) -> tuple[bool, bool]:
    """Return what suites are sorted by: with rows, then those whose first question is what only a network can know."""
    return not results.has_rows, results.leading != MATCHED


def may_lead(suite: Suite) -> bool:
    """Return whether its first question can be what only a network can know."""
    return any(block.protocol == MATCHED for block in suite.blocks)


def read_suite(store: ResultsStore, suite: Suite, folder: Path, selection: Selection = ALL) -> list[SuiteResults]:
    """Return a suite on the whole data set, then on its small versions, the largest first; only those that were begun.

    Where the store has it on several sets of images or with several references, each has results of its own, the
    suite's own first. The store's folder has rankings and images, if there are any.
    """
    notes = image_notes(store, folder, suite.dataset)
    versions = collect_all(with_entered(suite, store), store, notes)
    found = [without_idle(each, suite, store) for each in versions if fits(each, *selection, notes)]
    newest = SUITES.get(suite.name, suite).title == suite.title  # a newer version may have all runs of an older one
    return [with_kept(each, folder) for each in found if (each.complete and newest) or not only_part(each, store)]


def slug(suite_results: SuiteResults) -> str:
    """Return the name of a suite and version in addresses and file names.

    Such as `quick-v1`, `quick-v1-small-40`, or `quick-v1-data-1a2b3c4d` where other images or another reference than
    the suite's own are shown.
    """
    small = f"-small-{suite_results.limit}" if suite_results.limit else ""
    asked = "".join(f"-{word.strip('-')}" for word in suite_results.asked)
    whole = f"{suite_results.suite.name}-v{suite_results.suite.version}{small}{asked}"
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-.") else "-" for letter in whole)

"""A made-up store as pages are asked about it."""

from pathlib import Path

from leaderboard.links import AppLinks, Asked, StaticLinks, address
from leaderboard.render import known
from leaderboard.views import read_views
from roarbench.plan.suite import Suite
from roarbench.plan.suites import VERSIONS
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.board_store import make_store


def asked(page: str, folder: Path, made_of: Suite = VERSIONS["quick", 2], live: bool = False, **choices: str) -> Asked:
    """Return a page of a store of one suite, made in this folder where it is not there."""
    if not any(folder.iterdir()):
        make_store(folder, made_of, images=200)
    with ResultsStore.open(default_url(folder), read_only=True) as store:
        views = read_views(store, folder)
    pages = known(views)
    at = address(page, **choices)
    return Asked(at, views, AppLinks() if live else StaticLinks(pages), pages)

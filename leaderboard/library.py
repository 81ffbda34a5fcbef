"""The suites of one store as a running app needs them: read and judged once, and again only where results came."""

from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import RLock
from time import sleep

from leaderboard.shown import SuiteShown
from leaderboard.source import ALL, Only, read_suite
from roarbench.errors import StoreError
from roarbench.plan.runs import Suite
from roarbench.plan.suites import SUITES
from roarbench.store.results import ResultsStore

_PAUSE = 10.0  # seconds between two looks for new results


class Library:
    """All suites of a store that have results.

    Attributes:
        store: Opened read-only.
        folder: The store's folder, with rankings and images if it has them.
        only: Which of its boards are shown.
    """

    def __init__(self, url: str, folder: Path, only: Only = ALL) -> None:
        self.store = ResultsStore.open(url, read_only=True)
        self.folder = folder
        self.only = only
        self._lock = RLock()
        self._state = ""
        self._stamps: dict[Suite, str] = {}
        self._shown: dict[Suite, list[SuiteShown]] = {}

    def suites(self) -> dict[str, SuiteShown]:
        """By slug, as the store is now. A suite without new results stays the same object, with all it has made.

        Raises:
            StoreError: The database refuses.
        """
        with self._lock:
            state = self.store.state()
            if state != self._state:
                for suite in SUITES.values():
                    self._read(suite)
                self._state = state
            return {shown.slug: shown for found in self._shown.values() for shown in found}

    def _read(self, suite: Suite) -> None:
        stamp = self.store.stamp(suite.dataset, suite.model)
        if stamp != self._stamps.get(suite):
            found = read_suite(self.store, suite, self.folder, self.only)
            self._shown[suite] = [SuiteShown(held, self.folder) for held in found]
            self._stamps[suite] = stamp

    def keep_ready(self) -> None:
        """Judge ahead of visitors, for ever: the first board of every suite, and once all else, which takes longer."""
        self._judge_first()
        with suppress(StoreError):
            for shown in self.suites().values():
                shown.make_all()
        while True:
            sleep(_PAUSE)
            self._judge_first()

    def _judge_first(self) -> None:
        with suppress(StoreError):  # a visitor is told
            for shown in self.suites().values():
                shown.table  # noqa: B018


@cache
def library(url: str, folder: Path, only: Only = ALL) -> Library:
    """The one of this process.

    Raises:
        StoreError: The store cannot be opened.
    """
    return Library(url, folder, only)

"""All that is slow about the suites of one store, made once for each set of their results."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from threading import RLock
from time import sleep
from typing import Any, TypeVar

from leaderboard.compare import Arena, arena
from leaderboard.curves import curve_boards
from leaderboard.gallery import Strip, read_strip
from leaderboard.rows import BoardTable, Doubts, board_table
from leaderboard.source import ALL, Only, protocols, read_suite, slug, units
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.validity import Panel, concerns_of, flags_of, panel_of
from roarbench.errors import StoreError
from roarbench.plan.runs import Suite
from roarbench.plan.suites import VERSIONS
from roarbench.stats.board import Board
from roarbench.stats.bootstrap import Bootstrap
from roarbench.store.results import ResultsStore
from roarbench.terms import ROAR, Protocol, Unit

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class SuiteShown:
    """One suite of a store, ready to be laid out; each part is made when it is first asked for.

    Attributes:
        held: The suite and its results.
        folder: The store's folder.
    """

    held: SuiteResults
    folder: Path
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False)
    _lock: RLock = field(default_factory=RLock, init=False)

    @property
    def slug(self) -> str:
        """Its name in addresses."""
        return slug(self.held)

    @property
    def protocol(self) -> Protocol:
        """The one whose board is shown first: ROAR, if the suite has it."""
        has = protocols(self.held)
        return ROAR if ROAR in has else has[0]

    @property
    def unit(self) -> Unit:
        """What one feature is on the board that is shown first."""
        return units(self.held, self.protocol)[0]

    @cached_property
    def evidence(self) -> Evidence:
        """Everything that is drawn, once for all pages."""
        return Evidence(self.held, self.unit, Bootstrap())

    @property
    def doubts(self) -> Doubts:
        """Why rows should be doubted."""
        return self._kept("doubts", lambda: Doubts(flags_of(self.evidence), concerns_of(self.evidence)))

    @property
    def strip(self) -> Strip | None:
        """Images with what the estimators say about them."""
        return self._kept("strip", lambda: read_strip(self.held, self.folder))

    @property
    def panel(self) -> Panel:
        """The validity panel."""
        return self._kept("panel", lambda: panel_of(self.evidence))

    @property
    def curve_boards(self) -> list[Board]:
        """What curves are drawn from, one for each protocol side by side."""
        return self._kept("curves", lambda: curve_boards(self.evidence))

    @property
    def arena(self) -> Arena | None:
        """What comparisons need."""
        return self._kept("arena", lambda: arena(self.evidence, self.protocol, self.unit))

    @property
    def table(self) -> BoardTable:
        """The board that is shown first."""
        return self.board(self.protocol, self.unit, ())

    def board(self, protocol: Protocol, unit: Unit, levels: tuple[float, ...]) -> BoardTable:
        """A board of the suite, with flags and costs."""
        return self._kept((protocol, unit, levels), lambda: self._board(protocol, unit, levels))

    def make_all(self) -> None:
        """Everything that the pages ask for."""
        for make in (lambda: self.table, lambda: self.curve_boards, lambda: self.panel, lambda: self.arena):
            make()
        for protocol in protocols(self.held):
            for unit in units(self.held, protocol):
                whole = self.board(protocol, unit, ())
                for t in whole.levels:
                    self.board(protocol, unit, (t,))

    def _board(self, protocol: Protocol, unit: Unit, levels: tuple[float, ...]) -> BoardTable:
        seconds = dict(self.strip.seconds) if self.strip else {}
        return board_table(self.evidence, protocol, unit, levels, self.doubts, seconds)

    def _kept(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """What has this name, made once however many visitors ask for it at the same time."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            made: Made = self._made[name]
            return made


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
                for suite in VERSIONS.values():
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

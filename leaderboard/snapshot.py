"""The suites of one store as pages need them: each part is computed once, and again only where results came."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from threading import RLock
from time import sleep
from typing import Any, TypeVar

from leaderboard.boards import Doubts, board_table
from leaderboard.compare import PairComparison, compare_pair
from leaderboard.curves import curve_boards
from leaderboard.gallery import Gallery, read_gallery
from leaderboard.rows import BoardRow, BoardTable
from leaderboard.source import ALL, Selection, main_rows, protocols, read_suite, read_suites, shown_order, slug, units
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.marks import flags_of, floor_words, floors_of, marks_of, weighs
from roarbench.analysis.validity import Panel, panel_of
from roarbench.errors import StoreError
from roarbench.plan.suite import Suite
from roarbench.plan.suites import leading
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.report.claim_table import claim_records
from roarbench.stats.board import Board
from roarbench.stats.bootstrap import Bootstrap
from roarbench.store.results import ResultsStore
from roarbench.terms import Unit

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class SuiteView:
    """One suite of a store, ready to be laid out; each part is computed when it is first asked for.

    Attributes:
        suite_results: The suite and its results.
        folder: The store's folder.
    """

    suite_results: SuiteResults
    folder: Path
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False)
    _lock: RLock = field(default_factory=RLock, init=False)

    @property
    def slug(self) -> str:
        """Return its name in addresses."""
        return slug(self.suite_results)

    @property
    def protocol(self) -> Protocol:
        """Return the protocol of the first board."""
        return protocols(self.suite_results)[0]

    @property
    def unit(self) -> Unit:
        """Return what one feature is on the first board."""
        return units(self.suite_results, self.protocol)[0]

    @cached_property
    def evidence(self) -> Evidence:
        """Return the draws behind all pages."""
        return Evidence(self.suite_results, self.unit, Bootstrap())

    @property
    def doubts(self) -> Doubts:
        """Return why rows should be doubted."""
        return self._kept("doubts", self._doubts)

    @property
    def gallery(self) -> Gallery | None:
        """Return a few images with the estimators' rankings of them; None where the store has none."""
        return self._kept("gallery", lambda: read_gallery(self.suite_results, self.folder))

    @property
    def panel(self) -> Panel:
        """Return the validity panel."""
        return self._kept("panel", lambda: panel_of(self.evidence))

    @property
    def claims(self) -> list[dict[str, Any]]:
        """Return the paper's claims with their verdicts on the suite's numbers."""
        return self._kept("claims", lambda: claim_records(self.evidence))

    @property
    def curve_boards(self) -> list[Board]:
        """Return the boards that curves are drawn from, one for each protocol side by side."""
        return self._kept("curves", lambda: curve_boards(self.evidence))

    @property
    def table(self) -> BoardTable:
        """Return the first board."""
        return self.board(self.protocol, self.unit, ())

    @property
    def leading(self) -> list[BoardTable]:
        """Return the boards of the protocols that lead the suite, the first one first."""
        return [
            self.board(protocol, units(self.suite_results, protocol)[0], ())
            for protocol in dict.fromkeys((self.protocol, *leading(self.suite_results.suite)))
        ]

    @property
    def entries(self) -> tuple[BoardRow, ...]:
        """Return a row of every estimator: those of the first board, then what only boards of other protocols have."""
        return self._kept("entries", self._entries)

    @property
    def roar_caption(self) -> str:
        """Return of what the numbers under ROAR are; of the first board where the suite does not have it."""
        has = units(self.suite_results, ROAR)
        return (self.board(ROAR, has[0], ()) if has else self.table).caption

    def board(self, protocol: Protocol, unit: Unit, levels: tuple[float, ...]) -> BoardTable:
        """Return a board of the suite, with flags and costs."""
        return self._kept((protocol, unit, levels), lambda: self._board(protocol, unit, levels))

    def compare(self, first: str, second: str) -> PairComparison | None:
        """Compare two estimators under the protocol of the first board; None where the suite does not have it."""
        with self._lock:
            return compare_pair(self.evidence, first, second, self.protocol, self.unit)

    def rest(self) -> None:
        """Compute what pages of several suites ask for, and let go of the draws: they are most of a suite's memory."""
        self.panel, self.claims, self.entries  # noqa: B018
        self.__dict__.pop("evidence", None)

    def compute_all(self) -> None:
        """Compute everything that the pages ask for."""
        for make in (lambda: self.table, lambda: self.curve_boards, lambda: self.panel):
            make()
        for protocol in protocols(self.suite_results):
            for unit in units(self.suite_results, protocol):
                whole = self.board(protocol, unit, ())
                for t in whole.levels:
                    self.board(protocol, unit, (t,))

    def _board(self, protocol: Protocol, unit: Unit, levels: tuple[float, ...]) -> BoardTable:
        seconds = dict(self.gallery.seconds) if self.gallery else {}
        doubts = self.doubts if weighs(protocol) else Doubts(flags_of(self.evidence, protocol), {}, {}, "")
        return board_table(self.evidence, protocol, unit, levels, doubts, seconds)

    def _entries(self) -> tuple[BoardRow, ...]:
        found = {row.estimator: row for row in self.table.rows}
        for protocol in protocols(self.suite_results):
            if found.keys() < set(main_rows(self.suite_results)):
                board = self.board(protocol, units(self.suite_results, protocol)[0], ())
                found = {**{row.estimator: row for row in board.rows}, **found}
        first = [row.estimator for row in self.table.rows]
        return tuple(found[name] for name in dict.fromkeys((*first, *found)))

    def _doubts(self) -> Doubts:
        found, masks = self.evidence, self.evidence.masks
        levels = [t for t in masks.levels if t in found.roar.levels][-1:]
        above = {name: found.above_masks(name, t) for name in self.suite_results.suite.placed for t in levels}
        return Doubts(flags_of(found), marks_of(found), above, floor_words(floors_of(found)))

    def _kept(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """Return the part of this name, computed once however many visitors ask for it at the same time."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            made: Made = self._made[name]
            return made


def read_views(store: ResultsStore, folder: Path, selection: Selection = ALL) -> list[SuiteView]:
    """Return the view of every suite that has at least one result; the arguments are those of `read_suites`."""
    return [SuiteView(each, folder) for each in read_suites(store, folder, selection).values()]


_PAUSE = 10.0  # seconds between two looks for new results


class LiveSnapshot:
    """The suites of a store that have results, as a running app shows them.

    Attributes:
        store: Opened read-only.
        folder: The store's folder, with rankings and images if it has them.
        selection: Which of its boards are shown.
    """

    def __init__(self, url: str, folder: Path, selection: Selection = ALL) -> None:
        self.store = ResultsStore.open(url, read_only=True)
        self.folder = folder
        self.selection = selection
        self._lock = RLock()
        self._state = ""
        self._stamps: dict[Suite, str] = {}
        self._views: dict[Suite, list[SuiteView]] = {}

    def suites(self) -> dict[str, SuiteView]:
        """Return the suites by slug, in the order of the pages, as the store is now.

        A suite without new results stays the same object, with all that it has computed.

        Raises:
            StoreError: The database refuses.
        """
        with self._lock:
            state = self.store.state()
            if state != self._state:
                order = shown_order(self.store)
                for suite in order:
                    self._read(suite)
                self._views = {suite: self._views[suite] for suite in order}
                self._state = state
            views = [view for found in self._views.values() for view in found]
            return {view.slug: view for view in sorted(views, key=lambda view: not view.suite_results.has_rows)}

    def _read(self, suite: Suite) -> None:
        stamp = self.store.stamp(suite.dataset, suite.model)
        if stamp != self._stamps.get(suite):
            found = read_suite(self.store, suite, self.folder, self.selection)
            self._views[suite] = [SuiteView(each, self.folder) for each in found]
            self._stamps[suite] = stamp

    def keep_ready(self) -> None:
        """Compute ahead of visitors, for ever: the first board of every suite, and once all the rest."""
        self._compute_first()
        with suppress(StoreError):
            for view in self.suites().values():
                view.compute_all()
        while True:
            sleep(_PAUSE)
            self._compute_first()

    def _compute_first(self) -> None:
        with suppress(StoreError):  # a visitor is told
            for view in self.suites().values():
                view.table  # noqa: B018


@cache
def live_snapshot(url: str, folder: Path, selection: Selection = ALL) -> LiveSnapshot:
    """Return the one of this process.

    Raises:
        StoreError: The store cannot be opened.
    """
    return LiveSnapshot(url, folder, selection)

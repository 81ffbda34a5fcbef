"""Everything that is slow about one suite, made once for each set of its results."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from leaderboard.curves import curve_boards
from leaderboard.duel import Arena, arena
from leaderboard.source import protocols, slug, units
from leaderboard.strip import Strip, read_strip
from leaderboard.tables import BoardTable, Doubts, board_table
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.validity import Panel, concerns_of, flags_of, panel_of
from roarbench.stats.board import Board
from roarbench.stats.bootstrap import Bootstrap
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

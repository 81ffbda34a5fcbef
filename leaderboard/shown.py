"""Everything that is slow about one suite, made once for each state of the store."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from leaderboard.curves import curve_boards
from leaderboard.duel import Arena, arena
from leaderboard.source import protocols, slug, units
from leaderboard.strip import Strip, read_strip
from leaderboard.tables import BoardTable, board_table
from roarbench.standings import Standing
from roarbench.stats.board import Board
from roarbench.terms import ROAR, Protocol, Unit
from roarbench.validity import Panel, flags, panel


@dataclass(frozen=True, eq=False)
class SuiteShown:
    """One suite of a store, ready to be laid out; each part is made when it is first asked for.

    Attributes:
        held: The suite and its results.
        folder: The store's folder.
        state: The store's stamp when it was read.
    """

    held: Standing
    folder: Path
    state: str

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
    def flags(self) -> dict[str, str]:
        """Why rows should be doubted."""
        return flags(self.held, self.unit)

    @cached_property
    def strip(self) -> Strip | None:
        """Images with what the estimators say about them."""
        return read_strip(self.held, self.folder)

    @cached_property
    def panel(self) -> Panel:
        """The validity panel."""
        return panel(self.held)

    @cached_property
    def curve_boards(self) -> list[Board]:
        """What curves are drawn from, one for each protocol side by side."""
        return curve_boards(self.held)

    @cached_property
    def arena(self) -> Arena | None:
        """What comparisons need."""
        return arena(self.held, self.protocol, self.unit)

    @cached_property
    def table(self) -> BoardTable:
        """The board that is shown first."""
        return self.board(self.protocol, self.unit, ())

    def board(self, protocol: Protocol, unit: Unit, levels: tuple[float, ...]) -> BoardTable:
        """A board of the suite, with flags and costs."""
        seconds = dict(self.strip.seconds) if self.strip else {}
        return board_table(self.held, protocol, unit, levels, self.flags, seconds)

"""Build the first board of a suite that leads with ROAR and own-network gain; each row has a verdict for both."""

from dataclasses import dataclass, replace

from leaderboard.board_contents import BoardContents, BoardRow
from leaderboard.build_board_contents import list_facts, make_board_contents
from leaderboard.headline import add_missing_runs_to_headline, write_combined_headline
from roarbench.common.text import capitalize
from roarbench.report.combined_table import CombinedTable


@dataclass(frozen=True)
class CombinedBoard:
    """The board as a page shows it, with a column per gain: ROAR gain, own-network gain, and matched gain if run."""

    headline: str
    facts: tuple[str, ...]
    caption: tuple[str, ...]
    boards: tuple[BoardContents, ...]
    rows: tuple[BoardRow, ...]  # a row of any of the boards, for what is the same on all of them

    @property
    def started_boards(self) -> list[BoardContents]:
        return [board for board in self.boards if board.started_rows]


def make_combined_board(both: CombinedTable, matched: BoardContents | None = None) -> CombinedBoard:
    """Build the board of ROAR and own-network gain; `matched`, if given, adds a column of matched gain."""
    made = (*map(make_board_contents, both.tables), *([matched] if matched else ()))
    boards = tuple(replace(board, best_control=None) for board in made)
    first_rows = {name: row for board in reversed(boards) for name, row in board.started_rows.items()}
    listed = dict.fromkeys([*both.names, *first_rows])
    rows = [
        replace(first_rows[name], signs=" ".join(both.list_row_signs(name))) for name in listed if name in first_rows
    ]
    gains = capitalize(", ".join(board.gain_with_levels for board in boards if board.started_rows))
    roar, own_network, *_ = boards
    headline = write_combined_headline(own_network.rows, roar.rows, roar.included_levels_text)
    return CombinedBoard(
        headline=add_missing_runs_to_headline(headline, both.unfinished_text),
        facts=list_facts(both.own_network, [row.id for row in rows], gains, both.roar.board.images),
        caption=both.all_notes[2:],  # the page itself defines the gains, as the first two notes do
        boards=boards,
        rows=tuple(rows),
    )

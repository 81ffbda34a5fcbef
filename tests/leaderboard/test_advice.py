"""Recommended estimators: the front of gain against passes, and rows whose interval reaches the front."""

from dataclasses import replace

from leaderboard.advice import recommend_rows
from leaderboard.board_contents import BEATS, OPEN
from leaderboard.roar_and_own_network_board import Answer, NamedRow, make_combined_board
from roarbench.report.roar_and_own_network_table import CombinedTable
from roarbench.stats.bootstrap_intervals import Estimate
from tests.helpers.two_questions import make_tables_of_both_gains

ROWS = {  # passes, own-network gain with its interval
    "grad": (2, (3.0, 2.0, 4.0), BEATS),
    "lrp": (2, (5.0, 3.0, 7.0), BEATS),
    "deeplift": (4, (4.9, 4.0, 7.5), BEATS),
    "sg-grad": (30, (99.0, -1.0, 199.0), OPEN),
    "occlusion": (50, (8.0, 7.5, 8.5), BEATS),
    "ig": (50, (7.9, 7.4, 8.6), BEATS),
    "mine": (0, (20.0, 19.0, 21.0), BEATS),
    "rise": (1000, (8.5, 7.0, 10.0), BEATS),
    "gb": (2000, (), BEATS),
}


def make_board_of_both_gains():
    return make_combined_board(CombinedTable(*make_tables_of_both_gains()))


def make_board(*names):
    made = make_board_of_both_gains()
    answers = {name: Answer(Estimate(*ROWS[name][1]), ROWS[name][2], "") for name in names}
    rows = tuple(NamedRow(name, name, "", "", False, ROWS[name][0]) for name in names)
    return replace(made, rows=rows, questions=(made.questions[0], replace(made.questions[1], answers=answers)))


def test_recommended_rows_match_manual_pareto_front():
    found = recommend_rows(make_board(*ROWS))
    front = [(each.row.id, each.certain) for each in found.front]
    assert front == [("lrp", True), ("occlusion", True), ("rise", False)]
    assert [each.row.id for each in found.near] == ["ig", "deeplift"], "their intervals reach 7"
    assert found.front[0].roar is None, "not retrained for"
    assert [each.row.id for each in recommend_rows(make_board("grad", "lrp")).near] == ["grad"]


def test_recommend_rows_skips_rows_without_verdict_or_known_cost():
    assert recommend_rows(make_board("sg-grad", "mine", "gb")) is None
    assert recommend_rows(make_board()) is None


def test_row_cost_is_counted_in_passes_per_image():
    board = make_board_of_both_gains()
    rows = {row.id: row.passes for row in board.rows}
    assert rows == {"ig": 50, "grad": 2, "gb": 2, "random": 0, "sobel": 0, "random-blurred": 0}
    found = recommend_rows(board)
    assert [(each.row.id, each.gain.value) for each in found.front] == [("ig", 1.0)]

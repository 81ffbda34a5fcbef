"""The picture of own-network gain against passes, with the blind searches as its frontier."""

from dataclasses import replace

from leaderboard.figures import make_cost_scatter
from leaderboard.links import Site, make_address
from leaderboard.render import list_addresses, render_page
from roarbench.plan.protocols import OWN_NETWORK, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from tests.helpers.board_store import make_store, open_views
from tests.helpers.command_line import publish

ROWS = ("random", "grad", "ig", "search(passes=2)", "search(passes=50)")


def test_board_draws_gain_against_passes(tmp_path, monkeypatch):
    blocks = (Block(ROAR, ROWS[:2], (0.9,), 3), Block(OWN_NETWORK, ROWS, (0.05, 0.5), 1))
    suite = replace(SUITES["quick"], name="costs", blocks=blocks)
    publish(monkeypatch, suite)
    make_store(tmp_path, suite, images=40)
    with open_views(tmp_path) as views:
        (view,) = [each for slug, each in views.items() if slug.startswith("costs")]
        board = view.combined_board
        plot = make_cost_scatter(board)
        gains = {row: answer.gain.value for row, answer in board.questions[1].answers.items()}
        assert plot.frontier == ((2.0, gains["search(passes=2)"]), (50.0, gains["search(passes=50)"]))
        assert {dot.id: (dot.roar.value, dot.own.value) for dot in plot.dots} == {
            "grad": (2.0, gains["grad"]),
            "ig": (50.0, gains["ig"]),
            "search(passes=2)": (2.0, gains["search(passes=2)"]),
            "search(passes=50)": (50.0, gains["search(passes=50)"]),
        }
        assert [dot.id for dot in plot.dots if dot.control] == sorted(ROWS[3:], key=lambda name: -gains[name])
        page = render_page(Site(views, list_addresses(views)), make_address("board", view.slug)).html
        assert "What does a gain cost?" in page and "a map above the line knows more than it asked" in page
        rows = tuple(row._replace(passes=None) for row in board.rows)
        assert make_cost_scatter(replace(board, rows=rows)) is None

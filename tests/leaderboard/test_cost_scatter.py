"""The picture of own-network gain against passes, with the blind searches as its frontier."""

from dataclasses import replace
from itertools import combinations, product

from leaderboard.board_contents import make_gain_axis, make_pass_axis
from leaderboard.build_board_contents import make_board_contents, make_combined_board
from leaderboard.figures import _PLOT_HEIGHT, Dot, Scatter, _place_labels, make_cost_scatter
from leaderboard.links import Site, make_address
from leaderboard.render import list_addresses, render_page
from roarbench.analysis.suite_judges import describe_verdict
from roarbench.analysis.suite_results import SuiteResults
from roarbench.plan.protocols import OWN_NETWORK, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.stats.intervals import Estimate
from roarbench.stats.verdicts import Verdict
from tests.helpers.board_store import make_store, open_views
from tests.helpers.command_line import publish
from tests.helpers.made_up_results import make_table_of_both_gains

ROWS = ("random", "grad", "ig", "search(passes=2)", "search", "search(passes=2,order=lerf)")  # the last: not drawn


def test_board_draws_gain_against_passes(tmp_path, monkeypatch):
    blocks = (Block(ROAR, ROWS[:2], (0.9,), 3), Block(OWN_NETWORK, ROWS, (0.05, 0.5), 1))
    suite = replace(SUITES["quick"], name="costs", blocks=blocks)
    publish(monkeypatch, suite)
    make_store(tmp_path, suite, images=40)
    with open_views(tmp_path) as views:
        (view,) = [each for slug, each in views.items() if slug.startswith("costs")]
        board = view.combined_board
        plot = make_cost_scatter(board)
        roar, own = board.boards
        gains = {row.id: row.value.value for row in own.rows}
        assert plot.frontier == ((2.0, gains["search(passes=2)"]), (32.0, gains["search"]))
        assert {dot.id: (dot.passes, dot.gain.value) for dot in plot.dots} == {
            "grad": (2.0, gains["grad"]),
            "ig": (50.0, gains["ig"]),
            "search(passes=2)": (2.0, gains["search(passes=2)"]),
            "search(passes=32)": (32.0, gains["search"]),  # as tables call the row
        }
        assert sum(dot.control for dot in plot.dots) == 2
        page = render_page(Site(views, list_addresses(views)), make_address("board", view.slug)).html
        assert "What does a gain cost?" in page and "compared with the first that has as many passes." in page
        monkeypatch.setattr(SuiteResults, "find_passes", lambda results, name: None)
        unknown = make_board_contents(view.table(OWN_NETWORK)).rows_by_id
        texts = {row.id: (row.verdict_text, unknown[row.id].verdict_text) for row in own.rows}
        assert texts["ig"][1] == f"{texts['ig'][0]}, passes unknown" and {*texts["search"]} == {"control"}
        rows = tuple(replace(row, passes=None) for row in own.rows)
        assert make_cost_scatter(replace(board, boards=(roar, replace(own, rows=rows)))) is None


def test_labels_of_gains_of_0_do_not_cover_axis():
    """The labels of three rows with a gain of 0 stand beside their dots, and else above them."""
    names = ("random", "sobel", "random-blurred")
    dots = [Dot(name, True, at, Estimate(0.0)) for name, at in zip(names, (2.0, 8.0, 32.0), strict=True)]
    dots.append(Dot("grad", False, 4.0, Estimate(6.0)))
    axes = make_pass_axis([dot.passes for dot in dots]), make_gain_axis(dot.gain for dot in dots)
    plot = Scatter(dots, *axes, "", "", "")
    for size in (1.0, 1.5):
        labels = _place_labels(plot, size)
        assert all(label and label[1] - 4 * size <= _PLOT_HEIGHT for label in labels.values()), size


def test_no_label_covers_dot_or_other_label():
    """Crowded dots have no label."""
    combined_board = make_combined_board(make_table_of_both_gains())
    own, one = combined_board.boards[1], combined_board.rows[0]
    rows = tuple(replace(one, id=f"row-{n}", passes=2.0 + n, value=Estimate(n / 20)) for n in range(40))
    for few in (rows[::10], rows):
        plot = make_cost_scatter(replace(combined_board, rows=few, boards=(own, replace(own, rows=few))))
        for kind, size in (("label", 1), ("phone_label", 1.5)):
            assert not any(cover_each_other(one, other, 10 * size) for one, other in list_label_pairs(plot, kind, size))
            assert {getattr(dot, kind) is None for dot in plot.dots} == ({True, False} if few == rows else {False})


def list_label_pairs(plot, kind, size):
    """Return each box of a label with the boxes of all other labels and of all dots: left end, right end and middle."""
    dots = [(plot.to_x(dot.passes), plot.to_y(dot.gain.value)) for dot in plot.dots]
    placed = [(dot.id, getattr(dot, kind)) for dot in plot.dots if getattr(dot, kind)]
    boxes = [(at[0], at[0] + 5.5 * size * len(name), at[1] - 4 * size) for name, at in placed]
    return [*combinations(boxes, 2), *product(boxes, [(x - 4, x + 4, y) for x, y in dots])]


def cover_each_other(one, other, height):
    return one[0] < other[1] and other[0] < one[1] and abs(one[2] - other[2]) < height


def test_comparison_of_rows_does_not_say_that_one_explains():
    """A blind search would earn it, under its name or another."""
    said = describe_verdict(Verdict.WORSE, ("Gradient", "Guided Backprop"))
    assert said == "Guided Backprop has a larger gain than Gradient"

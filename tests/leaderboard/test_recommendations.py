"""Recommended estimators: the front of own-network gain against passes, and what the recommendation is based on."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from leaderboard.board_contents import BEATS, BELOW, OPEN
from leaderboard.build_board_contents import make_combined_board, recommend_rows
from leaderboard.links import Site, make_address
from leaderboard.page.overview import _find_kind_of_data
from leaderboard.render import list_addresses, render_page
from roarbench.plan.protocols import OWN_NETWORK, OWN_NETWORK_LERF, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES, find_builtin_suite
from roarbench.stats.intervals import Estimate
from tests.helpers.board_store import make_store, open_views
from tests.helpers.command_line import publish
from tests.helpers.made_up_results import make_table_of_both_gains

ADVISED = {  # passes, own-network gain with its interval
    "grad": (2, (3.0, 2.0, 4.0), BEATS),
    "lrp": (2, (5.0, 3.0, 7.0), BEATS),
    "deeplift": (4, (4.9, 4.0, 7.5), BEATS),
    "sg-grad": (30, (99.0, -1.0, 199.0), OPEN),
    "occlusion": (50, (8.0, 7.5, 8.5), BEATS),
    "ig": (50, (7.9, 7.4, 8.6), BEATS),
    "mine": (0, (20.0, 19.0, 21.0), BEATS),
    "uncounted": (None, (30.0, 29.0, 31.0), BEATS),
    "rise": (1000, (8.5, 7.0, 10.0), BEATS),
    "gb": (2000, (), BEATS),
}


@pytest.fixture
def combined_board():
    """A board with handwritten gains under both protocols."""
    return make_combined_board(make_table_of_both_gains())


def recommend(board, *names, added=(), lerf=()):
    """Recommend among these rows of `ADVISED`, which replace those of the board; `lerf` has kinds in LeRF order."""
    roar, own = board.boards
    bare = own.rows[0]
    rows = []
    for name in names:
        passes, gain, kind = ADVISED[name]
        about = {"control": False, "added": name in added, "passes": passes}
        rows.append(replace(bare, id=name, verdict_class=kind, value=Estimate(*gain), **about))
    others = [
        replace(bare, id=name, verdict_class=kind, verdict_text=text) for name, (kind, text) in dict(lerf).items()
    ]
    return recommend_rows(replace(own, rows=tuple(rows)), roar, replace(own, rows=tuple(others)))


def test_recommended_rows_match_manual_pareto_front(combined_board):
    """The front is of gain against passes; rows whose interval reaches the front are near."""
    found = recommend(combined_board, *ADVISED)
    assert [each.row.id for each in found.front] == ["lrp", "occlusion", "rise"]
    assert [each.row.id for each in found.near] == ["ig", "deeplift"], "their intervals reach 7"
    assert found.front[0].roar is None, "not retrained for"
    assert [each.row.id for each in recommend(combined_board, "grad", "lrp").near] == ["grad"]


def test_row_is_certain_if_interval_is_above_every_row_with_as_few_passes(combined_board):
    few = ("lrp", "deeplift", "occlusion")
    for more, added, certain in (
        ((), (), [True, True]),
        (("grad",), (), [False, True]),  # as many passes as lrp, whose interval reaches its gain
        (("ig",), (), [True, False]),
        (("ig",), ("ig",), [True, True]),  # an added row does not count
        (("sg-grad",), (), [True, False]),  # a higher gain that is not significant
        (("mine",), (), [True, True]),  # passes unknown
    ):
        found = recommend(combined_board, *few, *more, added=added)
        assert {each.row.id: each.certain for each in found.front if each.row.id in few} == dict(
            zip(("lrp", "occlusion"), certain, strict=True)
        ), more


def test_recommend_rows_skips_rows_without_verdict_or_known_cost(combined_board):
    assert recommend(combined_board, "mine", "sg-grad", "gb") is None, "the only row that explains has no known cost"
    assert recommend(combined_board) is None


def test_recommended_row_is_marked_if_lerf_order_gives_another_verdict(combined_board):
    lerf = {"lrp": (OPEN, "above 0"), "occlusion": (BELOW, "opposes it")}
    found = recommend(combined_board, "lrp", "deeplift", "occlusion", lerf=lerf)
    assert [each.lerf_text for each in found.front] == ["above 0 in LeRF order", "opposes it in LeRF order"]
    assert [each.lerf_text for each in recommend(combined_board, "lrp", lerf={"lrp": (BEATS, "")}).front] == [""]
    assert (found.own_network.removal_text, found.levels_text) == (
        "5 and 50 % removed, most important first",
        "ROAR gain: 90 % removed; own-network gain: 5 and 50 % removed",
    )


def test_suite_without_significant_gain_has_empty_front(combined_board):
    """A suite without verdicts has no advice at all."""
    found = recommend(combined_board, "sg-grad")
    assert (found.front, found.near) == ([], [])
    assert recommend(combined_board) is None


def make_suite(name, dataset, protocols, rows):
    blocks = tuple(Block(protocol, rows, (0.05, 0.5), 1) for protocol in protocols)
    return replace(SUITES["quick"], name=name, dataset=dataset, blocks=blocks)


def test_overview_states_basis_of_advice_and_suites_without_advice(tmp_path, monkeypatch):
    """One suite has both orders; the other leads with own-network gain alone, in which no row explains its network."""
    for name, dataset, protocols, rows in (
        ("both-orders", SUITES["quick"].dataset, (ROAR, OWN_NETWORK, OWN_NETWORK_LERF), ("random", "grad", "ig")),
        ("alone", "fashion-mnist", (OWN_NETWORK, OWN_NETWORK_LERF), ("random", "gb")),
    ):
        publish(monkeypatch, suite := make_suite(name, dataset, protocols, rows))
        make_store(tmp_path, suite, images=40)
    with open_views(tmp_path) as views:
        both, alone = views["both-orders-v8"], views["alone-v8"]
        assert alone.combined_board is None, "no ROAR"
        monkeypatch.setattr("leaderboard.suite_view.recommend_rows", recommend_grad_alone)
        overview = render(views, make_address("suites"))
        board = render(views, make_address("board", both.slug))
    start = overview.partition("Which verdicts hold elsewhere")[0]
    basis = "with the least important features removed first (LeRF order), or at one level, other rows can lead."
    assert basis in start and "with the most important features removed first;" in start
    assert "ROAR gain: 5 and 50 % removed; own-network gain: 5 and 50 % removed" in start
    assert "not shown in LeRF order" in start
    assert re.search("No row of .*alone v8.* is recommended: none is shown to explain its network", start)
    assert f"the mean over 5 and 50 % removed, most important first; {basis}" in board
    assert "not shown in LeRF order" in board


def recommend_grad_alone(own, roar=None, lerf=None):
    """Recommend rows as if only `grad` explained its network, and no row in LeRF order."""

    def judge(board, *names):
        kinds = {row.id: BEATS if row.id in names else OPEN for row in board.rows}
        rows = (replace(row, verdict_class=kinds[row.id], value=Estimate(3.0, 2.0, 4.0)) for row in board.rows)
        return replace(board, rows=tuple(rows))

    assert lerf.started_rows.keys() == own.started_rows.keys()
    return recommend_rows(judge(own, "grad"), roar, judge(lerf))


def render(views, address):
    """Return a page, with plain spaces before percent signs."""
    return render_page(Site(views, list_addresses(views)), address).html.replace("\N{NARROW NO-BREAK SPACE}%", " %")


def test_grey_pictures_of_clothes_are_images():
    kinds = {
        name: _find_kind_of_data(SimpleNamespace(results=SimpleNamespace(suite=find_builtin_suite(name))))
        for name in ("benchmark-fashion-mnist", "benchmark-imagenette64", "benchmark-digits", "planted")
    }
    assert [*kinds.values()] == ["Images", "Images", "Tables", "Known truth"]

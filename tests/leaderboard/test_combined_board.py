"""The first board of a suite with ROAR and own-network gain: rows, columns, verdicts, recommended estimators."""

import re
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import replace

import pytest

from leaderboard.advice import recommend_rows
from leaderboard.board_contents import BEATS, BELOW, CONTROL, OPEN, UNJUDGED
from leaderboard.combined_board import Answer, NamedRow, make_combined_board
from leaderboard.figures import make_scatter
from leaderboard.links import PageNotFound, Site, make_address
from leaderboard.page.estimator import describe_both_verdicts, write_verdict_sentence
from leaderboard.render import list_addresses, render_page
from roarbench.common.enums import Order, ScoredNetwork
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import KAR, MATCHED, OWN_NETWORK, OWN_NETWORK_LERF, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.stats.bootstrap_intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.store.annotations import AnnotationKind, insert_annotations
from roarbench.store.results import ResultsStore
from tests.helpers.board_store import make_store, open_views, results
from tests.helpers.command_line import publish
from tests.helpers.two_questions import make_table_of_both_gains

IMAGES = 60
SUITE = SUITES["quick"]
BOTH = (ROAR, OWN_NETWORK)
NOT_RETRAINED = {"occlusion", "ig", "ig(baseline=mean)", "gradcam", "sg-grad", "sgsq-grad", "var-grad"}


def make_suite(name, protocols, rows, levels, seeds=2):
    """Return a suite of the images and network of `quick`."""
    return replace(SUITE, name=name, blocks=tuple(Block(protocol, rows, levels, seeds) for protocol in protocols))


@contextmanager
def open_site(folder):
    with open_views(folder) as found:
        views = dict(found)
        yield views, Site(views, list_addresses(views))


def render(views, address=None):
    known = list_addresses(views)
    page = render_page(Site(views, known), address or known[0]).html
    return page.replace("\N{NARROW NO-BREAK SPACE}%", " %")


def cut(text, start, end):
    return text.partition(start)[2].partition(end)[0]


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    """`quick`, whose controls have equal masks for all networks, beside a suite with the headline matched gain."""
    folder = tmp_path_factory.mktemp("both")
    make_store(folder, SUITES["quick-matched"], images=IMAGES)
    url, same = make_store(folder, SUITE, images=IMAGES), b64encode(bytes(2 * IMAGES)).decode()
    controls = [
        made.run.key
        for point, made in results(SUITE, IMAGES).items()
        if point.cell.estimator in CONTROLS and point.cell.retrain is ScoredNetwork.SIBLINGS
    ]
    with ResultsStore.open(url) as store, store.database.begin_exclusive_write() as connection:
        insert_annotations(connection, {f"{AnnotationKind.MASKS} {key}": same for key in controls})
    with open_views(folder) as found:
        yield dict(found)


def test_suite_with_both_gains_comes_first_and_lists_every_row(views):
    assert list(views) == ["quick-v7", "quick-matched-v3"], "a suite of both, with more runs, was never begun"
    assert list_addresses(views)[0] == make_address("board", "quick-v7")
    paired = views["quick-v7"].combined_board
    assert [question.title for question in paired.questions] == ["ROAR gain", "Own-network gain"]
    roar, own = paired.questions
    ids = [row.id for row in paired.rows]
    assert sorted(ids) == sorted(views["quick-v7"].results.suite.estimators_with_own_row) and len(ids) == 13
    assert set(ids) - set(roar.answers) == NOT_RETRAINED and set(ids) == set(own.answers)
    for question, protocol in ((roar, ROAR), (own, OWN_NETWORK)):
        gains = {row.estimator: row.gain for row in views["quick-v7"].table(protocol).rows}
        shown = {name: answer.gain for name, answer in question.answers.items()}
        assert shown.pop("random").value == gains.pop("random").value == 0 and shown == gains
    assert ids[-3:] == sorted(CONTROLS, key=lambda name: -roar.answers[name].gain.value), "controls by ROAR gain"


def test_board_page_marks_cells_not_run_and_0_by_construction(views):
    page = render(views)
    table = cut(page, "<tbody", "</tbody>")
    assert table.count("not run") == len(NOT_RETRAINED)
    assert table.count("<b>0</b> <small>by construction</small>") == len(CONTROLS)
    assert set(re.findall(r'data-sort="([^"]+)"', page)) == {"name", "roar", "own-network"}
    assert len(re.findall(r'data-own-network="-?[0-9.e-]+"', table)) == 13
    assert len(re.findall(r'data-roar="-?[0-9.e-]+"', table)) == 6
    key = cut(page, 'class="find"', "</form>")
    assert "0 by construction" in key and "Random" in key and "every control" not in key
    assert views["quick-v7"].combined_board.headline in page
    alone = render(views, make_address("board", "quick-v7", protocol="own-network"))
    assert alone.count("<b>0</b> <small>by construction</small>") == len(CONTROLS)
    assert "every control" not in alone and "0 by construction" in alone
    assert "of 10 estimators is shown to explain" in alone


def test_first_page_and_suites_page_recommend_estimator(views, monkeypatch, combined_board):
    for page in ("board", "overview"):
        monkeypatch.setattr(f"leaderboard.page.{page}.recommend_rows", lambda _: recommend_rows(combined_board))
    first = cut(render(views), "Which one should I use?", "</details>")
    answer, why = re.sub("<[^>]+>", "", first.replace("</summary>", "|")).strip().split("|")
    assert answer == "Integrated Gradients from black (50 passes, +1.0 [+0.5, +1.5])" and answer in why
    said = "Of the estimators that explain their network, none with as few passes per image has a higher"
    assert why.startswith(said)
    assert "Which one should I use?" not in render(views, make_address("board", "quick-v7", protocol="own-network"))
    suites = cut(render(views, make_address("suites")), "Which estimator should I use?", "</table>")
    assert "+1.0 [+0.5, +1.5]" in suites and "<td>not run</td>" in suites
    assert "50 passes of an image" in render(views, make_address("estimator", estimator="ig"))


def test_combined_board_answers_match_expected_verdicts(combined_board):
    roar, own = combined_board.questions
    assert {name: (answer.colour_class, answer.verdict_text) for name, answer in roar.answers.items()} == {
        "random": (CONTROL, "control"),
        "sobel": (CONTROL, "no significant difference"),
        "random-blurred": (CONTROL, "better than Random"),
        "grad": (BELOW, "worse than Random"),
        "gb": (UNJUDGED, "no verdict"),
    }
    colours = {name: answer.colour_class for name, answer in own.answers.items() if name not in CONTROLS}
    assert colours == {"gb": BELOW, "grad": OPEN, "ig": BEATS}
    assert all(own.answers[name].verdict_text == OwnNetworkVerdict.BY_CONSTRUCTION for name in CONTROLS)
    assert roar.answers["random"].gain == (0.0, None, None), "Random beside itself has no interval"
    assert own.colour_legend == [
        ("beats", "explains its network"),
        ("open", "not shown"),
        ("below", "opposes it"),
        ("control", "0 by construction"),
    ]


def test_matched_gain_is_third_column_and_counts_random_as_0(views):
    """A row is compared with 0, although the board lists the gain that Random was measured to have."""
    matched = views["quick-matched-v3"]
    paired = make_combined_board(make_table_of_both_gains(), matched.board)
    third = paired.questions[2]
    assert (third.protocol, third.title) == (MATCHED, "Matched gain")
    assert {name: answer.gain for name, answer in third.answers.items()} == {
        row.id: row.value for row in matched.board.rows
    }
    assert {*third.answers, "gb"} <= {row.id for row in paired.rows}
    row = matched.board.rows_by_id["grad"]
    assert matched.board.rows_by_id["random"].value.value != 0.0
    assert row.beating.against["random"].difference == row.value
    for view, says in ((views["quick-v7"], False), (matched, True)):
        page = render({view.slug: view}, make_address("estimator", estimator="grad"))
        compared = render({view.slug: view}, make_address("compare", view.slug))
        assert [("counts as 0, its value by construction" in text) for text in (page, compared)] == [says] * 2


def test_scatter_draws_rows_with_both_gains_and_counts_others(combined_board):
    """Dots are at their gains, and no name covers another name."""
    found = make_scatter(combined_board)
    assert found.missing == "2 rows with only one of the two gains are not drawn."
    assert found.x_label == "ROAR gain at 90 %"
    drawn = {dot.name: dot for dot in found.dots}
    assert drawn.keys() == {"Random", "Sobel edges", "Blurred random", "Gradient"}
    assert [drawn[name].control for name in ("Random", "Gradient")] == [True, False]
    assert (drawn["Gradient"].roar, drawn["Gradient"].own) == ((-4.5, -5.7, -3.2), (3.1, -0.1, 6.3))
    assert found.to_x(-4.5) < found.to_x(0.0) < found.to_x(10.7) and found.to_y(3.1) < found.to_y(0.0)
    assert "Gradient −4.5 [−5.7, −3.2] and +3.1 [−0.1, +6.3]" in found.description.replace("-", "−")
    labels = [(*dot.label, len(dot.name)) for dot in found.dots]
    for number, (left, top, letters) in enumerate(labels):
        for x, y, more in labels[:number]:
            assert abs(y - top) > 10 or x > left + 5 * letters or left > x + 5 * more
    roar, own = combined_board.questions
    assert make_scatter(replace(combined_board, questions=(replace(roar, answers={}), own))) is None


def test_overview_comes_first_if_several_suites_have_both_gains(tmp_path, monkeypatch):
    """The overview shows the larger of two suites on the same images and network."""
    few, many = ("random", "grad"), ("random", "grad", "ig")
    for name, rows in {"small": few, "large": many}.items():
        publish(monkeypatch, suite := make_suite(name, BOTH, rows, (0.9,)))
        make_store(tmp_path, suite, images=40)
    with open_site(tmp_path) as (views, site):
        overview = render_page(site, site.known[0])
    assert len(views) == 2 and site.known[0] == make_address("suites")
    assert overview.title == "Overview" and 'class="brand" href="suites.html"' in overview.html
    columns = cut(overview.html, 'class="matrix"', "</thead>")
    assert "large v7" in columns and "small v7" not in columns


def test_own_network_gain_without_runs_has_no_column_and_no_estimator_pages(tmp_path):
    """All other pages exist."""
    make_store(tmp_path, SUITE, lambda point: point.cell.retrain is ScoredNetwork.IMAGES, images=20)
    with open_site(tmp_path) as (_, site):
        pages = {at: render_page(site, at).html for at in site.known}
        with pytest.raises(PageNotFound, match=r"There is no estimator 'gradcam' here\."):
            render_page(site, make_address("estimator", estimator="gradcam"))
    rows = {at.get_choice("estimator") for at in pages if at.page == "estimator"}
    assert rows == {*SUITE.estimators_with_own_row} - NOT_RETRAINED
    first = pages[make_address("board", "quick-v7")]
    assert set(re.findall(r'data-sort="([^"]+)"', first)) == {"name", "roar"}
    assert "<b>ROAR gain</b><span" in first and "<b>Own-network gain (" not in first
    assert '<p class="facts">ROAR gain · ' in first


def test_board_of_partly_run_protocol_names_its_levels(tmp_path, monkeypatch):
    """ROAR was run at one of two levels and lacks a row; KAR was not run."""
    publish(monkeypatch, suite := make_suite("part", (*BOTH, KAR), ("random", "grad", "ig"), (0.5, 0.9)))

    def keep(point):
        cell = point.cell
        retrained = cell.retrain is ScoredNetwork.IMAGES and cell.estimator != CLEAN
        return not retrained or (cell.order is Order.MORF and cell.t == 0.9 and cell.estimator != "ig")

    make_store(tmp_path, suite, keep, images=40)
    with open_site(tmp_path) as (views, site):
        pages = [render_page(site, at).html for at in site.known if at.page in ("board", "estimator")]
        claims = render_page(site, make_address("claims")).html
        paired, other = views["part-v7"].combined_board, site.known[1:3]
    assert [each.get_choice("protocol") for each in other] == ["roar", "own-network"], "no board of KAR"
    assert [question.title for question in paired.questions] == ["ROAR gain at 90 %", "Own-network gain"]
    assert set(paired.questions[0].answers) == {"random", "grad"}, "ig was not run"
    assert paired.questions[0].answers["grad"].gain.value is not None
    assert "under ROAR at 90 % " in paired.headline and " of 1 " in paired.headline
    first, roar, *_ = pages
    assert "ROAR gain at 90 %</button>" in first and ">ROAR at 90 %</a>" in first
    assert "levels 0.9, without 0.5 of the suite" in roar and "<small>ROAR at 90 %</small>" in claims
    said = "ROAR gain (90\N{NARROW NO-BREAK SPACE}% removed, most important first): not run"
    assert any(said in page for page in pages), "the page of ig"


def test_estimator_page_describes_verdicts_of_both_gains(views, combined_board):
    assert describe_both_verdicts(combined_board, "grad") == (
        "ROAR gain (90 % removed, most important first): worse than Random, -4.5 [-5.7, -3.2] points. "
        "Own-network gain (5 and 50 % removed, most important first): not shown, +3.1 [-0.1, +6.3] points (made-up v1)."
    )
    said = describe_both_verdicts(combined_board, "ig")
    assert said.startswith("ROAR gain (90 % removed, most important first): not run. Own-network gain (")
    assert "): 0 by construction (made-up v1)." in describe_both_verdicts(combined_board, "sobel")
    assert "most important first): not run." in render(views, make_address("estimator", estimator="gradcam"))
    board = views["quick-v7"].get_board(OWN_NETWORK)
    sentence = write_verdict_sentence(board, board.rows_by_id["random"])
    assert sentence.startswith("Its own-network gain is 0 by construction")


def test_claims_page_covers_both_gains(views):
    page = render(views, make_address("claims"))
    assert page.count("quick v7 <small>ROAR</small>") == page.count("quick v7 <small>own-network gain</small>") == 1
    assert page.count('<span class="none">cannot say</span>') == 2
    assert "Tested: sgsq-grad, var-grad only. " in page


def test_cite_and_submit_pages_show_both_boards(views):
    site = Site(views, list_addresses(views))
    page = render_page(site, make_address("cite", "quick-v7")).html
    files = ["board-quick-v7.svg", "board-quick-v7-own-network.svg"]
    assert [f'src="{file}"' in page for file in files] == [True, True] and {*files} <= site.files.keys()
    assert site.files[files[1]].decode().count("0 by construction") == len(CONTROLS)
    assert "ROAR, table " in page and "Own-network gain, table " in page
    assert "Grad-CAM: Visual Explanations" in page, "papers of rows that ROAR was not run for"
    assert render_page(site, make_address("submit")).html.count("A row of quick v7: ") == 2


ADVISED = {  # passes, own-network gain with its interval
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


@pytest.fixture
def combined_board():
    """A board with handwritten gains under both protocols."""
    return make_combined_board(make_table_of_both_gains())


def recommend(board, *names, added=(), lerf=()):
    """Recommend among these rows of `ADVISED`, which replace those of the board; `lerf` has kinds in LeRF order."""
    roar, own = board.questions
    answers = {name: Answer(Estimate(*ADVISED[name][1]), ADVISED[name][2], "") for name in names}
    rows = tuple(NamedRow(name, name, "", "", False, ADVISED[name][0], name in added) for name in names)
    others = {name: Answer(Estimate(1.0), kind, "") for name, kind in dict(lerf).items()}
    questions = roar, replace(own, answers=answers)
    return recommend_rows(replace(board, rows=rows, questions=questions, lerf_answers=others))


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
    found = recommend(combined_board, "sg-grad")
    assert (found.front, found.near) == ([], []), "a suite without a significant gain"


def test_recommended_row_is_marked_if_lerf_order_gives_another_verdict(combined_board):
    found = recommend(combined_board, "lrp", "deeplift", "occlusion", lerf={"lrp": OPEN, "occlusion": BELOW})
    assert [each.lerf_text for each in found.front] == ["not shown in LeRF order", "opposes it in LeRF order"]
    assert [each.lerf_text for each in recommend(combined_board, "lrp", lerf={"lrp": BEATS}).front] == [""]
    assert (found.removal_text, found.levels_text) == (
        "5 and 50 % removed, most important first",
        "ROAR gain: 90 % removed; own-network gain: 5 and 50 % removed",
    )


def test_overview_states_basis_of_advice_and_suites_without_advice(tmp_path, monkeypatch):
    """One suite has both orders; the other leads with own-network gain alone, in which no row explains its network."""
    for name, dataset, protocols, rows in (
        ("both-orders", SUITES["quick"].dataset, (ROAR, OWN_NETWORK, OWN_NETWORK_LERF), ("random", "grad", "ig")),
        ("alone", "fashion-mnist", (OWN_NETWORK, OWN_NETWORK_LERF), ("random", "gb")),
    ):
        publish(monkeypatch, suite := replace(make_suite(name, protocols, rows, (0.05, 0.5), 1), dataset=dataset))
        make_store(tmp_path, suite, images=40)
    with open_views(tmp_path) as views:
        both, alone = views["both-orders-v7"], views["alone-v7"]
        assert both.combined_board.lerf_answers.keys() == {"random", "grad", "ig"}
        assert alone.combined_board is None and {"random", "gb"} <= alone.board_for_advice.questions[1].answers.keys()
        assert not alone.board_for_advice.answered_questions[1:], "no ROAR"
        assert alone.board_for_advice.lerf_answers.keys() == {"random", "gb"}
        advice = recommend_rows(make_board_that_explains(both.combined_board, "grad"))
        page = "leaderboard.page.overview.recommend_rows"
        monkeypatch.setattr(page, lambda board: advice if board.slug == both.slug else none)
        none = recommend_rows(make_board_that_explains(alone.board_for_advice))
        overview = render(views, make_address("suites"))
        monkeypatch.setattr("leaderboard.page.board.recommend_rows", lambda _: advice)
        board = render(views, make_address("board", both.slug))
    start = overview.partition("Which verdicts hold elsewhere")[0]
    basis = "with the least important features removed first (LeRF order), or at one level, other rows can lead."
    assert basis in start and "with the most important features removed first;" in start
    assert "ROAR gain: 5 and 50 % removed; own-network gain: 5 and 50 % removed" in start
    assert "not shown in LeRF order" in start
    assert re.search("No row of .*alone v7.* is recommended: none is shown to explain its network", start)
    assert f"the mean over 5 and 50 % removed, most important first; {basis}" in board
    assert "not shown in LeRF order" in board


def make_board_that_explains(board, *names):
    """Return the board with the verdict that only these rows explain their network, and none in LeRF order."""
    roar, own, *_ = board.questions
    kinds = {name: BEATS if name in names else OPEN for name in own.answers}
    answers = {name: Answer(Estimate(3.0, 2.0, 4.0), kind, "") for name, kind in kinds.items()}
    lerf = {name: Answer(Estimate(1.0), OPEN, "") for name in board.lerf_answers}
    return replace(board, questions=(roar, replace(own, answers=answers)), lerf_answers=lerf)

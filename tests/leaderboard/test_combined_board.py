"""The first board of a suite with ROAR and own-network gain: rows, columns, verdicts, recommended estimators."""

import re
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from leaderboard import build_board_contents
from leaderboard.board_contents import BEATS, BELOW, CONTROL, OPEN, UNJUDGED, make_linear_axis
from leaderboard.build_board_contents import make_combined_board, recommend_rows
from leaderboard.links import PageNotFound, Site, make_address
from leaderboard.page import estimator
from leaderboard.page.estimator import list_passes
from leaderboard.render import list_addresses, render_live_page, render_page
from leaderboard.suite_view import SuiteView
from roarbench.analysis.suite_judges import compare_rows, judge_suite
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import KAR, MATCHED, OWN_NETWORK, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITE_VERSIONS, SUITES
from roarbench.report.descriptions_and_repeat_commands import make_repeat_command
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict
from roarbench.store.annotations_and_scores import AnnotationKind, insert_annotations
from roarbench.store.results import ResultsStore
from tests.helpers.board_store import export_pages, make_store, open_views, results
from tests.helpers.command_line import publish
from tests.helpers.made_up_results import make_table_of_both_gains

IMAGES = 60
SUITE = SUITES["quick"]
BOTH = (ROAR, OWN_NETWORK)
SEARCHES = {"search(passes=2)", "search(passes=65)"}
NOT_RETRAINED = {"occlusion", "ig", "ig(baseline=mean)", "gradcam", "sg-grad", "input-x-grad", "gb-sq", *SEARCHES}


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
    return render_page(Site(views, known), address or known[0]).html


def cut(text, start, end):
    return text.partition(start)[2].partition(end)[0]


def recommend(board):
    """Recommend rows of a board of all gains."""
    roar, own = board.boards
    return recommend_rows(own, roar)


@pytest.fixture
def combined_board():
    """A board with handwritten gains under both protocols."""
    return make_combined_board(make_table_of_both_gains())


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


def test_board_of_one_row_without_roar_states_images_and_explains_only_its_symbols(tmp_path):
    """Only `grad` was run, under own-network gain; other rows have neither a result nor a symbol."""

    def is_run(point):
        return point.cell.retrain is ScoredNetwork.SIBLINGS and point.cell.estimator in (CLEAN, "grad")

    make_store(tmp_path, SUITE, is_run, images=IMAGES)
    with open_views(tmp_path) as found:
        view = found["quick-v8"]
        agreeing = view.table(OWN_NETWORK).board.images
        page, table = render(found), view.table(ROAR)
    assert 0 < agreeing <= IMAGES and f" · {agreeing} test images · 1 estimator · " in page
    assert "not shown to explain it" in page and "no verdict" not in cut(page, "<form", "</form>")
    assert "untouched images (t=0)" not in table.caption, "no network was trained"


def test_suite_with_both_gains_comes_first_and_lists_every_row(views):
    assert list(views) == ["quick-v8", "quick-matched-v3"], "a suite of both, with more runs, was never begun"
    assert list_addresses(views)[0] == make_address("board", "quick-v8")
    app = Site(views, list_addresses(views), live=True)
    assert 'class="brand" href="?page=board&amp;suite=quick-v8"' in render_page(app, make_address("suites")).html
    paired = views["quick-v8"].combined_board
    assert [board.gain_with_levels for board in paired.boards] == ["ROAR gain", "own-network gain"]
    roar, own = paired.boards
    ids = [row.id for row in paired.rows]
    assert sorted(ids) == sorted(views["quick-v8"].results.suite.estimators_with_own_row) and len(ids) == 15
    assert set(ids) - set(roar.started_rows) == NOT_RETRAINED and set(ids) == set(own.started_rows)
    for board, protocol in ((roar, ROAR), (own, OWN_NETWORK)):
        gains = {row.estimator: row.gain for row in views["quick-v8"].table(protocol).rows}
        shown = {name: row.value for name, row in board.started_rows.items()}
        assert shown.pop("random").value == gains.pop("random").value == 0 and shown == gains
    by_roar = sorted(CONTROLS, key=lambda name: -roar.rows_by_id[name].value.value)
    assert [name for name in ids if name in CONTROLS] == by_roar and {*ids[-5:]} == {*CONTROLS, *SEARCHES}


def test_board_page_marks_cells_not_run_and_0_by_construction(views):
    page = render(views)
    table = cut(page, "<tbody", "</tbody>")
    assert table.count("not run") == len(NOT_RETRAINED)
    assert table.count("<b>0</b> <small>by construction</small>") == len(CONTROLS)
    assert set(re.findall(r'data-sort="([^"]+)"', page)) == {"name", "roar", "own-network"}
    assert len(re.findall(r'data-own-network="-?[0-9.e-]+"', table)) == 15
    assert len(re.findall(r'data-roar="-?[0-9.e-]+"', table)) == 6
    key = cut(page, 'class="find"', "</form>")
    assert "0 by construction" in key and "Random" in key and "every control" not in key
    assert views["quick-v8"].combined_board.headline in page
    alone = render(views, make_address("board", "quick-v8", protocol="own-network"))
    by_level = {words for shown in (table, alone) for words in re.findall(r">([^<]*\sat\s.05, [^<]*\sat\s.5)<", shown)}
    assert by_level and len(re.findall(r"\sat\s.05, ", alone)) == len(re.findall(r"\sat\s.05, ", table))
    assert alone.count("<b>0</b> <small>by construction</small>") == len(CONTROLS)
    assert "every control" not in alone and "0 by construction" in alone
    assert "of 10 estimators is shown to explain" in alone


def test_row_cost_is_counted_in_passes_per_image(combined_board):
    rows = {row.id: row.passes for row in combined_board.rows}
    assert rows == {"ig": 50, "grad": 2, "gb": 2, "random": 0, "sobel": 0, "random-blurred": 0}
    assert [(each.row.id, each.row.value.value) for each in recommend(combined_board).front] == [("ig", 1.0)]


def test_first_page_and_suites_page_recommend_estimator(views, monkeypatch, combined_board):
    monkeypatch.setattr(SuiteView, "advice", recommend(combined_board))
    first = cut(render(views), "Which one should I use?", "</details>")
    answer, why = re.sub("<[^>]+>", "", first.replace("</summary>", "|")).strip().split("|")
    assert answer == "Integrated Gradients from black (50 passes, +1.0 [+0.5, +1.5])" and answer in why
    said = "Of the estimators that explain their network, none with as few passes per image has a higher"
    assert why.startswith(said)
    assert "Which one should I use?" not in render(views, make_address("board", "quick-v8", protocol="own-network"))
    suites = cut(render(views, make_address("suites")), "Which estimator should I use?", "</table>")
    assert "+1.0 [+0.5, +1.5]" in suites and ">not run</td>" in suites
    assert "50 passes of an image" in render(views, make_address("estimator", estimator="ig"))


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ([(63.0, 1.0), (1.0, 0.0)], "1 to 64 passes of an image, forward and back, depending on the suite"),
        ([(1.0, 1.0), None, (2.0, 0.0)], "2 passes of an image, forward and back ·"),
        ([None], "passes of an image: unknown"),
    ],
)
def test_estimator_page_states_passes_in_all_suites(views, monkeypatch, counts, text):
    suites = [SimpleNamespace(find_passes=lambda name, found=found: found) for found in counts]
    monkeypatch.setattr(estimator, "list_passes", lambda _, name: list_passes(suites, name))
    assert text in render(views, make_address("estimator", estimator="grad"))


def test_combined_board_answers_match_expected_verdicts(combined_board):
    roar, own = combined_board.boards
    assert {name: (row.colour_class, row.verdict_text) for name, row in roar.started_rows.items()} == {
        "random": (CONTROL, "control"),
        "sobel": (CONTROL, "no significant difference"),
        "random-blurred": (CONTROL, "better than Random"),
        "grad": (BELOW, "worse than Random"),
        "gb": (UNJUDGED, "no verdict"),
    }
    sobel = roar.rows_by_id["sobel"]
    assert (sobel.gain_sign, [doubt.sentence for doubt in sobel.gain_doubts]) == ("(!!)", ["Its mask alone has it."])
    assert {row.gain_sign for row in own.rows} == {""}, "the doubt is about ROAR's gain"
    colours = {row.id: row.colour_class for row in own.rows if row.id not in CONTROLS}
    assert colours == {"gb": BELOW, "grad": OPEN, "ig": BEATS}
    assert all(own.rows_by_id[name].verdict_text == OwnNetworkVerdict.BY_CONSTRUCTION for name in CONTROLS)
    assert roar.rows_by_id["random"].value == (0.0, None, None), "Random beside itself has no interval"
    assert own.colour_legend == [
        ("beats", "explains its network"),
        ("open", "not shown to explain it"),
        ("below", "opposes it"),
        ("control", "control, or 0 by construction"),
    ]


def test_matched_gain_is_third_column_of_suite_that_has_matched_gain(views):
    board = views["quick-matched-v3"].board
    paired = make_combined_board(make_table_of_both_gains(), board)
    third = paired.boards[2]
    assert (third.protocol, third.gain_with_levels) == (MATCHED, "matched gain")
    assert {row.id: row.value for row in third.rows} == {row.id: row.value for row in board.rows}
    assert {*third.rows_by_id, "gb"} <= {row.id for row in paired.rows}


def test_pages_say_that_random_counts_as_0_where_rows_are_compared_with_0(views):
    """Under matched gain a row is compared with 0, and its board lists the gain that Random was measured to have."""
    quick, matched = views["quick-v8"], views["quick-matched-v3"]
    row = matched.board.rows_by_id["grad"]
    assert matched.board.rows_by_id["random"].value.value != 0.0
    assert row.beating.against["random"].difference == row.value
    words = "Random’s counts as 0, its value by construction"
    for view, says in ((quick, False), (matched, True)):
        page = render({view.slug: view}, make_address("estimator", estimator="grad"))
        assert "its gain minus each control’s" in page and (words in page) == says
        assert ("Matched gain · points" in page) == says and "Own-network gain · own-network gain" not in page
        compared = render({view.slug: view}, make_address("compare", view.slug))
        pair = render({view.slug: view}, make_address("compare", view.slug, first="grad", second="random"))
        assert (", with 0, its value by construction, as Random’s gain: " in pair) == says
        assert (words in compared) == says
        assert ("each row’s own retrained networks" in compared) != says


def test_first_page_and_suites_page_show_matched_gain_column(tmp_path, monkeypatch):
    """The column appears if the suite itself has matched gain, and other rows are marked as not run."""
    levels = (0.5, 0.9)
    three = make_suite("three", BOTH, ("random", "grad"), levels, seeds=1)
    three = replace(three, blocks=(*three.blocks, Block(MATCHED, ("random",), levels, seeds=1)))
    publish(monkeypatch, three)
    make_store(tmp_path, three, images=20)
    monkeypatch.setattr(build_board_contents, "make_gain_axis", lambda _: make_linear_axis([-5.0, 20.0]))
    with open_site(tmp_path) as (views, site):
        (view,) = views.values()
        titles = [board.gain_with_levels for board in view.combined_board.boards]
        page = render_page(site, site.known[0]).html
        suites = render_page(site, make_address("suites")).html
    ticks = [re.findall("<i [^>]*>([^<]*)</i>", axis) for axis in re.findall('<div class="ax" .*?</div>', page)]
    assert ticks == [["0", "+20"]] * 3, "the label −5 would touch 0 and read as −50"
    heads = re.findall(r'data-sort="([a-z-]+)"', page)
    assert titles == ["ROAR gain", "own-network gain", "matched gain"]
    assert heads == ["name", "roar", "own-network", "matched"] and page.count('<span class="none">not run') == 1
    assert "Matched gain" in suites


def test_overview_comes_first_if_several_suites_have_both_gains(tmp_path, monkeypatch):
    """The overview shows the larger of two suites on the same images and network; no page links to its own name."""
    few, many = ("random", "grad"), ("random", "grad", "ig", "grad-sq")
    for name, rows in {"small": few, "large": many}.items():
        publish(monkeypatch, suite := make_suite(name, BOTH, rows, (0.9,)))
        make_store(tmp_path, suite, images=40)
    with open_site(tmp_path) as (views, site):
        overview = render_page(site, site.known[0])
        export_pages(views, tmp_path / "site")
    linked = "".join(page.read_text("utf-8") for page in (tmp_path / "site").glob("*.html"))
    assert 'href="suites.html"' not in linked and not (tmp_path / "site" / "suites.html").exists()
    assert len(views) == 2 and site.known[0] == make_address("suites") and site.get_link(site.known[0]) == "index.html"
    assert overview.title == "Overview" and 'class="brand" href="index.html"' in overview.html
    columns = cut(overview.html, 'class="matrix"', "</thead>")
    assert "large v8" in columns and "small v8" not in columns
    assert '">Gradient <small>squared</small></a></th>' in overview.html, "a link beside plain text needs a line"


def test_own_network_gain_without_runs_has_no_column_and_no_estimator_pages(tmp_path):
    """All other pages exist."""
    make_store(tmp_path, SUITE, lambda point: point.cell.retrain is ScoredNetwork.IMAGES, images=20)
    with open_site(tmp_path) as (_, site):
        pages = {at: render_page(site, at).html for at in site.known}
        with pytest.raises(PageNotFound, match=r"There is no estimator 'gradcam' here\."):
            render_page(site, make_address("estimator", estimator="gradcam"))
    rows = {at.get_choice("estimator") for at in pages if at.page == "estimator"}
    assert rows == {*SUITE.estimators_with_own_row} - NOT_RETRAINED
    first = pages[make_address("board", "quick-v8")]
    assert set(re.findall(r'data-sort="([^"]+)"', first)) == {"name", "roar"}
    assert "<b>ROAR gain</b><span" in first and "<b>Own-network gain (" not in first
    assert '<p class="facts">ROAR gain · ' in first and "predictions change after removal" not in first


def test_boards_of_partly_run_protocols_name_their_levels_and_rows_not_run(tmp_path, monkeypatch):
    """ROAR and matched gain were run at one of two levels and lack a row; KAR was not run."""
    publish(monkeypatch, suite := make_suite("part", (*BOTH, MATCHED, KAR), ("random", "grad", "ig"), (0.5, 0.9)))

    def keep(point):
        cell = point.cell
        if cell.estimator == CLEAN or cell.retrain not in (ROAR.retrain, MATCHED.retrain):
            return True
        return cell.order is Order.MORF and cell.t == 0.9 and not cell.estimator.startswith("ig")

    make_store(tmp_path, suite, keep, images=40)
    with open_site(tmp_path) as (views, site):
        pages = [render_page(site, at).html for at in site.known if at.page in ("board", "estimator")]
        claims = render_page(site, make_address("claims")).html
        paired = views["part-v8"].combined_board
        boards = {at.get_choice("protocol") for at in site.known if at.page == "board"}
    assert boards == {"", "roar", "own-network", "matched"}, "no board of KAR"
    titles = [board.gain_with_levels for board in paired.boards]
    assert titles == ["ROAR gain at 90 %", "own-network gain", "matched gain at 90 %"]
    assert all(set(paired.boards[at].started_rows) == {"random", "grad"} for at in (0, 2)), "ig was not run"
    assert paired.boards[0].rows_by_id["grad"].value.value is not None
    assert "under ROAR at 90 % " in paired.headline and " of 1 " in paired.headline
    first, roar, *_ = pages
    assert first.count('<span class="none">not run') == 2
    assert "ROAR gain at 90 %</button>" in first and ">ROAR at 90 %</a>" in first
    assert "Matched gain at 90 %</button>" in first
    assert "levels 0.9, without 0.5 of the suite" in roar and "<small>ROAR at 90 %</small>" in claims
    assert re.search(r"Unfinished, so findings may change: part v8: ROAR: \d+ of \d+ runs are missing\.", claims)
    assert ", unfinished</span>" in claims
    assert any("<small>not run</small>" in page for page in pages), "the page of ig"


def test_key_leaves_out_a_gain_without_marks(tmp_path):
    """One row without Random has no ROAR gain, and its own-network gain is not significant."""
    make_store(tmp_path, SUITE, lambda point: point.cell.estimator in ("grad", CLEAN), images=IMAGES)
    with open_views(tmp_path) as views:
        key = cut(render(views), '<form class="find"', "</form>")
    assert re.findall("<b>(.*?)</b>", key) == ["Own-network gain (MoRF)"]


def test_claims_page_tests_claims_about_roar_on_roar_alone(views):
    page = render(views, make_address("claims"))
    assert page.count("quick v8 <small>ROAR</small>") == 1 and "<small>own-network gain" not in page
    assert "Tested: sgsq-grad, var-grad only. " in page and "nfinished" not in page


def test_compare_page_compares_two_estimators_by_own_network_gain(views):
    """The suite's first measure is ROAR, for which gradcam was not run."""
    view, site = views["quick-v8"], Site(views, list_addresses(views))
    asked = {"suite": "quick-v8", "first": "gradcam", "second": "grad"}
    page = render_page(site, make_address("compare", protocol="own-network", **asked)).html
    pair = compare_rows(judge_suite(view.results), OWN_NETWORK, Unit.SCALAR, "gradcam", "grad")
    names = ("Grad-CAM", "Gradient") if pair.comparison.verdict is Verdict.BETTER else ("Gradient", "Grad-CAM")
    same = pair.comparison.verdict is Verdict.SAME
    verdict = str(Verdict.SAME) if same else " has a larger gain than ".join(names)
    assert re.search(rf"Difference in own-network gain: .* points: {verdict} \(p = ", page)
    assert page.count('class="pair"') == 1 and "Own-network gain</a>" in page
    with pytest.raises(PageNotFound, match="no row 'gradcam' with ROAR gain over Random in quick v8"):
        render_page(site, make_address("compare", **asked))
    with pytest.raises(PageNotFound, match="no protocol 'kar'"):
        render_page(site, make_address("compare", protocol="kar", **asked))
    exported = [at for at in site.known if at.page == "compare" and at.suite == "quick-v8"]
    assert [at.get_choice("protocol") for at in exported] == ["", "own-network"]
    first = render_page(site, exported[0]).html
    assert (
        f'<a href="{site.get_link(exported[1])}">Own-network gain</a>' in first and "Difference in ROAR gain" in first
    )


def test_repeat_command_names_version_of_older_suite(views):
    newest = views["quick-v8"].results
    older = replace(newest, suite=SUITE_VERSIONS["quick", 6])
    assert "--suite quick --estimators" in make_repeat_command(newest, "grad")
    assert "--suite quick@6 --estimators" in make_repeat_command(older, "grad")


def test_first_page_of_app_computes_neither_ranks_nor_downloads(views, monkeypatch):
    """A visitor waits for the first page; ranks, which it lacks, took as long as everything else of its boards."""
    shown = views["quick-v8"]
    view = SuiteView(shown.results, shown.folder, store=shown.store)
    for name in ("roarbench.stats.compute_board.Judge.find_rank", "leaderboard.page.board.present_suite_table"):
        monkeypatch.setattr(name, lambda *_: pytest.fail("was computed"))
    page = render_live_page({view.slug: view}, {"fbclid": "added by another site"})
    assert '<table class="board both"' in page.html and {*page.files} == {"quick-v8.csv", "quick-v8.json"}


def test_cite_page_shows_both_boards(views):
    site = Site(views, list_addresses(views))
    page = render_page(site, make_address("cite", "quick-v8")).html
    files = ["board-quick-v8.svg", "board-quick-v8-own-network.svg"]
    assert [f'src="{file}"' in page for file in files] == [True, True] and {*files} <= site.files.keys()
    assert site.files[files[1]]().decode().count("0 by construction") == len(CONTROLS)
    assert "ROAR, table " in page and "Own-network gain, table " in page
    assert {*re.findall('alt="quick v8: (.+?)"', page)} == {"ROAR", "Own-network gain"}
    assert "Grad-CAM: Visual Explanations" in page, "papers of rows that ROAR was not run for"

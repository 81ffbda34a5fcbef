"""A suite that specific gain leads: its words, curves, comparisons and entries, beside ROAR's."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from leaderboard import charts, pages
from leaderboard.compare import compare_pair
from leaderboard.curves import curve_boards, curve_tables
from leaderboard.snapshot import SuiteView, read_views
from leaderboard.static import export
from leaderboard.static_pages import curves_page
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.plan.points import Point
from roarbench.plan.suites import VERSIONS, with_entries
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.roar import KAR, ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.stats.bootstrap import Estimate
from roarbench.store.results import ResultsStore
from roarbench.terms import Retrain, Unit
from tests.helpers.board_store import make_store
from tests.helpers.html_tables import HtmlTables

MINE = "mine@1a2b3c4d"
SUITE = with_entries(VERSIONS["quick", 2], [MINE])


def entered(point: Point) -> bool:
    """A submission was run under the leading protocol alone."""
    return not point.cell.estimator.startswith(MINE) or point.cell.retrain is Retrain.COMMON


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("leading")
    make_store(made, SUITE, entered, images=100)
    return made


@pytest.fixture(scope="module")
def view(folder: Path) -> Iterator[SuiteView]:
    with ResultsStore.open(f"sqlite:///{folder}/results.sqlite", read_only=True) as store:
        (found,) = read_views(store, folder)
        yield found


@pytest.fixture(scope="module")
def site(view: SuiteView, folder: Path) -> Path:
    with ResultsStore.open(f"sqlite:///{folder}/results.sqlite", read_only=True) as store:
        export([view], store, folder / "site")
    return folder / "site"


def test_the_first_board_is_that_of_the_leading_protocol(view: SuiteView) -> None:
    assert view.table.protocol == "specific"
    assert [table.protocol for table in view.leading] == ["specific", "roar"]
    assert view.roar_caption.startswith("ROAR on imagenette64")


def test_a_gain_is_called_what_it_is(view: SuiteView) -> None:
    specific, roar = view.leading
    assert pages.legend(specific) == "Specific gain in accuracy points, with its interval."
    assert pages.legend(roar).startswith("Gain over Random in accuracy points, with its interval. (!)")
    assert pages.bar_lines(specific).startswith("the line at 0 is a map that ignores the image, such as Random's, ")
    assert pages.bar_lines(roar).startswith("the line at 0 is Random, ")
    titles = {"specific": "specific gain, points", "roar": "gain over Random, points"}
    for table in (specific, roar):
        drawn = charts.gain_chart(table).to_dict()
        assert {layer["encoding"]["x"].get("title") for layer in drawn["layer"]} - {None} == {titles[table.protocol]}


def test_curves_of_gains_come_first(view: SuiteView) -> None:
    found = curve_tables(view.suite_results, view.curve_boards, ["grad"])
    assert [table.protocol for table in found] == ["specific", "augmented", "roar", "morf"]
    assert [table.quantity for table in found[:3]] == [
        "specific gain, points",
        "gain over Random, points",
        "test accuracy",
    ]
    for table, protocol in zip(found, (SPECIFIC, AUGMENTED), strict=False):
        board = view.evidence.board(protocol, Unit.SCALAR, ["grad"])
        assert board is not None
        gains = dict(zip(board.levels, board.gains(board.rows[0]), strict=True))
        points = {point.t: point for point in table.points if point.estimator == "grad"}
        assert (points[0.0].value, points[0.0].low) == (0.0, 0.0)
        for t, gain in gains.items():
            assert (points[t].value, points[t].low, points[t].high) == pytest.approx([100 * end for end in gain])


def test_gains_without_a_single_level_make_no_curve(view: SuiteView) -> None:
    """The second answers of a paired protocol are missing, as where another suite shares its first ones."""
    board = next(board for board in view.curve_boards if board.protocol == SPECIFIC)
    empty = replace(board, rows=tuple(replace(row, differences=(Estimate(),) * 3) for row in board.rows))
    assert [curve_tables(view.suite_results, [empty], chosen) for chosen in (["grad"], [])] == [[], []]


def test_one_level_is_told_in_words(view: SuiteView) -> None:
    found = curve_tables(view.suite_results, view.curve_boards, ["grad"])
    assert [table.drawn for table in found] == [True, True, False, False]
    (grad,) = (row for row in view.leading[1].rows if row.estimator == "grad")
    value, low, high = (100 * (end or 0) for end in grad.accuracies[0])
    words = pages.level_words(found[2])
    assert words.startswith("quick v2: ROAR: test accuracy at t = 0.9, the only level: random ")
    assert f"grad {value:.1f}% [{low:.1f}%, {high:.1f}%]" in words
    assert words.endswith("In brackets 95% intervals over images, references and seeds.")


def test_one_training_has_no_interval_to_tell_of(quick: SuiteResults) -> None:
    (kar,) = (t for t in curve_tables(quick, curve_boards(Evidence.of(quick)), ["gb"]) if t.protocol == "kar")
    assert kar.bands == ""
    assert pages.level_words(kar).endswith("chance 10.0%.") and "[" not in pages.level_words(kar)


def test_names_of_points_that_lie_together_stand_side_by_side(view: SuiteView) -> None:
    costs = {"random": 1.0, "random-blurred": 1.05, "grad": 1.0, "gb": 5.0}
    gains = {"random": 0.0, "random-blurred": 0.1, "grad": 5.0, "gb": 0.0}
    priced = [
        replace(row, seconds=costs[row.estimator], gain=Estimate(gains[row.estimator]))
        for row in view.table.rows
        if row.estimator in costs
    ]
    words = json.dumps(charts.cost_chart(replace(view.table, rows=tuple(priced))).to_dict())
    names = set(re.findall('"name": "([^"]*)"', words))
    assert names & {"random, random-blurred", "random-blurred, random"}
    assert names >= {"", "grad", "gb"} and not names & {"random", "random-blurred"}


def test_where_nothing_chosen_was_measured_no_curve_stands(view: SuiteView) -> None:
    assert [table.protocol for table in curve_tables(view.suite_results, view.curve_boards, [MINE])] == [
        "specific",
        "augmented",
    ]
    families = {family.name: family for family in curves_page(view)["families"]}
    assert {name: len(family.figures) for name, family in families.items()}.items() >= {
        "submission": 2,
        "grad": 2,
    }.items()
    assert families["submission"].sentences == []
    assert len(families["grad"].sentences) == 2
    (alone,) = (family for family in families.values() if not family.figures)  # sobel-released, under ROAR alone
    assert "sobel-released" in alone.sentences[0] and len(alone.sentences) == 1


def test_which_way_is_better_is_said_of_the_protocols_shown(view: SuiteView) -> None:
    found = curve_tables(view.suite_results, view.curve_boards, ["grad"])
    assert pages.better_words(found) == (
        "Larger gains are better under Specific gain and Augmented. Lower accuracy is better under ROAR and MoRF."
    )


def test_a_comparison_is_of_gains(view: SuiteView) -> None:
    found = view.compare("sgsq-grad", "grad")
    assert found is not None
    assert found.heading == "difference of specific gain, points"
    assert "A difference above 0 means that the first estimator has the larger specific gain." in found.reading
    assert "lowers accuracy" not in found.reading
    board = view.evidence.board(SPECIFIC, Unit.SCALAR, ["sgsq-grad", "grad"])
    assert board is not None
    grad, sgsq = sorted(board.rows, key=lambda row: row.estimator)
    for level, one, two in zip(found.levels, board.gains(sgsq), board.gains(grad), strict=True):
        assert level.difference.value == pytest.approx(100 * ((one.value or 0) - (two.value or 0)))
    assert charts.comparison_chart(found).to_dict()["layer"][1]["encoding"]["y"]["title"] == found.heading


def test_a_comparison_under_roar_is_of_accuracies(view: SuiteView) -> None:
    found = compare_pair(view.evidence, "sgsq-grad", "grad", ROAR)
    assert found is not None and found.heading == "accuracy difference, points"
    assert "first estimator lowers accuracy further" in found.reading
    assert compare_pair(view.evidence, "sgsq-grad", "grad", KAR) is None


def test_an_entry_has_its_row_under_both_leading_protocols(view: SuiteView) -> None:
    rows = pages.entry_boards([view], "grad")
    assert [row["protocol"] for row in rows] == ["Specific gain", "ROAR"]
    assert [row["numbers are of"].split(" on ")[0] for row in rows] == ["SPECIFIC", "ROAR"]
    assert "KAR gain" not in rows[0] and "over other image" not in rows[0]  # the suite has neither
    assert [row["protocol"] for row in pages.entry_boards([view], MINE)] == ["Specific gain"]
    assert [row["protocol"] for row in pages.entry_boards([view], "sobel-released")] == ["ROAR"]


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def test_every_link_of_the_static_pages_leads_somewhere(site: Path) -> None:
    for page in site.glob("*.html"):
        links = Links()
        links.feed(page.read_text(encoding="utf-8"))
        gone = [link for link in links.found if not link.startswith("#") and not (site / link).is_file()]
        assert not gone, page.name
    assert (site / "entry-sobel-released.html").is_file()


def test_static_pages_speak_of_specific_gain(site: Path) -> None:
    texts = {
        page: (site / f"{page}-quick-v2.html").read_text(encoding="utf-8") for page in ("compare", "cost", "curves")
    }
    assert "lowers accuracy further" not in texts["compare"]
    assert "difference of specific gain, points" in texts["compare"]
    points = HtmlTables(texts["curves"]).found["Gain or accuracy by protocol, estimator and level, with intervals"]
    assert {row["quantity"] for row in points} == {"specific gain, points", "gain over Random, points", "test accuracy"}


def test_marks_are_kept_for_the_boards_that_have_them(site: Path, view: SuiteView) -> None:
    text = (site / "board-quick-v2.html").read_text(encoding="utf-8")
    boards = json.loads(text.partition('id="boards">')[2].partition("</script>")[0])
    marked = {board["protocol"] for board in boards if board["marked"]}
    assert marked == {"roar", "morf", "lerf", "mask-only"}
    known = [row for row in view.leading[1].rows if row.above_masks.value is not None]
    assert known and not any(row.above_masks.value for row in view.table.rows)
    for row in known:
        assert f'data-above="{row.above_masks.value:.6f}'.rstrip("0") in text


@pytest.mark.slow
@pytest.mark.parametrize("page", ["Board", "Curves", "Entry", "Compare", "Cost", "Claims"])
def test_the_app_shows_every_page(folder: Path, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    monkeypatch.setenv("ROARBENCH_BOARD_URL", f"sqlite:///{folder}/results.sqlite")
    monkeypatch.setenv("ROARBENCH_BOARD_STORE", str(folder))
    app = AppTest.from_file(str(Path(charts.__file__).parent / "app.py"), default_timeout=120)
    app.query_params["page"] = page
    app.run()
    assert not app.exception
    said = " ".join(part.value for part in [*app.markdown, *app.text])
    assert "gain over Random, " not in said and "lowers accuracy further" not in said
    assert {"Curves": "Larger gains are better", "Compare": "larger specific gain"}.get(page, "") in said

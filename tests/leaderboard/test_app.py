"""Every page of the app, without a browser."""

import csv
import io
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from leaderboard import app
from leaderboard.boards import board_table
from leaderboard.commands import STORE, URL, _absolute
from leaderboard.downloads import board_csv
from leaderboard.gallery import gallery_file, save_gallery
from leaderboard.snapshot import read_views
from leaderboard.source import read_suites
from leaderboard.static import entry_file, export
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.datasets.catalogue import DATASETS
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.suites import SUITES, VERSIONS, with_entries
from roarbench.store.entries import keep_entry
from roarbench.store.results import ResultsStore
from roarbench.submissions.file import check_source
from tests.helpers import hostile
from tests.helpers.board_store import GAINS, made_gallery, make_store, results
from tests.helpers.html_tables import HtmlTables

pytestmark = pytest.mark.slow

PAGES = ("Board", "Curves", "Entry", "Compare", "Gallery", "Cost", "Claims", "About", "Runs")
APP = str(Path(app.__file__))


def open_page(monkeypatch: pytest.MonkeyPatch, folder: Path, **query: str | list[str]) -> AppTest:
    monkeypatch.setenv(URL, f"sqlite:///{folder}/results.sqlite")
    monkeypatch.setenv(STORE, str(folder))
    test = AppTest.from_file(APP, default_timeout=120)
    for key, value in query.items():
        test.query_params[key] = value
    return test.run()


@pytest.fixture(scope="module")
def folder(quick: SuiteResults, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two suites, one with a gallery."""
    made = tmp_path_factory.mktemp("app")
    make_store(made, VERSIONS["quick", 1])
    make_store(made, SUITES["planted"], lambda point: point.cell.t != 0.7, images=100)
    save_gallery(made_gallery(quick), gallery_file(quick, made))
    return made


@pytest.fixture(autouse=True, scope="module")
def fresh() -> Any:
    yield
    st.cache_resource.clear()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("suite", ["quick-v1", "planted-v1"])
def test_every_page_of_every_suite(monkeypatch: pytest.MonkeyPatch, folder: Path, page: str, suite: str) -> None:
    test = open_page(monkeypatch, folder, page=page, suite=suite)
    assert not test.exception
    names = {w.key: w.value for w in test.selectbox}
    shown = {"Entry": names.get("estimator"), "Compare": f"{names.get('first')} against {names.get('second')}"}
    shown |= {"About": "About"}
    assert heading(test) == shown.get(page, f"{suite.removesuffix('-v1')} v1: {page}")
    assert names.get("suite") == (None if page == "About" else suite) and not told(test)
    assert f"?page=Board&amp;suite={suite}" in html(test)  # the other pages' links stay at the suite


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_store_says_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: str) -> None:
    ResultsStore.open(f"sqlite:///{tmp_path}/results.sqlite").close()
    test = open_page(monkeypatch, tmp_path, page=page)
    assert not test.exception
    if page != "About":
        assert "roarbench run --suite quick" in test.info[0].value


def test_no_store_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = open_page(monkeypatch, tmp_path / "none")
    assert not test.exception
    assert "results store" in test.text[0].value


def frame(test: AppTest) -> Any:
    return test.dataframe[0].value


def html(test: AppTest) -> str:
    return "".join(element.value for element in test.get("html"))


def tables(test: AppTest) -> list[list[dict[str, str]]]:
    return list(HtmlTables(html(test)).found.values())


def rows(test: AppTest) -> dict[str, dict[str, str]]:
    """The board's rows by estimator; marks stand beside its name."""
    return {row["estimator"].split(" ")[0]: row for row in tables(test)[0]}


def heading(test: AppTest) -> str:
    found = re.search("<h1>(.*?)</h1>", html(test))
    assert found
    return found[1]


def told(test: AppTest) -> list[str]:
    return [unescape(text) for text in re.findall('<p class="flag" role="alert">(.*?)</p>', html(test))]


def test_the_board_shows_the_rows_of_the_table(
    monkeypatch: pytest.MonkeyPatch, folder: Path, quick: SuiteResults
) -> None:
    found = rows(open_page(monkeypatch, folder))
    assert {name: float(row["gain"].split(" ")[0]) for name, row in found.items()} == GAINS
    assert list(found) == list(GAINS)
    assert found["var-grad"]["gain"].startswith("+18.3 [+") and found["grad"]["gain"].startswith("-8.8 [-")
    assert found["var-grad"]["s / 1,000 maps"] == "31"


def test_the_address_holds_the_view(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, sort="estimator")
    test.multiselect(key="family").set_value(["grad"])
    test.text_input(key="search").set_value("noisy")
    test.selectbox(key="level").set_value("0.9")
    test.run()
    found = rows(test)
    assert list(found) == ["sgsq-grad", "var-grad"]
    view = {"sort": "estimator", "family": "grad", "search": "noisy", "level": "0.9"}
    assert {key: test.query_params[key] for key in view} == view
    again = open_page(monkeypatch, folder, family="grad", search="noisy", sort="estimator", level="0.9")
    assert rows(again) == found
    assert any("levels 0.9;" in caption.value for caption in again.text)


def test_a_choice_that_is_shown_anyway_is_not_in_the_address(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, protocol="kar")
    test.selectbox(key="protocol").set_value("roar").run()
    assert "protocol" not in test.query_params


@pytest.mark.parametrize(("sort", "first"), [("estimator", "gb"), ("seconds", "random"), ("kar", "var-grad")])
def test_headings_sort(monkeypatch: pytest.MonkeyPatch, folder: Path, sort: str, first: str) -> None:
    begun = html(open_page(monkeypatch, folder))
    assert f'href="?sort={sort}"' in begun
    there = open_page(monkeypatch, folder, sort=sort)
    assert next(iter(rows(there))) == first
    link = f'href="?sort={sort}&amp;down={"1" if sort != "kar" else "0"}"'
    assert link in html(there)  # once more: the other way round


UNKNOWN = {
    ("Board", "page=wurst"): "There is no page 'wurst' here; shown: Board.",
    ("Board", "suite=none"): "There is no suite 'none' here; shown: quick-v1.",
    ("Board", "protocol=wurst"): "There is no protocol 'wurst' here; shown: roar.",
    ("Board", "level=0.5&protocol=kar"): "There is no level '0.5' under KAR; shown: all.",
    ("Board", "sort=wurst"): "There is no column 'wurst' to sort by; shown: gain.",
    ("Board", "family=wurst"): "There is no family 'wurst' here; it is left out.",
    ("Board", "status=wurst"): "There is no status 'wurst' here; shown: any.",
    ("Entry", "estimator=nobody"): "There is no estimator 'nobody' here; shown: var-grad.",
    ("Compare", "first=nobody"): "There is no estimator 'nobody' here; shown: var-grad.",
    ("Curves", "curves=nobody"): "There is no estimator 'nobody' here; it is left out.",
    ("Curves", "published=wurst"): "There is no published data set 'wurst' here; shown: none.",
    ("Gallery", "image=wurst"): "There is no test image 'wurst' here; shown: 0.",
    ("Runs", "state=wurst"): "There is no state 'wurst' here; shown: failed.",
}


@pytest.mark.parametrize(("page", "asked"), UNKNOWN)
def test_names_that_are_unknown_are_said(monkeypatch: pytest.MonkeyPatch, folder: Path, page: str, asked: str) -> None:
    query = {"page": page, "suite": "quick-v1"} | dict(part.split("=") for part in asked.split("&"))
    test = open_page(monkeypatch, folder, **query)
    assert not test.exception
    assert told(test) == [UNKNOWN[page, asked]]


VIEWS: dict[str, dict[str, Any]] = {  # every choice of every page, none of them what the page begins with
    "Board": {
        "search": "grad",
        "protocol": "morf",
        "level": "0.9",
        "family": ["grad"],
        "status": "verified",
    },
    "Curves": {"curves": ["ig", "gb"], "published": "food101"},
    "Entry": {"estimator": "ig"},
    "Compare": {"first": "ig", "second": "gb"},
    "Gallery": {"image": "7", "gallery": ["grad"], "levels": ["0.9"]},
    "Cost": {},
    "Claims": {},
    "About": {},
    "Runs": {"state": "done"},
}
ALWAYS = {"page", "suite"}
ONLY = {"unit"}  # lists with one choice in this suite


@pytest.mark.parametrize("page", VIEWS)
def test_a_copied_address_opens_the_same_view(monkeypatch: pytest.MonkeyPatch, folder: Path, page: str) -> None:
    """The address makes every choice of a page, and every choice reaches the address."""
    begun = open_page(monkeypatch, folder, page=page, suite="quick-v1")
    made = {w.key: w for kind in ("selectbox", "multiselect", "text_input") for w in begun.get(kind)}
    assert set(made) - ALWAYS - ONLY == set(VIEWS[page])
    assert all(made[key].value != value for key, value in VIEWS[page].items())
    again = open_page(monkeypatch, folder, page=page, **VIEWS[page])
    opened = {w.key: w.value for kind in ("selectbox", "multiselect", "text_input") for w in again.get(kind)}
    assert {key: opened[key] for key in VIEWS[page]} == VIEWS[page]
    for key, value in VIEWS[page].items():
        made[key].set_value(value)
    begun.run()
    one = {key: value[0] if len(value) == 1 else value for key, value in VIEWS[page].items()}
    assert {key: begun.query_params[key] for key in one} == one


def test_a_filter_leaves_places_as_they_are(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    whole = rows(open_page(monkeypatch, folder))
    test = open_page(monkeypatch, folder, family="control")
    assert list(rows(test)) == ["sobel", "random", "random-blurred"]
    assert {name: row["place"] for name, row in rows(test).items()} == {
        name: whole[name]["place"] for name in rows(test)
    }
    assert any(text.value == "3 of 9 rows. Places are those among all rows." for text in test.text)


def test_no_row_left_is_said(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, search="nobody")
    assert test.info[0].value == "No row passes these filters."


def test_other_protocols(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, protocol="lerf")
    assert any("LERF on imagenette64" in caption.value for caption in test.text)


def test_incomplete_rows_say_why(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    found = rows(open_page(monkeypatch, folder, suite="planted-v1"))
    assert {row["place"] for row in found.values()} == {"–"}
    assert found["truth"]["estimator"].endswith("no place: no result yet of truth at t = 0.7")


def test_the_curves_of_choice(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, page="Curves", curves="gb", published="imagenet")
    points = frame(test)
    assert set(points["estimator"]) == {
        "random",
        "sobel",
        "sobel-released",
        "random-blurred",
        "gb",
    }  # the paper's Sobel
    assert set(points["source"]) == {"measured", "published"}


def test_comparing_an_entry_with_itself_asks_for_another(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, page="Compare", first="gb", second="gb")
    assert test.info[0].value == "Choose two different estimators."
    test.selectbox(key="second").set_value("ig").run()
    assert [row["removed, t"] for row in tables(test)[0]] == ["0.5", "0.9"]


def test_an_entry_has_its_pictures_and_its_command(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, page="Entry", estimator="var-grad")
    bibtex, command = [code.value for code in test.code]
    assert "Julius Adebayo" in bibtex
    assert command == "roarbench run --suite quick --estimators var-grad --store NEW-FOLDER"
    texts = [text.value for text in test.text]
    assert "Authors: David Baehrens" in " ".join(texts)
    assert "map of var-grad" in texts and "map of sobel" in texts and "left at t = 0.9" in texts


def test_claims_are_held_against_both_tables(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, page="Claims")
    texts = [text.value for text in test.text]
    published, ours = tables(test)
    assert published[0]["claim"].startswith("SmoothGrad-Squared and VarGrad are better than Random")
    assert (published[0]["verdict"], published[0]["cells that agree"]) == ("holds", "90 of 90")
    assert len(ours) == len(published)
    assert any("ResNet-50" in text for text in texts) and any("300 test images" in text for text in texts)
    assert re.findall("<h2>(.*?)</h2>", unescape(html(test))) == ["On the paper's own table", "On quick v1"]


def test_new_results_are_shown_without_a_restart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_store(tmp_path, VERSIONS["quick", 1], lambda point: point.cell.estimator != "gb", images=50)
    before = open_page(monkeypatch, tmp_path)
    assert "no place" in rows(before)["gb"]["estimator"]
    make_store(tmp_path, VERSIONS["quick", 1], images=50)
    after = before.run()
    assert not any("no place" in row["estimator"] for row in rows(after).values())


def test_the_app_writes_nothing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for page in ("Board", "Runs"):
        open_page(monkeypatch, folder, page=page)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("page", PAGES)
def test_hostile_text_is_never_markdown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: str) -> None:
    for name, row in hostile.ROWS.items():
        monkeypatch.setitem(ESTIMATORS, name, row)
    monkeypatch.setitem(SUITES, hostile.NAME, hostile.hostile_suite())
    monkeypatch.setitem(VERSIONS, (hostile.NAME, hostile.hostile_suite().version), hostile.hostile_suite())
    monkeypatch.setitem(DATASETS, hostile.DATASET.name, hostile.DATASET)
    make_store(tmp_path, SUITES[hostile.NAME], images=60)
    test = open_page(monkeypatch, tmp_path, page=page)
    assert not test.exception
    assert not re.search("<(img|svg|textarea)", html(test)) and html(test).count("<script>") == 1  # the app's own
    rendered = [*test.markdown, *test.caption, *test.title, *test.header, *test.subheader, *test.info, *test.warning]
    for element in rendered:
        assert not any(part in element.value for part in ("<script", "![", "<svg", "javascript:", "zzzz", "tfel"))
    for element in test.text:
        assert "\x1b" not in element.value and len(element.value) < 10_000
    st.cache_resource.clear()


def test_the_configuration_keeps_the_app_at_home() -> None:
    text = (Path(APP).parent / ".streamlit" / "config.toml").read_text()
    for line in (
        'address = "127.0.0.1"',
        "gatherUsageStats = false",
        'showErrorDetails = "none"',
        'fileWatcherType = "none"',
    ):
        assert line in text


def test_a_relative_database_is_found_from_any_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert _absolute("sqlite:///r.sqlite") == f"sqlite:///{tmp_path}/r.sqlite"
    assert _absolute("postgresql://me@host/name") == "postgresql://me@host/name"


def test_a_small_version_is_marked_in_every_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with ResultsStore.open(f"sqlite:///{tmp_path}/results.sqlite") as store:
        store.add_all(results(SUITES["planted"], 20, limit=40).values())
    test = open_page(monkeypatch, tmp_path)
    assert all("small version" in row["estimator"] for row in rows(test).values())
    entry = open_page(monkeypatch, tmp_path, page="Entry")
    assert [row["status"] for row in tables(entry)[0]] == ["verified, small version: 40 images a split"]
    written = list(csv.DictReader(io.StringIO(board_csv(board_table(Evidence.of(held_of(tmp_path)))))))
    assert {row["suite"] for row in written} == {"planted v1 (small version: 40 images a split)"}


def held_of(folder: Path) -> SuiteResults:
    with ResultsStore.open(f"sqlite:///{folder}/results.sqlite", read_only=True) as store:
        return next(iter(read_suites(store, folder).values()))


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ("About", "Runs")])
def test_every_page_says_of_what_its_numbers_are(monkeypatch: pytest.MonkeyPatch, folder: Path, page: str) -> None:
    test = open_page(monkeypatch, folder, page=page)
    said = " ".join(element.value for element in (*test.text, *test.markdown))
    for word in ("300 test images", "unit scalar", "fill mean", "2 seeds"):
        assert word in said, word


def test_every_page_with_records_downloads_them(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for page in PAGES:
        labels = [button.label for button in open_page(monkeypatch, folder, page=page).get("download_button")]
        assert {"CSV", "JSON"} <= set(labels) or page == "Runs", page  # no run has failed: nothing to save


def test_records_can_be_downloaded(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder)
    labels = [button.label for button in test.get("download_button")]
    assert labels == ["CSV", "JSON", "TEX", "MD"]


HOSTILE_FILE = """# \u202e <script>window.hurt=1</script> \x1b[31m
NAME = "mine"
DESCRIPTION = "![x](http://127.0.0.1:9/a.png) <b>bold</b>"
AUTHORS = "A <script>window.hurt=1</script> Writer"
PAPER = "[paper](javascript:window.hurt=1)"
CLAIM = "beats </pre><img src=x onerror=window.hurt=1> all"


def estimate(model, images, targets, generator):
    return images
"""


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store with a submission, whose rows are one time verified and one time imported from elsewhere."""
    made = tmp_path_factory.mktemp("submitted")
    entry = check_source(HOSTILE_FILE.encode())
    url = make_store(made, with_entries(VERSIONS["quick", 1], [entry.id, f"{entry.id}~trusted"]), images=60)
    with ResultsStore.open(url) as store:
        keep_entry(store.database, entry)
    return made, entry.id


def test_a_submission_has_its_page_and_its_status(monkeypatch: pytest.MonkeyPatch, submitted: tuple[Path, str]) -> None:
    made, name = submitted
    found = rows(open_page(monkeypatch, made, search="bold"))
    assert {who: row["status"] for who, row in found.items()} == {name: "verified", f"{name}~trusted": "trusted"}
    assert list(rows(open_page(monkeypatch, made, status="trusted"))) == [f"{name}~trusted"]
    test = open_page(monkeypatch, made, page="Entry", estimator=f"{name}~trusted")
    assert not test.exception
    texts = [text.value for text in test.text]
    assert "Authors: A <script>window.hurt=1</script> Writer" in texts  # as text
    assert "Its authors claim: beats </pre><img src=x onerror=window.hurt=1> all" in texts
    file, again = [code.value for code in test.code]
    assert "def estimate(model" in file and "\u202e" not in file and "\x1b" not in file
    assert again == "roarbench run --suite quick --submission FILE --trust-submission --store NEW-FOLDER"
    for element in (*test.markdown, *test.title, *test.header, *test.subheader):
        assert "hurt" not in element.value and "![x]" not in element.value
    assert "<img" not in html(test)


def test_what_was_imported_is_self_reported(monkeypatch: pytest.MonkeyPatch, submitted: tuple[Path, str]) -> None:
    made, name = submitted
    with ResultsStore.open(f"sqlite:///{made}/results.sqlite", read_only=True) as store:
        suite_results = next(iter(read_suites(store, made).values()))
    claimed = replace(suite_results, doubts={name: "Self-reported: imported and not reproduced here."})
    found = {entry.estimator: entry.status for entry in board_table(Evidence.of(claimed)).rows}
    assert (found[name], found["grad"], found[f"{name}~trusted"]) == ("self-reported", "verified", "trusted")


def test_a_submission_on_static_pages_is_text(submitted: tuple[Path, str], tmp_path: Path) -> None:
    made, name = submitted
    with ResultsStore.open(f"sqlite:///{made}/results.sqlite", read_only=True) as store:
        export(read_views(store, made), store, tmp_path)
    text = (tmp_path / entry_file(name)).read_text()
    assert "A &lt;script&gt;window.hurt=1&lt;/script&gt; Writer" in text
    assert "def estimate(model" in text and "<img src=x" not in text and "<script>window" not in text
    assert "\u202e" not in text and "\x1b" not in text

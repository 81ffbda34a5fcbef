"""Every page of the app, without a browser."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import hostile
import numpy as np
import pytest
import streamlit as st
from board_store import make_store, results
from streamlit.testing.v1 import AppTest

from leaderboard import app
from leaderboard.commands import STORE, URL, _absolute
from leaderboard.formats import board_csv
from leaderboard.site import entry_file, export
from leaderboard.source import read_shelf
from leaderboard.strip import Strip, save_strip, strip_file
from leaderboard.tables import board_table
from roarbench.datasets import find_dataset
from roarbench.estimators import ESTIMATORS
from roarbench.evidence import Evidence
from roarbench.ranking import Layout, encode, sort_keys, tie_order
from roarbench.standings import Standing
from roarbench.store.entries import keep_entry
from roarbench.store.results import ResultsStore
from roarbench.submission import check_source
from roarbench.suites import SUITES, with_entries
from roarbench.terms import PAPER_LEVELS, Unit

PAGES = ("Board", "Curves", "Entry", "Compare", "Gallery", "Cost", "Claims", "About", "Runs")
APP = str(Path(app.__file__))


def open_page(monkeypatch: pytest.MonkeyPatch, folder: Path, **query: str | list[str]) -> AppTest:
    monkeypatch.setenv(URL, f"sqlite:///{folder}/results.sqlite")
    monkeypatch.setenv(STORE, str(folder))
    test = AppTest.from_file(APP, default_timeout=120)
    for key, value in query.items():
        test.query_params[key] = value
    return test.run()


def made_strip(held: Standing) -> Strip:
    """Noise for images and rankings, of the shape that the suite has."""
    record = find_dataset(held.suite.dataset)
    generator = np.random.default_rng(0)
    layout = Layout((record.channels, record.size, record.size), Unit.SCALAR, PAPER_LEVELS)
    ties = tie_order(np.arange(2), layout.features)
    rows = ("random", "sobel", "grad", "var-grad")
    keys = {name: sort_keys(generator.random((2, layout.features)).astype(np.float32), ties) for name in rows}
    planes = {name: encode(key, layout) for name, key in keys.items()}
    pixels = generator.integers(0, 255, (2, *layout.shape)).astype(np.uint8)
    seconds = {"random": 0.1, "sobel": 0.2, "grad": 2.0, "var-grad": 31.0}
    return Strip((0, 7), pixels, (1.0, 2.0, 3.0), layout, planes, seconds)


@pytest.fixture(scope="module")
def folder(quick: Standing, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two suites, one with a strip."""
    made = tmp_path_factory.mktemp("app")
    make_store(made, SUITES["quick"])
    make_store(made, SUITES["planted"], lambda point: point.cell.t != 0.7, images=100)
    save_strip(made_strip(quick), strip_file(quick, made))
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
    assert test.title[0].value == page
    assert test.selectbox(key="suite").value == suite


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


def frame(test: AppTest, number: int = 0) -> Any:
    return test.dataframe[number].value


def test_the_board_shows_the_rows_of_the_table(monkeypatch: pytest.MonkeyPatch, folder: Path, quick: Standing) -> None:
    rows = frame(open_page(monkeypatch, folder))
    entries = board_table(Evidence.of(quick)).entries
    assert list(rows["estimator"]) == [entry.estimator for entry in entries]
    assert list(rows["gain"]) == [round(entry.gain.value, 1) + 0.0 for entry in entries]
    assert rows.set_index("estimator")["s / 1,000 maps"]["var-grad"] == 31.0


def test_the_address_holds_the_view(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder)
    test.multiselect(key="family").set_value(["grad"])
    test.text_input(key="search").set_value("noisy")
    test.selectbox(key="sort").set_value("estimator")
    test.selectbox(key="level").set_value("0.9")
    test.run()
    rows = list(frame(test)["estimator"])
    assert rows == ["sgsq-grad", "var-grad"]
    again = open_page(monkeypatch, folder, family="grad", search="noisy", sort="estimator", level="0.9")
    assert list(frame(again)["estimator"]) == rows
    assert list(frame(again)["gain"]) == list(frame(test)["gain"])
    assert any("levels 0.9;" in caption.value for caption in again.markdown)


VIEWS: dict[str, dict[str, Any]] = {  # every choice of every page, none of them what the page begins with
    "Board": {
        "search": "grad",
        "protocol": "morf",
        "level": "0.9",
        "sort": "seconds",
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
    """The address makes every choice of a page; that choices reach the address is Streamlit's part, if told so."""
    begun = open_page(monkeypatch, folder, page=page, suite="quick-v1")
    made = {w.key: w for kind in ("selectbox", "multiselect", "text_input") for w in begun.get(kind)}
    assert set(made) - ALWAYS - ONLY == set(VIEWS[page])
    assert all(made[key].value != value for key, value in VIEWS[page].items())
    assert all(widget.proto.query_param_key == key for key, widget in made.items())
    again = open_page(monkeypatch, folder, page=page, **VIEWS[page])
    opened = {w.key: w.value for kind in ("selectbox", "multiselect", "text_input") for w in again.get(kind)}
    assert {key: opened[key] for key in VIEWS[page]} == VIEWS[page]


def test_places_are_among_the_rows_shown(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, family="control")
    assert list(frame(test)["estimator"]) == ["sobel", "random"]
    assert list(frame(test)["place"]) == ["1", "2"]
    assert any(text.value.startswith("2 of 8 rows") for text in test.text)


def test_no_row_left_is_said(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, search="nobody")
    assert test.info[0].value == "No row passes these filters."


def test_other_protocols(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, protocol="lerf")
    assert any("LERF on imagenette64" in caption.value for caption in test.markdown)


def test_incomplete_rows_say_why(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    rows = frame(open_page(monkeypatch, folder, suite="planted-v1"))
    assert set(rows["place"]) == {""}
    assert "no result yet of truth at t = 0.7" in set(rows["no place because"])


def test_the_curves_of_choice(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, page="Curves", curves="gb", published="imagenet")
    points = frame(test)
    assert set(points["estimator"]) == {"random", "sobel", "gb"}
    assert set(points["source"]) == {"measured", "published"}


def test_comparing_an_entry_with_itself_asks_for_another(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    test = open_page(monkeypatch, folder, page="Compare", first="gb", second="gb")
    assert test.info[0].value == "Choose two different estimators."
    test.selectbox(key="second").set_value("ig").run()
    assert list(frame(test)["t"]) == [0.5, 0.9]


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
    assert any(text.startswith("HOLDS (90 of 90 cells agree): SmoothGrad-Squared and VarGrad") for text in texts)
    assert any("ResNet-50" in text for text in texts) and any("300 test images" in text for text in texts)
    assert [heading.value for heading in test.subheader] == ["On the paper's own table", "On quick v1"]


def test_new_results_are_shown_without_a_restart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_store(tmp_path, SUITES["quick"], lambda point: point.cell.estimator != "gb", images=50)
    before = open_page(monkeypatch, tmp_path)
    make_store(tmp_path, SUITES["quick"], images=50)
    after = before.run()
    assert "gb" in set(frame(after)["estimator"])
    assert set(frame(after)["no place because"]) == {""}


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
    make_store(tmp_path, SUITES[hostile.NAME], images=60)
    test = open_page(monkeypatch, tmp_path, page=page)
    assert not test.exception
    rendered = [*test.markdown, *test.caption, *test.title, *test.header, *test.subheader, *test.info, *test.warning]
    for element in rendered:
        assert not any(part in element.value for part in ("<script", "![x]", "<svg", "javascript:", "zzzz", "tfel"))
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
    assert set(frame(test)["status"]) == {"verified, small version: 40 images a split"}
    entry = open_page(monkeypatch, tmp_path, page="Entry")
    assert set(frame(entry)["status"]) == {"verified, small version: 40 images a split"}
    rows = list(csv.DictReader(io.StringIO(board_csv(board_table(Evidence.of(held_of(tmp_path)))))))
    assert {row["suite"] for row in rows} == {"planted v1 (small version: 40 images a split)"}


def held_of(folder: Path) -> Standing:
    with ResultsStore.open(f"sqlite:///{folder}/results.sqlite", read_only=True) as store:
        return next(iter(read_shelf(store, folder).standings.values()))


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
    url = make_store(made, with_entries(SUITES["quick"], [entry.id, f"{entry.id}~trusted"]), images=60)
    with ResultsStore.open(url) as store:
        keep_entry(store.database, entry)
    return made, entry.id


def test_a_submission_has_its_page_and_its_status(monkeypatch: pytest.MonkeyPatch, submitted: tuple[Path, str]) -> None:
    made, name = submitted
    rows = frame(open_page(monkeypatch, made, search="bold")).set_index("estimator")
    assert dict(rows["status"]) == {name: "verified", f"{name}~trusted": "trusted"}
    assert list(frame(open_page(monkeypatch, made, status="trusted"))["estimator"]) == [f"{name}~trusted"]
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


def test_what_was_imported_is_self_reported(monkeypatch: pytest.MonkeyPatch, submitted: tuple[Path, str]) -> None:
    made, name = submitted
    with ResultsStore.open(f"sqlite:///{made}/results.sqlite", read_only=True) as store:
        held = next(iter(read_shelf(store, made).standings.values()))
    claimed = replace(held, doubts={name: "Self-reported: imported and not reproduced here."})
    found = {entry.estimator: entry.status for entry in board_table(Evidence.of(claimed)).entries}
    assert (found[name], found["grad"], found[f"{name}~trusted"]) == ("self-reported", "verified", "trusted")


def test_a_submission_on_static_pages_is_text(submitted: tuple[Path, str], tmp_path: Path) -> None:
    made, name = submitted
    with ResultsStore.open(f"sqlite:///{made}/results.sqlite", read_only=True) as store:
        export(read_shelf(store, made), store, tmp_path)
    text = (tmp_path / entry_file(name)).read_text()
    assert "A &lt;script&gt;window.hurt=1&lt;/script&gt; Writer" in text
    assert "def estimate(model" in text and "<img src=x" not in text and "<script>window" not in text
    assert "\u202e" not in text and "\x1b" not in text

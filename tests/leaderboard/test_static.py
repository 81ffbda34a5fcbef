import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from leaderboard.boards import board_table
from leaderboard.snapshot import SuiteView, read_views
from leaderboard.source import read_suites
from leaderboard.static import entry_file, export
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.cli.main import app
from roarbench.datasets.catalogue import DATASETS
from roarbench.errors import CallerError
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.protocols import SHOWN
from roarbench.store.results import ResultsStore
from roarbench.terms import Unit
from tests.helpers import hostile
from tests.helpers.board_store import GAINS, make_store

pytestmark = pytest.mark.slow

LIMIT = 3_000_000  # bytes of a whole site


class Page(HTMLParser):
    """What a page links to, names and shows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def addresses(self) -> list[str]:
        return [
            value or "" for _, attrs in self.tags for key, value in attrs.items() if key in ("href", "src", "action")
        ]


def read_pages(folder: Path) -> dict[str, Page]:
    return {path.name: Page(path.read_text()) for path in folder.glob("*.html")}


@pytest.fixture(scope="module")
def site(suites: dict[str, SuiteResults], quick_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with ResultsStore.open(f"sqlite:///{quick_folder}/results.sqlite", read_only=True) as store:
        assert export([SuiteView(each, quick_folder) for each in suites.values()], store, folder) == len(
            list(folder.glob("*.html"))
        )
    return folder


def test_every_link_leads_to_a_file_of_the_site(site: Path) -> None:
    for name, page in read_pages(site).items():
        for address in page.addresses:
            if address.startswith(("data:", "#")):
                continue
            assert (site / address).is_file(), f"{name} links to {address}"


def test_nothing_names_another_origin(site: Path) -> None:
    for path in site.iterdir():
        if path.suffix == ".png":
            continue
        text = path.read_text().replace("http://www.w3.org/", "")
        assert not re.search(r"(https?:)?//[a-z0-9.-]+\.[a-z]", text.replace("// ", "")), path.name


def test_it_is_small(site: Path) -> None:
    assert sum(path.stat().st_size for path in site.iterdir()) < LIMIT


def test_every_page_has_title_language_heading_and_skip_link(site: Path) -> None:
    for name, page in read_pages(site).items():
        tags = [tag for tag, _ in page.tags]
        assert tags.count("h1") == 1, name
        assert ("html", {"lang": "en"}) in page.tags
        assert "#main" in page.addresses


def test_every_picture_says_what_it_shows(site: Path) -> None:
    for name, page in read_pages(site).items():
        for tag, attrs in page.tags:
            if tag == "img":
                assert attrs["alt"], name
            if tag == "svg":
                assert attrs["aria-hidden"] == "true", name
    curves = read_pages(site)["curves-quick-v1.html"]
    labels = [attrs["aria-label"] for _, attrs in curves.tags if attrs.get("role") == "img"]
    plain, overlaid = [x for x in labels if "Dashed" not in x], [x for x in labels if "Dashed" in x]
    assert (len(plain), len(overlaid)) == (
        6,
        18,
    )  # families x {ROAR, MoRF}; families x {ROAR, KAR} x data sets of the paper
    text = (site / "curves-quick-v1.html").read_text(encoding="utf-8")
    assert text.count("KAR: test accuracy at t = 0.9, the only level: ") == 3
    assert all("300 test images" in label and "At t = 0.9" in label for label in labels)


def boards(site: Path) -> list[dict[str, Any]]:
    text = (site / "board-quick-v1.html").read_text()
    found: list[dict[str, Any]] = json.loads(re.search(r'id="boards">(.*?)</script>', text, re.DOTALL)[1])
    return found


def test_every_protocol_and_level_can_be_chosen(site: Path, quick: SuiteResults) -> None:
    page = read_pages(site)["board-quick-v1.html"]
    names = [attrs["data-estimator"] for tag, attrs in page.tags if tag == "tr" and "data-estimator" in attrs]
    kinds = {(board["protocol"], board["level"]) for board in boards(site)}
    both = {(name, level) for name in ("roar", "morf", "lerf") for level in ("", "0.5", "0.9")}
    assert kinds == both | {("kar", ""), ("diffroar", ""), ("mask-only", "")}  # these have one level
    for board in boards(site):
        levels = (float(board["level"]),) if board["level"] else ()
        table = board_table(Evidence.of(quick), SHOWN[board["protocol"]], Unit.SCALAR, levels)
        rows = dict(zip(names, board["rows"], strict=True))
        assert board["caption"] == table.caption
        for entry in table.rows:
            assert rows[entry.estimator]["gain"] == [None if v is None else round(v, 6) for v in entry.gain]
            assert rows[entry.estimator]["place"] == (json.loads(json.dumps(entry.place)))


def test_the_board_has_the_rows_of_the_table(site: Path, suites: dict[str, SuiteResults]) -> None:
    page = read_pages(site)["board-quick-v1.html"]
    rows = [attrs for tag, attrs in page.tags if tag == "tr" and "data-estimator" in attrs]
    values = [row["gain"][0] for row in boards(site)[0]["rows"]]
    gains = {row["data-estimator"]: round(value, 1) for row, value in zip(rows, values, strict=True)}
    assert list(gains.items()) == list(GAINS.items())
    assert [row.get("class") for row in rows].count("control") == 3
    assert (site / "index.html").read_text() == (site / "board-quick-v1.html").read_text()


def test_downloads_can_be_read(site: Path) -> None:
    for path in site.glob("*.json"):
        assert json.loads(path.read_text())["rows"], path.name
    for path in site.glob("*.csv"):
        with path.open() as file:
            assert list(csv.DictReader(file)), path.name
    assert "\\begin{tabular}" in (site / "board-quick-v1-kar-scalar.tex").read_text()


def test_twins_have_no_page_and_controls_have(site: Path) -> None:
    names = {path.name for path in site.glob("entry-*.html")}
    assert "entry-random.html" in names and len(names) == 9


@pytest.fixture
def hostile_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name, row in hostile.ROWS.items():
        monkeypatch.setitem(ESTIMATORS, name, row)
    monkeypatch.setitem(DATASETS, hostile.DATASET.name, hostile.DATASET)
    monkeypatch.setitem(SUITES, hostile.NAME, hostile.hostile_suite())
    monkeypatch.setitem(VERSIONS, (hostile.NAME, hostile.hostile_suite().version), hostile.hostile_suite())
    url = make_store(tmp_path, SUITES[hostile.NAME], images=60)
    with ResultsStore.open(url) as store:
        suite_results = read_suites(store, tmp_path)["hostile-v1"]
        run = next(iter(suite_results.results.values())).run
        store.failures.add(run, "<script>window.hurt=1</script>")
        export(read_views(store, tmp_path), store, tmp_path / "site")
    return tmp_path / "site"


def test_hostile_text_stays_text(hostile_site: Path) -> None:
    for name, page in read_pages(hostile_site).items():
        scripts = [attrs for tag, attrs in page.tags if tag == "script"]
        assert scripts[0]["src"] == "board.js" and [s.get("type") for s in scripts[1:]] in ([], ["application/json"]), (
            name
        )
        assert not [key for _, attrs in page.tags for key in attrs if key.startswith("on")], name
        pictures = [attrs["src"] or "" for tag, attrs in page.tags if tag == "img"]
        assert all(re.fullmatch(r"picture-[0-9a-f]{12}\.png", address) for address in pictures), name
        shown = "".join(page.words)
        assert "‮" not in shown and "\x1b" not in shown, name
        assert max(map(len, re.findall(r"[yz]+", shown))) <= 300, name


def test_hostile_names_make_harmless_files(hostile_site: Path) -> None:
    entries = [path.name for path in hostile_site.glob("entry-*.html")]
    assert len(entries) == len(hostile.NAMES) + 2
    assert all(re.fullmatch(r"entry-[A-Za-z0-9_-]{1,60}\.html", name) for name in entries)
    assert not list(hostile_site.parent.glob("*.html"))


def test_entry_files_differ_for_names_that_look_alike() -> None:
    names = ["a/b", "a_b", "a b", "x" * 50, "x" * 51, "A", "a"]
    assert len({entry_file(name).lower() for name in names[:5]}) == 5
    assert entry_file("sgsq-grad") == "entry-sgsq-grad.html"


def test_an_empty_store_says_what_to_run(tmp_path: Path) -> None:
    with ResultsStore.open(f"sqlite:///{tmp_path}/results.sqlite") as store:
        export(read_views(store, tmp_path), store, tmp_path / "site")
    assert "roarbench run --suite quick" in (tmp_path / "site" / "index.html").read_text()


def test_a_folder_that_cannot_be_written_is_one_line(
    suites: dict[str, SuiteResults], quick_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with (
        ResultsStore.open(f"sqlite:///{quick_folder}/results.sqlite", read_only=True) as store,
        pytest.raises(CallerError, match="cannot write"),
    ):
        export([SuiteView(each, quick_folder) for each in suites.values()], store, tmp_path / "file" / "site")


def test_the_command_exports_and_changes_no_store(quick_folder: Path, tmp_path: Path) -> None:
    before = (quick_folder / "results.sqlite").read_bytes()
    made = CliRunner().invoke(app, ["leaderboard", "--store", str(quick_folder), "--export", str(tmp_path / "out")])
    assert made.exit_code == 0
    assert (tmp_path / "out" / "index.html").is_file()
    assert (quick_folder / "results.sqlite").read_bytes() == before


def test_the_command_on_no_store_is_the_callers_mistake(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["leaderboard", "--store", str(tmp_path / "none"), "--export", str(tmp_path)])
    assert isinstance(made.exception, CallerError)

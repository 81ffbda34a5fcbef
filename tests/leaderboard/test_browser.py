"""The pages in headless Chromium: what a reader does, and what must never happen."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from screenshots import CLI, browser, free_port, settle, static_pages, until_up
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from leaderboard.compare import compare_pair
from leaderboard.downloads import above_text, board_csv, board_files, board_json
from leaderboard.filters import Filter, filter_rows
from leaderboard.gallery import gallery_file, save_gallery
from leaderboard.pages import gain_title
from leaderboard.rows import BoardTable
from leaderboard.snapshot import SuiteView, read_views
from leaderboard.source import read_suites
from leaderboard.static import export
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.marks import MARKS
from roarbench.datasets.catalogue import DATASETS
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.points import Point
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.protocols import SHOWN
from roarbench.stats.bootstrap import Estimate
from roarbench.store.results import ResultsStore
from roarbench.terms import Unit
from roarbench.text import signed
from tests.helpers import board_store, hostile
from tests.helpers.board_store import made_gallery, make_store, results
from tests.helpers.browser import see, show, until

pytestmark = pytest.mark.browser

PAGES = ("Board", "Curves", "Entry", "Compare", "Gallery", "Cost", "Claims", "About", "Runs")
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def driver(require: Callable[[str, str], str]) -> Iterator[webdriver.Chrome]:
    require("chromium", "apt-get install chromium")
    require("chromedriver", "apt-get install chromium-driver")
    with browser() as made:
        yield made


@pytest.fixture(autouse=True)
def watched(driver: webdriver.Chrome) -> Iterator[None]:
    """No test may leave an error on the console, or have asked another origin for anything."""
    for log in ("browser", "performance"):
        driver.get_log(log)
    yield
    errors = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors
    asked = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [event["params"]["request"]["url"] for event in asked if event["method"] == "Network.requestWillBeSent"]
    assert not [url for url in urls if not at_home(url)]


def at_home(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("file", "data", "blob", "about") or (parts.hostname == "127.0.0.1" and parts.port != 9)


def violations(driver: webdriver.Chrome) -> list[str]:
    """What axe-core finds against WCAG 2.1 AA, as rule and first place."""
    driver.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    script = "axe.run(document, {runOnly: arguments[0]}).then(arguments[1])"
    found = driver.execute_async_script(script, list(RULES))["violations"]
    return [f"{rule['id']}: {rule['nodes'][0]['html'][:200]}" for rule in found]


# ---- the static pages, opened from disk ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("browser")
    url = make_store(made, VERSIONS["quick", 1])
    make_store(made, SUITES["planted"], begun, images=100)
    with ResultsStore.open(url, read_only=True) as store:
        suite_results = read_suites(store, made)["quick-v1"]
    save_gallery(made_gallery(suite_results), gallery_file(suite_results, made))
    return made


def begun(point: Point) -> bool:
    return point.cell.t != 0.7 and point.cell.estimator != "truth-inverted"


@pytest.fixture(scope="module")
def site(folder: Path) -> Path:
    command = [*CLI, "leaderboard", "--store", str(folder)]
    subprocess.run([*command, "--export", str(folder / "site")], check=True, stderr=subprocess.DEVNULL)
    return folder / "site"


def rows(driver: webdriver.Chrome) -> list[str]:
    return told(driver, ROWS, "dataset.estimator")


def places(driver: webdriver.Chrome) -> list[str]:
    return told(driver, f"{ROWS} .place", "textContent")


ROWS = "#board tbody tr:not([hidden])"


def sorted_by(driver: webdriver.Chrome) -> list[str]:
    """The column that the rows are sorted by, and which way."""
    headings = driver.find_elements(By.CSS_SELECTOR, "#board th[aria-sort]")
    return [f"{heading.text.strip()} {heading.get_attribute('aria-sort')}" for heading in headings]


def title(driver: webdriver.Chrome) -> str:
    return driver.title


def first(driver: webdriver.Chrome, tag: str) -> str:
    """The text of the page's first element of this kind."""
    return driver.find_element(By.TAG_NAME, tag).text


def chosen(driver: webdriver.Chrome, name: str) -> str:
    """What a list of a static page is at."""
    return str(driver.find_element(By.NAME, name).get_property("value"))


def told(driver: webdriver.Chrome, selector: str, what: str) -> list[str]:
    """What all these say, at one moment."""
    script = f"return [...document.querySelectorAll(arguments[0])].map((part) => part.{what})"
    found: list[str] = driver.execute_script(script, selector)
    return found


def test_static_sort_by_keyboard_and_share_the_address(driver: webdriver.Chrome, site: Path) -> None:
    show(driver, (site / "index.html").as_uri())
    begun = until(driver, rows)
    button = driver.find_element(By.CSS_SELECTOR, "button[data-sort=estimator]")
    button.send_keys(Keys.ENTER)
    see(driver, rows, sorted(begun))
    button.send_keys(Keys.ENTER)
    see(driver, rows, sorted(begun, reverse=True))
    assert sorted_by(driver) == ["estimator descending"]
    show(driver, driver.current_url)
    see(driver, rows, sorted(begun, reverse=True))


def test_static_filters_leave_places_as_they_are(driver: webdriver.Chrome, site: Path) -> None:
    show(driver, (site / "board-quick-v1.html").as_uri())
    whole, names = until(driver, places), rows(driver)
    Select(driver.find_element(By.NAME, "family")).select_by_value("control")
    see(driver, rows, ["sobel", "random", "random-blurred"])
    assert places(driver) == [whole[names.index(name)] for name in rows(driver)]
    assert driver.find_element(By.ID, "shown").text == "3 of 9 rows. Places are those among all rows."
    driver.find_element(By.CSS_SELECTOR, "button[type=reset]").click()
    see(driver, places, whole)
    driver.find_element(By.NAME, "search").send_keys("vargrad")
    see(driver, rows, ["var-grad"])
    assert "search=vargrad" in driver.current_url


def test_static_protocol_and_level_change_the_numbers_and_the_address(driver: webdriver.Chrome, site: Path) -> None:
    show(driver, (site / "board-quick-v1.html").as_uri())
    begun = until(driver, gains)
    Select(driver.find_element(By.NAME, "protocol")).select_by_visible_text("morf")
    Select(driver.find_element(By.NAME, "level")).select_by_visible_text("0.9")
    until(driver, lambda d: "levels 0.9; the reference as it is" in d.find_element(By.ID, "caption").text)
    assert driver.find_element(By.ID, "caption").text.startswith("MORF on imagenette64")
    board = next(board for board in data(driver) if (board["protocol"], board["level"]) == ("morf", "0.9"))
    wanted = sorted((row["gain"][0] for row in board["rows"] if row), reverse=True)
    assert [float(gain) for gain in gains(driver)] == pytest.approx(wanted, abs=0.051)
    assert gains(driver) != begun
    shown = gains(driver)
    show(driver, driver.current_url)
    see(driver, gains, shown)  # the page is drawn first, then as its address asks
    Select(driver.find_element(By.NAME, "protocol")).select_by_visible_text("kar")  # which has that level alone
    see(driver, lambda d: chosen(d, "level"), "")


def gains(driver: webdriver.Chrome) -> list[str]:
    return [text.split(" ")[0] for text in told(driver, f"{ROWS} .gain", "textContent")]


def data(driver: webdriver.Chrome) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(driver.find_element(By.ID, "boards").get_property("textContent"))
    return found


@pytest.fixture(scope="module")
def shown(folder: Path) -> SuiteView:
    """The suite as both boards have it."""
    with ResultsStore.open(f"sqlite:///{folder}/results.sqlite", read_only=True) as store:
        return SuiteView(read_suites(store, folder)["quick-v1"], folder)


def board_of(shown: SuiteView, protocol: str, level: str = "", family: str = "") -> BoardTable:
    whole = shown.board(SHOWN[protocol], Unit.SCALAR, (float(level),) if level else ())
    return filter_rows(whole, Filter(families=(family,) if family else ()))


SAVED = [("lerf", "", "grad"), ("roar", "0.5", ""), ("kar", "", "control"), ("mask-only", "", "")]


@pytest.mark.parametrize(("protocol", "level", "family"), SAVED)
def test_static_rows_shown_are_saved_as_the_app_saves_them(
    driver: webdriver.Chrome, site: Path, shown: SuiteView, tmp_path: Path, protocol: str, level: str, family: str
) -> None:
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    show(driver, (site / "board-quick-v1.html").as_uri() + f"#protocol={protocol}&level={level}&family={family}")
    wanted = board_of(shown, protocol, level, family)
    see(driver, rows, [entry.estimator for entry in wanted.rows])
    for button in driver.find_elements(By.CSS_SELECTOR, "[data-save]"):
        button.send_keys(Keys.ENTER)
    stem = f"rows-quick-v1-{protocol}-scalar{'-' if level else ''}{level}"
    both = [tmp_path / f"{stem}.{ending}" for ending in ("csv", "json")]
    see(driver, lambda _: sorted(tmp_path.iterdir()), both)
    assert both[0].read_text() == board_csv(wanted)
    assert json.loads(both[1].read_text()) == json.loads(board_json(wanted))


def test_static_whole_board_is_that_of_the_protocol(driver: webdriver.Chrome, site: Path, shown: SuiteView) -> None:
    show(driver, (site / "board-quick-v1.html").as_uri())
    see(driver, offered, [f"board-quick-v1-roar-scalar.{ending}" for ending in ("csv", "json", "tex", "md")])
    Select(driver.find_element(By.NAME, "protocol")).select_by_visible_text("kar")
    files = [f"board-quick-v1-kar-scalar.{ending}" for ending in ("csv", "json", "tex", "md")]
    see(driver, offered, files)
    texts = {name.rpartition(".")[2]: (site / name).read_text() for name in files}
    assert texts == board_files(board_of(shown, "kar"))


def offered(driver: webdriver.Chrome) -> list[str]:
    links = driver.find_elements(By.CSS_SELECTOR, "a[download]")
    return [link.get_attribute("href").rpartition("/")[2] for link in links if link.is_displayed()]


def test_static_mask_only_shows_accuracies(driver: webdriver.Chrome, site: Path, shown: SuiteView) -> None:
    show(driver, (site / "board-quick-v1.html").as_uri() + "#protocol=mask-only")
    check_mask_only(driver, shown)


def check_mask_only(driver: webdriver.Chrome, shown: SuiteView) -> None:
    wanted = {entry.estimator: entry.accuracies[0] for entry in board_of(shown, "mask-only").rows}
    assert {low for _, low, _ in wanted.values()} == {None}  # one training, which says nothing about others
    lines = [f"t = 0.9: {100 * value:.1f}%" for value, _, _ in wanted.values()]
    see(driver, rows, list(wanted))
    see(driver, lambda d: told(d, f"{ROWS} .accuracy", "innerText"), lines)
    headings = [heading.text for heading in driver.find_elements(By.CSS_SELECTOR, "#board thead th")]
    assert "accuracy" in headings and not {"place", "gain", "vs Random", "KAR gain"} & set(headings)
    assert "None" not in driver.find_element(By.ID, "board").text


def test_static_rows_without_a_run_are_not_verified(driver: webdriver.Chrome, site: Path) -> None:
    show(driver, (site / "board-planted-v1.html").as_uri())
    see(driver, statuses, {"truth": "verified", "random": "verified", "truth-inverted": "–"})
    headings = {heading.text for heading in driver.find_elements(By.CSS_SELECTOR, "#board thead th")}
    assert "vs Random" in headings and not {"vs Sobel", "vs Random blurred", "masks alone"} & headings  # has none
    Select(driver.find_element(By.NAME, "status")).select_by_visible_text("verified")
    see(driver, lambda d: set(rows(d)), {"truth", "random"})


def statuses(driver: webdriver.Chrome) -> dict[str, str]:
    return dict(zip(rows(driver), told(driver, f"{ROWS} .status", "innerText"), strict=True))


def test_static_board_at_chance_places_no_row(
    driver: webdriver.Chrome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(board_store, "accuracy", lambda point: 0.2)
    with ResultsStore.open(make_store(tmp_path, SUITES["planted"], images=60)) as store:
        export(read_views(store, tmp_path), store, tmp_path / "site")
    show(driver, (tmp_path / "site" / "index.html").as_uri() + "#sort=place")
    see(driver, sorted_by, ["place ascending"])
    assert len(rows(driver)) == 3 and "–" not in gains(driver)
    assert places(driver) == ["–", "–", "–"]


def test_static_blurred_random_map_is_a_control(driver: webdriver.Chrome, site: Path, shown: SuiteView) -> None:
    """It has a row, a line of its own in every bar, and a verdict beside it in every row; twins have none of these."""
    show(driver, (site / "board-quick-v1.html").as_uri())
    check_controls(driver, shown)
    row = driver.find_element(By.CSS_SELECTOR, "[data-estimator=random-blurred]")
    assert "control" in row.text
    script = (
        "return [...document.querySelectorAll('#board .bar')].map((bar) => Object.fromEntries("
        "[...bar.querySelectorAll('line')].map((line) => [line.getAttribute('class'), line.x1.baseVal.value])))"
    )
    bars = driver.execute_script(script)
    assert len(bars) == 9 and all(bar.keys() == {"zero", "sobel", "random-blurred"} for bar in bars)
    gain = shown.table.lines["random-blurred"]
    assert all((bar["random-blurred"] < bar["zero"]) == (gain < 0) for bar in bars)


def check_controls(driver: webdriver.Chrome, shown: SuiteView) -> None:
    entries = shown.table.rows
    see(driver, rows, [entry.estimator for entry in entries])
    assert "var-grad~blurred" not in rows(driver)
    verdicts = told(driver, f"{ROWS} .blurred", "innerText")
    assert verdicts == [entry.blurred or "–" for entry in entries] and verdicts.count("–") == 1


def test_static_doubts_have_their_size(driver: webdriver.Chrome, site: Path, shown: SuiteView) -> None:
    show(driver, (site / "board-quick-v1.html").as_uri())
    check_doubts(driver, shown)


def check_doubts(driver: webdriver.Chrome, shown: SuiteView) -> None:
    entries = {entry.estimator: entry for entry in shown.table.rows}
    twins, masks = ([share_text(entry.mark(kind).share) for entry in entries.values()] for kind in ("blurred", "masks"))
    see(driver, lambda d: told(d, f"{ROWS} .twin", "innerText"), twins)
    see(driver, lambda d: told(d, f"{ROWS} .masks", "innerText"), masks)
    above = [above_text(entry.above_masks) for entry in entries.values()]
    see(driver, lambda d: told(d, f"{ROWS} .above", "innerText"), above)
    marked = {kind: [name for name, e in entries.items() if e.mark(kind).words] for kind in MARKS}
    bold = "closest('tr').dataset.estimator"
    assert [told(driver, f"{ROWS} .{name}.doubt", bold) for name in ("twin", "masks")] == [
        marked["blurred"], marked["masks"]
    ]  # fmt: skip
    assert told(driver, f"{ROWS} th .doubt:not(:empty)", bold) == [
        name for name, entry in entries.items() if entry.flag
    ]
    assert told(driver, f"{ROWS} th .doubt:not(:empty)", "innerText") == [
        entry.sign for entry in entries.values() if entry.flag
    ]
    assert 0 < len(marked["blurred"]) < len(entries)


def share_text(share: Estimate) -> str:
    return "–" if share.value is None else f"{share.value:.0%}"


@pytest.fixture(scope="module")
def leading(tmp_path_factory: pytest.TempPathFactory) -> tuple[SuiteView, Path]:
    """A suite that specific gain leads, and its pages."""
    made = tmp_path_factory.mktemp("leading")
    with ResultsStore.open(make_store(made, VERSIONS["quick", 2], images=60)) as store:
        (view,) = read_views(store, made)
        export([view], store, made / "site")
    return view, made / "site"


@pytest.mark.parametrize("protocol", ["specific", "roar", "augmented"])
def test_static_marks_stand_where_they_mean_something(
    driver: webdriver.Chrome, leading: tuple[SuiteView, Path], tmp_path: Path, protocol: str
) -> None:
    view, pages = leading
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    show(driver, (pages / "board-quick-v2.html").as_uri())
    Select(driver.find_element(By.NAME, "protocol")).select_by_visible_text(protocol)
    wanted = board_of(view, protocol)
    see(driver, rows, [entry.estimator for entry in wanted.rows])
    see(driver, lambda d: d.find_element(By.ID, "legend").text.startswith(gain_title(wanted)), True)
    shown = [protocol == "roar"] * len(wanted.rows)
    assert [cell.is_displayed() for cell in driver.find_elements(By.CSS_SELECTOR, f"{ROWS} .above")] == shown
    driver.find_element(By.CSS_SELECTOR, "[data-save=csv]").send_keys(Keys.ENTER)
    file = tmp_path / f"rows-quick-v2-{protocol}-scalar.csv"
    see(driver, lambda _: [*tmp_path.iterdir()], [file])
    assert file.read_text() == board_csv(wanted)


@pytest.mark.parametrize("width", [1280, 390])
def test_static_pages_of_gains_are_accessible_and_fit(
    driver: webdriver.Chrome, leading: tuple[SuiteView, Path], width: int
) -> None:
    use(driver, width, "light")
    for page in static_pages(leading[1]):
        show(driver, page.as_uri())
        see(driver, violations, [])
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width, page.name


def test_static_curves_of_the_paper_are_laid_over(driver: webdriver.Chrome, site: Path) -> None:
    show(driver, (site / "curves-quick-v1.html").as_uri())
    see(driver, lambda d: len(figures(d)), 6)  # three families by ROAR and MoRF; KAR has one level
    Select(driver.find_element(By.NAME, "published")).select_by_visible_text("imagenet")
    see(driver, lambda d: len(figures(d)), 6)  # three families: no MoRF in the paper
    assert all("Dashed: the paper's means" in figure.text for figure in figures(driver))
    show(driver, driver.current_url)
    see(driver, lambda d: len(figures(d)), 6)


def figures(driver: webdriver.Chrome) -> list[WebElement]:
    return [figure for figure in driver.find_elements(By.TAG_NAME, "figure") if figure.is_displayed()]


FOCUS = """
const it = document.activeElement, seen = [];
for (let node = it, depth = 0; node && depth < 3; node = node.parentElement, depth++) {
  const style = getComputedStyle(node);
  const [red, , blue] = style.borderTopColor.match(/\\d+/g).map(Number);  // a field of the app gets a blue border
  const border = it.tagName === "INPUT" && blue > red + 60;
  seen.push(style.outlineStyle !== "none" || style.boxShadow !== "none" || border || node.tagName === "CANVAS");
}
const name = it.getAttribute("aria-label") || it.name || it.innerText || it.getAttribute("data-testid") || it.tagName;
return [it.tagName, name.split("\\n").pop().trim(), seen.some(Boolean)];
"""


def tab(driver: webdriver.Chrome, count: int) -> list[tuple[str, str, bool]]:
    """What has the focus after each of so many tabs: its tag, its name, and whether that can be seen."""
    found = []
    for _ in range(count):
        webdriver.ActionChains(driver).send_keys(Keys.TAB).perform()
        with suppress(TimeoutException):  # a border of the app takes a moment to become blue
            until(driver, lambda d: d.execute_script(FOCUS)[2], patience=1)
        found.append(tuple(driver.execute_script(FOCUS)))
    return found


def test_static_controls_are_reached_by_keyboard_and_seen(driver: webdriver.Chrome, site: Path) -> None:
    use(driver, 1280, "light")
    show(driver, (site / "board-quick-v1.html").as_uri())
    until(driver, rows)
    controls = driver.find_elements(By.CSS_SELECTOR, "a, button, input, select, summary, [tabindex='0']")
    wanted = [control for control in controls if control.is_displayed() or control.get_attribute("class") == "skip"]
    reached = tab(driver, len(wanted))
    assert len(set(reached)) > 40 and all(visible for _, _, visible in reached)
    names = [name for _, name, _ in reached]
    for name in ("Skip to the content", "Curves", "search", "protocol", "level", "Show all", "gain", "var-grad", "CSV"):
        assert name in names, name
    assert names[-1] == "What each column means"


def test_static_places_are_those_of_the_records(driver: webdriver.Chrome, site: Path) -> None:
    show(driver, (site / "board-quick-v1.html").as_uri())
    written = json.loads((site / "board-quick-v1-roar-scalar.json").read_text())["rows"]
    spans = [(row["place_low"], row["place_high"]) for row in written]
    assert spans == [(1, 2), (1, 2), (3, 3), (4, 5), (5, 8), (5, 8), (4, 8), (5, 8), (9, 9)]
    see(driver, places, ["1-2", "1-2", "3", "4-5", "5-8", "5-8", "4-8", "5-8", "9"])


def test_static_entry_compare_and_back(driver: webdriver.Chrome, site: Path) -> None:
    show(driver, (site / "index.html").as_uri())
    driver.find_element(By.LINK_TEXT, "var-grad").click()
    see(driver, lambda d: first(d, "h1"), "var-grad")
    see(driver, lambda d: d.find_element(By.CSS_SELECTOR, ".maps img").get_property("naturalWidth"), 64)
    driver.find_element(By.LINK_TEXT, "Compare").click()
    Select(until(driver, lambda d: d.find_element(By.NAME, "first"))).select_by_value("gb")
    Select(driver.find_element(By.NAME, "second")).select_by_value("ig")
    see(driver, pairs, ["gb against ig"])
    show(driver, driver.current_url)
    see(driver, lambda d: first(d, "h2"), "gb against ig")
    assert pairs(driver) == ["gb against ig"] and "first=gb" in driver.current_url


def pairs(driver: webdriver.Chrome) -> list[str]:
    """The pairs of estimators that are compared and shown."""
    return [part.text for part in driver.find_elements(By.CSS_SELECTOR, ".comparison h2") if part.is_displayed()]


@pytest.mark.parametrize(("one", "other"), [("sobel", "var-grad"), ("var-grad", "sobel")])
def test_static_pair_is_that_of_the_address(
    driver: webdriver.Chrome, site: Path, quick: SuiteResults, one: str, other: str
) -> None:
    """In this order: a pair the other way round has the other sign, and its images have changed sides."""
    show(driver, (site / "compare-quick-v1.html").as_uri() + f"#first={one}&second={other}")
    see(driver, lambda d: d.find_element(By.CSS_SELECTOR, "#comparison h2").text, f"{one} against {other}")
    part = driver.find_element(By.ID, "comparison")
    wanted = compare_pair(Evidence.of(quick), one, other)
    assert part.find_element(By.CLASS_NAME, "gain").text == span(wanted.gain)
    rows = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")] for row in body_rows(part)]
    assert rows == [
        [
            f"{level.t:g}",
            span(level.difference),
            *map(str, (level.only_first, level.only_second, level.both, level.neither)),
            " ".join(map(str, level.examples_first)),
            " ".join(map(str, level.examples_second)),
        ]
        for level in wanted.levels
    ]


def span(found: Estimate) -> str:
    value, low, high = (signed(part) for part in found)
    return f"{value} [{low}, {high}]"


def body_rows(part: WebElement) -> list[WebElement]:
    return part.find_elements(By.CSS_SELECTOR, "tbody tr")


UNKNOWN = {  # address -> what is said, and what is shown instead
    "board-quick-v1.html#protocol=wurst": "There is no protocol 'wurst' here; shown: roar.",
    "board-quick-v1.html#protocol=kar&level=0.5": "There is no level '0.5' under KAR; shown: all.",
    "board-quick-v1.html#unit=wurst": "There is no unit 'wurst' under ROAR; shown: scalar.",
    "board-quick-v1.html#family=wurst": "There is no family 'wurst' here; shown: all.",
    "board-quick-v1.html#status=wurst": "There is no status 'wurst' here; shown: all.",
    "board-quick-v1.html#sort=wurst": "There is no column 'wurst' to sort by; shown: gain.",
    "compare-quick-v1.html#first=nobody": "There is no estimator 'nobody' here; shown: var-grad.",
    "curves-quick-v1.html#published=wurst": "There is no published data set 'wurst' here; shown: none.",
}


@pytest.mark.parametrize("asked", UNKNOWN)
def test_static_names_that_are_unknown_are_said(driver: webdriver.Chrome, site: Path, asked: str) -> None:
    name, _, choice = asked.partition("#")
    show(driver, (site / name).as_uri())
    see(driver, lambda d: d.find_element(By.ID, "unknown").is_displayed(), False)
    show(driver, f"{(site / name).as_uri()}#{choice}")
    see(driver, lambda d: d.find_element(By.ID, "unknown").text, UNKNOWN[asked])
    assert driver.find_element(By.ID, "unknown").is_displayed()


def test_static_back_and_forward_move_between_choices(driver: webdriver.Chrome, site: Path) -> None:
    show(driver, (site / "index.html").as_uri())
    begun = until(driver, gains)
    Select(driver.find_element(By.NAME, "protocol")).select_by_visible_text("kar")
    until(driver, lambda d: gains(d) != begun)
    kar, by_name = gains(driver), sorted(rows(driver))
    driver.find_element(By.CSS_SELECTOR, "button[data-sort=estimator]").click()
    see(driver, rows, by_name)
    driver.find_element(By.LINK_TEXT, "grad").click()
    see(driver, title, "grad - roarbench")
    driver.back()
    see(driver, rows, by_name)
    driver.back()
    see(driver, gains, kar)
    driver.back()
    see(driver, gains, begun)
    assert chosen(driver, "protocol") == "roar"
    driver.forward()
    see(driver, gains, kar)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_static_pages_are_accessible_and_fit(driver: webdriver.Chrome, site: Path, width: int, scheme: str) -> None:
    use(driver, width, scheme)
    for page in [*static_pages(site), site / "entry-random.html"]:  # two entries stand for all
        show(driver, page.as_uri())
        see(driver, violations, [])
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, f"{page.name} is {wide} wide"


def use(driver: webdriver.Chrome, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})


# ---- the app -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    yield from serve([*CLI, "leaderboard", "--store", str(folder)])


@pytest.fixture(scope="module")
def hostile_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    made = tmp_path_factory.mktemp("hostile")
    yield from serve([sys.executable, "-m", "tests.helpers.hostile_app", str(made)])


def serve(command: list[str]) -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        until_up(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def texts(driver: webdriver.Chrome) -> str:
    return driver.find_element(By.CSS_SELECTOR, "[data-testid=stMain]").text


def query(driver: webdriver.Chrome) -> dict[str, list[str]]:
    return parse_qs(urlsplit(driver.current_url).query)


def test_app_filter_reaches_the_address_and_back(driver: webdriver.Chrome, address: str) -> None:
    use(driver, 1280, "light")
    show(driver, address)
    until(driver, lambda d: "9 of 9 rows" in texts(d))
    driver.find_element(By.CSS_SELECTOR, "input[aria-label=Search]").send_keys("vargrad", Keys.ENTER)
    until(driver, lambda d: "1 of 9 rows" in texts(d) and rows(d) == ["var-grad"])
    see(driver, lambda d: query(d).get("search"), ["vargrad"])
    show(driver, driver.current_url)
    until(driver, lambda d: "1 of 9 rows" in texts(d))
    assert rows(driver) == ["var-grad"]


def pick(driver: webdriver.Chrome, label: str, option: str) -> None:
    """Choose one of a list of the app."""
    driver.find_element(By.CSS_SELECTOR, f"[data-testid=stSelectbox] input[aria-label*='{label}']").click()
    until(driver, lambda d: d.find_element(By.XPATH, f"//*[@role='option'][normalize-space()='{option}']")).click()


def test_app_back_and_forward_move_between_views(driver: webdriver.Chrome, address: str, shown: SuiteView) -> None:
    """A page, a choice, a sorted column and an entry are entries of the history, each with its title."""
    use(driver, 1280, "light")
    roar, kar = ([entry.estimator for entry in board_of(shown, name).rows] for name in ("roar", "kar"))
    board, at = "quick v1: Board - roarbench", {"suite": ["quick-v1"], "page": ["Board"]}
    show(driver, f"{address}/?suite=quick-v1&page=Board")
    views: list[tuple[Callable[[], None], tuple[str, list[str], dict[str, list[str]]]]] = [
        (lambda: None, (board, roar, at)),
        (lambda: follow(driver, "Cost"), ("quick v1: Cost - roarbench", [], {**at, "page": ["Cost"]})),
        (lambda: follow(driver, "Board"), (board, roar, at)),
        (lambda: pick(driver, "Protocol", "kar"), (board, kar, {**at, "protocol": ["kar"]})),
        (lambda: follow(driver, "estimator"), (board, sorted(kar), {**at, "protocol": ["kar"], "sort": ["estimator"]})),
        (lambda: follow(driver, "gb"), ("gb - roarbench", [], {**at, "page": ["Entry"], "estimator": ["gb"]})),
    ]

    def look(view: tuple[str, list[str], dict[str, list[str]]]) -> None:
        see(driver, lambda d: (d.title, rows(d), query(d)), view)
        settle(driver)  # buttons ask for their files last; those of a page that was left are gone, an error

    for go, view in views:
        go()
        look(view)
    for _, view in reversed(views[:-1]):
        driver.back()
        look(view)
    driver.forward()
    look(views[1][1])
    assert query(driver) == views[1][1][2]


def follow(driver: webdriver.Chrome, link: str) -> None:
    until(driver, lambda d: d.find_element(By.LINK_TEXT, link)).click()


UNKNOWN_IN_APP = {
    "page=Entry&estimator=nobody": "There is no estimator 'nobody' here; shown: var-grad.",
    "protocol=kar&level=0.5": "There is no level '0.5' under KAR; shown: all.",
    "suite=none&sort=wurst": "There is no suite 'none' here; shown: quick-v1.\n"
    "There is no column 'wurst' to sort by; shown: gain.",
}


@pytest.mark.parametrize("asked", UNKNOWN_IN_APP)
def test_app_names_that_are_unknown_are_said(driver: webdriver.Chrome, address: str, asked: str) -> None:
    show(driver, f"{address}/?{asked}")
    see(driver, lambda d: "\n".join(told(d, ".flag[role=alert]", "innerText")), UNKNOWN_IN_APP[asked])
    assert not driver.find_elements(By.CSS_SELECTOR, "[data-testid=stException]")


def test_app_sort_and_compare_from_a_link(driver: webdriver.Chrome, address: str) -> None:
    show(driver, f"{address}/?page=Compare&first=gb&second=ig")
    until(driver, lambda d: "Gain over Random of gb minus that of ig" in texts(d))
    show(driver, f"{address}/?sort=estimator&family=grad")
    until(driver, lambda d: "4 of 9 rows" in texts(d))
    see(driver, rows, ["grad", "grad-sq", "sgsq-grad", "var-grad"])
    driver.find_element(By.LINK_TEXT, "estimator").click()
    see(driver, rows, ["var-grad", "sgsq-grad", "grad-sq", "grad"])
    assert driver.find_element(By.CSS_SELECTOR, "th[aria-sort=descending]").text.startswith("estimator")


def test_app_opens_an_entry_from_its_name(driver: webdriver.Chrome, address: str) -> None:
    show(driver, address)
    follow(driver, "var-grad")
    see(driver, title, "var-grad - roarbench")
    until(driver, lambda d: "roarbench run --suite quick" in texts(d))
    assert query(driver).get("estimator") == ["var-grad"]


def test_app_by_keyboard_alone(driver: webdriver.Chrome, address: str) -> None:
    """Every choice is reached, its focus is seen, and a row is opened; the address then names its estimator."""
    use(driver, 1280, "light")
    show(driver, address)
    wanted = ["Curves", "Suite", "Search", "Protocol", "Status", "gain", "grad"]
    reached: list[tuple[str, str, bool]] = []
    while len(reached) < 60 and not (reached and reached[-1][1] == "grad"):
        reached += tab(driver, 1)
    names = [name for _, name, _ in reached]
    assert [name for name in names if name in wanted] == wanted
    assert all(visible for tag, _, visible in reached if tag in ("A", "INPUT"))
    webdriver.ActionChains(driver).send_keys(Keys.ENTER).perform()
    see(driver, lambda d: query(d).get("estimator"), ["grad"])
    until(driver, lambda d: "--estimators grad --store" in texts(d))


def test_app_board_says_what_the_static_one_says(driver: webdriver.Chrome, address: str, shown: SuiteView) -> None:
    show(driver, address)
    check_controls(driver, shown)
    assert "the dotted line the blurred random map" in texts(driver)
    check_doubts(driver, shown)
    show(driver, f"{address}/?protocol=mask-only")
    check_mask_only(driver, shown)
    assert "None" not in texts(driver)
    show(driver, f"{address}/?suite=planted-v1")
    see(driver, statuses, {"truth": "verified", "random": "verified", "truth-inverted": "–"})


def wider_than_its_box(driver: webdriver.Chrome) -> bool:
    script = "const box = document.querySelector('.wide'); return box && box.scrollWidth > box.clientWidth"
    found: bool = driver.execute_script(script)
    return found


@pytest.mark.parametrize("width", [1280, 390])
def test_board_fits_or_scrolls_in_its_own_box(driver: webdriver.Chrome, address: str, site: Path, width: int) -> None:
    use(driver, width, "light")
    for url in (address, (site / "index.html").as_uri()):
        show(driver, url)
        see(driver, wider_than_its_box, width == 390)
        main = "(document.querySelector('[data-testid=stMain]') || document.documentElement)"
        assert driver.execute_script(f"return {main}.scrollWidth") <= width, url


def test_app_runs_are_live(driver: webdriver.Chrome, address: str, folder: Path) -> None:
    """A result and a failure that come while the page is open are shown without a visit anew."""
    show(driver, f"{address}/?page=Runs&suite=planted-v1")
    made = results(SUITES["planted"], 100)
    absent = [result for point, result in made.items() if point.cell.t == 0.7]
    before = until(driver, lambda d: re.search(r"(\d+) of (\d+) runs are done", texts(d)))
    with ResultsStore.open(f"sqlite:///{folder}/results.sqlite") as store:
        store.add_all(absent[:1])
        store.failures.add(absent[1].run, "the disk is full <b>![x](y)")
    wanted = f"{int(before[1]) + 1} of {before[2]} runs are done"
    until(driver, lambda d: wanted in texts(d))
    script = "return [...document.querySelectorAll('[role=gridcell]')].map((cell) => cell.textContent)"
    until(driver, lambda d: "the disk is full <b>![x](y)" in d.execute_script(script))
    assert wanted in texts(driver)


@pytest.mark.parametrize(("protocol", "level", "family"), SAVED[:2])
def test_app_downloads_are_the_files_of_the_board(
    driver: webdriver.Chrome, address: str, shown: SuiteView, tmp_path: Path, protocol: str, level: str, family: str
) -> None:
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    show(driver, f"{address}/?protocol={protocol}" + (f"&level={level}" if level else "") + f"&family={family}")
    wanted = board_files(board_of(shown, protocol, level, family))
    stem = f"board-quick-v1-{protocol}-scalar{'-' if level else ''}{level}"
    for ending, text in wanted.items():
        save(driver, ending, tmp_path / f"{stem}.{ending}")
        assert (tmp_path / f"{stem}.{ending}").read_text() == text


def save(driver: webdriver.Chrome, ending: str, file: Path) -> None:
    path = f"//*[@data-testid='stDownloadButton']//button[.='{ending.upper()}']"
    button = until(driver, lambda d: d.find_element(By.XPATH, path))
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()
    until(driver, lambda _: file.exists())


def test_no_download_of_the_app_is_computed_by_a_spreadsheet(
    driver: webdriver.Chrome, hostile_address: str, tmp_path: Path
) -> None:
    """Tables have no files of their own beside ours, which guard such texts."""
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    for page, stem in (("Board", "board-hostile-v1-roar-scalar"), ("Compare", "compare-hostile-v1")):
        show(driver, f"{hostile_address}/?page={page}&suite=hostile-v1&first=%3DHYPERLINK(0)&second=random")
        until(driver, lambda d: d.find_elements(By.CSS_SELECTOR, "[data-testid=stDownloadButton]"))
        for grid in driver.find_elements(By.CSS_SELECTOR, "[data-testid=stDataFrame]"):
            driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", grid)
            webdriver.ActionChains(driver).move_to_element(grid).perform()
        tools = driver.find_elements(By.CSS_SELECTOR, "[data-testid=stElementToolbar] button")
        assert not [tool for tool in tools if "CSV" in (tool.get_attribute("aria-label") or "")]
        save(driver, "csv", tmp_path / f"{stem}.csv")
        cells = [cell for row in csv.reader((tmp_path / f"{stem}.csv").read_text().splitlines()) for cell in row]
        assert "'=HYPERLINK(0)" in cells and "=HYPERLINK(0)" not in cells


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_app_pages_are_accessible_and_fit(
    driver: webdriver.Chrome, address: str, page: str, width: int, scheme: str
) -> None:
    """Streamlit's own parts aside, named in FOREIGN: they cannot be changed from here."""
    use(driver, width, scheme)
    show(driver, f"{address}/?page={page}&second=sobel")
    alone = {"Entry": "var-grad", "Compare": "var-grad against sobel", "About": "About"}
    named = alone.get(page, f"quick v1: {page}")
    see(driver, lambda d: (d.title, told(d, "h1", "innerText")), (f"{named} - roarbench", [named]))
    see(driver, lambda d: told(d, "nav [aria-current=page]", "innerText"), [page])
    assert not driver.find_elements(By.CSS_SELECTOR, "[data-testid=stException]")
    see(driver, lambda d: [found for found in violations(d) if not found.startswith(FOREIGN)], [])
    main = "document.querySelector('[data-testid=stMain]')"
    assert driver.execute_script(f"return Math.max(document.body.scrollWidth, {main}.scrollWidth)") <= width
    for grid in driver.find_elements(By.CSS_SELECTOR, "[data-testid=stDataFrame]"):
        assert grid.size["width"] <= width  # it scrolls in itself


FOREIGN = (
    'duplicate-id-active: <td role="gridcell"',  # cells of two of its tables on one page share their ids
    "scrollable-region-focusable: <pre",  # its code blocks cannot be scrolled by keyboard
)


def test_hostile_text_does_nothing_on_static_pages(
    driver: webdriver.Chrome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, row in hostile.ROWS.items():
        monkeypatch.setitem(ESTIMATORS, name, row)
    monkeypatch.setitem(DATASETS, hostile.DATASET.name, hostile.DATASET)
    monkeypatch.setitem(SUITES, hostile.NAME, hostile.hostile_suite())
    monkeypatch.setitem(VERSIONS, (hostile.NAME, hostile.hostile_suite().version), hostile.hostile_suite())
    with ResultsStore.open(make_store(tmp_path, SUITES[hostile.NAME], images=60)) as store:
        export(read_views(store, tmp_path), store, tmp_path / "site")
    for page in sorted((tmp_path / "site").glob("*.html")):
        show(driver, page.as_uri())
        see(driver, lambda d: len(d.find_elements(By.TAG_NAME, "h1")), 1)
        assert driver.execute_script("return window.hurt") is None, page.name
        assert not driver.find_elements(By.CSS_SELECTOR, "[onload], [onerror], a[href^=javascript]"), page.name
    show(driver, (tmp_path / "site" / "index.html").as_uri() + "#protocol=morf&search=hurt")
    until(driver, lambda d: 0 < len(rows(d)) < len(hostile.NAMES))  # rows are found by what they are called


@pytest.mark.parametrize("page", PAGES)
def test_hostile_text_does_nothing(driver: webdriver.Chrome, hostile_address: str, page: str) -> None:
    use(driver, 1280, "light")
    show(driver, f"{hostile_address}/?page={page}&suite=hostile-v1")
    until(driver, lambda d: d.find_elements(By.TAG_NAME, "h1"))
    assert driver.execute_script("return window.hurt") is None
    assert not driver.find_elements(By.CSS_SELECTOR, "[data-testid=stException], [onload], [onerror]")
    images = driver.find_elements(By.CSS_SELECTOR, "img")
    assert all("pixel" not in (image.get_attribute("src") or "") for image in images)

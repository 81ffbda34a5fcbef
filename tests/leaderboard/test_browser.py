"""The pages in headless Chromium, static and in the app: what a reader does, and what must never happen.

A page is read when it stands, and a state that comes is waited for: no test reads a page that may still change.
"""

import json
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest
import time_board
from screenshots import run_server, start_browser, wait_until_drawn
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.protocols import OWN_NETWORK, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.report.plain_table_rows import format_csv
from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers.board_store import export_without_cards, make_store, results, views_of
from tests.helpers.command_line import publish

pytestmark = pytest.mark.browser

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
ROWS = ".board tbody tr:not([hidden])"
WIDTHS = (390, 768, 1280, 1920)
PATIENCE = 60  # seconds that a busy machine may take; what comes sooner is seen sooner
GONE = (NoSuchElementException, StaleElementReferenceException)  # the page is being drawn anew


def show(driver, url):
    """Load a page anew, also where its address differs from the last one's in the hash alone, until it stands."""
    driver.get("about:blank")
    driver.get(url)
    wait_until_drawn(driver)


def until(driver, read):
    """Wait until there is something to read, and return it."""
    return WebDriverWait(driver, PATIENCE, 0.05, GONE).until(read)


def see(driver, read, wanted):
    """Wait until this is read; if it never is, fail with the difference and the page's address."""
    with suppress(TimeoutException):
        until(driver, lambda d: read(d) == wanted)
    assert read(driver) == wanted, driver.current_url


@pytest.fixture(scope="module")
def driver(require):
    require("chromium", "apt-get install chromium")
    require("chromedriver", "apt-get install chromium-driver")
    with start_browser() as made:
        yield made


@pytest.fixture(autouse=True)
def watched(driver):
    """No test may leave an error on the console, or have asked another origin for anything."""
    use(driver, 1280)
    for log in ("browser", "performance"):
        driver.get_log(log)
    yield
    assert not [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    asked = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [event["params"]["request"]["url"] for event in asked if event["method"] == "Network.requestWillBeSent"]
    assert not [url for url in urls if not at_home(url)]


def at_home(url):
    parts = urlsplit(url)
    local = parts.hostname == "127.0.0.1" and parts.port != 9
    return local or parts.scheme in ("file", "data", "blob", "about", "chrome")


@pytest.fixture(scope="module")
def demo_site(tmp_path_factory):
    """Export the suites `quick` and `quick-matched` of the demo."""
    store = tmp_path_factory.mktemp("demo")
    import_module("make_demo").write_demo(store, ("quick", "quick-matched"))
    with views_of(store) as found:
        return export_without_cards(found, tmp_path_factory.mktemp("site"))


def told(driver, selector, what="textContent"):
    """What all these say, at one moment."""
    script = f"return [...document.querySelectorAll(arguments[0])].map((part) => part.{what})"
    return driver.execute_script(script, selector)


def ids(driver):
    return told(driver, f"{ROWS} th code")


def use(driver, width, scheme="light"):
    size = {"width": width, "height": 844 if width < 500 else 800, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})


def violations(driver, rules=RULES):
    """What axe-core finds against WCAG 2.1 AA, as rule and first place."""
    driver.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    script = "axe.run(document, {runOnly: arguments[0]}).then(arguments[1])"
    found = driver.execute_async_script(script, rules)["violations"]
    return [f"{rule['id']}: {rule['nodes'][0]['html'][:200]}" for rule in found]


def fits(driver, width):
    main = "(document.querySelector('[data-testid=stMain]') ?? document.body)"
    return driver.execute_script(f"return Math.max(document.body.scrollWidth, {main}.scrollWidth)") <= width


def list_kinds_of_parts(driver):
    """What rules of accessibility are about: tags with their parent, class and attributes, and what of it is empty."""
    script = """
        const said = (part) => [...part.attributes].map((one) => one.name + (one.value.trim() ? "" : "!"));
        return [...document.querySelectorAll("body *")].map((part) => [part.parentNode.nodeName, part.nodeName,
            part.getAttribute("class"), !part.textContent.trim(), ...said(part)].join(" "))"""
    return set(driver.execute_script(script))


def test_every_page_fits_every_width_and_is_accessible(driver, demo_site):
    """Dark has other colours and nothing else; a page without new kinds of parts breaks no rule that others keep."""
    seen = set()
    for page in sorted(demo_site.glob("*.html")):
        show(driver, page.as_uri())
        for width in WIDTHS:
            use(driver, width)
            see(driver, lambda d, width=width: fits(d, width), True)
        if (kinds := list_kinds_of_parts(driver)) <= seen:
            continue
        seen |= kinds
        for width, scheme, rules in ((390, "light", RULES), (768, "dark", ["color-contrast"])):
            use(driver, width, scheme)
            assert violations(driver, rules) == [], (page.name, scheme)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_row_stands_in_the_first_screen_and_rows_are_low(driver, demo_site, width):
    use(driver, width)
    show(driver, (demo_site / "index.html").as_uri())
    script = f"const r = document.querySelector('{ROWS}').getBoundingClientRect(); return [r.bottom, r.height]"
    bottom, height = driver.execute_script(script)
    assert bottom < (800 if width == 1280 else 844) and (width == 390 or height <= 43), "a verdict below each gain"
    show(driver, (demo_site / "board-quick-v6.html").as_uri())
    assert width == 390 or driver.execute_script(script)[1] <= 33.5
    doubts = driver.find_element(By.CSS_SELECTOR, ".doubts")
    doubts.find_element(By.TAG_NAME, "summary").click()
    see(driver, lambda _: doubts.find_element(By.TAG_NAME, "li").is_displayed(), True)


def test_the_keyboard_reaches_the_first_row_in_eight_stops_and_cost_is_a_choice_of_the_axis(driver, demo_site):
    show(driver, (demo_site / "board-quick-v6.html").as_uri())
    driver.switch_to.active_element.send_keys(Keys.TAB)
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    see(driver, lambda d: d.execute_script("return document.activeElement.id"), "rows")
    for _ in range(6):
        webdriver.ActionChains(driver).send_keys(Keys.TAB).perform()
        if driver.execute_script("return !!document.activeElement.closest('#rows tr')"):
            break
    assert driver.execute_script("return document.activeElement.closest('tr').rowIndex") == 1
    assert driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle") != "none"
    left = "getBoundingClientRect().left"
    before = told(driver, ".board .bar u:not(.free)", left)
    driver.find_element(By.CSS_SELECTOR, "[name=x][value=cost]").click()
    see(driver, lambda d: told(d, ".board .bar u:not(.free)", left) == before, False)
    assert not driver.find_element(By.CSS_SELECTOR, ".ax.gains").is_displayed()
    assert driver.find_element(By.CSS_SELECTOR, ".ax.costs").is_displayed() and "x=cost" in driver.current_url


@pytest.mark.parametrize("width", [1280, 390])
def test_both_questions_sort_the_rows(driver, demo_site, width):
    """The largest gain first, rows without one last; a second click gives the first order back."""
    use(driver, width)
    show(driver, (demo_site / "index.html").as_uri())
    first = until(driver, ids)
    assert len(first) == 13
    for key in ("roar", "own-network"):
        driver.find_element(By.CSS_SELECTOR, f"[data-sort={key}]").click()
        gains = driver.execute_script(f"return [...document.querySelectorAll('{ROWS}')].map((r) => r.dataset)")
        values = [row["roar" if key == "roar" else "ownNetwork"] for row in gains]
        there = [float(value) for value in values if value]
        assert there == sorted(there, reverse=True) and not any(values[len(there) :])
        assert len(there) == (6 if key == "roar" else 13)
        driver.find_element(By.CSS_SELECTOR, f"[data-sort={key}]").click()
        assert ids(driver) == first


def search(driver, words):
    field = driver.find_element(By.CSS_SELECTOR, ".find input[type=search]")
    field.clear()
    field.send_keys(words)


@pytest.mark.parametrize("shell", ["site", "app"])
def test_choices(driver, views, request, shell):
    """Search without Enter, family, order and axis change what they should; a copied address shows it again."""
    view, made = views["quick-v2"], request.getfixturevalue(shell)
    show(driver, f"{made}/?suite=quick-v2" if shell == "app" else (made / "index.html").as_uri())
    order = [row.id for row in view.board.rows]
    whole = until(driver, lambda d: told(d, f"{ROWS} .place"))
    see(driver, ids, order)
    search(driver, "guided")
    see(driver, ids, ["gb"])
    place = told(driver, f"{ROWS} .place")
    assert place == [whole[order.index("gb")]] and place != ["1"], "a filter awards no place"
    said = f"1 of {len(order)} rows; places are among all rows"
    assert "q=guided" in driver.current_url and told(driver, ".find output") == [said]
    search(driver, " ")
    search(driver, "control")
    see(driver, lambda d: set(ids(d)), {row.id for row in view.board.rows if row.control})
    search(driver, " ")
    driver.find_element(By.CSS_SELECTOR, "[data-sort=name]").click()
    names = sorted((f"{row.name} {row.detail}".lower(), order.index(row.id)) for row in view.board.rows)
    see(driver, ids, [order[at] for _, at in names])
    assert "Estimator" in told(driver, "th[aria-sort]")[0]
    shown, address = ids(driver), driver.current_url
    show(driver, address)
    see(driver, ids, shown)


def test_19_suites_of_40_rows_are_few_files_that_fit(driver, tmp_path, monkeypatch):
    for name, value in (("IMAGES", 40), ("SUITE_COUNT", 19), ("SEEDS", 2)):
        monkeypatch.setattr(time_board, name, value)
    with patch.dict(SUITES), patch.dict(VERSIONS), patch.dict(ESTIMATORS):
        time_board.fill_store(tmp_path, time_board.install_made_up_suites(40))
        with views_of(tmp_path) as made:
            site = export_without_cards(made, tmp_path / "site")
    assert {len(view.board.rows) for view in made.values()} == {40} and len(made) == 19
    assert len(list(site.iterdir())) <= 485 // 2
    for page in ("suites", "index"):
        show(driver, (site / f"{page}.html").as_uri())
        for width in WIDTHS:
            use(driver, width)
            see(driver, lambda d, width=width: fits(d, width), True)
    assert len(ids(driver)) == 40 and violations(driver) == []


def test_the_script_that_times_pages_finds_rows_where_the_first_page_is_the_overview(driver, tmp_path, monkeypatch):
    blocks = tuple(Block(protocol, ("random", "sobel", "grad"), (0.9,), seeds=1) for protocol in (ROAR, OWN_NETWORK))
    for name in ("one", "two"):
        publish(monkeypatch, suite := replace(SUITES["quick"], name=name, blocks=blocks))
        make_store(tmp_path, suite, images=20)
    with views_of(tmp_path) as made:
        site = export_without_cards(made, tmp_path / "site")
    views, found = time_board.time_site_visit(driver, site, "one@7")
    assert len(views) == 4 and min(views) > 0 < found and len(ids(driver)) == 1


@pytest.fixture(scope="module")
def folder(quick_folder, tmp_path_factory):
    return shutil.copytree(quick_folder, tmp_path_factory.mktemp("app") / "store")


OLDER_CLI = (sys.executable, "-m", "tests.helpers.older_suites")


@pytest.fixture(scope="module")
def app(folder):
    with run_server([*OLDER_CLI, "leaderboard", "--store", str(folder)], cache=folder / "cache") as address:
        yield address


def test_app_links_stay_in_its_session_back_returns_and_it_saves_what_it_shows(driver, app, views, tmp_path):
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    show(driver, f"{app}/?suite=quick-v2")
    view = views["quick-v2"]
    leading, roar = ([row.id for row in board.rows] for board in (view.board, view.get_board(ROAR)))
    see(driver, ids, leading)
    driver.execute_script("window.same = true")
    driver.find_element(By.LINK_TEXT, "ROAR (2019)").click()
    see(driver, ids, roar)
    driver.find_element(By.LINK_TEXT, "VarGrad").click()
    see(driver, lambda d: (d.title, told(d, "h1")), ("VarGrad – roarbench", ["VarGrad"]))
    driver.back()
    see(driver, ids, roar)
    assert driver.execute_script("return window.same")
    show(driver, f"{app}/?suite=quick-v2&level=0.5")
    path = "//*[@data-testid='stDownloadButton']//button"
    until(driver, lambda d: d.find_element(By.XPATH, path)).click()
    file = tmp_path / "board-quick-v2-augmented-scalar-0.5.csv"
    until(driver, lambda _: file.exists())
    assert file.read_text() == format_csv(view.table(view.headline_protocol, levels=(0.5,))) + "\n"


def test_app_shows_new_results_and_failures_by_itself(driver, app, folder):
    show(driver, f"{app}/?suite=planted-v1")
    before = until(driver, lambda d: told(d, "footer .runs"))
    made = results(SUITES["planted"], 100).items()
    absent = [result for point, result in made if point.cell.estimator == "truth-inverted"]
    with ResultsStore.open(make_default_url(folder)) as store:
        store.add_results(absent[:1])
        store.failures.record_failed_runs([absent[1].run], "the disk is full <b>![x](y)")
    see(driver, lambda d: told(d, "footer .runs") == before, False)
    assert until(driver, lambda d: any("the disk is full <b>![x](y)" in line for line in told(d, "footer li")))


APP_PAGES = ("suite=quick-v2", "page=method&estimator=grad", "page=suites", "page=claims", "page=trust", "page=none")


@pytest.mark.parametrize("asked", APP_PAGES)
def test_app_pages_are_accessible_and_fit(driver, app, asked):
    show(driver, f"{app}/?{asked}")
    for width, scheme in ((1280, "light"), (390, "dark")):
        use(driver, width, scheme)
        until(driver, lambda d: told(d, "h1"))
        assert [found for found in violations(driver) if not found.startswith("aria-")] == [], asked
        see(driver, lambda d, width=width: fits(d, width), True)
    assert not driver.find_elements(By.CSS_SELECTOR, "[data-testid=stException]")
    assert all(told(driver, "img", "naturalWidth")) and ("method" not in asked or told(driver, ".figures img", "alt"))


def test_hostile_text_does_nothing(driver, tmp_path):
    harm = "[data-testid=stException], [onload], [onerror], a[href^=javascript]"
    with run_server([sys.executable, "-m", "tests.helpers.hostile", str(tmp_path)], cache=tmp_path / "cache") as app:
        for page in ("board", "method", "suites", "claims", "compare"):
            show(driver, f"{app}/?page={page}&estimator=%3Cscript%3Ewindow.hurt%3D1%3C%2Fscript%3E")
            until(driver, lambda d: told(d, "h1"))
            assert driver.execute_script("return window.hurt") is None, page
            assert not driver.find_elements(By.CSS_SELECTOR, harm), page
            assert all("pixel" not in (source or "") for source in told(driver, "img", "src")), page
        driver.get("about:blank")  # a page asks for its server as long as it stands

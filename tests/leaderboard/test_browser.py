"""Pages in headless Chromium, static and in the app: layout, accessibility, sorting, search and hostile text.

Tests read a page only after it is drawn and wait for every later state, so no test reads a changing page.
"""

import json
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from itertools import pairwise
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

from leaderboard.figures import draw_curve_panels_as_webp
from leaderboard.render import load_templates
from leaderboard.suite_report import render_report
from roarbench.estimators.catalogue import ESTIMATORS, find_display_name
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import OWN_NETWORK, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITE_VERSIONS, SUITES
from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers.board_store import export_pages, make_store, open_views, results
from tests.helpers.command_line import publish
from tests.helpers.older_suites import OLDER
from tests.helpers.shown_tables import render

pytestmark = pytest.mark.browser

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
ROWS = ".board tbody tr:not([hidden])"
WIDTHS = (390, 768, 1280, 1920)
PATIENCE = 60  # seconds that a busy machine may take; waiting ends early
GONE = (NoSuchElementException, StaleElementReferenceException)  # the page is being drawn anew


def load_page(driver, url):
    """Load a page anew, even if only the hash of its address changes, and wait until it is drawn."""
    if driver.current_url.partition("#")[0] == url.partition("#")[0]:
        driver.get("about:blank")
    driver.get(url)
    wait_until_drawn(driver)


def wait_for(driver, read):
    return WebDriverWait(driver, PATIENCE, 0.05, GONE).until(read)


def wait_for_value(driver, read, wanted):
    """Wait until `read` returns the wanted value, or fail with the difference and the page's address."""
    with suppress(TimeoutException):
        wait_for(driver, lambda d: read(d) == wanted)
    assert read(driver) == wanted, driver.current_url


@pytest.fixture(scope="module")
def driver(require):
    require("chromium", "apt-get install chromium")
    require("chromedriver", "apt-get install chromium-driver")
    with start_browser() as made:
        yield made


@pytest.fixture(autouse=True)
def check_console_and_requests(driver):
    """Fail if a test leaves an error on the console or sends a request to another origin."""
    set_screen(driver, 1280)
    for log in ("browser", "performance"):
        driver.get_log(log)
    yield
    assert not [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    asked = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [event["params"]["request"]["url"] for event in asked if event["method"] == "Network.requestWillBeSent"]
    assert not [url for url in urls if not is_local(url)]


def is_local(url):
    parts = urlsplit(url)
    local = parts.hostname == "127.0.0.1" and parts.port != 9
    return local or parts.scheme in ("file", "data", "blob", "about", "chrome")


@pytest.fixture(scope="module")
def demo_site(tmp_path_factory):
    store = tmp_path_factory.mktemp("demo")
    import_module("make_demo").write_demo(store, ("quick", "quick-matched"))
    with open_views(store) as found:
        return export_pages(found, tmp_path_factory.mktemp("site"))


def read_texts(driver, selector, what="textContent"):
    """Return this property of all matching elements, read at one moment."""
    script = f"return [...document.querySelectorAll(arguments[0])].map((part) => part.{what})"
    return driver.execute_script(script, selector)


def list_row_ids(driver):
    return read_texts(driver, f"{ROWS} th code")


def set_screen(driver, width, scheme="light"):
    size = {"width": width, "height": 844 if width < 500 else 800, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})


def find_violations(driver, rules=RULES):
    """Return violations of WCAG 2.1 AA and of good practice found by axe-core, as rule and first element."""
    driver.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    script = "axe.run(document, {runOnly: arguments[0]}).then(arguments[1])"
    found = driver.execute_async_script(script, rules)["violations"]
    return [f"{rule['id']}: {rule['nodes'][0]['html'][:200]}" for rule in found]


def fits_width(driver, width):
    main = "(document.querySelector('[data-testid=stMain]') ?? document.body)"
    return driver.execute_script(f"return Math.max(document.body.scrollWidth, {main}.scrollWidth)") <= width


def check_every_width(driver):
    for width in WIDTHS:
        set_screen(driver, width)
        wait_for_value(driver, lambda d, width=width: fits_width(d, width), True)


def list_kinds_of_parts(driver):
    """Return the kinds of elements: tag, parent, class, attributes, and which of them are empty."""
    script = """
        const said = (part) => [...part.attributes].map((one) => one.name + (one.value.trim() ? "" : "!"));
        return [...document.querySelectorAll("body *")].map((part) => [part.parentNode.nodeName, part.nodeName,
            part.getAttribute("class"), !part.textContent.trim(), ...said(part)].join(" "))"""
    return set(driver.execute_script(script))


def test_every_page_fits_every_width_and_is_accessible(driver, demo_site):
    """Dark mode changes colours alone; axe-core checks only pages with new kinds of elements."""
    seen = set()
    for page in sorted(demo_site.glob("*.html")):
        load_page(driver, page.as_uri())
        check_every_width(driver)
        if (kinds := list_kinds_of_parts(driver)) <= seen:
            continue
        seen |= kinds
        for width, scheme, rules in ((390, "light", RULES), (768, "dark", ["color-contrast"])):
            set_screen(driver, width, scheme)
            assert find_violations(driver, rules) == [], (page.name, scheme)


@pytest.mark.parametrize("width", [1280, 390])
def test_links_in_text_are_underlined_headings_named_and_links_apart(driver, demo_site, width):
    """The axe-core of the tests is older than these rules of WCAG 2.2 and of good practice."""
    set_screen(driver, width)
    load_page(driver, (demo_site / "board-quick-v8.html").as_uri())
    lines = driver.execute_script(
        "return [...document.querySelectorAll('p a, dd a')].map((link) => getComputedStyle(link).textDecorationLine)"
    )
    assert lines and {*lines} == {"underline"}
    assert all(text.strip() for text in read_texts(driver, ".board th"))
    assert min(read_texts(driver, ".board thead button", "getBoundingClientRect().height") or [24]) >= 23.9
    tops = {*read_texts(driver, ".suites > a", "getBoundingClientRect().top")}
    assert len(tops) == 1 or min(low - high for high, low in pairwise(sorted(tops))) >= 24
    intervals = driver.execute_script(
        "return [...document.querySelectorAll('.board .value small')].map((part) => part.getClientRects().length)"
    )
    assert intervals and all(intervals), "a phone has no axis, so a gain needs its interval"


@pytest.mark.parametrize("width", [1280, 390])
def test_board_shows_first_row_on_first_screen_with_low_rows(driver, demo_site, width):
    set_screen(driver, width)
    load_page(driver, (demo_site / "index.html").as_uri())
    script = f"const r = document.querySelector('{ROWS}').getBoundingClientRect(); return [r.bottom, r.height]"
    bottom, height = driver.execute_script(script)
    assert bottom < (800 if width == 1280 else 844) and (width == 390 or height <= 51), "verdict and gains per level"
    load_page(driver, (demo_site / "board-quick-v6.html").as_uri())
    assert width == 390 or driver.execute_script(script)[1] <= 33.5
    doubts = driver.find_element(By.CSS_SELECTOR, ".doubts")
    doubts.find_element(By.TAG_NAME, "summary").click()
    wait_for_value(driver, lambda _: doubts.find_element(By.TAG_NAME, "li").is_displayed(), True)


def test_board_keyboard_reaches_first_row(driver, demo_site):
    load_page(driver, (demo_site / "board-quick-v6.html").as_uri())
    driver.switch_to.active_element.send_keys(Keys.TAB)
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for_value(driver, lambda d: d.execute_script("return document.activeElement.id"), "rows")
    for _ in range(6):
        webdriver.ActionChains(driver).send_keys(Keys.TAB).perform()
        if driver.execute_script("return !!document.activeElement.closest('#rows tr')"):
            break
    assert driver.execute_script("return document.activeElement.closest('tr').rowIndex") == 1
    assert driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle") != "none"


@pytest.mark.parametrize("width", [1280, 640])
def test_no_cell_cuts_the_outline_of_a_focused_part(driver, demo_site, width):
    """An outline ends five pixels beside its part; 640 pixels are a screen of 1,280 at 200 %."""
    set_screen(driver, width)
    load_page(driver, (demo_site / "board-quick-v6-roar.html").as_uri())
    script = """return [...document.querySelectorAll("#rows a, .doubts summary, .tabs a")].map((part) => {
        const box = part.closest("th, .why, .tabs"), style = getComputedStyle(box);
        const [inner, outer] = [part, box].map((one) => one.getBoundingClientRect());
        const beyond = {visible: 5, clip: parseFloat(style.overflowClipMargin)}[style.overflow] ?? 0;
        return beyond + Math.min(inner.top - outer.top, outer.bottom - inner.bottom);
    })"""
    assert min(driver.execute_script(script)) > 3


@pytest.mark.parametrize("width", [1280, 390])
def test_both_gain_columns_sort_rows(driver, demo_site, width):
    """The first click puts the largest gain first and rows without gain last; the second restores the order."""
    set_screen(driver, width)
    load_page(driver, (demo_site / "index.html").as_uri())
    first = wait_for(driver, list_row_ids)
    assert len(first) == 15, "ten estimators, two searches, three controls"
    for key in ("roar", "own-network"):
        driver.find_element(By.CSS_SELECTOR, f"[data-sort={key}]").click()
        gains = driver.execute_script(f"return [...document.querySelectorAll('{ROWS}')].map((r) => r.dataset)")
        values = [row["roar" if key == "roar" else "ownNetwork"] for row in gains]
        there = [float(value) for value in values if value]
        assert there == sorted(there, reverse=True) and not any(values[len(there) :])
        assert len(there) == (6 if key == "roar" else 15)
        driver.find_element(By.CSS_SELECTOR, f"[data-sort={key}]").click()
        assert list_row_ids(driver) == first


def type_search(driver, words):
    field = driver.find_element(By.CSS_SELECTOR, ".find input[type=search]")
    field.clear()
    field.send_keys(words)


@pytest.mark.parametrize("shell", ["site", "app"])
def test_board_search_and_sorting_change_rows_and_address(driver, views, request, shell):
    """Search needs no Enter, a filter keeps ranks, and a copied address restores the choices."""
    view, made = views["quick-v2"], request.getfixturevalue(shell)
    load_page(driver, f"{made}/?suite=quick-v2" if shell == "app" else (made / "index.html").as_uri())
    order = [row.id for row in view.board.rows]
    whole = wait_for(driver, lambda d: read_texts(d, f"{ROWS} .place"))
    wait_for_value(driver, list_row_ids, order)
    type_search(driver, "guided")
    wait_for_value(driver, list_row_ids, ["gb"])
    place = read_texts(driver, f"{ROWS} .place")
    assert place == [whole[order.index("gb")]] and place != ["1"], "a filter awards no place"
    said = f"1 of {len(order)} rows; places are among all rows"
    assert "q=guided" in driver.current_url and read_texts(driver, ".find output") == [said]
    type_search(driver, " ")
    type_search(driver, "control")
    wait_for_value(driver, lambda d: set(list_row_ids(d)), {row.id for row in view.board.rows if row.control})
    type_search(driver, " ")
    driver.find_element(By.CSS_SELECTOR, "[data-sort=name]").click()
    names = sorted((f"{row.name} {row.detail}".lower(), order.index(row.id)) for row in view.board.rows)
    wait_for_value(driver, list_row_ids, [order[at] for _, at in names])
    assert "Estimator" in read_texts(driver, "th[aria-sort]")[0]
    shown, address = list_row_ids(driver), driver.current_url
    load_page(driver, address)
    wait_for_value(driver, list_row_ids, shown)


def test_site_of_19_suites_with_40_rows_has_few_files_that_fit(driver, tmp_path, monkeypatch):
    """The suites differ only in random results: all show the curves of the first, which take a second to draw."""
    drawn = []

    def draw_once(table):
        drawn[:] = drawn or [draw_curve_panels_as_webp(table)]
        return drawn[0]

    monkeypatch.setattr("leaderboard.page.board.draw_curve_panels_as_webp", draw_once)
    for name, value in (("IMAGES", 40), ("SUITE_COUNT", 19), ("SEEDS", 2)):
        monkeypatch.setattr(time_board, name, value)
    with patch.dict(SUITES), patch.dict(SUITE_VERSIONS), patch.dict(ESTIMATORS):
        time_board.fill_store(tmp_path, time_board.install_made_up_suites(40))
        with open_views(tmp_path) as made:
            site = export_pages(made, tmp_path / "site")
    assert {len(view.board.rows) for view in made.values()} == {40} and len(made) == 19
    assert len(list(site.iterdir())) <= 485 // 2
    for page in ("suites", "index"):
        load_page(driver, (site / f"{page}.html").as_uri())
        check_every_width(driver)
    assert len(list_row_ids(driver)) == 40 and find_violations(driver) == []


def test_time_board_script_finds_rows_behind_overview_page(driver, tmp_path, monkeypatch):
    blocks = tuple(Block(protocol, ("random", "sobel", "grad"), (0.9,), seeds=1) for protocol in (ROAR, OWN_NETWORK))
    for name in ("one", "two"):
        publish(monkeypatch, suite := replace(SUITES["quick"], name=name, blocks=blocks))
        make_store(tmp_path, suite, images=20)
    with open_views(tmp_path) as made:
        site = export_pages(made, tmp_path / "site")
    views, found = time_board.time_site_visit(driver, site, f"one@{suite.version}")
    assert len(views) == 4 and min(views) > 0 < found and len(list_row_ids(driver)) == 1


@pytest.fixture(scope="module")
def folder(quick_folder, tmp_path_factory):
    return shutil.copytree(quick_folder, tmp_path_factory.mktemp("app") / "store")


@pytest.fixture(scope="module")
def app(folder):
    command = [sys.executable, "-m", "tests.helpers.older_suites", "leaderboard", "--store", str(folder)]
    with run_server(command) as address:
        yield address


def test_app_keeps_session_on_links_and_downloads_shown_table(driver, app, views, tmp_path):
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    load_page(driver, f"{app}/?suite=quick-v2")
    view = views["quick-v2"]
    leading, roar = ([row.id for row in board.rows] for board in (view.board, view.get_board(ROAR)))
    wait_for_value(driver, list_row_ids, leading)
    driver.execute_script("window.same = true")
    driver.find_element(By.LINK_TEXT, "ROAR").click()
    wait_for_value(driver, list_row_ids, roar)
    driver.find_element(By.LINK_TEXT, "VarGrad").click()
    wait_for_value(driver, lambda d: (d.title, read_texts(d, "h1")), ("VarGrad – roarbench", ["VarGrad"]))
    driver.back()
    wait_for_value(driver, list_row_ids, roar)
    assert driver.execute_script("return window.same")
    load_page(driver, f"{app}/?suite=quick-v2")
    path = "//*[@data-testid='stDownloadButton']//button"
    wait_for(driver, lambda d: d.find_element(By.XPATH, path)).click()
    file = tmp_path / "board-quick-v2-matched-scalar.csv"
    wait_for(driver, lambda _: file.exists())
    assert file.read_text() == render(view.table(view.headline_protocol), "csv") + "\n"


def test_app_shows_new_results_and_failures_without_reload(driver, app, folder):
    load_page(driver, f"{app}/?suite=planted-v1")
    before = wait_for(driver, lambda d: read_texts(d, "footer .runs"))
    made = results(SUITES["planted"], 100).items()
    absent = [result for point, result in made if point.cell.estimator == "truth-inverted"]
    with ResultsStore.open(make_default_url(folder)) as store:
        store.add_results(absent[:1])
        store.failures.record_runs_failed_until_retry([absent[1].run], "the disk is full <b>![x](y)")
    wait_for_value(driver, lambda d: read_texts(d, "footer .runs") == before, False)
    assert wait_for(driver, lambda d: any("the disk is full <b>![x](y)" in line for line in read_texts(d, "footer li")))


APP_PAGES = ("suite=quick-v2", "page=estimator&estimator=grad", "page=suites", "page=claims", "page=trust", "page=none")


@pytest.mark.parametrize("asked", APP_PAGES)
def test_app_pages_are_accessible_and_fit(driver, app, asked):
    load_page(driver, f"{app}/?{asked}")
    for width, scheme in ((1280, "light"), (390, "dark")):
        set_screen(driver, width, scheme)
        wait_for(driver, lambda d: read_texts(d, "h1"))
        assert [found for found in find_violations(driver) if not found.startswith("aria-")] == [], asked
        wait_for_value(driver, lambda d, width=width: fits_width(d, width), True)
    assert not driver.find_elements(By.CSS_SELECTOR, "[data-testid=stException]")
    assert all(read_texts(driver, "img", "naturalWidth"))
    assert "page=estimator" not in asked or read_texts(driver, ".figures img", "alt")


def test_app_does_not_execute_hostile_text(driver, tmp_path):
    harm = "[data-testid=stException], [onload], [onerror], a[href^=javascript]"
    with run_server([sys.executable, "-m", "tests.helpers.hostile", str(tmp_path)]) as app:
        for page in ("board", "estimator", "suites", "claims", "compare"):
            load_page(driver, f"{app}/?page={page}&estimator=%3Cscript%3Ewindow.hurt%3D1%3C%2Fscript%3E")
            wait_for(driver, lambda d: read_texts(d, "h1"))
            assert driver.execute_script("return window.hurt") is None, page
            assert not driver.find_elements(By.CSS_SELECTOR, harm), page
            assert all("pixel" not in (source or "") for source in read_texts(driver, "img", "src")), page
        driver.get("about:blank")  # an open page keeps sending requests to its server


def test_phone_shows_charts_claims_and_thumbnails_in_its_width(driver, demo_site):
    set_screen(driver, 390)
    shown = set()
    for page in ("claims", *sorted(path.stem for path in demo_site.glob("*.html") if "quick-v" in path.stem)):
        load_page(driver, (demo_site / f"{page}.html").as_uri())
        for part in (".claims", "figure.scatter img", ".pictures li"):
            boxes = driver.execute_script(
                "return [...document.querySelectorAll(arguments[0])].map((part) => [part.scrollWidth,"
                "part.parentElement.clientWidth,"
                "part.querySelector('figure')?.lastElementChild.getBoundingClientRect().right])",
                part,
            )
            assert all(width <= room for width, room, _ in boxes), (page, part)
            assert all(end > 0.9 * 390 for *_, end in boxes if end), (page, part)
            shown |= {part} if boxes else set()
    assert {".claims", "figure.scatter img"} <= shown


def test_picture_of_one_panel_of_curves_is_not_enlarged(driver, tmp_path):
    suite = OLDER["quick@1"]
    make_store(tmp_path, suite, lambda point: point.cell.estimator in (CLEAN, "random", "sobel", "grad"), images=40)
    with open_views(tmp_path) as views:
        board = export_pages(views, tmp_path / "site") / "index.html"
    for width in (1280, 390):
        set_screen(driver, width)
        load_page(driver, board.as_uri())
        (shown,), (natural,) = (read_texts(driver, ".panels img", what) for what in ("clientWidth", "naturalWidth"))
        assert 0.5 * natural < shown <= natural and fits_width(driver, width)


def test_report_has_separate_ticks_and_intervals_also_in_print(driver, tmp_path):
    """A sheet of A4 is 718 pixels wide without its margins."""
    make_store(tmp_path, SUITES["quick"], images=20)
    with open_views(tmp_path) as made:
        (view,) = made.values()
        (tmp_path / "report.html").write_text(render_report(view), "utf-8")
    for width, media in ((1000, "screen"), (718, "print")):
        set_screen(driver, width)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
        load_page(driver, (tmp_path / "report.html").as_uri())
        axes = driver.execute_script(
            "return [...document.querySelectorAll('.ax')].filter((axis) => axis.offsetWidth).map((axis) => "
            "[...axis.children].map((tick) => tick.getBoundingClientRect()).filter((box) => box.width)"
            ".map((box) => [box.left, box.right]))"
        )
        assert axes and all(len(axis) > 1 for axis in axes)
        assert all(one[1] <= other[0] for axis in axes for one, other in pairwise(axis))
        assert {*read_texts(driver, ".value small", "offsetHeight > 0")} == {True}
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_printed_pages_show_marks_pictures_and_figures(driver, demo_site):
    """Browsers leave out backgrounds, of which marks and pictures consist, unless a page asks for its exact colours."""
    try:
        set_screen(driver, 718)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        drawn = "[...document.querySelectorAll('.bar u, .bar b, .pictures i')]"
        for page in ("index.html", "board-quick-v6-roar.html", "images-quick-v8.html", "estimator-grad.html"):
            load_page(driver, (demo_site / page).as_uri())
            colours = f"return [...new Set({drawn}.map((one) => getComputedStyle(one).printColorAdjust))]"
            assert driver.execute_script(colours) == ["exact"] and fits_width(driver, 718), page
            assert all(width > 80 for width in read_texts(driver, "td.fig", "clientWidth")), page
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_verdicts_differ_in_shape_not_only_in_colour(driver, demo_site):
    load_page(driver, (demo_site / "board-quick-v6-roar.html").as_uri())
    script = """return [...document.querySelectorAll(".key u")].map((mark) => {
        const style = getComputedStyle(mark);
        return [style.clipPath, style.borderRadius, style.transform, style.borderWidth].join();
    })"""
    shapes = driver.execute_script(script)
    assert len(shapes) == len({*shapes}) > 2
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "forced-colors", "value": "active"}]})
    script = "return [...document.querySelectorAll('.bar b')].map((bar) => getComputedStyle(bar).backgroundColor)"
    assert len({*driver.execute_script(script)}) > 2, "better, worse and neither"


def test_names_in_figure_to_embed_end_before_its_axis(driver, views, tmp_path):
    submission = "noise-mean-of-a-very-long-name-of-an-est@0123abcd(samples=2,noise=0.3)"
    names = [*(name for name, row in ESTIMATORS.items() if row.has_own_row), submission]
    board = views["quick-v1"].board
    rows = tuple(replace(board.rows[0], **find_display_name(name)._asdict()) for name in names)
    svg = load_templates().get_template("figure.svg").render(board=replace(board, rows=rows), name="n", question="q")
    (tmp_path / "figure.svg").write_text(svg, "utf-8")
    driver.get((tmp_path / "figure.svg").as_uri())
    ends = "[...document.querySelectorAll('g text[x=\"12\"]')].map((text) => text.getBBox().x + text.getBBox().width)"
    left = "Math.min(...[...document.querySelectorAll('line, text[text-anchor=middle]')].map((one) => one.getBBox().x))"
    ends, left = driver.execute_script(f"return [{ends}, {left}]")
    assert len(ends) == len(names) and {name for name, end in zip(names, ends, strict=True) if end > left} == set()


def test_printed_report_shows_gains_that_a_screen_shows_on_request(driver, tmp_path):
    make_store(tmp_path, SUITES["quick-roar"], images=40)
    with open_views(tmp_path) as made:
        (tmp_path / "report.html").write_text(render_report(made["quick-roar-v1"]), "utf-8")
    for media, shown in (("screen", 0), ("print", 5)):
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
        load_page(driver, (tmp_path / "report.html").as_uri())
        texts = read_texts(driver, "details.sub", "innerText")
        assert texts and {text.count("\u00a0at\u00a0.") for text in texts} == {shown}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

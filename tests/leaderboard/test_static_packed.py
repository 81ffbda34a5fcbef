"""A packed board says what the unpacked one says."""

import base64
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from screenshots import browser
from selenium.webdriver.common.by import By

from leaderboard import static
from leaderboard.commands import export_site
from tests.helpers.browser import show, until

pytestmark = pytest.mark.slow

SCRIPT = re.compile(r'<script type="text/plain" (id|data-file)="([^"]+)">([^<]*)</script>')


def unpacked(page: str) -> dict[str, bytes]:
    """What a page holds, by id or name of the file."""
    return {name: zlib.decompress(base64.b64decode(text), -15) for _, name, text in SCRIPT.findall(page)}


@pytest.fixture(scope="module")
def plain(quick_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    export_site(f"sqlite:///{quick_folder}/results.sqlite", quick_folder, folder)
    return folder


@pytest.fixture(scope="module")
def packed(quick_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static, "LIMIT", 0)
        export_site(f"sqlite:///{quick_folder}/results.sqlite", quick_folder, folder)
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_small_board_stays_as_it_is(plain: Path) -> None:
    assert "board-quick-v1-roar-scalar.csv" in names(plain) and "unpack.js" not in names(plain)
    assert "unpack.js" not in (plain / "board-quick-v1.html").read_text()


def test_every_page_holds_its_body_and_the_files_that_it_links(plain: Path, packed: Path) -> None:
    pages = {name for name in names(plain) if name.endswith(".html")}
    found = {name: unpacked((packed / name).read_text()) for name in pages}
    for name in pages:
        before = (plain / name).read_text()
        assert found[name].pop("packed").decode() == before.partition("<body>")[2].rpartition("</body>")[0]
        links = set(re.findall(r'href="([^"]+)" download', before))
        assert found[name] == {link: (plain / link).read_bytes() for link in links}
    assert names(packed) == names(plain) - {link for suite_results in found.values() for link in suite_results} | {
        "unpack.js"
    }
    sizes = [sum(path.stat().st_size for path in folder.iterdir()) for folder in (plain, packed)]
    assert sizes[1] < sizes[0] / 3


@pytest.mark.browser
def test_the_browser_unpacks_it(packed: Path, tmp_path: Path, require: Callable[[str, str], str]) -> None:
    require("chromium", "apt-get install chromium")
    require("chromedriver", "apt-get install chromium-driver")
    with browser() as driver:
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
        show(driver, f"{(packed / 'board-quick-v1.html').as_uri()}#search=vargrad")
        until(driver, lambda d: "1 of 9 rows" in d.find_element(By.TAG_NAME, "body").text)
        link = driver.find_element(By.CSS_SELECTOR, "a[download][href='board-quick-v1-roar-scalar.csv']")
        driver.execute_script("arguments[0].click()", link)
        file = tmp_path / "board-quick-v1-roar-scalar.csv"
        until(driver, lambda _: file.exists() and file.stat().st_size)
        assert len(file.read_text().splitlines()) == 10
        driver.execute_script("arguments[0].click()", driver.find_element(By.LINK_TEXT, "var-grad"))
        until(driver, lambda d: d.find_elements(By.TAG_NAME, "h1") and "var-grad" in d.title)
        until(driver, lambda d: d.find_elements(By.CSS_SELECTOR, "script[src='board.js']"))
        assert driver.get_log("browser") == []

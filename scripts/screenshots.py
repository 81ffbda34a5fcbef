"""Save a screenshot of every page of the leaderboard, of the static pages and the app, at two widths.

    python scripts/screenshots.py STORE FOLDER

The widths are those of a desktop and of a phone; two further screenshots have the dark theme. docs/board/ has four
screenshots of build/demo, the store of `make demo`: the board of benchmark-imagenette64 at both widths, the app with
the dark theme, and the page of an estimator.
"""

import argparse
import io
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from leaderboard.render import PAGES

ROOT = Path(__file__).resolve().parents[1]
CLI = (sys.executable, "-c", "from roarbench.cli.main import main; main()")
WIDTHS = (1280, 390)
TALLEST = 1600  # maximum height of a screenshot in pixels
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--allow-file-access-from-files",
)


@contextmanager
def start_browser(*extra: str) -> Iterator[webdriver.Chrome]:
    """Start Chromium with a new profile and without connections of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in (*FLAGS, f"--user-data-dir={profile}", *extra):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
        try:
            yield driver
        finally:
            driver.quit()


@contextmanager
def run_server(command: Sequence[str]) -> Iterator[str]:
    """Run a command that serves the app on a free port of this machine, and yield the app's address."""
    port = find_free_port()
    process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        wait_for_app(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_app(port: int) -> None:
    """Wait until the app answers; raise TimeoutError after a minute without an answer."""
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"no app on port {port} after a minute")


def save_screenshot(driver: webdriver.Chrome, address: str, width: int, path: Path, dark: bool = False) -> None:
    """Save a screenshot of the whole page as WebP, lossless or not, whichever is smaller; at most `TALLEST` high."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(address)
    wait_until_drawn(driver)
    height = driver.execute_script(
        "const e = document.querySelector('[data-testid=stMain]') || document.documentElement; return e.scrollHeight"
    )
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**size, "height": min(TALLEST, max(400, height))})
    wait_until_drawn(driver)
    driver.execute_async_script(_DECODE_IMAGES)
    picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    path.write_bytes(min((_encode_webp(picture, lossless=True), _encode_webp(picture, quality=60)), key=len))


def _encode_webp(picture: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, "WEBP", **options)
    return file.getvalue()


def wait_until_drawn(driver: webdriver.Chrome) -> None:
    """Wait until the app's script has ended and everything is drawn; static pages are drawn when they are loaded."""
    if driver.current_url.startswith("http"):
        WebDriverWait(driver, 60).until(lambda d: d.execute_script(_IS_DRAWN))


_DECODE_IMAGES = """
const visible = [...document.images].filter((image) => image.getBoundingClientRect().top < innerHeight);
Promise.all(visible.map((image) => image.decode())).then(() => requestAnimationFrame(() => setTimeout(arguments[0])));
"""
_IS_DRAWN = """
const all = (name) => [...document.querySelectorAll(name)];
return all("h1").length > 0
    && all("[data-test-script-state=notRunning]").length > 0
    && all("[data-testid=stSkeleton], [data-stale=true]").length === 0
    && all("[data-testid=stVegaLiteChart]").every((chart) => chart.querySelector("canvas, svg"))
    && all("img").every((image) => image.complete)
    && document.fonts.status === "loaded";
"""


def list_static_pages(site: Path) -> list[Path]:
    """List the pages of a site, with the page of only one estimator."""
    pages = [page for page in sorted(site.glob("*.html")) if not page.name.startswith("estimator-")]
    return [*pages, *sorted(site.glob("estimator-*.html"))[:1]]


def main(store: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as exported, start_browser() as driver:
        command = [*CLI, "leaderboard", "--store", str(store), "--export", exported]
        subprocess.run(command, check=True)
        for page in list_static_pages(Path(exported)):
            for width in WIDTHS:
                save_screenshot(driver, page.as_uri(), width, folder / f"static-{page.stem}-{width}.webp")
        save_screenshot(
            driver, (Path(exported) / "index.html").as_uri(), 1280, folder / "static-index-1280-dark.webp", dark=True
        )
        with run_server([*CLI, "leaderboard", "--store", str(store)]) as address:
            for name in PAGES:
                for width in WIDTHS:
                    view = f"{address}/?page={name}{'&estimator=grad' * (name == 'estimator')}"
                    save_screenshot(driver, view, width, folder / f"app-{name}-{width}.webp")
            save_screenshot(driver, f"{address}/?page=board", 1280, folder / "app-board-1280-dark.webp", dark=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    main(arguments.store.resolve(), arguments.folder.resolve())

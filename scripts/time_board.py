"""How long the app takes with 200 estimators x 5 suites x 5 levels x 5 seeds, measured in Chromium on a warm server.

    python scripts/time_board.py [ESTIMATORS]

The rows are noise in the shape of results. Prints seconds as JSON; docs/leaderboard.md has those of one machine.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from screenshots import browser, free_port, until_up
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from leaderboard.commands import FOLDER, STORE, URL
from roarbench.estimators import ESTIMATORS, Estimator
from roarbench.plan import CLEAN, Block, Point, Suite, expand
from roarbench.store.provenance import Provenance
from roarbench.store.results import Result, ResultsStore, default_url, pack_answers
from roarbench.suites import SUITES
from roarbench.terms import PAPER_LEVELS, ROAR
from roarbench.workspace import bind

SUITE_COUNT, SEEDS, IMAGES = 5, 5, 2000
REPEATS = 5
ORIGIN = Provenance("0", {}, {})


def install(estimators: int) -> list[Suite]:
    """Put made-up estimators and suites into this process's tables."""
    names = [f"made-{number:03}" for number in range(estimators - 2)]
    ESTIMATORS.update({name: Estimator(name, f"base-{name[-1]}", "base", "made up for a timing") for name in names})
    block = Block(ROAR, ("random", "sobel", *names), PAPER_LEVELS, SEEDS)
    suites = [
        replace(SUITES["cifar10"], name=f"time-{i}", model=f"time-{i}", blocks=(block,)) for i in range(SUITE_COUNT)
    ]
    SUITES.update({suite.name: suite for suite in suites})
    return suites


def fill(folder: Path, suites: list[Suite]) -> None:
    """Write noise for every run."""
    generator = np.random.default_rng(0)
    with ResultsStore.open(default_url(folder)) as store:
        for suite in suites:
            store.add_all(_result(suite, point, generator) for point in expand(suite))


def _result(suite: Suite, point: Point, generator: np.random.Generator) -> Result:
    strength = 0.0 if point.cell.estimator == CLEAN else zlib.crc32(point.cell.estimator.encode()) % 50 / 100
    answers = generator.random(IMAGES) < 0.9 - point.cell.t * (0.3 + strength)
    run = bind(suite, point, "da7a" * 8, None)
    return Result(run, int(answers.sum()), IMAGES, pack_answers(answers), 1.0, ORIGIN)


def serve(folder: Path, port: int, estimators: int) -> None:
    """The app on that store; the tables are of this process, so Streamlit is started in it."""
    from streamlit.web import cli

    install(estimators)
    os.environ |= {URL: default_url(folder), STORE: str(folder)}
    os.chdir(FOLDER)
    cli.main_run([str(FOLDER / "app.py"), f"--server.port={port}"], standalone_mode=False)


def wait(driver: Chrome, found: Callable[[str], bool]) -> float:
    """Seconds until the page's text is as wanted and its script has ended."""
    start = time.perf_counter()
    while time.perf_counter() - start < 300:
        text = driver.execute_script("return document.querySelector('[data-testid=stMain]')?.innerText || ''")
        if found(text) and driver.find_elements(By.CSS_SELECTOR, "[data-testid=stDataFrame] canvas"):
            return time.perf_counter() - start
        time.sleep(0.01)
    raise TimeoutError("the board did not come up within five minutes")


def measure(address: str, estimators: int) -> dict[str, object]:
    """Time the first visit, later visits of every suite, and filters."""
    whole = f"{estimators} of {estimators} rows"
    with browser() as driver:
        driver.get(address)
        cold = wait(driver, lambda text: whole in text)
        views, filters = [], []
        for number in range(SUITE_COUNT):  # makes each suite's board once: now the server is warm
            driver.get(f"{address}/?suite=time-{number}-v1")
            wait(driver, lambda text, n=number: whole in text and f"time-{n}" in text)
        for number in range(REPEATS):
            start = time.perf_counter()
            driver.get(f"{address}/?suite=time-{number % SUITE_COUNT}-v1")
            wait(driver, lambda text: whole in text)
            views.append(time.perf_counter() - start)
        for word in ("00", "01", "1", "7", "05"):
            field = driver.find_element(By.CSS_SELECTOR, "input[aria-label^=Search]")
            field.send_keys(Keys.CONTROL, "a")
            field.send_keys(word)
            matching = sum(word in f"made-{i:03}" for i in range(estimators - 2))
            start = time.perf_counter()
            field.send_keys(Keys.ENTER)
            wait(driver, lambda text, m=matching: f"{m} of {estimators} rows" in text)
            filters.append(time.perf_counter() - start)
    return {"first_visit": cold, "warm_visits": views, "filters": filters}


def main(estimators: int) -> None:
    """Fill a store, start the app and print what was measured."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        fill(folder, install(estimators))
        command = [sys.executable, __file__, "--serve", name, str(port), str(estimators)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            until_up(port)
            print(json.dumps(measure(f"http://127.0.0.1:{port}", estimators), indent=1))
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)

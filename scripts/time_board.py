"""What showing a store costs: the one in demo/, and one of 200 estimators in 5 suites.

    python scripts/time_board.py [ESTIMATORS]

The large store is noise in the shape of results: 5 suites x ESTIMATORS x 5 levels x 5 seeds, 10,000 test images.
Prints JSON: processor seconds (user and system) and peak memory of the export, the table, the CSV of all rows, the
app's first view, and the app until it has judged all ahead, each in a process of its own. Where Chromium is installed,
seconds from the call of the address, or from the key press, to the new rows (the median of several, and all of them).
docs/performance.md and docs/leaderboard.md have the numbers of one machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from roarbench.estimators import Estimator
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.keys import bind
from roarbench.plan.points import Point, expand
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block, Suite
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.protocols.roar import ROAR
from roarbench.store.provenance import Provenance
from roarbench.store.result import Result, pack_answers
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import PAPER_LEVELS

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

DEMO = Path(__file__).resolve().parents[1] / "demo"
CHROMIUM = Path("/usr/bin/chromium")
SUITE_COUNT, SEEDS, IMAGES = 5, 5, 10_000
REPEATS = 10
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
    VERSIONS.update({(suite.name, suite.version): suite for suite in suites})  # which are what the board looks for
    return suites


def fill(folder: Path, suites: list[Suite]) -> None:
    """Write noise for every run."""
    generator = np.random.default_rng(0)
    with ResultsStore.open(default_url(folder)) as store:
        for suite in suites:
            store.add_all(_result(suite, point, generator) for point in expand(suite))


def _result(suite: Suite, point: Point, generator: np.random.Generator) -> Result:
    strength = 0.0 if point.cell.estimator == CLEAN else zlib.crc32(point.cell.estimator.encode()) % 50 / 100
    answers = generator.random(IMAGES, dtype=np.float32) < 0.9 - point.cell.t * (0.3 + strength)
    run = bind(suite, point, "da7a" * 8, None)
    return Result(run, int(answers.sum()), IMAGES, pack_answers(answers), 1.0, ORIGIN, weights=run.reference)


def in_fresh_process(call: Callable[..., None], *values: Any) -> dict[str, Any]:
    """Return processor seconds and peak memory of a call in a process that has imported nothing else."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_measured, call, values).result()


def _measured(call: Callable[..., None], values: Sequence[Any]) -> dict[str, Any]:
    start = time.process_time()
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        call(*values)
    return {"processor_seconds": time.process_time() - start, "peak_mib": peak_mebibytes("self")}


def peak_mebibytes(pid: int | str) -> int:
    """Return the memory of a process at its peak, in MiB."""
    (line,) = [x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmHWM")]
    return int(line.split()[1]) // 1024


def command(estimators: int, *words: str) -> None:
    """Do one command of the command line in this process."""
    from roarbench.cli.main import main

    install(estimators)
    sys.argv = ["roarbench", *words]
    with suppress(SystemExit):
        main()


def first_view(estimators: int, folder: Path) -> None:
    """Show the app's first page as a visitor of a fresh server gets it."""
    from streamlit.testing.v1 import AppTest

    from leaderboard import first

    install(estimators)
    os.environ[first.ASKED] = json.dumps((default_url(folder), str(folder)))
    shown = AppTest.from_file(str(Path(first.__file__).with_name("app.py")), default_timeout=600).run()
    assert not shown.exception, shown.exception
    assert any('class="board"' in getattr(part, "value", "") for part in shown.get("html"))


def commands(folder: Path, suite: str, estimators: int) -> dict[str, Any]:
    """Measure what shows a store, but for a browser's part."""
    store = ("--store", str(folder))
    with tempfile.TemporaryDirectory() as name:
        site, rows = Path(name, "site"), Path(name, "rows.csv")
        words = {
            "table": ("table", "--suite", suite, *store),
            "csv": ("export", str(rows), *store),
            "pages": ("leaderboard", "--export", str(site), *store),
        }
        found = {what: in_fresh_process(command, estimators, *each) for what, each in words.items()}
        found["pages"] |= {"files": len(list(site.iterdir())), "bytes": sum(x.stat().st_size for x in site.iterdir())}
        found["csv"] |= {"bytes": rows.stat().st_size}
    with serving(folder, estimators) as server:
        server.until_warm()
        warm = {"processor_seconds": server.seconds, "peak_mib": peak_mebibytes(server.pid)}
    return {**found, "app, first view": in_fresh_process(first_view, estimators, folder), "app, until warm": warm}


@dataclass(frozen=True)
class Server:
    """The app in a process of its own."""

    address: str
    pid: int

    @property
    def seconds(self) -> float:
        """Return the processor seconds so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def until_warm(self) -> None:
        """Wait until it has judged all ahead: it has done next to nothing for two seconds."""
        before = -1.0
        while self.seconds - before > 0.1:
            before = self.seconds
            time.sleep(2)


@contextmanager
def serving(folder: Path, estimators: int) -> Iterator[Server]:
    """Serve the app on a store in a process of its own."""
    from screenshots import free_port, until_up

    port = free_port()
    command = [sys.executable, __file__, "--serve", str(folder), str(port), str(estimators)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        until_up(port)
        yield Server(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait()


def serve(folder: Path, port: int, estimators: int) -> None:
    """Serve the app on that store; the tables are of this process, so it is started in it."""
    from leaderboard.commands import run_app
    from leaderboard.first import Shown

    install(estimators)
    run_app(Shown(default_url(folder), str(folder)), port)


def wait(driver: "Chrome", count: int) -> None:
    """Wait until so many rows are drawn and not hidden."""
    start = time.perf_counter()
    while time.perf_counter() - start < 300:
        if driver.execute_script("return document.querySelectorAll('.board tbody tr:not([hidden])').length") == count:
            return
        time.sleep(0.01)
    raise TimeoutError("the board did not come up within five minutes")


def visit(driver: "Chrome", address: str, suite: Suite) -> float:
    """Measure the seconds from the call of a suite's board to its rows."""
    driver.get("about:blank")
    start = time.perf_counter()
    driver.get(address)
    wait(driver, _matching(suite, ""))
    return time.perf_counter() - start


def from_command(driver: "Chrome", store: Path) -> float:
    """Measure the seconds from the command that starts the app to the first board's rows."""
    from screenshots import server

    start = time.perf_counter()
    with server(store) as address:
        driver.get(address)
        while not driver.execute_script("return document.querySelector('.board tbody tr')"):
            time.sleep(0.01)
        return time.perf_counter() - start


def search(driver: "Chrome", suite: Suite, word: str) -> float:
    """Measure the seconds from the key press to the rows with this word."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    field = driver.find_element(By.CSS_SELECTOR, ".find input[type=search]")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(word[:-1])
    start = time.perf_counter()
    field.send_keys(word[-1])
    wait(driver, _matching(suite, word))
    return time.perf_counter() - start


def _matching(suite: Suite, word: str) -> int:
    shown = [row for name in suite.estimators if name in ESTIMATORS and (row := ESTIMATORS[name]).placed]
    return sum(word in f"{row.id} {row.about}".casefold() for row in shown)


def measure(folder: Path, suites: list[Suite], words: list[str], estimators: int) -> dict[str, Any]:
    """Time visits of a warm server and of static pages, and searches."""
    from screenshots import browser

    with serving(folder, estimators) as server, browser() as driver, tempfile.TemporaryDirectory() as site:
        server.until_warm()
        in_fresh_process(command, estimators, "leaderboard", "--export", site, "--store", str(folder))
        pages = {f"{suite.name}-v{suite.version}": suite for suite in suites}
        asked = [list(pages)[number % len(pages)] for number in range(REPEATS)]
        first = Path(site, "index.html").as_uri()
        visit(driver, f"{server.address}/?suite={asked[0]}", suites[0])  # the browser's first page of all
        visits = [visit(driver, f"{server.address}/?suite={name}", pages[name]) for name in asked]
        static = [visit(driver, first, suites[0]) for _ in range(REPEATS)]
        filters = [search(driver, suites[0], word) for word in words]
    found = {"visit": visits, "static visit": static, "search": filters}
    return {name: {"median": median(each), "all": each} for name, each in found.items()}


def main(estimators: int) -> None:
    """Measure both stores."""
    from screenshots import browser

    tell("demo", commands(DEMO, "quick", 2))
    if CHROMIUM.exists():
        with browser() as driver:
            tell("demo, rows after the command", {"all": [from_command(driver, DEMO) for _ in range(REPEATS)]})
    with tempfile.TemporaryDirectory() as name:
        suites = install(estimators)
        fill(Path(name), suites)
        tell(f"{estimators} x 5", commands(Path(name), suites[0].name, estimators))
        if CHROMIUM.exists():
            words = ["00", "01", "1", "7", "05", "made", "9", "19", "10", "3"]
            tell(f"{estimators} x 5, browser", measure(Path(name), suites, words, estimators))


def tell(what: str, measured: dict[str, Any]) -> None:
    """Print a part as soon as it is there."""
    print(json.dumps({what: measured}, indent=1), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("estimators", type=int, nargs="?", default=200)
    parser.add_argument("--serve", nargs=2, metavar=("STORE", "PORT"), help="only run the app on a store of these")
    asked = parser.parse_args()
    if asked.serve:
        serve(Path(asked.serve[0]), int(asked.serve[1]), asked.estimators)
    else:
        main(asked.estimators)

"""Measure time and memory of showing a store: the store of `make demo`, and a store of 200 estimators in 5 suites.

    python scripts/time_board.py [ESTIMATORS]

The large store has random results: 5 suites x ESTIMATORS x 5 levels x 5 seeds, 10,000 test images. The program prints
JSON: processor seconds (user and system) and peak memory of a table, the exported pages and the app's first view, each
in its own process; and, in Chromium, wall seconds from opening a page to its rows and from a search to its row.
docs/performance.md has the numbers of one machine.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from make_demo import write_demo

from leaderboard import serve_and_export
from leaderboard.stored_suites import SHOWN_VARIABLE
from roarbench.common.enums import PAPER_LEVELS
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.estimators.estimator import Estimator
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import PlannedRun, build_run, list_planned_runs
from roarbench.plan.protocols import ROAR
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.plan.suites import SUITE_VERSIONS, SUITES
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.run_result import Provenance, RunResult, pack_correctness

SUITE_COUNT, SEEDS, IMAGES = 5, 5, 10_000
ORIGIN = Provenance("0", {}, {})


def install_made_up_suites(estimators: int) -> list[SuiteSpec]:
    """Add suites with this number of estimators to the catalogues of this process."""
    names = [f"made-{number:03}" for number in range(estimators - 2)]
    ESTIMATORS.update({name: Estimator(name, f"base-{name[-1]}", "base", "made up for a timing") for name in names})
    block = Block(ROAR, ("random", "sobel", *names), PAPER_LEVELS, SEEDS)
    suites = [
        replace(SUITES["cifar10"], name=f"time-{i}", model=f"time-{i}", blocks=(block,)) for i in range(SUITE_COUNT)
    ]
    SUITES.update({suite.name: suite for suite in suites})
    # the board looks suites up in SUITE_VERSIONS
    SUITE_VERSIONS.update({(suite.name, suite.version): suite for suite in suites})
    return suites


def fill_store(folder: Path, suites: list[SuiteSpec]) -> None:
    generator = np.random.default_rng(0)
    with ResultsStore.open(make_default_url(folder)) as store:
        for suite in suites:
            store.add_results(_make_result(suite, point, generator) for point in list_planned_runs(suite))


def _make_result(suite: SuiteSpec, point: PlannedRun, generator: np.random.Generator) -> RunResult:
    strength = 0.0 if point.cell.estimator == CLEAN else zlib.crc32(point.cell.estimator.encode()) % 50 / 100
    bits = generator.random(IMAGES, dtype=np.float32) < 0.9 - point.cell.t * (0.3 + strength)
    run = build_run(suite, point, "da7a" * 8, None)
    return RunResult(run, int(bits.sum()), IMAGES, pack_correctness(bits), 1.0, ORIGIN, weights=run.reference)


def measure_in_fresh_process(call: Callable[..., None], *values: Any) -> dict[str, Any]:
    """Measure processor seconds and peak memory of a call in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_measure_call, call, values).result()


def _measure_call(call: Callable[..., None], values: Sequence[Any]) -> dict[str, Any]:
    start = time.process_time()
    with Path(os.devnull).open("w") as null, redirect_stdout(null):
        call(*values)
    (peak,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return {"processor_seconds": time.process_time() - start, "peak_mib": int(peak.split()[1]) // 1024}


def run_command(estimators: int, *words: str) -> None:
    from roarbench.cli.main import main

    install_made_up_suites(estimators)
    sys.argv = ["roarbench", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, f"{words} ended with {end.code}"


def show_first_page(estimators: int, folder: Path) -> None:
    """Run the app's first page as the first visitor of a new server sees it."""
    from streamlit.testing.v1 import AppTest

    install_made_up_suites(estimators)
    os.environ[SHOWN_VARIABLE] = json.dumps((make_default_url(folder), str(folder)))
    app = AppTest.from_file(str(Path(serve_and_export.__file__).with_name("app.py")), default_timeout=600).run()
    assert not app.exception, app.exception
    assert any("<tbody" in getattr(part, "value", "") for part in app.get("html"))


def serve_app(estimators: int, folder: Path, port: int) -> None:
    install_made_up_suites(estimators)
    serve_and_export.run_streamlit(make_default_url(folder), folder, port)


def time_visits(estimators: int, folder: Path, site: Path, suite: str) -> dict[str, Any]:
    """Measure the wall time of views of a static page, of a search there, and of views of an app after 6 s."""
    from screenshots import find_free_port, start_browser, wait_for_app

    with start_browser() as driver:
        static, search = time_site_visit(driver, site, suite)
        server = get_context("spawn").Process(target=serve_app, args=(estimators, folder, port := find_free_port()))
        server.start()
        wait_for_app(port)
        time.sleep(6)
        app = [_time_loading(driver, f"http://127.0.0.1:{port}/") for _ in range(4)]
        server.terminate()
    return {"static, views": static, "static, search": search, "app, views": app}


def time_site_visit(driver: Any, site: Path, suite: str) -> tuple[list[float], float]:
    """Return the seconds of four views of the first static page, and of a search on a suite's board."""
    views = [_time_loading(driver, (site / "index.html").as_uri()) for _ in range(4)]
    _time_loading(driver, (site / f"board-{suite.replace('@', '-v')}.html").as_uri())
    driver.find_element("name", "q").send_keys("sobel")
    return views, _time_wait(
        driver, "[...document.querySelectorAll('#rows tr')].filter(row => !row.hidden).length == 1"
    )


def _time_loading(driver: Any, address: str) -> float:
    start = time.perf_counter()
    driver.get(address)
    return time.perf_counter() - start + _time_wait(driver, "document.querySelector('tbody tr')")


def _time_wait(driver: Any, condition: str) -> float:
    from selenium.webdriver.support.ui import WebDriverWait

    start = time.perf_counter()
    WebDriverWait(driver, 60, 0.01).until(lambda d: d.execute_script(f"return {condition}"))
    return time.perf_counter() - start


def measure_commands(folder: Path, suite: str, estimators: int) -> dict[str, Any]:
    """Measure the commands that show a store; `suite` is NAME@VERSION."""
    store = ("--store", str(folder))
    with tempfile.TemporaryDirectory() as name:
        site = Path(name, "site")
        commands = {
            "table": ("table", "--suite", suite, *store),
            "pages": ("leaderboard", "--export", str(site), *store),
        }
        costs = {name: measure_in_fresh_process(run_command, estimators, *words) for name, words in commands.items()}
        sizes = [path.stat().st_size for path in site.iterdir()]
        costs["pages"] |= {"files": len(sizes), "bytes": sum(sizes)}
        costs["wall seconds"] = time_visits(estimators, folder, site, suite)
    return {**costs, "app, first view": measure_in_fresh_process(show_first_page, estimators, folder)}


def main(estimators: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        write_demo(Path(name))
        print(json.dumps({"demo": measure_commands(Path(name), "quick@6", 2)}, indent=1), flush=True)
    with tempfile.TemporaryDirectory() as name:
        suites = install_made_up_suites(estimators)
        fill_store(Path(name), suites)
        print(
            json.dumps({f"{estimators} x 5": measure_commands(Path(name), suites[0].versioned, estimators)}, indent=1)
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("estimators", type=int, nargs="?", default=200)
    main(**vars(parser.parse_args()))

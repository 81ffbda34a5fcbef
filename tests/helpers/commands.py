"""What whole commands leave behind: rows, tables, processes."""

import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from roarbench.store.results import ResultsStore
from roarbench.store.run_result import RunResult

PROGRAM = str(Path(sys.executable).with_name("roarbench"))
PATIENCE = 300.0  # seconds that a slow machine may take before a test gives up; none is spent on a quick one
LARGER = ("--suite", "planted", "--max-images", "40")  # takes long enough to be ended on the way
PART = (*LARGER, "--estimators", "truth", "--seeds", "1", "--workers", "1")


def rows(store: Path) -> int:
    """Count the finished runs of a folder, without disturbing who writes them."""
    try:
        with closing(sqlite3.connect(f"file:{store}/results.sqlite?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.OperationalError:  # no store yet
        return 0


def read_results(url: str) -> dict[str, RunResult]:
    with ResultsStore.open(url, read_only=True) as store:
        return store.read_results(store.list_result_keys(""))


def read_outcomes(url: str) -> dict[str, tuple[bytes, str]]:
    """Return the answers of every finished run, and the checksum of the rankings that it removed by."""
    return {key: (row.bits, row.rankings) for key, row in read_results(url).items()}


def wait_until(condition: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Wait until something is so; False if it never is."""
    deadline = time.monotonic() + patience
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(found)


def list_living_processes(session: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(its_session) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return sorted(found)
